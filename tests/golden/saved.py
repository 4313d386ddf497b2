"""Writes tests/golden/saved.txt: what PyTorch's ops keep for backward, seen from outside.

    python tests/golden/saved.py [all]          (needs torch and numpy)

A write to an input or a result between an op and its backward is an error where the op has kept that tensor, and is
allowed where it has not. A line is a sample of tests/ops and, for all float inputs requiring a gradient ("*") and for
each of them alone (its number), what may be written to: a digit for each input and, behind a slash, for each result:
1 it may, 0 it may not, - there is no such tensor. Only tensors in row-major order are looked at: where PyTorch copies
one of another order on the way, that is no promise. Of each op the first sample of every such pattern is kept; with `all`
the file holds all of them.
"""
import sys
import warnings

import torch

import make
import oracle
import samples
from opsig import read_ops


# What oracle.py puts together itself says nothing about what PyTorch's op keeps.
DIRECT = {"hardsigmoid": torch.nn.functional.hardsigmoid, "linalg_svd": torch.linalg.svd, "svd": torch.svd,
          "linalg_eigh": torch.linalg.eigh,
          **{f"special_bessel_{name}": getattr(torch.special, f"bessel_{name}") for name in ("j0", "j1", "y0", "y1")}}
MADE = {"pointwise", "grouped_mm", "mm_dtype", "bmm_dtype", "int_mm", "scaled_mm", "quantize_linear", "dequantize_linear",
        "native_batch_norm", "native_group_norm", "native_rms_norm"}


def is_tensor(t):
    return isinstance(t, torch.Tensor)


def run(sample, op, wanted):
    """The inputs and results of a call in which the inputs of these numbers require a gradient."""
    params = {p.name: p for p in op.params}
    values = {n: oracle.spread(params[n], oracle.convert(sample, params[n], v, False))
              for n, v in oracle.bind(sample, op).items()}
    inputs = oracle.flat_inputs(op, values)
    for i, t in enumerate(inputs):
        if is_tensor(t) and t.requires_grad:
            t.requires_grad_(i in wanted)
    result = oracle.call(op, values)
    return inputs, list(result) if isinstance(result, (tuple, list)) else [result]


def may_write(sample, op, wanted, place, number):
    """Does backward still go through? None: there is no such tensor, or there is nothing to go back through."""
    inputs, outputs = run(sample, op, wanted)
    roots = [o for o in outputs if is_tensor(o) and o.requires_grad]
    target = (inputs, outputs)[place][number]
    if not roots or not is_tensor(target):
        return None
    torch._C._autograd._unsafe_set_version_counter((target,), (target._version + 1,))
    try:
        torch.autograd.grad(roots, [inputs[i] for i in wanted], [torch.ones_like(o) for o in roots], allow_unused=True)
    except RuntimeError as e:
        if "modified by an inplace operation" not in str(e):
            raise
        return False
    return True


def digits(sample, op, wanted, counts):
    rows = [[may_write(sample, op, wanted, place, i) for i in range(counts[place])] for place in (0, 1)]
    return "/".join("".join("-" if may is None else "%d" % may for may in row) for row in rows)


def pattern(sample, op):
    inputs, outputs = run(sample, op, ())
    floats = [i for i, t in enumerate(oracle.flat_inputs(op, {
        p.name: oracle.convert(sample, p, v, False) for p in op.params
        for n, v in oracle.bind(sample, op).items() if n == p.name})) if is_tensor(t) and t.requires_grad]
    sets = [("*", floats)] + [("%d" % i, [i]) for i in floats if len(floats) > 1]
    counts = (len(inputs), len(outputs))
    found = ["%s %s" % (name, digits(sample, op, wanted, counts)) for name, wanted in sets]
    return [f for f in found if set(f.split(" ")[1]) - set("-/")]


def left_out(sample, op):
    return (sample.must_fail or sample.large or sample.forward_only or "internal" in op.tags
            or any(t.layout for t in sample.literals) or op.name in oracle.NO_ORACLE or op.name in MADE or op.place.startswith("src/ops/update.c") or "draws=" in sample.text
            or oracle.has_specials(sample))


def family_lines(path, ops, everything, seen):
    for sample in samples.read(path, path.name.split(".")[0]):
        op = ops.get(sample.name)
        if not op or left_out(sample, op):
            continue
        try:
            found = pattern(sample, op)
        except (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, AssertionError, AttributeError):
            continue  # no gradient, or types that PyTorch has no kernel for: make.py has its say about those
        key = op.name, tuple(found)
        if found and (everything or key not in seen):
            yield "%s: %s" % (sample.text, ", ".join(found))
        seen.add(key)


def main():
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    oracle.SPECIAL.update(DIRECT)
    ops, seen, lines = {op.name: op for op in read_ops(str(make.ROOT))}, set(), []
    for path in sorted((make.ROOT / "tests" / "ops").glob("*.samples")):
        lines += family_lines(path, ops, sys.argv[1:] == ["all"], seen)
    (make.HERE / "saved.txt").write_text("".join(line + "\n" for line in lines))
    print("%d lines" % len(lines))


if __name__ == "__main__":
    main()
