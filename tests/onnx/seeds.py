#!/usr/bin/env python3
"""Writes tests/fuzz/seeds/onnx: small models, one for each part of the format, from which the fuzzer of ONNX begins.

usage: tests/onnx/seeds.py          (needs neither the onnx package nor cairn)
"""
import struct
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

from onnx_files import FLOAT, INT64, STRING, field, info, model, node, sequence, weight  # noqa: E402

BOOL = 9


def graph_attribute(name, *parts):
    return field(5, field(1, name) + field(6, b"".join(parts)) + field(20, 5))


def ints_attribute(name, values):
    return field(5, field(1, name) + b"".join(field(8, v) for v in values) + field(20, 7))


def call(op, inputs, outputs, attributes=b"", domain=""):
    """A node; names with a blank between, "-" for one that is left out."""
    names = [field(n, "" if name == "-" else name) for n, text in ((1, inputs), (2, outputs)) for name in text.split()]
    return field(1, b"".join(names) + field(4, op) + field(7, domain) + attributes)


def numbers(name, values):
    """An initialiser of int64, its numbers as varints."""
    return field(5, field(1, len(values)) + field(2, INT64) + field(8, name) + b"".join(field(7, v) for v in values))


def texts(name, values):
    return field(5, field(1, len(values)) + field(2, STRING) + field(8, name) + b"".join(field(6, v) for v in values))


def model_of(opsets, graph, *functions):
    versions = b"".join(field(8, field(1, domain) + field(2, version)) for domain, version in opsets.items())
    return field(1, 10) + versions + field(7, b"".join(graph)) + b"".join(field(25, f) for f in functions)


X, Y = info(11, "x", FLOAT, ("N", 4)), info(12, "y", FLOAT, ())
IMAGE = info(11, "x", FLOAT, (1, 2, 5, 5))

STEP = (node("Add", "v x", "w"), node("Identity", "on", "on2"), node("Identity", "w", "row"), info(11, "i", INT64),
        info(11, "on", BOOL), info(11, "v", FLOAT), info(12, "on2", BOOL), info(12, "w", FLOAT), info(12, "row", FLOAT))
ROW = (node("Add", "s r", "t"), node("Identity", "t", "u"), info(11, "s", FLOAT), info(11, "r", FLOAT),
       info(12, "t", FLOAT), info(12, "u", FLOAT))
OUTSIDE = field(5, field(1, 4) + field(2, FLOAT) + field(8, "w") + field(14, 1)
                + field(13, field(1, "location") + field(2, "w.bin")) + field(13, field(1, "offset") + field(2, "0")))
SPARSE = field(15, field(1, field(1, 2) + field(2, FLOAT) + field(8, "w") + field(9, struct.pack("<2f", 1, 2)))
               + field(2, field(1, 2) + field(2, INT64) + field(7, 0) + field(7, 3)) + field(3, 4))
TWICE = (field(1, "Twice") + field(4, "a") + field(5, "b") + field(6, "k")
         + field(7, field(1, "a") + field(1, "a") + field(2, "b") + field(4, "Add"))
         + field(9, field(1, "") + field(2, 17)) + field(10, "my"))

SEEDS = {
    "softmax": model(node("Mul", "x x", "s"), node("Softmax", "s", "y", axis=-1), X, Y),
    "network": model(call("Conv", "x w b", "a", ints_attribute("pads", [1, 1, 1, 1])), node("Relu", "a", "c"),
                     call("MaxPool", "c", "d", ints_attribute("kernel_shape", [2, 2])), node("Flatten", "d", "y"),
                     weight("w", range(54), 3, 2, 3, 3), weight("b", [0, 1, 2], 3), IMAGE, Y),
    "shapes": model(node("Shape", "x", "s"), node("Gather", "s one", "n"), node("Concat", "n rest", "t", axis=0),
                    node("Reshape", "x t", "a"), call("Transpose", "a", "b", ints_attribute("perm", [1, 0])),
                    node("Slice", "b zero one", "c"), node("Unsqueeze", "c zero", "d"), node("Pad", "d pads", "y"),
                    numbers("one", [1]), numbers("rest", [-1]), numbers("zero", [0]),
                    numbers("pads", [0, 1, 0, 0, 1, 0]), X, Y),
    "branches": model(call("If", "c", "y", graph_attribute("then_branch", node("Neg", "x", "p"), info(12, "p", FLOAT))
                           + graph_attribute("else_branch", node("Abs", "x", "q"), info(12, "q", FLOAT))),
                      info(11, "c", BOOL), X, Y),
    "loop": model(call("Loop", "m - x", "y rows", graph_attribute("body", *STEP)), numbers("m", [3]), X, Y,
                  info(12, "rows", FLOAT)),
    "scan": model(call("Scan", "x0 x", "y rows", graph_attribute("body", *ROW) + field(5, field(1, "num_scan_inputs")
                  + field(3, 1) + field(20, 2))), weight("x0", [0, 0, 0, 0], 4), X, Y, info(12, "rows", FLOAT)),
    "function": model_of({"": 17, "my": 1}, [call("Twice", "x", "y", domain="my"), X, Y], TWICE),
    "outside": model(node("Add", "x w", "y"), OUTSIDE, X, Y),
    "sparse": model(node("Add", "x w", "y"), SPARSE, X, Y),
    "sequences": model(node("SequenceConstruct", "x x", "q"), node("SequenceInsert", "q x", "r"),
                       node("SequenceAt", "r zero", "y"), node("Optional", "x", "o"),
                       node("OptionalHasElement", "o", "has"), numbers("zero", [0]), X, Y, sequence(12, "r", FLOAT)),
    "strings": model_of({"": 20}, [node("StringConcat", "s s", "a"), node("StringSplit", "a", "b c", maxsplit=2),
                                   texts("s", ["one two", "\u00fc"]), info(12, "b", STRING), info(12, "c", INT64)]),
    "quantised": model(node("QuantizeLinear", "x scale", "q"), node("DequantizeLinear", "q scale", "y"),
                       weight("scale", [0.5]), X, Y),
    "recurrent": model(node("LSTM", "x w r", "y", hidden_size=1), weight("w", range(16), 1, 4, 4),
                       weight("r", range(4), 1, 4, 1), info(11, "x", FLOAT, ("T", 1, 4)), Y),
    "ml": model_of({"": 17, "ai.onnx.ml": 3}, [call("Binarizer", "x", "y", domain="ai.onnx.ml"), X, Y]),
    "fused": model_of({"": 17, "com.microsoft": 1}, [call("BiasGelu", "x b", "y", domain="com.microsoft"),
                                                     weight("b", [1, 2, 3, 4], 4), X, Y]),
}

if __name__ == "__main__":
    folder = ROOT / "tests" / "fuzz" / "seeds" / "onnx"
    for name, data in SEEDS.items():
        (folder / f"{name}.onnx").write_bytes(data)
    print(f"{len(SEEDS)} models in {folder}")
