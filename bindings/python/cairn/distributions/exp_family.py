"""ExponentialFamily: densities exp(<t(x), theta> - F(theta) + k(x)), with entropy and divergence from F alone."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn

from .distribution import Distribution
from .utils import sum_rightmost

if TYPE_CHECKING:
    from cairn import Tensor

__all__ = ["ExponentialFamily"]


class ExponentialFamily(Distribution):
    """Distributions whose density is exp(<t(x), theta> - F(theta) + k(x)). A subclass gives theta (_natural_params),
    F (_log_normalizer, of theta) and the mean of k (_mean_carrier_measure)."""

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        """theta"""
        raise NotImplementedError

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        """F(theta)"""
        raise NotImplementedError

    @property
    def _mean_carrier_measure(self) -> float | Tensor:
        """The mean of k(x)."""
        raise NotImplementedError

    def _log_normalizer_and_gradients(self) -> tuple[tuple[Tensor, ...], Tensor, tuple[Tensor, ...]]:
        """theta, F(theta) and its gradients by theta, which can themselves be differentiated."""
        with cn.enable_grad():
            theta = tuple(p.detach().requires_grad_() if not p.requires_grad else p for p in self._natural_params)
            log_normalizer = self._log_normalizer(*theta)
            gradients = cn.autograd.grad(log_normalizer.sum(), theta, create_graph=True)
        return theta, log_normalizer, tuple(g for g in gradients if g is not None)

    def entropy(self) -> Tensor:
        """F(theta) - <theta, F'(theta)> - the mean of k: differentiable by the parameters."""
        carrier = self._mean_carrier_measure
        theta, log_normalizer, gradients = self._log_normalizer_and_gradients()
        result = log_normalizer - carrier
        for parameter, gradient in zip(theta, gradients):
            product = parameter * gradient
            result = result - sum_rightmost(product, product.dim() - len(self._batch_shape))
        return result
