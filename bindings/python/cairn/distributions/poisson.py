"""Poisson: how often something rare happened."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn
from cairn import Size

from . import constraints
from .exp_family import ExponentialFamily
from .utils import all_numbers, broadcast_all

if TYPE_CHECKING:
    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["Poisson"]


class Poisson(ExponentialFamily):
    """0, 1, 2, ... with the mean `rate`."""

    arg_constraints = {"rate": constraints.nonnegative}
    support = constraints.nonnegative_integer
    rate: Tensor

    def __init__(self, rate: Parameter, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(Size() if all_numbers(rate) else self.rate.shape, validate_args=validate_args)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return self.rate.floor()

    @property
    def variance(self) -> Tensor:
        return self.rate

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        with cn.no_grad():
            return cn.poisson(self.rate.expand(self._extended_shape(sample_shape)))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        rate, value = broadcast_all(self.rate, value)
        return cn.xlogy(value, rate) - rate - (value + 1).lgamma()

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return (self.rate.log(),)

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        return natural_params[0].exp()
