"""Layers that learn the size of their input at the first call."""
from __future__ import annotations

from typing import Any

from .. import _C
from .._tensor import Tensor
from ..random import fork_rng
from . import _layers
from .layer import _Parametric
from .parameter import UninitializedBuffer, UninitializedParameter

__all__ = ["LazyBatchNorm1d", "LazyBatchNorm2d", "LazyBatchNorm3d", "LazyConv1d", "LazyConv2d", "LazyConv3d",
           "LazyConvTranspose1d", "LazyConvTranspose2d", "LazyConvTranspose3d", "LazyInstanceNorm1d",
           "LazyInstanceNorm2d", "LazyInstanceNorm3d", "LazyLinear", "UninitializedBuffer",
           "UninitializedParameter"]


class _Lazy(_Parametric):
    """Until the first call it is a module with nothing known but its arguments; then it becomes a layer proper."""

    _own_forward = False
    _becomes: Any
    _axis = 1

    def _wait(self, *args: Any, **kwargs: Any) -> None:
        self._begin()
        self._pending = (args, kwargs)
        for name in ("weight", "bias"):
            self.register_parameter(name, UninitializedParameter())

    def has_uninitialized_params(self) -> bool:
        return "_pending" in self.__dict__

    def initialize_parameters(self, input: Tensor, *rest: Any) -> None:  # unused: rest (the first input has the size)
        """Makes the layer for inputs of that size."""
        args, kwargs = self._pending
        training, layer, size = self.training, self._becomes, input.shape[self._axis]
        for name in list(self._parameters):
            del self._parameters[name]
        del self.__dict__["_pending"]
        self.__class__ = layer
        layer.__init__(self, size, *args, **kwargs)
        self.train(training)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        """What is not there yet will be made in the type and on the device that fn gives."""
        if self.has_uninitialized_params():
            kwargs = self._pending[1]
            made = fn(_C.empty((0,), dtype=kwargs.get("dtype"), device=kwargs.get("device")))
            self._pending = (self._pending[0], {**kwargs, "dtype": made.dtype, "device": made.device})
        return super()._apply(fn, recurse)

    def forward(self, input: Tensor, *args: Any, **kwargs: Any) -> Any:
        self.initialize_parameters(input)
        return self(input, *args, **kwargs)

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        key = prefix + "weight"
        if self.has_uninitialized_params() and key in state_dict:
            weight = state_dict[key]
            axis = 0 if "Norm" in self._becomes.__name__ or "Transpose" in self._becomes.__name__ else 1
            groups = self._pending[1].get("groups", 1) if axis else 1
            size = weight.shape[axis] * groups
            shape = [1, 1, 1, 1, 1]
            shape[self._axis] = size
            self.initialize_parameters(_C.empty(tuple(shape)))
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def extra_repr(self) -> str:
        if not self.has_uninitialized_params():
            return super().extra_repr()
        args, kwargs = self._pending
        with fork_rng():  # the layer as it would be with a size of zero
            try:
                return str(self._becomes(0, *args, **kwargs).extra_repr())
            except (RuntimeError, ValueError):
                return "lazy"


def _lazy(name: str, axis: int = 1) -> Any:
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        self._wait(*args, **kwargs)
    base = getattr(_layers, name)
    made = type("Lazy" + name, (_Lazy,), {"_becomes": base, "_axis": axis, "__init__": __init__,
                                         "__doc__": name + " that learns the size of its input at the first call.",
                                         "__module__": "cairn.nn", "_own_forward": False})
    return made


LazyLinear = _lazy("Linear", -1)
LazyConv1d, LazyConv2d, LazyConv3d = (_lazy("Conv%dd" % n, -n - 1) for n in (1, 2, 3))
LazyConvTranspose1d, LazyConvTranspose2d, LazyConvTranspose3d = (_lazy("ConvTranspose%dd" % n, -n - 1)
                                                                 for n in (1, 2, 3))
LazyBatchNorm1d, LazyBatchNorm2d, LazyBatchNorm3d = (_lazy("BatchNorm%dd" % n) for n in (1, 2, 3))
LazyInstanceNorm1d, LazyInstanceNorm2d, LazyInstanceNorm3d = (_lazy("InstanceNorm%dd" % n) for n in (1, 2, 3))
