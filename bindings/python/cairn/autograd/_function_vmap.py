"""Functions with a backward of their own under vmap.

Place in the flow: Function.apply comes here when an argument stands for one example of a batch. Either the class has a
vmap of its own, which is given whole batches, or its forward and backward are run for one example each inside of the
vmap, as part of a Function of the batches (generate_vmap_rule). Invariant: gradients are recorded for batches only, so
backward may come when the vmap has ended: it begins again for that time.
"""
from __future__ import annotations

import contextlib
from typing import Any, Iterator, NamedTuple

from .. import _C, _trees
from .._tensor import Tensor
from .._vmap import Running, running, set_aside
from .function import Function, FunctionCtx


class VmapInfo(NamedTuple):
    """What a vmap of a Function is told besides its arguments."""
    batch_size: int
    randomness: str


class _ExampleCtx(FunctionCtx):
    """The context of one example: what it saves are examples, kept as they are."""

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        return self._to_save


def innermost(args: tuple[Any, ...]) -> Running | None:
    """The innermost vmap that an argument is an example of."""
    tensors = [a for a in args if isinstance(a, Tensor) and _C._is_batched(a)]
    for level in reversed(running()) if tensors else ():
        if any(_C._is_batched(t, level.number) for t in tensors):
            return level
    return None


@contextlib.contextmanager
def _again(level: Running) -> Iterator[None]:
    """The vmap runs again, as the innermost one."""
    with level.begun():
        yield


def _opened(args: tuple[Any, ...], level: Running) -> tuple[tuple[Any, ...], tuple[int | None, ...]]:
    """The arguments as batches, and where they have them."""
    dims = tuple(0 if isinstance(a, Tensor) and _C._is_batched(a, level.number) else None for a in args)
    return tuple(a if d is None else _C._unbatched(a, d, level.number) for a, d in zip(args, dims)), dims


def _closed(output: Any, dims: Any, level: Running) -> Any:
    """Results as examples again."""
    if not isinstance(output, tuple):
        d = dims[0] if isinstance(dims, tuple) else dims
        return output if d is None or not isinstance(output, Tensor) else _C._batched(output, d, level.number)
    places = dims if isinstance(dims, tuple) else (dims,) * len(output)
    return tuple(_closed(o, d, level) for o, d in zip(output, places))


def apply(cls: type[Function], args: tuple[Any, ...], level: Running) -> Any:
    """cls.apply(*args) where some of args are examples of that vmap."""
    own: Any = getattr(cls, "vmap")
    has_own = own is not getattr(Function, "vmap")
    if cls.generate_vmap_rule and has_own:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it has both generate_vmap_rule=True and an "
                           "overridden vmap staticmethod. Please set generate_vmap_rule=False or delete the overridden "
                           "vmap staticmethod to avoid ambiguity")
    if not cls.generate_vmap_rule and not has_own:
        raise RuntimeError(f"You tried to vmap over {cls.__name__}, but it does not have vmap support. Please override "
                           "and implement the vmap staticmethod or set generate_vmap_rule=True")
    batches, dims = _opened(args, level)
    with set_aside(level):
        if has_own:
            output, places = own(VmapInfo(level.size, level.randomness), dims, *batches)
        else:
            output, places = _generated(cls, level, dims, batches)
    return _closed(output, places, level)


def call(op: Any, own: Any, args: tuple[Any, ...], kwargs: dict[str, Any], level: Running) -> Any:
    """A custom op where some arguments are examples of that vmap: by its own rule, else once for each example."""
    leaves = _trees.leaves((args, kwargs))
    batches, dims = _opened(tuple(leaves), level)
    with set_aside(level):
        if own is not None:
            whole, names = _trees.like((args, kwargs), batches)
            output, places = own(VmapInfo(level.size, level.randomness), _trees.like(args, dims), *whole, **names)
        else:
            rows = []
            for i in range(level.size):
                one = [a if d is None else a.select(d, i) for a, d in zip(batches, dims)]
                given, names = _trees.like((args, kwargs), one)
                rows.append(op(*given, **names))
            several = [_C.stack(list(column)) for column in zip(*(_trees.leaves(row) for row in rows))]
            output, places = _trees.like(rows[0], several), 0
    return _closed(output, places, level)


def _generated(cls: type[Function], level: Running, dims: tuple[int | None, ...],
               batches: tuple[Any, ...]) -> tuple[Any, Any]:
    """(results, where they have the batch): the function as one of the batches."""
    inner = _ExampleCtx()
    places: list[int | None] = []

    class Generated(Function):
        """forward and backward for each example."""

        @staticmethod
        def forward(_ctx: Any, *given: Any) -> Any:
            with _again(level):
                one = tuple(a if d is None else _C._batched(a, d, level.number) for a, d in zip(given, dims))
                inner._function = cls
                inner._in_tensors = tuple(isinstance(a, Tensor) for a in one)
                inner.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in batches)
                output = cls._run_forward(inner, one)
                several = output if isinstance(output, tuple) else (output,)
                places.extend(0 if isinstance(o, Tensor) and _C._is_batched(o, level.number) else None
                              for o in several)
                whole = tuple(o if p is None else _C._unbatched(o, p, level.number) for o, p in zip(several, places))
            _ctx.mark_non_differentiable(*(w for w, o in zip(whole, several) if any(o is c for c in inner._constant)))
            return whole if isinstance(output, tuple) else whole[0]

        @staticmethod
        def backward(_ctx: Any, *grads: Any) -> Any:
            with _again(level):
                one = tuple(g if g is None or p is None else _C._batched(g, p, level.number)
                            for g, p in zip(grads, places))
                found = cls._backward_rule()(inner, *one)
                found = found if isinstance(found, (tuple, list)) else (found,)
                return tuple(_gradient(g, d, level) for g, d in zip(found, dims))

    output = Generated.apply(*batches)
    return output, tuple(places) if isinstance(output, tuple) else places[0]


def _gradient(g: Any, dim: int | None, level: Running) -> Any:
    """That of a batch; of an argument that all examples share, their sum."""
    if not isinstance(g, Tensor):
        return g
    if dim is not None:
        return _C._unbatched(g, dim, level.number)
    return _C._unbatched(g, 0, level.number).sum(0) if _C._is_batched(g, level.number) else g
