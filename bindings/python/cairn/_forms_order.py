"""Torch's forms of the ops that find, count and search: results that come only where asked for, bins in many shapes.
"""
from __future__ import annotations

import builtins
from typing import Any

from . import _C
from ._forms import _into, _public
from ._tensor import Tensor

__all__ = ["bucketize", "histogramdd", "unique", "unique_consecutive"]


def _asked(found: Any, inverse: Any, counts: Any) -> Any:
    """The results that were asked for: one alone, or a tuple."""
    if not inverse and not counts:
        return found[0]
    return builtins.tuple(r for r, wanted in zip(found, (True, inverse, counts)) if wanted)


@_public
def unique(input: Tensor, sorted: builtins.bool = True, return_inverse: builtins.bool = False,
           return_counts: builtins.bool = False, dim: Any = None) -> Any:
    """The different elements in order (or slices along dim); with them, where asked for, the place of each element's
    equal among them and how often each occurs."""
    return _asked(_C.unique(input, sorted, return_inverse, return_counts, dim), return_inverse, return_counts)


@_public
def unique_consecutive(input: Tensor, return_inverse: builtins.bool = False, return_counts: builtins.bool = False,
                       dim: Any = None) -> Any:
    """The first of each run of equal elements (or slices along dim); the other results as those of unique."""
    return _asked(_C.unique_consecutive(input, return_inverse, return_counts, dim), return_inverse, return_counts)


@_public(method=False)
def bucketize(input: Any, boundaries: Tensor, *, out_int32: builtins.bool = False, right: builtins.bool = False,
              out: Any = None) -> Tensor:
    """The bucket between sorted boundaries that each number (or the one given) falls into."""
    if isinstance(input, Tensor):
        return _C.bucketize(input, boundaries, out_int32=out_int32, right=right, out=out)
    return _C.searchsorted(boundaries, input, out_int32=out_int32, right=right, out=out)


@_public(method=False)
def histogramdd(input: Tensor, bins: Any, *, range: Any = None, weight: Any = None, density: builtins.bool = False,
                out: Any = None) -> Any:
    """The histogram of points, the rows along the last dimension, and the edges of its bins for each coordinate.
    bins: a number for all coordinates, one for each, or the edges themselves."""
    if input.ndim < 2:
        raise RuntimeError("histogramdd: expected input with at least 2 dimensions, not %d" % input.ndim)
    count = input.shape[-1]
    if isinstance(bins, builtins.int):
        bins = [bins] * count
    if builtins.len(bins) != count:
        raise RuntimeError("histogramdd: expected %d bins, one for each coordinate, not %d" % (count, len(bins)))
    if isinstance(bins[0], Tensor):
        edges = builtins.list(bins)
    else:
        if range is not None and builtins.len(range) != 2 * count:
            raise RuntimeError("histogramdd: range takes %d numbers, not %d" % (2 * count, len(range)))
        columns = input.detach().reshape(-1, count).unbind(1)
        edges = [_C.histogram(columns[k], bins[k], range=None if range is None else range[2 * k:2 * k + 2])[1]
                 for k in builtins.range(count)]
    return _return_histogramdd(_into(out, _C.histogramdd_edges(input, edges, weight=weight, density=density)),
                               builtins.tuple(edges))


class _return_histogramdd(builtins.tuple):
    """The results of histogramdd, by name and by position."""

    def __new__(cls, hist: Any, bin_edges: Any) -> Any:
        return builtins.tuple.__new__(cls, (hist, bin_edges))

    hist = property(lambda self: self[0])
    bin_edges = property(lambda self: self[1])
