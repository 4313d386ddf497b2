"""Forms of torch.nn.functional around convolutions and pools that a signature cannot say: return_indices, None for a
size that stays, one number for several.
"""
from __future__ import annotations

import builtins
from typing import Any

from .. import _C

__all__ = ["max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
           "adaptive_max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
           "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "unfold", "interpolate", "upsample",
           "upsample_nearest", "upsample_bilinear", "max_unpool1d", "max_unpool2d", "max_unpool3d"]


# ---- pools ----

def _max_pool(name: str) -> Any:
    plain, both = getattr(_C, name), getattr(_C, name + "_with_indices")

    def pool(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
             ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
        op = both if return_indices else plain
        return op(input, kernel_size, None if stride in ((), []) else stride, padding, dilation, ceil_mode)

    def pool_with_indices(input: Any, kernel_size: Any, stride: Any = None, padding: Any = 0, dilation: Any = 1,
                          ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    for made, called, op in ((pool, name, plain), (pool_with_indices, name + "_with_indices", both)):
        made.__name__ = made.__qualname__ = called
        made.__doc__ = op.__doc__
    return pool, pool_with_indices


max_pool1d, max_pool1d_with_indices = _max_pool("max_pool1d")
max_pool2d, max_pool2d_with_indices = _max_pool("max_pool2d")
max_pool3d, max_pool3d_with_indices = _max_pool("max_pool3d")


def _sizes(output_size: Any, input: Any, dims: builtins.int) -> Any:
    """output_size as a list, with the input's sizes for None."""
    if not isinstance(output_size, (tuple, builtins.list)):
        output_size = [output_size] * dims
    if builtins.len(output_size) == dims < input.ndim:
        now = input.shape[-dims:]
        return [builtins.int(n) if s is None else s for s, n in builtins.zip(output_size, now)]
    return builtins.list(output_size)


def _adaptive_max(name: str, dims: builtins.int) -> Any:
    plain, both = getattr(_C, name), getattr(_C, name + "_with_indices")

    def pool(input: Any, output_size: Any, return_indices: builtins.bool = False) -> Any:
        return (both if return_indices else plain)(input, _sizes(output_size, input, dims))
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = plain.__doc__
    return pool


adaptive_max_pool1d = _adaptive_max("adaptive_max_pool1d", 1)
adaptive_max_pool2d = _adaptive_max("adaptive_max_pool2d", 2)
adaptive_max_pool3d = _adaptive_max("adaptive_max_pool3d", 3)


def _adaptive_avg(name: str, dims: builtins.int) -> Any:
    op = getattr(_C, name)

    def pool(input: Any, output_size: Any) -> Any:
        return op(input, _sizes(output_size, input, dims))
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = op.__doc__
    return pool


adaptive_avg_pool1d = _adaptive_avg("adaptive_avg_pool1d", 1)
adaptive_avg_pool2d = _adaptive_avg("adaptive_avg_pool2d", 2)
adaptive_avg_pool3d = _adaptive_avg("adaptive_avg_pool3d", 3)


def _unpool(name: str, dims: builtins.int) -> Any:
    op = getattr(_C, name)

    def unpool(input: Any, indices: Any, kernel_size: Any, stride: Any = None, padding: Any = 0,
               output_size: Any = None) -> Any:
        size = None if output_size is None else [builtins.int(n) for n in output_size]
        return op(input, indices, kernel_size, stride, padding, size)
    unpool.__name__ = unpool.__qualname__ = name
    unpool.__doc__ = op.__doc__
    return unpool


max_unpool1d = _unpool("max_unpool1d", 1)
max_unpool2d = _unpool("max_unpool2d", 2)
max_unpool3d = _unpool("max_unpool3d", 3)


def unfold(input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    """The windows of images as columns."""
    return _C.im2col(input, kernel_size, dilation, padding, stride)


# ---- other sizes ----

def interpolate(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
                align_corners: Any = None, recompute_scale_factor: Any = None,
                antialias: builtins.bool = False) -> Any:
    """The input in another size. size or scale_factor: one number, or one per dimension."""
    dims = builtins.max(input.ndim - 2, 1)
    if size is not None and not isinstance(size, (tuple, builtins.list)):
        size = [size] * dims
    if scale_factor is not None and not isinstance(scale_factor, (tuple, builtins.list)):
        scale_factor = [scale_factor] * dims
    if scale_factor is not None:
        scale_factor = [builtins.float(s) for s in scale_factor]
    return _C.interpolate(input, size, scale_factor, mode, align_corners, recompute_scale_factor, antialias)


def upsample(input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest",
             align_corners: Any = None) -> Any:
    """interpolate, by its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """interpolate by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """interpolate of images by the four nearest elements, corners kept."""
    return interpolate(input, size, scale_factor, "bilinear", True)
