"""Torch's forms of the ops that find, count and search: results that come only where asked for, bins in many shapes.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Literal, Sequence, overload

from . import _C
from ._forms import _into, _methods, _public
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._C import _Number

__all__ = ["bucketize", "histogram", "histogramdd", "unique", "unique_consecutive"]


def _asked(found: tuple[Tensor, ...], inverse: builtins.bool, counts: builtins.bool) -> Any:
    """The results that were asked for: one alone, or a tuple."""
    if not inverse and not counts:
        return found[0]
    return builtins.tuple(r for r, wanted in zip(found, (True, inverse, counts)) if wanted)


@overload
def unique(input: Tensor, sorted: builtins.bool = ..., return_inverse: Literal[False] = ...,
           return_counts: Literal[False] = ..., dim: builtins.int | None = ...) -> Tensor: ...
@overload
def unique(input: Tensor, sorted: builtins.bool = ..., return_inverse: builtins.bool = ...,
           return_counts: builtins.bool = ..., dim: builtins.int | None = ...) -> tuple[Tensor, ...]: ...


def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False,
           return_counts: builtins.bool = False, dim: builtins.int | None = None) -> Any:
    """The different elements in order (or slices along dim); with them, where asked for, the place of each element's
    equal among them and how often each occurs."""
    return _asked(_C.unique(input, sorted, return_inverse, return_counts, dim), return_inverse, return_counts)


@overload
def unique_consecutive(input: Tensor, return_inverse: Literal[False] = ..., return_counts: Literal[False] = ...,
                       dim: builtins.int | None = ...) -> Tensor: ...
@overload
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = ..., return_counts: builtins.bool = ...,
                       dim: builtins.int | None = ...) -> tuple[Tensor, ...]: ...


def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False,
                       dim: builtins.int | None = None) -> Any:
    """The first of each run of equal elements (or slices along dim); the other results as those of unique."""
    return _asked(_C.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


def bucketize(input: Tensor | _Number, boundaries: Tensor, *, out_int32: builtins.bool = False,
              right: builtins.bool = False, out: Tensor | None = None) -> Tensor:
    """The bucket between sorted boundaries that each number (or the one given) falls into."""
    if isinstance(input, Tensor):
        return _C.bucketize(input, boundaries, out_int32=out_int32, right=right, out=out)
    return _C.searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


def histogram(input: Tensor, bins: builtins.int | Tensor = 100, *, range: Sequence[builtins.float] | None = None,
              weight: Tensor | None = None, density: builtins.bool = False, out: Any = None) -> tuple[Tensor, Tensor]:
    """How many elements lie in each bin, and the edges of the bins. bins: their number, or their edges."""
    if isinstance(bins, Tensor):
        return _C.histogram(input, bins, weight=weight, density=density, out=out)
    return _C.histogram(input, bins, range=range, weight=weight, density=density, out=out)


class _return_histogramdd(builtins.tuple[Tensor, builtins.tuple[Tensor, ...]]):
    """The results of histogramdd, by name and by position. (A NamedTuple would take import three times as long.)"""

    @property
    def hist(self) -> Tensor:
        return self[0]

    @property
    def bin_edges(self) -> tuple[Tensor, ...]:
        return self[1]


def histogramdd(input: Tensor, bins: builtins.int | Sequence[builtins.int] | Sequence[Tensor], *,
                range: Sequence[builtins.float] | None = None, weight: Tensor | None = None,
                density: builtins.bool = False, out: Tensor | None = None) -> _return_histogramdd:
    """The histogram of points, the rows along the last dimension, and the edges of its bins for each coordinate.
    bins: a number for all coordinates, one for each, or the edges themselves."""
    if input.ndim < 2:
        raise RuntimeError("histogramdd: expected input with at least 2 dimensions, not %d" % input.ndim)
    count = input.shape[-1]
    each: builtins.list[builtins.int | Tensor] = [bins] * count if isinstance(bins, builtins.int) else [*bins]
    if builtins.len(each) != count:
        raise RuntimeError("histogramdd: expected %d bins, one for each coordinate, not %d" % (count, len(each)))
    if range is not None and builtins.len(range) != 2 * count and not isinstance(each[0], Tensor):
        raise RuntimeError("histogramdd: range takes %d numbers, not %d" % (2 * count, len(range)))
    columns = input.detach().reshape(-1, count).unbind(1)
    edges = [b if isinstance(b, Tensor) else
             _C.histogram(columns[k], b, range=None if range is None else range[2 * k:2 * k + 2])[1]
             for k, b in enumerate(each)]
    made = _into(out, _C.histogramdd_edges(input, edges, weight=weight, density=density))
    return _return_histogramdd((made, builtins.tuple(edges)))


_methods(histogram, unique, unique_consecutive)
_public(globals())
