"""What a person sees of a fit: the bar in a terminal or a notebook, and curves of the figures as a picture.

A terminal gets one line an epoch that is written over until the epoch is done; output that goes to a file gets the
finished lines alone; a notebook gets a display that is updated in place.
"""
from __future__ import annotations

import html
import importlib
import math
import sys
import time
from typing import Any, Mapping, Sequence

__all__ = ["Bar", "curves"]


def _notebook() -> Any:
    """IPython's display, when a notebook shows what it is given."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    if shell is None or type(shell).__name__ != "ZMQInteractiveShell":
        return None
    return importlib.import_module("IPython.display")


def figure(value: float) -> str:
    """A number in a few places."""
    if value != value or math.isinf(value):
        return str(value)
    return "%.4f" % value if value == 0 or 1e-3 <= abs(value) < 1e5 else "%.4e" % value


def span(seconds: float) -> str:
    """How long: 3s, 2:05, 1:02:03."""
    whole = int(seconds)
    if whole < 60:
        return "%ds" % whole
    return "%d:%02d" % divmod(whole, 60) if whole < 3600 else "%d:%02d:%02d" % (whole // 3600, whole // 60 % 60,
                                                                             whole % 60)


def _pace(seconds: float) -> str:
    return "%.0fus" % (seconds * 1e6) if seconds < 1e-3 else "%.0fms" % (seconds * 1e3) if seconds < 1 else \
        "%.1fs" % seconds


class Bar:
    """A title and a line that grows: count, bar, time left (then time taken), pace, figures. plain: only at the end.
    interval: seconds between two pictures, None for what a terminal or notebook shows well; unit: what is counted."""

    def __init__(self, title: str, total: int | None, width: int = 20, stream: Any = None, plain: bool = False,
                 interval: float | None = None, unit: str = "step") -> None:
        self.title, self.total, self.width, self.plain = title, total, width, plain
        self.interval, self.unit = interval, unit
        self.stream = stream or sys.stdout
        self.begun = time.monotonic()
        self.shown = -1.0  # when it was last written
        self.done = self.length = 0
        self.page = _notebook() if stream is None else None
        self.handle: Any = None
        self.live = not plain and (self.page is not None or bool(getattr(self.stream, "isatty", lambda: False)()))
        if title and not self.page:
            self.stream.write(title + "\n")

    def line(self, figures: Mapping[str, float], finished: bool) -> str:
        took = time.monotonic() - self.begun
        total = self.total if self.total else self.done if finished else None
        if self.plain:
            parts = ["%d/%s" % (self.done, total or "?"), span(took), self._per(took / max(self.done, 1))]
            return " - ".join(parts + ["%s: %s" % (k, figure(v)) for k, v in figures.items()])
        parts = [self.title] if self.title and self.page else []
        if total:
            full = self.width * min(self.done, total) // total
            parts.append("%*d/%d %s" % (len(str(total)), self.done, total, "━" * full + "─" * (self.width - full)))
        else:
            parts.append("%d/?" % self.done)
        pace = took / max(self.done, 1)
        parts.append(span(took) if finished or not total else "%s left" % span(pace * (total - self.done)))
        parts.append(self._per(pace))
        return " ".join(parts) + "".join(" - %s: %s" % (k, figure(v)) for k, v in figures.items())

    def _per(self, seconds: float) -> str:
        return "%s/%s" % (_pace(seconds), self.unit)

    def update(self, done: int, figures: Mapping[str, float]) -> None:
        """Shows a batch more, some times a second at most."""
        self.done = done
        now = time.monotonic()
        pause = self.interval if self.interval is not None else 0.5 if self.page is not None else 0.1
        if not self.live or self.plain or now - self.shown < pause:
            return
        self.shown = now
        self._show(self.line(figures, False))

    def finish(self, figures: Mapping[str, float]) -> None:
        text = self.line(figures, True)
        if self.live:
            self._show(text)
        if self.page is None or self.plain:
            self.stream.write("\n" if self.live else text + "\n")
            self.stream.flush()

    def _show(self, text: str) -> None:
        if self.page is not None:
            shown = self.page.HTML("<pre style='margin:0'>%s</pre>" % html.escape(text))
            if self.handle is None:
                self.handle = self.page.display(shown, display_id=True)
            else:
                self.handle.update(shown)
            return
        gap = max(self.length - len(text), 0)
        self.length = len(text)
        try:
            self.stream.write("\r" + text + " " * gap)
        except UnicodeEncodeError:
            self.stream.write("\r" + text.replace("━", "=").replace("─", ".") + " " * gap)
        self.stream.flush()


_colours = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b")


def _ticks(low: float, high: float) -> list[float]:
    """Some round numbers between."""
    span_ = (high - low) or 1.0
    step = 10.0 ** math.floor(math.log10(span_ / 3))
    step *= next(k for k in (1, 2, 5, 10) if span_ / (step * k) <= 5)
    first = math.ceil(low / step)
    return [i * step for i in range(first, int(math.floor(high / step + 1e-9)) + 1)]


def _panel(title: str, epochs: Sequence[float], lines: Mapping[str, Sequence[float]], left: float, size: float) -> str:
    """One set of axes with its curves."""
    good = [v for values in lines.values() for v in values if v == v and not math.isinf(v)]
    low, high = (min(good), max(good)) if good else (0.0, 1.0)
    if low == high:
        low, high = low - 0.5, high + 0.5
    first, last = (epochs[0], epochs[-1]) if epochs else (0, 1)
    last = last if last != first else first + 1
    x0, y0, w, h = left + 52, 34.0, size - 70, 190.0

    def x(v: float) -> float:
        return x0 + (v - first) / (last - first) * w

    def y(v: float) -> float:
        return y0 + (high - v) / (high - low) * h
    out = ["<text x='%.1f' y='20' font-weight='bold'>%s</text>" % (x0, html.escape(title))]
    for v in _ticks(low, high):
        out.append("<line x1='%.1f' x2='%.1f' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%.1f' y='%.1f' "
                   "text-anchor='end'>%g</text>" % (x0, x0 + w, y(v), y(v), x0 - 5, y(v) + 4, v))
    for v in _ticks(first, last):
        if v == int(v):
            out.append("<text x='%.1f' y='%.1f' text-anchor='middle'>%d</text>" % (x(v), y0 + h + 16, int(v)))
    out.append("<text x='%.1f' y='%.1f' text-anchor='middle'>epoch</text>" % (x0 + w / 2, y0 + h + 32))
    for i, (name, values) in enumerate(lines.items()):
        colour = _colours[i % len(_colours)]
        points = " ".join("%.1f,%.1f" % (x(e), y(v)) for e, v in zip(epochs[-len(values):], values)
                          if v == v and not math.isinf(v))
        out.append("<polyline fill='none' stroke='%s' stroke-width='1.8' points='%s'/>" % (colour, points))
        out.append("<text x='%.1f' y='%.1f' fill='%s' text-anchor='end'>%s</text>"
                   % (x0 + w, y0 + 12 + 14 * i, colour, html.escape(name)))
    return "".join(out)


def panels(history: Mapping[str, Sequence[float]]) -> dict[str, dict[str, Sequence[float]]]:
    """Figures that belong together: each with its val_ twin."""
    made: dict[str, dict[str, Sequence[float]]] = {}
    for name, values in history.items():
        made.setdefault(name.removeprefix("val_"), {})[name] = values
    return made


def curves(epochs: Sequence[int], history: Mapping[str, Sequence[float]]) -> str:
    """The curves of all figures as one SVG picture."""
    groups = panels(history)
    size, many = 330.0, max(len(groups), 1)
    body = "".join(_panel(name, [e + 1 for e in epochs], lines, i * size, size)
                   for i, (name, lines) in enumerate(groups.items()))
    return ("<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='270' font-family='sans-serif' font-size='11'>"
            "<rect width='100%%' height='100%%' fill='white'/>%s</svg>" % (int(size * many), body))
