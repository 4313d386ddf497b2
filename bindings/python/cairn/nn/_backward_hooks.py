"""Backward hooks of modules: inputs and results of a call pass through functions that do nothing but tell their
gradients. Those of results are known first, so the hooks run when the inputs' arrive."""
from __future__ import annotations

from typing import Any

from .._modes import is_grad_enabled
from .._tensor import Tensor
from ..autograd.function import Function

__all__ = ()


class _Pass(Function):
    """Hands tensors on; in backward `tell` sees their gradients and may replace them."""

    @staticmethod
    def forward(ctx: Any, tell: Any, *tensors: Tensor) -> Any:
        ctx.tell = tell
        ctx.set_materialize_grads(False)
        return tuple(t.view_as(t) for t in tensors)

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        return (None, *ctx.tell(grads))


class Watch:
    """One call of a module that has backward hooks."""

    def __init__(self, module: Any, hooks: list[Any], before: list[Any]) -> None:
        self.module, self.hooks, self.before = module, hooks, before
        self.places: list[int] = []
        self.out_places: list[int] = []
        self.count = self.out_count = 0
        self.grad_output: tuple[Any, ...] | None = None

    def _through(self, values: tuple[Any, ...], tell: Any) -> tuple[tuple[Any, ...], list[int]]:
        places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        if not is_grad_enabled() or not any(values[i].requires_grad for i in places):
            return values, []
        made = list(values)
        for i, t in zip(places, _Pass.apply(tell, *(values[i] for i in places))):
            made[i] = t
        return tuple(made), places

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        self.count = len(args)
        args, self.places = self._through(args, self._inputs_known)
        return args

    def results(self, result: Any) -> Any:
        several = isinstance(result, (tuple, list))
        values = tuple(result) if several else (result,)
        self.out_count = len(values)
        made, self.out_places = self._through(values, self._results_known)
        if not several:
            return made[0]
        if hasattr(result, "_fields"):
            return type(result)(*made)
        return type(result)(made)

    def _results_known(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        known = dict(zip(self.out_places, grads))
        grads = tuple(known.get(i) for i in range(self.out_count))  # what is no tensor has none
        for hook in self.before:
            result = hook(self.module, grads)
            if result is not None:
                grads = result if isinstance(result, tuple) else (result,)
        self.grad_output = grads
        if not self.places:  # no input requires a gradient
            for hook in self.hooks:
                hook(self.module, (None,) * self.count, grads)
        return tuple(grads[i] for i in self.out_places)

    def _inputs_known(self, grads: tuple[Any, ...]) -> tuple[Any, ...]:
        given: list[Any] = [None] * self.count
        for i, g in zip(self.places, grads):
            given[i] = g
        for hook in self.hooks:
            result = hook(self.module, tuple(given), self.grad_output)
            if result is not None:
                given = list(result if isinstance(result, tuple) else (result,))
                if len(given) != self.count:
                    raise RuntimeError("the backward hook must return %d gradients, not %d" % (self.count, len(given)))
        return tuple(given[i] for i in self.places)
