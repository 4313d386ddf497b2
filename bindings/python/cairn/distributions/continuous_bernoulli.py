"""ContinuousBernoulli: a density on 0 to 1 in proportion to p^x (1 - p)^(1 - x)."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size
from cairn.nn.functional import binary_cross_entropy_with_logits

from . import constraints
from ._odds import Odds
from .exp_family import ExponentialFamily
from .utils import broadcast_all, clamp_probs

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["ContinuousBernoulli"]


class ContinuousBernoulli(Odds, ExponentialFamily):
    """The density C(probs) probs^x (1 - probs)^(1 - x) for x from 0 to 1 (Loaiza-Ganem and Cunningham, 2019). Within
    lims, around 1/2, series stand for formulas that divide 0 by 0 there."""

    arg_constraints = {"probs": constraints.unit_interval, "logits": constraints.real}
    support = constraints.unit_interval
    has_rsample = True
    _mean_carrier_measure = 0.0

    def __init__(self, probs: Parameter | None = None, logits: Parameter | None = None,
                 lims: tuple[float, float] = (0.499, 0.501), validate_args: bool | None = None) -> None:
        self._lims = lims
        shape = self._given(probs, logits)
        super().__init__(shape, validate_args=validate_args)
        if "probs" in self.__dict__:
            self.__dict__["probs"] = clamp_probs(self.probs)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._lims = self._lims
        return new

    def _away(self) -> tuple[Tensor, Tensor, Tensor]:
        """Whether probs are outside lims; probs with others in the place of those inside, for formulas that do not
        hold there; and the distance of those inside from 1/2, for the series."""
        low, high = self._lims
        outside = (self.probs <= low) | (self.probs > high)
        return outside, cn.where(outside, self.probs, low), cn.where(outside, 0.0, self.probs - 0.5)

    def _cont_bern_log_norm(self) -> Tensor:
        """log C(probs)"""
        outside, p, near = self._away()
        exact = ((-p).log1p() - p.log()).abs().log() - (1 - 2 * p).abs().log()
        square = near ** 2
        return cn.where(outside, exact, 0.6931471805599453 + (4 / 3 + 104 / 45 * square) * square)

    @property
    def mean(self) -> Tensor:
        outside, p, near = self._away()
        exact = p / (2 * p - 1) + 1 / ((-p).log1p() - p.log())
        return cn.where(outside, exact, 0.5 + (1 / 3 + 16 / 45 * near ** 2) * near)

    @property
    def stddev(self) -> Tensor:
        return self.variance.sqrt()

    @property
    def variance(self) -> Tensor:
        outside, p, near = self._away()
        exact = p * (p - 1) / (1 - 2 * p) ** 2 + 1 / ((-p).log1p() - p.log()) ** 2
        square = near ** 2
        return cn.where(outside, exact, 1 / 12 - (1 / 15 - 128 / 945 * square) * square)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(cn.rand(shape, dtype=self.probs.dtype, device=self.probs.device))

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with cn.no_grad():
            return self.rsample(sample_shape)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        logits, value = broadcast_all(self.logits, value)
        return -binary_cross_entropy_with_logits(logits, value, reduction="none") + self._cont_bern_log_norm()

    def cdf(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        outside, p, _ = self._away()
        exact = (p ** value * (1 - p) ** (1 - value) + p - 1) / (2 * p - 1)
        inner = cn.where(outside, exact, value)
        return cn.where(value <= 0, 0.0, cn.where(value >= 1, 1.0, inner))

    def icdf(self, value: Tensor) -> Tensor:
        outside, p, _ = self._away()
        exact = ((-p + value * (2 * p - 1)).log1p() - (-p).log1p()) / (p.log() - (-p).log1p())
        return cn.where(outside, exact, value)

    def entropy(self) -> Tensor:
        log_fail = (-self.probs).log1p()
        return self.mean * (log_fail - self.probs.log()) - self._cont_bern_log_norm() - log_fail

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.logits,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """log((exp(x) - 1) / x), with the series x / 2 + x^2 / 24 near 0."""
        x = natural_params[0]
        low, high = self._lims
        outside = (x <= low - 0.5) | (x > high - 0.5)
        far = cn.where(outside, x, low - 0.5)
        exact = (far.exp() - 1).abs().log() - far.abs().log()
        return cn.where(outside, exact, 0.5 * x + x.pow(2) / 24.0 - x.pow(4) / 2880.0)
