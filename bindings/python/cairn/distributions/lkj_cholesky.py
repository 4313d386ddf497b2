"""LKJCholesky: correlations drawn at random, as Cholesky factors."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import cairn as cn
from cairn import Size

from . import constraints
from .beta import Beta
from .distribution import Distribution
from .utils import broadcast_all

if TYPE_CHECKING:
    from typing import Self

    from cairn import Tensor

    from .utils import Parameter, Shape

__all__ = ["LKJCholesky"]


class LKJCholesky(Distribution):
    """Lower Cholesky factors of dim x dim matrices of correlations M, with a density of M in proportion to
    det(M)^(concentration - 1): 1 makes all as likely, more prefers weak correlations (Lewandowski, Kurowicka and Joe,
    2009)."""

    arg_constraints = {"concentration": constraints.positive}
    support = constraints.corr_cholesky
    concentration: Tensor

    def __init__(self, dim: int, concentration: Parameter = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ValueError("LKJCholesky: dim must be 2 or more, not %d" % dim)
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        self._beta = self._make_beta(self.concentration)
        super().__init__(self.concentration.shape, Size((dim, dim)), validate_args=validate_args)

    def _make_beta(self, concentration: Tensor) -> Beta:
        """Of the squared length of each row less its diagonal; the first row has none, which a tiny weight says."""
        row = cn.arange(self.dim - 1, dtype=concentration.dtype, device=concentration.device)
        row = cn.cat([row.new_zeros((1,)), row])
        margin = concentration + 0.5 * (self.dim - 2)
        return Beta(row + 0.5, margin.unsqueeze(-1) - 0.5 * row, validate_args=False)

    def expand(self, batch_shape: Shape, _instance: Any = None) -> Self:
        new = super().expand(batch_shape, _instance)
        new.dim = self.dim
        new._beta = self._beta.expand(Size(batch_shape) + (self.dim,))
        return new

    def sample(self, sample_shape: Shape = Size()) -> Tensor:
        """The onion: each row is a direction on a sphere, by normal numbers, times the root of a Beta draw."""
        with cn.no_grad():
            square = self._beta.sample(sample_shape).unsqueeze(-1)
            shape = self._extended_shape(sample_shape)
            noise = cn.randn(shape, dtype=square.dtype, device=square.device).tril(-1)
            length = noise.norm(dim=-1, keepdim=True)
            first = cn.arange(self.dim, device=square.device).unsqueeze(-1) == 0
            direction = noise / cn.where(first, 1.0, length)
            lower = cn.where(first, 0.0, square.sqrt() * direction)
            tiny = cn.finfo(lower.dtype).tiny
            return lower + (1 - (lower ** 2).sum(-1)).clamp(min=tiny).sqrt().diag_embed()

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        diagonal = value.diagonal(0, -2, -1)[..., 1:]
        row = cn.arange(2, self.dim + 1, dtype=self.concentration.dtype, device=self.concentration.device)
        order = 2 * (self.concentration - 1).unsqueeze(-1) + self.dim - row
        n = self.dim - 1
        alpha = self.concentration + 0.5 * n
        below = cn.mvlgamma(alpha - 0.5, n) - alpha.lgamma() * n
        return (order * diagonal.log()).sum(-1) - (0.5 * n * math.log(math.pi) + below)
