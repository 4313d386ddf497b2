"""How the library was built, as text."""
from __future__ import annotations

from . import _C

__all__ = ["parallel_info", "show"]


def show() -> str:
    """The version, and the instructions that it uses here."""
    from .version import __version__
    return "cairn %s\n  - threads: %d\n" % (__version__, _C.get_num_threads())


def parallel_info() -> str:
    """How many threads compute."""
    return "get_num_threads() : %d\n" % _C.get_num_threads()
