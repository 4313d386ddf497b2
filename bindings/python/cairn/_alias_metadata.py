"""What importlib.metadata finds under the names that cairn stands for.

Place in the flow: _alias.py's finder of modules is asked for distributions, too. Invariant: it names versions, and no
files."""
from __future__ import annotations

import importlib.metadata
from typing import Any

__all__ = ["distribution"]


class _Standing(importlib.metadata.Distribution):
    """A distribution that has a name and a version."""

    def __init__(self, name: str, version: str) -> None:
        self._text = "Metadata-Version: 2.1\nName: %s\nVersion: %s\n" % (name, version)

    def read_text(self, filename: str) -> str | None:
        return self._text if filename in ("METADATA", "PKG-INFO") else None

    def locate_file(self, path: Any) -> Any:
        raise FileNotFoundError("cairn stands here: there are no files of %s" % self.metadata["Name"])


def distribution(name: str, version: str) -> _Standing:
    """The distribution of that name."""
    return _Standing(name, version)
