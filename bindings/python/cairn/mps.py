"""cairn.mps: Apple's GPUs, which cairn has no backend for: the questions are answered, the rest raises."""
from __future__ import annotations

__all__ = ["current_allocated_memory", "device_count", "driver_allocated_memory", "empty_cache", "is_available",
           "manual_seed", "seed", "synchronize"]


def is_available() -> bool:
    """False."""
    return False


def device_count() -> int:
    """0."""
    return 0


def current_allocated_memory() -> int:
    """0: no tensor is there."""
    return 0


driver_allocated_memory = current_allocated_memory


def empty_cache() -> None:
    """Nothing is kept, so nothing is given back."""


def manual_seed(seed: int) -> None:
    """cairn.manual_seed: the random numbers do not depend on the device."""
    import cairn
    cairn.manual_seed(seed)


def seed() -> None:
    """cairn.seed."""
    import cairn
    cairn.seed()


def synchronize() -> None:
    """There is nothing to wait for: an error."""
    raise RuntimeError("cairn.mps: cairn has no MPS backend")
