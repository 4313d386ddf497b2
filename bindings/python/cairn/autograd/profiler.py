"""cairn.autograd.profiler: ranges around ops for NVIDIA's profilers; profiles themselves are cairn.profiler's."""
from __future__ import annotations

from types import TracebackType
from typing import Any

from .. import _C
from .._arguments import refused
from ..profiler import record_function as record_function

__all__ = ["emit_nvtx", "record_function"]

_NVTX = 4  # cn_profile_what


class emit_nvtx:
    """While inside, each op of this thread is an NVTX range: for Nsight Systems, which sees the device itself."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        refused("emit_nvtx", "ranges have ops' names alone", False, record_shapes=record_shapes)
        self.enabled = enabled
        self._made: Any = None

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            self._made = _C._profile_begin(_NVTX)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._made is not None:
            made, self._made = self._made, None
            _C._profile_end(made)
