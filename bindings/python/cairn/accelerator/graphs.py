"""cairn.accelerator.graphs: work that is captured once and replayed as one launch.

Place in the flow: cairn.cuda.CUDAGraph in words that name no maker. Invariant: `with graph:` captures on the stream in
use; a stream of its own is put in front (`with stream, graph:`).
"""
from __future__ import annotations

from types import TracebackType
from typing import Any

from ..cuda import CUDAGraph, synchronize

__all__ = ["Graph"]


class Graph(CUDAGraph):
    """Captured work; `with graph:` captures, replay() queues it."""

    def __init__(self, keep_graph: bool = False, *, pool: Any = None, capture_error_mode: str = "default") -> None:
        super().__init__(keep_graph)
        self.graph_pool, self.capture_error_mode = pool, capture_error_mode

    def capture_begin(self) -> None:  # type: ignore[override]
        """From now on this thread's work on the current stream is captured."""
        mode = self.capture_error_mode
        super().capture_begin(self.graph_pool, "global" if mode == "default" else mode)

    def instantiate(self) -> None:
        """Captured work is ready when the capture ends; an error where there is none."""
        if not self._captured:
            raise RuntimeError("instantiate: nothing was captured")

    def __enter__(self) -> None:
        synchronize()
        self.capture_begin()

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if kind is None:
            self.capture_end()
        else:
            self.reset()
