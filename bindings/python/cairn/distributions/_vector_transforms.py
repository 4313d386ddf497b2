"""Transforms of vectors and matrices: onto the simplex, to Cholesky factors, and several transforms side by side."""
from __future__ import annotations

from typing import TYPE_CHECKING, Any, Sequence

import cairn as cn
from cairn import Size
from cairn.nn.functional import pad, softplus

from . import constraints
from .transforms import Transform
from .utils import sum_rightmost, tril_matrix_to_vec, vec_to_tril_matrix

if TYPE_CHECKING:
    from cairn import Tensor

    from .constraints import Constraint

__all__ = ["CatTransform", "CorrCholeskyTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform",
           "SoftmaxTransform", "StackTransform", "StickBreakingTransform"]


class _Vector(Transform):
    """One without parameters, of vectors."""

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)


def _longer(shape: Size, by: int) -> Size:
    """The shape of a vector with `by` more places."""
    if len(shape) < 1:
        raise ValueError("a shape without dimensions where a vector is wanted")
    return shape[:-1] + (shape[-1] + by,)


class SoftmaxTransform(_Vector):
    """y = exp(x) divided by its sum: onto the simplex, many to one; the inverse is log."""

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return cn.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()

    def forward_shape(self, shape: Size) -> Size:
        return _longer(shape, 0)

    def inverse_shape(self, shape: Size) -> Size:
        return _longer(shape, 0)


class StickBreakingTransform(_Vector):
    """From K - 1 numbers to the simplex of K places: each takes a share of what the ones before have left."""

    domain = constraints.real_vector
    codomain = constraints.simplex
    bijective = True

    @staticmethod
    def _even(x: Tensor) -> Tensor:
        """x less the logarithm of the places left, so that zeros give equal parts."""
        k = x.shape[-1]
        return x - cn.arange(k, 0, -1, dtype=x.dtype, device=x.device).log()

    def _call(self, x: Tensor) -> Tensor:
        share = cn.sigmoid(self._even(x)).clamp(max=1 - cn.finfo(x.dtype).eps)
        left = (1 - share).cumprod(-1)
        return pad(share, [0, 1], value=1.0) * pad(left, [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        head = y[..., :-1]
        left = (1 - head.cumsum(-1)).clamp(min=cn.finfo(y.dtype).tiny)
        k = head.shape[-1]
        return head.log() - left.log() + cn.arange(k, 0, -1, dtype=y.dtype, device=y.device).log()

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = self._even(x)
        return (-x + cn.nn.functional.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        return _longer(shape, 1)

    def inverse_shape(self, shape: Size) -> Size:
        return _longer(shape, -1)


class LowerCholeskyTransform(_Vector):
    """From square matrices to lower triangles with a positive diagonal: exp of the diagonal, zeros above it."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(0, -2, -1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(0, -2, -1).log().diag_embed()


class PositiveDefiniteTransform(_Vector):
    """From square matrices to positive definite ones: L L^T of what LowerCholeskyTransform makes."""

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(cn.linalg.cholesky(y))


class CorrCholeskyTransform(_Vector):
    """From D (D - 1) / 2 numbers to the Cholesky factor of a D x D matrix of correlations. tanh makes partial
    correlations of them; those of a row break a stick of length 1, and roots of the parts are the row."""

    domain = constraints.real_vector
    codomain = constraints.corr_cholesky
    bijective = True

    def _call(self, x: Tensor) -> Tensor:
        eps = cn.finfo(x.dtype).eps
        partial = vec_to_tril_matrix(x.tanh().clamp(min=-1 + eps, max=1 - eps), diag=-1)
        left = (1 - partial ** 2).sqrt().cumprod(-1)  # of the row, after each place
        partial = partial + cn.eye(partial.shape[-1], dtype=x.dtype, device=x.device)
        return partial * pad(left[..., :-1], [1, 0], value=1.0)

    def _inverse(self, y: Tensor) -> Tensor:
        left = (1 - (y * y).cumsum(-1)).clamp(min=cn.finfo(y.dtype).tiny)
        left = pad(left[..., :-1], [1, 0], value=1.0)
        t = tril_matrix_to_vec(y, diag=-1) / tril_matrix_to_vec(left, diag=-1).sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = (1 - (y * y).cumsum(-1)).clamp(min=cn.finfo(y.dtype).tiny)
        places = tril_matrix_to_vec(left, diag=-2)  # what every place but the first of a row is divided by
        # log(1 - tanh(x)^2) = -2 (x + softplus(-2 x) - log 2)
        return 0.5 * places.log().sum(-1) - 2 * (x + softplus(-2 * x) - 0.6931471805599453).sum(-1)

    def forward_shape(self, shape: Size) -> Size:
        _longer(shape, 0)
        n = shape[-1]
        side = round((0.25 + 2 * n) ** 0.5 + 0.5)
        if side * (side - 1) // 2 != n:
            raise ValueError("%d values are not the lower triangle of a square matrix" % n)
        return shape[:-1] + (side, side)

    def inverse_shape(self, shape: Size) -> Size:
        if len(shape) < 2 or shape[-1] != shape[-2]:
            raise ValueError("a square matrix is wanted, not %s" % (shape,))
        return shape[:-2] + (shape[-1] * (shape[-1] - 1) // 2,)


class _SideBySide(Transform):
    """Transforms of the parts of a tensor along one dimension."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        if not all(isinstance(t, Transform) for t in tseq):
            raise AssertionError("expected a sequence of transforms")
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    @property
    def bijective(self) -> Any:
        return all(t.bijective for t in self.transforms)


class CatTransform(_SideBySide):
    """Transforms of the stretches of dim, `lengths` long each."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None,
                 cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError("%d lengths for %d transforms" % (len(self.lengths), len(self.transforms)))

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The size of dim."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != self.length:
            raise AssertionError("the transforms are for %d places of dimension %d; the value is %s"
                                 % (self.length, self.dim, x.shape))
        return x.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return cn.cat([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return cn.cat([t.inv(part) for t, part in zip(self.transforms, self._parts(y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, a, b in zip(self.transforms, self._parts(x), self._parts(y)):
            terms.append(sum_rightmost(t.log_abs_det_jacobian(a, b), self.event_dim - t.event_dim))
        dim = self.dim - x.dim() if self.dim >= 0 else self.dim
        if dim + self.event_dim < 0:
            return cn.cat(terms, dim + self.event_dim)
        return sum(terms[1:], terms[0])

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(_SideBySide):
    """Transforms of each place of dim."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _parts(self, x: Tensor) -> Sequence[Tensor]:
        if not -x.dim() <= self.dim < x.dim() or x.shape[self.dim] != len(self.transforms):
            raise AssertionError("there are %d transforms for dimension %d of a value of shape %s"
                                 % (len(self.transforms), self.dim, x.shape))
        return x.unbind(self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return cn.stack([t(part) for t, part in zip(self.transforms, self._parts(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return cn.stack([t.inv(part) for t, part in zip(self.transforms, self._parts(y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._parts(x), self._parts(y))
        return cn.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], self.dim)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
