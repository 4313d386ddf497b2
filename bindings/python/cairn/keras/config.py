"""keras.config: settings of the program."""
from __future__ import annotations

from .._training.settings import interactive, set_interactive
from .backend import (backend as backend, epsilon as epsilon, floatx as floatx, image_data_format as image_data_format,
                      set_epsilon as set_epsilon, set_floatx as set_floatx,
                      set_image_data_format as set_image_data_format)
from .dtype_policies import dtype_policy as dtype_policy, set_dtype_policy as set_dtype_policy

__all__ = ["backend", "disable_interactive_logging", "disable_traceback_filtering", "dtype_policy",
           "enable_interactive_logging", "enable_traceback_filtering", "enable_unsafe_deserialization", "epsilon",
           "floatx", "image_data_format", "is_interactive_logging_enabled", "is_traceback_filtering_enabled",
           "set_dtype_policy", "set_epsilon", "set_floatx", "set_image_data_format"]

def enable_interactive_logging() -> None:
    """fit() and its kin show a bar when they are not told otherwise."""
    set_interactive(True)


def disable_interactive_logging() -> None:
    """fit() and its kin write one line an epoch when they are not told otherwise."""
    set_interactive(False)


def is_interactive_logging_enabled() -> bool:
    return interactive()


def enable_traceback_filtering() -> None:
    """Tracebacks are Python's own: nothing is left out of them."""


def disable_traceback_filtering() -> None:
    """Tracebacks are Python's own: nothing is left out of them."""


def is_traceback_filtering_enabled() -> bool:
    return False


def enable_unsafe_deserialization() -> None:
    """Code in files is never run, so this cannot be had."""
    raise NotImplementedError("code in a model's file is not run here: give functions as custom_objects instead")
