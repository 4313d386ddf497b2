"""cairn.monitor: counters of a program and events for those who listen: torch.monitor.

Place in the flow: programs that report to a service of their own. Invariant: an event goes to the handlers that are
registered, in order, and a Stat keeps the values of its window alone.
"""
from __future__ import annotations

import datetime
import enum
import time
from typing import Any, Callable

__all__ = ["Aggregation", "Event", "EventHandlerHandle", "Stat", "TensorboardEventHandler", "data_value_t", "log_event",
           "register_event_handler", "unregister_event_handler"]

STAT_EVENT = "torch.monitor.Stat"
data_value_t = (str, float, int, bool)


class Aggregation(enum.Enum):
    """What becomes of the values of a window."""
    VALUE = 0
    MEAN = 1
    COUNT = 2
    SUM = 3
    MAX = 4
    MIN = 5


VALUE, MEAN, COUNT = Aggregation.VALUE, Aggregation.MEAN, Aggregation.COUNT
SUM, MAX, MIN = Aggregation.SUM, Aggregation.MAX, Aggregation.MIN


class Event:
    """Something that happened: a name, a time, values by name."""

    def __init__(self, name: str, timestamp: datetime.datetime, data: dict[str, Any]) -> None:
        for key, value in data.items():
            if not isinstance(value, data_value_t):
                raise TypeError("Event: data[%r] is a %s, not text or a number" % (key, type(value).__name__))
        self.name, self.timestamp, self.data = name, timestamp, dict(data)


class EventHandlerHandle:
    """What register_event_handler returns."""

    def __init__(self, handler: Callable[[Event], None]) -> None:
        self._handler = handler


_handlers: list[EventHandlerHandle] = []


def register_event_handler(handler: Callable[[Event], None]) -> EventHandlerHandle:
    """handler(event) for each event from now on."""
    handle = EventHandlerHandle(handler)
    _handlers.append(handle)
    return handle


def unregister_event_handler(handle: EventHandlerHandle) -> None:
    """No longer."""
    _handlers.remove(handle)


def log_event(event: Event) -> None:
    """Gives an event to all handlers."""
    for handle in list(_handlers):
        handle._handler(event)


def _aggregated(values: list[float], how: Aggregation) -> float:
    if how is COUNT:
        return len(values)
    if not values:
        return 0
    if how is VALUE:
        return values[-1]
    return {SUM: sum(values), MEAN: sum(values) / len(values), MAX: max(values), MIN: min(values)}[how]


class Stat:
    """Values that are added up over a window of time, or of max_samples, and then logged as an event."""

    def __init__(self, name: str, aggregations: list[Aggregation], window_size: datetime.timedelta,
                 max_samples: int | None = None) -> None:
        self.name, self._how, self._most = name, list(aggregations), max_samples
        self._window = window_size.total_seconds()
        self._values: list[float] = []
        self._begun = time.monotonic()
        self._last: dict[Aggregation, float] = {}

    @property
    def count(self) -> int:
        """How many values the window has by now."""
        return len(self._values)

    def add(self, v: float) -> None:
        """One more value."""
        if time.monotonic() - self._begun >= self._window:
            self._log()
        self._values.append(v)
        if self._most is not None and len(self._values) >= self._most:
            self._log()

    def get(self) -> dict[Aggregation, float]:
        """What the last full window came to."""
        if time.monotonic() - self._begun >= self._window:
            self._log()
        return dict(self._last)

    def _log(self) -> None:
        self._last = {how: _aggregated(self._values, how) for how in self._how}
        self._values = []
        self._begun = time.monotonic()
        if self._last:
            names = {"%s.%s" % (self.name, how.name.lower()): value for how, value in self._last.items()}
            log_event(Event(STAT_EVENT, datetime.datetime.now(), names))


class TensorboardEventHandler:
    """A handler that writes the Stats' events as scalars."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer

    def __call__(self, event: Event) -> None:
        if event.name == STAT_EVENT:
            for key, value in event.data.items():
                self._writer.add_scalar(key, value, walltime=event.timestamp.timestamp())
