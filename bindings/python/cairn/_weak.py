"""Floats that stand for an input of the graph that is being captured.

Place in the flow: cairn.compile calls a function with these in the place of its float arguments. An op that takes a
number for a tensor takes the input (the C side knows the class); whoever else asks for the number reads it, and is
noted: the float is a part of the program then, and of its key. Nothing can read the number without being noted: the
class is none of Python's numbers, and only says that it is float. What compares types themselves is found by the names
in the code that runs (see watched).
"""
from __future__ import annotations

import os
import sys
from types import FrameType
from typing import Any, Callable

from . import _C
from ._tensor import Tensor

__all__ = ["Weak", "watched"]


class Weak:
    """A float, as an input. noted: called when its value is read."""
    __slots__ = ("_tensor", "_value", "_noted")
    _tensor: Tensor
    _value: float
    _noted: Callable[[], None]

    def __init__(self, tensor: Tensor, value: float, noted: Callable[[], None]) -> None:
        object.__setattr__(self, "_tensor", tensor)
        object.__setattr__(self, "_value", value)
        object.__setattr__(self, "_noted", noted)

    def forget(self) -> None:
        """The capture is over: it is a number like others."""
        object.__setattr__(self, "_noted", lambda: None)

    __class__ = property(lambda self: float)

    def __float__(self) -> float:
        self._noted()
        return self._value

    def __getattr__(self, name: str) -> Any:
        return getattr(float(self), name)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return float, (float(self),)


def _unary(name: str) -> Callable[[Weak], Any]:
    def read(self: Weak) -> Any:
        return getattr(float(self), name)()
    return read


def _binary(name: str) -> Callable[[Weak, Any], Any]:
    def read(self: Weak, *others: Any) -> Any:
        if any(isinstance(other, Tensor) for other in others):
            return NotImplemented  # the tensor's own method takes the input
        return getattr(float(self), name)(*(float(o) if type(o) is Weak else o for o in others))
    return read


for _name in "__bool__ __int__ __trunc__ __floor__ __ceil__ __neg__ __pos__ __abs__ __hash__ __str__ __repr__".split():
    setattr(Weak, _name, _unary(_name))
for _name in ("add sub mul truediv floordiv mod divmod pow").split():
    setattr(Weak, "__%s__" % _name, _binary("__%s__" % _name))
    setattr(Weak, "__r%s__" % _name, _binary("__r%s__" % _name))
for _name in ("__eq__ __ne__ __lt__ __le__ __gt__ __ge__ __round__ __format__").split():
    setattr(Weak, _name, _binary(_name))

_C._set_weak_class(Weak)
_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep


class watched:
    """While it is open: notes whether code that runs asks for types as such, outside of this package."""

    def __init__(self) -> None:
        self.asks_types = False

    def __enter__(self) -> watched:
        self._before: Any = sys.getprofile()
        sys.setprofile(self._called)
        return self

    def __exit__(self, *what: Any) -> None:
        sys.setprofile(self._before)

    def _called(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and "type" in frame.f_code.co_names and not frame.f_code.co_filename.startswith(_HERE):
            self.asks_types = True
        if self._before is not None:
            self._before(frame, event, arg)
