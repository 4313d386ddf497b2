"""vmap: a function of one example made one of a batch.

The function is called once, with tensors that stand for one example each; every op on them computes all examples at
once (include/cairn/vmap.h, src/ops/batch.h). Here its arguments and results, nested as they may be, are taken apart and
put together. Invariant: a vmap that has begun has ended when the function is left, however that is.
"""
from __future__ import annotations

import contextlib
import functools
import threading
from typing import Any, Callable, Iterator, NamedTuple

from . import _C, _trees
from ._tensor import Tensor

__all__ = ["vmap"]

_RANDOMNESS = {"error": 0, "different": 1, "same": 2}
_state = threading.local()


class Running(NamedTuple):
    """A vmap that runs, or did."""
    number: int
    size: int
    randomness: str

    @contextlib.contextmanager
    def begun(self) -> Iterator[Running]:
        """It runs, as the innermost one; a number of 0 becomes a new one."""
        level = self._replace(number=_C._vmap_begin(self.size, _RANDOMNESS[self.randomness], self.number))
        levels = running()
        levels.append(level)
        try:
            yield level
        finally:
            levels.pop()
            _C._vmap_end(level.number)


def running() -> list[Running]:
    """Those that run in this thread, the innermost last."""
    if not hasattr(_state, "levels"):
        _state.levels = []
    levels: list[Running] = _state.levels
    return levels


@contextlib.contextmanager
def set_aside(level: Running) -> Iterator[None]:
    """As if that vmap, and those inside of it, had ended."""
    levels = running()
    inner = levels[levels.index(level):]
    for other in reversed(inner):
        levels.pop()
        _C._vmap_end(other.number)
    try:
        yield
    finally:
        for other in inner:
            _C._vmap_begin(other.size, _RANDOMNESS[other.randomness], other.number)
            levels.append(other)


class _Misfit(Exception):
    """Places that do not have the structure of what they belong to."""


def _spread(dims: Any, tree: Any) -> list[int | None]:
    """A place for each leaf of tree; one that stands for a part of it holds for all its leaves."""
    if dims is None or (isinstance(dims, int) and not isinstance(dims, bool)):
        return [dims] * len(_trees.leaves(tree))
    if isinstance(dims, dict):
        if not isinstance(tree, dict) or dims.keys() != tree.keys():
            raise _Misfit
        return [d for key in tree for d in _spread(dims[key], tree[key])]
    if not isinstance(dims, (tuple, list)) or not isinstance(tree, (tuple, list)) or len(dims) != len(tree):
        raise _Misfit
    return [d for part, value in zip(dims, tree) for d in _spread(part, value)]


def _place(leaf: Any, dim: int | None) -> int | None:
    """Where a leaf is to be cut, counted from the front; None: it is not."""
    if dim is None:
        return None
    if not isinstance(leaf, Tensor):
        raise ValueError(f"vmap: Got in_dim={dim} for an input but the input is of type {type(leaf).__name__}. We "
                         f"cannot vmap over non-Tensor arguments, please use None as the respective in_dim")
    if not -leaf.ndim <= dim < leaf.ndim:
        raise ValueError(f"vmap: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality "
                         f"{leaf.ndim} so expected in_dim to satisfy -{leaf.ndim} <= in_dim < {leaf.ndim}")
    return dim % leaf.ndim


class _Batch:
    """Arguments and where they are cut."""

    def __init__(self, args: tuple[Any, ...], in_dims: Any, what: str) -> None:
        if not args:
            raise ValueError(f"vmap({what})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are "
                             f"trying to vmap over a function with no inputs: then there is no size to map over")
        if not isinstance(in_dims, (int, tuple, list)):
            raise ValueError(f"vmap({what}, in_dims={in_dims}, ...)(<inputs>): expected `in_dims` to be int or a "
                             f"(potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}")
        self.tree = args
        try:
            dims = _spread(in_dims, args)
        except _Misfit:
            raise ValueError(f"vmap({what}, in_dims={in_dims}, ...)(<inputs>): in_dims is not compatible with the "
                             "structure of inputs: it is an int, or has an entry for each of them") from None
        self.leaves = _trees.leaves(args)
        self.dims = [_place(leaf, d) for leaf, d in zip(self.leaves, dims)]
        sizes = [leaf.shape[d] for leaf, d in zip(self.leaves, self.dims) if d is not None]
        if not sizes:
            raise ValueError("vmap: at least one input must be mapped over; in_dims is None for all")
        if len(set(sizes)) != 1:
            raise ValueError(f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes "
                             f"{sizes} for the mapped dimension")
        self.size: int = sizes[0]

    def examples(self, vmap: int, start: int, end: int) -> tuple[Any, ...]:
        """The arguments with one example of start..end in place of each tensor that is mapped."""
        made = []
        for leaf, d in zip(self.leaves, self.dims):
            if d is not None:
                whole = start == 0 and end == self.size
                leaf = _C._batched(leaf if whole else leaf.narrow(d, start, end - start), d, vmap)
            made.append(leaf)
        tree: tuple[Any, ...] = _trees.like(self.tree, made)
        return tree


def _out_places(out_dims: Any, output: Any, what: str) -> list[int | None]:
    try:
        return _spread(out_dims, output)
    except _Misfit:
        pass
    if isinstance(output, Tensor) and isinstance(out_dims, (tuple, list)) and len(out_dims) == 1:
        try:
            return _spread(out_dims[0], output)
        except _Misfit:
            pass
    raise ValueError(f"vmap({what}, ..., out_dims={out_dims}): out_dims is not compatible with the structure of the "
                     "outputs: it is an int, or has an entry for each of them")


def _whole(leaf: Any, dim: int | None, vmap: int, what: str) -> Any:
    """A result with its batch where dim says."""
    if not isinstance(leaf, Tensor):
        if dim is None:
            return leaf
        raise ValueError(f"vmap({what}, ...): `{what}` must only return Tensors, got type {type(leaf)}. Did you mean "
                         f"to set out_dims= to None for output?")
    if dim is None:
        if _C._is_batched(leaf, vmap):
            raise ValueError(f"vmap({what}, ...): `{what}` can not return a BatchedTensor when out_dim is None: this "
                             "result differs between examples")
        return leaf
    if not -leaf.ndim - 1 <= dim <= leaf.ndim:
        raise IndexError(f"vmap: Dimension out of range (expected to be in range of [{-leaf.ndim - 1}, {leaf.ndim}], "
                         f"but got {dim})")
    return _C._unbatched(leaf, dim, vmap)


def _joined(parts: list[Any], dim: int | None) -> Any:
    return parts[0] if dim is None or not isinstance(parts[0], Tensor) else _C.cat(parts, dim)


def vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *,
         chunk_size: int | None = None) -> Callable[..., Any]:
    """A function that maps func over a dimension of its arguments.

    in_dims: that dimension, for all arguments or in a tuple for each (None: the argument is not mapped; nested for
    nested arguments). Keyword arguments are not mapped. out_dims: where the dimension goes in the
    results, for all or nested. randomness: what func does where it draws random numbers: "error", "different" ones for
    each example, or the "same". chunk_size: how many examples at once, to bound memory; None for all."""
    if randomness not in _RANDOMNESS:
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")
    what = getattr(func, "__name__", repr(func))

    def part(batch: _Batch, start: int, end: int, kwargs: dict[str, Any]) -> tuple[Any, list[Any], list[int | None]]:
        """One call for examples start..end: (the output's structure, its leaves, their places)."""
        with Running(0, end - start, randomness).begun() as level:
            output = func(*batch.examples(level.number, start, end), **kwargs)
            places = _out_places(out_dims, output, what)
            leaves = _trees.leaves(output)
            return output, [_whole(leaf, d, level.number, what) for leaf, d in zip(leaves, places)], places

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        batch = _Batch(args, in_dims, what)
        step = min(chunk_size or batch.size, batch.size) or 1
        starts = range(0, batch.size, step) if batch.size else range(1)
        parts = [part(batch, i, min(i + step, batch.size), kwargs) for i in starts]
        output, leaves, places = parts[0]
        if len(parts) > 1:
            leaves = [_joined(list(column), d) for column, d in zip(zip(*(p[1] for p in parts)), places)]
        return _trees.like(output, leaves)

    return run
