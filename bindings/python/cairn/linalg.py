"""Linear algebra: torch.linalg's names. `cairn.linalg.inv` is the op linalg_inv."""
from . import _C
from ._linalg_ops import *  # noqa: F401,F403
from ._tensor import Tensor as _Tensor

matmul = _C.matmul

LinAlgError = _C.InvalidArgumentError  # what a singular matrix raises: a RuntimeError, as torch's


def householder_product(A: _Tensor, tau: _Tensor) -> _Tensor:
    """The first n columns of H_1 H_2 ... H_k, where H_i is I - tau_i v v^T and v is column i of A (*, m, n) with zeros
    above place i and 1 there; tau is (*, k)."""
    m, n = A.shape[-2:]
    if A.dim() < 2 or m < n or tau.shape[-1] > n or tau.shape[:-1] != A.shape[:-2]:
        raise RuntimeError("householder_product: A is (*, m, n) with m >= n and tau (*, k) with k <= n, not %s and %s"
                           % (tuple(A.shape), tuple(tau.shape)))
    vectors = A.tril(-1) + _C.eye(m, n, dtype=A.dtype, device=A.device)
    result = _C.eye(m, n, dtype=A.dtype, device=A.device).expand(A.shape)
    for i in reversed(range(tau.shape[-1])):
        v = vectors[..., i:i + 1]
        result = result - tau[..., i, None, None] * (v @ (v.mT @ result))
    return result
