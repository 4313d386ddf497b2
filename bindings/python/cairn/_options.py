"""What becomes of an argument that other libraries have and cairn does not act on.

Place in the flow: functions with a foreign signature call these for each argument that they would drop. Invariant of
the package: an argument that differs from its default is honoured, or raises, or, where only speed depends on it, warns
once. tools/lint_python.py reads the sources for arguments that no statement uses.
"""
from __future__ import annotations

import warnings
from typing import Any

__all__ = ["only_default", "only_speed", "repeat_warnings", "warn_once", "warnings_repeat"]

_said: set[str] = set()
_repeat = False


def _differs(value: Any, default: Any) -> bool:
    """Is it neither the default nor equal to it? Values whose comparison is no truth (tensors) differ."""
    if value is default:
        return False
    try:
        return not bool(value == default)
    except (RuntimeError, TypeError, ValueError):
        return True


def only_default(where: str, **arguments: tuple[Any, Any]) -> None:
    """Raises for the first of name=(value, default) that is not its default: `where` would have to act on it."""
    for name, (value, default) in arguments.items():
        if _differs(value, default):
            raise NotImplementedError("%s: %s=%r is not supported, only %r is" % (where, name, value, default))


def only_speed(where: str, **arguments: tuple[Any, Any]) -> None:
    """Warns once for each name=(value, default) that is not its default: results are the same without it."""
    for name, (value, default) in arguments.items():
        if _differs(value, default):
            warn_once("%s: %s has no effect on cairn; results are the same without it" % (where, name))


def warn_once(text: str) -> None:
    """A UserWarning, the first time that this text is said in the process, or always after repeat_warnings(True)."""
    if _repeat or text not in _said:
        _said.add(text)
        warnings.warn(text, UserWarning, stacklevel=3)


def repeat_warnings(on: bool) -> None:
    """Shall warn_once warn each time?"""
    global _repeat
    _repeat = on


def warnings_repeat() -> bool:
    """What repeat_warnings was given last; False at first."""
    return _repeat
