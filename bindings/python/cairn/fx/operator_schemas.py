"""Arguments of calls by the names of their parameters.

Place in the flow: Node.normalized_arguments and passes. Invariant: a function whose signature Python cannot tell gives
None, never a guess."""
from __future__ import annotations

import inspect
from typing import Any, NamedTuple

__all__ = ["ArgsKwargsPair", "normalize_function", "normalize_module"]


class ArgsKwargsPair(NamedTuple):
    """Arguments by position, and by name."""
    args: tuple[Any, ...]
    kwargs: dict[str, Any]


def _normalized(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                only_names: bool) -> ArgsKwargsPair | None:
    try:
        bound = inspect.signature(function).bind(*args, **kwargs)
    except (TypeError, ValueError):
        return None
    bound.apply_defaults()
    if only_names and any(p.kind in (p.VAR_POSITIONAL, p.POSITIONAL_ONLY) for p in bound.signature.parameters.values()):
        return None
    return ArgsKwargsPair((), dict(bound.arguments)) if only_names else ArgsKwargsPair(bound.args, bound.kwargs)


def normalize_function(target: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, arg_types: Any = None,
                       kwarg_types: Any = None, normalize_to_only_use_kwargs: bool = False
                       ) -> ArgsKwargsPair | None:  # unused: arg_types, kwarg_types (each function has one signature)
    """A call's arguments with all defaults; None where the signature is not known."""
    return _normalized(target, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(root: Any, target: str, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None,
                     normalize_to_only_use_kwargs: bool = False) -> ArgsKwargsPair | None:
    """The same of a call of a module."""
    return _normalized(root.get_submodule(target).forward, args, kwargs or {}, normalize_to_only_use_kwargs)
