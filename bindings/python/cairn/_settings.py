"""Settings of torch's top level that are permissions rather than commands: determinism, precision, threads.

Place in the flow: names of cairn that are loaded when a program asks for them. cairn's results do not depend on the
number of threads and its kernels add up in a fixed order, so there is nothing slower and more exact to switch to; what
a program sets is kept, so that it can be asked for again.
"""
from __future__ import annotations

from typing import Any

from . import _C
from ._arguments import only_speed, repeat_warnings, warnings_repeat

__all__ = ["are_deterministic_algorithms_enabled", "get_deterministic_debug_mode", "get_float32_matmul_precision",
           "get_num_interop_threads", "is_deterministic_algorithms_warn_only_enabled", "is_warn_always_enabled",
           "set_default_tensor_type", "set_deterministic_debug_mode", "set_float32_matmul_precision",
           "set_flush_denormal", "set_num_interop_threads", "set_warn_always", "use_deterministic_algorithms"]

_kept: dict[str, Any] = {"interop": 1}
_PRECISIONS = ("highest", "high", "medium")      # as cn_precision counts
_CONV = 1                                        # cn_deterministic: convolutions alone (backends.cudnn.deterministic)
_DEBUG = {"default": 0, "warn": 1, "error": 2}


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Asks for results that a second run repeats bit for bit. Those of the CPU always do. On a GPU kernels that add in
    no fixed order, or are chosen by a clock, give way to others; an op that has no others raises, or warns once."""
    set_deterministic_debug_mode(0 if not mode else 1 if warn_only else 2)


def are_deterministic_algorithms_enabled() -> bool:
    """Was use_deterministic_algorithms(True) called?"""
    return get_deterministic_debug_mode() > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Was it called with warn_only?"""
    return get_deterministic_debug_mode() == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """The same by number or name: 0 "default", 1 "warn", 2 "error"."""
    mode = _DEBUG.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in _DEBUG.values():
        raise RuntimeError("set_deterministic_debug_mode: expected 0, 1, 2 or one of %s, not %r" % (
            ", ".join(_DEBUG), debug_mode))
    from .backends import cudnn
    matmul, conv, _ = _C._numerics()
    _C._numerics(matmul, conv, mode + _CONV if mode else _CONV if cudnn.deterministic else 0)


def get_deterministic_debug_mode() -> int:
    """0, 1 or 2: see set_deterministic_debug_mode."""
    return max(0, int(_C._numerics()[2]) - _CONV)


def set_float32_matmul_precision(precision: str) -> None:
    """Allows products of float32 matrices to round their factors, to TF32 ("high") or bfloat16 ("medium"): GPUs
    multiply these on Tensor Cores, many times as fast. The CPU computes them in float32."""
    if precision not in _PRECISIONS:
        raise RuntimeError("set_float32_matmul_precision: expected 'highest', 'high' or 'medium', not %r" % precision)
    _C._numerics(_PRECISIONS.index(precision))


def get_float32_matmul_precision() -> str:
    """What set_float32_matmul_precision was given last; "highest" at first."""
    return _PRECISIONS[_C._numerics()[0]]


def set_num_interop_threads(n: int) -> None:
    """Threads for whole ops side by side. A hint: cairn runs one op at a time, with get_num_threads() threads."""
    if n <= 0:
        raise RuntimeError("set_num_interop_threads: expected a positive number, not %r" % (n,))
    only_speed("set_num_interop_threads", 1, n=n)
    _kept["interop"] = int(n)


def get_num_interop_threads() -> int:
    """What set_num_interop_threads was given last; 1 at first."""
    return int(_kept["interop"])


def set_flush_denormal(mode: bool) -> bool:
    """Asks for tiny numbers to become zero, or not. Is it so now? cairn keeps them: not when mode is True."""
    return not mode


def set_warn_always(b: bool) -> None:
    """Says warnings that come once each time; what is printed is the choice of the filters of `warnings`."""
    repeat_warnings(bool(b))


def is_warn_always_enabled() -> bool:
    """What set_warn_always was given last."""
    return warnings_repeat()


def set_default_tensor_type(t: Any) -> None:
    """The older set_default_dtype and set_default_device at once: cairn.FloatTensor, "cairn.cuda.DoubleTensor"."""
    from . import _legacy
    kind = _legacy.by_name(t) if isinstance(t, str) else t
    if not isinstance(kind, _legacy.TensorType):
        raise TypeError("invalid type object: only a floating-point tensor type (cairn.FloatTensor) can be the default")
    if not kind.dtype.is_floating_point:
        raise TypeError("only floating-point types are supported as the default type")
    _C.set_default_dtype(kind.dtype)
    _C.set_default_device("cuda" if kind.is_cuda else "cpu")
