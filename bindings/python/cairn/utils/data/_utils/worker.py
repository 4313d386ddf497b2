"""Which worker runs the code that asks."""
from __future__ import annotations

from .._workers import WorkerInfo as WorkerInfo, get_worker_info as get_worker_info

__all__ = ["WorkerInfo", "get_worker_info"]


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Four numbers of 32 bits for numpy's generator, from a seed and a worker's number."""
    mixed = (base_seed * 0x9E3779B97F4A7C15 + worker_id * 0xBF58476D1CE4E5B9 + 1) & (1 << 64) - 1
    numbers = []
    for _ in range(4):
        mixed = (mixed ^ mixed >> 30) * 0x94D049BB133111EB & (1 << 64) - 1
        mixed ^= mixed >> 31
        numbers.append(mixed & 0xFFFFFFFF)
    return numbers


def __getattr__(name: str) -> object:
    if name == "_worker_info":
        return get_worker_info()
    raise AttributeError("module %r has no attribute %r" % (__name__, name))
