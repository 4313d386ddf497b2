"""The other ways to call an op: as a method, in place, by an operator, into `out=`. Each must give what the
function gives, and the in-place and `out=` forms must return the very object they wrote.
"""
import warnings

import torch

import compare
import names
import randoms
import translate
from checks import MAY_RAISE, Outcome, differentiable, over, said


def beside(judge, check, body):
    """The outcome of body(sample) over the side samples."""
    outcome = Outcome(check, skipped=judge.skipped(check))
    return outcome if outcome.skipped else over(judge, outcome, judge.side(judge.samples), body)


def absent(check, missing):
    outcome = Outcome(check)
    outcome.note(f"{missing} is absent", "")
    return outcome


def detached(sample):
    """The sample without gradients: these forms are about values."""
    return sample.transform(lambda v: translate.twin(v) if isinstance(v, torch.Tensor) and translate.plain(v)
                            else v)


def without_signs(judge, here, results, actual, expected):
    """The same three with the signs fixed that a decomposition leaves open."""
    fix = compare.UP_TO_SIGNS.get(judge.op.name)
    if fix is None or not isinstance(expected, tuple):
        return results, actual, expected
    actual, expected = judge.without_signs(here, actual, expected, fix)
    return compare.Results(translate.Translator(torch), judge.tolerance, grads=False), actual, expected


def judged(judge, here, actual, expected, sample):
    results = judge.results(here, sample, grads=False)
    if judge.undefined(sample):
        return randoms.same_kind(results, actual, expected)
    results, actual, expected = without_signs(judge, here, results, actual, expected)
    return results.whole(actual, expected, judge.truth(sample))


def method(judge):
    try:
        found = names.method(judge.module, judge.op)
    except names.Missing as missing:
        return [absent("method", f"Tensor.{missing}")]
    if found is None:
        return []

    def body(sample):
        if not isinstance(sample.input, torch.Tensor):
            return NotImplemented
        sample = detached(sample)
        theirs = judge.oracle(sample, judge.op.method_variant)
        if theirs is None:
            return NotImplemented
        here, actual, _ = judge.mine(sample, found[1])
        reason = judged(judge, here, actual, theirs[1], sample)
        return reason and f"{found[0]}: {reason}"
    return [beside(judge, "method", body)]


def operator(judge):
    outcomes = []
    for name, call in names.operators(judge.op):
        def body(sample, name=name, call=call):
            if isinstance(sample.input, torch.Tensor) and translate.overlaps(sample.input):
                return NotImplemented
            sample = detached(sample)
            theirs = None if sample.kwargs or judge.undefined(sample) else judge.oracle(sample, call)
            if theirs is None:
                return NotImplemented
            here, actual, _ = judge.mine(sample, call)
            reason = judged(judge, here, actual, theirs[1], sample)
            return reason and f"{name}: {reason}"
        outcomes.append(beside(judge, "operator", body))
    return outcomes


# ---- in place ----
def inplace(judge):
    try:
        found = names.inplace(judge.module, judge.op)
    except names.Missing as missing:
        return [absent("inplace", f"Tensor.{missing}")]
    if found is None:
        return []
    name, call = found

    def body(sample):
        if not isinstance(sample.input, torch.Tensor) or translate.overlaps(sample.input):
            return NotImplemented
        bare = detached(sample)
        theirs = judge.oracle(bare, judge.op.inplace_variant)
        if theirs is None:
            reason = refused(judge, bare, call)
            return reason and f"{name}: {reason}"
        here, actual, values = judge.mine(bare, call)
        if actual is not values[0]:
            return f"{name} did not return its own tensor"
        reason = judged(judge, here, actual, theirs[1], bare)
        if reason is None and judge.differentiable and judge.op.supports_inplace_autograd:
            reason = inplace_gradient(judge, sample, call)
        return reason and f"{name}: {reason}"
    return [beside(judge, "inplace", body)]


def refused(judge, sample, call):
    """torch refuses this write (a broadcast of the target, a result type that does not fit)."""
    try:
        judge.mine(sample, call)
    except MAY_RAISE:
        return None
    return "accepted a write that torch refuses"


def inplace_gradient(judge, sample, call):
    if judge.undefined(sample) or judge.skipped("gradient"):
        return None
    theirs = judge.oracle(sample, lambda x, *args, **kwargs: judge.op.inplace_variant(x.clone(), *args, **kwargs))
    if theirs is None:
        return None
    outs = differentiable(theirs[1])
    leaves = [made for _, made in theirs[0].pairs if made.requires_grad]
    if len(outs) != 1 or not leaves:
        return None
    torch.manual_seed(1)
    seeds = [torch.randn(outs[0].shape, dtype=torch.float64).to(outs[0].dtype)]
    try:
        expected = torch.autograd.grad(outs, leaves, seeds, allow_unused=True)
    except RuntimeError:
        return None
    here, actual, _ = judge.mine(sample, lambda x, *args, **kwargs: call(x.clone(), *args, **kwargs))
    reason = judge.gradient_reason(here, compare.flatten(actual), outs, seeds, expected, sample)
    return reason and f"in-place {reason}"


# ---- out= ----
def garbage(tensor, noncontiguous):
    """A torch tensor of the same shape and dtype with other values; for one form, with gaps between rows."""
    shape = list(tensor.shape)
    if noncontiguous and shape:
        shape[-1] *= 2
    made = torch.ones(shape, dtype=tensor.dtype)
    return made[..., ::2] if noncontiguous and shape else made


SHORT, INTEGERS = " of another shape", " of integers"


def out(judge):
    """Into tensors of the right shape, with gaps, and empty ones that grow; into one of another shape, which is resized
    with a warning; into integers, which is refused for floats."""
    if not judge.op.supports_out or judge.op.name in names.METHODS:
        return []

    def body(sample):
        sample = detached(sample)
        theirs = judge.oracle(sample)
        if theirs is None or judge.undefined(sample):
            return NotImplemented
        tensors = theirs[1] if isinstance(theirs[1], (list, tuple)) else [theirs[1]]
        if not all(isinstance(t, torch.Tensor) for t in tensors):
            return NotImplemented
        forms = ["", " with gaps", " of no elements", SHORT]
        forms += [INTEGERS] if any(t.is_floating_point() for t in tensors) else []
        for form in forms:
            reason = into(judge, sample, theirs[1], form)
            if reason:
                return reason
        return None
    return [beside(judge, "out", body)]


def targets(expected, form):
    tensors = [expected] if isinstance(expected, torch.Tensor) else list(expected)
    if form == " of no elements":
        return [torch.empty(0, dtype=t.dtype) for t in tensors]
    if form == SHORT:
        return [torch.ones([2, *t.shape] if t.numel() else [3], dtype=t.dtype) for t in tensors]
    if form == INTEGERS:
        return [torch.ones(t.shape, dtype=torch.int64 if t.is_floating_point() else t.dtype) for t in tensors]
    return [garbage(t, form == " with gaps") for t in tensors]


def into(judge, sample, expected, form):
    single = isinstance(expected, torch.Tensor)

    def give(call, translator):
        made = [translator.value(t) for t in targets(expected, form)]
        if form == " of no elements":     # memory of its own, so that it can grow
            made = [translator.module.empty(0, dtype=t.dtype, device=t.device) for t in made]
        handed = made[0] if single else tuple(made)
        return made, lambda *args, **kwargs: call(*args, **kwargs, out=handed)

    torch_targets, torch_call = give(judge.op.op, translate.Translator(torch))
    maker = translate.Translator(judge.module)
    made, call = give(judge.call, maker)
    if judge.oracle(sample, torch_call) is None:
        return refused(judge, sample, call) if form == INTEGERS else None
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            here, actual, _ = judge.mine(sample, call)
        if form == SHORT and judge.module is not torch and not any("resized" in str(w.message) for w in told):
            return f"out={form}: resized without a warning"
    except translate.Untranslatable:
        raise
    except Exception as error:  # pylint: disable=broad-exception-caught
        return f"out={form} {said(error)}"
    results = judge.results(here, sample, grads=False)
    results, mine, theirs = without_signs(judge, here, results, made[0] if single else tuple(made),
                                          torch_targets[0] if single else tuple(torch_targets))
    reason = results.whole(mine, theirs, judge.truth(sample))
    if reason is None and single and actual is not made[0]:
        reason = "not the tensor itself was returned"
    return reason and f"out={form}: {reason}"
