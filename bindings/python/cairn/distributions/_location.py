"""What distributions of all real numbers have in common that are placed by loc and stretched by scale: the parameters,
and that half of one (its absolute value) is a distribution too."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cairn as cn

from . import constraints
from .distribution import Distribution
from .transformed_distribution import TransformedDistribution
from .transforms import AbsTransform
from .utils import broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter

__all__ = ["Half", "LocationScale"]


class LocationScale(Distribution):
    """A density that is highest at loc, with a width of scale."""

    arg_constraints = {"loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    loc: Tensor
    scale: Tensor

    def __init__(self, loc: Parameter, scale: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, validate_args=validate_args)

    @property
    def mode(self) -> Tensor:
        return self.loc


class Half(TransformedDistribution):
    """|x| of an x around 0 with the given scale."""

    arg_constraints = {"scale": constraints.positive}
    support = constraints.nonnegative
    has_rsample = True
    base_dist: Any
    whole: type[LocationScale]

    def __init__(self, scale: Parameter, validate_args: bool | None = None) -> None:
        super().__init__(self.whole(0, scale, validate_args=False), AbsTransform(), validate_args=validate_args)

    @property
    def scale(self) -> Tensor:
        """That of x."""
        scale: Tensor = self.base_dist.scale
        return scale

    @property
    def mode(self) -> Tensor:
        return cn.zeros_like(self.scale)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value = cn.as_tensor(value, dtype=self.scale.dtype, device=self.scale.device)
        return cn.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -cn.inf)

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        below: Tensor = 2 * self.base_dist.cdf(value) - 1
        return below

    def icdf(self, value: Tensor) -> Tensor:
        at: Tensor = self.base_dist.icdf((value + 1) / 2)
        return at

    def entropy(self) -> Tensor:
        entropy: Tensor = self.base_dist.entropy() - math.log(2)
        return entropy
