"""cairn.cuda.streams: streams and events.

Place in the flow: names of cairn.cuda. All of cairn's work on a device is in one queue. Streams are allowed, not
obliged, to run side by side, so every Stream here stands for that queue: programs that use several get the order they
ask for and more. An Event stands for the work that was queued when it was recorded; who asks it waits for the queue,
which may hold later work too. One with enable_timing waits when it is recorded and notes the time, so that elapsed_time
is the time of the work between two events.
"""
from __future__ import annotations

import time
from types import TracebackType

from .. import _C
from .._options import only_default, only_speed
from ._devices import _Device, _index

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream", "set_stream",
           "stream"]


class Stream:
    """The queue of a device's work."""

    def __init__(self, device: _Device = None, priority: int = 0) -> None:
        only_speed("cuda.Stream", priority=(priority, 0))
        self.device = _C.device("cuda", _index(device))
        self.priority = priority

    @property
    def device_index(self) -> int:
        """The number of its device."""
        return self.device.index or 0

    @property
    def cuda_stream(self) -> int:
        """The address of the CUstream."""
        return _C._device_stream(self.device)

    def synchronize(self) -> None:
        """Waits for all work in the queue."""
        _C._device_sync(self.device)

    def query(self) -> bool:
        """Is all work done? Waits for it, so the answer is yes."""
        self.synchronize()
        return True

    def wait_stream(self, stream: Stream) -> None:
        """Later work here comes after what is in the other stream: of one device it does anyway."""
        if stream.device != self.device:
            stream.synchronize()

    def wait_event(self, event: Event) -> None:
        """Later work here comes after the event: of one device it does anyway."""
        event.wait(self)

    def record_event(self, event: Event | None = None) -> Event:
        """Notes the moment when the work so far is done."""
        made = Event() if event is None else event
        made.record(self)
        return made

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.device == other.device

    def __hash__(self) -> int:
        return hash(self.device)

    def __repr__(self) -> str:
        return "<cairn.cuda.Stream device=%s cuda_stream=%#x>" % (self.device, self.cuda_stream)


class ExternalStream(Stream):
    """Another library's stream. cairn's work stays in its own queue, so wait for the other one before handing over."""

    def __init__(self, stream_ptr: int, device: _Device = None) -> None:
        super().__init__(device)
        if stream_ptr != self.cuda_stream:
            raise NotImplementedError("ExternalStream: cairn works in its own queue (Stream.cuda_stream) alone")


class Event:
    """A moment in the queue."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:
        only_speed("cuda.Event", blocking=(blocking, False))
        only_default("cuda.Event", interprocess=(interprocess, False), external=(external, False))
        self._timed = enable_timing
        self._at: float | None = None
        self._pending: _C.device | None = None  # where work before the event may still be running

    def record(self, stream: Stream | None = None) -> None:
        """The event is the work queued so far; with enable_timing waits until it is done, and notes the time."""
        self._pending = (stream or current_stream()).device
        if self._timed:
            self.synchronize()
            self._at = time.perf_counter()

    def synchronize(self) -> None:
        """Waits until the work before the event is done; at once where it was not recorded."""
        if self._pending is not None:
            _C._device_sync(self._pending)
            self._pending = None

    def wait(self, stream: Stream | None = None) -> None:
        """Later work in the stream comes after the event: of one device it does anyway."""
        if self._pending is not None and (stream or current_stream()).device != self._pending:
            self.synchronize()

    def query(self) -> bool:
        """Is the work before the event done? Waits for it, so the answer is yes."""
        self.synchronize()
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to the other."""
        if not self._timed or not end_event._timed:
            raise RuntimeError("elapsed_time: both events must be made with enable_timing=True")
        if self._at is None or end_event._at is None:
            raise RuntimeError("elapsed_time: both events must be recorded before")
        return (end_event._at - self._at) * 1e3


def current_stream(device: _Device = None) -> Stream:
    """The queue of a device."""
    return Stream(device)


def default_stream(device: _Device = None) -> Stream:
    """The queue of a device."""
    return Stream(device)


def set_stream(stream: Stream) -> None:
    """Work goes to the stream's device where none is named."""
    _C._current_cuda(stream.device_index)


class StreamContext:
    """While inside, "cuda" without a number means the stream's device; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before = 0

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = _C._current_cuda(self.stream.device_index)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.stream is not None:
            _C._current_cuda(self._before)


def stream(stream: Stream | None) -> StreamContext:
    """`with cairn.cuda.stream(s):`"""
    return StreamContext(stream)
