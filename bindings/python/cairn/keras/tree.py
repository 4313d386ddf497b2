"""keras.tree: nested lists, tuples and dictionaries; those of dictionaries in the order of their keys."""
from __future__ import annotations

from typing import Any, Callable

from .._training.batches import by_key

__all__ = ["MAP_TO_NONE", "assert_same_structure", "flatten", "flatten_with_path", "is_nested", "lists_to_tuples",
           "map_structure", "map_structure_up_to", "pack_sequence_as", "traverse"]


class MAP_TO_NONE:
    """What a function of traverse() returns for None to stand in a place."""


def is_nested(structure: Any) -> bool:
    return isinstance(structure, (list, tuple, dict))


def flatten(structure: Any) -> list[Any]:
    return by_key(structure)


def flatten_with_path(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Leaves, each with the keys and places that lead to it."""
    if isinstance(structure, dict):
        return [((k, *path), leaf) for k in sorted(structure) for path, leaf in flatten_with_path(structure[k])]
    if isinstance(structure, (list, tuple)):
        return [((i, *path), leaf) for i, part in enumerate(structure) for path, leaf in flatten_with_path(part)]
    return [((), structure)]


def _like(structure: Any, parts: list[Any]) -> Any:
    """The same container around other parts; a dictionary's in the order of its keys."""
    if isinstance(structure, dict):
        made = dict(zip(sorted(structure), parts))
        return {k: made[k] for k in structure}
    return type(structure)(*parts) if hasattr(structure, "_fields") else type(structure)(parts)


def _parts(structure: Any) -> list[Any]:
    return [structure[k] for k in sorted(structure)] if isinstance(structure, dict) else list(structure)


def map_structure(func: Callable[..., Any], *structures: Any, none_is_leaf: bool = True) -> Any:
    """func of the leaves that stand in the same places."""
    first = structures[0]
    if first is None and not none_is_leaf:
        return None
    if not is_nested(first):
        return func(*structures)
    for other in structures[1:]:
        assert_same_structure(first, other)
    return _like(first, [map_structure(func, *rows, none_is_leaf=none_is_leaf)
                         for rows in zip(*[_parts(s) for s in structures])])


def map_structure_up_to(shallow_structure: Any, func: Callable[..., Any], *structures: Any) -> Any:
    if not is_nested(shallow_structure):
        return func(*structures)
    return _like(shallow_structure, [map_structure_up_to(head, func, *rows) for head, *rows in
                                     zip(_parts(shallow_structure), *[_parts(s) for s in structures])])


def assert_same_structure(a: Any, b: Any) -> None:
    if is_nested(a) != is_nested(b) or is_nested(a) and (
            isinstance(a, dict) != isinstance(b, dict) or len(a) != len(b)
            or isinstance(a, dict) and sorted(a) != sorted(b)):
        raise ValueError("these are not nested alike: %r and %r" % (a, b))
    for x, y in zip(_parts(a), _parts(b)) if is_nested(a) else ():
        assert_same_structure(x, y)


def pack_sequence_as(structure: Any, flat_sequence: Any) -> Any:
    """The leaves of flatten() where they were."""
    rest = iter(flat_sequence)

    def fill(part: Any) -> Any:
        return _like(part, [fill(p) for p in _parts(part)]) if is_nested(part) else next(rest)
    made = fill(structure)
    if next(rest, None) is not None:
        raise ValueError("there are more values than places")
    return made


def lists_to_tuples(structure: Any) -> Any:
    if isinstance(structure, dict):
        return {k: lists_to_tuples(v) for k, v in structure.items()}
    return tuple(lists_to_tuples(v) for v in structure) if isinstance(structure, (list, tuple)) else structure


def traverse(func: Callable[[Any], Any], structure: Any, top_down: bool = True) -> Any:
    """func of each part and leaf; what it returns, unless None, stands in its place."""
    if top_down:
        made = func(structure)
        if made is not None:
            return None if made is MAP_TO_NONE else made
    if is_nested(structure):
        structure = _like(structure, [traverse(func, p, top_down) for p in _parts(structure)])
    if not top_down:
        made = func(structure)
        return structure if made is None else None if made is MAP_TO_NONE else made
    return structure
