"""SymInt and its kin: sizes that are not known, which cairn's tensors never have. Functions of them take plain numbers.

Place in the flow: programs name the classes in isinstance and annotations. Invariant: nothing is an object of one."""
from __future__ import annotations

import math
from typing import Any, Iterable

from . import _absent

__all__ = ["SymBool", "SymFloat", "SymInt", "sym_float", "sym_fresh_size", "sym_int", "sym_ite", "sym_max", "sym_min",
           "sym_not", "sym_sqrt", "sym_sum"]

_WHY = "sizes of tensors are plain numbers here"
SymInt, SymFloat, SymBool = (_absent.kind(__name__.partition(".")[0], name, _WHY)
                             for name in ("SymInt", "SymFloat", "SymBool"))
sym_fresh_size = _absent.function(__name__.partition(".")[0], "sym_fresh_size", _WHY)


def sym_int(a: Any) -> int:
    """a without its fraction."""
    return int(a)


def sym_float(a: Any) -> float:
    """a as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """not a"""
    return not a


def _as_both(value: Any, a: Any, b: Any) -> Any:
    return float(value) if isinstance(a, float) or isinstance(b, float) else value


def sym_max(a: Any, b: Any) -> Any:
    """The larger one; a float where one is."""
    return _as_both(max(a, b), a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller one; a float where one is."""
    return _as_both(min(a, b), a, b)


def sym_sqrt(a: Any) -> float:
    """The root."""
    return math.sqrt(a)


def sym_ite(b: bool, t: Any, f: Any) -> Any:
    """t if b else f"""
    return t if b else f


def sym_sum(args: Iterable[Any]) -> Any:
    """The sum."""
    return sum(args)
