"""keras.ops.linalg, of cairn.linalg."""
from __future__ import annotations

from typing import Any

import cairn
from ._make import floats, op, unary

det, inv = unary(cairn.linalg.det, "det"), unary(cairn.linalg.inv, "inv")
eigh = unary(lambda x: tuple(cairn.linalg.eigh(x)), "eigh")
slogdet, logdet = unary(lambda x: tuple(cairn.linalg.slogdet(x)), "slogdet"), unary(cairn.logdet, "logdet")


@op
def cholesky(x: Any, upper: bool = False) -> Any:
    return cairn.linalg.cholesky(floats(x), upper=upper)


@op
def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    return cairn.cholesky_inverse(floats(x), upper=upper)


@op
def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    return cairn.linalg.norm(floats(x), ord, axis, keepdims)


@op
def qr(x: Any, mode: str = "reduced") -> Any:
    return tuple(cairn.linalg.qr(floats(x), mode))


@op
def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    return tuple(cairn.linalg.svd(floats(x), full_matrices)) if compute_uv else cairn.linalg.svdvals(floats(x))


@op
def solve(a: Any, b: Any) -> Any:
    return cairn.linalg.solve(floats(a), floats(b))


@op
def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    a, b = floats(a), floats(b)
    if b.ndim == a.ndim - 1:
        return cairn.linalg.solve_triangular(a, b.unsqueeze(-1), upper=not lower).squeeze(-1)
    return cairn.linalg.solve_triangular(a, b, upper=not lower)


@op
def lstsq(a: Any, b: Any, rcond: Any = None) -> Any:
    return cairn.linalg.lstsq(floats(a), floats(b), rcond)[0]


@op
def pinv(x: Any, rcond: Any = None) -> Any:
    return cairn.linalg.pinv(floats(x)) if rcond is None else cairn.linalg.pinv(floats(x), rtol=rcond)


@op
def matrix_rank(x: Any, tol: Any = None) -> Any:
    return cairn.linalg.matrix_rank(floats(x)) if tol is None else cairn.linalg.matrix_rank(floats(x), tol=tol)


def jvp(fun: Any, primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """The value of a function and its derivative along tangents."""
    return cairn.func.jvp(fun, tuple(primals), tuple(tangents), has_aux=has_aux)
