"""Activations as layers."""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .. import activations, regularizers
from .base import Layer

__all__ = ["ELU", "Activation", "ActivityRegularization", "LeakyReLU", "PReLU", "ReLU", "Softmax"]


class Activation(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(activation=activation)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self.activation(inputs)


class ReLU(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0,
                 **kwargs: Any) -> None:
        if "alpha" in kwargs:
            negative_slope = kwargs.pop("alpha")
        super().__init__(**kwargs)
        self._options(max_value=max_value, negative_slope=negative_slope, threshold=threshold)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    _float_inputs = supports_masking = True
    _not_options = ("alpha",)

    def __init__(self, negative_slope: float = 0.3, alpha: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(negative_slope=negative_slope if alpha is None else alpha)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.leaky_relu(inputs, self.negative_slope)


class ELU(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(alpha=alpha)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.elu(inputs, self.alpha)


class PReLU(Layer):
    """max(0, x) + alpha * min(0, x) with a learned alpha for each place; shared_axes: one along those."""

    _float_inputs = supports_masking = True

    def __init__(self, alpha_initializer: Any = "Zeros", alpha_regularizer: Any = None, alpha_constraint: Any = None,
                 shared_axes: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(alpha_initializer=alpha_initializer, alpha_regularizer=alpha_regularizer,
                      alpha_constraint=alpha_constraint)
        self.shared_axes = None if shared_axes is None else \
            list(shared_axes) if isinstance(shared_axes, (list, tuple)) else [shared_axes]

    def build(self, input_shape: Any) -> None:
        shared = self.shared_axes or ()
        self.alpha = self._weight("alpha", tuple(1 if i in shared else n for i, n in enumerate(input_shape) if i))
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.relu(inputs) - self.alpha * F.relu(-inputs)


class Softmax(Layer):
    """Over one dimension or several; places that a mask leaves out get nothing."""

    _float_inputs = supports_masking = True

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(axis=axis)
        self.built = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is not None:
            inputs = inputs.masked_fill(~mask.to(cairn.bool), -3e38 if inputs.dtype != cairn.float16 else -3e4)
        if isinstance(self.axis, (list, tuple)):
            if len(self.axis) > 1:
                return (inputs - inputs.logsumexp(tuple(self.axis), keepdim=True)).exp()
            return F.softmax(inputs, dim=self.axis[0])
        return F.softmax(inputs, dim=self.axis)


class ActivityRegularization(Layer):
    supports_masking = True
    _not_options = ("activity_regularizer",)

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=regularizers.L1L2(l1, l2), **kwargs)
        self._options(l1=l1, l2=l2)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs
