"""Weibull: the life of what wears out."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn

from . import constraints
from .exponential import Exponential
from .transformed_distribution import TransformedDistribution
from .transforms import AffineTransform, PowerTransform
from .utils import broadcast_all, euler_constant

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter

__all__ = ["Weibull"]


class Weibull(TransformedDistribution):
    """scale x^(1 / concentration) of an exponential x."""

    arg_constraints = {"scale": constraints.positive, "concentration": constraints.positive}
    support = constraints.positive
    scale: Tensor
    concentration: Tensor

    def __init__(self, scale: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(cn.ones_like(self.scale), validate_args=validate_args)
        super().__init__(base, [PowerTransform(self.concentration.reciprocal()), AffineTransform(0, self.scale)],
                         validate_args=validate_args)

    def _moment(self, n: int) -> Tensor:
        """The mean of the n-th power, of scale 1."""
        return (1 + n * self.concentration.reciprocal()).lgamma().exp()

    @property
    def mean(self) -> Tensor:
        return self.scale * self._moment(1)

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        return self.scale * ((k - 1) / k).clamp(min=0) ** k.reciprocal()

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (self._moment(2) - self._moment(1).pow(2))

    def entropy(self) -> Tensor:
        k = self.concentration.reciprocal()
        return euler_constant * (1 - k) + (self.scale * k).log() + 1
