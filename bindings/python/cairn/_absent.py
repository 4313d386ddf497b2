"""Names of PyTorch that cairn has no counterpart of: programs import them, and learn what is missing when they use one.

Place in the flow: modules that stand for such a part of PyTorch (distributed, ao, _inductor, package) give their names
here as text. Invariant: a name that is made here raises when it is called, made or derived from and made; nothing that
it returns could be taken for a result. Upper-case attributes of a class are marks, for default arguments in programs.
"""
from __future__ import annotations

import abc
import sys
from types import ModuleType
from typing import Any, Callable, Mapping

__all__ = ["Absent", "Mark", "Space", "function", "kind", "spaces"]


class Absent(NotImplementedError):
    """What is used is not there."""


class Mark:
    """A member of a class that is not there: ShardingStrategy.FULL_SHARD, say. It can be handed on and compared."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


class _Kind(abc.ABCMeta):
    """The class of classes that are not there."""
    _why: str

    def __getattr__(cls, name: str) -> Any:
        if not name.isupper() or name.startswith("_"):
            raise AttributeError("type object %r has no attribute %r (%s)" % (cls.__name__, name, cls._why))
        mark = Mark("%s.%s" % (cls.__name__, name))
        setattr(cls, name, mark)
        return mark


def _refusal(place: str, why: str) -> Absent:
    return Absent("%s: %s" % (place, why))


def function(space: str, name: str, why: str) -> Callable[..., Any]:
    """A function that raises."""
    def absent(*args: Any, **kwargs: Any) -> Any:
        raise _refusal("%s.%s" % (space, name), why)
    absent.__name__ = absent.__qualname__ = name
    absent.__module__ = space
    absent.__doc__ = "Not there: " + why
    return absent


def kind(space: str, name: str, why: str) -> type:
    """A class that nothing is an object of: making one raises, also by a class derived from it."""
    def refuse(cls: type, *args: Any, **kwargs: Any) -> Any:
        raise _refusal("%s.%s" % (space, name), why)
    return _Kind(name, (), {"__module__": space, "__doc__": "Not there: " + why, "__new__": refuse, "_why": why})


def _made(space: str, name: str, why: str) -> Any:
    return (kind if name.lstrip("_")[:1].isupper() else function)(space, name, why)


class Space(ModuleType):
    """A module of such names. Those that begin with a capital are classes, others functions."""

    def __init__(self, name: str, names: str, why: str) -> None:
        super().__init__(name, "Not there: " + why)
        self.__path__: list[str] = []
        self.__all__ = [n for n in names.split() if not n.startswith("_")]
        self._names, self._why = frozenset(names.split()), why

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError("module %r has no attribute %r: %s" % (self.__name__, name, self._why))
        made = _made(self.__name__, name, self._why)
        setattr(self, name, made)
        return made

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names})


def spaces(package: str, table: Mapping[str, str], why: str) -> dict[str, Space]:
    """The modules of a table {name below the package: names in it}, in sys.modules from now on, each an attribute of
    the one around it, with those in between. What is in sys.modules already stays."""
    made = {}
    for below in sorted(table):
        parts = below.split(".")
        for depth in range(1, len(parts) + 1):
            inner = ".".join(parts[:depth])
            full = "%s.%s" % (package, inner)
            if full in sys.modules:
                continue
            made[inner] = sys.modules[full] = Space(full, table.get(inner, ""), why)
            setattr(sys.modules[full.rpartition(".")[0]], parts[depth - 1], made[inner])
    return made


_INSIDE = "this part of PyTorch's inside has no counterpart in cairn"
PyTorchFileReader, PyTorchFileWriter, ScriptMethod, ScriptObject = (
    kind(__name__.partition(".")[0], name, _INSIDE)
    for name in ("PyTorchFileReader", "PyTorchFileWriter", "ScriptMethod", "ScriptObject"))
