"""torch.special's orthogonal polynomials, from their recurrences: the degree n is a number or a tensor of them, and
what is asked for is picked out on the way up."""
from __future__ import annotations

from typing import TYPE_CHECKING, Callable

from . import _C
from ._tensor import Tensor

if TYPE_CHECKING:
    # of the degree k, x and the two before it: the polynomial of degree k + 1
    _Step = Callable[[int, Tensor, Tensor, Tensor], Tensor]

__all__ = ["chebyshev_polynomial_t", "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w",
           "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
           "shifted_chebyshev_polynomial_t", "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v",
           "shifted_chebyshev_polynomial_w", "spherical_bessel_j0"]


def _float(x: Tensor | float) -> Tensor:
    """x as a tensor that has fractions."""
    x = x if isinstance(x, Tensor) else _C.tensor(x, dtype=_C.get_default_dtype())
    return x if x.is_floating_point() else x.to(_C.get_default_dtype())


def _climb(x: Tensor, n: Tensor | float, first: Tensor, step: _Step) -> Tensor:
    """The polynomial of degree n at x: 1 of degree 0, `first` of degree 1, and 0 of degrees below."""
    if not isinstance(n, Tensor):
        n = _C.tensor(int(n), device=x.device)
    degree = n.to(_C.int64).to(x.device)
    x, degree = _C.broadcast_tensors([x, degree])
    before, now = _C.ones_like(x), first.expand(x.shape)
    result = _C.where(degree == 0, before, _C.where(degree == 1, now, _C.zeros_like(x)))
    for k in range(1, int(degree.max()) if degree.numel() else 0):
        before, now = now, step(k, x, now, before)
        result = _C.where(degree == k + 1, now, result)
    return result


def _chebyshev(_k: int, x: Tensor, now: Tensor, before: Tensor) -> Tensor:
    return 2 * x * now - before


def chebyshev_polynomial_t(x: Tensor | float, n: Tensor | float) -> Tensor:
    """cos(n acos(x)): T_n(x), the first kind."""
    x = _float(x)
    return _climb(x, n, x, _chebyshev)


def chebyshev_polynomial_u(x: Tensor | float, n: Tensor | float) -> Tensor:
    """U_n(x), the second kind: it begins with 1, 2 x."""
    x = _float(x)
    return _climb(x, n, 2 * x, _chebyshev)


def chebyshev_polynomial_v(x: Tensor | float, n: Tensor | float) -> Tensor:
    """V_n(x), the third kind: it begins with 1, 2 x - 1."""
    x = _float(x)
    return _climb(x, n, 2 * x - 1, _chebyshev)


def chebyshev_polynomial_w(x: Tensor | float, n: Tensor | float) -> Tensor:
    """W_n(x), the fourth kind: it begins with 1, 2 x + 1."""
    x = _float(x)
    return _climb(x, n, 2 * x + 1, _chebyshev)


def shifted_chebyshev_polynomial_t(x: Tensor | float, n: Tensor | float) -> Tensor:
    """T_n(2 x - 1), for x from 0 to 1."""
    return chebyshev_polynomial_t(2 * _float(x) - 1, n)


def shifted_chebyshev_polynomial_u(x: Tensor | float, n: Tensor | float) -> Tensor:
    """U_n(2 x - 1), for x from 0 to 1."""
    return chebyshev_polynomial_u(2 * _float(x) - 1, n)


def shifted_chebyshev_polynomial_v(x: Tensor | float, n: Tensor | float) -> Tensor:
    """V_n(2 x - 1), for x from 0 to 1."""
    return chebyshev_polynomial_v(2 * _float(x) - 1, n)


def shifted_chebyshev_polynomial_w(x: Tensor | float, n: Tensor | float) -> Tensor:
    """W_n(2 x - 1), for x from 0 to 1."""
    return chebyshev_polynomial_w(2 * _float(x) - 1, n)


def hermite_polynomial_h(x: Tensor | float, n: Tensor | float) -> Tensor:
    """H_n(x), the physicists': orthogonal by the weight exp(-x^2)."""
    x = _float(x)
    return _climb(x, n, 2 * x, lambda k, x, now, before: 2 * x * now - 2 * k * before)


def hermite_polynomial_he(x: Tensor | float, n: Tensor | float) -> Tensor:
    """He_n(x), the probabilists': orthogonal by the weight exp(-x^2 / 2)."""
    x = _float(x)
    return _climb(x, n, x, lambda k, x, now, before: x * now - k * before)


def laguerre_polynomial_l(x: Tensor | float, n: Tensor | float) -> Tensor:
    """L_n(x), orthogonal by the weight exp(-x)."""
    x = _float(x)
    return _climb(x, n, 1 - x, lambda k, x, now, before: ((2 * k + 1 - x) * now - k * before) / (k + 1))


def legendre_polynomial_p(x: Tensor | float, n: Tensor | float) -> Tensor:
    """P_n(x), orthogonal on -1 to 1."""
    x = _float(x)
    return _climb(x, n, x, lambda k, x, now, before: ((2 * k + 1) * x * now - k * before) / (k + 1))


def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x: 1 at 0, and 0 at infinity."""
    x = _float(x)
    usual = (x != 0) & ~x.isinf()
    safe = _C.where(usual, x, _C.ones_like(x))
    return _C.where(usual, safe.sin() / safe, (x == 0).to(x.dtype))
