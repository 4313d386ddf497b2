"""NegativeBinomial: successes before so many failures."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size
from cairn.nn.functional import logsigmoid

from . import constraints
from ._odds import Odds
from .gamma import Gamma
from .utils import lazy_property

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["NegativeBinomial"]


class NegativeBinomial(Odds):
    """The number of successes, of probability probs each, before total_count failures (which need not be whole)."""

    arg_constraints = {"total_count": constraints.greater_than_eq(0), "probs": constraints.half_open_interval(0.0, 1.0),
                       "logits": constraints.real}
    support = constraints.nonnegative_integer
    total_count: Tensor

    def __init__(self, total_count: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(self._counted(total_count, probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.logits.exp()

    @property
    def mode(self) -> Tensor:
        return ((self.total_count - 1) * self.logits.exp()).floor().clamp(min=0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / cn.sigmoid(-self.logits)

    @lazy_property
    def _gamma(self) -> Gamma:
        """The distribution of the rate of the Poisson draws."""
        return Gamma(self.total_count, (-self.logits).exp(), validate_args=False)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with cn.no_grad():
            return cn.poisson(self._gamma.sample(sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n = self.total_count
        ways = (n + value).lgamma() - (value + 1).lgamma() - n.lgamma()
        ways = ways.masked_fill(n + value == 0, 0.0)  # no failure to wait for: 0 for certain
        return ways + n * logsigmoid(-self.logits) + value * logsigmoid(self.logits)
