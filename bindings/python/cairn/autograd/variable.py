"""cairn.autograd.Variable: from the time when tensors recorded nothing and had to be wrapped for it."""
from __future__ import annotations

from typing import Any

from .. import _C
from .._arguments import note_once
from .._tensor import Tensor

__all__ = ["Variable"]


class _Meta(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor)

    def __call__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        """The tensor over the same memory, as a leaf."""
        if volatile:
            note_once("volatile was removed and now has no effect. Use `with no_grad():` instead.")
        if data is None:
            data = _C.empty((0,))
        if not isinstance(data, Tensor):
            raise TypeError("Variable data has to be a tensor, but got %s" % type(data).__name__)
        made = data.detach()
        return made.requires_grad_() if requires_grad else made


class Variable(metaclass=_Meta):
    """Variable(tensor, requires_grad=False): a Tensor. Every Tensor is an instance of this class."""
