"""The package under another name: after sys.modules["torch"] = cairn, `import torch.nn` gives cairn.nn itself, where
Python would make a second copy of it from the same file. cairn/__init__.py installs this."""
from __future__ import annotations

import sys
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Sequence

_OWN = __name__.partition(".")[0]


class _Loader:
    """Gives a module of the package for its name under the alias."""

    def __init__(self, name: str) -> None:
        self.name = name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec  # importing has put the alias's there


class Finder:
    """Stands before Python's own finders of modules."""

    @staticmethod
    def find_spec(fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
                  ) -> ModuleSpec | None:
        first, _, rest = fullname.partition(".")
        if not rest or first == _OWN or sys.modules.get(first) is not sys.modules[_OWN]:
            return None
        return ModuleSpec(fullname, _Loader(_OWN + "." + rest))  # type: ignore[arg-type]


def install() -> None:
    sys.meta_path.insert(0, Finder)
