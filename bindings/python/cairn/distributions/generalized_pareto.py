"""GeneralizedPareto: what lies above a threshold."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import constraints
from .distribution import Distribution
from .utils import broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Parameter, Shape

__all__ = ["GeneralizedPareto"]


class GeneralizedPareto(Distribution):
    """Values from loc on whose chance to exceed x is (1 + concentration z)^(-1 / concentration), z being (x - loc) /
    scale; exp(-z) for a concentration of 0. They end at loc - scale / concentration where that is negative."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive, "concentration": constraints.real}
    has_rsample = True
    loc: Tensor
    scale: Tensor
    concentration: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, concentration: Parameter,
                 validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @constraints.dependent_property(is_discrete=False, event_dim=0)
    def support(self) -> Constraint:
        end = cn.where(self.concentration < 0, self.loc - self.scale / self._safe()[1], cn.inf)
        return constraints.interval(self.loc, end)

    def _safe(self) -> tuple[Tensor, Tensor]:
        """Whether the concentration is 0, and one that may be divided by."""
        zero = cn.isclose(self.concentration, cn.zeros_like(self.concentration))
        return zero, cn.where(zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(cn.rand(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _z(self, value: Tensor) -> Tensor:
        return (value - self.loc) / self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        zero, k = self._safe()
        z = self._z(value)
        return -self.scale.log() + cn.where(zero, -z, -(1 / k + 1) * cn.where(zero, 0.0, k * z).log1p())

    def log_survival_function(self, value: Tensor) -> Tensor:
        """The logarithm of the probability of what is above the value."""
        if self._validate_args:
            self._validate_sample(value)
        zero, k = self._safe()
        z = self._z(value)
        return cn.where(zero, -z, -cn.where(zero, 0.0, k * z).log1p() / k)

    def log_cdf(self, value: Tensor) -> Tensor:
        """The logarithm of cdf."""
        return (-self.log_survival_function(value).exp()).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        return self.log_cdf(value).exp()

    def icdf(self, value: Tensor) -> Tensor:
        zero, k = self._safe()
        log_above = (-value).log1p()
        return self.loc + self.scale * cn.where(zero, -log_above, (-k * log_above).expm1() / k)

    @property
    def mean(self) -> Tensor:
        """inf for a concentration of 1 or more."""
        finite = self.concentration < 1
        return cn.where(finite, self.loc + self.scale / (1 - cn.where(finite, self.concentration, 0.0)), cn.inf)

    @property
    def variance(self) -> Tensor:
        """inf for a concentration of 1/2 or more."""
        finite = self.concentration < 0.5
        k = cn.where(finite, self.concentration, 0.0)
        return cn.where(finite, self.scale ** 2 / ((1 - k) ** 2 * (1 - 2 * k)), cn.inf)

    def entropy(self) -> Tensor:
        return self.scale.log() + self.concentration + 1

    @property
    def mode(self) -> Tensor:
        return self.loc
