"""Geometric: failures before the first success."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size
from cairn.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._odds import Odds
from .utils import broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["Geometric"]


class Geometric(Odds):
    """The number of failures before the first success, each trial succeeding with probability probs: 0, 1, 2, ..."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.nonnegative_integer

    def __init__(self, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(self._given(probs, logits), validate_args=validate_args)
        if self._validate_args and probs is not None and not bool((self.probs > 0).all()):
            raise ValueError("Geometric: probs must be above 0:\n%s" % self.probs)

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return cn.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        tiny = cn.finfo(self.probs.dtype).tiny
        with cn.no_grad():
            u = self._new(self._extended_shape(sample_shape)).uniform_(tiny, 1)
            return (u.log() / (-self.probs).log1p()).floor()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        value, probs = broadcast_all(value, self.probs)
        failure = probs.masked_fill((probs == 1) & (value == 0), 0)  # 0 * log(0) is 0
        return value * (-failure).log1p() + self.probs.log()

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none") / self.probs
