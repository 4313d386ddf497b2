"""Layers that change shapes: flatten, reshape, permute, repeat, room around, parts of, more of."""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .base import Layer
from .windows import Windowed, to_first, to_last, tuple_of

__all__ = ["Cropping1D", "Cropping2D", "Cropping3D", "Flatten", "Permute", "RepeatVector", "Reshape", "UpSampling1D",
           "UpSampling2D", "UpSampling3D", "ZeroPadding1D", "ZeroPadding2D", "ZeroPadding3D"]


class Flatten(Layer):
    """One row of numbers for each sample, channels last."""

    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        from ..backend import image_data_format
        self._options(data_format=data_format or image_data_format())
        self.built = True

    def call(self, inputs: Any) -> Any:
        if self.data_format == "channels_first" and inputs.ndim > 2:
            inputs = to_last(inputs)
        return inputs.reshape(inputs.shape[0], -1) if inputs.numel() else \
            inputs.reshape(inputs.shape[0], int(cairn.tensor(inputs.shape[1:]).prod().item()))


class Reshape(Layer):
    """One size may be -1: what is left."""

    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = (target_shape,) if isinstance(target_shape, int) else tuple(target_shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.reshape((inputs.shape[0],) + self.target_shape)


class Permute(Layer):
    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if sorted(dims) != list(range(1, len(dims) + 1)):
            raise ValueError("Permute needs the dimensions 1 to n in another order, not %r" % (dims,))
        self.dims = tuple(dims)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.permute(0, *self.dims)


class RepeatVector(Layer):
    """(N, C) as (N, n, C)."""

    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not hasattr(n, "__index__"):
            raise TypeError("RepeatVector needs a whole number, not %r" % (n,))
        self.n = int(n)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.unsqueeze(1).expand(-1, self.n, -1)


class _Room(Windowed):
    """Pairs of numbers, before and after, for each dimension."""

    _float_inputs = False

    def _pairs(self, value: Any, what: str) -> Any:
        pairs = (value,) * self.ndim if hasattr(value, "__index__") else tuple(value)
        if self.ndim == 1 and len(pairs) == 2:
            pairs = (pairs,)
        if len(pairs) != self.ndim:
            raise ValueError("%s of %s is a number, %d of them or as many pairs, not %r"
                             % (what, type(self).__name__, self.ndim, value))
        made = tuple((int(p), int(p)) if hasattr(p, "__index__") else (int(p[0]), int(p[1])) for p in pairs)
        return made[0] if self.ndim == 1 else made

    def _each(self, value: Any) -> Any:
        return (value,) if self.ndim == 1 else value


class ZeroPadding2D(_Room):
    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self.padding = self._pairs(padding, "padding")
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        flat = [n for pair in reversed(self._each(self.padding)) for n in pair]
        return F.pad(inputs, flat if self.channels_first else [0, 0] + flat)


class ZeroPadding1D(ZeroPadding2D):
    ndim = 1


class ZeroPadding3D(ZeroPadding2D):
    ndim = 3


class Cropping2D(_Room):
    def __init__(self, cropping: Any = ((0, 0), (0, 0)), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self.cropping = self._pairs(cropping, "cropping")
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        at = 2 if self.channels_first else 1
        for i, (before, after) in enumerate(self._each(self.cropping)):
            left = int(inputs.shape[at + i]) - before - after
            if left <= 0:
                raise ValueError("%s leaves nothing of inputs of shape %s" % (self.name, tuple(inputs.shape)))
            inputs = inputs.narrow(at + i, before, left)
        return inputs


class Cropping1D(Cropping2D):
    ndim = 1
    _not_options = ("data_format",)

    def __init__(self, cropping: Any = (1, 1), **kwargs: Any) -> None:
        super().__init__(cropping, "channels_last", **kwargs)


class Cropping3D(Cropping2D):
    ndim = 3

    def __init__(self, cropping: Any = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(cropping, data_format, **kwargs)


class UpSampling2D(Windowed):
    _float_inputs = False

    def __init__(self, size: Any = 2, data_format: str | None = None, interpolation: str = "nearest",
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        if interpolation not in ("nearest", "bilinear", "bicubic"):
            raise ValueError("interpolation is nearest, bilinear or bicubic, not %r" % (interpolation,))
        self.size, self.interpolation = tuple_of(size, 2, "size"), interpolation
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        sizes = [int(n) * s for n, s in zip(x.shape[2:], self.size)]
        more: dict[str, Any] = {} if self.interpolation == "nearest" else {"align_corners": False}
        out = F.interpolate(x, size=sizes, mode=self.interpolation, **more)
        return out if self.channels_first else to_last(out)


class UpSampling1D(Windowed):
    """Each step `size` times."""

    ndim = 1
    _float_inputs = False

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = int(size)
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        return inputs.repeat_interleave(self.size, 1)


class UpSampling3D(Windowed):
    ndim = 3
    _float_inputs = False

    def __init__(self, size: Any = 2, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self.size = tuple_of(size, 3, "size")
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        at = 2 if self.channels_first else 1
        for i, n in enumerate(self.size):
            inputs = inputs.repeat_interleave(n, at + i)
        return inputs
