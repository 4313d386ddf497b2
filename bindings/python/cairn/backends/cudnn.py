"""cairn.backends.cudnn: settings of convolutions on a GPU, where cuDNN computes them.

`allow_tf32` lets convolutions of float32 round their factors (False at first: float32 is float32 until a program says
otherwise), `deterministic` keeps to those that repeat their results bit for bit; the CPU's do, and round nothing. Which
engines of cuDNN are tried is cairn's choice: `benchmark`, its limit and `enabled` would change speed alone, and warn
once. `conv.fp32_precision` ("ieee", "tf32") is allow_tf32 by its newer name, and so is the module's own; layers of
recurrent networks multiply as other matrices do, so that `rnn.fp32_precision` is backends.cuda.matmul's.
"""
from __future__ import annotations

import contextlib
import sys
from types import ModuleType
from typing import Any, Iterator

from .. import _C
from .._arguments import only_speed
from .cuda import matmul

__all__ = ["allow_tf32", "benchmark", "benchmark_limit", "conv", "deterministic", "enabled", "flags",
           "fp32_precision", "is_acceptable", "is_available", "rnn", "set_flags", "version"]

enabled = True
benchmark = False
deterministic = False
allow_tf32 = False
benchmark_limit: int | None = 10


fp32_precision: str  # see _Settings


class _Rounding:
    """The permission of one kind of op."""

    _where: str

    def __init__(self, where: str) -> None:
        self.__dict__["_where"] = where

    @property
    def fp32_precision(self) -> str:
        """Are factors of float32 taken as they are ("ieee"), or may they be rounded ("tf32")?"""
        return matmul.fp32_precision if self._where == "rnn" else "tf32" if _C._numerics()[1] else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError("backends.cudnn.%s.fp32_precision: expected 'ieee' or 'tf32', not %r"
                               % (self._where, value))
        if self._where == "rnn":
            matmul.fp32_precision = value
        else:
            sys.modules[__name__].allow_tf32 = value == "tf32"  # type: ignore[attr-defined]

    def __setattr__(self, name: str, value: Any) -> None:
        if name != "fp32_precision":
            raise AttributeError("backends.cudnn.%s has no setting %r" % (self._where, name))
        super().__setattr__(name, value)


conv, rnn = _Rounding("conv"), _Rounding("rnn")


class _Settings(ModuleType):
    """This module, so that an assignment to a setting is noticed."""

    @property
    def fp32_precision(self) -> str:
        """Convolutions' (conv.fp32_precision); setting it sets recurrent layers', too."""
        return conv.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        conv.fp32_precision = rnn.fp32_precision = value

    def __setattr__(self, name: str, value: Any) -> None:
        if not name.startswith("__") and name not in __all__:
            raise AttributeError("backends.cudnn has no setting %r" % name)
        if name in ("benchmark", "enabled"):
            only_speed("backends.cudnn", name == "enabled", **{name: bool(value)})
        if name == "benchmark_limit":
            only_speed("backends.cudnn", 10, benchmark_limit=value)
        precision, rounds, mode = _C._numerics()
        if name == "allow_tf32":
            _C._numerics(precision, int(bool(value)), mode)
        if name == "deterministic" and mode <= 1:       # more than that is use_deterministic_algorithms' matter
            _C._numerics(precision, rounds, int(bool(value)))
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
          deterministic: bool = False, allow_tf32: bool | None = None) -> Iterator[None]:
    """The settings as given inside, as before afterwards; allow_tf32 stays what it is where it is not given (torch's
    default allows it)."""
    before = set_flags(enabled, benchmark, benchmark_limit, deterministic, allow_tf32)
    try:
        yield
    finally:
        set_flags(*before)
