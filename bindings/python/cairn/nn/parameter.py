"""Parameter and Buffer: tensors that a module takes up when they are assigned to it."""
from __future__ import annotations

import copy
from typing import Any, SupportsIndex

from .. import _C
from .._tensor import Tensor

__all__ = ["Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter", "UninitializedTensorMixin",
           "is_lazy"]


class Parameter(Tensor):
    """A tensor that is trained. Assigned to an attribute of a module it is one of the module's parameters."""

    __module__ = "cairn.nn.parameter"

    def __new__(cls, data: Any = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = _C.empty((0,))
        if not isinstance(data, Tensor):
            raise TypeError("Parameter: expected a Tensor, not %s" % type(data).__name__)
        # A tensor with the same memory, but no view: p.data = other must reach all who hold it.
        new: Any = _C.TensorBase.__new__
        made = new(cls, 0)
        made._set_data(data)
        if requires_grad:
            made.requires_grad_(True)
        parameter: Parameter = made
        return parameter

    def __init__(self, data: Any = None, requires_grad: bool = True,
                 **more: Any) -> None:  # unused: data, requires_grad (__new__ takes them)
        if more and type(self).__new__ is Parameter.__new__:  # a derived class may take what it likes
            raise TypeError("Parameter.__init__() got an unexpected keyword argument %r" % next(iter(more)))

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        if id(self) in memo:
            known: Parameter = memo[id(self)]
            return known
        made = Parameter.__new__(type(self), self.detach().clone(), self.requires_grad)
        memo[id(self)] = made
        if self.grad is not None:
            made.grad = copy.deepcopy(self.grad, memo)
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    def __repr__(self) -> str:
        return "Parameter containing:\n" + super().__repr__()

    def __reduce_ex__(self, protocol: SupportsIndex) -> Any:
        return _rebuild, (type(self), self.detach(), self.requires_grad, self.__dict__ or None)


class Buffer(Tensor):
    """A tensor that belongs to a module and is not trained; persistent ones are in its state dictionary."""

    __module__ = "cairn.nn.parameter"
    persistent: bool

    def __new__(cls, data: Any = None, *, persistent: bool = True) -> Buffer:
        if data is None:
            data = _C.empty((0,))
        made: Any = _C.TensorBase.__new__(cls, data)
        made.persistent = persistent
        buffer: Buffer = made
        return buffer

    def __init__(self, data: Any = None, *,
                 persistent: bool = True) -> None:  # unused: data, persistent (__new__ takes them)
        pass


class UninitializedTensorMixin:
    """What the two classes below share: a tensor whose shape is not known yet."""

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Gives it memory of that shape, uninitialised; from then on it is a Parameter or a Tensor."""
        made = _C.empty(tuple(shape), device=self.device if device is None else device,
                        dtype=self.dtype if dtype is None else dtype)
        self.__class__ = self.cls_to_become
        self.data = made

    def __repr__(self: Any) -> str:
        return "<%s>" % type(self).__name__


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet."""

    cls_to_become = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> Any:
        return Parameter.__new__(cls, _C.empty((0,), device=device, dtype=dtype), requires_grad)

    def __init__(self, requires_grad: bool = True, device: Any = None,
                 dtype: Any = None) -> None:  # unused: requires_grad, device, dtype (__new__ takes them)
        pass


class UninitializedBuffer(UninitializedTensorMixin, Buffer):
    """A buffer whose shape is not known yet."""

    cls_to_become = Buffer

    def __new__(cls, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                persistent: bool = True) -> Any:
        made = Buffer.__new__(cls, _C.empty((0,), device=device, dtype=dtype), persistent=persistent)
        return made.requires_grad_() if requires_grad else made

    def __init__(self, requires_grad: bool = False, device: Any = None, dtype: Any = None,
                 persistent: bool = True) -> None:  # unused: requires_grad, device, dtype, persistent (see __new__)
        pass


def is_lazy(param: Any) -> bool:
    """Is its shape not known yet?"""
    return isinstance(param, UninitializedTensorMixin)


def _rebuild(cls: type[Parameter], data: Tensor, requires_grad: bool, state: dict[str, Any] | None) -> Parameter:
    """The parameter that pickle took apart."""
    made = Parameter.__new__(cls, data, requires_grad)
    if state:
        made.__dict__.update(state)
    return made
