"""FisherSnedecor: the ratio of two estimates of spread."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import constraints
from .distribution import Distribution
from .gamma import Gamma
from .utils import broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["FisherSnedecor"]


class FisherSnedecor(Distribution):
    """(x / df1) / (y / df2) of x from Chi2(df1) and y from Chi2(df2)."""

    arg_constraints = {"df1": constraints.positive, "df2": constraints.positive}
    support = constraints.positive
    has_rsample = True
    df1: Tensor
    df2: Tensor

    def __init__(self, df1: Parameter, df2: Parameter, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        """nan for df2 up to 2."""
        df2 = self.df2.masked_fill(self.df2 <= 2, cn.nan)
        return df2 / (df2 - 2)

    @property
    def mode(self) -> Tensor:
        """nan for df1 up to 2, where the density only falls."""
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return mode.masked_fill(self.df1 <= 2, cn.nan)

    @property
    def variance(self) -> Tensor:
        """nan for df2 up to 4."""
        df2 = self.df2.masked_fill(self.df2 <= 4, cn.nan)
        return 2 * df2.pow(2) * (self.df1 + df2 - 2) / (self.df1 * (df2 - 2).pow(2) * (df2 - 4))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        top = Gamma(self.df1 * 0.5, self.df1, validate_args=False).rsample(sample_shape)
        bottom = Gamma(self.df2 * 0.5, self.df2, validate_args=False).rsample(sample_shape)
        tiny = cn.finfo(bottom.dtype).tiny
        return (top / bottom.clamp(min=tiny)).clamp(min=tiny)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a, b, ratio = self.df1 * 0.5, self.df2 * 0.5, self.df1 / self.df2
        return ((a + b).lgamma() - a.lgamma() - b.lgamma() + a * ratio.log() + (a - 1) * value.log()
                - (a + b) * (ratio * value).log1p())
