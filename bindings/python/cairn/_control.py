"""Branches and loops that compiled functions can hold: cond, while_loop, scan, map; and host_call.

Place in the flow: nested values are taken apart into lists of tensors for the functions of _C, and put together again.
In eager code these are what they say; while a graph is captured each function is captured, as a graph of its own (once,
and once more where it writes to tensors from outside), and what it decides is decided when the program runs.
cairn.cond, cairn.func and cairn.compiler have the names.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from . import _C, _trees
from ._tensor import Tensor


class _Leaf:
    """Where a tensor was."""


_LEAF = _Leaf()


class _Shape:
    """What a function's results look like besides their tensors: the same each time that it is called. It keeps no
    tensor."""

    def __init__(self, who: str, tree: Any = None) -> None:
        self.who, self.known = who, False
        self.tree: Any = None
        if tree is not None:
            self.flat(tree)

    def flat(self, tree: Any) -> list[Tensor]:
        """The tensors of a result."""
        found = _trees.tensors(tree, self.who)
        bare = _trees.like(tree, [_LEAF] * len(found))
        if self.known and not _alike(bare, self.tree):
            raise RuntimeError(f"{self.who}: expected a result of the structure of {_outline(self.tree)}, not of "
                               f"{_outline(bare)}")
        self.tree, self.known = bare, True
        return found

    def full(self, tensors: Sequence[Tensor]) -> Any:
        return _trees.like(self.tree, tensors)


def _alike(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return isinstance(b, dict) and list(a) == list(b) and all(_alike(a[key], b[key]) for key in a)
    if isinstance(a, (tuple, list)):
        same = isinstance(b, (tuple, list)) and isinstance(a, tuple) == isinstance(b, tuple)
        return same and len(a) == len(b) and all(_alike(x, y) for x, y in zip(a, b))
    return a is b


def _outline(tree: Any) -> str:
    if isinstance(tree, dict):
        return "{" + ", ".join(f"{key!r}: {_outline(value)}" for key, value in tree.items()) + "}"
    if isinstance(tree, (tuple, list)):
        text = ", ".join([_outline(value) for value in tree])
        return f"[{text}]" if isinstance(tree, list) else f"({text},)" if len(tree) == 1 else f"({text})"
    return "Tensor"


def _callable(who: str, *functions: Any) -> None:
    for fn in functions:
        if not callable(fn):
            raise RuntimeError(f"{who}: expected a function, not {fn!r}")


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any],
         operands: tuple[Any, ...] | list[Any] = ()) -> Any:
    """true_fn(*operands) where pred is true, else false_fn(*operands). pred: a tensor of one element, or a bool, which
    decides at once. operands: nested tensors. Both functions must give results of the same structure, types and shapes
    where a graph is captured; tensors that they read from outside are seen, and get gradients."""
    _callable("cond", true_fn, false_fn)
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: expected operands as a tuple or list, not {type(operands).__name__}")
    given = _trees.tensors(operands, "cond")
    if not isinstance(pred, Tensor):
        return (true_fn if pred else false_fn)(*operands)
    shape = _Shape("cond")

    def flat(fn: Callable[..., Any]) -> Callable[[list[Tensor]], list[Tensor]]:
        return lambda tensors: shape.flat(fn(*_trees.like(operands, tensors)))
    return shape.full(_C._cond(pred, flat(true_fn), flat(false_fn), given))


def while_loop(cond_fn: Callable[..., Any], body_fn: Callable[..., Any], carried_inputs: tuple[Any, ...] | list[Any], *,
               max_steps: int | None = None) -> Any:
    """carried = body_fn(*carried) while cond_fn(*carried) is true; the last carried values, which keep their types and
    shapes. An int among them is carried as an int64 tensor. max_steps: the loop ends after so many; compiled functions
    need it for gradients, and for random numbers inside."""
    _callable("while_loop", cond_fn, body_fn)
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"while_loop: expected a tuple of carried values, not {type(carried_inputs).__name__}")
    if max_steps is not None and max_steps < 1:
        raise ValueError(f"while_loop: max_steps must be at least 1, not {max_steps}")
    carried = _as_tensors(carried_inputs)
    given, shape = _trees.tensors(carried, "while_loop"), _Shape("while_loop", tuple(carried))

    def body(tensors: list[Tensor]) -> list[Tensor]:
        made = body_fn(*_trees.like(carried, tensors))
        made = tuple(made) if isinstance(made, (tuple, list)) else (made,)
        return shape.flat(_as_tensors(made))

    def goes_on(tensors: list[Tensor]) -> list[Tensor]:
        holds = cond_fn(*_trees.like(carried, tensors))
        return [holds if isinstance(holds, Tensor) else _C.tensor(bool(holds))]
    return shape.full(_C._while(goes_on, body, given, max_steps or 0))


def _as_tensors(tree: Any) -> Any:
    """The nested value with tensors for its ints."""
    return _trees.like(tree, [_C.tensor(leaf) if isinstance(leaf, int) and not isinstance(leaf, bool) else leaf
                              for leaf in _trees.leaves(tree)])


def scan(combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False,
         length: int | None = None) -> tuple[Any, Any]:
    """carry, y = combine_fn(carry, x) for each row x of xs along dim; the last carry and all ys, stacked along dim.
    init and xs: nested tensors; xs may be None where length says how many steps there are. reverse: from the last row
    to the first, and row i of ys still belongs to row i of xs."""
    _callable("scan", combine_fn)
    carried, rows = _trees.tensors(init, "scan"), [] if xs is None else _trees.tensors(xs, "scan")
    if not carried:
        raise RuntimeError("scan: expected an initial carry")
    if length is not None and (isinstance(length, bool) or not isinstance(length, int) or length < 0):
        raise RuntimeError(f"scan: length must be an integer from 0 on, not {length!r}")
    if not rows and length is None:
        return init, []
    if rows and length is not None and rows[0].shape[dim] != length:
        raise RuntimeError(f"scan: length is {length}, and xs have {rows[0].shape[dim]} rows")
    carry, made, n = _Shape("scan", init), _Shape("scan"), len(carried)

    def step(tensors: list[Tensor]) -> list[Tensor]:
        x = None if xs is None else _trees.like(xs, tensors[n:])
        pair = combine_fn(carry.full(tensors[:n]), x)
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise RuntimeError("scan: combine_fn must return a carry and a result")
        return carry.flat(pair[0]) + made.flat(pair[1])
    last, ys = _C._scan(step, carried, rows, dim, reverse, 0 if rows else length or 0)
    return carry.full(last), made.full(ys)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """f(x, *args) for each row x of xs along the first dimension, stacked. xs and results: nested tensors."""
    _callable("map", f)
    rows, made = _trees.tensors(xs, "map"), _Shape("map")
    if not rows:
        raise RuntimeError("map: expected tensors to go along")
    return made.full(_C._map(lambda tensors: made.flat(f(_trees.like(xs, tensors), *args)), rows))


def host_call(fn: Callable[..., Any], like: Any, *inputs: Tensor) -> Any:
    """fn(*inputs), in compiled functions at each run: Python code that a graph cannot hold (looking at values,
    printing, a library of its own). like: nested tensors of the types and shapes that fn returns. Such calls keep their
    order, and are made though nobody may use the results, which carry no gradients. fn sees copies, on the host."""
    _callable("host_call", fn)
    shape = _Shape("host_call", like)
    described = [(t.dtype, tuple(t.shape)) for t in _trees.tensors(like, "host_call")]

    def flat(tensors: list[Tensor]) -> list[Tensor]:
        return shape.flat(fn(*tensors))
    name = getattr(fn, "__qualname__", None) or type(fn).__name__
    return shape.full(_C._host_call(flat, described, list(inputs), name))
