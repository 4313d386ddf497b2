"""cairn.backends.cudnn: settings of convolutions on a GPU, where cuDNN computes them.

`allow_tf32` lets convolutions of float32 round their factors (False at first: float32 is float32 until a program says
otherwise), `deterministic` keeps to those that repeat their results bit for bit; the CPU's do, and round nothing. Which
engines of cuDNN are tried is cairn's choice: `benchmark` and `enabled` would change speed alone, and warn once.
"""
from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any, Iterator

from .. import _C
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
        if name in ("benchmark", "enabled"):
            only_speed("backends.cudnn", name == "enabled", **{name: bool(value)})
        matmul, conv, mode = _C._numerics()
        if name == "allow_tf32":
            _C._numerics(matmul, int(bool(value)), mode)
        if name == "deterministic" and mode <= 1:       # more than that is use_deterministic_algorithms' matter
            _C._numerics(matmul, conv, int(bool(value)))
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Settings


def is_available() -> bool:
    """Whether there is a GPU, where it is looked for."""
    from .. import cuda
    return cuda.is_available()


def version() -> int | None:
    """None: cairn opens whichever of cuDNN 9 there is when it first needs it."""
    return None


def is_acceptable(tensor: Any) -> bool:
    """Whether it lies where cuDNN could compute with it, in a type that it takes."""
    return bool(tensor.is_cuda and tensor.dtype in (_C.float32, _C.float16, _C.bfloat16))


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
