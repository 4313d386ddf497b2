"""GradientTape: gradients the way TensorFlow's users write them."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Callable, Iterator

from .. import _C
from .._modes import enable_grad, no_grad
from .._tensor import Tensor
from . import grad as _grad
from . import functional as _functional

__all__ = ["GradientTape"]


class _Open(threading.local):
    """The tapes of a thread that record now, outermost first."""

    def __init__(self) -> None:
        self.tapes: list[GradientTape] = []


_open = _Open()


def _flatten(value: Any, into: list[Tensor]) -> Callable[[Iterator[Any]], Any]:
    """Tensors of a nested structure in order; returns a function that rebuilds it from as many values."""
    if isinstance(value, dict):
        named = {k: _flatten(v, into) for k, v in value.items()}
        return lambda values: {k: part(values) for k, part in named.items()}
    if isinstance(value, (list, tuple)):
        parts = [_flatten(v, into) for v in value]
        kind = list if isinstance(value, list) else tuple
        return lambda values: kind(part(values) for part in parts)
    if not isinstance(value, Tensor):
        raise TypeError(f"GradientTape: expected tensors, not {type(value).__name__}")
    into.append(value)
    return next


class GradientTape:
    """Records what is computed inside, and returns gradients of it::

        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
        dy = tape.gradient(y, x)

    Tensors that require a gradient are watched by themselves (unless watch_accessed_variables is False, which only
    says what to do with sources that nobody watched: their gradient is None). One gradient can be asked for, or any
    number with persistent=True. What is asked inside an outer tape is recorded by it: gradients of gradients."""

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._automatic = watch_accessed_variables
        self._switched: list[Tensor] = []  # tensors that this tape made record
        self._watched: list[Tensor] = []
        self._mode: enable_grad | None = None
        self._used = False

    def __enter__(self) -> GradientTape:
        if self._mode is not None:
            raise ValueError("GradientTape: it is already recording")
        self._mode = enable_grad()
        self._mode.__enter__()
        _open.tapes.append(self)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _open.tapes.remove(self)
        mode, self._mode = self._mode, None
        if mode is not None:
            mode.__exit__(kind, value, trace)

    def __del__(self) -> None:
        self._release()

    def watch(self, tensor: Any) -> None:
        """Makes what is computed from these tensors (also nested lists, tuples and dicts) have gradients."""
        tensors: list[Tensor] = []
        _flatten(tensor, tensors)
        for t in tensors:
            if not t.is_floating_point():
                raise ValueError(f"GradientTape: only floating-point tensors can be watched, not {t.dtype}")
            if not t.requires_grad:
                t.requires_grad_()
                self._switched.append(t)
            self._watched.append(t)

    def watched_variables(self) -> tuple[Tensor, ...]:
        return tuple(self._watched)

    def stop_recording(self) -> no_grad:
        """A context inside which nothing is recorded."""
        return no_grad()

    def reset(self) -> None:
        """Forgets what was watched."""
        self._release()
        self._watched = []
        self._used = False

    def _release(self) -> None:
        switched, self._switched = self._switched, []
        if any(tape is not self for tape in _open.tapes):
            return  # an outer tape may still need them
        for t in switched:
            if t.is_leaf:
                t.requires_grad_(False)

    def _counts(self, source: Tensor) -> bool:
        return source.requires_grad and (self._automatic or any(source is t for t in self._watched))

    def _begin(self) -> None:
        if self._used and not self._persistent:
            raise RuntimeError("GradientTape: a tape that is not persistent is asked once")
        self._used = True

    def _end(self) -> None:
        if not self._persistent:
            self._release()

    def gradient(self, target: Any, sources: Any, output_gradients: Any = None,
                 unconnected_gradients: str = "none") -> Any:
        """The gradient of the target (or the sum of all its elements) by each source, in the sources' structure. None,
        or zeros with unconnected_gradients='zero', for a source that does not take part."""
        if unconnected_gradients not in ("none", "zero"):
            raise ValueError("GradientTape: unconnected_gradients is 'none' or 'zero'")
        self._begin()
        outs: list[Tensor] = []
        ins: list[Tensor] = []
        seeds: list[Tensor] = []
        _flatten(target, outs)
        rebuild = _flatten(sources, ins)
        if output_gradients is None:
            seeds = [_C.ones_like(o) for o in outs]
        else:
            _flatten(output_gradients, seeds)
        pairs = [(o, s) for o, s in zip(outs, seeds) if o.requires_grad]
        chosen = [i for i, x in enumerate(ins) if self._counts(x)]
        result: list[Tensor | None] = [None] * len(ins)
        if pairs and chosen:
            inside = bool(_open.tapes)  # of another tape, which records this
            found = _grad([o for o, _ in pairs], [ins[i] for i in chosen], [s for _, s in pairs],
                          retain_graph=self._persistent or inside, create_graph=inside, allow_unused=True)
            for i, g in zip(chosen, found):
                result[i] = g
        if unconnected_gradients == "zero":
            result = [_C.zeros_like(x) if g is None else g for g, x in zip(result, ins)]
        self._end()
        return rebuild(iter(result))

    def jacobian(self, target: Tensor, sources: Any, unconnected_gradients: str = "none") -> Any:
        """All derivatives of the target by each source: tensors of shape target.shape + source.shape."""
        self._begin()
        ins: list[Tensor] = []
        rebuild = _flatten(sources, ins)
        result: list[Tensor | None] = [None] * len(ins)
        chosen = [i for i, x in enumerate(ins) if self._counts(x)]
        if target.requires_grad and chosen:
            rows = _functional._rows(target, tuple(ins[i] for i in chosen), bool(_open.tapes), False)
            for i, g in zip(chosen, rows):
                result[i] = g
        if unconnected_gradients == "zero":
            result = [_C.zeros(tuple(target.shape) + tuple(x.shape), dtype=x.dtype) if g is None else g
                      for g, x in zip(result, ins)]
        self._end()
        return rebuild(iter(result))
