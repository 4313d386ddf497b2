"""Cases of src/nn/rnn.c and rnn_cell.c. See README.md."""
import torch
from torch.nn.utils.rnn import PackedSequence

from golden import Case, T

CASES = []
SIZES = torch.tensor([3, 3, 2, 1])


def gives(cls):
    """How the module of torch is called: states in a tuple for an LSTM; packed where there are batch sizes."""
    def run(m, v):
        x = v["input"]
        if v.get("batch_sizes") is not None:
            x = PackedSequence(x, v["batch_sizes"])
        states = v.get("h_0")
        if cls == "LSTM" and states is not None:
            states = (states, v["c_0"])
        y, last = m(x, states)
        return (y.data if isinstance(y, PackedSequence) else y), last
    return run


def case(cls, make, call, **more):
    CASES.append(Case(cls, {"input_size": 2, "hidden_size": 3, **make}, call, run=gives(cls), **more))


def states(cls, *shape, projected=None):
    out = {"h_0": T(*shape[:-1], projected or shape[-1])}
    if cls == "LSTM":
        out["c_0"] = T(*shape)
    return out


for name in ("RNN", "LSTM", "GRU"):
    one = ("train",)  # dropout aside, both modes do the same
    case(name, {}, {"input": T(5, 2, 2)}, work=name != "LSTM")  # torch's counter does not see its fused LSTM
    case(name, {"bias": False}, {"input": T(5, 2, 2), **states(name, 1, 2, 3)}, modes=one)
    case(name, {"batch_first": True}, {"input": T(2, 5, 2), **states(name, 1, 2, 3)}, modes=one)
    case(name, {"num_layers": 2, "bidirectional": True}, {"input": T(4, 2, 2), **states(name, 4, 2, 3)}, modes=one)
    case(name, {"num_layers": 2, "bidirectional": True, "batch_first": True}, {"input": T(2, 4, 2)}, modes=one)
    case(name, {"bidirectional": True}, {"input": T(5, 2), **states(name, 2, 3)}, modes=one)
    case(name, {}, {"input": T(5, 2)}, modes=one)
    case(name, {}, {"input": T(1, 2, 2), **states(name, 1, 2, 3)}, modes=one, note="one step")
    case(name, {"bidirectional": True}, {"input": T(1, 2, 2)}, modes=one, note="one step")
    case(name, {"num_layers": 2, "dropout": 0.5}, {"input": T(3, 2, 2)}, modes=("eval",))
    case(name, {"num_layers": 2, "dropout": 1.0}, {"input": T(3, 2, 2)}, modes=one)
    case(name, {}, {"input": T(9, 2), "batch_sizes": SIZES}, modes=one)
    case(name, {"num_layers": 2, "bidirectional": True},
         {"input": T(9, 2), **states(name, 4, 3, 3), "batch_sizes": SIZES}, modes=one)
    case(name, {"dropout": 1.5, "num_layers": 2}, {}, error="make")
    case(name, {"num_layers": 0}, {}, error="make")
    case(name, {"hidden_size": 0}, {}, error="make")
    case(name, {}, {"input": T(5, 2, 3)}, modes=one, error="call")
    case(name, {}, {"input": T(2)}, modes=one, error="call")
    case(name, {}, {"input": T(5, 2, 2), **states(name, 2, 2, 3)}, modes=one, error="call")
    case(name, {}, {"input": T(5, 2, 2), **states(name, 1, 3)}, modes=one, error="call")

CASES.append(Case("GRU", {"input_size": 2, "hidden_size": 2, "num_layers": 2, "dropout": 0.4}, {"input": T(2, 1, 2)},
                  run=lambda m, v: m(v["input"])[0], modes=("train",), random=True))
case("RNN", {"nonlinearity": "relu", "num_layers": 2}, {"input": T(4, 2, 2)})
case("RNN", {"nonlinearity": "relu"}, {"input": T(9, 2), "batch_sizes": SIZES}, modes=("train",))
case("RNN", {"nonlinearity": "gelu"}, {}, error="make")

for call in ({"input": T(5, 2, 2)}, {"input": T(4, 2, 2), **states("LSTM", 4, 2, 3, projected=2)},
             {"input": T(1, 2, 2)}, {"input": T(9, 2), "batch_sizes": SIZES},
             {"input": T(9, 2), **states("LSTM", 4, 3, 3, projected=2), "batch_sizes": SIZES}):
    several = {"num_layers": 2, "bidirectional": True} if "h_0" in call else {}
    case("LSTM", {"proj_size": 2, **several}, call, modes=("train",))
case("LSTM", {"proj_size": 2, "batch_first": True, "bias": False}, {"input": T(2, 10, 2)}, modes=("train",))
case("LSTM", {"proj_size": 3}, {}, error="make")

for name in ("RNNCell", "LSTMCell", "GRUCell"):
    def step(m, v, memory=name == "LSTMCell"):
        if v.get("h_0" if memory else "hx") is None:
            return m(v["input"])
        return m(v["input"], (v["h_0"], v["c_0"]) if memory else v["hx"])

    def hidden(*shape, memory=name == "LSTMCell"):
        return {"h_0": T(*shape), "c_0": T(*shape)} if memory else {"hx": T(*shape)}

    sizes = {"input_size": 2, "hidden_size": 3}
    CASES += [
        Case(name, sizes, {"input": T(2, 2), **hidden(2, 3)}, run=step),
        Case(name, sizes, {"input": T(2, 2)}, run=step),
        Case(name, {**sizes, "bias": False}, {"input": T(2), **hidden(3)}, run=step),
        Case(name, sizes, {"input": T(2, 3)}, run=step, error="call"),
        Case(name, sizes, {"input": T(2, 2), **hidden(3, 3)}, run=step, error="call"),
    ]
CASES += [
    Case("RNNCell", {"input_size": 2, "hidden_size": 3, "nonlinearity": "relu"}, {"input": T(2, 2), "hx": T(2, 3)}),
    Case("RNNCell", {"input_size": 2, "hidden_size": 3, "nonlinearity": "gelu"}, {"input": T(2, 2)}, error="call"),
]
