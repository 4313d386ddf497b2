"""cairn.xpu: Intel's GPUs, which cairn has no backend for: the questions are answered, the rest raises."""
from __future__ import annotations

from typing import Any

from . import _absent

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


_WHY = "cairn has no XPU backend"
for _name in ("current_device", "current_stream", "device", "device_of", "get_arch_list", "get_device_capability",
              "get_device_name", "get_device_properties", "get_rng_state", "get_rng_state_all", "init",
              "is_current_stream_capturing", "max_memory_allocated", "max_memory_reserved", "mem_get_info",
              "memory_reserved", "memory_stats", "reset_accumulated_memory_stats", "reset_peak_memory_stats",
              "set_device", "set_rng_state", "set_rng_state_all", "set_stream", "stream", "Event", "Stream",
              "StreamContext"):
    globals()[_name] = _absent._made(__name__, _name, _WHY)


def is_bf16_supported(including_emulation: bool = True) -> bool:  # unused: including_emulation (no device, no support)
    """False."""
    return False
