"""Streams and events of any device: cairn.Stream, cairn.Event; cairn.cuda has its own on them.

Place in the flow: names of cairn that are loaded when a program asks for them, on the library's streams. On a device
without streams (the CPU, which works at once) a stream stands for the only queue there is. Invariant: which stream a
thread uses on a device is kept here and in the library alike.
"""
from __future__ import annotations

import contextlib
import threading
from types import TracebackType
from typing import TYPE_CHECKING, Any, Iterator

from . import _C
from ._arguments import only_speed, refused

if TYPE_CHECKING:
    from typing import Self

    from ._C import _Device

__all__ = ["Event", "Stream"]


class _Used(threading.local):
    """The streams that this thread uses, by the name of their device."""

    def __init__(self) -> None:
        self.streams: dict[str, Stream] = {}


_used = _Used()


@contextlib.contextmanager
def _no_other(device: _C.device) -> Iterator[None]:
    """Inside, this thread's work on the device goes to the device's own stream."""
    before = _used.streams.get(str(device))
    if before is not None:
        _C._stream_use(device, None)
    try:
        yield
    finally:
        if before is not None:
            _C._stream_use(device, before._base)


class Stream:
    """A queue of a device's work; work of two may overlap, in no order but by events."""

    _base: _C.StreamBase | None  # None: the device's own

    def __init__(self, device: _Device | None = None, *, priority: int = 0) -> None:
        self.device = _C.device(device) if device is not None else _C.get_default_device()
        self.priority = priority
        self._base = _C.StreamBase(self.device, priority)

    @classmethod
    def _own(cls, device: _C.device) -> Self:
        """The stream that the device has by itself."""
        made = cls.__new__(cls)
        made.device, made.priority, made._base = device, 0, None
        return made

    def _handle(self) -> int:
        """Its address, of the device's kind; of a device's own that of the device."""
        own = self._base.handle() if self._base is not None else 0
        with _no_other(self.device):
            return own or _C._device_stream(self.device)

    @property
    def device_index(self) -> int:
        """The number of its device."""
        return self.device.index or 0

    @property
    def device_type(self) -> str:
        """The kind of its device: "cuda"."""
        return self.device.type

    @property
    def native_handle(self) -> int:
        """Its address, of the device's kind: a CUstream's."""
        return self._handle()

    stream_id = native_handle

    def is_capturing(self) -> bool:
        """Is this thread's work in it captured for a graph?"""
        here = current(self.device, type(self)) == self
        return here and self.device.type != "cpu" and bool(_C._recording_now(self.device))

    def synchronize(self) -> None:
        """Waits for all work in it."""
        if self._base is not None:
            self._base.sync()
        else:
            self.record_event().synchronize()

    def query(self) -> bool:
        """Is all its work done?"""
        return self._base.query() if self._base is not None else self.record_event().query()

    def wait_event(self, event: Event) -> None:
        """Later work here comes after the event."""
        event.wait(self)

    def wait_stream(self, stream: Stream) -> None:
        """Later work here comes after what is in the other one now."""
        self.wait_event(stream.record_event())

    def record_event(self, event: Event | None = None) -> Event:
        """An event that stands for the work in it so far."""
        made = Event(self.device) if event is None else event
        made.record(self)
        return made

    def _use(self) -> Stream | None:
        """This thread's work goes here; returns what it went to before, None for the device's own."""
        name = str(self.device)
        before = _used.streams.get(name)
        _C._stream_use(self.device, self._base)
        _used.streams[name] = self
        return before

    def __enter__(self) -> Self:
        self.__dict__.setdefault("_before", []).append(self._use())
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        before = self.__dict__["_before"].pop()
        (before or Stream._own(self.device))._use()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device and self._base is other._base

    def __hash__(self) -> int:
        return hash((str(self.device), id(self._base)))

    def __repr__(self) -> str:
        return "<cairn.Stream device=%s stream=%#x>" % (self.device, self._handle())


def current(device: _C.device, kind: type[Stream] = Stream) -> Stream:
    """The stream that this thread uses on a device."""
    return _used.streams.get(str(device)) or kind._own(device)


class Event:
    """A point in a stream: what was queued there when it was recorded."""

    def __init__(self, device: _Device | None = None, *, enable_timing: bool = False, blocking: bool = False,
                 interprocess: bool = False) -> None:
        only_speed("Event", False, blocking=blocking)
        refused("Event", "events stay in their process", False, interprocess=interprocess)
        self._timed = bool(enable_timing)
        self._recorded = False
        self._base: _C.EventBase | None = None
        self.device: _C.device | None = None
        if device is not None:
            self._place(_C.device(device))

    def _place(self, device: _C.device) -> _C.EventBase:
        """The library's event, on the device where it is recorded first."""
        if self._base is None:
            self.device, self._base = device, _C.EventBase(device, self._timed)
        return self._base

    def record(self, stream: Any = None) -> None:
        """From now on it stands for what is queued in the stream by now; without one in that in use."""
        if stream is None:
            stream = self._current()
        base = self._place(stream.device)
        if stream._base is not None:
            base.record(stream._base)
        else:
            with _no_other(stream.device):
                base.record(None)
        self._recorded = True

    def _current(self) -> Stream:
        return current(self.device or _C.get_default_device())

    def wait(self, stream: Any = None) -> None:
        """Later work of the stream comes after it; at once, also where the work is of another device."""
        if self._base is None:
            return
        stream = self._current() if stream is None else stream
        if stream.device != self.device:
            self._base.sync()
        else:
            self._base.wait(stream._base)

    def query(self) -> bool:
        """Is the work before it done? True where it was never recorded."""
        return self._base is None or self._base.query()

    def synchronize(self) -> None:
        """Waits for the work before it."""
        if self._base is not None:
            self._base.sync()

    @classmethod
    def from_ipc_handle(cls, device: Any, handle: bytes) -> Event:
        """Refused: events stay in their process."""
        raise NotImplementedError("Event.from_ipc_handle(%r, %r): events stay in their process" % (device, handle))

    def ipc_handle(self) -> bytes:
        """Refused: events stay in their process."""
        raise NotImplementedError("Event.ipc_handle: events stay in their process")

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to the other."""
        if not self._timed or not end_event._timed:
            raise RuntimeError("elapsed_time: both events must be made with enable_timing=True")
        if self._base is None or end_event._base is None or not self._recorded or not end_event._recorded:
            raise RuntimeError("elapsed_time: both events must be recorded before")
        if not end_event.query() or not self.query():
            raise RuntimeError("elapsed_time: the work before an event is not done: synchronize() first")
        return self._base.elapsed(end_event._base)
