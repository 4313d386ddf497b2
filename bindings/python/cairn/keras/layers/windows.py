"""What layers with a window share: where the channels are, tuples of sizes, room around.

The ops take (N, C, ...); layers with channels_last show them their inputs with the dimensions in that order.
"""
from __future__ import annotations

from typing import Any

from ...nn import functional as F
from .base import Layer

__all__ = ["Windowed", "padded", "same_pads", "to_first", "to_last", "tuple_of"]


def tuple_of(value: Any, n: int, what: str, least: int = 1) -> tuple[int, ...]:
    """One number for each of n dimensions."""
    made = (int(value),) * n if hasattr(value, "__index__") else tuple(int(v) for v in value)
    if len(made) != n:
        raise ValueError("%s must be a number or %d of them, not %r" % (what, n, value))
    if any(v < least for v in made):
        raise ValueError("%s must be %d or more, not %r" % (what, least, value))
    return made


def to_first(x: Any) -> Any:
    """(N, ..., C) as (N, C, ...)."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def to_last(x: Any) -> Any:
    return x.permute(0, *range(2, x.ndim), 1)


def same_pads(sizes: Any, windows: Any, steps: Any, dilations: Any) -> list[tuple[int, int]]:
    """Room before and after, so that outputs have ceil(size / step) places; what is odd comes after."""
    pads = []
    for n, k, s, d in zip(sizes, windows, steps, dilations):
        whole = max((-(-int(n) // s) - 1) * s + (k - 1) * d + 1 - int(n), 0)
        pads.append((whole // 2, whole - whole // 2))
    return pads


def padded(x: Any, pads: list[tuple[int, int]], value: float = 0.0) -> Any:
    """x (N, C, ...) with room around the last dimensions."""
    flat = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


class Windowed(Layer):
    """Of `ndim` dimensions with a window; data_format says where the channels are."""

    ndim = 2
    _float_inputs = True
    channels_first = False

    def _format(self, data_format: str | None) -> None:
        if data_format not in (None, "channels_last", "channels_first"):
            raise ValueError("data_format is channels_last or channels_first, not %r" % (data_format,))
        from ..backend import image_data_format
        self.data_format = data_format or image_data_format()
        self.channels_first = self.data_format == "channels_first"

    def _padding(self, padding: str, *more: str) -> None:
        self.padding = str(padding).lower()
        if self.padding not in ("valid", "same", *more):
            raise ValueError("padding of %s is %s, not %r"
                             % (type(self).__name__, " or ".join(repr(p) for p in ("valid", "same", *more)), padding))

    def _check(self, inputs: Any) -> None:
        if inputs.ndim != self.ndim + 2:
            where = "channels, ..." if self.channels_first else "..., channels"
            raise ValueError("%s needs inputs of %d dimensions (samples, %s), not of shape %s"
                             % (self.name, self.ndim + 2, where, tuple(inputs.shape)))

    def _channels(self, input_shape: Any) -> int:
        """How many an input has."""
        if len(input_shape) != self.ndim + 2:
            raise ValueError("%s needs inputs of %d dimensions, not of shape %s"
                             % (self.name, self.ndim + 2, tuple(input_shape)))
        n = input_shape[1 if self.channels_first else -1]
        if n is None:
            raise ValueError("%s: the number of channels must be known; the shape is %s"
                             % (self.name, tuple(input_shape)))
        return int(n)
