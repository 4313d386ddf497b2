"""cairn.profiler: what ops took, on the host and on the device.

Place in the flow: the library keeps an entry for each op that the thread runs (cairn/profile.h); events.py adds them up
and writes them; here are torch's classes that begin and end profiles. Compiled functions run as graphs, which are one
entry each. Invariant: a profile is of the thread that started it.
"""
from __future__ import annotations

import enum
import functools
import json
import os
import socket
import time
import warnings
from types import TracebackType
from typing import Any, Callable, Iterable

from .. import _C
from .._arguments import refused
from .events import Event as Event, EventAverage as EventAverage, EventList as EventList

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]

_DEVICES, _SHAPES = 1, 2  # cn_profile_what


class ProfilerActivity(enum.Enum):
    """What is looked at: the host's calls, or times on CUDA devices."""
    CPU = 0
    CUDA = 2


class ProfilerAction(enum.Enum):
    """What a step does, as a schedule says."""
    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3


def supported_activities() -> set[ProfilerActivity]:
    """Those that there is something to see of here."""
    return {ProfilerActivity.CPU} | ({ProfilerActivity.CUDA} if _C._device_count("cuda") else set())


def schedule(*, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0,
             skip_first_wait: int = 0) -> Callable[[int], ProfilerAction]:
    """A schedule: after skip_first steps cycles of `wait` steps without, `warmup` before, and `active` with a profile,
    `repeat` of them (0: for ever). skip_first_wait: 1 leaves out the first cycle's wait."""
    if active <= 0 or min(wait, warmup, repeat, skip_first) < 0:
        raise ValueError("schedule: active is at least 1, and no number is negative")

    def action(step: int) -> ProfilerAction:
        if step < skip_first:
            return ProfilerAction.NONE
        step -= skip_first
        if skip_first_wait:
            step += wait
        cycle = wait + warmup + active
        if repeat and step // cycle >= repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action


def tensorboard_trace_handler(dir_name: str, worker_name: str | None = None,
                              use_gzip: bool = False) -> Callable[[profile], None]:
    """For on_trace_ready: writes each trace into a folder, under a name that TensorBoard's plugin knows."""
    worker = worker_name or "%s_%d" % (socket.gethostname(), os.getpid())

    def handle(done: profile) -> None:
        os.makedirs(dir_name, exist_ok=True)
        name = "%s.%d.pt.trace.json%s" % (worker, time.time_ns(), ".gz" if use_gzip else "")
        done.export_chrome_trace(os.path.join(dir_name, name))

    return handle


class record_function:
    """A range of the program's own in the profile: `with record_function("forward"):`, or before a function."""

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name = name if args is None else "%s(%s)" % (name, args)

    def __enter__(self) -> record_function:
        _C._profile_range_begin(self.name)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _C._profile_range_end()

    def __call__(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def ranged(*args: Any, **named: Any) -> Any:
            with record_function(self.name):
                return function(*args, **named)

        return ranged


class profile:
    """A profile of what is inside: `with profile() as p: ...; print(p.key_averages().table())`."""

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 acc_events: bool = False) -> None:
        for name, value in (("profile_memory", profile_memory), ("with_stack", with_stack), ("with_flops", with_flops),
                            ("with_modules", with_modules)):
            refused("profile", "entries are ops with their times and shapes", False, **{name: value})
        refused("profile", "there is no such hook", experimental_config=experimental_config,
                execution_trace_observer=execution_trace_observer)
        self.activities = set(supported_activities() if activities is None else activities)
        if not self.activities:
            raise AssertionError("profile: no activity is asked for")
        if ProfilerActivity.CUDA in self.activities and not _C._device_count("cuda"):
            warnings.warn("profile: there is no CUDA device: its times are left out", stacklevel=2)
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes = record_shapes
        self.acc_events = acc_events
        self.step_num = 0
        self._metadata: dict[str, Any] = {}
        self._events = EventList()
        self._made: Any = None
        self._step: Any = None

    # ---- beginning and ending ----

    def _begin(self) -> None:
        what = (_DEVICES if ProfilerActivity.CUDA in self.activities else 0) | (_SHAPES if self.record_shapes else 0)
        self._made = _C._profile_begin(what)
        if self.schedule is not None:
            self._open_step()

    def _open_step(self) -> None:
        self._step = record_function("ProfilerStep#%d" % self.step_num)
        self._step.__enter__()

    def _end(self) -> None:
        if self._made is None:
            return
        if self._step is not None:
            self._step.__exit__(None, None, None)
        made, self._made, self._step = self._made, None, None
        entries = EventList.of(_C._profile_end(made), ProfilerActivity.CPU in self.activities)
        self._events = EventList([*self._events, *entries]) if self.acc_events else entries

    def _action(self) -> ProfilerAction:
        return ProfilerAction.RECORD if self.schedule is None else self.schedule(self.step_num)

    def start(self) -> None:
        """Begins, as the schedule says."""
        if self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE):
            self._begin()

    def stop(self) -> None:
        """Ends; where a profile was going on, on_trace_ready gets it."""
        if self._made is not None:
            self._end()
            if self.on_trace_ready is not None:
                self.on_trace_ready(self)

    def step(self) -> None:
        """Says that a step of the program is over: the schedule goes on."""
        before = self._action()
        self.step_num += 1
        if self.schedule is None:
            return
        if before is ProfilerAction.RECORD_AND_SAVE:
            self.stop()
        recording = self._action() in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
        if recording and self._made is None:
            self._begin()
        elif self._made is not None and self._step is not None:
            self._step.__exit__(None, None, None)
            self._open_step()

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    # ---- what it found ----

    def events(self) -> EventList:
        """Its entries, in the order in which they began."""
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0) -> EventList:
        """Entries of one name, added up."""
        refused("key_averages", "there are no stacks", 0, group_by_stack_n=group_by_stack_n)
        return self._events.key_averages(group_by_input_shape)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the entries for chrome://tracing and Perfetto; compressed where the path ends in .gz."""
        self._events.export_chrome_trace(path, self._metadata)

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the trace has under this key."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same of a text that is JSON."""
        self._metadata[key] = json.loads(value)
