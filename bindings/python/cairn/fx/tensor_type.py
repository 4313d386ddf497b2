"""Types of tensors by their sizes, for annotations."""
from __future__ import annotations

from typing import Any

__all__ = ["Dyn", "TensorType", "is_consistent"]


class _DynType:
    """A size that may be any."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _DynType)

    def __hash__(self) -> int:
        return hash(_DynType)

    def __repr__(self) -> str:
        return "Dyn"


Dyn = _DynType()


class TensorType:
    """TensorType((1, 3, Dyn))"""

    def __init__(self, dim: Any) -> None:
        self.__origin__, self.__args__ = TensorType, dim

    def __repr__(self) -> str:
        return "TensorType[%s]" % (self.__args__,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TensorType) and list(self.__args__) == list(other.__args__)

    def __hash__(self) -> int:
        return hash(tuple(self.__args__))


def is_consistent(t1: Any, t2: Any) -> bool:
    """May a value be of both?"""
    if t1 == t2 or t1 is Dyn or t2 is Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        return len(t1.__args__) == len(t2.__args__) and all(map(is_consistent, t1.__args__, t2.__args__))
    return False
