"""Compare: several measurements as a table: a row per sub-label or statement, a column per description."""
from __future__ import annotations

import math
from typing import Iterable

from .timer import Measurement, select_unit

__all__ = ["Compare"]


class Compare:
    """Compare(measurements).print()."""

    def __init__(self, results: Iterable[Measurement]) -> None:
        self._results: list[Measurement] = []
        self._trim = self._colour = self._rowwise = self._marks = False
        self.extend_results(results)

    def extend_results(self, results: Iterable[Measurement]) -> None:
        """Adds measurements."""
        for result in results:
            if not isinstance(result, Measurement):
                raise ValueError("Compare: expected a Measurement, not %s" % type(result).__name__)
            self._results.append(result)

    def trim_significant_figures(self) -> None:
        """Numbers with the digits alone that the spread of their measurements leaves standing."""
        self._trim = True

    def colorize(self, rowwise: bool = False) -> None:
        """Colours for terminals: green for what is within a tenth of the fastest, red for what takes more than twice
        as long; of a row, or of the whole table."""
        self._colour, self._rowwise = True, rowwise

    def highlight_warnings(self) -> None:
        """Marks of unsteady measurements: behind the time by how much of it they differ."""
        self._marks = True

    def _text(self, m: Measurement | None, size: float) -> str:
        """A time, and what is to be said of it."""
        if m is None:
            return ""
        value, digits = m.median / size, 1
        if self._trim and m.iqr > 0:
            digits = max(0, -math.floor(math.log10(m.iqr / size)))
            value = round(value, -math.floor(math.log10(m.iqr / size)))
        mark = " (! %.0f%%)" % (100 * m.iqr / m.median) if self._marks and m.has_warnings else ""
        return "%.*f%s" % (digits, value, mark)

    def _coloured(self, text: str, m: Measurement | None, row: list[Measurement | None],
                  table: list[Measurement]) -> str:
        """The cell in its colour."""
        if m is None or not self._colour:
            return text
        best = min(o.median for o in (row if self._rowwise else table) if o is not None)
        code = 32 if m.median <= 1.1 * best else 31 if m.median > 2 * best else 0
        return "\033[%dm%s\033[0m" % (code, text) if code else text

    def _table(self, label: str | None, rows: list[Measurement]) -> str:
        columns = list(dict.fromkeys(m.task_spec.description or "" for m in rows))
        names = list(dict.fromkeys((m.task_spec.num_threads, m.as_row_name) for m in rows))
        unit, size = select_unit(min(m.median for m in rows))
        cells = {(m.task_spec.num_threads, m.as_row_name, m.task_spec.description or ""): m for m in rows}
        width = max([len(name) for _, name in names] + [len("1 threads: ")]) + 6
        wide = [max([len(c), 10] + [len(self._text(cells.get((n, name, c)), size)) for n, name in names])
                for c in columns]
        head = " " * width + "|" + "|".join("  %s  " % c.center(w) for c, w in zip(columns, wide))
        title = "[%s]" % (" %s " % (label or rows[0].task_spec.stmt)).center(len(head) - 2, "-")
        lines, threads = [title, head.rstrip()], None
        for count, name in names:
            if count != threads:
                lines.append(("%d threads: " % count).ljust(len(head), "-"))
                threads = count
            values = [cells.get((count, name, c)) for c in columns]
            lines.append(("      " + name).ljust(width) + "|" + "|".join(
                self._coloured("  %s  " % self._text(m, size).rjust(w), m, values, rows)
                for m, w in zip(values, wide)))
        long = {"ns": "nanoseconds", "us": "microseconds", "ms": "milliseconds", "s": "seconds"}[unit]
        return "\n".join([*lines, "", "Times are in %s (%s)." % (long, unit), ""])

    def __str__(self) -> str:
        merged = Measurement.merge(self._results)
        labels = list(dict.fromkeys(m.task_spec.label for m in merged))
        return "\n".join(self._table(label, [m for m in merged if m.task_spec.label == label]) for label in labels)

    def print(self) -> None:
        """The table on standard output."""
        print(str(self))
