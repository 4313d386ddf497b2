"""One number as several, and names without a prefix: torch.nn.modules.utils."""
from __future__ import annotations

from collections.abc import Iterable
from itertools import repeat
from typing import Any, Callable

__all__ = ["_ntuple", "_single", "_pair", "_triple", "_quadruple", "consume_prefix_in_state_dict_if_present"]


def _ntuple(n: int, name: str = "parse") -> Callable[[Any], tuple[Any, ...]]:
    """A function that makes a tuple of n out of one value, or out of several."""
    def parse(x: Any) -> tuple[Any, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))
    parse.__name__ = name
    return parse


_single, _pair, _triple, _quadruple = (_ntuple(n, name) for n, name in
                                       enumerate(("_single", "_pair", "_triple", "_quadruple"), 1))


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, Any], prefix: str) -> None:
    """Takes a prefix ("module.", which DataParallel puts there) off the names of a state dictionary, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix):]] = state_dict.pop(key)
    metadata = getattr(state_dict, "_metadata", None)
    for key in list(metadata or ()):
        if metadata is not None and key and (key + ".").startswith(prefix):
            metadata[key[len(prefix):]] = metadata.pop(key)
