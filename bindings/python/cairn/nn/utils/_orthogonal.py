"""The parametrization behind parametrizations.orthogonal: matrices with orthonormal columns (or rows, where there are
fewer of those), as a function of one without conditions.

With a trivialization the value is base @ f(X), where base is the matrix that the parameter was set to and f(X) is the
identity at first: any orthogonal matrix can be assigned. Without, X alone gives the matrix.
"""
from __future__ import annotations

from typing import Any

from ... import _C, linalg
from ..._tensor import Tensor
from ..._types import finfo
from ..module import Module

__all__ = ()


def _eye(n: int, like: Tensor, columns: int) -> Tensor:
    return _C.eye(n, columns, dtype=like.dtype, device=like.device)


def _is_orthogonal(q: Tensor) -> bool:
    """Are its columns orthonormal, but for rounding?"""
    n, k = q.shape[-2:]
    off = (q.mT @ q - _eye(k, q, k)).abs()
    return bool((off <= 10 * n * finfo(q.dtype).eps + 1e-5).all())


def _nearest(a: Tensor) -> Tensor:
    """Orthonormal columns that span what a's do, with a's signs."""
    q, r = linalg.qr(a)
    return q * r.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)


def _reflected(low: Tensor) -> Tensor:
    """The first columns of a product of reflections; low (..., n, k): their vectors, without the ones on the diagonal
    and what is above."""
    n, k = low.shape[-2:]
    vectors = low + _eye(n, low, k)
    q = _eye(n, low, k).expand(low.shape)
    for i in reversed(range(k)):
        v = vectors[..., i:i + 1]
        q = q - (2 / v.square().sum(-2, keepdim=True)) * (v @ (v.mT @ q))
    return q


def _vectors(a: Tensor) -> Tensor:
    """The vectors of the reflections that make a triangular, and on the diagonal the signs of a's columns against the
    product's: what _reflected gives a back from, if a is orthogonal."""
    n, k = a.shape[-2:]
    work, made = a.clone(), _C.zeros_like(a)
    for i in range(k):
        column = work[..., i:, i].clone()
        alpha, below = column[..., :1], column[..., 1:]
        rest = below.square().sum(-1, keepdim=True)
        norm = (alpha.square() + rest).sqrt()
        beta = _C.where(rest == 0, alpha, _C.where(alpha >= 0, -norm, norm))
        v = below / _C.where(rest == 0, _C.ones_like(alpha), alpha - beta)
        full = _C.cat([_C.ones_like(alpha), v], -1).unsqueeze(-1)
        tau = 2 / full.square().sum(-2, keepdim=True)
        work[..., i:, i:] = work[..., i:, i:] - tau * (full @ (full.mT @ work[..., i:, i:]))
        made[..., i + 1:, i] = v
        made[..., i, i] = _C.where(rest == 0, -alpha, beta).sign().squeeze(-1)
    return made


class _Orthogonal(Module):
    base: Tensor

    def __init__(self, weight: Tensor, orthogonal_map: str, *, use_trivialization: bool = True) -> None:
        super().__init__()
        self.shape, self.orthogonal_map = weight.shape, orthogonal_map
        if use_trivialization:
            self.register_buffer("base", None)

    def _turn(self, x: Tensor) -> Tensor:
        """f(x), of x's shape, which is not wider than high."""
        n, k = x.shape[-2:]
        if self.orthogonal_map == "householder":
            return _reflected(x.tril(-1)) * x.diagonal(dim1=-2, dim2=-1).sign().unsqueeze(-2)
        low = x.tril()
        if n != k:
            low = _C.cat([low, low.new_zeros((*low.shape[:-1], n - k))], -1)
        skew = low - low.mT
        if self.orthogonal_map == "matrix_exp":
            q: Tensor = _C.matrix_exp(skew)
        else:
            q = linalg.solve(_eye(n, x, n) - 0.5 * skew, _eye(n, x, n) + 0.5 * skew)
        return q[..., :k] if n != k else q

    def forward(self, x: Tensor) -> Tensor:
        """The matrix that x stands for."""
        wide = x.shape[-2] < x.shape[-1]
        q = self._turn(x.mT if wide else x)
        if getattr(self, "base", None) is not None:
            q = self.base @ q
        return q.mT if wide else q

    def right_inverse(self, q: Tensor) -> Tensor:
        """What stands for q, or for an orthogonal matrix near it."""
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {tuple(self.shape)}. Got a tensor of "
                             f"shape {tuple(q.shape)}.")
        wide = q.shape[-2] < q.shape[-1]
        value = q.mT if wide else q
        n, k = value.shape[-2:]
        if "base" not in self._buffers:
            if self.orthogonal_map != "householder":
                raise NotImplementedError("It is not possible to assign to the matrix exponential or the Cayley "
                                          "parametrizations when use_trivialization=False.")
            made = _vectors(value)
            return made.mT if wide else made
        if n != k:  # the other columns of a basis
            more = _C.randn((*value.shape[:-1], n - k), dtype=value.dtype, device=value.device)
            value = _nearest(_C.cat([value, more], -1))
        elif not _is_orthogonal(value):
            value = _nearest(value)
        self.base = value.clone()
        return -_eye(q.shape[-2], q, q.shape[-1]).expand(q.shape).contiguous()


def made(weight: Any, orthogonal_map: str | None, use_trivialization: bool) -> _Orthogonal:
    """The parametrization for a weight, after checks."""
    if not isinstance(weight, Tensor):
        raise ValueError("orthogonal: there is no parameter or buffer of that name")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        orthogonal_map = "matrix_exp" if weight.shape[-2] == weight.shape[-1] else "householder"
    if orthogonal_map not in ("matrix_exp", "cayley", "householder"):
        raise ValueError('orthogonal_map has to be one of "matrix_exp", "cayley", "householder". '
                         f"Got: {orthogonal_map}")
    return _Orthogonal(weight, orthogonal_map, use_trivialization=use_trivialization)
