"""Convolutions whose kernel looks at points that an input moves. torchvision.ops.deform_conv's names.

The op is C's: input, offsets, masks, weights and bias all have gradients.
"""
from __future__ import annotations

import math
from typing import Any

from .. import _C, nn
from .._tensor import Tensor

__all__ = ["DeformConv2d", "deform_conv2d"]


def _pair(value: Any) -> tuple[int, int]:
    return (value, value) if isinstance(value, int) else (int(value[0]), int(value[1]))


def deform_conv2d(input: Tensor, offset: Tensor, weight: Tensor, bias: Tensor | None = None, stride: Any = (1, 1),
                  padding: Any = (0, 0), dilation: Any = (1, 1), mask: Tensor | None = None) -> Tensor:
    """conv2d, in which place k of the kernel looks offset[:, 2k] rows down and offset[:, 2k + 1] columns right of where
    it would, and what it sees counts mask[:, k] times. offset (n, 2 * groups * places, rows, columns) may have groups
    of the input's channels."""
    return _C.deform_conv2d(input, offset, weight, bias, list(_pair(stride)), list(_pair(padding)),
                            list(_pair(dilation)), mask=mask)


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
