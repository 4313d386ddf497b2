"""Dirichlet: probabilities drawn at random."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import _sampling, constraints
from .exp_family import ExponentialFamily

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Shape

__all__ = ["Dirichlet"]


class Dirichlet(ExponentialFamily):
    """Vectors of probabilities with a density in proportion to the product of p_i^(concentration_i - 1)."""

    arg_constraints = {"concentration": constraints.independent(constraints.positive, 1)}
    support = constraints.simplex
    has_rsample = True

    def __init__(self, concentration: Tensor, validate_args: bool | None = None) -> None:
        if concentration.dim() < 1:
            raise ValueError("Dirichlet: concentration must have one dimension or more")
        self.concentration = concentration
        super().__init__(concentration.shape[:-1], concentration.shape[-1:], validate_args=validate_args)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        """Gamma draws divided by their sum; by logarithms, so that small concentrations do not vanish all at once."""
        shape = self._extended_shape(sample_shape)
        return cn.softmax(_sampling.standard_log_gamma(self.concentration.expand(shape)), -1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        a = self.concentration
        return cn.xlogy(a - 1.0, value).sum(-1) + a.sum(-1).lgamma() - a.lgamma().sum(-1)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, True)

    @property
    def mode(self) -> Tensor:
        """Of concentrations above 1; where all are below, the place of the largest takes everything."""
        above = (self.concentration - 1).clamp(min=0.0)
        mode = above / above.sum(-1, True)
        corner = cn.nn.functional.one_hot(mode.argmax(-1), self._event_shape[0]).to(mode.dtype)
        return cn.where((self.concentration < 1).all(-1, keepdim=True), corner, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, True)
        return self.concentration * (total - self.concentration) / (total.pow(2) * (total + 1))

    def entropy(self) -> Tensor:
        a, k = self.concentration, self._event_shape[0]
        total = a.sum(-1)
        return (a.lgamma().sum(-1) - total.lgamma() - (k - total) * total.digamma()
                - ((a - 1.0) * a.digamma()).sum(-1))

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.concentration,)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x = natural_params[0]
        return x.lgamma().sum(-1) - x.sum(-1).lgamma()
