"""torch.signal.windows' names: symmetric or periodic windows of M places, all between 0 and 1."""
from __future__ import annotations

import builtins
import math
from typing import TYPE_CHECKING, Iterable

from .. import _C, _homes
from .._tensor import Tensor

if TYPE_CHECKING:
    from .._C import _Device, _dtype, _layout

__all__ = ["bartlett", "blackman", "cosine", "exponential", "gaussian", "general_cosine", "general_hamming", "hamming",
           "hann", "kaiser", "nuttall"]


def _check(name: str, m: builtins.int, dtype: _dtype | None, layout: _layout | None) -> _dtype:
    """The type to make, after the checks that all windows share."""
    dtype = _C.get_default_dtype() if dtype is None else dtype
    if m < 0:
        raise ValueError("%s requires non-negative window length, got M=%s" % (name, m))
    if layout is not None and layout != _C.strided:
        raise ValueError("%s is implemented for strided tensors only, got: %s" % (name, layout))
    if dtype not in (_C.float32, _C.float64):
        raise ValueError("%s expects float32 or float64 dtypes, got: %s" % (name, dtype))
    return dtype


def _finish(y: Tensor, dtype: _dtype, requires_grad: builtins.bool) -> Tensor:
    y = y.to(dtype)
    return y.requires_grad_() if requires_grad else y


def _places(m: builtins.int, device: _Device | None) -> Tensor:
    return _C.arange(0, m, 1, dtype=_C.float64, device=device)


def _last(m: builtins.int, sym: builtins.bool) -> builtins.int:
    """The last place of the symmetric window; 1 where there is but one place."""
    return builtins.max(m - 1 if sym else m, 1)


def exponential(M: builtins.int, *, center: builtins.float | None = None, tau: builtins.float = 1.0,
                sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
                device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """exp(-|n - center| / tau)"""
    dtype = _check("exponential", M, dtype, layout)
    if tau <= 0:
        raise ValueError("Tau must be positive, got: %s instead." % tau)
    if sym and center is not None:
        raise ValueError("Center must be None for symmetric windows")
    if center is None:
        center = (M - 1 if sym or M < 2 else M) / 2.0
    return _finish(((_places(M, device) - center).abs() / -tau).exp(), dtype, requires_grad)


def cosine(M: builtins.int, *, sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
           device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """sin(pi (n + 1/2) / M), half a turn."""
    dtype = _check("cosine", M, dtype, layout)
    whole = M if sym or M < 2 else M + 1
    return _finish(((_places(M, device) + 0.5) * (math.pi / builtins.max(whole, 1))).sin(), dtype, requires_grad)


def gaussian(M: builtins.int, *, std: builtins.float = 1.0, sym: builtins.bool = True, dtype: _dtype | None = None,
             layout: _layout | None = None, device: _Device | None = None,
             requires_grad: builtins.bool = False) -> Tensor:
    """exp(-(n - middle)^2 / (2 std^2))"""
    dtype = _check("gaussian", M, dtype, layout)
    if std <= 0:
        raise ValueError("Standard deviation must be positive, got: %s instead." % std)
    away = _places(M, device) - (M - 1 if sym or M < 2 else M) / 2.0
    return _finish((away.square() / (-2.0 * std * std)).exp(), dtype, requires_grad)


def kaiser(M: builtins.int, *, beta: builtins.float = 12.0, sym: builtins.bool = True, dtype: _dtype | None = None,
           layout: _layout | None = None, device: _Device | None = None,
           requires_grad: builtins.bool = False) -> Tensor:
    """i0(beta sqrt(1 - x^2)) / i0(beta), x from -1 to 1."""
    dtype = _check("kaiser", M, dtype, layout)
    if beta < 0:
        raise ValueError("beta must be non-negative, got: %s instead." % beta)
    return _finish(_C.kaiser_window(M, not sym, builtins.float(beta), dtype=_C.float64, device=device), dtype,
                   requires_grad)


def general_cosine(M: builtins.int, *, a: Iterable[builtins.float], sym: builtins.bool = True,
                   dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None,
                   requires_grad: builtins.bool = False) -> Tensor:
    """a[0] - a[1] cos x + a[2] cos 2x - ..., x one turn."""
    dtype = _check("general_cosine", M, dtype, layout)
    if not isinstance(a, Iterable):
        raise TypeError("Coefficients must be a list/tuple")
    factors = builtins.list(a)
    if not factors:
        raise ValueError("Coefficients cannot be empty")
    if M == 1:
        return _finish(_C.ones((1,), dtype=_C.float64, device=device), dtype, requires_grad)
    turn = _places(M, device) * (2.0 * math.pi / _last(M, sym))
    y = turn * 0.0 + factors[0]
    for k in range(1, builtins.len(factors)):
        y = y + (turn * k).cos() * (-factors[k] if k % 2 else factors[k])
    return _finish(y, dtype, requires_grad)


def general_hamming(M: builtins.int, *, alpha: builtins.float = 0.54, sym: builtins.bool = True,
                    dtype: _dtype | None = None, layout: _layout | None = None, device: _Device | None = None,
                    requires_grad: builtins.bool = False) -> Tensor:
    """alpha - (1 - alpha) cos x"""
    return general_cosine(M, a=[alpha, 1.0 - alpha], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


def hamming(M: builtins.int, *, sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
            device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """0.54 - 0.46 cos x"""
    return general_hamming(M, sym=sym, dtype=dtype, layout=layout, device=device, requires_grad=requires_grad)


def hann(M: builtins.int, *, sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
         device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """(1 - cos x) / 2"""
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, layout=layout, device=device,
                           requires_grad=requires_grad)


def blackman(M: builtins.int, *, sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
             device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """0.42 - 0.5 cos x + 0.08 cos 2x"""
    return general_cosine(M, a=[0.42, 0.5, 0.08], sym=sym, dtype=dtype, layout=layout, device=device,
                          requires_grad=requires_grad)


def nuttall(M: builtins.int, *, sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
            device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Nuttall's window of four terms."""
    return general_cosine(M, a=[0.3635819, 0.4891775, 0.1365995, 0.0106411], sym=sym, dtype=dtype, layout=layout,
                          device=device, requires_grad=requires_grad)


def bartlett(M: builtins.int, *, sym: builtins.bool = True, dtype: _dtype | None = None, layout: _layout | None = None,
             device: _Device | None = None, requires_grad: builtins.bool = False) -> Tensor:
    """Up to 1 in the middle and down again in straight lines."""
    dtype = _check("bartlett", M, dtype, layout)
    return _finish(_C.bartlett_window(M, not sym, dtype=_C.float64, device=device), dtype, requires_grad)


_homes.homes(__name__, {"windows": " ".join(__all__)})
