"""cairn.utils.flop_counter: how many floating-point operations the products of a program are, as torch counts them.

Place in the flow: a profile whose entries have costs and modules; rules of ops are the library's (cn_op.cost).
Invariant: what is counted are products of matrices, convolutions, attention and recurrent layers, two for a
multiply-add.
"""
from __future__ import annotations

import warnings
from types import TracebackType
from typing import Any

from .. import _C
from .._arguments import refused

__all__ = ["FlopCounterMode"]

_WHAT = 8 | 16 | 32  # cn_profile_what: costs, modules, nodes of graphs
_SUFFIXES = ["", "K", "M", "B", "T"]


def _suffix(number: float) -> int:
    return max(0, min(len(_SUFFIXES) - 1, (len(str(int(number))) - 2) // 3))


def _number(number: float, suffix: int) -> str:
    return "%.3f%s" % (number / 1000 ** suffix, _SUFFIXES[suffix])


def _percent(part: float, whole: float) -> str:
    return "%.2f%%" % (100.0 * part / whole) if whole else "0%"


class FlopCounterMode:
    """Counts what is inside, forward and backward: `with FlopCounterMode(display=False) as counter: net(x)`."""

    def __init__(self, mods: Any = None, depth: int | None = 2, display: bool = True,
                 custom_mapping: dict[Any, Any] | None = None, skip_unsupported: bool = False) -> None:
        refused("FlopCounterMode", "an op's rule is in its row (cn_op.cost)", custom_mapping=custom_mapping or None)
        if mods is not None:
            warnings.warn("mods argument is not needed anymore, you can stop passing it", stacklevel=2)
        self.depth, self.display, self.skip_unsupported = depth, display, skip_unsupported
        self.flop_counts: dict[str, dict[str, int]] = {}
        self._made: Any = None

    def __enter__(self) -> FlopCounterMode:
        self.flop_counts = {}
        self._made = _C._profile_begin(_WHAT, False)
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        made = self._made
        _C._profile_end(made)
        self._read()
        self._made = None
        left_out = _C._profile_dropped(made)
        if left_out:
            warnings.warn("FlopCounterMode: %d entries were more than are kept, and are not counted" % left_out,
                          stacklevel=2)
        if self.display:
            print(self.get_table(self.depth))

    def _read(self) -> None:
        if self._made is None:
            return
        self.flop_counts = {}
        for entry in _C._profile_entries(self._made):
            name, module, products = entry[0], entry[9], entry[15]
            if products:
                path = module.split(".") if module else []
                for place in ["Global", *(".".join(path[:i + 1]) for i in range(len(path)))]:
                    counts = self.flop_counts.setdefault(place, {})
                    counts[name] = counts.get(name, 0) + int(products)

    def get_total_flops(self) -> int:
        """All of them; inside of the block those so far."""
        self._read()
        return sum(self.flop_counts.get("Global", {}).values())

    def get_flop_counts(self) -> dict[str, dict[Any, int]]:
        """Of each module, by name ("ResNet.layer1"), and of all ("Global"): how many each op has."""
        self._read()
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_unsupported_ops(self) -> dict[str, int]:
        """Ops that could not be counted: there are none."""
        return {}

    def _rows(self, name: str, level: int, total: int) -> list[list[str]]:
        counts, padding, suffix = self.flop_counts[name], " " * level, _suffix(total)
        own = sum(counts.values())
        return [[padding + name, _number(own, suffix), _percent(own, total)],
                *([padding + " - " + op, _number(n, suffix), _percent(n, total)] for op, n in counts.items())]

    def get_table(self, depth: int | None = None) -> str:
        """The counts as text, of modules up to that depth."""
        total = self.get_total_flops()
        most = self.depth if depth is None else depth
        rows: list[list[str]] = []
        whole = False
        for name in sorted(self.flop_counts):
            level = name.count(".") + 1
            if name != "Global" and (most is None or level <= most):
                whole |= sum(self.flop_counts[name].values()) >= total
                rows += self._rows(name, level - 1, total)
        if total and not whole:
            rows = self._rows("Global", 0, total) + [[" " + row[0], *row[1:]] for row in rows]
        rows = [["Module", "FLOP", "% Total"], *(rows or [["Global", "0", "0%"]])]
        widths = [max(len(row[i]) for row in rows) for i in range(3)]
        lines = ["%s  %s  %s" % (row[0].ljust(widths[0]), row[1].rjust(widths[1]), row[2].rjust(widths[2]))
                 for row in rows]
        return "\n".join([lines[0], "  ".join("-" * w for w in widths), *lines[1:]])
