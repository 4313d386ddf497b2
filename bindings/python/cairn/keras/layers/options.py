"""What layers are made with: arguments by name, kept as attributes, and returned by get_config as plain values.

Names that end with initializer, regularizer, constraint or activation stand for objects of those modules; a
configuration has their class and settings (activations: their name), unless they are the program's own.
"""
from __future__ import annotations

import inspect
from typing import Any, Iterator

from .. import activations, constraints, initializers, regularizers

__all__ = ["found", "given_to", "options_of", "plain"]

_getters: dict[str, Any] = {"initializer": initializers.get, "regularizer": regularizers.get,
                            "constraint": constraints.get, "activation": activations.get}
_homes: dict[str, Any] = {"initializer": initializers, "regularizer": regularizers, "constraint": constraints}
_of_all = ("self", "name", "trainable", "dtype", "autocast")


def found(name: str, value: Any) -> Any:
    """The object that an argument of this name stands for."""
    getter = _getters.get(name.rpartition("_")[2])
    return value if getter is None or (value is None and getter is not activations.get) else getter(value)


def plain(name: str, value: Any) -> Any:
    """What a configuration says of an argument."""
    kind = name.rpartition("_")[2]
    if kind == "activation":
        known = getattr(value, "__name__", "")
        return known if known and getattr(activations, known, None) is value else value
    home = _homes.get(kind)
    if home is not None and value is not None and getattr(home, type(value).__name__, None) is type(value):
        return {"module": "keras.%ss" % kind, "class_name": type(value).__name__, "config": value.get_config(),
                "registered_name": None}
    if hasattr(value, "name") and hasattr(value, "get_config") and hasattr(value, "call"):
        from .._serial import serialize
        return serialize(value)
    return value


def _ours(kind: type) -> bool:
    return kind.__module__.startswith(__name__.rpartition(".")[0].rpartition(".")[0])


def options_of(kind: type, with_own: bool) -> Iterator[tuple[str, Any]]:
    """The arguments of a class of layers and of those it hands the rest on to, with defaults. with_own: also those of
    classes that are not the library's."""
    seen: set[str] = set(_of_all) | set(getattr(kind, "_not_options", ()))
    for part in kind.__mro__:
        if "__init__" not in vars(part) or not with_own and not _ours(part):
            continue
        if part.__name__ == "Layer" and _ours(part):
            return
        arguments = inspect.signature(vars(part)["__init__"]).parameters.values()
        for p in arguments:
            if p.name not in seen and p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY):
                seen.add(p.name)
                yield p.name, None if p.default is p.empty else p.default
        if not any(p.kind is p.VAR_KEYWORD for p in arguments):
            return


def given_to(kind: type, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments of a call by name."""
    names = [p.name for p in list(inspect.signature(kind.__init__).parameters.values())[1:]  # type: ignore[misc]
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return {**dict(zip(names, args)), **kwargs}
