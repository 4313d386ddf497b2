"""LowRankMultivariateNormal: normal vectors whose covariance is a few directions and a diagonal."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from .distribution import Distribution
from .multivariate_normal import batch_mahalanobis, half_log_det
from .utils import lazy_property, standard_normal

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Shape

__all__ = ["LowRankMultivariateNormal"]


def capacitance_tril(factor: Tensor, diagonal: Tensor) -> Tensor:
    """The Cholesky factor of I + W^T D^-1 W, which is as small as the rank."""
    small = factor.mT @ (factor / diagonal.unsqueeze(-1))
    return cn.linalg.cholesky(small + cn.eye(factor.shape[-1], dtype=factor.dtype, device=factor.device))


def lowrank_log_det(diagonal: Tensor, capacitance: Tensor) -> Tensor:
    """log det(W W^T + D), by the determinant lemma."""
    return 2 * half_log_det(capacitance) + diagonal.log().sum(-1)


def lowrank_mahalanobis(factor: Tensor, diagonal: Tensor, away: Tensor, capacitance: Tensor) -> Tensor:
    """away^T (W W^T + D)^-1 away, by Woodbury's identity."""
    scaled = away / diagonal
    small = (factor.mT @ scaled.unsqueeze(-1)).squeeze(-1)
    return (away * scaled).sum(-1) - batch_mahalanobis(capacitance, small)


class LowRankMultivariateNormal(Distribution):
    """Normal vectors of mean loc and covariance cov_factor cov_factor^T + diag(cov_diag). No matrix larger than
    cov_factor is needed for draws and densities."""

    arg_constraints = {"loc": constraints.real_vector, "cov_factor": constraints.independent(constraints.real, 2),
                       "cov_diag": constraints.independent(constraints.positive, 1)}
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor
    cov_factor: Tensor
    cov_diag: Tensor

    def __init__(self, loc: Tensor, cov_factor: Tensor, cov_diag: Tensor, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("LowRankMultivariateNormal: loc must be a vector, with dimensions for a batch or none")
        event = loc.shape[-1]
        if cov_factor.dim() < 2 or cov_factor.shape[-2] != event:
            raise ValueError("LowRankMultivariateNormal: cov_factor must be a batch of %d x m matrices" % event)
        if cov_diag.shape[-1:] != (event,):
            raise ValueError("LowRankMultivariateNormal: cov_diag must be a batch of vectors of %d" % event)
        batch = Size(cn.broadcast_shapes(tuple(loc.shape[:-1]), tuple(cov_factor.shape[:-2]),
                                         tuple(cov_diag.shape[:-1])))
        self.loc = loc.expand(batch + (event,))
        self.cov_diag = cov_diag.expand(batch + (event,))
        self.cov_factor = cov_factor.expand(batch + tuple(cov_factor.shape[-2:]))
        super().__init__(batch, Size((event,)), validate_args=validate_args)
        self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag = cov_factor, cov_diag
        self._capacitance_tril = capacitance_tril(cov_factor, cov_diag)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._unbroadcasted_cov_factor = self._unbroadcasted_cov_factor
        new._unbroadcasted_cov_diag = self._unbroadcasted_cov_diag
        new._capacitance_tril = self._capacitance_tril
        return new

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @lazy_property
    def variance(self) -> Tensor:
        """The diagonal of the covariance."""
        both = self._unbroadcasted_cov_factor.pow(2).sum(-1) + self._unbroadcasted_cov_diag
        return both.expand(self._batch_shape + self._event_shape)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + self._event_shape + self._event_shape)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._whole(cn.linalg.cholesky(self.covariance_matrix))

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        factor = self._unbroadcasted_cov_factor
        return self._whole(factor @ factor.mT + self._unbroadcasted_cov_diag.diag_embed())

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        scaled = self._unbroadcasted_cov_factor.mT / self._unbroadcasted_cov_diag.unsqueeze(-2)
        part = cn.linalg.solve_triangular(self._capacitance_tril, scaled, upper=False)
        return self._whole(self._unbroadcasted_cov_diag.reciprocal().diag_embed() - part.mT @ part)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        few = shape[:-1] + self.cov_factor.shape[-1:]
        w = standard_normal(few, self.loc.dtype, self.loc.device)
        d = standard_normal(shape, self.loc.dtype, self.loc.device)
        return (self.loc + (self._unbroadcasted_cov_factor @ w.unsqueeze(-1)).squeeze(-1)
                + self._unbroadcasted_cov_diag.sqrt() * d)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        square = lowrank_mahalanobis(self._unbroadcasted_cov_factor, self._unbroadcasted_cov_diag, value - self.loc,
                                     self._capacitance_tril)
        log_det = lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + log_det + square)

    def entropy(self) -> Tensor:
        log_det = lowrank_log_det(self._unbroadcasted_cov_diag, self._capacitance_tril)
        entropy = 0.5 * (self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det)
        return entropy.expand(self._batch_shape)
