"""Nested values (tuples, lists, dictionaries, named tuples) as their leaves, and back. func.py and _vmap.py walk
arguments and results with it."""
from __future__ import annotations

import copy
from typing import Any, Iterable, Iterator

from ._tensor import Tensor


def leaves(tree: Any) -> list[Any]:
    """The leaves of a nested value, from left to right."""
    if isinstance(tree, dict):
        return [leaf for value in tree.values() for leaf in leaves(value)]
    if isinstance(tree, (tuple, list)):
        return [leaf for value in tree for leaf in leaves(value)]
    return [tree]


def _rebuild(tree: Any, values: Iterator[Any]) -> Any:
    if isinstance(tree, dict):
        made = copy.copy(tree)
        for key, value in tree.items():
            made[key] = _rebuild(value, values)
        return made
    if isinstance(tree, tuple) and hasattr(tree, "_fields"):
        return type(tree)(*(_rebuild(value, values) for value in tree))
    if isinstance(tree, list):
        return type(tree)([_rebuild(value, values) for value in tree])
    if isinstance(tree, tuple):  # of whatever kind: the results of max(dim=...) become a plain one
        several = tuple(_rebuild(value, values) for value in tree)
        return several if type(tree) is tuple else _as(type(tree), several)
    return next(values)


def _as(kind: Any, values: tuple[Any, ...]) -> Any:
    try:
        return kind(values)
    except TypeError:
        return values


def like(tree: Any, values: Iterable[Any]) -> Any:
    """The same structure with other leaves."""
    return _rebuild(tree, iter(values))


def tensors(tree: Any, what: str) -> list[Tensor]:
    """The leaves, which must be tensors."""
    found = leaves(tree)
    for leaf in found:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(f"{what}: expected tensors, not {type(leaf).__name__}")
    return found
