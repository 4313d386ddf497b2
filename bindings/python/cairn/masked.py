"""torch.masked's functions: reductions, running sums and normalisations over the elements where a mask is true.

What is masked out is replaced by the value that changes nothing (0 of a sum, -inf of a maximum), or left out of the
count. A mask has the input's shape, or one that broadcasts to it; None masks nothing. Tensors that carry their mask
(torch's MaskedTensor) do not exist here.
"""
from __future__ import annotations

import builtins
from math import inf, nan
from typing import TYPE_CHECKING, Sequence

from . import _C
from ._tensor import Tensor
from ._types import iinfo

if TYPE_CHECKING:
    from ._C import _dtype

    _Dims = builtins.int | Sequence[builtins.int] | None

__all__ = ["amax", "amin", "argmax", "argmin", "cumprod", "cumsum", "log_softmax", "logaddexp", "logsumexp", "mean",
           "median", "norm", "normalize", "prod", "softmax", "softmin", "std", "sum", "var"]


# ---- what they share ----

def _fitted(mask: Tensor, input: Tensor) -> Tensor:
    """The mask as bool in the input's shape."""
    if mask.ndim > input.ndim:
        raise IndexError("the mask has %d dimensions, more than the input's %d" % (mask.ndim, input.ndim))
    return _C.broadcast_to(mask.to(_C.bool), input.shape)


def _filled(input: Tensor, mask: Tensor | None, value: builtins.float) -> Tensor:
    """The input with a value where it is masked out."""
    if mask is None:
        return input
    return _C.where(_fitted(mask, input), input, _C.full((), value, dtype=input.dtype, device=input.device))


def _continuous(dtype: _dtype) -> builtins.bool:
    return dtype.is_floating_point or dtype.is_complex


def _lowest(input: Tensor) -> builtins.float:
    return -inf if _continuous(input.dtype) else iinfo(input.dtype).min


def _highest(input: Tensor) -> builtins.float:
    return inf if _continuous(input.dtype) else iinfo(input.dtype).max


def _dims(dim: _Dims, input: Tensor) -> list[builtins.int]:
    """All dimensions that are meant, counted from 0, in order; None and () mean all."""
    if dim is None or dim == ():
        return list(range(input.ndim))
    most, found = max(input.ndim, 1), set()
    for d in [dim] if isinstance(dim, builtins.int) else dim:
        if not -most <= d < most:
            raise IndexError("Dimension out of range (expected to be in range of [%d, %d], but got %d)"
                             % (-most, most - 1, d))
        if d % most in found:
            raise RuntimeError("dim=%d appears multiple times in the list of dims" % d)
        found.add(d % most)
    return sorted(found)


def _widened(input: Tensor, dtype: _dtype | None) -> _dtype:
    """The type of sums: int64 for the smaller integers."""
    if dtype is not None or _continuous(input.dtype):
        return dtype or input.dtype
    return _C.int64


def _count(input: Tensor, mask: Tensor | None, dims: list[builtins.int], keepdim: builtins.bool) -> Tensor:
    """How many elements along dims are not masked out."""
    here = _C.ones_like(input, dtype=_C.bool) if mask is None else _fitted(mask, input)
    return _C.sum(here, dims, keepdim, dtype=_C.int64)


# ---- reductions ----

def sum(input: Tensor, dim: _Dims = None, *, keepdim: builtins.bool | None = False, dtype: _dtype | None = None,
        mask: Tensor | None = None) -> Tensor:
    """The sum of what is not masked out; 0 where all is."""
    dims = _dims(dim, input)
    return _C.sum(_filled(input, mask, 0), dims, bool(keepdim), dtype=_widened(input, dtype))


def prod(input: Tensor, dim: _Dims = None, *, keepdim: builtins.bool | None = False, dtype: _dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The product; 1 where all is masked out."""
    result = _filled(input, mask, 1).to(_widened(input, dtype))
    for d in reversed(_dims(dim, input)):
        result = _C.prod_dim(result, d, bool(keepdim))
    return result


def amax(input: Tensor, dim: _Dims = None, *, keepdim: builtins.bool | None = False, dtype: _dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The largest; the least number of the type where all is masked out."""
    filled = _filled(input, mask, _lowest(input))
    return _C.amax(filled, _dims(dim, input), bool(keepdim)).to(dtype or input.dtype)


def amin(input: Tensor, dim: _Dims = None, *, keepdim: builtins.bool | None = False, dtype: _dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The smallest; the greatest number of the type where all is masked out."""
    filled = _filled(input, mask, _highest(input))
    return _C.amin(filled, _dims(dim, input), bool(keepdim)).to(dtype or input.dtype)


def argmax(input: Tensor, dim: builtins.int | None = None, *, keepdim: builtins.bool | None = False,
           dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Where the largest is, in dtype: as in torch the input's, if none is given."""
    return _C.argmax(_filled(input, mask, _lowest(input)), dim, bool(keepdim)).to(dtype or input.dtype)


def argmin(input: Tensor, dim: builtins.int | None = None, *, keepdim: builtins.bool | None = False,
           dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Where the smallest is. See argmax."""
    return _C.argmin(_filled(input, mask, _highest(input)), dim, bool(keepdim)).to(dtype or input.dtype)


def mean(input: Tensor, dim: _Dims = None, *, keepdim: builtins.bool | None = False, dtype: _dtype | None = None,
         mask: Tensor | None = None) -> Tensor:
    """The mean; NaN where all is masked out."""
    dtype = dtype or input.dtype
    if not _continuous(dtype):
        raise ValueError("mean(): the result's dtype must be floating-point, not %s" % dtype)
    total = sum(input, dim, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, mask, _dims(dim, input), bool(keepdim))


def median(input: Tensor, dim: builtins.int = -1, *, keepdim: builtins.bool = False, dtype: _dtype | None = None,
           mask: Tensor | None = None) -> Tensor:
    """The (lower) median of what is neither masked out nor NaN; NaN where nothing is left."""
    wide = input if input.is_floating_point() else input.to(_C.float32)
    found = _C.nanmedian_dim(_filled(wide, mask, nan), _dims(dim, input)[0], keepdim)[0]
    if input.is_floating_point():
        return found
    if bool(_C.any(_C.isnan(found))):
        raise ValueError("median() of integers: a row is masked out as a whole")
    return found.to(dtype or input.dtype)


def logsumexp(input: Tensor, dim: _Dims = None, *, keepdim: builtins.bool = False, dtype: _dtype | None = None,
              mask: Tensor | None = None) -> Tensor:
    """log(sum(exp)) of what is not masked out."""
    return _C.logsumexp(_filled(input, mask, _lowest(input)), _dims(dim, input), keepdim).to(dtype or input.dtype)


def logaddexp(input: Tensor, other: Tensor, *, dtype: _dtype | None = None, input_mask: Tensor | None = None,
              other_mask: Tensor | None = None) -> Tensor:
    """log(exp(input) + exp(other)), each with a mask of its own."""
    one, two = _filled(input, input_mask, _lowest(input)), _filled(other, other_mask, _lowest(other))
    return _C.logaddexp(one, two).to(dtype or input.dtype)


def norm(input: Tensor, ord: builtins.float | None = 2.0, dim: _Dims = None, *,
         keepdim: builtins.bool | None = False, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """linalg.vector_norm of what is not masked out."""
    order = 2.0 if ord is None else ord
    filled = _filled(input, mask, inf if order == -inf else 0)
    return _C.linalg_vector_norm(filled, order, _dims(dim, input), bool(keepdim), dtype=dtype or input.dtype)


def _variance(input: Tensor, dim: _Dims, unbiased: builtins.bool | None, correction: builtins.float | None,
              keepdim: builtins.bool | None, dtype: _dtype | None, mask: Tensor | None) -> Tensor:
    if unbiased is not None and correction is not None:
        raise AssertionError("give either unbiased or correction")
    less = 1.0 if unbiased is None or unbiased else 0.0
    less = less if correction is None else float(correction)
    dtype = dtype or (input.dtype if _continuous(input.dtype) else _C.float32)
    wide = dtype if _continuous(dtype) else _C.float32
    count = _count(input, mask, _dims(dim, input), True)
    middle = sum(input, dim, keepdim=True, dtype=dtype, mask=mask) / count
    off = input - middle
    total = sum(off * off.conj(), dim, keepdim=keepdim, dtype=wide, mask=mask)
    count = count.reshape(total.shape)
    if less:
        count = _C.clamp(count.to(off.real.dtype) - less, min=0)
    return (total / count).to(dtype)


def var(input: Tensor, dim: _Dims = None, unbiased: builtins.bool | None = None, *,
        correction: builtins.float | None = None, keepdim: builtins.bool | None = False,
        dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The variance; NaN where all is masked out."""
    return _variance(input, dim, unbiased, correction, keepdim, dtype, mask)


def std(input: Tensor, dim: _Dims = None, unbiased: builtins.bool | None = None, *,
        correction: builtins.float | None = None, keepdim: builtins.bool | None = False,
        dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """The standard deviation; NaN where all is masked out."""
    return _C.sqrt(_variance(input, dim, unbiased, correction, keepdim, dtype, mask))


# ---- along one dimension ----

def cumsum(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running sums, to which what is masked out adds nothing."""
    dtype = dtype or input.dtype
    return _C.cumsum(_filled(input, mask, 0), _dims(dim, input)[0], dtype=dtype)


def cumprod(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Running products, in which what is masked out counts as 1."""
    dtype = dtype or input.dtype
    return _C.cumprod(_filled(input, mask, 1), _dims(dim, input)[0], dtype=dtype)


def softmax(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax, 0 where masked out."""
    return _C.softmax(_filled(input, mask, _lowest(input)), _dims(dim, input)[0], dtype=dtype or input.dtype)


def log_softmax(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None,
                mask: Tensor | None = None) -> Tensor:
    """log_softmax, -inf where masked out."""
    return _C.log_softmax(_filled(input, mask, _lowest(input)), _dims(dim, input)[0], dtype=dtype or input.dtype)


def softmin(input: Tensor, dim: builtins.int, *, dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """softmax of -input, 0 where masked out."""
    return _C.softmin(_filled(input, mask, _highest(input)), _dims(dim, input)[0], dtype=dtype or input.dtype)


def normalize(input: Tensor, ord: builtins.float, dim: builtins.int, *, eps: builtins.float = 1e-12,
              dtype: _dtype | None = None, mask: Tensor | None = None) -> Tensor:
    """Divided by the norm of what is not masked out, or by eps where that is more; 0 where masked out."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled(input, mask, 0) / _C.clamp(length, min=eps)
