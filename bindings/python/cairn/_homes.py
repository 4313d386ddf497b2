"""Files of torch whose names cairn has elsewhere: modules that hold them, so that `from torch.optim.adam import Adam`
works.

Place in the flow: a package of cairn says which files torch has below it, and which of its names stand in them.
Invariant: what such a module holds is the very object that the package has, looked up when it is asked for.
"""
from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Mapping

__all__ = ["Home", "homes"]


class Home(ModuleType):
    """A module whose names are those of another one."""

    def __init__(self, name: str, source: ModuleType, names: str) -> None:
        super().__init__(name, "Names of %s." % source.__name__)
        self._source, self._names = source, frozenset(names.split())
        self.__all__ = sorted(n for n in self._names if not n.startswith("_"))
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name not in self._names:
            raise AttributeError("module %r has no attribute %r" % (self.__name__, name))
        return getattr(self._source, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._names})


def homes(package: str, table: Mapping[str, str], source: ModuleType | None = None) -> None:
    """Makes the modules of a table {name below the package: names in it}; source: where these are, if not in it."""
    own = sys.modules[package]
    if not hasattr(own, "__path__"):  # a plain module: imports of what is below it ask for one
        setattr(own, "__path__", [])
    for below, names in table.items():
        full = "%s.%s" % (package, below)
        made = sys.modules.setdefault(full, Home(full, own if source is None else source, names))
        setattr(sys.modules[full.rpartition(".")[0]], below.rpartition(".")[2], made)
