"""Kumaraswamy: much like Beta, with formulas for everything."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn

from . import constraints
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .uniform import Uniform
from .utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter

__all__ = ["Kumaraswamy"]


class Kumaraswamy(TransformedDistribution):
    """Numbers from 0 to 1 whose chance to exceed x is (1 - x^concentration1)^concentration0."""

    arg_constraints = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support = constraints.unit_interval
    has_rsample = True
    concentration1: Tensor
    concentration0: Tensor

    def __init__(self, concentration1: Parameter, concentration0: Parameter,
                 validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(cn.zeros_like(self.concentration0), cn.ones_like(self.concentration0),
                       validate_args=validate_args)
        super().__init__(base, [PowerTransform(self.concentration0.reciprocal()), AffineTransform(1.0, -1.0),
                                PowerTransform(self.concentration1.reciprocal())], validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """The mean of the n-th power: b B(1 + n / a, b)."""
        a, b = self.concentration1, self.concentration0
        first = 1 + n / a
        return (b.log() + first.lgamma() + b.lgamma() - (first + b).lgamma()).exp()

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        """nan where the density has no peak inside."""
        a, b = self.concentration1, self.concentration0
        inside = ((a > 1) & (b >= 1)) | ((a >= 1) & (b > 1))
        mode = ((a - 1) / (a * b - 1)).clamp(min=0) ** a.reciprocal()
        return cn.where(inside, mode, cn.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1).pow(2)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = (b + 1).digamma() + euler_constant
        return (1 - b.reciprocal()) + (1 - a.reciprocal()) * harmonic - a.log() - b.log()
