"""Linear algebra whose torch form is more than a signature: norms by name or number, older arguments, results that are
lists of arguments.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Sequence

from . import _C
from ._forms import _into, _methods, _public
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._C import _Dtype, _Number

__all__ = ["chain_matmul", "lu", "norm"]


def chain_matmul(*matrices: Tensor, out: Tensor | None = None) -> Tensor:
    """The product of matrices, in the cheapest order. See linalg.multi_dot."""
    return _into(out, _C.linalg_multi_dot(matrices))


def lu(A: Tensor, pivot: builtins.bool = True, get_infos: builtins.bool = False,
       out: Sequence[Tensor] | None = None) -> tuple[Tensor, ...]:
    """The older linalg.lu_factor, without an error for a singular matrix; with get_infos where it is singular."""
    found: tuple[Tensor, ...] = _C.linalg_lu_factor_ex(A, pivot=pivot)
    if not get_infos:
        found = found[0], found[1]
    if out is None:
        return found
    if len(out) != len(found):
        raise TypeError("expected tuple of %d elements but got %d" % (len(found), len(out)))
    return tuple(target.resize_(value.shape).copy_(value) for target, value in zip(out, found))


def norm(input: Tensor, p: _Number | str | None = "fro", dim: builtins.int | Sequence[builtins.int] | None = None,
         keepdim: builtins.bool = False, out: Tensor | None = None, dtype: _Dtype | None = None) -> Tensor:
    """The p-norm of all elements, or along dimensions; 'fro' is 2, 'nuc' the sum of the singular values of a matrix."""
    if isinstance(dim, builtins.int):
        dim = [dim]
    if p == "nuc":
        if dim is None:
            if input.ndim != 2:
                raise RuntimeError("norm(): p='nuc' without dim takes a matrix, not %d dimensions" % input.ndim)
            dim = [0, 1]
        return _into(out, _C.linalg_matrix_norm(input, "nuc", dim, keepdim, dtype=dtype))
    if isinstance(p, str) and p != "fro":
        raise RuntimeError("norm(): p must be a number, 'fro' or 'nuc', not %r" % p)
    order = 2 if p is None or p == "fro" else builtins.float(p)
    return _into(out, _C.norm(input, order, dim, keepdim, dtype=dtype))


_methods(lu, norm)
_public(globals())
