"""cairn.cuda.tunable: torch's switches for products that are timed and kept in files.

Place in the flow: names that programs call before they begin. cairn times large products by itself, the first time it
meets a shape (docs/CUDA.md), and keeps no file of them. Invariant: what asks gets what is; what would change only speed
is noted once; what reads or writes such a file raises.
"""
from __future__ import annotations

from typing import Any, Callable

from .. import _absent
from .._arguments import only_speed

__all__ = ["enable", "get_filename", "get_max_tuning_duration", "get_max_tuning_iterations", "get_results",
           "get_rotating_buffer_size", "get_validators", "is_enabled", "mgpu_tune_gemm_in_file", "read_file",
           "record_untuned_enable", "record_untuned_is_enabled", "set_filename", "set_max_tuning_duration",
           "set_max_tuning_iterations", "set_numerical_check_tolerances", "set_rotating_buffer_size",
           "tune_gemm_in_file", "tuning_enable", "tuning_is_enabled", "wildcard_fallback_enable",
           "wildcard_fallback_is_enabled"]


def enable(val: bool = True) -> None:
    """Products are timed as docs/CUDA.md says, whatever is asked for here."""
    only_speed("tunable.enable", False, val=val)


def is_enabled() -> bool:
    """False: products are not chosen by torch's TunableOp."""
    return False


def tuning_enable(val: bool = True) -> None:
    """See enable()."""
    only_speed("tunable.tuning_enable", False, val=val)


tuning_is_enabled = is_enabled


def record_untuned_enable(val: bool = True) -> None:
    """See enable()."""
    only_speed("tunable.record_untuned_enable", False, val=val)


record_untuned_is_enabled = is_enabled


def wildcard_fallback_enable(val: bool = True) -> None:
    """See enable()."""
    only_speed("tunable.wildcard_fallback_enable", False, val=val)


wildcard_fallback_is_enabled = is_enabled


def set_max_tuning_duration(duration: int) -> None:
    """See enable()."""
    only_speed("tunable.set_max_tuning_duration", 0, duration=duration)


def set_max_tuning_iterations(iterations: int) -> None:
    """See enable()."""
    only_speed("tunable.set_max_tuning_iterations", 0, iterations=iterations)


def set_rotating_buffer_size(buffer_size: int) -> None:
    """See enable()."""
    only_speed("tunable.set_rotating_buffer_size", 0, buffer_size=buffer_size)


def get_max_tuning_duration() -> int:
    """0: nothing is tuned so."""
    return 0


get_max_tuning_iterations = get_rotating_buffer_size = get_max_tuning_duration


def get_results() -> tuple[Any, ...]:
    """Nothing was tuned so."""
    return ()


get_validators = get_results


def get_filename() -> str:
    """There is no file."""
    return ""


_WHY = "cairn keeps no file of timed products"
read_file: Callable[..., Any]
set_filename: Callable[..., Any]
tune_gemm_in_file: Callable[..., Any]
mgpu_tune_gemm_in_file: Callable[..., Any]
set_numerical_check_tolerances: Callable[..., Any]
(read_file, set_filename, tune_gemm_in_file, mgpu_tune_gemm_in_file, set_numerical_check_tolerances) = (
    _absent.function(__name__, name, _WHY) for name in ("read_file", "set_filename", "tune_gemm_in_file",
                                                        "mgpu_tune_gemm_in_file", "set_numerical_check_tolerances"))
