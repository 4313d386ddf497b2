"""The mark that torch's own code puts on names that may change."""
from __future__ import annotations

from typing import Any, Callable, TypeVar

__all__ = ["compatibility"]

_Code = TypeVar("_Code")


def compatibility(is_backward_compatible: bool) -> Callable[[_Code], _Code]:  # unused: is_backward_compatible (a mark)
    """A decorator that leaves what it decorates as it is."""
    return lambda code: code
