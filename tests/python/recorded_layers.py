"""The cases of the golden files of tests/nn as Python calls them, for test_nn_recorded.py and test_compile_layers.py.

A case is made from its description alone, without torch or numpy: the module, the arguments of its call, the call.
"""
import json
import pathlib
import struct

import cairn
from cairn import nn
from cairn.nn.utils.rnn import PackedSequence

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "nn" / "golden"
# Whose arguments have other names in torch than in the call signature of C.
BY_POSITION = {"AdaptiveLogSoftmaxWithLoss"}


def described(name):
    """The descriptions in the file of a family, and its tensors."""
    path = FOLDER / f"{name}.safetensors"
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
    return json.loads(header["__metadata__"]["cases"]), cairn.load(str(path))


def flat(result):
    if isinstance(result, PackedSequence):
        return [result.data]
    if isinstance(result, (tuple, list)):
        return [t for r in result for t in flat(r)]
    return [result]


def value(said, tensors):
    """What the description of an argument means."""
    if isinstance(said, list):
        return tuple(value(v, tensors) for v in said)
    if not isinstance(said, dict):
        return said
    kind, = said.keys() - {"make"}
    if kind == "module":
        return getattr(nn, said["module"])(**values(said["make"], tensors))
    return {"tensor": lambda name: tensors[name].clone(), "float": float,
            "dtype": lambda name: getattr(cairn, name)}[kind](said[kind])


def values(said, tensors):
    return {k: value(v, tensors) for k, v in said.items()}


def made(i, case, tensors):
    """The module of case i, with its state."""
    module = getattr(nn, case["class"])(**values(case["make"], tensors))
    module.load_state_dict({k: tensors[f"{i}.state.{k}"] for k in case["state"]})
    return module


def called(module, case, given):
    """The call as Python writes it: packed sequences and pairs of states are one argument."""
    given = dict(given)
    if "batch_sizes" in given:
        given["input"] = PackedSequence(given.pop("input"), given.pop("batch_sizes"))
    states = [given.pop(name) for name in ("h_0", "c_0") if name in given]
    if states:
        return module(given["input"], tuple(states) if case["class"].startswith("LSTM") else states[0])
    return module(*given.values()) if case["class"] in BY_POSITION else module(**given)
