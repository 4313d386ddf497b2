#!/usr/bin/env python3
"""Writes tests/onnx/cases.gz: a sample of ONNX's own cases, and of differ.py's random calls with onnxruntime's results,
which tests/python/test_onnx_cases.py runs where neither package is installed.

usage: PYTHONPATH=build/default/python PYTHON_WITH_ONNX tests/onnx/sample.py

Of each operator the smallest cases that cairn passes, and that tensors and strings say all of. Needs onnx, onnxruntime.
"""

import pathlib
import sys
import warnings
import zlib

import numpy as np
from onnx import numpy_helper

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "python"))

import conformance  # noqa: E402
import differ  # noqa: E402
import draws  # noqa: E402
import onnx_cases  # noqa: E402

CASES, CALLS, LARGEST = 2, 1, 6000  # of an operator, of each of its versions; bytes


def message(value):
    """An array as a TensorProto's bytes; None where it is no array."""
    if hasattr(value, "SerializeToString"):
        return value.SerializeToString(deterministic=True)
    value = np.asarray(value)
    return (
        numpy_helper.from_array(value).SerializeToString(deterministic=True)
        if value.dtype != object or all(isinstance(x, (str, bytes)) for x in value.ravel())
        else None
    )


def kept(name, limits, model, inputs, outputs):
    """The case, if it is small and cairn passes it."""
    if any(isinstance(x, (list, dict)) or x is None for x in [*inputs, *outputs]):
        return None
    case = (
        name,
        limits,
        model.SerializeToString(deterministic=True),
        [message(x) for x in inputs],
        [message(x) for x in outputs],
    )
    blobs = [case[2], *case[3], *case[4]]
    if any(blob is None for blob in blobs) or sum(map(len, blobs)) > LARGEST:
        return None
    try:
        return None if onnx_cases.wrong(*case[1:]) else case
    except Exception:
        return None


def of_onnx():
    by_operator = {}
    for case, _ in conformance.cases(None):
        if case.model is None or case.name in conformance.KNOWN:
            continue
        names = conformance.operators_of(case)
        inputs, outputs = next(iter(conformance.data_sets(case, case.model)))
        made = kept(case.name, (case.rtol, case.atol), case.model, inputs, outputs)
        if made:
            by_operator.setdefault(names[0] if len(names) == 1 else "several", []).append(made)
    for name, found in sorted(by_operator.items()):
        found.sort(key=lambda case: sum(map(len, case[3])) + len(case[2]))
        yield from found[: 40 if name == "several" else CASES]


def of_runtime():
    for name, first, last, schema in differ.schemas(7, draws.FAMILIES):
        found = 0
        for i in range(40):
            if name not in draws.FAMILIES or found == CALLS:
                break
            rng = np.random.default_rng([99, i, zlib.crc32(name.encode()), first])
            d = draws.Draw(rng, name, int(rng.integers(first, last + 1)), schema)
            d.first = first
            draws.FAMILIES[name](d)
            model, feeds = differ.model_of(d)
            want, _ = differ.attempt(differ.by_runtime, model, feeds)
            if want is None:
                continue
            numbers = [
                np.asarray(x) for x in want if not isinstance(x, (list, dict)) and np.asarray(x).dtype.kind == "f"
            ]
            scale = max([float(np.abs(x[np.isfinite(x)]).max(initial=0)) for x in numbers], default=0)
            limit = max([differ.LIMITS[x.dtype.str[1:]] for x in numbers], default=0)
            case = kept(
                "call_%s_%d_%d" % (name.replace(":", "."), d.opset, i),
                (0, limit * max(scale, 1e-3)),
                model,
                list(feeds.values()),
                want,
            )
            if case:
                found += 1
                yield case


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    cases = [*of_onnx(), *of_runtime()]
    path = ROOT / "tests" / "onnx" / "cases.gz"
    onnx_cases.write(path, cases)
    print("%d cases, %d bytes" % (len(cases), path.stat().st_size))
