"""Pointwise ops whose torch form is more than a signature: results that are Python's bool, arguments in front of the
tensor, operators written from the right.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING

from . import _C
from ._forms import _methods, _public
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._C import _Number

__all__ = ["allclose", "isreal"]


def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08,
             equal_nan: builtins.bool = False) -> builtins.bool:
    """Is isclose true everywhere?"""
    return builtins.bool(_C.allclose(input, other, rtol, atol, equal_nan))


def isreal(input: Tensor) -> Tensor:
    """True where the imaginary part is zero: everywhere in a real tensor."""
    return _C.eq(input.imag, 0) if input.is_complex() else _C.ones_like(input, dtype=_C.bool)


def _polygamma(self: Tensor, n: builtins.int) -> Tensor:
    """The n-th derivative of digamma."""
    return _C.polygamma(n, self)


def _polygamma_(self: Tensor, n: builtins.int) -> Tensor:
    """In place. See polygamma."""
    if not self.is_floating_point():
        raise RuntimeError("polygamma_(): the result is a floating-point number, which %s cannot hold" % self.dtype)
    return self.copy_(_C.polygamma(n, self.clone()))


_float_power = _C.TensorBase.float_power_


def _float_power_(self: Tensor, exponent: Tensor | _Number) -> Tensor:
    """In place, for float64 alone. See float_power."""
    if self.dtype != _C.float64:
        raise RuntimeError("the base given to float_power_ has dtype %s but the operation's result requires dtype "
                           "float64" % self.dtype)
    return _float_power(self, exponent)


def _rdiv(self: Tensor, other: Tensor | _Number) -> Tensor:
    """other / self."""
    return _C.mul(_C.reciprocal(self), other)


setattr(Tensor, "__rdiv__", _rdiv)
_methods(allclose, isreal, float_power_=_float_power_, polygamma=_polygamma, polygamma_=_polygamma_)
_public(globals())
