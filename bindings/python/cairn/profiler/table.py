"""Tables of events: torch's columns.

Place in the flow: EventList.table calls build_table. Invariant: a column is there only where some event has something
to say in it.
"""
from __future__ import annotations

import math
from typing import Any, Callable, NamedTuple, Sequence

__all__ = ["build_table", "memory_text", "time_text"]

_UNITS = {"s": 1e-6, "ms": 1e-3, "us": 1.0}
_FLOPS = ["FLOPs", "KFLOPs", "MFLOPs", "GFLOPs", "TFLOPs", "PFLOPs"]


def time_text(us: float, unit: str | None = None) -> str:
    """12.345us, 1.234ms; unit: in that one."""
    if unit not in _UNITS:
        unit = "s" if us >= 1e6 else "ms" if us >= 1e3 else "us"
    return "%.3f%s" % (us * _UNITS[unit], unit)


def memory_text(size: float) -> str:
    """12 B, 1.50 KB."""
    for factor, unit in ((1 << 30, "GB"), (1 << 20, "MB"), (1 << 10, "KB")):
        if abs(size) >= factor:
            return "%.2f %s" % (size / factor, unit)
    return "%d B" % size


def _share(part: float, whole: float) -> str:
    return "%.2f%%" % (part * 100.0 / whole) if whole else "NaN"


class _Column(NamedTuple):
    head: str
    width: int
    text: Callable[[Any], str]
    left: bool = False


def _cut(text: str, width: int | None) -> str:
    return text[:width - 3] + "..." if width is not None and len(text) >= width - 3 else text


def _cut_front(text: str, width: int) -> str:
    return "..." + text[len(text) - width + 3:] if len(text) > width else text


def _name_column(events: Sequence[Any], width: int | None) -> _Column:
    longest = max(len(e.key) for e in events) + 4
    return _Column("Name", longest if width is None else min(longest, width), lambda e: _cut(e.key, width))


def _time_columns(label: str, events: Sequence[Any], unit: str | None) -> list[_Column]:
    """Of the host, or of the device."""
    kind = "cpu" if label == "CPU" else "device"
    own, total, one = "self_%s_time_total" % kind, "%s_time_total" % kind, "%s_time" % kind
    whole = sum(getattr(e, own) for e in events)

    def at(name: str) -> Callable[[Any], str]:
        return lambda e: time_text(getattr(e, name), unit)

    def share(name: str) -> Callable[[Any], str]:
        return lambda e: _share(getattr(e, name), whole)

    if kind == "cpu":
        return [_Column("Self CPU %", 12, share(own)), _Column("Self CPU", 12, at(own)),
                _Column("CPU total %", 12, share(total)), _Column("CPU total", 12, at(total)),
                _Column("CPU time avg", 12, at(one))]
    return [_Column("Self " + label, 12, at(own)), _Column("Self %s %%" % label, 12, share(own)),
            _Column(label + " total", 12, at(total)), _Column(label + " time avg", 12, at(one))]


def _memory_columns(label: str) -> list[_Column]:
    kind = "cpu" if label == "CPU" else "device"
    return [_Column(label + " Mem", 12, lambda e: memory_text(getattr(e, kind + "_memory_usage"))),
            _Column("Self %s Mem" % label, 12, lambda e: memory_text(getattr(e, "self_%s_memory_usage" % kind)))]


def _flops_column(events: Sequence[Any]) -> list[_Column]:
    some = [e.flops for e in events if e.flops > 0]
    if not some:
        return []
    step = int(max(0, min(math.log10(min(some)) // 3, len(_FLOPS) - 1)))
    return [_Column("Total " + _FLOPS[step], 12,
                    lambda e: "%8.3f" % (e.flops * 10.0 ** (-3 * step)) if e.flops > 0 else "--")]


def _columns(events: Sequence[Any], device: str | None, profile_memory: bool, with_flops: bool, src_width: int | None,
             name_width: int | None, shapes_width: int | None, unit: str | None) -> list[_Column]:
    label = (device or "device").upper()
    made = [_name_column(events, name_width), *_time_columns("CPU", events, unit)]
    if any(e.self_device_time_total > 0 for e in events):
        made += _time_columns(label, events, unit)
    if profile_memory:
        made += _memory_columns("CPU")
        if device and any(e.self_device_memory_usage > 0 for e in events):
            made += _memory_columns(label)
    made.append(_Column("# of Calls", 12, lambda e: str(e.count)))
    if any(e.input_shapes for e in events):
        longest = max(len(str(e.input_shapes)) for e in events) + 4
        width = longest if shapes_width is None else min(longest, shapes_width)
        made.append(_Column("Input Shapes", width, lambda e: str(e.input_shapes)[:width]))
    if any(e.stack for e in events):
        longest = max(len(line) for e in events for line in e.stack or []) + 4
        wide = longest if src_width is None else min(longest, src_width)
        made.append(_Column("Source Location", wide, lambda e: _cut_front(e.stack[0], wide) if e.stack else "", True))
    return made + (_flops_column(events) if with_flops else [])


def _line(columns: Sequence[_Column], cells: Sequence[str]) -> str:
    return "".join((c.ljust(k.width) if k.left else c.rjust(k.width)) + "  " for k, c in zip(columns, cells))


def _rows(columns: Sequence[_Column], event: Any) -> list[str]:
    """Its line, and one for each further line of its stack."""
    made = [_line(columns, [c.text(event) for c in columns])]
    source = next((i for i, c in enumerate(columns) if c.head == "Source Location"), None)
    if source is not None:
        for entry in [*(event.stack or [])[1:], ""]:
            cells = [""] * len(columns)
            cells[source] = _cut_front(entry, columns[source].width)
            made.append(_line(columns, cells))
    return made


def build_table(events: Sequence[Any], *, device: str | None, profile_memory: bool, with_flops: bool, row_limit: int,
                src_width: int | None, name_width: int | None, shapes_width: int | None, header: str | None,
                top_level: bool, unit: str | None) -> str:
    """See EventList.table."""
    if not events:
        return ""
    columns = _columns(events, device, profile_memory, with_flops, src_width, name_width, shapes_width, unit)
    rule = _line(columns, ["-" * c.width for c in columns])
    lines = ["=" * (len(rule) - 2), header] if header is not None else []
    if top_level:
        lines += ["=" * (len(rule) - 2), "This report only display top-level ops statistics"]
    lines += [rule, _line(columns, [c.head for c in columns]), rule]
    shown = [e for e in events if not (top_level and e.cpu_parent is not None)]
    for event in shown[:row_limit if row_limit >= 0 else None]:
        lines += _rows(columns, event)
    own = sum(e.self_cpu_time_total for e in events)
    lines += [rule, "Self CPU time total: " + time_text(own, unit)]
    if any(e.self_device_time_total > 0 for e in events):
        own = sum(e.self_device_time_total for e in events)
        lines.append("Self %s time total: %s" % ((device or "device").upper(), time_text(own, unit)))
    return "\n".join(lines) + "\n"
