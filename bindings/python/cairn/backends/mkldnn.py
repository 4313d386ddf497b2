"""cairn.backends.mkldnn: oneDNN, which cairn can hand work to where it is installed and the environment asks for it
(docs/PERFORMANCE.md). The environment alone decides: `enabled` is kept, and warns once where it says otherwise.
"""
from __future__ import annotations

import contextlib
import ctypes.util
import os
import sys
from types import ModuleType
from typing import Any, Iterator

from .._arguments import note_once

__all__ = ["enabled", "flags", "is_available"]

enabled = True


class _Settings(ModuleType):
    """This module, so that an assignment to a setting is noticed."""

    def __setattr__(self, name: str, value: Any) -> None:
        asked = "=onednn" in os.environ.get("CAIRN_KERNEL", "")
        if name == "enabled" and asked and not value:
            note_once("backends.mkldnn: enabled=False has no effect: CAIRN_KERNEL asks for oneDNN")
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings


def is_available() -> bool:
    """Whether the library is found on this machine."""
    return ctypes.util.find_library("dnnl") is not None


@contextlib.contextmanager
def flags(enabled: bool = False) -> Iterator[None]:
    """The setting as given inside, as before afterwards."""
    here: Any = sys.modules[__name__]
    before = here.enabled
    here.enabled = enabled
    try:
        yield
    finally:
        here.enabled = before
