"""Layers that make one tensor of several."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from ...nn import functional as F
from .base import Layer

__all__ = ["Add", "Average", "Concatenate", "Dot", "Maximum", "Minimum", "Multiply", "Subtract", "add", "average",
           "concatenate", "dot", "maximum", "minimum", "multiply", "subtract"]


class _Merge(Layer):  # unused: inputs (Keras's signature)
    supports_masking = True
    two = False  # whether it takes two inputs and no more

    def build(self, input_shape: Any) -> None:
        many = len(input_shape) if isinstance(input_shape, list) else 0
        if many < 1 or self.two and many != 2:
            raise ValueError("%s needs a list of %s inputs" % (type(self).__name__, "two" if self.two else "several"))
        self.built = True

    def combine(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def call(self, inputs: Any) -> Any:
        total = inputs[0]
        for other in inputs[1:]:
            total = self.combine(*_aligned(total, other))
        return total

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Places that count in any of the inputs that say so."""
        known = [m for m in mask or () if m is not None]
        if not known or len(known) < len(mask):
            return None
        made = known[0]
        for other in known[1:]:
            made = made | other
        return made


def _aligned(a: Any, b: Any) -> tuple[Any, Any]:
    """With as many dimensions: those that one lacks come after its first, the samples."""
    while a.ndim < b.ndim:
        a = a.unsqueeze(1)
    while b.ndim < a.ndim:
        b = b.unsqueeze(1)
    return a, b


class Add(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return a + b


class Subtract(_Merge):
    two = True

    def combine(self, a: Any, b: Any) -> Any:
        return a - b


class Multiply(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return a * b


class Average(Add):
    def call(self, inputs: Any) -> Any:
        return super().call(inputs) / len(inputs)


class Maximum(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return cairn.maximum(a, b)


class Minimum(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return cairn.minimum(a, b)


class Concatenate(_Merge):
    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(axis=axis)

    def call(self, inputs: Any) -> Any:
        return cairn.cat(list(inputs), dim=self.axis)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        if mask is None or all(m is None for m in mask):
            return None
        whole = [cairn.ones(tuple(x.shape), dtype=cairn.bool, device=x.device) if m is None else
                 m.unsqueeze(-1).expand(tuple(x.shape)) if m.ndim < x.ndim else m for x, m in zip(inputs, mask)]
        return cairn.cat(whole, dim=self.axis).any(-1)


class Dot(_Merge):  # unused: inputs, mask (Keras's signature)
    """Products of two inputs, summed over one dimension of each."""

    two = True

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(axes=axes, normalize=normalize)

    def call(self, inputs: Any) -> Any:
        a, b = inputs
        first, second = (self.axes, self.axes) if isinstance(self.axes, int) else self.axes
        i, j = first % a.ndim, second % b.ndim
        if self.normalize:
            a, b = F.normalize(a, dim=i), F.normalize(b, dim=j)
        rows, columns = a.movedim(i, -1), b.movedim(j, -1)
        n = rows.shape[0]
        out = rows.reshape(n, -1, rows.shape[-1]) @ columns.reshape(n, -1, columns.shape[-1]).transpose(1, 2)
        shape = tuple(rows.shape[:-1]) + tuple(columns.shape[1:-1])
        return out.reshape(shape if len(shape) > 1 else (n, 1))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None


def _as_function(kind: type[Layer]) -> Callable[..., Any]:
    def merged(inputs: Any, **kwargs: Any) -> Any:
        return kind(**kwargs)(inputs)
    merged.__name__ = merged.__qualname__ = kind.__name__.lower()
    return merged


add, subtract, multiply, average = (_as_function(k) for k in (Add, Subtract, Multiply, Average))
maximum, minimum = _as_function(Maximum), _as_function(Minimum)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    return Concatenate(axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any = -1, **kwargs: Any) -> Any:
    return Dot(axes, **kwargs)(inputs)
