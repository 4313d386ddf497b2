"""The entries of a profile: added up by name, as a table, and as a trace for Chrome and Perfetto.

Place in the flow: profile.events() makes them of what the library kept; table.py and trace.py write them. Invariant:
times are microseconds, as torch's; an event's children lie within it.
"""
from __future__ import annotations

import enum
import json
import os
import warnings
from typing import Any, Iterable, NamedTuple

from .table import build_table, time_text

__all__ = ["DeviceType", "EventList", "FormattedTimesMixin", "FunctionEvent", "FunctionEventAvg", "Interval", "Kernel"]

OP, COMPOSITE, GRAPH, NODE, BACKWARD, MODULE, RANGE = range(7)  # cn_profile_kind
_HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class DeviceType(enum.Enum):
    """Where an event is."""
    CPU = 0
    CUDA = 1


class Kernel(NamedTuple):
    """Work on a device that an event queued."""
    name: str
    device: int
    duration: float


class Interval:
    """From when to when, in microseconds."""

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        """How long that is."""
        return self.end - self.start


def device_name(name: str) -> str:
    """What events and averages call it: attributes are for any device."""
    for other in ("cuda", "xpu", "privateuse1"):
        name = name.replace(other, "device")
    return name


class FormattedTimesMixin:
    """Times of one call, and times as texts: `cpu_time`, `cpu_time_total_str`, ..."""
    count: int
    cpu_time_total: float
    device_time_total: float

    @property
    def cpu_time(self) -> float:
        """On the host, of one call."""
        return self.cpu_time_total / self.count if self.count else 0.0

    @property
    def device_time(self) -> float:
        """On the device, of one call."""
        return self.device_time_total / self.count if self.count else 0.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or not ("time" in name or "memory" in name):
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        if name.endswith("_str"):
            return time_text(float(getattr(self, name[:-4])))
        other = device_name(name)
        if other == name:
            raise AttributeError("%r object has no attribute %r" % (type(self).__name__, name))
        warnings.warn("`%s` is deprecated, please use `%s` instead." % (name, other), FutureWarning, stacklevel=2)
        return getattr(self, other)


class FunctionEvent(FormattedTimesMixin):
    """One op, one run of a graph or one of its nodes, one step of a backward pass, one range of the program's."""
    node_id, is_async, is_remote, is_legacy = -1, False, False, False
    overload_name = ""
    device_type = DeviceType.CPU

    def __init__(self, number: int, entry: tuple[Any, ...], device: str | None) -> None:
        (name, shapes, self.depth, kind, begin, end, self.device, device_begin, device_end, self.module, detail, where,
         self.thread, sequence, self.flops, self.products, self.bytes_read, self.bytes_written, allocated,
         freed) = entry
        self.id = number
        self.kind = kind
        self.name: str = "nn.Module: " + name if kind == MODULE else name
        self.trace_name = self.name
        if self.name.startswith("ProfilerStep#"):
            self.name = "ProfilerStep*"
        self.module_class = detail if kind == MODULE else ""
        self.implementation = detail if kind != MODULE else ""
        self.input_shapes: Any = json.loads(shapes) if shapes else []
        self.concrete_inputs: list[Any] = []
        self.stack = [line for line in where.split("\n") if line and not line.startswith(_HERE)] if where else []
        self.time_range = Interval(begin * 1e6, end * 1e6)
        self.timed = device_begin is not None and device_end is not None
        self.device_range = Interval((device_begin or 0.0) * 1e6, (device_end or 0.0) * 1e6)
        self.use_device = device
        self.device_index = 0
        self.kernels = [Kernel(name, 0, self.device_range.elapsed_us())] if self.timed else []
        self.count = 1
        self.scope = 1 if kind == BACKWARD else 0
        self.sequence_nr = sequence or -1
        self.fwd_thread: int | None = None
        self.is_user_annotation = kind == RANGE
        self.is_python_function = kind == MODULE
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.allocated, self.freed = allocated, freed
        on_host = self.device == "cpu"
        self.cpu_memory_usage = allocated - freed if on_host else 0
        self.device_memory_usage = 0 if on_host else allocated - freed
        self.cpu_time_total = self.self_cpu_time_total = self.time_range.elapsed_us()
        self.device_time_total = self.self_device_time_total = self.device_range.elapsed_us()
        self.self_cpu_memory_usage, self.self_device_memory_usage = self.cpu_memory_usage, self.device_memory_usage

    @property
    def key(self) -> str:
        """What it is grouped by."""
        return self.name

    def _close(self) -> None:
        """When all that stands inside of it is known."""
        inside = sum(c.device_time_total for c in self.cpu_children)
        if not self.timed:  # a range has the device time of what is in it, none of its own
            self.device_time_total, self.self_device_time_total = inside, 0.0
        else:
            self.self_device_time_total = max(0.0, self.device_time_total - inside)
        self.self_cpu_time_total = self.cpu_time_total - sum(c.cpu_time_total for c in self.cpu_children)
        self.self_cpu_memory_usage = self.cpu_memory_usage - sum(c.cpu_memory_usage for c in self.cpu_children)
        self.self_device_memory_usage = (self.device_memory_usage -
                                         sum(c.device_memory_usage for c in self.cpu_children))

    def __repr__(self) -> str:
        return ("<FunctionEvent id=%d name=%s device_type=%s cpu_time=%s start_us=%s end_us=%s cpu_children=%s "
                "device_time=%s thread=%d input_shapes=%s cpu_memory_usage=%d seq_nr=%d>" %
                (self.id, self.name, self.device_type, self.cpu_time_str, self.time_range.start, self.time_range.end,
                 [c.id for c in self.cpu_children], self.device_time_str, self.thread, self.input_shapes,
                 self.cpu_memory_usage, self.sequence_nr))


_SUMS = ("cpu_time_total", "self_cpu_time_total", "device_time_total", "self_device_time_total", "cpu_memory_usage",
         "self_cpu_memory_usage", "device_memory_usage", "self_device_memory_usage", "flops", "products", "bytes_read",
         "bytes_written", "count")
_FIRST = ("node_id", "is_async", "overload_name", "input_shapes", "stack", "scope", "device_type", "is_legacy",
          "use_device", "is_user_annotation", "cpu_parent", "cpu_children", "module")


class FunctionEventAvg(FormattedTimesMixin):
    """All events of one name."""
    self_cpu_time_total: float
    self_device_time_total: float

    def __init__(self) -> None:
        self.key: str | None = None
        self.count, self.node_id, self.is_async, self.is_remote, self.is_legacy = 0, 0, False, False, False
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] | None = None
        self.input_shapes: Any = None
        self.overload_name: str | None = None
        self.stack: list[str] | None = None
        self.scope: int | None = None
        self.use_device: str | None = None
        self.device_type = DeviceType.CPU
        self.is_user_annotation = False
        self.module = ""
        for name in _SUMS:
            setattr(self, name, 0)

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Counts another event, or others; of the first it takes the name."""
        if self.key is None:
            self.key = other.key
            for name in _FIRST:
                setattr(self, name, getattr(other, name))
        if other.key != self.key:
            raise AssertionError("Expected keys to match, but got %s vs %s" % (other.key, self.key))
        for name in _SUMS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        return self.add(other)

    def __repr__(self) -> str:
        return ("<FunctionEventAvg key=%s self_cpu_time=%s cpu_time=%s  self_device_time=%s device_time=%s "
                "input_shapes=%s cpu_memory_usage=%d device_memory_usage=%d>" %
                (self.key, self.self_cpu_time_total_str, self.cpu_time_str, self.self_device_time_total_str,
                 self.device_time_str, self.input_shapes, getattr(self, "cpu_memory_usage"),
                 getattr(self, "device_memory_usage")))


class EventList(list[Any]):
    """Events, or averages of them."""

    def __init__(self, *args: Any, use_device: str | None = None, profile_memory: bool = False,
                 with_flops: bool = False) -> None:
        super().__init__(*args)
        self._use_device, self._profile_memory, self._with_flops = use_device, profile_memory, with_flops
        self.with_host = True

    @classmethod
    def of(cls, entries: Iterable[tuple[Any, ...]], **options: Any) -> EventList:
        """From what the library kept, which is in the order in which they began, thread after thread."""
        made = cls([FunctionEvent(i, each, options.get("use_device")) for i, each in enumerate(entries)], **options)
        open_: list[FunctionEvent] = []
        forward: dict[int, FunctionEvent] = {}
        for event in made:
            del open_[event.depth:]
            if open_ and open_[-1].thread == event.thread:
                open_[-1].cpu_children.append(event)
                event.cpu_parent = open_[-1]
            open_.append(event)
            if event.sequence_nr > 0 and event.kind == OP:
                forward[event.sequence_nr] = event
            source = forward.get(event.sequence_nr) if event.kind == BACKWARD else None
            if source is not None:
                event.fwd_thread, event.stack = source.thread, source.stack or event.stack
        for event in reversed(made):
            event._close()
        return made

    @property
    def self_cpu_time_total(self) -> float:
        """All time on the host."""
        return float(sum(e.self_cpu_time_total for e in self))

    def _like(self, events: Iterable[Any]) -> EventList:
        made = EventList(events, use_device=self._use_device, profile_memory=self._profile_memory,
                         with_flops=self._with_flops)
        made.with_host = self.with_host
        return made

    def key_averages(self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False) -> EventList:
        """Events of one name, added up; if asked for, also of the same shapes of inputs, from the same lines, of the
        same overload. include_python_functions: calls of modules, too."""
        found: dict[Any, FunctionEventAvg] = {}
        for event in self:
            if event.is_python_function and not include_python_functions:
                continue
            key = (event.key, event.is_user_annotation, str(event.input_shapes) if group_by_input_shapes else "",
                   tuple(event.stack[:group_by_stack_n]), event.overload_name if group_by_overload_name else "")
            found.setdefault(key, FunctionEventAvg()).add(event)
        for average in found.values():
            average.stack = (average.stack or [])[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
        return self._like(found.values())

    def total_average(self) -> FunctionEventAvg:
        """Everything, added up."""
        total = FunctionEventAvg()
        for event in self:
            total.key = None if total.key is None else event.key
            total += event
        total.key = "Total"
        return total

    def table(self, sort_by: str | None = None, row_limit: int = 100, max_src_column_width: int = 75,
              max_name_column_width: int = 55, max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None) -> str:
        """The events as text; sort_by: "cpu_time_total", "self_cuda_time_total", "count", ..."""
        events = list(self)
        if sort_by is not None:
            key = device_name(sort_by)
            events.sort(key=lambda e: getattr(e, key), reverse=True)
        return build_table(events, device=self._use_device, profile_memory=self._profile_memory,
                           with_flops=self._with_flops, row_limit=row_limit, src_width=max_src_column_width,
                           name_width=max_name_column_width, shapes_width=max_shapes_column_width, header=header,
                           top_level=top_level_events_only, unit=time_unit)

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str) -> None:
        """Writes them for chrome://tracing and Perfetto; compressed where the path ends in .gz."""
        from .trace import write_trace
        write_trace(path, self, [], {})

    def supported_export_stacks_metrics(self) -> list[str]:
        """What export_stacks can write."""
        return ["self_cpu_time_total", "self_cuda_time_total", "self_xpu_time_total", "self_privateuse1_time_total"]

    def export_stacks(self, path: str, metric: str) -> None:
        """Writes a line for each event that has a stack, as flame graphs want them: "outer;inner 12"."""
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError("metric should be one of: %s" % self.supported_export_stacks_metrics())
        plain = str.maketrans(" ;\t\n", "____")
        with open(path, "w") as file:
            for event in self:
                value = int(getattr(event, device_name(metric)))
                if event.stack and value > 0:
                    file.write("%s %d\n" % (";".join(s.translate(plain) for s in reversed(event.stack)), value))
