"""HalfCauchy: the absolute value of a Cauchy number."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cairn as cn

from . import constraints
from .cauchy import Cauchy
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter

__all__ = ["HalfCauchy"]


class HalfCauchy(TransformedDistribution):
    """|x| of a Cauchy x around 0 with the given scale."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Cauchy

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(Cauchy(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """The scale of the number itself."""
        return self.base_dist.scale

    @property
    def mean(self) -> Tensor:
        """inf"""
        return self.scale.new_full(self._extended_shape(), cn.inf)

    @property
    def mode(self) -> Tensor:
        return cn.zeros_like(self.scale)

    @property
    def variance(self) -> Tensor:
        """inf"""
        return self.base_dist.variance

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = cn.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return cn.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -cn.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return 2 * self.base_dist.cdf(value) - 1

    def icdf(self, value: Tensor) -> Tensor:
        return self.base_dist.icdf((value + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)
