"""OpInfo's samples under vmap, and along tangents: the package's vmap and forward mode against torch's own.

A sample's tensors become batches: the first alone along dimension 0, all of them along dimension 0, all along the last.
What torch's vmap refuses is left out; forward mode is tried where the entry says supports_forward_ad.
"""
import functools

import torch

import compare
import names
import translate
from checks import Outcome, over

CHOICES = {"the first": (True, 0), "all": (False, 0), "all, along the last dimension": (False, -1)}
LEFT_OUT = {        # the two may differ, and why
    "empty_like": "its elements are not set", "new_empty": "its elements are not set",
    "as_strided": "strides count in memory", "as_strided_scatter": "strides count in memory",
    "as_strided_copy": "strides count in memory", "as_strided_partial_views": "strides count in memory",
}

TANGENT_LEFT_OUT = {
    "nn.functional.max_unpool1d": "several inputs go to one place, and which one stays is open",
    "nn.functional.max_unpool2d": "several inputs go to one place, and which one stays is open",
    "nn.functional.max_unpool3d": "several inputs go to one place, and which one stays is open",
    "masked.logaddexp": "torch gives NaN where both terms are masked",
    "special.bessel_y0": "torch has no formula: it differentiates a rounded one",
    "logcumsumexp": "torch computes it by logarithms that lose six digits",
}
BADLY_CONDITIONED = {"cholesky_inverse": (1e-4, 1e-4)}      # the samples' inverses lose that many digits
LEFT_OUT.update({
    "special.airy_ai": "torch's has five digits, and others in another place of a batch",
    "linspace": "ends that are tensors are read as numbers", "logspace": "ends that are tensors are read as numbers",
    "bincount": "torch counts all examples together", "argwhere": "torch takes the batch for a dimension",
    "addmv": "of whole numbers torch makes floats here", "addbmm": "of whole numbers torch makes floats here",
    "baddbmm": "of whole numbers torch makes floats here",
})


def leaves_of(value):
    """The tensors of a sample, in order, each once."""
    found = []

    def walk(v):
        if isinstance(v, torch.Tensor):
            if not any(v is f for f in found):
                found.append(v)
        elif isinstance(v, (list, tuple)):
            for item in v:
                walk(item)
        elif isinstance(v, dict):
            for item in v.values():
                walk(item)
    walk(value)
    return found


def replaced(value, old, new):
    """The nested value with other tensors."""
    for o, n in zip(old, new):
        if value is o:
            return n
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(replaced(v, old, new) for v in value))
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(v, old, new) for v in value)
    if isinstance(value, dict):
        return {k: replaced(v, old, new) for k, v in value.items()}
    return value


def tensors_of(result):
    """The tensor results, as a tuple."""
    return tuple(v for v in compare.flatten(result) if hasattr(v, "requires_grad"))


class Side:
    """One package's call of a sample as a function of its tensors."""

    def __init__(self, module, call, sample, tensors):
        self.here = translate.Translator(module)
        self.module, self.call = module, call
        self.values = self.here.value((sample.input, tuple(sample.args), dict(sample.kwargs)))
        self.old = [self.here.value(t) for t in tensors]

    def function(self, *tensors):
        first, args, kwargs = replaced(self.values, self.old, tensors)
        return tensors_of(self.call(first, *args, **kwargs))

    def carried(self, tensors):
        maker = translate.Translator(self.module)
        return [maker.value(t) for t in tensors]


def batches(tensors, choice):
    """(batches, in_dims) of the tensors: another example is the same, smaller."""
    first, dim = choice
    made, dims = [], []
    for i, t in enumerate(tensors):
        if first and i:
            made.append(t.detach())
            dims.append(None)
            continue
        other = t.detach() * 0.75 if t.is_floating_point() or t.is_complex() else t.detach()
        made.append(torch.stack([t.detach(), other.to(t.dtype)], dim=dim))
        dims.append(dim if dim >= 0 else t.dim())
    return made, tuple(dims)


def compared(judge, sample, here, actual, expected, tolerance=None):
    fix = compare.UP_TO_SIGNS.get(judge.op.name)
    if fix is not None or judge.op.name in compare.TIES:
        return NotImplemented
    if len(actual) != len(expected):
        return f"{len(actual)} results instead of {len(expected)}"
    for i, (a, e) in enumerate(zip(actual, expected)):
        reason = compare.tensors(here.back(a), e.detach(), tolerance or judge.tolerance, None)
        if reason:
            return f"result {i}: {reason}"
    return None


def mapped(judge, sample, choice):
    """None, or why vmap of a sample is not torch's; NotImplemented: nothing to compare."""
    tensors = leaves_of((sample.input, sample.args, sample.kwargs))
    whole = not judge.dtype.is_floating_point and not judge.dtype.is_complex
    differs = judge.op.name in LEFT_OUT and (whole or not judge.op.name.startswith(("add", "baddbmm")))
    if not tensors or judge.undefined(sample) or differs:
        return NotImplemented
    full, dims = batches(tensors, choice)
    theirs = Side(torch, judge.op.op, sample, tensors)
    try:
        with torch.no_grad():
            expected = torch.func.vmap(theirs.function, in_dims=dims)(*theirs.carried(full))
    except Exception:  # pylint: disable=broad-exception-caught
        return NotImplemented
    mine = Side(judge.module, judge.call, sample, tensors)
    actual = judge.module.func.vmap(mine.function, in_dims=dims)(*mine.carried(full))
    return compared(judge, sample, mine.here, actual, expected)


def vmap(judge):
    """In float64, so that sums in another order are no difference, in int64 and complex128."""
    outcome = Outcome("vmap")
    if judge.dtype not in (torch.float64, torch.int64, torch.complex128):
        return [outcome]
    for choice in CHOICES.values():
        over(judge, outcome, judge.side(judge.samples),
             lambda sample, choice=choice: mapped(judge, sample, choice))
    return [outcome]


def along(judge, sample):
    """None, or why the change of a sample's results along tangents is not torch's."""
    tensors = [t for t in leaves_of((sample.input, sample.args, sample.kwargs)) if t.requires_grad]
    if not tensors or judge.undefined(sample) or judge.op.name in TANGENT_LEFT_OUT:
        return NotImplemented
    wrapped = judge.op.gradcheck_wrapper      # brings an input into the op's domain, which its tangent must not leave
    named = {wrapped.__name__, *wrapped.__code__.co_names}
    known = named & {"gradcheck_wrapper_hermitian_input", "gradcheck_wrapper_triangular_input"}
    if not known or "diagonal" in wrapped.__name__:      # that one is made of functions of torch
        wrapped = as_it_is
    source = torch.Generator().manual_seed(3)
    tangents = [torch.randn(tuple(t.shape), dtype=t.dtype, generator=source) for t in tensors]
    plain = [t.detach() for t in tensors]
    theirs = Side(torch, functools.partial(wrapped, judge.op.op), sample, tensors)
    try:
        _, expected = torch.func.jvp(lambda *ts: floats(theirs.function(*ts)), tuple(theirs.carried(plain)),
                                     tuple(theirs.carried(tangents)))
    except Exception:  # pylint: disable=broad-exception-caught
        return NotImplemented
    mine = Side(judge.module, functools.partial(wrapped, judge.call), sample, tensors)
    _, actual = judge.module.func.jvp(lambda *ts: floats(mine.function(*ts)), tuple(mine.carried(plain)),
                                      tuple(mine.carried(tangents)))
    near = BADLY_CONDITIONED.get(judge.op.name, (1e-6, 1e-7))     # torch's and these are rounded otherwise
    return compared(judge, sample, mine.here, actual, expected, lambda dtype: near)


def as_it_is(call, *args, **kwargs):
    return call(*args, **kwargs)


def floats(results):
    return tuple(r for r in results if r.is_floating_point())


def tangent(judge):
    """In float64."""
    outcome = Outcome("tangent")
    if judge.dtype != torch.float64 or not judge.op.supports_forward_ad or not judge.differentiable:
        return [outcome]
    if judge.op.name in names.UNDEFINED:
        outcome.skipped = "its elements are not set"
        return [outcome]
    return [over(judge, outcome, judge.side(judge.samples), lambda sample: along(judge, sample))]
