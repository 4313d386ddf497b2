"""What programs take out of torch._jit_internal: marks for a compiler of source code, which is not there.

Place in the flow: decorators at module level. Invariant: a mark changes nothing of what it marks."""
from __future__ import annotations

from typing import Any, Callable, Dict, Final, List, Optional, Tuple, TypeVar, Union

from .futures import Future

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "Final", "Future",
           "FunctionModifiers",
           "List", "Optional", "Tuple", "Union", "boolean_dispatch", "export", "ignore", "is_scripting", "unused"]

_Code = TypeVar("_Code")


class BroadcastingListCls:
    """BroadcastingList2[int] in an annotation: an int, or two."""

    def __getitem__(self, types: Any) -> Any:
        return None


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = BroadcastingListCls()
BroadcastingList4 = BroadcastingList5 = BroadcastingList6 = BroadcastingList1


class FunctionModifiers:
    """What marks of functions are called."""
    UNUSED = "unused (ignored and replaced with raising of an exception)"
    IGNORE = "ignore (leave as a call to Python, cannot be torch.jit.save'd)"
    EXPORT = "export (compile this function even if nothing calls it)"
    DEFAULT = "default (if called from a exported method / forward)"
    COPY_TO_SCRIPT_WRAPPER = "if this method is not scripted, copy the python method onto the scripted model"


def export(fn: _Code) -> _Code:
    """The function itself."""
    return fn


unused = _overload = _overload_method = _copy_to_script_wrapper = export


def ignore(drop: Any = False, **kwargs: Any) -> Any:  # unused: kwargs (of saved code, which there is none of)
    """The function itself."""
    return drop if callable(drop) else lambda fn: fn


def is_scripting() -> bool:
    """Is this call part of a compilation of source code? Never."""
    return False


def boolean_dispatch(arg_name: str, arg_index: int, default: bool, if_true: Callable[..., Any],
                     if_false: Callable[..., Any], module_name: str, func_name: str) -> Callable[..., Any]:
    """A function that is one of two, by one of its arguments."""
    def fn(*args: Any, **kwargs: Any) -> Any:
        flag = kwargs.get(arg_name, args[arg_index] if arg_index < len(args) else default)
        return (if_true if flag else if_false)(*args, **kwargs)
    fn.__doc__ = if_true.__doc__ or if_false.__doc__
    fn.__name__, fn.__module__ = func_name, module_name
    return fn
