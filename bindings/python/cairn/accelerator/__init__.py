"""cairn.accelerator: the device beside the CPU, whatever it is. For cairn that is CUDA.

Place in the flow: the same questions as cairn.cuda's, in words that name no maker. Invariant: where there is no
accelerator, questions are answered (False, 0, None), and what needs one raises RuntimeError.
"""
from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Any

from .. import _C, cuda
from . import graphs as graphs, memory as memory, random as random
from .graphs import Graph as Graph
from .memory import *  # noqa: F401,F403

if TYPE_CHECKING:
    from .._C import _Device

__all__ = [*memory.__all__, "Graph", "current_accelerator", "current_device_idx", "current_device_index",
           "current_stream", "device_count", "device_index", "get_device_capability", "is_available",
           "set_device_idx", "set_device_index", "set_stream", "synchronize"]

device_count = cuda.device_count
is_available = cuda.is_available
current_stream = cuda.current_stream
set_stream = cuda.set_stream


def current_accelerator(check_available: bool = False) -> _C.device | None:  # unused: check_available (always done)
    """The kind of accelerator there is, device("cuda"); None where there is none."""
    return _C.device("cuda") if is_available() else None


def get_device_capability(device: _Device | None = None, /) -> dict[str, Any]:
    """What a device can do: "supported_dtypes", a set of those that tensors can have there."""
    cuda.get_device_properties(device)  # an error where there is none
    return {"supported_dtypes": {d for d in vars(_C).values() if isinstance(d, _C.dtype)}}


def current_device_index() -> int:
    """The number of the device that is used where none is named."""
    return cuda.current_device()


def set_device_index(device: _Device) -> None:
    """The device of that number is used where none is named, in this thread."""
    cuda.set_device(device)


current_device_idx, set_device_idx = current_device_index, set_device_index


def synchronize(device: _Device | None = None) -> None:
    """Waits for all work queued on a device."""
    cuda.synchronize(device)


class device_index:
    """While inside, the device of that number is used where none is named; None changes nothing."""

    def __init__(self, device: int | None, /) -> None:
        self._guard = None if device is None else cuda.device(device)

    def __enter__(self) -> None:
        if self._guard is not None:
            self._guard.__enter__()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> Any:
        if self._guard is not None:
            self._guard.__exit__(kind, value, trace)
