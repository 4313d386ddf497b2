"""What happened to device memory, as torch shows it: recorded, asked for, written to a file.

Place in the flow: names of cairn.cuda.memory that begin with an underscore, which programs use all the same; events
come from the plugin. Invariant: a file of _dump_snapshot has the keys that torch's viewer of such files reads. A frame
names the op that asked for the memory; there are no others.
"""
from __future__ import annotations

import pickle
import sys
from typing import Any, Iterable

from .. import _C
from .._arguments import refused
from ._devices import _Device, _index, device_count
from .allocator import memory_snapshot

__all__ = ["_dump_snapshot", "_record_memory_history", "_snapshot"]

_ACTIONS = (("alloc",), ("free_requested", "free_completed"), ("segment_alloc",), ("segment_free",), ("oom",))
_kept: dict[int, int] = {}  # by device: how many events
_skipped: frozenset[str] = frozenset()


def _record_memory_history(enabled: str | bool | None = "all", context: Any = "all", stacks: Any = "all",
                           max_entries: int = sys.maxsize, device: _Device = None, clear_history: bool = False,
                           compile_context: bool = False, global_record_annotations: bool = False,
                           skip_actions: Iterable[str] | None = None, record_pinned_host_memory: bool = False,
                           record_cuda: bool = True, trace_alloc_max_entries: int | None = None
                           ) -> None:  # unused: context, stacks (frames are the ops' names)
    """From now on the last max_entries events of device memory are kept for _snapshot() ("all"), or none ("state",
    whose snapshots have blocks and segments alone; None, False). device: of that one alone. What was kept stays where
    the call changes nothing, unless clear_history."""
    global _skipped
    if enabled not in ("all", "state", None, True, False):
        raise RuntimeError("expected state to be 'state', 'all', or None, not %r" % (enabled,))
    refused("_record_memory_history", "events are those of device memory", False, compile_context=compile_context,
            global_record_annotations=global_record_annotations, record_pinned_host_memory=record_pinned_host_memory)
    refused("_record_memory_history", "events are those of device memory", True, record_cuda=record_cuda)
    most = max_entries if trace_alloc_max_entries is None else trace_alloc_max_entries
    events = int(most) if enabled in ("all", True) else 0
    _skipped = frozenset(skip_actions or ())
    for index in range(device_count()) if device is None else [_index(device)]:
        if clear_history or _kept.get(index, 0) != events:
            _C._device_memory_record("cuda:%d" % index, events)
            _kept[index] = events


def _trace(index: int) -> list[dict[str, Any]]:
    entries = []
    for action, at, size, stream, op, when in _C._device_memory_events("cuda:%d" % index):
        for name in _ACTIONS[action]:
            entry: dict[str, Any] = {"action": name, "size": size, "stream": stream, "time_us": when,
                                     "frames": [{"filename": "", "line": 0, "name": op}] if op else []}
            entry["device_free" if name == "oom" else "addr"] = at
            if name not in _skipped:
                entries.append(entry)
    return entries


def _snapshot(device: _Device = None, augment_with_fx_traces: bool = False) -> dict[str, Any]:
    """Segments with their blocks (memory_snapshot), and for each device what happened since _record_memory_history, the
    oldest first, by torch's keys. device: the others' lists are empty."""
    refused("_snapshot", "there are no traces of fx", False, augment_with_fx_traces=augment_with_fx_traces)
    wanted = range(device_count()) if device is None else [_index(device)]
    return {"segments": [s for s in memory_snapshot() if s["device"] in wanted],
            "device_traces": [_trace(index) if index in wanted else [] for index in range(device_count())],
            "allocator_settings": {}, "external_annotations": []}


def _dump_snapshot(filename: str = "dump_snapshot.pickle", augment_with_fx_traces: bool = False) -> None:
    """Writes _snapshot() to a file that torch's viewer reads (pytorch.org/memory_viz)."""
    with open(filename, "wb") as file:
        pickle.dump(_snapshot(augment_with_fx_traces=augment_with_fx_traces), file)
