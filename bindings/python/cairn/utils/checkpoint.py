"""Checkpointing: memory for time. The inside of a function is not kept for backward but computed again there."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, ContextManager, Iterable, Iterator, TypeVar

from .. import _C
from .._modes import enable_grad, is_grad_enabled
from ..autograd import backward as _backward
from .._tensor import Tensor
from ..autograd.function import Function, FunctionCtx
from ..random import fork_rng, get_rng_state, set_rng_state

__all__ = ["checkpoint", "checkpoint_sequential"]

_T = TypeVar("_T")


def _flatten(value: Any, into: list[Tensor]) -> Callable[[Iterator[Tensor]], Any]:
    """Takes the tensors out of nested lists, tuples and dicts; answers a function that puts others in their place."""
    if isinstance(value, Tensor):
        into.append(value)
        return next
    if isinstance(value, dict):
        named = {k: _flatten(v, into) for k, v in value.items()}
        return lambda tensors: {k: part(tensors) for k, part in named.items()}
    if isinstance(value, (list, tuple)):
        parts = [_flatten(v, into) for v in value]
        if hasattr(value, "_fields"):  # a named tuple
            return lambda tensors: type(value)(*[part(tensors) for part in parts])
        kind = list if isinstance(value, list) else tuple
        return lambda tensors: kind(part(tensors) for part in parts)
    return lambda tensors: value


_Contexts = Callable[[], tuple[ContextManager[Any], ContextManager[Any]]]


class _Run:
    """One checkpointed call: the function and how its arguments and results are put together."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
                 preserve_rng_state: bool, context_fn: _Contexts) -> None:
        self.function = function
        self.tensors: list[Tensor] = []
        self.rebuild = _flatten((args, kwargs), self.tensors)
        self.state = get_rng_state() if preserve_rng_state else None
        self.forward_context, self.backward_context = context_fn()

    def call(self, tensors: Iterable[Tensor]) -> tuple[list[Tensor], Callable[[Iterator[Tensor]], Any]]:
        args, kwargs = self.rebuild(iter(tensors))
        found: list[Tensor] = []
        results = self.function(*args, **kwargs)
        return found, _flatten(results, found)

    def again(self, tensors: Iterable[Tensor]) -> list[Tensor]:
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
    def forward(ctx: FunctionCtx, run: _Run, outputs: list[Tensor], anchor: Tensor,
                *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.run = run
        ctx.save_for_backward(*tensors)
        ctx.set_materialize_grads(False)
        values = tuple(o.detach() for o in outputs)
        ctx.mark_non_differentiable(*[v for v, o in zip(values, outputs) if not o.requires_grad])
        return values

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        if is_grad_enabled():
            raise RuntimeError("checkpoint: gradients of gradients do not go through a checkpoint")
        needs = ctx.needs_input_grad[3:]
        inputs = [t.detach().requires_grad_() if need else t.detach() for t, need in zip(ctx.saved_tensors, needs)]
        outputs = ctx.run.again(inputs)
        pairs = [(o, g) for o, g in zip(outputs, grads) if g is not None and o.requires_grad]
        if pairs:
            _backward([o for o, _ in pairs], [g for _, g in pairs])
        return (None, None, None) + tuple(t.grad if need else None for t, need in zip(inputs, needs))


def _no_contexts() -> tuple[ContextManager[Any], ContextManager[Any]]:
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(function: Callable[..., _T], *args: Any, use_reentrant: bool | None = None,
               context_fn: _Contexts = _no_contexts, determinism_check: str = "default", debug: bool = False,
               early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any) -> _T:
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
        plain: _T = rebuild(iter(outputs))
        return plain
    anchor = _C.zeros((1,)).requires_grad_()
    tensors, run.tensors = run.tensors, []
    result: _T = rebuild(iter(_Checkpoint.apply(run, outputs, anchor, *tensors)))
    return result


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """Runs a sequence of functions in so many checkpointed segments; the last one is run plainly."""
    steps: list[Callable[[Any], Any]] = list(functions.children() if hasattr(functions, "children") else functions)

    def run(first: int, last: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for function in steps[first:last]:
                value = function(value)
            return value

        return forward

    size, start = len(steps) // segments, 0
    for _ in range(segments - 1):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, **kwargs)
        start += size
    return run(start, len(steps))(input)
