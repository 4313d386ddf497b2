"""VonMises: the bell on a circle."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import _sampling, constraints
from .distribution import Distribution
from .utils import broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["VonMises"]


class VonMises(Distribution):
    """Angles in radians with a density in proportion to exp(concentration cos(x - loc)). Draws lie in -pi to pi."""

    arg_constraints = {"loc": constraints.real, "concentration": constraints.positive}
    support = constraints.real
    loc: Tensor
    concentration: Tensor

    def __init__(self, loc: Parameter, concentration: Parameter, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, validate_args=validate_args)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        k = self.concentration
        return k * ((value - self.loc).cos() - 1) - math.log(2 * math.pi) - cn.special.i0e(k).log()

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cn.no_grad():
            angle = _sampling.von_mises(self.concentration.to(cn.float64).expand(shape)) + self.loc.to(cn.float64)
            return ((angle + math.pi) % (2 * math.pi) - math.pi).to(self.loc.dtype)

    @property
    def mean(self) -> Tensor:
        """The circular mean."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance: 1 less the length of the mean vector."""
        return 1 - cn.special.i1e(self.concentration) / cn.special.i0e(self.concentration)
