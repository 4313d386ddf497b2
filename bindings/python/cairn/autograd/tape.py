"""GradientTape: gradients the way TensorFlow's users write them."""

import threading

from .. import _C
from .._modes import enable_grad, no_grad
from . import grad as _grad
from . import functional as _functional

__all__ = ["GradientTape"]

_Tensor = _C.TensorBase


class _Open(threading.local):
    """The tapes of a thread that record now, outermost first."""

    def __init__(self):
        self.tapes = []


_open = _Open()


def _flatten(value, into):
    """Tensors of a nested structure in order; answers a function that rebuilds it from as many values."""
    if isinstance(value, dict):
        parts = {k: _flatten(v, into) for k, v in value.items()}
        return lambda values: {k: part(values) for k, part in parts.items()}
    if isinstance(value, (list, tuple)):
        parts = [_flatten(v, into) for v in value]
        kind = list if isinstance(value, list) else tuple
        return lambda values: kind(part(values) for part in parts)
    if not isinstance(value, _Tensor):
        raise TypeError(f"GradientTape: expected tensors, not {type(value).__name__}")
    into.append(value)
    return lambda values: next(values)


class GradientTape:
    """Records what is computed inside, and answers gradients of it::

        with GradientTape() as tape:
            tape.watch(x)
            y = x * x
        dy = tape.gradient(y, x)

    Tensors that require a gradient are watched by themselves (unless watch_accessed_variables is False, which only
    says what to do with sources that nobody watched: their gradient is None). One gradient can be asked for, or any
    number with persistent=True. What is asked inside an outer tape is recorded by it: gradients of gradients."""

    def __init__(self, persistent=False, watch_accessed_variables=True):
        self._persistent = persistent
        self._automatic = watch_accessed_variables
        self._switched = []  # tensors that this tape made record
        self._watched = []
        self._mode = None
        self._used = False

    def __enter__(self):
        if self._mode is not None:
            raise ValueError("GradientTape: it is already recording")
        self._mode = enable_grad()
        self._mode.__enter__()
        _open.tapes.append(self)
        return self

    def __exit__(self, kind, value, trace):
        _open.tapes.remove(self)
        mode, self._mode = self._mode, None
        mode.__exit__(kind, value, trace)
        return False

    def __del__(self):
        self._release()

    def watch(self, tensor):
        """Makes what is computed from these tensors (also nested lists, tuples and dicts) have gradients."""
        tensors = []
        _flatten(tensor, tensors)
        for t in tensors:
            if not t.is_floating_point():
                raise ValueError(f"GradientTape: only floating-point tensors can be watched, not {t.dtype}")
            if not t.requires_grad:
                t.requires_grad_()
                self._switched.append(t)
            self._watched.append(t)

    def watched_variables(self):
        return tuple(self._watched)

    def stop_recording(self):
        """A context inside which nothing is recorded."""
        return no_grad()

    def reset(self):
        """Forgets what was watched."""
        self._release()
        self._watched = []
        self._used = False

    def _release(self):
        switched, self._switched = self._switched, []
        if any(tape is not self for tape in _open.tapes):
            return  # an outer tape may still need them
        for t in switched:
            if t.is_leaf:
                t.requires_grad_(False)

    def _counts(self, source):
        return source.requires_grad and (self._automatic or any(source is t for t in self._watched))

    def _begin(self):
        if self._used and not self._persistent:
            raise RuntimeError("GradientTape: a tape that is not persistent answers once")
        self._used = True

    def _end(self):
        if not self._persistent:
            self._release()

    def gradient(self, target, sources, output_gradients=None, unconnected_gradients="none"):
        """The gradient of the target (or the sum of all its elements) by each source, in the sources' structure. None,
        or zeros with unconnected_gradients='zero', for a source that does not take part."""
        if unconnected_gradients not in ("none", "zero"):
            raise ValueError("GradientTape: unconnected_gradients is 'none' or 'zero'")
        self._begin()
        outs, ins = [], []
        _flatten(target, outs)
        rebuild = _flatten(sources, ins)
        seeds = [None] * len(outs)
        if output_gradients is not None:
            seeds = []
            _flatten(output_gradients, seeds)
        pairs = [(o, _C.ones_like(o) if s is None else s) for o, s in zip(outs, seeds) if o.requires_grad]
        chosen = [i for i, x in enumerate(ins) if self._counts(x)]
        answer = [None] * len(ins)
        if pairs and chosen:
            inside = bool(_open.tapes)  # of another tape, which records this
            found = _grad([o for o, _ in pairs], [ins[i] for i in chosen], [s for _, s in pairs],
                          retain_graph=self._persistent or inside, create_graph=inside, allow_unused=True)
            for i, g in zip(chosen, found):
                answer[i] = g
        if unconnected_gradients == "zero":
            answer = [_C.zeros_like(x) if g is None else g for g, x in zip(answer, ins)]
        self._end()
        return rebuild(iter(answer))

    def jacobian(self, target, sources, unconnected_gradients="none"):
        """All derivatives of the target by each source: tensors of shape target.shape + source.shape."""
        self._begin()
        ins = []
        rebuild = _flatten(sources, ins)
        answer = [None] * len(ins)
        chosen = [i for i, x in enumerate(ins) if self._counts(x)]
        if target.requires_grad and chosen:
            rows = _functional._rows(target, tuple(ins[i] for i in chosen), bool(_open.tapes), False)
            for i, g in zip(chosen, rows):
                answer[i] = g
        if unconnected_gradients == "zero":
            answer = [_C.zeros(tuple(target.shape) + tuple(x.shape), dtype=x.dtype) if g is None else g
                      for g, x in zip(answer, ins)]
        self._end()
        return rebuild(iter(answer))
