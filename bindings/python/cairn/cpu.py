"""torch.cpu: questions that programs ask any device's module, about the CPU."""
from __future__ import annotations

from typing import Any

from . import _C
from ._streams import Stream

__all__ = ["Stream", "StreamContext", "current_device", "current_stream", "device_count", "is_available",
           "is_initialized", "set_device", "stream", "synchronize"]


def is_available() -> bool:
    """Yes."""
    return True


is_initialized = is_available


def device_count() -> int:
    """One."""
    return 1


def current_device() -> str:
    """Its name."""
    return "cpu"


def set_device(device: Any) -> None:
    """There is one."""
    if _C.device(device).type != "cpu":
        raise ValueError("cpu.set_device: %s is no CPU" % (device,))


def synchronize(device: Any = None) -> None:
    """What was called has been done."""
    set_device("cpu" if device is None else device)


def current_stream(device: Any = None) -> Stream:
    """The stream that work is queued on: the CPU's own."""
    return Stream("cpu" if device is None else device)


class StreamContext:
    """`with stream(s)`: the CPU has one."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: Any) -> None:
        pass


stream = StreamContext
