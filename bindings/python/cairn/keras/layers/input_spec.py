"""InputSpec: what a layer says of its inputs, and the check of a call's first argument against it."""
from __future__ import annotations

from typing import Any

from ..._training.batches import flatten
from ..backend import standardize_dtype

__all__ = ["InputSpec", "check_inputs"]


class InputSpec:
    """The rank, sizes and type that a layer takes; what is None may be anything. A layer that has one (or a list of
    them) as its input_spec refuses other inputs.

    allow_last_axis_squeeze: a last size of 1 may be there or not. optional: the input may be None."""

    def __init__(self, dtype: Any = None, shape: Any = None, ndim: int | None = None, max_ndim: int | None = None,
                 min_ndim: int | None = None, axes: Any = None, allow_last_axis_squeeze: bool = False,
                 name: str | None = None, optional: bool = False) -> None:
        self.dtype = None if dtype is None else standardize_dtype(dtype)
        self.shape = None if shape is None else tuple(shape)
        self.ndim = ndim if self.shape is None else len(self.shape)
        self.max_ndim, self.min_ndim, self.name, self.optional = max_ndim, min_ndim, name, optional
        self.allow_last_axis_squeeze = allow_last_axis_squeeze
        self.axes = {int(k): v for k, v in (axes or {}).items()}

    def __repr__(self) -> str:
        said = ", ".join("%s=%s" % (k, v) for k, v in vars(self).items()
                         if v not in (None, {}, False) and k != "optional")
        return "InputSpec(%s)" % said

    def wrong(self, x: Any) -> str | None:
        """What does not fit; None when all does."""
        shape = tuple(x.shape)
        if self.ndim is not None and len(shape) != self.ndim and not self.allow_last_axis_squeeze:
            return "%d dimensions, not %d" % (self.ndim, len(shape))
        if self.max_ndim is not None and len(shape) > self.max_ndim:
            return "at most %d dimensions, not %d" % (self.max_ndim, len(shape))
        if self.min_ndim is not None and len(shape) < self.min_ndim:
            return "%d dimensions or more, not %d" % (self.min_ndim, len(shape))
        if self.dtype is not None and standardize_dtype(x.dtype) != self.dtype:
            return "type %s, not %s" % (self.dtype, standardize_dtype(x.dtype))
        for axis, size in self.axes.items():
            if size is not None and shape[axis] not in (size, None):
                return "size %s along axis %d, not %s" % (size, axis, shape[axis])
        return self._wrong_sizes(shape)

    def _wrong_sizes(self, shape: tuple[Any, ...]) -> str | None:
        if self.shape is None:
            return None
        mine, theirs = self.shape, shape
        if self.allow_last_axis_squeeze:
            mine, theirs = (s[:-1] if s and s[-1] == 1 else s for s in (mine, theirs))
        fits = len(mine) == len(theirs) and all(a is None or b is None or a == b for a, b in zip(mine, theirs))
        return None if fits else "shape %s, not %s" % (self.shape, shape)


def check_inputs(spec: Any, inputs: Any, layer: str) -> None:
    """Raises when inputs are not what a layer's input_spec says."""
    specs = flatten(spec)
    if isinstance(inputs, dict) and all(getattr(s, "name", None) for s in specs):
        missing = [s.name for s in specs if s.name not in inputs]
        if missing:
            raise ValueError("%s: there is no input %r among %s" % (layer, missing[0], ", ".join(inputs)))
        inputs = [inputs[s.name] for s in specs]
    given = flatten(inputs)
    if len(given) != len(specs):
        raise ValueError("%s takes %d inputs, not %d" % (layer, len(specs), len(given)))
    for i, (one, x) in enumerate(zip(specs, given)):
        if one is None or x is None and one.optional:
            continue
        if not hasattr(x, "shape"):
            raise ValueError("%s takes tensors, not %r" % (layer, x))
        wrong = one.wrong(x)
        if wrong is not None:
            raise ValueError("input %d%s of %s has %s" % (
                i, " (%s)" % one.name if one.name else "", layer, wrong))
