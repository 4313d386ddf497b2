"""cairn.profiler: what ops took, on the host and on the device, what they computed and what they moved.

Place in the flow: the library keeps an entry for each op that the thread runs (cairn/profile.h); events.py adds them
up, table.py and trace.py write them; here are torch's classes that begin and end profiles. Compiled functions run as
graphs, which are one entry each; where operations, modules or lines are asked for, their nodes are entries inside.
Invariant: a profile is of the thread that started it, and of those that take part (profile.thread).
"""
from __future__ import annotations

import contextlib
import enum
import functools
import json
import os
import socket
import time
import warnings
from types import TracebackType
from typing import Any, Callable, Iterable, Iterator

from .. import _homes
from .. import _C
from .._arguments import refused
from .events import (EventList as EventList, FunctionEvent as FunctionEvent, FunctionEventAvg as FunctionEventAvg,
                     Interval as Interval, Kernel as Kernel)
from .trace import write_trace

__all__ = ["ProfilerAction", "ProfilerActivity", "profile", "record_function", "schedule", "supported_activities",
           "tensorboard_trace_handler"]

_DEVICES, _SHAPES, _COSTS, _MODULES, _NODES, _MEMORY = 1, 2, 8, 16, 32, 64  # cn_profile_what


class ProfilerActivity(enum.Enum):
    """What is looked at: the host's calls, or times on CUDA devices."""
    CPU = 0
    XPU = 1
    CUDA = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


def kineto_available() -> bool:
    """Is there torch's library of profiles? No: cairn has its own."""
    return False


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
        raise AssertionError("Invalid profiler schedule arguments. Got wait=%d (need >= 0), warmup=%d (need >= 0), "
                             "active=%d (need > 0), repeat=%d (need >= 0), skip_first=%d (need >= 0)." %
                             (wait, warmup, active, repeat, skip_first))
    if warmup == 0:
        warnings.warn("Profiler won't be using warmup, this can skew profiler results", stacklevel=2)

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError("Step must be non-negative. Got %d." % step)
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
        try:
            os.makedirs(dir_name, exist_ok=True)
        except OSError as error:
            raise RuntimeError("Can't create directory: " + dir_name) from error
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


_NONE, _WARMUP, _RECORD, _SAVE = ProfilerAction
_GOING = (_RECORD, _SAVE)


class profile:
    """A profile of what is inside: `with profile() as p: ...; print(p.key_averages().table())`.

    record_shapes: sizes of inputs. profile_memory: what tensors take. with_stack: the lines of the program. with_flops:
    operations and bytes. with_modules: the module that each op belongs to, forward and backward."""

    def __init__(self, *, activities: Iterable[ProfilerActivity] | None = None,
                 schedule: Callable[[int], ProfilerAction] | None = None,
                 on_trace_ready: Callable[[profile], Any] | None = None, record_shapes: bool = False,
                 profile_memory: bool = False, with_stack: bool = False, with_flops: bool = False,
                 with_modules: bool = False, experimental_config: Any = None, execution_trace_observer: Any = None,
                 acc_events: bool = False, use_cuda: bool | None = None,
                 custom_trace_id_callback: Callable[[], str] | None = None,
                 post_processing_timeout_s: float | None = None) -> None:
        refused("profile", "there is no such hook", experimental_config=experimental_config,
                execution_trace_observer=execution_trace_observer)
        refused("profile", "reading entries is not cut short", post_processing_timeout_s=post_processing_timeout_s)
        self.activities = set(supported_activities() if activities is None else activities)
        if use_cuda is not None:
            warnings.warn("`use_cuda` is deprecated, use `activities` argument instead", FutureWarning, stacklevel=2)
            self.activities = ((self.activities | {ProfilerActivity.CUDA}) if use_cuda
                               else self.activities - {ProfilerActivity.CUDA})
        if not self.activities:
            raise AssertionError("No valid profiler activities found")
        if ProfilerActivity.CUDA in self.activities and not _C._device_count("cuda"):
            warnings.warn("profile: there is no CUDA device: its times are left out", stacklevel=2)
        self.use_device = "cuda" if ProfilerActivity.CUDA in self.activities else None
        self.schedule = schedule
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules = with_flops, with_modules
        self.acc_events = acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = self._action()
        self._metadata: dict[str, Any] = {}
        self._preset: dict[str, str] = {}
        self._entries: list[tuple[Any, ...]] = []
        self._changes: list[tuple[Any, ...]] = []
        self._events: EventList | None = None
        self._begun = False
        self._made: Any = None
        self._step: Any = None

    # ---- beginning and ending ----

    def _what(self) -> int:
        asked = ((_DEVICES, ProfilerActivity.CUDA in self.activities), (_SHAPES, self.record_shapes),
                 (_COSTS | _NODES, self.with_flops), (_MODULES | _NODES, self.with_modules or self.with_stack),
                 (_MEMORY, self.profile_memory))
        return sum({bit for bits, on in asked if on for bit in (1, 2, 8, 16, 32, 64) if bits & bit})

    def _prepare(self) -> None:
        self._begun = True
        if not self.acc_events:
            self._entries, self._changes, self._events = [], [], None

    def _start_trace(self) -> None:
        self._made = _C._profile_begin(self._what(), self.with_stack)
        for name in ("profile_memory", "with_stack", "record_shapes", "with_modules", "with_flops"):
            if getattr(self, name):
                self._metadata[name] = 1
        if self.custom_trace_id_callback is not None:
            self._metadata["trace_id"] = self.custom_trace_id_callback()
        for key, value in self._preset.items():
            self.add_metadata_json(key, value)

    def _stop_trace(self) -> None:
        made = self._made
        _C._profile_end(made)  # where another thread takes part it goes on
        self._made = None
        self._entries += _C._profile_entries(made)
        self._changes += _C._profile_memory(made)
        self._events = None
        left_out = _C._profile_dropped(made)
        if left_out:
            warnings.warn("profile: %d entries were more than are kept: profile fewer steps at a time (schedule)" %
                          left_out, stacklevel=4)

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _go(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """From what one step does to what the next one does."""
        going = before in _GOING
        if going and after in (_NONE, _WARMUP) and before is _RECORD:
            warnings.warn("Incorrect schedule: RECORD followed by %s" % after.name, stacklevel=4)
        if before is _WARMUP and after is _NONE:
            warnings.warn("Incorrect schedule: WARMUP followed by NONE", stacklevel=4)
        if going and (before is _SAVE or after not in _GOING):
            self._stop_trace()
            if before is _SAVE or after is None:
                self._ready()
            going = False
        if after is not None and after is not _NONE and not going and before is not _WARMUP:
            self._prepare()
        if after in _GOING and not going:
            self._start_trace()

    def _open_step(self) -> None:
        if self.schedule is not None:
            self._step = record_function("ProfilerStep#%d" % self.step_num)
            self._step.__enter__()

    def _close_step(self) -> None:
        if self._step is not None:
            self._step.__exit__(None, None, None)
            self._step = None

    def _action(self) -> ProfilerAction:
        return _RECORD if self.schedule is None else self.schedule(self.step_num)

    def start(self) -> None:
        """Begins, as the schedule says."""
        self._go(_NONE, self.current_action)
        self._open_step()

    def stop(self) -> None:
        """Ends; where a profile was going on, on_trace_ready gets it."""
        self._close_step()
        if self._made is not None:
            self._go(self.current_action, None)

    def step(self) -> None:
        """Says that a step of the program is over: the schedule goes on."""
        self._close_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self._action()
        self._go(before, self.current_action)
        self._open_step()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """What names the next traces."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """What custom_trace_id_callback called this one."""
        return self._metadata.get("trace_id")

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.stop()

    @contextlib.contextmanager
    def thread(self) -> Iterator[None]:
        """In another thread, while the profile goes on: what is inside takes part. The profile ends after it."""
        made = self._made
        if made is None:
            raise RuntimeError("profile: it is not on")
        _C._profile_join(made)
        try:
            yield
        finally:
            _C._profile_leave(made)

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Not here: entries are on for the whole of a profile."""
        refused("toggle_collection_dynamic", "use a schedule, or a profile for each part", None, activities=activities,
                enable=enable)

    # ---- what it found ----

    def events(self) -> EventList:
        """Its entries, in the order in which they began."""
        if not self._begun:
            raise AssertionError("Profiler must be initialized before accessing events")
        if self._events is None:
            self._events = EventList.of(self._entries, use_device=self.use_device, profile_memory=self.profile_memory,
                                        with_flops=self.with_flops)
            self._events.with_host = ProfilerActivity.CPU in self.activities
        return self._events

    def key_averages(self, group_by_input_shape: bool = False, group_by_stack_n: int = 0,
                     group_by_overload_name: bool = False, include_python_functions: bool = False) -> EventList:
        """Entries of one name, added up."""
        if not self._begun:
            raise AssertionError("Profiler must be initialized before getting key averages")
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name,
                                          include_python_functions)

    def export_chrome_trace(self, path: str) -> None:
        """Writes the entries for chrome://tracing and Perfetto; compressed where the path ends in .gz."""
        if not self._begun:
            raise AssertionError("Profiler must be initialized before exporting chrome trace")
        write_trace(path, self.events(), self._changes, self._metadata, ProfilerActivity.CPU in self.activities)

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Writes stacks (with_stack=True) with what they took, for flame graphs."""
        if not self._begun:
            raise AssertionError("Profiler must be initialized before exporting stacks")
        self.events().export_stacks(path, metric)

    def memory_changes(self) -> list[tuple[float, str, int, int, int]]:
        """What tensors took (profile_memory=True): time in seconds, device, bytes, what is held then, thread."""
        return [(each[0], each[1], each[2], each[3], each[4]) for each in self._changes]

    def export_memory_timeline(self, path: str, device: str | None = None) -> None:
        """Writes [times in us, [[bytes held]]] of a device as JSON; compressed where the path ends in .gz."""
        import gzip
        if not self.profile_memory:
            raise ValueError("profile_memory=True required for memory profiling.")
        refused("export_memory_timeline", "it is written as .json or .json.gz", False, path=path.endswith(".html"))
        wanted = (device or self.use_device or "cpu").partition(":")[0]
        found = [each for each in self._changes if each[1].partition(":")[0] == wanted]
        text = json.dumps([[each[0] * 1e6 for each in found], [[each[3]] for each in found]])
        with (gzip.open(path, "wt") if path.endswith(".gz") else open(path, "w")) as file:
            file.write(text)

    def add_metadata(self, key: str, value: str) -> None:
        """A text that the trace has under this key."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """The same of a text that is JSON."""
        self._metadata[key] = json.loads(value)

    def preset_metadata_json(self, key: str, value: str) -> None:
        """The same, for traces that begin later."""
        self._preset[key] = value


_homes.homes(__name__, {"profiler": " ".join(__all__)})
