"""StudentT: a normal number divided by an estimate of its spread."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import constraints
from .chi2 import Chi2
from .distribution import Distribution
from .utils import broadcast_all, standard_normal

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["StudentT"]


class StudentT(Distribution):
    """loc + scale x / sqrt(y / df) of a standard normal x and a Chi2(df) y."""

    arg_constraints = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support = constraints.real
    has_rsample = True
    df: Tensor
    loc: Tensor
    scale: Tensor

    def __init__(self, df: Parameter, loc: Parameter = 0.0, scale: Parameter = 1.0,
                 validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """loc; nan for df up to 1."""
        return self.loc.masked_fill(self.df <= 1, cn.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """inf for df up to 2, nan up to 1."""
        finite = self.scale.pow(2) * self.df / (self.df - 2)
        return cn.where(self.df > 2, finite, cn.where(self.df > 1, cn.inf, cn.nan).to(finite.dtype))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        x = standard_normal(self._extended_shape(sample_shape), self.df.dtype, self.df.device)
        y = Chi2(self.df, validate_args=False).rsample(sample_shape)
        return self.loc + self.scale * x * (y / self.df).rsqrt()

    def _log_scaled_beta(self) -> Tensor:
        """log of sqrt(df) B(df / 2, 1 / 2): what the density is divided by, less the scale."""
        half = 0.5 * self.df
        return 0.5 * self.df.log() + half.lgamma() + 0.5 * math.log(math.pi) - (half + 0.5).lgamma()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        y = (value - self.loc) / self.scale
        return -0.5 * (self.df + 1.0) * (y ** 2 / self.df).log1p() - self.scale.log() - self._log_scaled_beta()

    def entropy(self) -> Tensor:
        above = 0.5 * (self.df + 1)
        return self.scale.log() + above * (above.digamma() - (0.5 * self.df).digamma()) + self._log_scaled_beta()
