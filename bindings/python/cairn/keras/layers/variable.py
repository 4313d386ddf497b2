"""Variable: a weight of a layer's, which can be assigned to; Output: what a layer called by a program gives; Tracked: a
layer's list; modules in it are children."""
from __future__ import annotations

from typing import Any, Iterable

import cairn
from ... import nn
from ..._training.batches import to_tensor
from ..backend import dtype_of

__all__ = ["Output", "Tracked", "Variable", "as_output", "check_aggregation"]


def check_aggregation(how: Any) -> None:
    """Of the ways to join replicas of a variable: a process has one, so each of them gives the same."""
    if how not in (None, "none", "mean", "sum", "only_first_replica"):
        raise ValueError("aggregation is none, mean, sum or only_first_replica, not %r" % (how,))


class Output(cairn.Tensor):
    """A tensor that gives its numbers to numpy also when gradients are recorded, as those of Keras's programs do:
    model(x).numpy(). What is computed from it is one, too, and operands may be numpy's arrays."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = [a if isinstance(a, cairn.Tensor) or not hasattr(a, "__array__") else to_tensor(a) for a in args]
        return super().__torch_function__(func, types, args, kwargs)

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        return self.detach().as_subclass(cairn.Tensor).cpu().numpy(*args, **kwargs)

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        return self.detach().as_subclass(cairn.Tensor).cpu().__array__(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.as_subclass(cairn.Tensor))

    def __format__(self, how: str) -> str:
        return format(self.as_subclass(cairn.Tensor), how)


def as_output(value: Any) -> Any:
    """The tensor as an Output where gradients are recorded; any other value as it is."""
    if type(value) is not cairn.Tensor or not value.requires_grad:
        return value
    made = value.as_subclass(Output)
    if (mask := getattr(value, "_keras_mask", None)) is not None:
        made._keras_mask = mask
    return made


class Variable(nn.Parameter):
    """A weight: a parameter that can be assigned to."""

    def __new__(cls, initializer: Any = None, shape: Any = None, dtype: Any = None, trainable: bool = True,
                name: str | None = None) -> Any:  # unused: name (__init__ keeps it)
        if callable(initializer) and not isinstance(initializer, cairn.Tensor):
            initializer = initializer(shape, dtype)
        data = cairn.as_tensor(initializer)
        if dtype is not None:
            data = data.to(dtype_of(dtype))
        elif data.dtype == cairn.float64:
            data = data.to(cairn.get_default_dtype())
        return super().__new__(cls, data, trainable and data.dtype.is_floating_point)

    def __init__(self, initializer: Any = None, shape: Any = None, dtype: Any = None, trainable: bool = True,
                 name: str | None = None) -> None:  # unused: initializer, shape, dtype (__new__ takes them)
        self.trainable = trainable
        self.own_name = name or "variable"
        self.path = self.own_name
        self.regularizer: Any = None
        self.constraint: Any = None

    @property
    def value(self) -> Any:
        return self

    @property
    def shape(self) -> Any:
        return tuple(super().shape)

    def __repr__(self) -> str:
        return "<Variable path=%s, shape=%s, dtype=%s, value=%s>" % (
            self.path, self.shape, str(self.dtype).rpartition(".")[2], self.detach().tolist())

    @property
    def name(self) -> str:
        return self.own_name

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        return self.detach().cpu().numpy(*args, **kwargs)

    def assign(self, value: Any) -> Any:
        """Sets all numbers."""
        value = to_tensor(value)
        if tuple(value.shape) != tuple(self.shape):
            raise ValueError("cannot assign a value of shape %s to the variable %s of shape %s"
                             % (tuple(value.shape), self.own_name, tuple(self.shape)))
        with cairn.no_grad():
            self.copy_(value.detach())
        return self

    def assign_add(self, value: Any) -> Any:
        with cairn.no_grad():
            self.add_(to_tensor(value))
        return self

    def assign_sub(self, value: Any) -> Any:
        with cairn.no_grad():
            self.sub_(to_tensor(value))
        return self


class Tracked(list[Any]):
    """A list of a layer's: modules in it are its children."""

    def __init__(self, owner: Any, name: str, values: Iterable[Any]) -> None:
        super().__init__(values)
        self.owner, self.own_name = owner, name
        self.sync()

    def sync(self) -> None:
        for i, value in enumerate(self):
            if isinstance(value, nn.Module):
                self.owner.add_module("%s_%d" % (self.own_name, i), value)

    def append(self, value: Any) -> None:
        super().append(value)
        self.sync()

    def extend(self, values: Iterable[Any]) -> None:
        super().extend(values)
        self.sync()

    def insert(self, at: Any, value: Any) -> None:
        super().insert(at, value)
        self.sync()

    def __setitem__(self, at: Any, value: Any) -> None:
        super().__setitem__(at, value)
        self.sync()

    def __iadd__(self, values: Iterable[Any]) -> Tracked:  # type: ignore[misc]
        self.extend(values)
        return self
