"""A call of a module with other tensors in the place of its parameters and buffers."""
from __future__ import annotations

from typing import Any, Mapping

from ..._tensor import Tensor
from ..module import Module

__all__ = ["functional_call"]


def functional_call(module: Module, parameters_and_buffers: Any, args: Any = None, kwargs: Any = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:
    """module(*args, **kwargs) with these tensors by name; the module is as before afterwards. Names of a parameter that
    stands in several places mean all of them."""
    given: dict[str, Tensor] = {}
    for part in parameters_and_buffers if isinstance(parameters_and_buffers, (list, tuple)) else \
            (parameters_and_buffers,):
        given.update(part)
    places = _places(module, given, tie_weights)
    if strict:
        names = {k for k, _ in module.named_parameters()} | {k for k, _ in module.named_buffers()}
        if names != set(given):
            raise RuntimeError("Missing key(s): %s. Unexpected key(s): %s."
                               % (sorted(names - set(given)), sorted(set(given) - names)))
    saved = [(entries, name, entries[name]) for entries, name, _ in places]
    arguments = args if isinstance(args, tuple) else () if args is None else (args,)
    try:
        for entries, name, value in places:
            entries[name] = value
        return module(*arguments, **(kwargs or {}))
    finally:
        for entries, name, value in saved:
            entries[name] = value


def _places(module: Module, given: Mapping[str, Tensor], tied: bool) -> list[tuple[Any, str, Tensor]]:
    """The dictionaries and names that are to hold the tensors for the call."""
    found: list[tuple[Any, str, Tensor]] = []
    replaced: dict[int, Tensor] = {}
    for path, value in given.items():
        owner_path, _, name = path.rpartition(".")
        owner = module.get_submodule(owner_path)
        entries = owner._parameters if name in owner._parameters else owner._buffers
        if name not in entries:
            raise KeyError("the module has no parameter or buffer '%s'" % path)
        found.append((entries, name, value))
        if entries[name] is not None:
            replaced[id(entries[name])] = value
    if tied:
        done = {(id(entries), name) for entries, name, _ in found}
        for owner in module.modules():
            for entries in (owner._parameters, owner._buffers):
                for name, value in entries.items():
                    if id(value) in replaced and (id(entries), name) not in done:
                        found.append((entries, name, replaced[id(value)]))
    return found
