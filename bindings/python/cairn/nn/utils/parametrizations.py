"""Weights divided by a norm, and orthogonal ones, as parametrizations."""
from __future__ import annotations

from typing import Any

from ... import _C
from ..._modes import no_grad
from ..._tensor import Tensor
from .. import functional as F
from ..module import Module
from . import parametrize

__all__ = ["orthogonal", "spectral_norm", "weight_norm"]


def _norm_except(v: Tensor, dim: int) -> Tensor:
    """The norms of the slices along dim; of all of it for -1."""
    if dim == -1:
        return v.norm()
    rest = [i for i in range(v.ndim) if i != dim % v.ndim]
    return _C.linalg_vector_norm(v, 2.0, rest, keepdim=True) if rest else v.abs()


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / _norm_except(weight_v, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return _norm_except(weight, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Any:
    """The weight as a length (original0) times a direction (original1)."""
    return parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)


def _matrix(weight: Tensor, dim: int) -> Tensor:
    """A row for each place along dim."""
    if dim:
        weight = weight.permute(dim, *(d for d in range(weight.ndim) if d != dim))
    return weight.flatten(1)


def _direction(like: Tensor, size: int, eps: float) -> Tensor:
    """A vector of length 1, drawn."""
    return F.normalize(like.new_empty(size).normal_(), dim=0, eps=eps)


class _SpectralNorm(Module):
    _u: Tensor
    _v: Tensor

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if n_power_iterations <= 0:
            raise ValueError("Expected n_power_iterations to be positive, but got n_power_iterations=%d"
                             % n_power_iterations)
        self.dim = dim if dim >= 0 else dim + weight.ndim
        self.n_power_iterations, self.eps = n_power_iterations, eps
        if weight.ndim > 1:
            matrix = _matrix(weight.detach(), self.dim)
            self.register_buffer("_u", _direction(matrix, matrix.shape[0], eps))
            self.register_buffer("_v", _direction(matrix, matrix.shape[1], eps))
            self._iterate(matrix, 15)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(_C.mv(matrix, self._v), dim=0, eps=self.eps))
                self._v.copy_(F.normalize(_C.mv(matrix.t(), self._u), dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = _matrix(weight, self.dim)
        if self.training:
            self._iterate(matrix.detach(), self.n_power_iterations)
        u, v = self._u.clone(), self._v.clone()
        sigma: Tensor = _C.dot(u, _C.mv(matrix, v))
        return weight / sigma

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12,
                  dim: int | None = None) -> Any:
    """The weight divided by its largest singular value."""
    weight: Any = getattr(module, name)
    if dim is None:
        dim = 1 if "ConvTranspose" in type(module).__name__ else 0
    return parametrize.register_parametrization(module, name, _SpectralNorm(weight, n_power_iterations, dim, eps))


def orthogonal(module: Module, name: str = "weight", orthogonal_map: str | None = None, *,
               use_trivialization: bool = True) -> Any:
    """A matrix with orthonormal columns, or rows where there are fewer. orthogonal_map: how it comes from a matrix
    without conditions: "matrix_exp", "cayley" or "householder"; None: the first for square ones, else the last.
    use_trivialization: times the matrix that it was set to."""
    from . import _orthogonal
    made = _orthogonal.made(getattr(module, name, None), orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)
