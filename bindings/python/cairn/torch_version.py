"""TorchVersion: a version as text that compares as a version does.

Place in the flow: what torch.__version__ is after as_torch(). Invariant: comparing with a tuple or a text compares
numbers, not letters.
"""
from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

_PARTS = re.compile(r"v?(\d+(?:\.\d+)*)(?:[-_.]?(a|b|rc|alpha|beta|c|pre|preview)[-_.]?(\d*))?(?:\.post(\d+))?"
                    r"(?:[-_.]?(dev)(\d*))?(?:\+[a-z0-9.]+)?$", re.IGNORECASE)


def _key(version: Any) -> tuple[Any, ...]:
    """What versions are ordered by."""
    text = ".".join(map(str, version)) if isinstance(version, tuple) else str(version)
    found = _PARTS.match(text.strip())
    if found is None:
        raise ValueError("not a version: %r" % (version,))
    release = [int(part) for part in found.group(1).split(".")]
    while release and release[-1] == 0:
        release.pop()
    before = (found.group(2) or "").lower()[:1].replace("c", "r").replace("p", "r")
    stage = ("d", 0) if found.group(5) and not before else (before or "z", int(found.group(3) or 0))
    return release, stage, int(found.group(4) or 0), 0 if found.group(5) else 1


class TorchVersion(str):
    """A version: TorchVersion("2.15.0") > "2.9", > (2, 9)."""

    def __lt__(self, other: Any) -> bool:
        return _key(self) < _key(other)

    def __le__(self, other: Any) -> bool:
        return _key(self) <= _key(other)

    def __gt__(self, other: Any) -> bool:
        return _key(self) > _key(other)

    def __ge__(self, other: Any) -> bool:
        return _key(self) >= _key(other)

    def __eq__(self, other: Any) -> bool:
        if isinstance(other, str) and str.__eq__(self, other):
            return True
        try:
            return _key(self) == _key(other)
        except ValueError:
            return False

    def __ne__(self, other: Any) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return str.__hash__(self)
