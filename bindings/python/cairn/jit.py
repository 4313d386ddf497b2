"""cairn.jit: torch's older ways to ask that code be compiled, for programs that contain them.

Place in the flow: names of cairn that are loaded when a program asks for them. What torch promises of compiled code
is that it computes the same, perhaps faster; here it is the code itself, whose ops run in C as they are called. Saving
such code is refused: there is no file of it that a program without its source could run.
"""
from __future__ import annotations

from typing import Any, Callable, NoReturn, TypeVar

from . import nn
from ._arguments import only_speed
from .compiler import compile

__all__ = ["ScriptModule", "compile", "export", "ignore", "is_scripting", "is_tracing", "load", "save", "script",
           "script_method", "trace", "unused"]

_Code = TypeVar("_Code", bound=Callable[..., Any])


def script(obj: _Code, optimize: Any = None, _frames_up: int = 0, _rcb: Any = None,
           example_inputs: Any = None) -> _Code:
    """The function, class or module itself."""
    if not callable(obj):
        raise TypeError("script: expected a function, a class or a module, not %s" % type(obj).__name__)
    only_speed("script", optimize=optimize)
    only_speed("script", example_inputs=example_inputs)
    return obj


def trace(func: _Code, example_inputs: Any = None, **how: Any) -> _Code:
    """The function or module itself, after one call with the examples, as torch makes it: a tensor, a tuple of
    arguments, or example_kwarg_inputs."""
    named = how.get("example_kwarg_inputs")
    if named is not None:
        func(**named)
    elif isinstance(example_inputs, (tuple, list)):
        func(*example_inputs)
    elif example_inputs is not None:
        func(example_inputs)
    return func


def ignore(drop: Any = False, **how: Any) -> Any:  # unused: how (of saved code, which there is none of)
    """A decorator of methods that are not compiled; none is."""
    return drop if callable(drop) else lambda code: code


def script_method(fn: _Code) -> _Code:
    """A decorator of the methods of a ScriptModule; the method itself."""
    return fn


unused = export = script_method


class ScriptModule(nn.Module):
    """A module whose methods would be compiled."""


def is_scripting() -> bool:
    """Is this call part of a compilation? Never."""
    return False


is_tracing = is_scripting


def save(m: Any, f: Any, _extra_files: Any = None) -> NoReturn:
    """Refused."""
    raise NotImplementedError("jit.save: code cannot be saved; cairn.save keeps a module's state_dict")


def load(f: Any, map_location: Any = None, _extra_files: Any = None, _restore_shapes: bool = False) -> NoReturn:
    """Refused."""
    raise NotImplementedError("jit.load: code is not read from files; load a state_dict with cairn.load")
