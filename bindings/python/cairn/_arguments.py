"""Arguments that another library's programs pass and cairn does not act on: refused, or noted once where only speed
depends on them. Nothing that a caller wrote is dropped without a word; functions call these with what they were given.
"""
from __future__ import annotations

import reprlib
import sys
import warnings
from typing import Any

__all__ = ["only_speed", "refused", "unexpected"]

_noted: set[tuple[str, str]] = set()


def _differs(value: Any, default: Any) -> bool:
    plain = isinstance(value, (bool, int, float, str, tuple))  # others, arrays say, are compared by what they are
    return value is not default and not (plain and value == default)


def refused(where: str, why: str, default: Any = None, **given: Any) -> None:
    """Raises for the first of `given` that is not the default: cairn has no way to do what it asks for."""
    for name, value in given.items():
        if _differs(value, default):
            raise ValueError("%s: %s=%s is not supported: %s" % (where, name, reprlib.repr(value), why))


def _caller() -> int:
    """How many frames above only_speed() the program is, for a warning that names its line."""
    frame, level = sys._getframe(2), 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] == __name__.partition(".")[0]:
        frame, level = frame.f_back, level + 1  # type: ignore[assignment]
    return level


def only_speed(where: str, default: Any = None, **given: Any) -> None:
    """Warns, once for each place and name, of arguments that change how fast a result comes and not the result."""
    for name, value in given.items():
        if _differs(value, default) and (where, name) not in _noted:
            _noted.add((where, name))
            warnings.warn("%s: %s=%s has no effect here; results are the same without it"
                          % (where, name, reprlib.repr(value)), stacklevel=_caller())


def unexpected(where: str, given: dict[str, Any]) -> None:
    """Raises for the first of some keywords that nobody takes, as Python does for a function's own."""
    for name in given:
        raise TypeError("%s() got an unexpected keyword argument %r" % (where, name))
