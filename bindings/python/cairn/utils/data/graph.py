"""Which pipes a pipe is made of.

Place in the flow: graph_settings.py. Invariant: a pipe is found wherever another one keeps it among its attributes."""
from __future__ import annotations

from typing import Any

from .datapipes.datapipe import IterDataPipe, MapDataPipe

__all__ = ["traverse", "traverse_dps"]

_Graph = dict[int, tuple[Any, Any]]


def _pipes(value: Any) -> list[Any]:
    if isinstance(value, (IterDataPipe, MapDataPipe)):
        return [value]
    if isinstance(value, dict):
        value = list(value.values())
    return [p for v in value for p in _pipes(v)] if isinstance(value, (list, tuple)) else []


def traverse_dps(datapipe: Any) -> _Graph:
    """{id of the pipe: (the pipe, the same of those it is made of)}"""
    if not isinstance(datapipe, (IterDataPipe, MapDataPipe)):
        raise RuntimeError("Expected `IterDataPipe` or `MapDataPipe`, but %s is found" % type(datapipe))
    below: _Graph = {}
    for value in vars(datapipe).values():
        for pipe in _pipes(value):
            below.update(traverse_dps(pipe))
    return {id(datapipe): (datapipe, below)}


def traverse(datapipe: Any, only_datapipe: bool = True) -> _Graph:
    """traverse_dps; only_datapipe=False would look into objects of other classes, too."""
    if not only_datapipe:
        raise NotImplementedError("traverse: only_datapipe=False is not supported")
    return traverse_dps(datapipe)
