"""Pointwise ops whose torch form is more than a signature: results that are Python's bool, arguments in front of the
tensor, operators written from the right.
"""
from __future__ import annotations

import builtins
from typing import Any

from . import _C
from ._forms import _public
from ._tensor import Tensor
from .nn._activations import celu_, rrelu_, selu_, threshold_


@_public
def allclose(input: Tensor, other: Tensor, rtol: builtins.float = 1e-05, atol: builtins.float = 1e-08,
             equal_nan: builtins.bool = False) -> builtins.bool:
    """Is isclose true everywhere?"""
    return builtins.bool(_C.allclose(input, other, rtol, atol, equal_nan))


def _polygamma(input: Tensor, n: builtins.int) -> Tensor:
    """The n-th derivative of digamma."""
    return _C.polygamma(n, input)


def _polygamma_(input: Tensor, n: builtins.int) -> Tensor:
    """In place. See polygamma."""
    if not input.is_floating_point():
        raise RuntimeError("polygamma_(): the result is a floating-point number, which %s cannot hold" % input.dtype)
    return input.copy_(_C.polygamma(n, input.clone()))


_float_power_ = Tensor.float_power_


def _float_power_in_place(input: Tensor, exponent: Any) -> Tensor:
    """In place, for float64 alone. See float_power."""
    if input.dtype != _C.float64:
        raise RuntimeError("the base given to float_power_ has dtype %s but the operation's result requires dtype "
                           "float64" % input.dtype)
    return _float_power_(input, exponent)


def _rdiv(input: Tensor, other: Any) -> Tensor:
    """other / input."""
    return _C.mul(_C.reciprocal(input), other)


Tensor.polygamma = _polygamma
Tensor.polygamma_ = _polygamma_
Tensor.float_power_ = _float_power_in_place
Tensor.__rdiv__ = _rdiv

__all__ = ["allclose", "celu_", "rrelu_", "selu_", "threshold_"]
