"""RelaxedBernoulli: a coin between 0 and 1 that gradients can pass."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from ._odds import Odds
from .transformed_distribution import TransformedDistribution
from .transforms import SigmoidTransform
from .utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["LogitRelaxedBernoulli", "RelaxedBernoulli"]


class LogitRelaxedBernoulli(Odds):
    """The log odds of a RelaxedBernoulli: logits with logistic noise, divided by the temperature."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.real
    has_rsample = True

    def __init__(self, temperature: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None) -> None:
        self.temperature = temperature
        super().__init__(self._given(probs, logits), validate_args=validate_args)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.temperature = self.temperature
        return new

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(self.probs.expand(shape))
        u = clamp_probs(cn.rand(shape, dtype=probs.dtype, device=probs.device))
        return (u.log() - (-u).log1p() + probs.log() - (-probs).log1p()) / self.temperature

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        away = logits - value * self.temperature
        temperature = self.temperature
        log = temperature.log() if isinstance(temperature, cn.Tensor) else cn.tensor(temperature).log()
        return log + away - 2 * away.exp().log1p()


class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1 that come near Bernoulli's as the temperature falls (Maddison, Mnih and Teh; Jang, Gu and
    Poole, 2017)."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    base_dist: LogitRelaxedBernoulli

    def __init__(self, temperature: Parameter, probs: Parameter | None = None, logits: Parameter | None = None,
                 validate_args: bool | None = None) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(),
                         validate_args=validate_args)

    @property
    def temperature(self) -> Parameter:
        """How soft the choice is."""
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        """Log odds."""
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        """Probabilities of 1."""
        return self.base_dist.probs
