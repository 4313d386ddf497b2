"""cairn.cuda.streams: streams and events of CUDA devices.

Place in the flow: names of cairn.cuda, on cairn.Stream and cairn.Event (_streams.py). Work goes to the device's own
stream unless a program uses another.
"""
from __future__ import annotations

import ctypes
from types import TracebackType
from typing import Any

from .. import _C, _streams
from .._arguments import refused
from ._devices import _Device, _index

__all__ = ["Event", "ExternalStream", "Stream", "StreamContext", "current_stream", "default_stream",
           "get_stream_from_external", "set_stream", "stream"]


def _device(device: _Device) -> _C.device:
    return _C.device("cuda", _index(device))


class Stream(_streams.Stream):
    """A queue of a device's work."""

    def __init__(self, device: _Device = None, priority: int = 0) -> None:
        super().__init__(_device(device), priority=priority)

    @property
    def cuda_stream(self) -> int:
        """The address of the CUstream."""
        return self._handle()

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The lowest and the highest priority that streams of the current device can have; lower numbers go first."""
        from .runtime import _call, check_error
        least, greatest = ctypes.c_int(0), ctypes.c_int(0)
        check_error(_call("cuCtxGetStreamPriorityRange", ctypes.byref(least), ctypes.byref(greatest)))
        return least.value, greatest.value

    def record_event(self, event: Any = None) -> Any:
        """An event that stands for the work in it so far."""
        return super().record_event(Event() if event is None else event)

    def __repr__(self) -> str:
        return "<cairn.cuda.Stream device=%s cuda_stream=%#x>" % (self.device, self.cuda_stream)


class ExternalStream(Stream):
    """Another library's stream. cairn's work stays in its own streams: wait for the other one before handing over."""

    def __init__(self, stream_ptr: int, device: _Device = None) -> None:
        self.device, self.priority, self._base = _device(device), 0, None
        if stream_ptr != self.cuda_stream:
            raise NotImplementedError("ExternalStream: cairn works in its own streams (Stream.cuda_stream) alone")


class Event(_streams.Event):
    """A point in a stream: what was queued there when it was recorded."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False,
                 external: bool = False) -> None:
        refused("cuda.Event", "events are the library's own", False, external=external)
        super().__init__(enable_timing=enable_timing, blocking=blocking, interprocess=interprocess)

    def _current(self) -> _streams.Stream:
        return _streams.current(_device(self.device), Stream)


def get_stream_from_external(data_ptr: int, device: _Device = None) -> ExternalStream:
    """The stream of that address, where it is the one in use: see ExternalStream."""
    return ExternalStream(data_ptr, device)


def current_stream(device: _Device = None) -> Any:
    """The stream that this thread uses on a device."""
    return _streams.current(_device(device), Stream)


def default_stream(device: _Device = None) -> Stream:
    """The stream that a device has by itself."""
    return Stream._own(_device(device))


def set_stream(stream: Stream) -> None:
    """This thread's work goes there, and to the stream's device where none is named."""
    _C._current_cuda(stream.device_index)
    stream._use()


class StreamContext:
    """While inside, work goes to the stream, and "cuda" without a number means its device; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self.stream = stream
        self._before = 0

    def __enter__(self) -> None:
        if self.stream is not None:
            self._before = _C._current_cuda(self.stream.device_index)
            self.stream.__enter__()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.stream is not None:
            self.stream.__exit__(kind, value, trace)
            _C._current_cuda(self._before)


def stream(stream: Stream | None) -> StreamContext:
    """`with cairn.cuda.stream(s):`"""
    return StreamContext(stream)
