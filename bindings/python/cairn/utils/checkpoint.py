"""Checkpointing: memory for time. The inside of a function is not kept for backward but computed again there."""

import contextlib

from .. import _C
from .._modes import enable_grad, is_grad_enabled
from ..autograd import backward as _backward
from ..autograd.function import Function
from ..random import fork_rng, get_rng_state, set_rng_state

__all__ = ["checkpoint", "checkpoint_sequential"]

_Tensor = _C.TensorBase


def _flatten(value, into):
    """Takes the tensors out of nested lists, tuples and dicts; answers a function that puts others in their place."""
    if isinstance(value, _Tensor):
        into.append(value)
        return next
    if isinstance(value, dict):
        parts = {k: _flatten(v, into) for k, v in value.items()}
        return lambda tensors: {k: part(tensors) for k, part in parts.items()}
    if isinstance(value, (list, tuple)):
        parts = [_flatten(v, into) for v in value]
        if hasattr(value, "_fields"):  # a named tuple
            return lambda tensors: type(value)(*[part(tensors) for part in parts])
        kind = list if isinstance(value, list) else tuple
        return lambda tensors: kind(part(tensors) for part in parts)
    return lambda tensors: value


class _Run:
    """One checkpointed call: the function and how its arguments and results are put together."""

    def __init__(self, function, args, kwargs, preserve_rng_state, context_fn):
        self.function = function
        self.tensors = []
        self.rebuild = _flatten((args, kwargs), self.tensors)
        self.state = get_rng_state() if preserve_rng_state else None
        self.forward_context, self.backward_context = context_fn()

    def call(self, tensors):
        args, kwargs = self.rebuild(iter(tensors))
        found = []
        results = self.function(*args, **kwargs)
        return found, _flatten(results, found)

    def again(self, tensors):
        """The results once more, recorded, with the same random numbers."""
        with enable_grad(), self.backward_context:
            if self.state is None:
                return self.call(tensors)[0]
            with fork_rng():
                set_rng_state(self.state)
                return self.call(tensors)[0]


class _Checkpoint(Function):
    """run, the results of its first call and which of them need a gradient, a tensor that makes the call recorded even
    when only tensors used inside need gradients, and the inputs."""

    @staticmethod
    def forward(ctx, run, outputs, anchor, *tensors):
        ctx.run = run
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        values = tuple(o.detach() for o in outputs)
        ctx.mark_non_differentiable(*[v for v, o in zip(values, outputs) if not o.requires_grad])
        return values

    @staticmethod
    def backward(ctx, *grads):
        if is_grad_enabled():
            raise RuntimeError("checkpoint: gradients of gradients do not go through a checkpoint")
        needs = ctx.needs_input_grad[3:]
        inputs = [t.detach().requires_grad_() if need else t.detach() for t, need in zip(ctx.saved_tensors, needs)]
        outputs = ctx.run.again(inputs)
        pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
        if pairs:
            _backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, None) + tuple(t.grad if need else None for t, need in zip(inputs, needs))


def _no_contexts():
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(function, *args, use_reentrant=None, context_fn=_no_contexts, determinism_check="default", debug=False,
               early_stop=True, preserve_rng_state=True, **kwargs):
    """function(*args, **kwargs), whose inside is not kept for backward but computed again there.

    Random numbers repeat (unless preserve_rng_state is False). Tensors that the function uses besides its arguments
    get their gradients with backward; autograd.grad sees the arguments only. use_reentrant and what follows is
    accepted for torch's sake: both kinds are the same here, and no argument need require a gradient."""
    if use_reentrant and kwargs:
        raise ValueError("checkpoint: keyword arguments need use_reentrant=False")
    if not is_grad_enabled():
        return function(*args, **kwargs)
    run = _Run(function, args, kwargs, preserve_rng_state, context_fn)
    with run.forward_context:
        outputs, rebuild = run.call(run.tensors)
    if not any(o.requires_grad for o in outputs):
        return rebuild(iter(outputs))
    anchor = _C.zeros((1,)).requires_grad_()
    tensors, run.tensors = run.tensors, None
    return rebuild(iter(_Checkpoint.apply(run, outputs, anchor, *tensors)))


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs a sequence of functions in so many checkpointed segments; the last one is run plainly."""
    functions = list(functions.children()) if hasattr(functions, "children") else list(functions)

    def run(first, last):
        def forward(value):
            for function in functions[first:last]:
                value = function(value)
            return value

        return forward

    size, start = len(functions) // segments, 0
    for _ in range(segments - 1):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
        start += size
    return run(start, len(functions))(input)
