"""Nested arguments of graphs whose code takes them apart."""
from __future__ import annotations

from typing import Any

from ..utils._pytree import TreeSpec

__all__ = ["tree_flatten_spec"]


def tree_flatten_spec(pytree: Any, spec: TreeSpec) -> list[Any]:
    """The leaves of arguments that are nested as spec says."""
    return spec.flatten_up_to(pytree)


def register_pytree_flatten_spec(cls: type[Any], flatten_fn_spec: Any, flatten_fn_exact_match_spec: Any = None) -> None:
    """Nothing: the specs themselves say how their parts are found."""
    if not isinstance(cls, type):
        raise TypeError("register_pytree_flatten_spec: expected a class, not %s" % type(cls).__name__)
    for fn in (flatten_fn_spec, flatten_fn_exact_match_spec):
        if fn is not None and not callable(fn):
            raise TypeError("register_pytree_flatten_spec: expected a function, not %s" % type(fn).__name__)
