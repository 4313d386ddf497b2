"""cairn.xpu: Intel's GPUs, which cairn has no backend for: the questions are answered, the rest raises."""
from __future__ import annotations

from typing import Any

__all__ = ["device_count", "empty_cache", "is_available", "is_initialized", "manual_seed", "manual_seed_all",
           "memory_allocated", "synchronize"]


def is_available() -> bool:
    """False."""
    return False


is_initialized = is_available


def device_count() -> int:
    """0."""
    return 0


def memory_allocated(device: Any = None) -> int:  # unused: device (there is none)
    """0: no tensor is there."""
    return 0


def empty_cache() -> None:
    """Nothing is kept, so nothing is given back."""


def manual_seed(seed: int) -> None:
    """cairn.manual_seed: the random numbers do not depend on the device."""
    import cairn
    cairn.manual_seed(seed)


manual_seed_all = manual_seed


def synchronize(device: Any = None) -> None:
    """There is nothing to wait for: an error."""
    raise RuntimeError("cairn.xpu: cairn has no XPU backend")
