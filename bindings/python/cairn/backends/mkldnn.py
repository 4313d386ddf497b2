"""cairn.backends.mkldnn: oneDNN, which cairn can hand work to where it is installed and the environment asks for it
(docs/PERFORMANCE.md). `enabled` is a hint that is kept.
"""
from __future__ import annotations

import contextlib
import ctypes.util
from typing import Iterator

__all__ = ["enabled", "flags", "is_available"]

enabled = True


def is_available() -> bool:
    """Whether the library is found on this machine."""
    return ctypes.util.find_library("dnnl") is not None


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """The hint as given inside, as before afterwards."""
    before = globals()["enabled"]
    globals()["enabled"] = enabled
    try:
        yield
    finally:
        globals()["enabled"] = before
