"""The activations and dropouts of torch.nn.functional: torch has `inplace` as an argument."""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Callable

from .. import _C
from .._tensor import Tensor

if TYPE_CHECKING:
    from .._C import _Dtype

__all__ = ["relu", "relu_", "relu6", "relu6_", "leaky_relu", "leaky_relu_", "elu", "elu_", "hardtanh", "hardtanh_",
           "hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "silu", "silu_", "mish", "mish_", "softmax",
           "softmin", "log_softmax", "celu", "selu", "threshold", "rrelu", "celu_", "selu_", "threshold_", "rrelu_",
           "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout"]


def _write(input: Tensor, made: Tensor, inplace: builtins.bool) -> Tensor:
    return input.copy_(made) if inplace else made


def _run(op: Callable[..., Tensor], input: Tensor, args: tuple[Any, ...], inplace: builtins.bool) -> Tensor:
    """In place straight into the input where no gradient looks at it."""
    if not inplace:
        return op(input, *args)
    return op(input, *args, out=input) if not input.requires_grad else input.copy_(op(input.clone(), *args))


# ---- activations: torch has `inplace` as an argument ----

def relu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """The element where positive, zero elsewhere."""
    return _run(_C.relu, input, (), inplace)


def relu_(input: Tensor) -> Tensor:
    """In place. See relu."""
    return _run(_C.relu, input, (), True)


def relu6(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """The element, but at least 0 and at most 6."""
    return _run(_C.relu6, input, (), inplace)


def relu6_(input: Tensor) -> Tensor:
    """In place. See relu6."""
    return _run(_C.relu6, input, (), True)


def leaky_relu(input: Tensor, negative_slope: builtins.float = 0.01, inplace: builtins.bool = False) -> Tensor:
    """The element where positive, negative_slope times it elsewhere."""
    return _run(_C.leaky_relu, input, (negative_slope,), inplace)


def leaky_relu_(input: Tensor, negative_slope: builtins.float = 0.01) -> Tensor:
    """In place. See leaky_relu."""
    return _run(_C.leaky_relu, input, (negative_slope,), True)


def elu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    """The element where positive, alpha (exp(x) - 1) elsewhere."""
    return _run(_C.elu, input, (alpha,), inplace)


def elu_(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """In place. See elu."""
    return _run(_C.elu, input, (alpha,), True)


def hardtanh(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0,
             inplace: builtins.bool = False) -> Tensor:
    """The element, but at least min_val and at most max_val."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _run(_C.hardtanh, input, (min_val, max_val), inplace)


def hardtanh_(input: Tensor, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0) -> Tensor:
    """In place. See hardtanh."""
    return hardtanh(input, min_val, max_val, True)


def hardswish(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """x relu6(x + 3) / 6."""
    return _run(_C.hardswish, input, (), inplace)


def hardswish_(input: Tensor) -> Tensor:
    """In place. See hardswish."""
    return _run(_C.hardswish, input, (), True)


def hardsigmoid(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """relu6(x + 3) / 6."""
    return _run(_C.hardsigmoid, input, (), inplace)


def hardsigmoid_(input: Tensor) -> Tensor:
    """In place. See hardsigmoid."""
    return _run(_C.hardsigmoid, input, (), True)


def silu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """x sigmoid(x)."""
    return _run(_C.silu, input, (), inplace)


def silu_(input: Tensor) -> Tensor:
    """In place. See silu."""
    return _run(_C.silu, input, (), True)


def mish(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """x tanh(log(1 + exp(x)))."""
    return _run(_C.mish, input, (), inplace)


def mish_(input: Tensor) -> Tensor:
    """In place. See mish."""
    return _run(_C.mish, input, (), True)


def _implicit_dim(ndim: builtins.int) -> builtins.int:
    """torch's guess where no dim is given."""
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Tensor, dim: builtins.int | None = None, _stacklevel: builtins.int = 3,
            dtype: _Dtype | None = None) -> Tensor:
    """exp(x) over its sum along a dimension."""
    return _C.softmax(input, _implicit_dim(input.ndim) if dim is None else dim, dtype=dtype)


def softmin(input: Tensor, dim: builtins.int | None = None, _stacklevel: builtins.int = 3,
            dtype: _Dtype | None = None) -> Tensor:
    """softmax of -x."""
    return _C.softmin(input, _implicit_dim(input.ndim) if dim is None else dim, dtype=dtype)


def log_softmax(input: Tensor, dim: builtins.int | None = None, _stacklevel: builtins.int = 3,
                dtype: _Dtype | None = None) -> Tensor:
    """The logarithm of softmax, without its loss of precision."""
    return _C.log_softmax(input, _implicit_dim(input.ndim) if dim is None else dim, dtype=dtype)


def celu(input: Tensor, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Tensor:
    """The element where positive, alpha (exp(x / alpha) - 1) elsewhere."""
    return _run(_C.celu, input, (alpha,), inplace)


def selu(input: Tensor, inplace: builtins.bool = False) -> Tensor:
    """elu with the alpha and scale that keep mean 0 and variance 1."""
    return _run(_C.selu, input, (), inplace)


def threshold(input: Tensor, threshold: builtins.float, value: builtins.float,
              inplace: builtins.bool = False) -> Tensor:
    """The element where above threshold, value elsewhere."""
    return _run(_C.threshold, input, (threshold, value), inplace)


def rrelu(input: Tensor, lower: builtins.float = 1.0 / 8, upper: builtins.float = 1.0 / 3,
          training: builtins.bool = False, inplace: builtins.bool = False) -> Tensor:
    """The element where positive, elsewhere times a slope drawn from [lower, upper), or their mean."""
    return _write(input, _C.rrelu(input.clone() if inplace and input.requires_grad else input, lower, upper, training),
                  inplace)


def celu_(input: Tensor, alpha: builtins.float = 1.0) -> Tensor:
    """In place. See celu."""
    return celu(input, alpha, True)


def selu_(input: Tensor) -> Tensor:
    """In place. See selu."""
    return selu(input, True)


def threshold_(input: Tensor, threshold: builtins.float, value: builtins.float) -> Tensor:
    """In place. See threshold."""
    return _run(_C.threshold, input, (threshold, value), True)


def rrelu_(input: Tensor, lower: builtins.float = 1.0 / 8, upper: builtins.float = 1.0 / 3,
           training: builtins.bool = False) -> Tensor:
    """In place. See rrelu."""
    return rrelu(input, lower, upper, training, True)


# ---- dropouts ----

def _drop(op: Callable[..., Tensor], input: Tensor, p: builtins.float, training: builtins.bool,
          inplace: builtins.bool) -> Tensor:
    if p < 0 or p > 1:
        raise ValueError("dropout probability has to be between 0 and 1, but got %s" % p)
    return _write(input, op(input, p, training), inplace)


def dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True,
            inplace: builtins.bool = False) -> Tensor:
    """Sets elements to zero with probability p while training, and scales the others by 1 / (1 - p)."""
    return _drop(_C.dropout, input, p, training, inplace)


def dropout1d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True,
              inplace: builtins.bool = False) -> Tensor:
    """Sets whole channels of (N, C, L) or (C, L) to zero with probability p, and scales the others."""
    if input.dim() not in (2, 3):
        raise RuntimeError("dropout1d: Expected 2D or 3D input, but received a %dD input." % input.dim())
    return _drop(_C.dropout1d, input, p, training, inplace)


def dropout2d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True,
              inplace: builtins.bool = False) -> Tensor:
    """Sets whole channels of (N, C, H, W) to zero with probability p, and scales the others."""
    return _drop(_C.dropout2d, input, p, training, inplace)


def dropout3d(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = True,
              inplace: builtins.bool = False) -> Tensor:
    """Sets whole channels of (N, C, D, H, W) or (C, D, H, W) to zero with probability p, and scales the others."""
    return _drop(_C.dropout3d, input, p, training, inplace)


def alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False,
                  inplace: builtins.bool = False) -> Tensor:
    """Sets elements to SELU's lower limit with probability p, and keeps mean and variance."""
    return _drop(_C.alpha_dropout, input, p, training, inplace)


def feature_alpha_dropout(input: Tensor, p: builtins.float = 0.5, training: builtins.bool = False,
                          inplace: builtins.bool = False) -> Tensor:
    """alpha_dropout of whole channels."""
    return _drop(_C.feature_alpha_dropout, input, p, training, inplace)
