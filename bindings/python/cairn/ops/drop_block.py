"""Squares and cubes of feature maps set to zero in training. torchvision.ops.drop_block's names."""
from __future__ import annotations

from typing import Callable

from .. import _C, nn
from .._tensor import Tensor
from ..nn import functional as _F

__all__ = ["DropBlock2d", "DropBlock3d", "drop_block2d", "drop_block3d"]


def _dropped(input: Tensor, p: float, block_size: int, inplace: bool, eps: float, dims: int,
             pool: Callable[..., Tensor]) -> Tensor:
    sizes = input.shape[2:]
    size = min(block_size, *sizes)
    room = [s - size + 1 for s in sizes]
    whole = begins = 1
    for s, r in zip(sizes, room):
        whole, begins = whole * s, begins * r
    gamma = p * whole / (size ** dims * begins)
    drops = _C.empty((*input.shape[:2], *room), dtype=input.dtype, device=input.device).bernoulli_(gamma)
    drops = _F.pad(drops, [size // 2] * (2 * dims))
    stays = 1 - pool(drops, size, stride=1, padding=size // 2)
    stays = stays * (stays.numel() / (eps + stays.sum()))
    return input.mul_(stays) if inplace else input * stays


def _check(p: float, input: Tensor, dims: int) -> None:
    if not 0 <= p <= 1:
        raise ValueError("p is a probability, not %s" % p)
    if input.ndim != dims + 2:
        raise ValueError("input has %d dimensions, not %d" % (dims + 2, input.ndim))


def drop_block2d(input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6,
                 training: bool = True) -> Tensor:
    """Squares of (n, channels, h, w) set to zero, so that about a part p is, and the rest scaled up for it."""
    _check(p, input, 2)
    return _dropped(input, p, block_size, inplace, eps, 2, _F.max_pool2d) if training and p else input


def drop_block3d(input: Tensor, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6,
                 training: bool = True) -> Tensor:
    """The same with cubes of (n, channels, d, h, w)."""
    _check(p, input, 3)
    return _dropped(input, p, block_size, inplace, eps, 3, _F.max_pool3d) if training and p else input


class DropBlock2d(nn.Module):
    """drop_block2d as a layer."""

    def __init__(self, p: float, block_size: int, inplace: bool = False, eps: float = 1e-6) -> None:
        super().__init__()
        self.p, self.block_size, self.inplace, self.eps = p, block_size, inplace, eps

    def forward(self, input: Tensor) -> Tensor:
        return drop_block2d(input, self.p, self.block_size, self.inplace, self.eps, self.training)

    def __repr__(self) -> str:
        return "%s(p=%s, block_size=%s, inplace=%s)" % (type(self).__name__, self.p, self.block_size, self.inplace)


class DropBlock3d(DropBlock2d):
    """drop_block3d as a layer."""

    def forward(self, input: Tensor) -> Tensor:
        return drop_block3d(input, self.p, self.block_size, self.inplace, self.eps, self.training)
