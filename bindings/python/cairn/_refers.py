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


def _named(fn: types.FunctionType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """The variables that a function's code names, and how to look at them."""
    for name, cell in zip(fn.__code__.co_freevars, fn.__closure__ or ()):
        yield "nonlocal " + name, functools.partial(_content, cell)
    for name in sorted(_names(fn.__code__) & fn.__globals__.keys()):
        yield "global " + name, functools.partial(fn.__globals__.get, name)


def _bare(fn: Any) -> types.FunctionType | None:
    """The function of Python that a function or method is; None: it is none."""
    fn = getattr(fn, "__func__", fn)
    return fn if isinstance(fn, types.FunctionType) else None


def _helpers(fn: types.FunctionType) -> list[types.FunctionType]:
    """The functions that a function can call by name, and those that these can, but for the library's."""
    found = {fn: None}
    new = [fn]
    while new:
        values = [look() for _, look in _named(new.pop())]
        for one in (one for value in values for one in _functions(value) if not one.__module__.startswith("cairn.")):
            if one not in found:
                found[one] = None
                new.append(one)
    return list(found)[1:]


def _of_helpers(fn: types.FunctionType) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Modules, optimisers and tensors that functions refer to which a function calls."""
    for one in _helpers(fn):
        for name, look in _named(one):
            if isinstance(look(), (nn.Module, Tensor, Optimizer)):
                yield "%s of %s.%s" % (name, one.__module__, one.__qualname__), look


def referred(fn: Any) -> list[tuple[str, Callable[[], Any]]]:
    """The name of each value that a function finds outside of its arguments, where a program can depend on it, and how
    to look at it. What is of another kind when the function is compiled is baked in."""
    if isinstance(fn, functools.partial):
        given = [*fn.args, *fn.keywords.values()]
        return referred(fn.func) + [("argument %d" % i, functools.partial(given.__getitem__, i))
                                    for i, value in enumerate(given) if _worth_watching(value)]
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
    bare = _bare(fn)
    if bare is None:
        return found
    return found + [(name, look) for name, look in _named(bare) if _worth_watching(look())] + list(_of_helpers(bare))


# ---- what a function can change ----
class Globals:
    """The global variables that a function's code names."""

    def __init__(self, fn: types.FunctionType) -> None:
        self.all = fn.__globals__
        self.names = sorted(_names(fn.__code__) & self.all.keys())


def outside(fn: Any) -> list[Any]:
    """What a function can change besides its arguments: its object, and variables of its own and of what it calls."""
    if isinstance(fn, functools.partial):
        return [*outside(fn.func), *fn.args, *fn.keywords.values()]
    bare = _bare(fn)
    functions = [bare, *_helpers(bare)] if bare is not None else []
    return [owner_of(fn), *(cell for one in functions for cell in one.__closure__ or ()), *map(Globals, functions)]


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
