"""Cauchy: tails so heavy that there is no mean."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from ._location import LocationScale

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Shape

__all__ = ["Cauchy"]


class Cauchy(LocationScale):
    """The density 1 / (pi scale (1 + ((x - loc) / scale)^2))."""

    @property
    def mean(self) -> Tensor:
        """nan: there is none."""
        return self.loc.new_full(self._extended_shape(), cn.nan)

    @property
    def variance(self) -> Tensor:
        """inf"""
        return self.loc.new_full(self._extended_shape(), cn.inf)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        return self.loc + self.loc.new_empty(self._extended_shape(sample_shape)).cauchy_() * self.scale

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return -math.log(math.pi) - self.scale.log() - (((value - self.loc) / self.scale) ** 2).log1p()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return ((value - self.loc) / self.scale).atan() / math.pi + 0.5

    def icdf(self, value: Tensor) -> Tensor:
        return (math.pi * (value - 0.5)).tan() * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + self.scale.log()
