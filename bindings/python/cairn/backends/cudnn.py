"""cairn.backends.cudnn: cairn has kernels of its own and does not use cuDNN.

`benchmark`, `deterministic`, `enabled` and `allow_tf32` can be set as programs do. cairn's kernels repeat their results
whatever they say, compute float32 in float32, and choose without trying out: what would be faster with cuDNN
(`benchmark`, `allow_tf32`) warns once.
"""
from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any, Iterator

from .._arguments import only_speed

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "deterministic", "enabled", "flags", "is_acceptable",
           "is_available", "set_flags", "version"]

enabled = True
benchmark = False
deterministic = False
allow_tf32 = False
benchmark_limit: int | None = 10


class _Settings(ModuleType):
    """This module, so that an assignment to a setting is noticed."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name in ("benchmark", "allow_tf32"):
            only_speed("backends.cudnn", False, **{name: bool(value)})
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings


def is_available() -> bool:
    """False: it is not used."""
    return False


def version() -> int | None:
    """None: it is not used."""
    return None


def is_acceptable(tensor: Any) -> bool:  # unused: tensor (none is given to it)
    """False: no tensor is given to it."""
    return False


def set_flags(_enabled: bool | None = None, _benchmark: bool | None = None, _benchmark_limit: int | None = None,
              _deterministic: bool | None = None, _allow_tf32: bool | None = None) -> tuple[Any, ...]:
    """Sets what is not None; returns the values before."""
    names = ("enabled", "benchmark", "benchmark_limit", "deterministic", "allow_tf32")
    before = tuple(globals()[name] for name in names)
    for name, value in zip(names, (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)):
        if value is not None:
            setattr(sys.modules[__name__], name, value)
    return before


@contextlib.contextmanager
def flags(enabled: bool = False, benchmark: bool = False, benchmark_limit: int | None = 10,
          deterministic: bool = False, allow_tf32: bool = True) -> Iterator[None]:
    """The settings as given inside, as before afterwards; allow_tf32, a permission by default, stays what it is."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, None if allow_tf32 else False)
    try:
        yield
    finally:
        set_flags(*before)
