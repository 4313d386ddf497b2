"""cairn.cuda.nvtx: marks and ranges that NVIDIA's profilers show (Nsight Systems).

Place in the flow: names of cairn.cuda, on the library's NVTX (cairn/profile.h), which opens NVIDIA's when it is first
asked. Invariant: without that library each call raises RuntimeError; while no profiler watches nothing happens.
"""
from __future__ import annotations

import contextlib
from typing import Any, Iterator

from .. import _C

__all__ = ["mark", "range", "range_end", "range_pop", "range_push", "range_start"]


def range_push(msg: str) -> int:
    """Begins a range of this thread, inside of those that are open; its depth, from 0."""
    return _C._nvtx_push(msg)


def range_pop() -> int:
    """Ends the innermost range; its depth."""
    return _C._nvtx_pop()


def range_start(msg: str) -> int:
    """Begins a range that any thread may end; its number, for range_end()."""
    return _C._nvtx_start(msg)


def range_end(range_id: int) -> None:
    """Ends a range of range_start()."""
    _C._nvtx_end(range_id)


def mark(msg: str) -> None:
    """Marks a moment."""
    _C._nvtx_mark(msg)


@contextlib.contextmanager
def range(msg: str, *args: Any, **kwargs: Any) -> Iterator[None]:
    """A range for a block, or, before a function, for its calls; msg is formatted with the arguments."""
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()
