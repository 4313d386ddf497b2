"""OpInfo's samples through cairn.compile: results, gradients, what is written into arguments and the random numbers
drawn are those of the function as it is, to the bit. No oracle is needed: the function itself is.
"""
import os

import torch

import compare
import names
import translate
from checks import Outcome, over

# What reads values in Python, or (lstsq) whether there is a result: such a call runs as it is.
AS_IT_IS = set("""item allclose equal cov linspace logspace narrow tensor_split nn.functional.gaussian_nll_loss
    as_strided linalg.lstsq""".split())


def same(actual, expected):
    """None, or how two torch tensors differ; all NaNs are one."""
    if (actual.dtype, actual.shape) != (expected.dtype, expected.shape):
        return f"{actual.dtype} {tuple(actual.shape)} instead of {expected.dtype} {tuple(expected.shape)}"
    equal = actual == expected
    if actual.is_floating_point():
        equal &= actual.signbit() == expected.signbit()
        equal |= actual.isnan() & expected.isnan()
    if bool(equal.all()):
        return None
    at = tuple((~equal).nonzero()[0].tolist())
    return f"{actual[at].item()!r} instead of {expected[at].item()!r} at {at}"


class Call:
    """One call of a function with its own copy of a sample, and what came of it."""

    def __init__(self, judge, sample):
        self.module = judge.module
        self.sample = sample
        self.here = translate.Translator(judge.module)
        self.first, self.args, self.kwargs = self.here.sample(sample)

    def run(self, fn, differentiable):
        """[(what, torch tensor or another value)]"""
        self.module.manual_seed(0)
        outs = compare.flatten(fn(self.first, *self.args, **self.kwargs))
        found = [(f"result {i}", out) for i, out in enumerate(outs)]
        found += [(f"whether result {i} has a gradient", out.requires_grad) for i, out in enumerate(outs)
                  if self.here.is_tensor(out)]
        if differentiable:
            found += self.gradients(outs)
        found += [(f"argument {i}", made) for i, (_, made) in enumerate(self.here.pairs)]
        found.append(("the next random numbers", self.module.rand(2)))
        return [(what, self.here.back(v) if self.here.is_tensor(v) else v) for what, v in found]

    def gradients(self, outs):
        roots = [out for out in outs if self.here.is_tensor(out) and out.requires_grad]
        leaves = [made for _, made in self.here.pairs if made.requires_grad and made.is_leaf]
        if not roots or not leaves:
            return []
        maker = translate.Translator(self.module)
        torch.manual_seed(1)
        seeds = [maker.value(torch.randn(tuple(o.shape), dtype=torch.float64)).to(o.dtype) for o in roots]
        grads = self.module.autograd.grad(roots, leaves, seeds, allow_unused=True)
        return [(f"gradient {i}", g) for i, g in enumerate(grads)]


def difference(have, want):
    for (what, a), (_, e) in zip(have, want):
        if isinstance(a, torch.Tensor) and isinstance(e, torch.Tensor):
            reason = same(a, e)
        else:
            reason = None if type(a) is type(e) and (a == e or a != a) else f"{a!r} instead of {e!r}"
        if reason:
            return f"{what}: {reason}"
    return None if len(have) == len(want) else f"{len(have)} values instead of {len(want)}"


def reason_for(judge, sample):
    """None, or why the compiled function of a sample is not the function; NotImplemented: nothing to compare."""
    plain, other = Call(judge, sample), Call(judge, sample)
    fast = judge.module.compile(judge.call)
    for turn in ("first", "second"):
        try:
            want = plain.run(judge.call, judge.differentiable)
        except Exception:  # pylint: disable=broad-exception-caught
            return NotImplemented
        reason = difference(other.run(fast, judge.differentiable), want)
        if reason:
            return f"{turn} call: {reason}"
    counts = judge.module.compiler.stats(fast)
    if counts["eager_calls"] and judge.op.name not in AS_IT_IS:
        return "not captured: " + judge.module.compiler.explain(fast, other.first, *other.args, **other.kwargs)
    if not counts["eager_calls"] and (counts["executables"], counts["runs"]) != (1, 2):
        return f"two calls alike: {counts}"
    return None


def compiled(judge):
    outcome = Outcome("compiled")
    os.environ["CAIRN_COMPILE"] = "exact"  # halves are rounded where eager rounds them
    if judge.op.name in names.UNDEFINED:
        outcome.skipped = "its elements are not set"
        return [outcome]
    return [over(judge, outcome, judge.samples, lambda sample: reason_for(judge, sample))]
