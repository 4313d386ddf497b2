"""Timer: runs a statement often enough to say how long it takes; Measurement: what it found.

Place in the flow: cairn.utils.benchmark. Like Python's timeit, with three differences: devices are waited for, ops run
with `num_threads` threads (one, unless told otherwise), and a first run outside the clock lets caches fill.
"""
from __future__ import annotations

import dataclasses
import time
import timeit
from typing import Any, Callable

from ... import _C

__all__ = ["Measurement", "TaskSpec", "Timer", "select_unit", "timer"]

_UNITS = ((1e-9, "ns"), (1e-6, "us"), (1e-3, "ms"), (1.0, "s"))


def timer() -> float:
    """The clock, after the work of CUDA devices is done."""
    for i in range(_C._device_count("cuda")):
        _C._device_sync("cuda:%d" % i)
    return time.perf_counter()


def select_unit(seconds: float) -> tuple[str, float]:
    """The unit that suits a time, and its seconds."""
    size, unit = max(((s, u) for s, u in _UNITS if s <= seconds), default=_UNITS[0])
    return unit, size


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """What was measured."""
    stmt: str
    setup: str
    global_setup: str = ""
    label: str | None = None
    sub_label: str | None = None
    description: str | None = None
    env: str | None = None
    num_threads: int = 1

    @property
    def title(self) -> str:
        """What tables call it."""
        if self.label is not None:
            return self.label + (": " + self.sub_label if self.sub_label else "")
        return self.stmt


@dataclasses.dataclass
class Measurement:
    """Times of one statement: raw_times has one entry per repetition, each of number_per_run runs."""
    number_per_run: int
    raw_times: list[float]
    task_spec: TaskSpec
    metadata: dict[Any, Any] | None = None

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "task_spec":
            raise AttributeError(name)
        return getattr(self.task_spec, name)

    @property
    def times(self) -> list[float]:
        """Seconds of one run, by repetition."""
        return [t / self.number_per_run for t in self.raw_times]

    def _quantile(self, q: float) -> float:
        times = sorted(self.times)
        at = q * (len(times) - 1)
        low = int(at)
        high = min(low + 1, len(times) - 1)
        return times[low] + (times[high] - times[low]) * (at - low)

    @property
    def median(self) -> float:
        """The middle one of the times."""
        return self._quantile(0.5)

    @property
    def mean(self) -> float:
        """Their mean."""
        return sum(self.times) / len(self.times)

    @property
    def iqr(self) -> float:
        """From the first quarter of the times to the third: how much they differ."""
        return self._quantile(0.75) - self._quantile(0.25)

    @property
    def has_warnings(self) -> bool:
        """Do the times differ by more than a tenth of the median?"""
        return self.iqr > 0.1 * self.median

    @property
    def title(self) -> str:
        return self.task_spec.title

    @property
    def as_row_name(self) -> str:
        """What the row of a table is called."""
        return self.task_spec.sub_label or self.task_spec.stmt

    @staticmethod
    def merge(measurements: Any) -> list[Measurement]:
        """Measurements of the same task as one each."""
        groups: dict[TaskSpec, list[Measurement]] = {}
        for m in measurements:
            groups.setdefault(m.task_spec, []).append(m)
        return [Measurement(1, [t for m in group for t in m.times], spec) for spec, group in groups.items()]

    def __repr__(self) -> str:
        unit, size = select_unit(self.median)
        lines = ["<cairn.utils.benchmark.Measurement object at %#x>" % id(self), self.title]
        if self.task_spec.description:
            lines.append(self.task_spec.description)
        if self.task_spec.setup not in ("", "pass"):
            lines.append("setup: " + self.task_spec.setup)
        if len(self.times) == 1:
            lines.append("  %.2f %s" % (self.median / size, unit))
        else:
            lines.append("  Median: %.2f %s" % (self.median / size, unit))
            lines.append("  IQR:    %.2f %s" % (self.iqr / size, unit))
        runs = "%d measurement%s, %d run%s per measurement, %d thread%s" % (
            len(self.times), "s" * (len(self.times) > 1), self.number_per_run, "s" * (self.number_per_run > 1),
            self.task_spec.num_threads, "s" * (self.task_spec.num_threads > 1))
        return "\n".join(lines + ["  " + runs])


class Timer:
    """Timer(stmt, setup, globals=...).timeit(n), .blocked_autorange(): how long a statement takes."""

    def __init__(self, stmt: str = "pass", setup: str = "pass", global_setup: str = "",
                 timer: Callable[[], float] = timer, globals: dict[str, Any] | None = None, label: str | None = None,
                 sub_label: str | None = None, description: str | None = None, env: str | None = None,
                 num_threads: int = 1, language: str = "py") -> None:
        if str(language).lower() not in ("py", "python"):
            raise NotImplementedError("Timer: statements are Python; C++ is not compiled here")
        names = dict(globals or {})
        if not any(name in names for name in ("cairn", "torch")):
            import cairn
            names["cairn"] = names["torch"] = cairn
        self._timer = timeit.Timer(stmt=_dedent(stmt), setup=_dedent(setup), timer=timer, globals=names)
        self._spec = TaskSpec(stmt, setup, global_setup, label, sub_label, description, env, num_threads)

    def _threads(self, run: Callable[[], Any]) -> Any:
        before = _C.get_num_threads()
        _C.set_num_threads(self._spec.num_threads)
        try:
            return run()
        finally:
            _C.set_num_threads(before)

    def timeit(self, number: int = 1000000) -> Measurement:
        """One measurement of so many runs."""
        def run() -> list[float]:
            self._timer.timeit(max(number // 100, 2))
            return [self._timer.timeit(number)]
        return Measurement(number, self._threads(run), self._spec)

    def _block(self, min_run_time: float) -> int:
        """So many runs that asking the clock does not count."""
        number = 1
        while True:
            taken = self._timer.timeit(number)
            if taken >= max(min_run_time / 1000, 1e-4) or number >= 10 ** 8:
                return number
            number *= 10

    def blocked_autorange(self, callback: Callable[[int, float], Any] | None = None,
                          min_run_time: float = 0.2) -> Measurement:
        """Measurements of equal blocks of runs until min_run_time seconds are spent."""
        def run() -> tuple[int, list[float]]:
            number = self._block(min_run_time)
            times: list[float] = []
            while sum(times) < min_run_time or not times:
                times.append(self._timer.timeit(number))
                if callback is not None:
                    callback(number, times[-1])
            return number, times
        number, times = self._threads(run)
        return Measurement(number, times, self._spec)

    def adaptive_autorange(self, threshold: float = 0.1, *, min_run_time: float = 0.01, max_run_time: float = 10.0,
                           callback: Callable[[int, float], Any] | None = None) -> Measurement:
        """Measurements until they differ by less than `threshold` of the median, or max_run_time is spent."""
        spent = 0.0
        times: list[float] = []
        while True:
            found = self.blocked_autorange(callback, min_run_time)
            number, times = found.number_per_run, times + found.raw_times
            spent += sum(found.raw_times)
            whole = Measurement(number, times, self._spec)
            if spent >= max_run_time or (len(times) >= 3 and whole.iqr <= threshold * whole.median):
                return whole

    autorange = blocked_autorange


def _dedent(code: str) -> str:
    import textwrap
    return textwrap.dedent(code).strip() or "pass"
