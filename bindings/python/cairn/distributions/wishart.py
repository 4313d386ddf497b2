"""Wishart: covariances estimated from normal vectors."""
from __future__ import annotations

import math
import warnings
from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from .chi2 import Chi2
from .exp_family import ExponentialFamily
from .multivariate_normal import Covariance, half_log_det
from .utils import all_numbers, lazy_property

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["Wishart"]


def _mvdigamma(x: Tensor, p: int) -> Tensor:
    """The derivative of the logarithm of the multivariate gamma function."""
    steps = cn.arange(p, dtype=x.dtype, device=x.device) / 2
    return (x.unsqueeze(-1) - steps).digamma().sum(-1)


class Wishart(Covariance, ExponentialFamily):
    """Sums of x x^T over df normal vectors x of mean 0 and the given covariance (or its inverse, or its lower Cholesky
    factor): positive definite matrices. df need not be whole, but above the dimension less 1."""

    arg_constraints = {"covariance_matrix": constraints.positive_definite,
                       "precision_matrix": constraints.positive_definite, "scale_tril": constraints.lower_cholesky,
                       "df": constraints.greater_than(0)}
    support = constraints.positive_definite
    has_rsample = True
    _mean_carrier_measure = 0.0
    df: Tensor

    def __init__(self, df: Parameter, covariance_matrix: Tensor | None = None, precision_matrix: Tensor | None = None,
                 scale_tril: Tensor | None = None, validate_args: bool | None = None) -> None:
        name, matrix = self._given(covariance_matrix=covariance_matrix, precision_matrix=precision_matrix,
                                   scale_tril=scale_tril)
        single = all_numbers(df)
        degrees = cn.as_tensor(df, dtype=matrix.dtype, device=matrix.device)
        batch = Size(matrix.shape[:-2]) if single else Size(
            cn.broadcast_shapes(tuple(matrix.shape[:-2]), tuple(degrees.shape)))
        event = matrix.shape[-2:]
        self.df = degrees.expand(batch)
        self.__dict__[name] = matrix.expand(batch + event)
        if not bool((self.df > event[-1] - 1).all()):
            raise ValueError("Wishart: df must be above %d for matrices of %d rows; it is %s"
                             % (event[-1] - 1, event[-1], self.df))
        super().__init__(batch, event, validate_args=validate_args)
        if bool((self.df < event[-1]).any()):
            warnings.warn("Wishart: df below the dimension makes draws that are nearly singular", stacklevel=2)
        self._factor(name, matrix)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new._unbroadcasted_scale_tril = self._unbroadcasted_scale_tril
        return new

    @lazy_property
    def _chi2(self) -> Chi2:
        """Of the squares of the diagonal in Bartlett's decomposition: df, df - 1, ..."""
        steps = cn.arange(self._event_shape[-1], dtype=self.df.dtype, device=self.df.device)
        return Chi2(self.df.unsqueeze(-1) - steps, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        """nan where df is below the dimension plus 1."""
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return cn.where(factor > 0, factor, cn.nan)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        v = self.covariance_matrix
        diagonal = v.diagonal(0, -2, -1)
        return self.df[..., None, None] * (v.pow(2) + diagonal.unsqueeze(-1) * diagonal.unsqueeze(-2))

    def rsample(self, sample_shape: Shape = Size()) -> Tensor:
        """Bartlett's decomposition: L A A^T L^T with chi on the diagonal of A and normal numbers below it."""
        diagonal = self._chi2.rsample(sample_shape).clamp(min=cn.finfo(self.df.dtype).tiny).sqrt()
        shape = self._extended_shape(sample_shape)
        below = cn.randn(shape, dtype=self.df.dtype, device=self.df.device).tril(-1)
        factor = self._unbroadcasted_scale_tril @ (below + diagonal.diag_embed())
        return factor @ factor.mT

    def _log_constant(self) -> Tensor:
        """The logarithm of what the density is divided by."""
        p = self._event_shape[-1]
        return (self.df * (half_log_det(self._unbroadcasted_scale_tril) + 0.5 * p * math.log(2))
                + cn.mvlgamma(self.df / 2, p))

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        p = self._event_shape[-1]
        lower = self._unbroadcasted_scale_tril
        ratio = cn.cholesky_solve(value, lower.expand(value.shape)).diagonal(0, -2, -1).sum(-1)
        return (self.df - p - 1) / 2 * cn.linalg.slogdet(value)[1] - ratio / 2 - self._log_constant()

    def entropy(self) -> Tensor:
        p = self._event_shape[-1]
        log_det = 2 * half_log_det(self._unbroadcasted_scale_tril) + p * math.log(2) + _mvdigamma(self.df / 2, p)
        return self._log_constant() - (self.df - p - 1) / 2 * log_det + self.df * p / 2

    @property
    def _natural_params(self) -> tuple[Tensor, ...]:
        return 0.5 * self.df, -0.5 * self.precision_matrix

    def _log_normalizer(self, *natural_params: Tensor) -> Tensor:
        x, y = natural_params
        p = y.shape[-1]
        return x * (-cn.linalg.slogdet(-2 * y)[1] + p * math.log(2)) + cn.mvlgamma(x, p)
