"""Bernoulli: 1 with probability probs, else 0."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size
from cairn.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._odds import Odds
from .exp_family import ExponentialFamily
from .utils import broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["Bernoulli"]


class Bernoulli(Odds, ExponentialFamily):
    """1 with probability probs (or sigmoid(logits)), else 0."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.boolean
    has_enumerate_support = True
    _mean_carrier_measure = 0.0

    def __init__(self, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(self._given(probs, logits), validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        """1 or 0; nan where both are as likely."""
        return (self.probs >= 0.5).to(self.probs.dtype).masked_fill(self.probs == 0.5, cn.nan)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with cn.no_grad():
            return cn.bernoulli(self.probs.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none")

    def entropy(self) -> Tensor:
        return binary_cross_entropy_with_logits(self.logits, self.probs, reduction="none")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = cn.arange(2, dtype=self._param.dtype, device=self._param.device)
        values = values.view((-1,) + (1,) * len(self._batch_shape))
        return values.expand((-1,) + tuple(self._batch_shape)) if expand else values

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp().log1p()
