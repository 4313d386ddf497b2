"""Compare: several measurements as a table: a row per sub-label or statement, a column per description."""
from __future__ import annotations

from typing import Iterable

from .timer import Measurement, select_unit

__all__ = ["Compare"]


class Compare:
    """Compare(measurements).print()."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._digits: int | None = None
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError("Compare: expected a Measurement, not %s" % type(result).__name__)
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Numbers with the digits that mean something alone."""
        self._digits = 1

    def colorize(self, rowwise: bool = False) -> None:
        """Colours for terminals. The table is plain text, so nothing changes."""

    def highlight_warnings(self) -> None:
        """Marks of unsteady measurements. The table is plain text, so nothing changes."""

    def _table(self, label: str | None, rows: list[Measurement]) -> str:
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in rows))
        names = list(dict.fromkeys((m.task_spec.num_threads, m.as_row_name) for m in rows))
        unit, size = select_unit(min(m.median for m in rows))
        cells = {(m.task_spec.num_threads, m.as_row_name, m.task_spec.description or ""): m.median / size for m in rows}
        width = max([len(name) for _, name in names] + [len("1 threads: ")]) + 6
        wide = [max(len(c), 10) for c in columns]
        head = " " * width + "|" + "|".join("  %s  " % c.center(w) for c, w in zip(columns, wide))
        title = "[%s]" % (" %s " % (label or rows[0].task_spec.stmt)).center(len(head) - 2, "-")
        lines, threads = [title, head.rstrip()], None
        for count, name in names:
            if count != threads:
                lines.append(("%d threads: " % count).ljust(len(head), "-"))
                threads = count
            values = [cells.get((count, name, c)) for c in columns]
            digits = 1 if self._digits is None else self._digits
            texts = ["" if v is None else "%.*f" % (digits, v) for v in values]
            lines.append(("      " + name).ljust(width) + "|" + "|".join(
                "  %s  " % t.rjust(w) for t, w in zip(texts, wide)))
        long = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}[unit]
        return "\n".join([*lines, "", "Times are in %s (%s)." % (long, unit), ""])

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(m.task_spec.label for m in merged))
        return "\n".join(self._table(label, [m for m in merged if m.task_spec.label == label]) for label in labels)

    def print(self) -> None:
        """The table on standard output."""
        print(str(self))
