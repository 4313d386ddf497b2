"""MultivariateNormal: vectors of normal numbers that depend on each other."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from .distribution import Distribution
from .utils import lazy_property, standard_normal

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Shape

__all__ = ["MultivariateNormal"]


def precision_to_scale_tril(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse. The factor of the matrix turned around is, turned back, an upper triangle U
    with U U^T = precision, and the inverse of its transpose is the factor sought."""
    upper = cn.linalg.cholesky(precision.flip(-2, -1)).flip(-2, -1)
    eye = cn.eye(precision.shape[-1], dtype=precision.dtype, device=precision.device)
    return cn.linalg.solve_triangular(upper.mT, eye, upper=False)


def inverse_of_factor(lower: Tensor) -> Tensor:
    """(L L^T)^-1 of a lower triangle L."""
    eye = cn.eye(lower.shape[-1], dtype=lower.dtype, device=lower.device)
    inverse = cn.linalg.solve_triangular(lower, eye, upper=False)
    return inverse.mT @ inverse


def half_log_det(lower: Tensor) -> Tensor:
    """log of the determinant of a lower triangle."""
    return lower.diagonal(0, -2, -1).log().sum(-1)


def batch_mahalanobis(lower: Tensor, away: Tensor) -> Tensor:
    """The square of the length of L^-1 away. lower: (*, n, n), away: (**, n), where * broadcasts with **."""
    if lower.dim() == 2:  # one matrix for all: the vectors are the columns of one system
        flat = away.reshape(-1, away.shape[-1])
        return cn.linalg.solve_triangular(lower, flat.mT, upper=False).pow(2).sum(0).reshape(away.shape[:-1])
    return cn.linalg.solve_triangular(lower, away.unsqueeze(-1), upper=False).squeeze(-1).pow(2).sum(-1)


class Covariance(Distribution):
    """What distributions by one of covariance_matrix, precision_matrix and scale_tril (the lower Cholesky factor of the
    covariance) share: the others follow when asked for."""

    _unbroadcasted_scale_tril: Tensor

    def _given(self, **matrices: Tensor | None) -> tuple[str, Tensor]:
        """The one matrix there is."""
        given = [(name, matrix) for name, matrix in matrices.items() if matrix is not None]
        if len(given) != 1:
            raise ValueError("give exactly one of covariance_matrix, precision_matrix and scale_tril")
        name, matrix = given[0]
        if matrix.dim() < 2:
            raise ValueError("%s must be a matrix, with dimensions for a batch before it or none" % name)
        return name, matrix

    def _factor(self, name: str, matrix: Tensor) -> None:
        """Keeps the factor of the matrix, before it is expanded."""
        if name == "scale_tril":
            self._unbroadcasted_scale_tril = matrix
        elif name == "covariance_matrix":
            self._unbroadcasted_scale_tril = cn.linalg.cholesky(matrix)
        else:
            self._unbroadcasted_scale_tril = precision_to_scale_tril(matrix)

    def _whole(self, matrix: Tensor) -> Tensor:
        return matrix.expand(self._batch_shape + tuple(matrix.shape[-2:]))

    @lazy_property
    def scale_tril(self) -> Tensor:
        """The lower Cholesky factor of the covariance."""
        return self._whole(self._unbroadcasted_scale_tril)

    @lazy_property
    def covariance_matrix(self) -> Tensor:
        """The covariance."""
        return self._whole(self._unbroadcasted_scale_tril @ self._unbroadcasted_scale_tril.mT)

    @lazy_property
    def precision_matrix(self) -> Tensor:
        """The inverse of the covariance."""
        return self._whole(inverse_of_factor(self._unbroadcasted_scale_tril))


class MultivariateNormal(Covariance):
    """Normal vectors of mean loc, by one of covariance_matrix, precision_matrix (its inverse) and scale_tril (its lower
    Cholesky factor, which is what is computed with)."""

    arg_constraints = {"loc": constraints.real_vector, "covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky}
    support = constraints.real_vector
    has_rsample = True
    loc: Tensor

    def __init__(self, loc: Tensor, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        if loc.dim() < 1:
            raise ValueError("MultivariateNormal: loc must be a vector, with dimensions for a batch before it or none")
        name, matrix = self._given(covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
                                   scale_tril=scale_tril)
        batch = Size(cn.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(loc.shape[:-1])))
        self.loc = loc.expand(batch + (loc.shape[-1],))
        self.__dict__[name] = matrix.expand(batch + tuple(matrix.shape[-2:]))
        super().__init__(batch, self.loc.shape[-1:], validate_args=validate_args)
        self._factor(name, matrix)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return self._unbroadcasted_scale_tril.pow(2).sum(-1).expand(self._batch_shape + self._event_shape)

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        noise = standard_normal(self._extended_shape(sample_shape), self.loc.dtype, self.loc.device)
        return self.loc + (self._unbroadcasted_scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        lower = self._unbroadcasted_scale_tril
        square = batch_mahalanobis(lower, value - self.loc)
        return -0.5 * (self._event_shape[0] * math.log(2 * math.pi) + square) - half_log_det(lower)

    def entropy(self) -> Tensor:
        log_det = half_log_det(self._unbroadcasted_scale_tril)
        return (0.5 * self._event_shape[0] * (1.0 + math.log(2 * math.pi)) + log_det).expand(self._batch_shape)
