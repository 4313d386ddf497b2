"""Takes back what code changed outside while it was captured, where the capture comes to nothing: tensors that were
kept have no values, and the function is called once more.

Place in the flow: compiler.py notes what a function can reach before it captures it: its object, its arguments,
variables around it, and what those hold. Invariant: nothing is copied but containers and attributes; what did not
change is not written.
"""
from __future__ import annotations

import types
from typing import Any, Callable, Iterable

from . import _C, nn
from ._refers import Globals
from ._tensor import Tensor
from .optim.optimizer import Optimizer

__all__ = ["note"]

_DEPTH, _MOST = 4, 100  # of what is looked into; containers that are larger are data, of which no element is
_WHOLE = (Tensor, Optimizer, type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, _C.CompiledBase)


def _same(a: Iterable[Any], b: Iterable[Any]) -> bool:
    return all(x is y for x, y in zip(a, b))


def _of_list(value: list[Any]) -> Callable[[], None]:
    before = list(value)

    def undo() -> None:
        if len(value) != len(before) or not _same(value, before):
            value[:] = before
    return undo


def _of_dict(value: dict[Any, Any]) -> Callable[[], None]:
    before = dict(value)

    def undo() -> None:
        if len(value) != len(before) or not (_same(value, before) and _same(value.values(), before.values())):
            value.clear()
            value.update(before)
    return undo


def _of_set(value: set[Any]) -> Callable[[], None]:
    before = set(value)

    def undo() -> None:
        if value != before:
            value.clear()
            value.update(before)
    return undo


def _of_module(value: nn.Module) -> Callable[[], None]:
    before, buffers = dict(value.__dict__), dict(value._buffers)

    def undo() -> None:
        value.__dict__.clear()
        value.__dict__.update(before)
        for name, buffer in buffers.items():
            if value._buffers.get(name) is not buffer:
                value._buffers[name] = buffer
    return undo


def _of_cell(value: types.CellType, before: Any) -> Callable[[], None]:
    def undo() -> None:
        value.cell_contents = before
    return undo


def _of_globals(value: Globals) -> Callable[[], None]:
    before = [(name, value.all[name]) for name in value.names]

    def undo() -> None:
        value.all.update((name, one) for name, one in before if value.all.get(name) is not one)
    return undo


def _inside(value: Any) -> tuple[Callable[[], None] | None, list[Any]]:
    """What takes back changes of the value itself, and what it holds."""
    if isinstance(value, nn.Module):
        return _of_module(value), [*value.__dict__.values(), *value._modules.values()]
    if isinstance(value, _WHOLE):
        return None, []
    if isinstance(value, Globals):
        return _of_globals(value), [value.all[name] for name in value.names]
    if isinstance(value, types.CellType):
        try:
            return _of_cell(value, value.cell_contents), [value.cell_contents]
        except ValueError:  # a variable that has no value yet
            return None, []
    if isinstance(value, list):
        return _of_list(value), value[:_MOST]
    if isinstance(value, dict):
        return _of_dict(value), list(value.values())[:_MOST]
    if isinstance(value, set):
        return _of_set(value), []
    if isinstance(value, tuple):
        return None, list(value[:_MOST])
    attributes = getattr(value, "__dict__", None)
    return (_of_dict(attributes), list(attributes.values())) if isinstance(attributes, dict) else (None, [])


def note(values: list[Any]) -> list[Callable[[], None]]:
    """What takes back later changes of what the values hold."""
    found: list[Callable[[], None]] = []
    seen: set[int] = set()
    depth = 0
    while values and depth <= _DEPTH:
        held: list[Any] = []
        for value in values:
            if id(value) in seen:
                continue
            seen.add(id(value))
            undo, more = _inside(value)
            found += [undo] if undo else []
            held += more
        values, depth = held, depth + 1
    return found
