"""Convolutions whose kernel looks at points that an input moves. torchvision.ops.deform_conv's names.

Invariant: the result is put together from ops with gradients, so that input, offsets, masks, weights and bias all have
theirs.
"""
from __future__ import annotations

import math
from typing import Any

from .. import _C, nn
from .._tensor import Tensor

__all__ = ["DeformConv2d", "deform_conv2d"]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def _sampled(x: Tensor, y: Tensor, z: Tensor) -> Tensor:
    """x (n, c, h, w) between its pixels, at rows y and columns z (n, points); nothing outside: (n, c, points)."""
    n, channels, high, wide = x.shape
    flat, made = x.reshape(n, channels, high * wide), None
    top, left = _C.floor(y).detach(), _C.floor(z).detach()
    for row, part in ((top, 1 - (y - top)), (top + 1, y - top)):
        for column, more in ((left, 1 - (z - left)), (left + 1, z - left)):
            inside = (row >= 0) & (row < high) & (column >= 0) & (column < wide)
            at = (row.clamp(0, high - 1) * wide + column.clamp(0, wide - 1)).to(_C.int64)
            weight = _C.where(inside, part * more, _C.zeros_like(part))
            corner = flat.gather(2, at[:, None].expand(n, channels, at.shape[1])) * weight[:, None]
            made = corner if made is None else made + corner
    assert made is not None
    return made


def deform_conv2d(input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = (1, 1),
                  padding: Any = (0, 0), dilation: Any = (1, 1), mask: Tensor | None = None) -> Tensor:
    """conv2d, in which place k of the kernel looks offset[:, 2k] rows down and offset[:, 2k + 1] columns right of where
    it would, and what it sees counts mask[:, k] times. offset (n, 2 * groups * places, rows, columns) may have groups
    of the input's channels."""
    (sy, sx), (py, px), (dy, dx) = _pair(stride), _pair(padding), _pair(dilation)
    n, channels, high, wide = input.shape
    out, each, kh, kw = weight.shape
    rows, columns = (high + 2 * py - dy * (kh - 1) - 1) // sy + 1, (wide + 2 * px - dx * (kw - 1) - 1) // sx + 1
    places = kh * kw
    groups = offset.shape[1] // (2 * places)
    if not groups or offset.shape[1] != 2 * groups * places or channels % groups or channels % each:
        raise RuntimeError("deform_conv2d: offsets of %d channels, a kernel (%d, %d) and %d channels do not fit"
                           % (offset.shape[1], kh, kw, channels))
    if tuple(offset.shape) != (n, 2 * groups * places, rows, columns):
        raise RuntimeError("deform_conv2d: offset is %s, but the result has %d rows and %d columns"
                           % (tuple(offset.shape), rows, columns))
    if mask is not None and tuple(mask.shape) != (n, groups * places, rows, columns):
        raise RuntimeError("deform_conv2d: mask is %s, not %s"
                           % (tuple(mask.shape), (n, groups * places, rows, columns)))

    def usual(count: int, step: int, pad: int, size: int, gap: int) -> tuple[Tensor, Tensor]:
        at = _C.arange(0, count, device=input.device) * step - pad
        return at.to(input.dtype), (_C.arange(0, size, device=input.device) * gap).to(input.dtype)
    (y, ky), (z, kz) = usual(rows, sy, py, kh, dy), usual(columns, sx, px, kw, dx)
    moved = offset.reshape(n * groups, kh, kw, 2, rows, columns)
    y = moved[:, :, :, 0] + (ky[:, None, None, None] + y[:, None])
    z = moved[:, :, :, 1] + (kz[:, None, None] + z)
    seen = _sampled(input.reshape(n * groups, channels // groups, high, wide), y.reshape(n * groups, -1),
                    z.reshape(n * groups, -1))
    if mask is not None:
        seen = seen * mask.reshape(n * groups, 1, -1)
    parts = channels // each  # of the weights
    seen = seen.reshape(n, parts, each * places, rows * columns)
    made = weight.reshape(parts, out // parts, each * places) @ seen
    made = made.reshape(n, out, rows, columns)
    return made if bias is None else made + bias.reshape(1, -1, 1, 1)


class DeformConv2d(nn.Module):
    """deform_conv2d with weights of its own."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1, bias: bool = True) -> None:
        super().__init__()
        if in_channels % groups or out_channels % groups:
            raise ValueError("in_channels and out_channels are multiples of groups, not %d, %d and %d"
                             % (in_channels, out_channels, groups))
        self.in_channels, self.out_channels, self.groups = in_channels, out_channels, groups
        self.kernel_size, self.stride = _pair(kernel_size), _pair(stride)
        self.padding, self.dilation = _pair(padding), _pair(dilation)
        self.weight = nn.Parameter(_C.empty((out_channels, in_channels // groups, *self.kernel_size)))
        self.bias = nn.Parameter(_C.empty((out_channels,))) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As a Conv2d's."""
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.weight[0].numel())
            nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor, offset: Tensor, mask: Tensor | None = None) -> Tensor:
        return deform_conv2d(input, offset, self.weight, self.bias, self.stride, self.padding, self.dilation, mask)

    def __repr__(self) -> str:
        more = [("padding", (0, 0)), ("dilation", (1, 1)), ("groups", 1)]
        text = ["%d" % self.in_channels, "%d" % self.out_channels, "kernel_size=%s" % (self.kernel_size,),
                "stride=%s" % (self.stride,)]
        text += ["%s=%s" % (name, getattr(self, name)) for name, usual in more if getattr(self, name) != usual]
        return "%s(%s%s)" % (type(self).__name__, ", ".join(text), "" if self.bias is not None else ", bias=False")
