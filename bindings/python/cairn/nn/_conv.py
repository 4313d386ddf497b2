"""Forms of torch.nn.functional around convolutions and pools that a signature cannot say: return_indices, None for a
size that stays, one number for several.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Callable, Sequence

from .. import _C
from .._tensor import Tensor

if TYPE_CHECKING:
    from typing import Literal, Protocol, TypeAlias, overload

    _Ints: TypeAlias = builtins.int | Sequence[builtins.int]
    _Sizes: TypeAlias = builtins.int | None | Sequence[builtins.int | None]
    _Factors: TypeAlias = builtins.float | Sequence[builtins.float]

    class _MaxPool(Protocol):
        @overload
        def __call__(self, input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ...,
                     dilation: _Ints = ..., ceil_mode: builtins.bool = ...,
                     return_indices: Literal[False] = ...) -> Tensor: ...
        @overload
        def __call__(self, input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ...,
                     dilation: _Ints = ..., ceil_mode: builtins.bool = ...,
                     *, return_indices: Literal[True]) -> tuple[Tensor, Tensor]: ...
        @overload
        def __call__(self, input: Tensor, kernel_size: _Ints, stride: _Ints | None, padding: _Ints, dilation: _Ints,
                     ceil_mode: builtins.bool, return_indices: Literal[True]) -> tuple[Tensor, Tensor]: ...

    class _MaxPoolWithIndices(Protocol):
        def __call__(self, input: Tensor, kernel_size: _Ints, stride: _Ints | None = ..., padding: _Ints = ...,
                     dilation: _Ints = ..., ceil_mode: builtins.bool = ...,
                     return_indices: builtins.bool = ...) -> tuple[Tensor, Tensor]: ...

    class _AdaptiveMaxPool(Protocol):
        @overload
        def __call__(self, input: Tensor, output_size: _Sizes, return_indices: Literal[False] = ...) -> Tensor: ...
        @overload
        def __call__(self, input: Tensor, output_size: _Sizes,
                     return_indices: Literal[True]) -> tuple[Tensor, Tensor]: ...

    class _FractionalPool(Protocol):
        @overload
        def __call__(self, input: Tensor, kernel_size: _Ints, output_size: _Ints | None = ...,
                     output_ratio: _Factors | None = ..., return_indices: Literal[False] = ...,
                     _random_samples: Tensor | None = ...) -> Tensor: ...
        @overload
        def __call__(self, input: Tensor, kernel_size: _Ints, output_size: _Ints | None = ...,
                     output_ratio: _Factors | None = ..., *, return_indices: Literal[True],
                     _random_samples: Tensor | None = ...) -> tuple[Tensor, Tensor]: ...

    class _AdaptiveAvgPool(Protocol):
        def __call__(self, input: Tensor, output_size: _Sizes) -> Tensor: ...

    class _Unpool(Protocol):
        def __call__(self, input: Tensor, indices: Tensor, kernel_size: _Ints, stride: _Ints | None = ...,
                     padding: _Ints = ..., output_size: Sequence[builtins.int] | None = ...) -> Tensor: ...

__all__ = ["max_pool1d", "max_pool2d", "max_pool3d", "adaptive_max_pool1d", "adaptive_max_pool2d",
           "adaptive_max_pool3d", "max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices",
           "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "unfold", "interpolate", "upsample",
           "upsample_nearest", "upsample_bilinear", "max_unpool1d", "max_unpool2d", "max_unpool3d",
           "fractional_max_pool2d", "fractional_max_pool3d"]


# ---- pools ----

def _max_pool(name: str) -> tuple[_MaxPool, _MaxPoolWithIndices]:
    plain, both = getattr(_C, name), getattr(_C, name + "_with_indices")

    def pool(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0, dilation: _Ints = 1,
             ceil_mode: builtins.bool = False, return_indices: builtins.bool = False) -> Any:
        op = both if return_indices else plain
        return op(input, kernel_size, None if stride in ((), []) else stride, padding, dilation, ceil_mode)

    def pool_with_indices(input: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0,
                          dilation: _Ints = 1, ceil_mode: builtins.bool = False,
                          return_indices: builtins.bool = False) -> Any:  # unused: return_indices (always, as named)
        return pool(input, kernel_size, stride, padding, dilation, ceil_mode, True)
    for made, called, op in ((pool, name, plain), (pool_with_indices, name + "_with_indices", both)):
        made.__name__ = made.__qualname__ = called
        made.__doc__ = op.__doc__
    return pool, pool_with_indices


max_pool1d, max_pool1d_with_indices = _max_pool("max_pool1d")
max_pool2d, max_pool2d_with_indices = _max_pool("max_pool2d")
max_pool3d, max_pool3d_with_indices = _max_pool("max_pool3d")


def _sizes(output_size: Any, input: Tensor, dims: builtins.int) -> list[Any]:
    """output_size as a list, with the input's sizes for None."""
    if not isinstance(output_size, (tuple, builtins.list)):
        output_size = [output_size] * dims
    if builtins.len(output_size) == dims < input.ndim:
        now = input.shape[-dims:]
        return [builtins.int(n) if s is None else s for s, n in builtins.zip(output_size, now)]
    return builtins.list(output_size)


def _adaptive_max(name: str, dims: builtins.int) -> _AdaptiveMaxPool:
    plain, both = getattr(_C, name), getattr(_C, name + "_with_indices")

    def pool(input: Tensor, output_size: _Sizes, return_indices: builtins.bool = False) -> Any:
        return (both if return_indices else plain)(input, _sizes(output_size, input, dims))
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = plain.__doc__
    return pool


adaptive_max_pool1d = _adaptive_max("adaptive_max_pool1d", 1)
adaptive_max_pool2d = _adaptive_max("adaptive_max_pool2d", 2)
adaptive_max_pool3d = _adaptive_max("adaptive_max_pool3d", 3)


def _adaptive_avg(name: str, dims: builtins.int) -> _AdaptiveAvgPool:
    op: Callable[..., Tensor] = getattr(_C, name)

    def pool(input: Tensor, output_size: _Sizes) -> Tensor:
        return op(input, _sizes(output_size, input, dims))
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = op.__doc__
    return pool


adaptive_avg_pool1d = _adaptive_avg("adaptive_avg_pool1d", 1)
adaptive_avg_pool2d = _adaptive_avg("adaptive_avg_pool2d", 2)
adaptive_avg_pool3d = _adaptive_avg("adaptive_avg_pool3d", 3)


def _fractional(name: str, dims: builtins.int) -> _FractionalPool:
    op: Callable[..., tuple[Tensor, Tensor]] = getattr(_C, name + "_with_indices")

    def pool(input: Tensor, kernel_size: _Ints, output_size: _Ints | None = None, output_ratio: _Factors | None = None,
             return_indices: builtins.bool = False, _random_samples: Tensor | None = None) -> Any:
        if output_size is None:
            if output_ratio is None:
                raise ValueError("%s(): takes an output_size or an output_ratio" % name)
            ratio = output_ratio if isinstance(output_ratio, Sequence) else (output_ratio,) * dims
            if builtins.len(ratio) != dims:
                raise ValueError("%s(): output_ratio must be a number or %d of them" % (name, dims))
            output_size = [builtins.int(n * r) for n, r in builtins.zip(input.shape[-dims:], ratio)]
        if _random_samples is None:
            planes = 1 if input.ndim == dims + 1 else input.shape[0]
            _random_samples = _C.rand((planes, input.shape[-dims - 1], dims), dtype=input.dtype, device=input.device)
        both = op(input, kernel_size, output_size, _random_samples)
        return both if return_indices else both[0]
    pool.__name__ = pool.__qualname__ = name
    pool.__doc__ = op.__doc__
    return pool


fractional_max_pool2d = _fractional("fractional_max_pool2d", 2)
fractional_max_pool3d = _fractional("fractional_max_pool3d", 3)


def _unpool(name: str) -> _Unpool:
    op: Callable[..., Tensor] = getattr(_C, name)

    def unpool(input: Tensor, indices: Tensor, kernel_size: _Ints, stride: _Ints | None = None, padding: _Ints = 0,
               output_size: Sequence[builtins.int] | None = None) -> Tensor:
        size = None if output_size is None else [builtins.int(n) for n in output_size]
        return op(input, indices, kernel_size, stride, padding, size)
    unpool.__name__ = unpool.__qualname__ = name
    unpool.__doc__ = op.__doc__
    return unpool


max_unpool1d = _unpool("max_unpool1d")
max_unpool2d = _unpool("max_unpool2d")
max_unpool3d = _unpool("max_unpool3d")


def unfold(input: Tensor, kernel_size: _Ints, dilation: _Ints = 1, padding: _Ints = 0, stride: _Ints = 1) -> Tensor:
    """The windows of images as columns."""
    return _C.im2col(input, kernel_size, dilation, padding, stride)


# ---- other sizes ----

def interpolate(input: Tensor, size: _Ints | None = None, scale_factor: _Factors | None = None, mode: str = "nearest",
                align_corners: builtins.bool | None = None, recompute_scale_factor: builtins.bool | None = None,
                antialias: builtins.bool = False) -> Tensor:
    """The input in another size. size or scale_factor: one number, or one per dimension."""
    dims = builtins.max(input.ndim - 2, 1)
    if size is not None and not isinstance(size, Sequence):
        size = [size] * dims
    if scale_factor is not None and not isinstance(scale_factor, Sequence):
        scale_factor = [scale_factor] * dims
    factors = None if scale_factor is None else [builtins.float(s) for s in scale_factor]
    return _C.interpolate(input, size, factors, mode, align_corners, recompute_scale_factor, antialias)


def upsample(input: Tensor, size: _Ints | None = None, scale_factor: _Factors | None = None, mode: str = "nearest",
             align_corners: builtins.bool | None = None) -> Tensor:
    """interpolate, by its old name."""
    return interpolate(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Tensor, size: _Ints | None = None, scale_factor: _Factors | None = None) -> Tensor:
    """interpolate by the nearest element."""
    return interpolate(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Tensor, size: _Ints | None = None, scale_factor: _Factors | None = None) -> Tensor:
    """interpolate of images by the four nearest elements, corners kept."""
    return interpolate(input, size, scale_factor, "bilinear", True)
