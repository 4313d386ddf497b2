"""The entries of a profile: added up by name, as a table, and as a trace for Chrome and Perfetto.

Place in the flow: profile.stop() makes them of what the library kept. Invariant: times are microseconds, as torch's.
"""
from __future__ import annotations

import gzip
import json
import os
import threading
from typing import Any, Iterable

__all__ = ["Event", "EventAverage", "EventList"]

_ALIASES = {"cuda_time": "device_time", "cuda_time_total": "device_time_total",
            "self_cuda_time_total": "self_device_time_total"}


class _Times:
    """Times that events and sums of them have: total and per call, with and without those inside of it."""
    count: int
    cpu_time_total: float
    self_cpu_time_total: float
    device_time_total: float
    self_device_time_total: float

    @property
    def cpu_time(self) -> float:
        """On the host, of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """On the device, of one call."""
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> float:
        if name not in _ALIASES:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        return float(getattr(self, _ALIASES[name]))


class Event(_Times):
    """One op, one run of a graph, or one range of the program's."""

    def __init__(self, name: str, shapes: str | None, depth: int, is_range: bool, begin: float, end: float,
                 device: str, device_begin: float | None, device_end: float | None) -> None:
        self.name = self.key = name
        self.input_shapes = json.loads(shapes) if shapes else []
        self.depth, self.is_user_annotation = depth, is_range
        self.begin, self.end = begin * 1e6, end * 1e6
        self.device = device
        self.timed = device_begin is not None and device_end is not None
        self.device_begin, self.device_end = (device_begin or 0.0) * 1e6, (device_end or 0.0) * 1e6
        self.thread = threading.get_native_id()
        self.count = 1
        self.cpu_children: list[Event] = []
        self.cpu_time_total = self.self_cpu_time_total = self.end - self.begin
        self.device_time_total = self.self_device_time_total = self.device_end - self.device_begin

    def _close(self) -> None:
        """When all that stands inside of it is known."""
        inside = sum(c.device_time_total for c in self.cpu_children)
        if not self.timed:  # a range has the device time of what is in it, none of its own
            self.device_time_total, self.self_device_time_total = inside, 0.0
        else:
            self.self_device_time_total = max(0.0, self.device_time_total - inside)
        self.self_cpu_time_total = self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)

    def __repr__(self) -> str:
        return "<Event %s cpu=%.1fus device=%.1fus>" % (self.name, self.cpu_time_total, self.device_time_total)


class EventAverage(_Times):
    """All events of one name."""

    def __init__(self, key: str, input_shapes: Any = None) -> None:
        self.key, self.input_shapes = key, input_shapes
        self.count = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0
        self.device_time_total = self.self_device_time_total = 0.0

    def add(self, other: Event | EventAverage) -> None:
        """Counts another event, or others."""
        self.count += other.count
        for name in ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __repr__(self) -> str:
        return "<EventAverage %s x%d cpu=%.1fus device=%.1fus>" % (self.key, self.count, self.cpu_time_total,
                                                                 self.device_time_total)


def _time(us: float) -> str:
    return "%.3fus" % us if us < 1e3 else "%.3fms" % (us * 1e-3) if us < 1e6 else "%.3fs" % (us * 1e-6)


class EventList(list[Any]):
    """Events, or averages of them."""

    with_host = True

    @classmethod
    def of(cls, entries: Iterable[tuple[Any, ...]], with_host: bool) -> EventList:
        """From what the library kept, which is in the order in which they began. with_host: are calls wanted?"""
        made = cls(Event(*each) for each in entries)
        made.with_host = with_host
        open_: list[Event] = []
        for event in made:
            del open_[event.depth:]
            if open_:
                open_[-1].cpu_children.append(event)
            open_.append(event)
        for event in reversed(made):
            event._close()
        return made

    @property
    def self_cpu_time_total(self) -> float:
        """All time on the host."""
        return float(sum(e.self_cpu_time_total for e in self))

    def key_averages(self, group_by_input_shapes: bool = False) -> EventList:
        """Events of one name (and, if asked for, of the same shapes of inputs), added up."""
        found: dict[Any, EventAverage] = {}
        for event in self:
            shapes = event.input_shapes if group_by_input_shapes else None
            found.setdefault((event.key, str(shapes)), EventAverage(event.key, shapes)).add(event)
        made = EventList(found.values())
        made.with_host = self.with_host
        return made

    def total_average(self) -> EventAverage:
        """Everything, added up."""
        total = EventAverage("Total")
        for event in self:
            total.add(event)
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_name_column_width: int = 55) -> str:
        """The averages as text; sort_by: "cpu_time_total", "self_device_time_total", "count", ..."""
        key = _ALIASES.get(sort_by or "", sort_by)
        rows = list(self)
        if key is not None:
            if rows and not isinstance(getattr(rows[0], key, None), (int, float)):
                raise AttributeError("table: cannot sort by %r" % (sort_by,))
            rows.sort(key=lambda e: getattr(e, key), reverse=True)
        device = any(e.device_time_total for e in rows)
        heads = ["Name", "Self CPU", "CPU total", "CPU time avg"]
        heads += ["Self device", "Device total", "Device time avg"] if device else []
        lines = [[*heads, "# of Calls"]]
        for e in rows[:row_limit if row_limit >= 0 else None]:
            name = e.key if len(e.key) <= max_name_column_width else e.key[:max_name_column_width - 3] + "..."
            times = [e.self_cpu_time_total, e.cpu_time_total, e.cpu_time]
            times += [e.self_device_time_total, e.device_time_total, e.device_time] if device else []
            lines.append([name, *map(_time, times), str(e.count)])
        widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
        rule = "  ".join("-" * w for w in widths)
        text = ["  ".join(c.rjust(w) for c, w in zip(line, widths)) for line in lines]
        total = ["Self CPU time total: " + _time(self.self_cpu_time_total)]
        if device:
            total.append("Self device time total: " + _time(sum(e.self_device_time_total for e in self)))
        return "\n".join([rule, text[0], rule, *text[1:], rule, *total, ""])

    def __str__(self) -> str:
        return self.table() if self and isinstance(self[0], EventAverage) else super().__str__()

    def export_chrome_trace(self, path: str, metadata: dict[str, Any] | None = None) -> None:
        """Writes a trace: a row for the thread, and one for each device."""
        process = os.getpid()
        rows = [{"ph": "M", "name": "process_name", "pid": process, "tid": 0, "args": {"name": "cairn"}}]
        for number, device in enumerate(sorted({e.device for e in self if e.timed})):
            rows.append({"ph": "M", "name": "process_name", "pid": device, "tid": 0, "args": {"name": device}})
            rows.append({"ph": "M", "name": "process_sort_index", "pid": device, "tid": 0,
                         "args": {"sort_index": 100 + number}})
        for e in self:
            more = {"args": {"Input Dims": e.input_shapes}} if e.input_shapes else {}
            if self.with_host:
                rows.append({"ph": "X", "cat": "user_annotation" if e.is_user_annotation else "cpu_op", "name": e.name,
                             "pid": process, "tid": e.thread, "ts": e.begin, "dur": e.end - e.begin, **more})
            if e.timed:
                rows.append({"ph": "X", "cat": "kernel", "name": e.name, "pid": e.device, "tid": 0,
                             "ts": e.device_begin, "dur": e.device_end - e.device_begin, **more})
        text = json.dumps({"displayTimeUnit": "ms", **(metadata or {}), "traceEvents": rows})
        if path.endswith(".gz"):
            with gzip.open(path, "wt") as packed:
                packed.write(text)
        else:
            with open(path, "w") as plain:
                plain.write(text)
