"""Normalisations: over the batch, a layer, groups of channels, to unit length; (Normalization is in prepare.py)."""
from __future__ import annotations

from typing import Any

import cairn
from ..._arguments import refused
from ...nn import functional as F
from .base import Layer
from .windows import to_first, to_last

__all__ = ["BatchNormalization", "GroupNormalization", "LayerNormalization", "RMSNormalization", "UnitNormalization"]


class _Scaled(Layer):
    """With gamma and beta."""

    _float_inputs = supports_masking = True

    def _scaled(self, epsilon: float, center: bool, scale: bool, **options: Any) -> None:
        self._options(epsilon=epsilon, center=center, scale=scale, **options)
        self.gamma: Any = None
        self.beta: Any = None

    def _add_scale(self, shape: tuple[int, ...]) -> None:
        if self.scale:
            self.gamma = self._weight("gamma", shape)
        if self.center:
            self.beta = self._weight("beta", shape)


class BatchNormalization(_Scaled):
    """Numbers of mean 0 and size 1 over the batch while training, by moving means otherwise."""

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True,
                 scale: bool = True, beta_initializer: Any = "zeros", gamma_initializer: Any = "ones",
                 moving_mean_initializer: Any = "zeros", moving_variance_initializer: Any = "ones",
                 beta_regularizer: Any = None, gamma_regularizer: Any = None, beta_constraint: Any = None,
                 gamma_constraint: Any = None, renorm: bool = False, renorm_clipping: Any = None,
                 renorm_momentum: float = 0.99, synchronized: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        refused("BatchNormalization", "means and variances of batches are not corrected", False, renorm=renorm)
        refused("BatchNormalization", "it is for renorm=True", renorm_clipping=renorm_clipping)
        refused("BatchNormalization", "it is for renorm=True", 0.99, renorm_momentum=renorm_momentum)
        refused("BatchNormalization", "there is one replica", False, synchronized=synchronized)
        self._scaled(float(epsilon), center, scale, axis=_one(axis), momentum=float(momentum),
                     beta_initializer=beta_initializer, gamma_initializer=gamma_initializer,
                     moving_mean_initializer=moving_mean_initializer,
                     moving_variance_initializer=moving_variance_initializer, beta_regularizer=beta_regularizer,
                     gamma_regularizer=gamma_regularizer, beta_constraint=beta_constraint,
                     gamma_constraint=gamma_constraint)

    def build(self, input_shape: Any) -> None:
        n = (input_shape[self.axis],)
        self._add_scale(n)
        self.moving_mean = self._weight("moving_mean", n, trainable=False)
        self.moving_variance = self._weight("moving_variance", n, trainable=False)
        self.built = True

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        last = self.axis % inputs.ndim == inputs.ndim - 1 and inputs.ndim > 2
        x = to_first(inputs) if last else inputs if self.axis % inputs.ndim == 1 else inputs.movedim(self.axis, 1)
        learn = bool(training) and self.trainable
        if learn and mask is not None:
            out = self._masked(x, mask)
        else:
            out = F.batch_norm(x, None if learn else self.moving_mean.detach(),
                               None if learn else self.moving_variance.detach(), self.gamma, self.beta, learn,
                               1.0 - self.momentum, self.epsilon)
            if learn:
                dims = [i for i in range(x.ndim) if i != 1]
                self._move(x.detach().mean(dims), x.detach().var(dims, correction=0))
        if last:
            return to_last(out)
        return out if self.axis % inputs.ndim == 1 else out.movedim(1, self.axis)

    def _masked(self, x: Any, mask: Any) -> Any:
        """x (N, C, ...) by means over the places that count; mask (N, ...)."""
        dims = [i for i in range(x.ndim) if i != 1]
        seen = mask.to(x.dtype).unsqueeze(1)
        many = seen.sum() + 1e-7
        wide = [-1 if i == 1 else 1 for i in range(x.ndim)]
        mean = (x * seen).sum(dims) / many
        variance = ((x - mean.reshape(wide)).square() * seen).sum(dims) / many
        self._move(mean.detach(), variance.detach())
        out = (x - mean.reshape(wide)) * (variance.reshape(wide) + self.epsilon).rsqrt()
        out = out if self.gamma is None else out * self.gamma.reshape(wide)
        return out if self.beta is None else out + self.beta.reshape(wide)

    def _move(self, mean: Any, variance: Any) -> None:
        """Moving means take a step to those of the batch; of variances as they are, not as estimates."""
        with cairn.no_grad():
            self.moving_mean.mul_(self.momentum).add_(mean, alpha=1.0 - self.momentum)
            self.moving_variance.mul_(self.momentum).add_(variance, alpha=1.0 - self.momentum)


def _one(axis: Any) -> int:
    return int(axis[0]) if isinstance(axis, (list, tuple)) else int(axis)


class LayerNormalization(_Scaled):
    """Over the dimensions of axis for each sample; gamma and beta have their sizes."""

    def __init__(self, axis: Any = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 beta_initializer: Any = "zeros", gamma_initializer: Any = "ones", beta_regularizer: Any = None,
                 gamma_regularizer: Any = None, beta_constraint: Any = None, gamma_constraint: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._scaled(epsilon, center, scale, axis=list(axis) if isinstance(axis, (list, tuple)) else axis,
                     beta_initializer=beta_initializer, gamma_initializer=gamma_initializer,
                     beta_regularizer=beta_regularizer, gamma_regularizer=gamma_regularizer,
                     beta_constraint=beta_constraint, gamma_constraint=gamma_constraint)

    def build(self, input_shape: Any) -> None:
        n = len(input_shape)
        self._axes = sorted(a % n for a in (self.axis if isinstance(self.axis, (list, tuple)) else (self.axis,)))
        self.sizes = tuple(int(input_shape[a]) for a in self._axes)
        self._add_scale(self.sizes)
        self.built = True

    def call(self, inputs: Any) -> Any:
        last = list(range(inputs.ndim - len(self._axes), inputs.ndim))
        if self._axes == last:
            return F.layer_norm(inputs, self.sizes, self.gamma, self.beta, self.epsilon)
        out = F.layer_norm(inputs.movedim(self._axes, last), self.sizes, self.gamma, self.beta, self.epsilon)
        return out.movedim(last, self._axes)


class RMSNormalization(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, axis: Any = -1, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(axis=axis, epsilon=epsilon)

    def build(self, input_shape: Any) -> None:
        n = len(input_shape)
        self._axes = sorted(a % n for a in (self.axis if isinstance(self.axis, (list, tuple)) else (self.axis,)))
        self.scale = self.add_weight(tuple(int(input_shape[a]) for a in self._axes), "ones", name="scale")
        self.built = True

    def call(self, inputs: Any) -> Any:
        last = list(range(inputs.ndim - len(self._axes), inputs.ndim))
        x = inputs if self._axes == last else inputs.movedim(self._axes, last)
        out = F.rms_norm(x, tuple(self.scale.shape), self.scale, self.epsilon)
        return out if self._axes == last else out.movedim(last, self._axes)


class GroupNormalization(_Scaled):
    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True,
                 scale: bool = True, beta_initializer: Any = "zeros", gamma_initializer: Any = "ones",
                 beta_regularizer: Any = None, gamma_regularizer: Any = None, beta_constraint: Any = None,
                 gamma_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._scaled(epsilon, center, scale, groups=groups, axis=axis, beta_initializer=beta_initializer,
                     gamma_initializer=gamma_initializer, beta_regularizer=beta_regularizer,
                     gamma_regularizer=gamma_regularizer, beta_constraint=beta_constraint,
                     gamma_constraint=gamma_constraint)

    def build(self, input_shape: Any) -> None:
        n = int(input_shape[self.axis])
        if self.groups == -1:
            self._options(groups=n)
        if n % self.groups:
            raise ValueError("%s: %d channels cannot be split into %d groups" % (self.name, n, self.groups))
        self._add_scale((n,))
        self.built = True

    def call(self, inputs: Any) -> Any:
        x = inputs.movedim(self.axis, 1)
        return F.group_norm(x, self.groups, self.gamma, self.beta, self.epsilon).movedim(1, self.axis)


class UnitNormalization(Layer):
    """Divided by its length along axis."""

    _float_inputs = supports_masking = True

    def __init__(self, axis: Any = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(axis=list(axis) if isinstance(axis, (list, tuple)) else axis)
        self.built = True

    def call(self, inputs: Any) -> Any:
        dims = tuple(self.axis) if isinstance(self.axis, (list, tuple)) else self.axis
        return inputs * inputs.square().sum(dims, keepdim=True).clamp(min=1e-24).rsqrt()
