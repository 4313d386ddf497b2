#!/usr/bin/env python3
"""Random models of single operators, run by cairn and by onnxruntime (where that has none, by ONNX's reference).

usage: PYTHONPATH=build/default/python PYTHON tests/onnx/differ.py [--count N] [--seed N] [--only NAME]... [-v]

Needs the packages onnx and onnxruntime; without them it says that it is skipped. draws*.py make the calls: N for each
operator, in opsets from 7 on. Where both others have results and differ, cairn may be like either. The last line is `N passed, N failed`; a call that neither of the others can run counts as neither.
"""

import argparse
import collections
import sys
import warnings
import zlib

try:
    import numpy as np
    import onnx
    import onnxruntime
    from onnx import helper, numpy_helper
except ImportError as error:
    print("skipped: the package %s is not installed" % error.name)
    print("0 passed, 0 failed, 1 skipped")
    sys.exit(0)

import draws
import draws_microsoft  # noqa: F401  (these fill draws.FAMILIES)
import draws_more  # noqa: F401
import draws_nets  # noqa: F401
from cairn.onnx import backend

# By how much results may differ, as a part of the largest number: sums are taken in another order, and in another
# precision inside; of 16 bits numbers have 11 digits, of bfloat16 8.
LIMITS = {"f2": 4e-3, "f4": 2e-5, "f8": 1e-6}  # doubles: attributes are floats
# Of these ONNX's reference leaves out a part: lengths and clips of recurrent networks, samples behind the first
# channels (LRN), dimensions behind the third (GlobalMaxPool), magnitudes (LpNormalization), groups (ConvTranspose),
# what axes meant before opset 13.
RUNTIME = 26  # the newest opset that onnxruntime knows; it gets models of newer ones as such, if they mean the same
DOUBTFUL = (
    "RNN",
    "GRU",
    "LSTM",
    "LRN",
    "GlobalMaxPool",
    "Unique",
    "LpNormalization",
    "LpPool",
    "StringNormalizer",
    "ConvTranspose",
)
OLD = {"Softmax": 13, "LogSoftmax": 13, "Hardmax": 13}  # in older opsets, too


def schemas(oldest, ours):
    """(name as draws has it, schema) of each version of an operator from opset `oldest` on."""
    found = collections.defaultdict(dict)
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.deprecated and schema.domain != "ai.onnx.preview.training":
            found[(schema.domain + ":" if schema.domain else "") + schema.name][schema.since_version] = schema
    for name in ours:
        if name not in found:
            found[name][1] = of_runtime(*name.rpartition(":")[::2])
    for name, versions in found.items():
        starts = sorted(versions)
        for i, start in enumerate(starts):
            last = starts[i + 1] - 1 if i + 1 < len(starts) else onnx.defs.onnx_opset_version()
            last = last if hasattr(versions[start], "domain") else 9  # what onnxruntime has kept
            if ":" in name:
                last = start
            if last >= oldest or ":" in name:
                yield name, max(start, oldest) if ":" not in name else start, last, versions[start]


def of_runtime(domain, name):
    """What onnxruntime says of an operator that onnx has not, in the words of onnx's schemas."""
    from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema

    for schema in get_all_operator_schema():
        if schema.domain == domain and schema.name == name:
            kinds = {c.type_param_str: list(c.allowed_type_strs) for c in schema.type_constraints}
            slot = collections.namedtuple("slot", "types")
            plain = collections.namedtuple("schema", "inputs attributes")
            return plain([slot(kinds.get(x.typeStr, [x.typeStr])) for x in schema.inputs], dict(schema.attributes))
    raise LookupError(name)


def model_of(d):
    """The call as a model; those of its inputs that vary are the model's."""
    domain, name = d.name.split(":") if ":" in d.name else ("", d.name)
    d.inputs = [x if x is None else np.asarray(x) for x in d.inputs]
    names = ["x%d" % i if x is not None else "" for i, x in enumerate(d.inputs)]
    while names and not names[-1]:
        names.pop()
    attrs = {k: numpy_helper.from_array(v) if isinstance(v, np.ndarray) else v for k, v in d.attrs.items()}
    node = helper.make_node(name, names, ["y%d" % i for i in range(d.outputs)], domain=domain, **attrs)
    infos, initials, feeds = [], [], {}
    fixed = d.chance(0.3)
    for i, x in enumerate(d.inputs):
        if x is None:
            continue
        if i and fixed and x.dtype.kind != "O":
            initials.append(numpy_helper.from_array(x, "x%d" % i))
            continue
        feeds["x%d" % i] = x
        kind = onnx.TensorProto.STRING if x.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(x.dtype)
        infos.append(helper.make_tensor_value_info("x%d" % i, kind, x.shape))
    outputs = [helper.make_empty_tensor_value_info("y%d" % i) for i in range(d.outputs)]
    graph = helper.make_graph([node], "call", infos, outputs, initials)
    versions = {domain: d.opset} if not domain else {"": 22, domain: d.opset}
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid(k, v) for k, v in versions.items()])
    made.ir_version = min(made.ir_version, 10)
    return made, feeds


def by_runtime(model, feeds):
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def by_reference(model, feeds):
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model).run(None, feeds)


def by_cairn(model, feeds):
    return backend.prepare(model).run(feeds)


def differ(want, got):
    """How two results differ; None: they do not."""
    if len(want) != len(got):
        return "%d results, not %d" % (len(got), len(want))
    for i, (a, b) in enumerate(zip(want, got)):
        if isinstance(a, list) or isinstance(b, list):
            how = "no list" if not (isinstance(a, list) and isinstance(b, list)) else differ(a, b)
        elif isinstance(a, dict) or isinstance(b, dict):
            how = None if a == b else "other maps"
        else:
            how = differ_array(np.asarray(a), np.asarray(b))
        if how:
            return "result %d: %s" % (i, how)
    return None


def differ_array(a, b):
    if a.shape != b.shape:
        return "shape %s, not %s" % (b.shape, a.shape)
    if a.dtype.kind in "OUS" or b.dtype.kind in "OUS":
        return None if [str(x) for x in a.ravel()] == [str(x) for x in b.ravel()] else "other strings"
    if a.dtype != b.dtype:
        return "type %s, not %s" % (b.dtype, a.dtype)
    if a.dtype.kind != "f":
        return None if np.array_equal(a, b) else "%s, not %s" % (b.ravel()[:8].tolist(), a.ravel()[:8].tolist())
    p, q = a.astype("f8"), b.astype("f8")
    with np.errstate(all="ignore"):
        finite = np.isfinite(p)
        scale = np.abs(p[finite]).max() if finite.any() else 0
        right = (p == q) | (np.isnan(p) & np.isnan(q)) | (np.abs(p - q) <= LIMITS[a.dtype.str[1:]] * max(scale, 1e-3))
    return None if right.all() else "%s, not %s" % (q[~right][:5].tolist(), p[~right][:5].tolist())


def attempt(run, model, feeds):
    """(results, None) or (None, what went wrong)."""
    try:
        return run(model, feeds), None
    except Exception as error:
        return None, "%s: %s" % (type(error).__name__, " ".join(str(error).split())[:200])


def said(d):
    inputs = ["-" if x is None else "%s%s" % (x.dtype.str[1:], list(x.shape)) for x in d.inputs]
    return "%s %d (%s) %s" % (d.name, d.opset, ", ".join(inputs), d.attrs)


def check(d, unable):
    """None: right; "": nobody knows; else what is wrong."""
    model, feeds = model_of(d)
    older = onnx.ModelProto()
    older.CopyFrom(model)
    if ":" not in d.name:
        older.opset_import[0].version = min(d.opset, max(RUNTIME, d.first))
    want, why = attempt(by_runtime, older, feeds)
    got, trouble = attempt(by_cairn, model, feeds)
    unknown = None
    if want is not None and trouble is None and not differ(want, got):
        return None
    if d.name not in DOUBTFUL and d.opset >= OLD.get(d.name, 0) and not d.name.startswith("com.microsoft"):
        other, unknown = attempt(by_reference, model, feeds)
        if other is not None and trouble is None and not differ(other, got):
            return None
        want = other if want is None else want
    if want is None:
        unable.append((said(d), why, unknown))
        return ""
    return trouble or differ(want, got)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--count", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", action="append")
    parser.add_argument("-v", "--verbose", action="store_true", help="what nobody could run, too")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    passed = failed = 0
    unable = []
    for name, first, last, schema in schemas(7, draws.FAMILIES):
        if name not in draws.FAMILIES or (args.only and name not in args.only):
            continue
        wrong = []
        for i in range(args.count):
            rng = np.random.default_rng([args.seed, i, zlib.crc32(name.encode()), first])
            d = draws.Draw(rng, name, int(rng.integers(first, last + 1)), schema)
            d.first = first
            draws.FAMILIES[name](d)
            how = check(d, unable)
            passed += how is None
            if how:
                wrong.append((said(d), how))
        failed += len(wrong)
        for call, how in wrong[:3]:
            print("%s\n    %s" % (call, how), flush=True)
        if len(wrong) > 3:
            print("    ... %d of %d" % (len(wrong), args.count))
    for row in unable if args.verbose else []:
        print("nobody: %s\n    %s\n    %s" % row)
    print("%d calls that nobody else can run" % len(unable))
    print("%d passed, %d failed" % (passed, failed))
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
