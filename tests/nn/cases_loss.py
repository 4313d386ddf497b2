"""Cases of src/nn/loss.c and adaptive_softmax.c. See README.md."""
import torch

from golden import Case, M, T

EVERY = ("none", "mean", "sum")
CASES = []


def losses(cls, call, make=None, reductions=EVERY, **more):
    """Losses do not depend on the mode, so one is compared."""
    for reduction in reductions:
        CASES.append(Case(cls, {**(make or {}), "reduction": reduction}, call, modes=("train",), **more))


PAIR = {"input": T(3, 4), "target": T(3, 4)}
SIGNS = torch.tensor([1.0, -1.0, -1.0])
UNIT = {"low": 0.05, "high": 0.95}
WEIGHTS = torch.tensor([0.5, 2.0, 1.5, 0.25])
CLASSES = torch.tensor([1, 3, 0])

CASES += [Case("L1Loss", {}, PAIR, modes=("train",))]  # the default
losses("L1Loss", PAIR)
losses("MSELoss", PAIR)
losses("SmoothL1Loss", PAIR)
losses("SmoothL1Loss", PAIR, {"beta": 0.3})
losses("SmoothL1Loss", PAIR, {"beta": 0.0})
losses("HuberLoss", PAIR)
losses("HuberLoss", PAIR, {"delta": 0.4})
CASES += [Case("MSELoss", {"reduction": "most"}, PAIR, modes=("train",), error="call")]

losses("CrossEntropyLoss", {"input": T(3, 4), "target": CLASSES})
losses("CrossEntropyLoss", {"input": T(4), "target": torch.tensor(2)})
losses("CrossEntropyLoss", {"input": T(3, 4), "target": CLASSES}, {"weight": WEIGHTS, "label_smoothing": 0.2})
losses("CrossEntropyLoss", {"input": T(3, 4), "target": CLASSES}, {"ignore_index": 0})
losses("CrossEntropyLoss", {"input": T(3, 4, 2, 2), "target": T(3, 2, 2, low=0, high=4, ints=True)})
losses("CrossEntropyLoss", {"input": T(3, 4), "target": T(3, 4, **UNIT)}, {"weight": WEIGHTS})
LINEAR = {"in_features": 2, "num_classes": 4}
losses("LinearCrossEntropyLoss", {"input": T(3, 2), "target": CLASSES}, LINEAR)
losses("LinearCrossEntropyLoss", {"input": T(3, 2), "target": T(3, 3, 1, low=0, high=4, ints=True)},
       {**LINEAR, "out_features": (3, 1), "bias": True, "ignore_index": 1})
losses("LinearCrossEntropyLoss", {"input": T(3, 2), "target": T(3, 4, **UNIT)},
       {**LINEAR, "weight": WEIGHTS, "label_smoothing": 0.1}, fixed=("target",))
losses("LinearCrossEntropyLoss", {"input": T(2), "target": torch.tensor(2)}, LINEAR, reductions=("mean",))
CASES += [
    Case("LinearCrossEntropyLoss", {**LINEAR, "weight": torch.ones(3)}, error="make"),
    Case("LinearCrossEntropyLoss", {**LINEAR, "label_smoothing": 1.5}, error="make"),
]
losses("NLLLoss", {"input": T(3, 4), "target": CLASSES})
losses("NLLLoss", {"input": T(3, 4, 2), "target": T(3, 2, low=0, high=4, ints=True)},
       {"weight": WEIGHTS, "ignore_index": 1})
CASES += [Case("CrossEntropyLoss", {}, {"input": T(3, 4), "target": torch.tensor([1, 4, 0])}, modes=("train",),
               error="call")]
losses("KLDivLoss", {"input": T(3, 4), "target": T(3, 4, **UNIT)}, reductions=EVERY + ("batchmean",))
losses("KLDivLoss", {"input": T(3, 4), "target": T(3, 4)}, {"log_target": True}, reductions=("batchmean",))
losses("BCELoss", {"input": T(3, 4, **UNIT), "target": T(3, 4, **UNIT)}, fixed=("target",))
losses("BCELoss", {"input": T(3, 4, **UNIT), "target": T(3, 4, **UNIT)}, {"weight": WEIGHTS}, fixed=("target",))
losses("BCEWithLogitsLoss", {"input": T(3, 4), "target": T(3, 4, **UNIT)})
losses("BCEWithLogitsLoss", {"input": T(3, 4), "target": T(3, 4, **UNIT)},
       {"weight": torch.tensor([[1.0], [0.5], [2.0]]), "pos_weight": WEIGHTS})
CASES += [Case("BCEWithLogitsLoss", {"pos_weight": WEIGHTS}, {"input": T(3, 4), "target": T(3, 4, **UNIT)},
               modes=("train",))]

CTC = {"targets": torch.tensor([[1, 2, 2], [3, 1, 0]]), "input_lengths": torch.tensor([6, 5]),
       "target_lengths": torch.tensor([3, 2])}
losses("CTCLoss", {"log_probs": T(6, 2, 4, low=-3.0, high=-0.1), **CTC})
losses("CTCLoss", {"log_probs": T(6, 2, 5, low=-3.0, high=-0.1), **CTC}, {"blank": 4, "zero_infinity": True})
losses("CTCLoss", {"log_probs": T(6, 4, low=-3.0, high=-0.1), "targets": torch.tensor([1, 3]),
                   "input_lengths": torch.tensor(6), "target_lengths": torch.tensor(2)})

losses("PoissonNLLLoss", {"log_input": T(3, 4), "target": T(3, 4, low=0.5, high=4.0)}, fixed=("target",))
losses("PoissonNLLLoss", {"log_input": T(3, 4, low=0.5, high=2.0), "target": T(3, 4, low=0.5, high=4.0)},
       {"log_input": False, "full": True, "eps": 0.01}, fixed=("target",))
losses("GaussianNLLLoss", {"input": T(3, 4), "target": T(3, 4), "var": T(3, 4, low=0.5, high=2.0)})
losses("GaussianNLLLoss", {"input": T(3, 4), "target": T(3, 4), "var": T(3, 1, low=0.5, high=2.0)},
       {"full": True, "eps": 0.9})

losses("MarginRankingLoss", {"input1": T(3), "input2": T(3), "target": SIGNS}, fixed=("target",))
losses("MarginRankingLoss", {"input1": T(3), "input2": T(3), "target": SIGNS}, {"margin": 0.7}, fixed=("target",))
losses("HingeEmbeddingLoss", {"input": T(3), "target": SIGNS}, fixed=("target",))
losses("HingeEmbeddingLoss", {"input": T(3), "target": SIGNS}, {"margin": 2.5}, fixed=("target",))
losses("SoftMarginLoss", {"input": T(3), "target": SIGNS}, fixed=("target",))
losses("MultiMarginLoss", {"input": T(3, 4), "target": CLASSES})
losses("MultiMarginLoss", {"input": T(3, 4), "target": CLASSES}, {"p": 2, "margin": 0.5, "weight": WEIGHTS})
losses("MultiLabelMarginLoss", {"input": T(2, 4), "target": torch.tensor([[3, 0, -1, 1], [1, -1, 0, 0]])})
losses("MultiLabelSoftMarginLoss", {"input": T(3, 4), "target": T(3, 4, low=0.0, high=1.0)}, fixed=("target",))
losses("MultiLabelSoftMarginLoss", {"input": T(3, 4), "target": T(3, 4, low=0.0, high=1.0)}, {"weight": WEIGHTS},
       fixed=("target",))
losses("CosineEmbeddingLoss", {"input1": T(3, 4), "input2": T(3, 4), "target": SIGNS}, fixed=("target",))
losses("CosineEmbeddingLoss", {"input1": T(3, 4), "input2": T(3, 4), "target": SIGNS}, {"margin": -0.5},
       fixed=("target",))

TRIPLET = {"anchor": T(3, 4), "positive": T(3, 4), "negative": T(3, 4)}
losses("TripletMarginLoss", TRIPLET)
losses("TripletMarginLoss", TRIPLET, {"margin": 2.5, "p": 1.0, "swap": True, "eps": 0.01})
losses("TripletMarginWithDistanceLoss", TRIPLET)
losses("TripletMarginWithDistanceLoss", TRIPLET, {"margin": 2.0, "swap": True})
losses("TripletMarginWithDistanceLoss", TRIPLET, {"distance_function": M("PairwiseDistance", p=1.0)})
CASES += [
    Case("TripletMarginLoss", {"margin": 0.0}, error="make"),
    Case("TripletMarginWithDistanceLoss", {"margin": 0.0}, error="make"),
    Case("MultiMarginLoss", {"p": 3}, error="make"),
]


def adaptive(m, v):
    return tuple(m(v["input"], v["target"]))


ADAPTIVE = {"in_features": 8, "n_classes": 12, "cutoffs": [4, 7], "div_value": 2.0}
CASES += [
    Case("AdaptiveLogSoftmaxWithLoss", ADAPTIVE, {"input": T(6, 8), "target": torch.tensor([0, 11, 3, 5, 7, 4])},
         run=adaptive),
    Case("AdaptiveLogSoftmaxWithLoss", {**ADAPTIVE, "head_bias": True},
         {"input": T(3, 8), "target": torch.tensor([0, 2, 3])}, run=adaptive, note="no cluster"),
    Case("AdaptiveLogSoftmaxWithLoss", ADAPTIVE, {"input": T(8), "target": torch.tensor(9)}, run=adaptive),
    Case("AdaptiveLogSoftmaxWithLoss", ADAPTIVE, {"input": T(2, 8), "target": torch.tensor([1, 12])}, run=adaptive,
         error="call"),
    Case("AdaptiveLogSoftmaxWithLoss", {**ADAPTIVE, "cutoffs": [4, 4]}, error="make"),
    Case("AdaptiveLogSoftmaxWithLoss", {**ADAPTIVE, "cutoffs": [4, 12]}, error="make"),
]
