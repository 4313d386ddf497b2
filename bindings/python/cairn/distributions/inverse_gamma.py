"""InverseGamma: one divided by a gamma number."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn

from . import constraints
from .gamma import Gamma
from .transformed_distribution import TransformedDistribution
from .transforms import PowerTransform

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter

__all__ = ["InverseGamma"]


class InverseGamma(TransformedDistribution):
    """1 / x of a Gamma(concentration, rate) x."""

    arg_constraints = {"concentration": constraints.positive, "rate": constraints.positive}
    support = constraints.positive
    has_rsample = True
    base_dist: Gamma

    def __init__(self, concentration: Parameter, rate: Parameter, validate_args: bool | None = None) -> None:
        base = Gamma(concentration, rate, validate_args=validate_args)
        super().__init__(base, PowerTransform(-base.rate.new_ones(())), validate_args=validate_args)

    @property
    def concentration(self) -> Tensor:
        """That of the gamma number."""
        return self.base_dist.concentration

    @property
    def rate(self) -> Tensor:
        """That of the gamma number: the scale of this one."""
        return self.base_dist.rate

    @property
    def mean(self) -> Tensor:
        """inf for a concentration up to 1."""
        return cn.where(self.concentration > 1, self.rate / (self.concentration - 1), cn.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        """inf for a concentration up to 2."""
        a = self.concentration
        return cn.where(a > 2, self.rate.square() / ((a - 1).square() * (a - 2)), cn.inf)

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + self.rate.log() + a.lgamma() - (1 + a) * a.digamma()
