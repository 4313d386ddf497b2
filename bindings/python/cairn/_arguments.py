"""Arguments that another library's programs pass and cairn does not act on: refused, or noted once where only speed
depends on them. Nothing that a caller wrote is dropped without a word; functions call these with what they were given,
and tools/lint_python.py reads the sources for parameters that no statement uses.
"""
from __future__ import annotations

import functools
import reprlib
import sys
import types
import warnings
from typing import Any, Callable

from . import _C

__all__ = ["Unsupported", "note_once", "numpy_words", "only_speed", "place_of", "refused", "repeat_warnings",
           "unexpected", "warn", "warnings_repeat"]

_noted: set[str] = set()
_repeat = False


class Unsupported(NotImplementedError, ValueError):
    """An argument that cairn has no way to act on: torch's programs expect the one, Keras's the other."""


def _differs(value: Any, default: Any) -> bool:
    plain = isinstance(value, (bool, int, float, str, tuple))  # others, arrays say, are compared by what they are
    return value is not default and not (plain and value == default)


def refused(where: str, why: str, default: Any = None, **given: Any) -> None:
    """Raises for the first of `given` that is not the default: cairn has no way to do what it asks for."""
    for name, value in given.items():
        if _differs(value, default):
            raise Unsupported("%s: %s=%s is not supported: %s" % (where, name, reprlib.repr(value), why))


def numpy_words(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes numpy's words for its parameters, too, as ops do (bind.c): axis= for dim=."""
    code = function.__code__
    known = code.co_varnames[:code.co_argcount + code.co_kwonlyargcount]
    words = {new: old for new, old in _C._numpy_words().items() if old in known and new not in known}
    rare = frozenset(words)
    if not words:
        return function

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if named and not rare.isdisjoint(named):
            for word in rare.intersection(named):
                if words[word] in named:
                    raise TypeError("%s() got both %s and %s" % (function.__name__, word, words[word]))
                named[words[word]] = named.pop(word)
        return function(*args, **named)

    return call


def _is_own(frame: types.FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == __name__.partition(".")[0]


def place_of(error: BaseException) -> str:
    """The innermost line of the program, rather than of this package, that an exception went through."""
    trace, place = error.__traceback__, ""
    while trace is not None:
        if not place or not _is_own(trace.tb_frame):
            place = "%s:%d" % (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
        trace = trace.tb_next
    return place


def _caller() -> int:
    """How many frames above the function that asks the program is, for a warning that names its line."""
    frame, level = sys._getframe(2), 2
    while frame is not None and _is_own(frame):
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def only_speed(where: str, default: Any = None, **given: Any) -> None:
    """Warns, once for each place and name, of arguments that change how fast a result comes and not the result."""
    for name, value in given.items():
        if _differs(value, default):
            note_once("%s: %s=%s has no effect here; results are the same without it"
                      % (where, name, reprlib.repr(value)), "%s: %s" % (where, name))


def note_once(text: str, about: str | None = None) -> None:
    """A warning, the first time that this is said (or something about it) in the process; always after
    repeat_warnings(True)."""
    if _repeat or (about or text) not in _noted:
        _noted.add(about or text)
        warnings.warn(text, stacklevel=_caller())


def warn(text: str) -> None:
    """A warning that names the program's line; those of the library are said so, too."""
    warnings.warn(text, stacklevel=_caller())


_C._set_warn(warn)


def repeat_warnings(on: bool) -> None:
    """Shall note_once warn each time?"""
    global _repeat
    _repeat = on


def warnings_repeat() -> bool:
    """What repeat_warnings was given last; False at first."""
    return _repeat


def unexpected(where: str, given: dict[str, Any]) -> None:
    """Raises for the first of some keywords that nobody takes, as Python does for a function's own."""
    for name in given:
        raise TypeError("%s() got an unexpected keyword argument %r" % (where, name))
