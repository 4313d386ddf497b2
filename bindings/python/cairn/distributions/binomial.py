"""Binomial: successes among so many trials."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size
from cairn.nn.functional import logsigmoid

from . import _sampling, constraints
from ._odds import Odds

if TYPE_CHECKING:
    from cairn import Tensor

    from .constraints import Constraint
    from .utils import Parameter, Shape

__all__ = ["Binomial"]


class Binomial(Odds):
    """The number of successes among total_count trials, each succeeding with probability probs."""

    arg_constraints = {"total_count": constraints.nonnegative_integer, "probs": constraints.unit_interval,
                       "logits": constraints.real}
    has_enumerate_support = True
    total_count: Tensor

    def __init__(self, total_count: Parameter = 1, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(self._counted(total_count, probs, logits), validate_args=validate_args)

    @constraints.dependent_property(is_discrete=True, event_dim=0)
    def support(self) -> Constraint:
        return constraints.integer_interval(0, self.total_count)

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return ((self.total_count + 1) * self.probs).floor().minimum(self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with cn.no_grad():
            return _sampling.binomial(self.total_count.expand(shape), self.probs.expand(shape))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        n, logits = self.total_count, self.logits
        ways = (n + 1).lgamma() - (value + 1).lgamma() - (n - value + 1).lgamma()
        return ways + value * logits + n * logsigmoid(-logits)

    def entropy(self) -> Tensor:
        count = self._one_count("entropy")
        values = self.enumerate_support(expand=False) if count else self._new((1,) + (1,) * len(self._batch_shape))
        log_prob = self.log_prob(values)
        return -(log_prob.exp() * log_prob).sum(0)

    def _one_count(self, what: str) -> int:
        count = int(self.total_count.max())
        if not int(self.total_count.min()) == count:
            raise NotImplementedError("Binomial: %s of a batch whose total_count differs" % what)
        return count

    def enumerate_support(self, expand: bool = True) -> Tensor:
        count = self._one_count("the values")
        values = cn.arange(1 + count, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values
