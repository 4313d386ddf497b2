"""cairn.cuda.profiler: says to NVIDIA's own profilers when to watch (nsys --capture-range=cudaProfilerApi).

Place in the flow: a module of cairn.cuda, on the driver; cairn.profiler is the profiler of cairn itself. Invariant:
without a device each call raises RuntimeError.
"""
from __future__ import annotations

import contextlib
import ctypes
from typing import Iterator

from ._devices import init

__all__ = ["profile", "start", "stop"]


def _tell(name: str) -> None:
    init()
    status = getattr(ctypes.CDLL("libcuda.so.1"), name)()
    if status:
        raise RuntimeError("cairn.cuda.profiler: %s failed with %d" % (name, status))


def start() -> None:
    """From now on a profiler that waits for it watches."""
    _tell("cuProfilerStart")


def stop() -> None:
    """It watches no longer."""
    _tell("cuProfilerStop")


@contextlib.contextmanager
def profile() -> Iterator[None]:
    """A profiler watches while inside."""
    start()
    try:
        yield
    finally:
        stop()
