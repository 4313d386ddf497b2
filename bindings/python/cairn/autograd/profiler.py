"""cairn.autograd.profiler: profiles by torch's older interface, and ranges for NVIDIA's profilers.

Place in the flow: a thin form of cairn.profiler. Invariant: what it finds are cairn.profiler's events.
"""
from __future__ import annotations

from types import TracebackType
from typing import Any

from .. import _C
from .._arguments import refused
from .. import profiler as _profiler
from ..profiler import record_function as record_function
from ..profiler.events import (DeviceType as DeviceType, EventList as EventList,
                               FormattedTimesMixin as FormattedTimesMixin, FunctionEvent as FunctionEvent,
                               FunctionEventAvg as FunctionEventAvg, Interval as Interval, Kernel as Kernel)

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "emit_nvtx", "kineto_available", "profile",
           "record_function"]

_NVTX = 4  # cn_profile_what


def kineto_available() -> bool:
    """Are there events of torch's newer profiler? All of its interface is there."""
    return True


class profile:
    """A profile of what is inside; `enabled=False` does nothing."""

    def __init__(self, enabled: bool = True, *, use_cpu: bool = True, use_cuda: bool = False,
                 use_device: str | None = None, record_shapes: bool = False, with_flops: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_modules: bool = False,
                 use_kineto: bool = True, experimental_config: Any = None, acc_events: bool = False) -> None:
        refused("profile", "events are those of the newer profiler", True, use_kineto=use_kineto)
        refused("profile", "devices are \"cuda\"", None, use_device=None if use_device == "cuda" else use_device)
        kinds = {_profiler.ProfilerActivity.CPU} if use_cpu else set()
        if use_cuda or use_device == "cuda":
            kinds.add(_profiler.ProfilerActivity.CUDA)
        self.enabled = enabled
        self._done = False
        self._profile = _profiler.profile(activities=kinds, record_shapes=record_shapes, with_flops=with_flops,
                                          profile_memory=profile_memory, with_stack=with_stack,
                                          with_modules=with_modules, experimental_config=experimental_config,
                                          acc_events=acc_events)

    def __enter__(self) -> profile:
        if self.enabled:
            if self._done:
                raise RuntimeError("Profiler context manager is not reentrant")
            self._profile.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self.enabled:
            self._profile.stop()
            self._done = True

    @property
    def function_events(self) -> EventList:
        """Its entries."""
        if not self._done:
            raise RuntimeError("Profiler didn't finish running")
        return self._profile.events()

    @property
    def self_cpu_time_total(self) -> float:
        """All time on the host."""
        return self.function_events.self_cpu_time_total

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False) -> EventList:
        """Entries of one name, added up."""
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name,
                                                 include_python_functions)

    def total_average(self) -> FunctionEventAvg:
        """All of them, added up."""
        return self.function_events.total_average()

    def table(self, *args: Any, **named: Any) -> str:
        """The entries as text, as EventList.table."""
        return self.function_events.table(*args, **named)

    def export_chrome_trace(self, path: str) -> None:
        """As cairn.profiler.profile's."""
        self._profile.export_chrome_trace(path)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """As cairn.profiler.profile's."""
        self._profile.export_stacks(path, metric)

    def __str__(self) -> str:
        return str(self.function_events) if self._done else "<unfinished cairn.autograd.profiler.profile>"


class emit_nvtx:
    """While inside, each op of this thread is an NVTX range: for Nsight Systems, which sees the device itself."""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        refused("emit_nvtx", "ranges have ops' names alone", False, record_shapes=record_shapes)
        self.enabled = enabled
        self._made: Any = None

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            self._made = _C._profile_begin(_NVTX, False)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        if self._made is not None:
            made, self._made = self._made, None
            _C._profile_end(made)
