"""Traces for chrome://tracing and Perfetto.

Place in the flow: profile.export_chrome_trace and EventList.export_chrome_trace write here. Invariant: what they write
is the format of trace events, with torch's names for what it says of an op; `args` may say more.
"""
from __future__ import annotations

import gzip
import json
import os
import uuid
from typing import Any, Iterable

from .events import BACKWARD, MODULE, NODE, OP, RANGE, FunctionEvent

__all__ = ["write_trace"]


def _args(e: FunctionEvent) -> dict[str, Any]:
    """What is known of an event beyond its times."""
    known: dict[str, Any] = {"External id": e.id, "Record function id": 0, "Ev Idx": e.id}
    if e.sequence_nr > 0:
        known.update({"Sequence number": e.sequence_nr, "Fwd thread id": e.fwd_thread or 0})
    if e.input_shapes:
        known["Input Dims"] = e.input_shapes
    if e.module:
        known["Module Hierarchy"] = e.module
    if e.stack:
        known["Call stack"] = ";\n".join(e.stack)
    if e.implementation:
        known["Implementation"] = e.implementation
    if e.flops or e.bytes_read or e.bytes_written:
        known.update({"flops": e.flops, "bytes read": e.bytes_read, "bytes written": e.bytes_written})
    return known


def _category(e: FunctionEvent) -> str:
    return "user_annotation" if e.kind == RANGE else "python_function" if e.kind == MODULE else "cpu_op"


def _heads(events: list[FunctionEvent], process: int) -> list[dict[str, Any]]:
    """The names of processes and threads: the host's, and one for each device."""
    def head(what: str, pid: Any, tid: int, **args: Any) -> dict[str, Any]:
        return {"ph": "M", "name": what, "ts": 0.0, "pid": pid, "tid": tid, "args": args}

    rows = [head("process_name", process, 0, name="cairn"), head("process_labels", process, 0, labels="CPU"),
            head("process_sort_index", process, 0, sort_index=process)]
    for thread in dict.fromkeys(e.thread for e in events):
        rows += [head("thread_name", process, thread, name="thread %d" % thread),
                 head("thread_sort_index", process, thread, sort_index=thread)]
    for number, device in enumerate(sorted({e.device for e in events if e.timed})):
        rows += [head("process_name", device, 0, name=device),
                 head("process_sort_index", device, 0, sort_index=5000000 + number)]
    return rows


def _flows(events: list[FunctionEvent], process: int) -> list[dict[str, Any]]:
    """Arrows from ops to their backward steps."""
    forward = {e.sequence_nr: e for e in events if e.sequence_nr > 0 and e.kind in (OP, NODE)}
    rows = []
    for e in events:
        source = forward.get(e.sequence_nr) if e.kind == BACKWARD else None
        if source is not None:
            common = {"id": e.sequence_nr, "pid": process, "cat": "fwdbwd", "name": "fwdbwd"}
            rows.append({"ph": "s", "tid": source.thread, "ts": source.time_range.start, **common})
            rows.append({"ph": "f", "tid": e.thread, "ts": e.time_range.start, "bp": "e", **common})
    return rows


def _memory(changes: Iterable[tuple[Any, ...]], process: int) -> list[dict[str, Any]]:
    """Each change as torch writes it, and a curve of what is held on each device."""
    rows: list[dict[str, Any]] = []
    for time, device, size, total, thread in changes:
        on_host = device == "cpu"
        rows.append({"ph": "i", "cat": "cpu_instant_event", "s": "t", "name": "[memory]", "pid": process, "tid": thread,
                     "ts": time * 1e6, "args": {"Total Allocated": total, "Bytes": size,
                                                "Device Id": -1 if on_host else 0, "Device Type": int(not on_host)}})
        rows.append({"ph": "C", "name": "memory " + device, "pid": process, "tid": thread, "id": str(thread),
                     "ts": time * 1e6, "args": {"bytes": total}})
    return rows


def write_trace(path: str, events: Iterable[FunctionEvent], changes: Iterable[tuple[Any, ...]],
                metadata: dict[str, Any], with_host: bool = True) -> None:
    """Events and changes of memory into a file; compressed where its name ends in .gz."""
    process, listed = os.getpid(), list(events)
    rows = _heads(listed, process)
    for e in listed:
        span = e.time_range
        if with_host:
            rows.append({"ph": "X", "cat": _category(e), "name": e.trace_name, "pid": process, "tid": e.thread,
                         "ts": span.start, "dur": span.elapsed_us(), "args": _args(e)})
        if e.timed:
            rows.append({"ph": "X", "cat": "kernel", "name": e.name, "pid": e.device, "tid": 0,
                         "ts": e.device_range.start, "dur": e.device_range.elapsed_us(), "args": _args(e)})
    if with_host:
        rows += _flows(listed, process) + _memory(changes, process)
    text = json.dumps({"schemaVersion": 1, "deviceProperties": [], "trace_id": uuid.uuid4().hex.upper(), **metadata,
                       "displayTimeUnit": "ms", "baseTimeNanoseconds": 0, "traceName": path, "traceEvents": rows})
    if path.endswith(".gz"):
        with gzip.open(path, "wt") as packed:
            packed.write(text)
    else:
        with open(path, "w") as plain:
            plain.write(text)
