#!/usr/bin/env python3
"""ONNX's own backend cases, run by cairn: how many pass, by operator, and what is wrong with the others.

usage: PYTHONPATH=build/default/python PYTHON_WITH_ONNX tests/onnx/conformance.py [--only NAME]... [--json FILE] [-v]
                                                                                  [--compiled] [--limit SECONDS]

Needs the packages onnx, numpy and ml_dtypes. Each case is a model with inputs and expected outputs; what counts as
equal is what onnx's runner takes: each case's rtol and atol, exact for whole numbers, strings and bools. KNOWN has the
cases that do not pass, with reasons. --compiled runs each
model inside of a compiled function, too, and wants the bits of the eager run. A case runs in a child process, so that
one that hangs or dies is a failed case. The last line is `N passed, N failed`: a case that fails for a reason of KNOWN
passes.
"""
import argparse
import collections
import json
import multiprocessing
import pathlib
import sys
import traceback
import warnings

import numpy as np

SUBJECTS = {}
FEW = 200  # cases that one child runs

# Cases that do not pass, each with the reason; one of them that passes is a failure of this list, but for those that
# draw random numbers, which can be the expected ones by chance.
DRAWN = "its expected outputs are one draw of numpy's generator, which the specification does not name"
ROUNDED = ("its expected outputs are numpy's, which adds up products of 16-bit floats in 16 bits and rounds after each "
           "step; sums of more digits, as here and in onnxruntime, are nearer to the numbers meant, but others")
PICTURE = "pictures of this format are not read: PNG, JPEG, BMP and PNM are"
KNOWN = {
    **dict.fromkeys(("test_bernoulli", "test_bernoulli_expanded", "test_bernoulli_double",
                     "test_bernoulli_double_expanded", "test_bernoulli_seed", "test_bernoulli_seed_expanded",
                     "test_training_dropout", "test_training_dropout_mask", "test_training_dropout_default",
                     "test_training_dropout_default_mask"), DRAWN),
    **dict.fromkeys(("test_attention_4d_causal_bf16", "test_attention_4d_causal_bf16_expanded",
                     "test_attention_4d_causal_fp16_expanded", "test_attention_4d_padded_kv_bf16",
                     "test_attention_4d_padded_kv_bf16_expanded", "test_attention_4d_causal_padded_kv_bf16",
                     "test_attention_4d_causal_padded_kv_bf16_expanded", "test_attention_4d_attn_mask_causal_bf16",
                     "test_attention_4d_attn_mask_causal_bf16_expanded", "test_attention_3d_causal_bf16",
                     "test_attention_3d_causal_bf16_expanded"), ROUNDED),
    **dict.fromkeys(("test_image_decoder_decode_jpeg2k_rgb", "test_image_decoder_decode_tiff_rgb",
                     "test_image_decoder_decode_webp_rgb"), PICTURE),
}


def cases(only):
    """(case, kind) of those whose name has one of these in it."""
    from onnx.backend.test.loader import load_model_tests
    warnings.simplefilter("ignore")
    found = []
    for kind in ("node", "simple", "pytorch-converted", "pytorch-operator"):
        found += [(case, kind) for case in load_model_tests(kind=kind)]
    return [(case, kind) for case, kind in found if not only or any(part in case.name for part in only)]


def to_plain(proto, what):
    """A test file's value: an array, a list, or None."""
    import onnx
    from onnx import numpy_helper
    kind = what.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(proto))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(proto))
    return numpy_helper.to_array(onnx.TensorProto.FromString(proto))


def data_sets(case, model):
    """(inputs, outputs) of each."""
    if case.data_sets:
        yield from case.data_sets
        return
    for folder in sorted(pathlib.Path(case.model_dir).glob("test_data_set_*")):
        sides = []
        for side, infos in (("input", model.graph.input), ("output", model.graph.output)):
            files = [folder / ("%s_%d.pb" % (side, i)) for i in range(len(list(folder.glob(side + "_*.pb"))))]
            sides.append([to_plain(path.read_bytes(), info.type) for path, info in zip(files, infos)])
        yield tuple(sides)


def same(expected, made, rtol, atol):
    """Raises where they differ."""
    if isinstance(expected, list):
        assert isinstance(made, list) and len(made) == len(expected), "a list of %d was wanted" % len(expected)
        for one, other in zip(expected, made):
            same(one, other, rtol, atol)
        return
    if expected is None:
        assert made is None, "nothing was wanted"
        return
    if hasattr(expected, "SerializeToString"):
        from onnx import numpy_helper
        expected = numpy_helper.to_array(expected)
    expected = np.asarray(expected)
    assert made is not None, "nothing was made"
    made = np.asarray(made)
    assert made.shape == expected.shape, "shape %s, not %s" % (made.shape, expected.shape)
    if expected.dtype.kind in "OUS":
        assert made.tolist() == [x.decode() if isinstance(x, bytes) else x for x in expected.ravel().tolist()] or \
            np.array_equal(made, expected), "strings differ"
        return
    assert made.dtype == expected.dtype, "type %s, not %s" % (made.dtype, expected.dtype)
    if expected.dtype.kind in "biu":
        np.testing.assert_array_equal(made, expected)
        return
    if expected.dtype.kind not in "fc":
        made, expected = made.astype(np.float32), expected.astype(np.float32)
    np.testing.assert_allclose(made, expected, rtol=rtol, atol=atol)


def bits(values):
    """What a run gave, so that two can be compared."""
    if isinstance(values, (list, tuple)):
        return [bits(value) for value in values]
    return None if values is None else (values.dtype.str, values.shape, values.tolist() if values.dtype.kind == "O"
                                        else values.tobytes())


def run_compiled(rep, inputs, eager):
    """The model inside of a compiled function: the eager bits, or an error."""
    import cairn
    from cairn.onnx.backend import _numpy
    names = rep.model.input_names
    tensors = [cairn.tensor(np.asarray(x)) for x in inputs]
    fast = cairn.compile(lambda *xs: tuple(rep.model.run(dict(zip(names, xs)))))
    for _ in range(2):
        made = [_numpy(value) for value in fast(*tensors)]
        assert bits(made) == bits(list(eager)), "compiled: other bits than eager"


def run_case(case, kind, compiled):
    import onnx
    from cairn.onnx import backend
    model = case.model
    if model is None:
        path = pathlib.Path(case.model_dir) / "model.onnx"
        model = onnx.load(path)
        rep = backend.prepare(str(path))
    else:
        rep = backend.prepare(model)
    for inputs, expected in data_sets(case, model):
        made = rep.run(inputs)
        assert len(made) >= len(expected), "%d outputs, not %d" % (len(made), len(expected))
        for one, other in zip(expected, made):
            same(one, other, case.rtol, case.atol)
        if compiled and all(isinstance(x, np.ndarray) and x.dtype.kind not in "OUS" for x in inputs):
            run_compiled(rep, inputs, made)


def operators_of(case):
    import onnx
    model = case.model or onnx.load(pathlib.Path(case.model_dir) / "model.onnx", load_external_data=False)
    return sorted({(n.domain + "." if n.domain else "") + n.op_type for n in model.graph.node})


def subjects_of(case):
    """The operators that the case is about: those of its model; of an operator's function, the operator."""
    base = case.name.split("_expanded")[0]
    if base != case.name:
        return SUBJECTS.get(base, operators_of(case))
    SUBJECTS[case.name] = operators_of(case)
    return SUBJECTS[case.name]


def run_some(numbers, found, compiled, results):
    """In a child, which has the cases from its parent: those of these numbers."""
    for i in numbers:
        case, kind = found[i]
        try:
            run_case(case, kind, compiled)
            results.put((i, None))
        except BaseException as error:  # pylint: disable=broad-except
            said = str(error).strip() or traceback.format_exc().strip().splitlines()[-1]
            results.put((i, "%s: %s" % (type(error).__name__, " ".join(said.split())[:300])))
    results.close()
    results.join_thread()


def run_all(found, compiled, limit):
    """Number -> None or what is wrong."""
    context = multiprocessing.get_context("fork")
    said, todo = {}, list(range(len(found)))
    while todo:
        some, results = todo[:FEW], context.Queue()
        child = context.Process(target=run_some, args=(some, found, compiled, results))
        child.start()
        done = []
        try:
            while len(done) < len(some):
                i, what = results.get(timeout=limit if child.is_alive() else 1)
                said[i] = what
                done.append(i)
        except Exception:  # pylint: disable=broad-except
            left = [i for i in some if i not in done]
            child.kill()
            said[left[0]] = "the process died, or took too long"
            done.append(left[0])
        child.join()
        todo = [i for i in todo if i not in done]
    return said


def report(found, said, verbose):
    by_operator = collections.defaultdict(list)
    for i, (case, kind) in enumerate(found):
        names = operators_of(case)
        family = kind if kind != "node" else names[0] if len(names) == 1 else case.name.split("_")[1]
        by_operator[family].append((case.name, said[i]))
    for family, rows in sorted(by_operator.items()):
        wrong = [(name, what) for name, what in rows if what]
        if wrong or verbose:
            print("%-40s %4d of %4d   %s" % (family, len(rows) - len(wrong), len(rows),
                                             "%s: %s" % wrong[0] if wrong else ""))
            for name, what in wrong if verbose else []:
                print("    %s: %s" % (name, what))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--only", action="append", help="cases with this in their name")
    parser.add_argument("--json", help="write every case's result to this file")
    parser.add_argument("--compiled", action="store_true", help="compiled functions, too")
    parser.add_argument("--limit", type=float, default=60, help="seconds that a case may take")
    parser.add_argument("-v", "--verbose", action="store_true")
    args = parser.parse_args()
    found = cases(args.only)
    said = run_all(found, args.compiled, args.limit)
    report(found, said, args.verbose)
    if args.json:
        rows = {found[i][0].name: {"operators": subjects_of(found[i][0]), "wrong": said[i]} for i in sorted(said)}
        pathlib.Path(args.json).write_text(json.dumps(rows, indent=1))
    failed = {found[i][0].name for i, what in said.items() if what}
    print("%d of %d cases pass; the others, by reason:" % (len(said) - len(failed), len(said)))
    for reason in dict.fromkeys(KNOWN.values()):
        print("    %2d: %s" % (sum(KNOWN.get(name) == reason for name in failed), reason))
    unknown = sorted(failed - set(KNOWN))
    lucky = sorted(case.name for case, _ in found
                   if case.name not in failed and KNOWN.get(case.name, DRAWN) != DRAWN)
    for name in unknown:
        print("fails without a reason: %s" % name)
    for name in lucky:
        print("passes, though the list has a reason why not: %s" % name)
    print("%d passed, %d failed" % (len(said) - len(unknown) - len(lucky), len(unknown) + len(lucky)))
    return bool(unknown or lucky)


if __name__ == "__main__":
    sys.exit(main())
