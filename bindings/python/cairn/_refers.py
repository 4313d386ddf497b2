"""What a function refers to outside of its arguments, as far as its code tells.

Place in the flow: compiler.py looks at it before each call, since programs depend on it. Values are found by the names
in closures and globals, attributes by the names that the code of methods mentions: an attribute that no code which may
run reads is no reason for another program, whoever changes it. Invariant: code is read, never run.
"""
from __future__ import annotations

import functools
import types
from typing import Any, Callable, Iterable, Iterator

from . import _C, nn
from ._tensor import Tensor
from .optim.optimizer import Optimizer

CONSTANTS = (bool, int, float, complex, str, bytes, type(None), _C.dtype, _C.device)
# Names that calls of modules read without saying so.
_ALWAYS = {"forward", "__call__", "_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"}


def _names(code: types.CodeType) -> set[str]:
    """The names of globals and attributes in a function and those inside of it."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= _names(constant)
    return found


def _worth_watching(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return len(value) <= 100 and all(_worth_watching(one) for one in value)
    if isinstance(value, dict):
        return len(value) <= 100 and all(_worth_watching(one) for item in value.items() for one in item)
    return isinstance(value, (nn.Module, Tensor, Optimizer) + CONSTANTS)


def _content(cell: types.CellType) -> Any:
    """What a variable of the function around holds; None: nothing yet (a function that calls itself, super())."""
    try:
        return cell.cell_contents
    except ValueError:
        return None


def owner_of(fn: Any) -> Any:
    """The object of a method, or one that can be called itself; None: fn is a function."""
    owner = getattr(fn, "__self__", None)
    return fn if owner is None and not hasattr(fn, "__code__") else owner


def referred(fn: Any) -> list[tuple[str, Callable[[], Any]]]:
    """The name of each value that a function finds outside of its arguments, where a program can depend on it, and how
    to look at it. What is of another kind when the function is compiled is baked in."""
    if isinstance(fn, functools.partial):
        return referred(fn.func)
    if isinstance(fn, nn.Module):
        return [("self", lambda: fn)]
    found: list[tuple[str, Callable[[], Any]]] = []
    owner = owner_of(fn)
    if isinstance(owner, nn.Module):
        found.append(("self", lambda: owner))
    elif owner is not None:
        attributes = getattr(owner, "__dict__", {})
        found += [(name, functools.partial(attributes.get, name)) for name, value in attributes.items()
                  if _worth_watching(value)]
    fn = getattr(fn, "__func__", fn)
    code = getattr(fn, "__code__", None)
    if code is None:
        return found
    found += [("nonlocal " + name, functools.partial(_content, cell))
              for name, cell in zip(code.co_freevars, fn.__closure__ or ()) if _worth_watching(_content(cell))]
    found += [("global " + name, functools.partial(fn.__globals__.get, name)) for name in sorted(_names(code))
              if name in fn.__globals__ and _worth_watching(fn.__globals__[name])]
    return found


# ---- names of attributes ----
def _functions(member: Any) -> Iterator[types.FunctionType]:
    """The functions of Python behind what a class or module has under a name."""
    if isinstance(member, property):
        member = member.fget
    while member is not None and not isinstance(member, types.FunctionType):
        if isinstance(member, functools.partial):
            member = member.func
        else:
            member = getattr(member, "__func__", None) or getattr(member, "__wrapped__", None)
    if member is not None:
        yield member
        yield from _functions(getattr(member, "__wrapped__", None))


def _methods(names: set[str], classes: set[type]) -> set[types.FunctionType]:
    """What the classes have under these names."""
    return {fn for kind in classes for name in names & vars(kind).keys() for fn in _functions(vars(kind)[name])}


def _called_from(fn: types.FunctionType) -> set[types.FunctionType]:
    """The functions among a function's globals that it may call, but for the library's."""
    named = (one for name in _names(fn.__code__) for one in _functions(fn.__globals__.get(name)))
    return {one for one in named if not one.__module__.startswith("cairn.")}


def reads(fn: Any, kinds: Iterable[type]) -> set[str]:
    """The names that code may mention when fn is called: among them those of the attributes that a program depends on.
    kinds: of the modules that it may call."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    classes = {kind for one in (*kinds, type(owner_of(fn))) for kind in one.__mro__} - set(nn.Module.__mro__)
    found: set[str] = set()
    seen: set[types.FunctionType] = set()
    new, names = set(_functions(getattr(fn, "__func__", fn))), set(_ALWAYS)
    while new or names:
        found |= names
        new |= _methods(names, classes)
        new -= seen
        seen |= new
        names = {name for one in new for name in _names(one.__code__)} - found
        new = {other for one in new for other in _called_from(one)} - seen
    return found
