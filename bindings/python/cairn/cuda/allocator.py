"""The allocator of device memory and of pinned memory as torch shows it: snapshots, blocks that another library holds,
counts of pinned memory.

Place in the flow: names of cairn.cuda and cairn.cuda.memory, on the pieces that the plugin counts. Invariant: what a
snapshot adds up to is what memory_stats() says; what cairn's one allocator cannot be told raises.
"""
from __future__ import annotations

import contextlib
from typing import Any

from .. import _C
from .._arguments import refused
from ._devices import _Device, _index, device_count, is_available
from .streams import ExternalStream, Stream, stream as _in_stream

__all__ = ["CUDAPluggableAllocator", "MemPool", "caching_allocator_alloc", "caching_allocator_delete",
           "caching_allocator_disabled", "caching_allocator_enable", "change_current_allocator",
           "get_allocator_backend", "host_memory_stats", "host_memory_stats_as_nested_dict", "memory_snapshot",
           "reset_accumulated_host_memory_stats", "reset_peak_host_memory_stats", "use_mem_pool"]


def _block(at: int, size: int, asked: int, op: str | None, used: bool) -> dict[str, Any]:
    return {"address": at, "size": size, "requested_size": asked, "state": "active_allocated" if used else "inactive",
            "frames": [{"filename": "", "line": 0, "name": op}] if op else []}


def memory_snapshot(
        mempool_id: Any = None,
        include_traces: bool = True) -> list[dict[str, Any]]:  # unused: include_traces (segments have none)
    """The segments of all devices' memory with their blocks, by torch's keys; a block's frame names the op that asked
    for it."""
    refused("memory_snapshot", "segments are not told apart by pools", mempool_id=mempool_id)
    segments: list[dict[str, Any]] = []
    for index in range(device_count()):
        for segment, at, size, asked, stream, op, used, small in _C._device_memory_pieces("cuda:%d" % index):
            if at == segment:
                segments.append({"device": index, "address": at, "total_size": 0, "allocated_size": 0,
                                 "active_size": 0, "requested_size": 0, "stream": stream, "blocks": [], "frames": [],
                                 "segment_type": "small" if small else "large", "segment_pool_id": (0, 0),
                                 "is_expandable": False})
            one = segments[-1]
            one["total_size"] += size
            for key, bytes_ in (("allocated_size", size), ("active_size", size), ("requested_size", asked)):
                one[key] += bytes_ if used else 0
            one["blocks"].append(_block(at, size, asked, op, used))
    return segments


# ---- memory that another library holds ----

_held: dict[int, Any] = {}  # by address: the tensor that has it


def caching_allocator_alloc(size: int, device: _Device = None, stream: Any = None) -> int:
    """The address of so many bytes of a device's memory, which stay until caching_allocator_delete. They are the
    stream's (an object, or the address of one in use)."""
    index = _index(device)
    if stream is not None and not isinstance(stream, (Stream, int)):
        raise TypeError("Invalid type for stream argument, must be `cairn.cuda.Stream` or `int` representing a pointer "
                        "to an existing stream")
    if isinstance(stream, int):
        stream = ExternalStream(stream, index)  # raises where that is none of cairn's
    with _in_stream(stream):
        held = _C.empty((max(int(size), 1),), dtype=_C.uint8, device="cuda:%d" % index)
    _held[held.data_ptr()] = held
    return held.data_ptr()


def caching_allocator_delete(mem_ptr: int) -> None:
    """Gives memory of caching_allocator_alloc back."""
    if _held.pop(mem_ptr, None) is None:
        raise RuntimeError("caching_allocator_delete: there is no memory of caching_allocator_alloc at %#x" % mem_ptr)


def caching_allocator_enable(value: bool = True) -> None:
    """Memory is kept for the next tensors, unless CAIRN_CUDA_CACHING=0 was set before the first device was used; a
    program cannot change it later."""
    import os
    if bool(value) != (os.environ.get("CAIRN_CUDA_CACHING", "1") != "0"):
        raise RuntimeError("caching_allocator_enable: set CAIRN_CUDA_CACHING=%d before the program starts"
                           % bool(value))


def caching_allocator_disabled() -> Any:
    """Raises where memory is kept: see caching_allocator_enable."""
    caching_allocator_enable(False)
    return contextlib.nullcontext()


def get_allocator_backend() -> str:
    """"native": the plugin's own allocator."""
    return "native"


class CUDAPluggableAllocator:
    """Memory by functions of a program's own, which cairn does not take: it raises."""

    def __init__(self, path_to_so_file: str, alloc_fn_name: str, free_fn_name: str) -> None:
        raise NotImplementedError("CUDAPluggableAllocator(%r, %r, %r): device memory comes from cairn's own allocator; "
                                  "memory of another one comes in by from_dlpack" % (path_to_so_file, alloc_fn_name,
                                                                                     free_fn_name))


def change_current_allocator(allocator: Any) -> None:
    """Raises: see CUDAPluggableAllocator."""
    raise NotImplementedError("change_current_allocator(%r): device memory comes from cairn's own allocator"
                              % (allocator,))


class MemPool:
    """A pool of memory apart from others, which only graphs have (graph_pool_handle): it raises."""

    def __init__(self, allocator: Any = None, use_on_oom: bool = False, no_split: bool = False) -> None:
        raise NotImplementedError("MemPool(%r, %r, %r): tensors share one allocator with a pool for each stream; "
                                  "memory apart is a graph's (cairn.cuda.graph_pool_handle)"
                                  % (allocator, use_on_oom, no_split))


def use_mem_pool(pool: Any, device: _Device = None) -> Any:
    """Raises: see MemPool."""
    raise NotImplementedError("use_mem_pool(%r, %r): see cairn.cuda.MemPool" % (pool, device))


# ---- pinned memory ----

_PINNED = ("allocations", "allocated_bytes", "active_requests", "active_bytes")
_begun: dict[int, tuple[tuple[int, int, int], ...]] = {}  # by device: what was counted when sums were to start again


def host_memory_stats_as_nested_dict() -> dict[str, Any]:
    """host_memory_stats() as dicts in dicts; empty where there is no device."""
    stats: dict[str, Any] = {name: dict.fromkeys(("current", "peak", "allocated", "freed"), 0) for name in _PINNED}
    for index in range(device_count()):
        counted = _C._device_pinned_stats("cuda:%d" % index)
        begun = _begun.get(index, ((0, 0, 0),) * len(counted))
        for name, (now, peak, total), (then, _, all_then) in zip(_PINNED, counted, begun):
            since = {"current": now, "peak": peak, "allocated": total - all_then,
                     "freed": total - now - (all_then - then)}
            for figure, n in since.items():
                stats[name][figure] += n
    stats.update(num_host_alloc=stats["allocations"]["allocated"], num_host_free=stats["allocations"]["freed"])
    return stats if is_available() else {}


def host_memory_stats() -> dict[str, Any]:
    """Figures of pinned memory by torch's keys: NAME.FIGURE for allocations (blocks that there are), allocated_bytes,
    active_requests (of these, in use or read by queued copies), active_bytes; figures current, peak, allocated,
    freed."""
    stats: dict[str, Any] = {}
    for name, of in host_memory_stats_as_nested_dict().items():
        if isinstance(of, dict):
            stats.update({"%s.%s" % (name, figure): n for figure, n in of.items()})
        else:
            stats[name] = of
    return dict(sorted(stats.items()))


def reset_peak_host_memory_stats() -> None:
    """Lets the peaks of host_memory_stats() start again from what there is now."""
    for index in range(device_count()):
        _C._device_pinned_stats("cuda:%d" % index, True)


def reset_accumulated_host_memory_stats() -> None:
    """Lets what host_memory_stats() adds up start again from 0."""
    for index in range(device_count()):
        _begun[index] = _C._device_pinned_stats("cuda:%d" % index)
