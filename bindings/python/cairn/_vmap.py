"""vmap: a function of one example made one of a batch.

The function is called once for each slice and the results are stacked: what it computes is what torch's vmap computes,
with gradients through it, but the ops inside see one example at a time, so it is no faster than the loop that it is.
"""
from __future__ import annotations

import functools
from typing import Any, Callable

from . import _C, _trees
from ._arguments import only_speed
from ._forms import equal
from ._tensor import Tensor

__all__ = ["vmap"]


class _Misfit(Exception):
    """Places that do not have the structure of what they belong to."""


def _spread(dims: Any, tree: Any) -> list[int | None]:
    """A place for each leaf of tree; one that stands for a part of it holds for all its leaves."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        return [dims] * len(_trees.leaves(tree))
    if isinstance(dims, dict):
        if not isinstance(tree, dict) or dims.keys() != tree.keys():
            raise _Misfit
        return [d for key, value in tree.items() for d in _spread(dims[key], value)]
    if not isinstance(dims, (tuple, list)) or not isinstance(tree, (tuple, list)) or len(dims) != len(tree):
        raise _Misfit
    return [d for part, value in zip(dims, tree) for d in _spread(part, value)]


def _place(leaf: Any, dim: int | None) -> int | None:
    """Where a leaf is to be cut, counted from the front; None: it is not."""
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        raise ValueError(f"vmap: got in_dim={dim} for an input that is no tensor but {type(leaf).__name__}; use None "
                         "there")
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(f"vmap: got in_dim={dim} for an input with {leaf.ndim} dimensions, expected "
                         f"{-leaf.ndim} <= in_dim < {leaf.ndim}")
    return dim % leaf.ndim


class _Batch:
    """Arguments and where they are cut."""

    def __init__(self, args: tuple[Any, ...], in_dims: Any) -> None:
        if not args:
            raise ValueError("vmap: the function was called without inputs, so there is no size to map over")
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError("vmap: in_dims is an int or a (nested) tuple with one entry for each input, not "
                             f"{in_dims}")
        self.tree = args
        try:
            dims = _spread(in_dims, args)
        except _Misfit:
            raise ValueError(f"vmap: in_dims={in_dims} does not have the structure of the inputs") from None
        self.leaves = _trees.leaves(args)
        self.dims = [_place(leaf, d) for leaf, d in zip(self.leaves, dims)]
        sizes = [leaf.shape[d] for leaf, d in zip(self.leaves, self.dims) if d is not None]
        if not sizes:
            raise ValueError("vmap: at least one input must be mapped over; in_dims is None for all")
        if len(set(sizes)) != 1:
            raise ValueError(f"vmap: expected all tensors to have the same size in the mapped dimension, got {sizes}")
        self.size: int = sizes[0]

    def slice(self, i: int) -> tuple[Any, ...]:
        cut = [leaf if d is None else leaf.select(d, i) for leaf, d in zip(self.leaves, self.dims)]
        made: tuple[Any, ...] = _trees.like(self.tree, cut)
        return made

    def sample(self) -> tuple[Any, ...]:
        """Zeros like a slice, for a batch that has none."""
        cut = [leaf if d is None else leaf.new_zeros([n for k, n in enumerate(leaf.shape) if k != d])
               for leaf, d in zip(self.leaves, self.dims)]
        made: tuple[Any, ...] = _trees.like(self.tree, cut)
        return made


def _results(output: Any) -> list[Tensor]:
    found = _trees.leaves(output)
    for leaf in found:
        if not isinstance(leaf, Tensor):
            raise ValueError(f"vmap: the function must return tensors only, got {type(leaf).__name__}")
    return found


def _joined(column: tuple[Tensor, ...], dim: int | None, empty: bool) -> Tensor:
    """The results of all slices as one tensor."""
    first = column[0]
    if dim is None:
        if any(t is not first and not equal(t, first) for t in column):
            raise ValueError("vmap: out_dims is None for a result that differs between slices")
        return first
    if not -first.ndim - 1 <= dim <= first.ndim:
        raise IndexError(f"vmap: out_dim={dim} is out of range for results with {first.ndim} dimensions")
    if len({t.dtype for t in column}) > 1:
        raise ValueError("vmap: the slices' results have different types")
    made: Tensor = _C.stack(list(column), dim)
    return made.narrow(dim, 0, 0) if empty else made


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that maps func over a dimension of its arguments.

    in_dims: that dimension, for all arguments or in a tuple for each (None: the argument is not mapped; nested for
    nested arguments). Keyword arguments are not mapped. out_dims: where the dimension goes in the results,
    for all or nested. randomness: may func draw random numbers: "error" (no), "different" ones or the "same" for each
    slice. The slices are computed one after the other, so chunk_size, a bound on memory in torch, bounds nothing."""
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: randomness is 'error', 'different' or 'same', not {randomness!r}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0, got {chunk_size}")
    only_speed("vmap", chunk_size=chunk_size)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        batch = _Batch(args, in_dims)
        structure, rows, before = None, [], _C._random_state()
        for i in range(max(batch.size, 1)):
            if randomness == "same" and i > 0:
                _C._random_set_state(*before)
            output = func(*(batch.slice(i) if batch.size else batch.sample()), **kwargs)
            if randomness == "error" and i == 0 and _C._random_state() != before:
                raise RuntimeError("vmap: the function drew random numbers; say randomness='different' or 'same'")
            structure = output if i == 0 else structure
            rows.append(_results(output))
        try:
            dims = _spread(out_dims, structure)
        except _Misfit:
            if not isinstance(structure, Tensor) or not isinstance(out_dims, (tuple, list)) or len(out_dims) != 1:
                raise ValueError(f"vmap: out_dims={out_dims} does not have the structure of the results") from None
            dims = _spread(out_dims[0], structure)
        columns = zip(*rows)
        return _trees.like(structure, [_joined(c, d, not batch.size) for c, d in zip(columns, dims)])

    return run
