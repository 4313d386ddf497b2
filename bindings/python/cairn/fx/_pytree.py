"""Nested arguments of graphs whose code takes them apart."""
from __future__ import annotations

from typing import Any

from ..utils._pytree import TreeSpec

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of arguments that are nested as spec says."""
    return spec.flatten_up_to(pytree)
