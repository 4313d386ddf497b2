"""Embedding and EmbeddingBag."""
import torch

from golden import Case, T


def ids(*shape, high=6):
    return T(*shape, low=0, high=high, ints=True)


# Mostly below 1 in length after what golden.py adds, with a few rows above.
SIX_BY_THREE = {"num_embeddings": 6, "embedding_dim": 3}
FLAT = torch.tensor([1, 2, 4, 5, 4, 3, 2, 0])
OFFSETS = torch.tensor([0, 3, 3, 6])

TABLES = [
    Case("Embedding", SIX_BY_THREE, {"input": ids(2, 4)}),
    Case("Embedding", SIX_BY_THREE, {"input": torch.tensor(3)}),
    Case("Embedding", {**SIX_BY_THREE, "padding_idx": 2}, {"input": torch.tensor([[2, 1, 2], [0, 2, 5]])}),
    Case("Embedding", {**SIX_BY_THREE, "padding_idx": -1}, {"input": torch.tensor([5, 1, 5])}),
    Case("Embedding", {**SIX_BY_THREE, "max_norm": 1.0}, {"input": torch.tensor([[0, 1], [1, 4]])}),
    Case("Embedding", {**SIX_BY_THREE, "max_norm": 0.5, "norm_type": 1.0}, {"input": torch.tensor([3, 1])}),
    Case("Embedding", {**SIX_BY_THREE, "scale_grad_by_freq": True}, {"input": torch.tensor([[1, 2, 1], [1, 0, 2]])}),
    Case("Embedding", {**SIX_BY_THREE, "sparse": True}, {"input": torch.tensor([[1, 2], [1, 0]])}),
    Case("Embedding", {**SIX_BY_THREE, "_weight": T(6, 3)}, {"input": torch.tensor([0, 5])}, move=False),
    Case("Embedding", {**SIX_BY_THREE, "_weight": T(6, 3), "_freeze": True}, {"input": torch.tensor([0, 5])}),
    Case("Embedding", {**SIX_BY_THREE, "padding_idx": 6}, {}, error="make"),
    Case("Embedding", {**SIX_BY_THREE, "padding_idx": -7}, {}, error="make"),
    Case("Embedding", {**SIX_BY_THREE, "_weight": T(6, 4)}, {}, error="make"),
    Case("Embedding", SIX_BY_THREE, {"input": torch.tensor([6])}, error="call"),
    Case("Embedding", SIX_BY_THREE, {"input": T(2)}, error="call"),
]


def bag(make, **call):
    return Case("EmbeddingBag", {**SIX_BY_THREE, **make}, call)


BAGS = [
    *[bag({"mode": mode}, input=ids(2, 4)) for mode in ("sum", "mean", "max")],
    *[bag({"mode": mode}, input=FLAT, offsets=OFFSETS) for mode in ("sum", "mean", "max")],
    *[bag({"mode": mode, "padding_idx": 2}, input=FLAT, offsets=OFFSETS) for mode in ("sum", "mean", "max")],
    bag({"include_last_offset": True}, input=FLAT, offsets=torch.tensor([0, 2, 6, 8])),
    bag({"mode": "sum"}, input=FLAT, offsets=OFFSETS, per_sample_weights=T(8)),
    bag({"mode": "sum", "padding_idx": 4}, input=FLAT.reshape(2, 4), per_sample_weights=T(2, 4)),
    bag({"mode": "sum", "scale_grad_by_freq": True}, input=FLAT, offsets=OFFSETS),
    bag({"mode": "mean", "scale_grad_by_freq": True}, input=FLAT, offsets=OFFSETS),
    bag({"max_norm": 1.0}, input=FLAT, offsets=OFFSETS),
    bag({"max_norm": 1.0, "norm_type": 1.0, "mode": "sum"}, input=FLAT, offsets=OFFSETS),
    bag({"sparse": True}, input=FLAT, offsets=OFFSETS),
    Case("EmbeddingBag", {**SIX_BY_THREE, "_weight": T(6, 3)}, {"input": ids(2, 2)}, move=False),
    Case("EmbeddingBag", {**SIX_BY_THREE, "mode": "median"}, {"input": ids(2, 2)}, error="call"),
    Case("EmbeddingBag", {**SIX_BY_THREE, "mode": "mean"},
         {"input": FLAT, "offsets": OFFSETS, "per_sample_weights": T(8)}, error="call"),
    Case("EmbeddingBag", SIX_BY_THREE, {"input": FLAT}, error="call"),
    Case("EmbeddingBag", SIX_BY_THREE, {"input": FLAT.reshape(2, 4), "offsets": OFFSETS}, error="call"),
]

CASES = TABLES + BAGS
