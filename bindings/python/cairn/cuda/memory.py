"""cairn.cuda.memory: how much of a device's memory is in use.

Place in the flow: names of cairn.cuda. Blocks that tensors gave back are kept for the next ones, and returned to the
driver by empty_cache() or when the device runs out: what is reserved is what tensors hold and what is kept. Invariant:
what memory_allocated() and memory_reserved() say is what memory_stats() has under allocated_bytes and reserved_bytes.
"""
from __future__ import annotations

from typing import Any

from .. import _C
from ._devices import _Device, _index, _info, device_count, is_available
from ._history import *  # noqa: F401,F403
from .allocator import *  # noqa: F401,F403

__all__ = ["empty_cache", "empty_host_cache", "get_per_process_memory_fraction", "ipc_collect", "max_memory_allocated",
           "max_memory_cached", "max_memory_reserved", "mem_get_info", "memory_allocated", "memory_cached",
           "memory_reserved", "memory_stats", "memory_stats_as_nested_dict", "memory_summary",
           "reset_accumulated_memory_stats", "reset_max_memory_allocated", "reset_max_memory_cached",
           "reset_peak_memory_stats", "set_per_process_memory_fraction"]


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


_KINDS = ("all", "small_pool", "large_pool")
_COUNTED = {"allocation": "blocks", "active": "blocks", "segment": "segments", "allocated_bytes": "used",
            "active_bytes": "used", "requested_bytes": "asked", "reserved_bytes": "reserved"}


def memory_stats_as_nested_dict(device: _Device = None) -> dict[str, Any]:
    """memory_stats() as dicts in dicts; empty where there is no device."""
    if not is_available():
        return {}
    index = _index(device)
    place = f"cuda:{index}"
    counted = _C._device_memory_stats(place)
    begun = _begun.get(index) or {of: [(0, 0, 0)] * len(_KINDS) for of in counted}
    since = {name: counted[name] - (begun[name] if index in _begun else 0) for name in ("retries", "failures")}
    stats: dict[str, Any] = {}
    for name, of in _COUNTED.items():
        stats[name] = {kind: {"current": now, "peak": peak, "allocated": total - all_then,
                              "freed": total - now - (all_then - then)}
                       for kind, (now, peak, total), (then, _, all_then) in zip(_KINDS, counted[of], begun[of])}
    for name, of in (("inactive_split", "gaps"), ("inactive_split_bytes", "gap_bytes")):
        stats[name] = {kind: {"current": now} for kind, now in zip(_KINDS, counted[of])}
    held = _C._device_memory(place)
    stats["allocated_bytes"]["all"].update(current=held["allocated"], peak=held["peak"])
    segments = stats["segment"]["all"]
    stats.update(num_alloc_retries=since["retries"], num_ooms=since["failures"],
                 num_device_alloc=segments["allocated"], num_device_free=segments["freed"], max_split_size=-1)
    return stats


def memory_stats(device: _Device = None) -> dict[str, Any]:
    """Figures by torch's keys: for NAME.KIND.FIGURE of allocation, segment (counts), allocated_bytes, active_bytes,
    requested_bytes, reserved_bytes; kinds all, small_pool (blocks up to 1 MiB), large_pool; figures current, peak,
    allocated, freed (added up). inactive_split and inactive_split_bytes (free parts of segments in use) have current
    alone. allocated_bytes.all is what tensors hold; active_bytes has what kernels use while they run, too."""
    stats: dict[str, Any] = {}
    for name, of in memory_stats_as_nested_dict(device).items():
        if isinstance(of, dict):
            stats.update({f"{name}.{kind}.{figure}": n for kind, some in of.items() for figure, n in some.items()})
        else:
            stats[name] = of
    return stats or {f"{name}.all.{figure}": 0 for name in _COUNTED for figure in ("current", "peak")}


def memory_summary(device: _Device = None, abbreviated: bool = False) -> str:
    """The figures as a table to print; abbreviated leaves out the kinds of blocks, and the device's own."""
    stats = memory_stats(device)
    lines = ["%-28s %16s %16s %20s" % ("", "now", "at most", "in all")]
    for title, name in (("tensors hold", "allocated_bytes"), ("blocks in use", "active_bytes"),
                        ("taken from the device", "reserved_bytes"), ("blocks", "allocation"),
                        ("segments", "segment")):
        for kind in _KINDS[:1] if abbreviated else _KINDS:
            row = [stats.get(f"{name}.{kind}.{figure}", 0) for figure in ("current", "peak", "allocated")]
            label = title if kind == "all" else "  of the " + kind.replace("_", " ")
            lines.append("%-28s %16d %16d %20d" % (label, *row))
    lines.append("%-28s %16d" % ("out of memory", stats.get("num_ooms", 0)))
    lines.append("%-28s %16d" % ("saved by giving back", stats.get("num_alloc_retries", 0)))
    if is_available() and not abbreviated:
        lines.append("%-28s %16d %16d" % (("free on the device, of",) + mem_get_info(device)))
    return "\n".join(lines)


def reset_peak_memory_stats(device: _Device = None) -> None:
    """Lets max_memory_allocated() and max_memory_reserved() start again from what is in use now."""
    if is_available():
        _C._device_memory_reset_peak(f"cuda:{_index(device)}")


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def reset_accumulated_memory_stats(device: _Device = None) -> None:
    """Lets what memory_stats() adds up (allocated, freed, and how often memory ran out) start again from 0."""
    if is_available():
        _begun[_index(device)] = _C._device_memory_stats(f"cuda:{_index(device)}")


def empty_cache() -> None:
    """Gives the memory that is kept for the next tensors back to the driver, on every device, and pinned memory that is
    kept."""
    for index in range(device_count()):
        _C._device_memory_trim(f"cuda:{index}")


empty_host_cache = empty_cache


def ipc_collect() -> None:
    """Nothing is shared with other processes, so nothing is freed."""


def set_per_process_memory_fraction(fraction: float, device: _Device = None) -> None:
    """This process takes no more than that part of the device's memory: beyond it tensors raise OutOfMemoryError."""
    if not isinstance(fraction, (int, float)):
        raise TypeError("set_per_process_memory_fraction: expected a number, not %r" % (fraction,))
    if not 0 <= fraction <= 1:
        raise ValueError("set_per_process_memory_fraction: expected a number from 0 to 1, not %r" % (fraction,))
    index = _index(device)
    _, total = mem_get_info(index)
    limit = 0 if fraction == 1 else max(1, int(fraction * total))  # to the library 0 is no limit
    _C._device_memory_set_limit(f"cuda:{index}", limit)
    _fractions[index] = float(fraction)


def get_per_process_memory_fraction(device: _Device = None) -> float:
    """What set_per_process_memory_fraction() said; 1: there is no limit."""
    return _fractions.get(_index(device), 1.0) if is_available() else 1.0


_fractions: dict[int, float] = {}
_begun: dict[int, dict[str, Any]] = {}  # by device: what was counted when sums were to start again
