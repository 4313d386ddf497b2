"""cairn.cuda.memory: how much of a device's memory is in use.

Place in the flow: names of cairn.cuda. Blocks that tensors gave back are kept for the next ones, and returned to the
driver by empty_cache() or when the device runs out: what is reserved is what tensors hold and what is kept.
"""
from __future__ import annotations

from typing import Any

from .. import _C
from ._devices import _Device, _index, _info, device_count, is_available

__all__ = ["empty_cache", "get_per_process_memory_fraction", "ipc_collect", "max_memory_allocated",
           "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached",
           "memory_reserved", "memory_stats", "memory_summary", "reset_accumulated_memory_stats",
           "reset_max_memory_allocated", "reset_max_memory_cached", "reset_peak_memory_stats",
           "set_per_process_memory_fraction"]


def mem_get_info(device: _Device = None) -> tuple[int, int]:
    """(free, total) bytes of a device's memory, whoever uses it."""
    info = _info(device)
    return int(info["memory_free"]), int(info["memory_total"])


def _memory(what: str, device: _Device) -> int:
    """A figure about the memory that this process holds on a device; 0 where there is no device."""
    if not is_available():
        return 0
    return _C._device_memory(f"cuda:{_index(device)}")[what]


def memory_allocated(device: _Device = None) -> int:
    """Bytes of a device's memory that tensors of this process occupy."""
    return _memory("allocated", device)


def max_memory_allocated(device: _Device = None) -> int:
    """The most that memory_allocated() has been so far."""
    return _memory("peak", device)


def memory_reserved(device: _Device = None) -> int:
    """Bytes taken from the device: those that tensors hold, and those kept for the next ones."""
    return _memory("reserved", device)


def max_memory_reserved(device: _Device = None) -> int:
    """The most that memory_reserved() has been so far."""
    return _memory("reserved_peak", device)


memory_cached, max_memory_cached = memory_reserved, max_memory_reserved


def memory_stats(device: _Device = None) -> dict[str, Any]:
    """The figures by torch's keys: those of allocated and reserved bytes, now and at most."""
    stats: dict[str, Any] = {}
    for kind, now, peak in (("allocated_bytes", "allocated", "peak"), ("active_bytes", "allocated", "peak"),
                            ("reserved_bytes", "reserved", "reserved_peak")):
        stats[kind + ".all.current"], stats[kind + ".all.peak"] = _memory(now, device), _memory(peak, device)
    return stats


def memory_summary(device: _Device = None, abbreviated: bool = False) -> str:
    """The figures as a small table to print; abbreviated leaves out the device's own."""
    rows = [("allocated memory", memory_allocated(device), max_memory_allocated(device)),
            ("reserved memory", memory_reserved(device), max_memory_reserved(device))]
    if is_available() and not abbreviated:
        free, total = mem_get_info(device)
        rows += [("free on the device", free, total)]
    lines = ["%-24s %16s %16s" % ("bytes", "now", "at most")]
    return "\n".join(lines + ["%-24s %16d %16d" % row for row in rows])


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Lets max_memory_allocated() and max_memory_reserved() start again from what is in use now."""
    if is_available():
        _C._device_memory_reset_peak(f"cuda:{_index(device)}")


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: _Device = None) -> None:  # unused: device (nothing is added up)
    """Nothing is added up over time, so nothing starts again."""


def empty_cache() -> None:
    """Gives the memory that is kept for the next tensors back to the driver, on every device."""
    for index in range(device_count()):
        _C._device_memory_trim(f"cuda:{index}")


def ipc_collect() -> None:
    """Nothing is shared with other processes, so nothing is freed."""


def set_per_process_memory_fraction(fraction: float, device: _Device = None) -> None:
    """A limit for this process; only 1, which is none, can be set."""
    if not 0 <= fraction <= 1:
        raise ValueError("set_per_process_memory_fraction: expected a number from 0 to 1, not %r" % (fraction,))
    if is_available():
        _index(device)
    if fraction != 1:
        raise NotImplementedError("set_per_process_memory_fraction: cairn has no limit below the device's memory")


def get_per_process_memory_fraction(device: _Device = None) -> float:
    """1: there is no limit."""
    if is_available():
        _index(device)
    return 1.0
