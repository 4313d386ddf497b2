"""Questions about sizes that are not known: here all are, so that answers are those of Python's numbers."""
from __future__ import annotations

from typing import Any

from ... import _absent

__all__ = ["GuardOnDataDependentSymNode", "free_symbols", "free_unbacked_symbols", "guard_int", "guard_or_false",
           "guard_or_true", "guard_size_oblivious", "has_free_symbols", "is_symbolic", "statically_known_false",
           "statically_known_true", "sym_and", "sym_eq", "sym_or"]

_WHY = "sizes of tensors are plain numbers here"
ShapeEnv = _absent.kind(__name__, "ShapeEnv", _WHY)


class GuardOnDataDependentSymNode(RuntimeError):
    """Never raised: sizes are known."""


def free_symbols(val: Any) -> set[Any]:  # unused: val (there are none in it)
    """The unknowns in sizes: none."""
    return set()


free_unbacked_symbols = free_symbols


def has_free_symbols(val: Any) -> bool:  # unused: val (there are none in it)
    """Are there unknowns? No."""
    return False


is_symbolic = is_concrete_bool = has_free_symbols


def statically_known_true(x: Any) -> bool:
    """Is it so?"""
    return bool(x)


guard_or_true = guard_or_false = guard_size_oblivious = guard_bool = statically_known_true


def statically_known_false(x: Any) -> bool:
    """Is it not so?"""
    return not x


def guard_int(a: Any) -> int:
    """The number."""
    return int(a)


guard_scalar = hint_int = size_hint = guard_int


def sym_eq(x: Any, y: Any) -> bool:
    """x == y, also of sequences."""
    return bool(x == y)


def sym_and(*x: Any) -> bool:
    """Are all so?"""
    return all(x)


def sym_or(*x: Any) -> bool:
    """Is one so?"""
    return any(x)
