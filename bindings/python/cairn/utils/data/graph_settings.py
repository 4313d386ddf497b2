"""Settings of all pipes that a pipe is made of: what a loader says before an epoch.

Place in the flow: graph.py finds the pipes. Invariant: only pipes with the method for it are told."""
from __future__ import annotations

from typing import Any

from . import sampler
from .datapipes.iter import Shuffler

__all__ = ["apply_random_seed", "apply_shuffle_seed", "apply_shuffle_settings", "get_all_graph_pipes"]


def get_all_graph_pipes(graph: Any) -> list[Any]:
    """The pipes of what traverse_dps returned, each once."""
    found: dict[int, Any] = {}
    for pipe, below in graph.values():
        for each in (pipe, *get_all_graph_pipes(below)):
            found.setdefault(id(each), each)
    return list(found.values())


def _all(datapipe: Any) -> list[Any]:
    from .graph import traverse_dps
    return get_all_graph_pipes(traverse_dps(datapipe))


def apply_shuffle_settings(datapipe: Any, shuffle: bool | None = None) -> Any:
    """Whether its shuffling pipes shuffle; one that shuffles is put behind it where none is there."""
    if shuffle is None:
        return datapipe
    shufflers = [p for p in _all(datapipe) if callable(getattr(type(p), "set_shuffle", None))]
    if shuffle and not shufflers:
        datapipe = Shuffler(datapipe)
        shufflers = [datapipe]
    for pipe in shufflers:
        pipe.set_shuffle(shuffle)
    return datapipe


def apply_random_seed(datapipe: Any, rng: Any) -> Any:
    """Draws from a generator what each pipe with random numbers begins with."""
    for pipe in _all(datapipe):
        if callable(getattr(type(pipe), "set_seed", None)):
            pipe.set_seed(sampler.draw_seed(rng))
    return datapipe


apply_shuffle_seed = apply_random_seed
