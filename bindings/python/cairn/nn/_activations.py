"""The activations and dropouts of torch.nn.functional: torch has `inplace` as an argument."""
from __future__ import annotations

import builtins
from typing import Any

from .. import _C

__all__ = ["relu", "relu_", "relu6", "relu6_", "leaky_relu", "leaky_relu_", "elu", "elu_", "hardtanh", "hardtanh_",
           "hardswish", "hardswish_", "hardsigmoid", "hardsigmoid_", "silu", "silu_", "mish", "mish_", "softmax",
           "softmin", "log_softmax", "celu", "selu", "threshold", "rrelu", "celu_", "selu_", "threshold_", "rrelu_",
           "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout", "dropout"]


def _write(input: Any, made: Any, inplace: builtins.bool) -> Any:
    return input.copy_(made) if inplace else made


def _run(op: Any, input: Any, args: tuple, inplace: builtins.bool) -> Any:
    """In place straight into the input where no gradient looks at it."""
    if not inplace:
        return op(input, *args)
    return op(input, *args, out=input) if not input.requires_grad else input.copy_(op(input.clone(), *args))


# ---- activations: torch has `inplace` as an argument ----

def _activation(name: str, *, takes: builtins.int = 0) -> Any:
    """takes: positional parameters between input and inplace."""
    op = getattr(_C, name)

    def activate(input: Any, *args: Any, inplace: builtins.bool = False, **more: Any) -> Any:
        if builtins.len(args) == takes + 1:
            args, inplace = args[:-1], args[-1]
        return op(input, *args, out=input, **more) if inplace and not input.requires_grad else \
            input.copy_(op(input.clone(), *args, **more)) if inplace else op(input, *args, **more)
    activate.__name__ = activate.__qualname__ = name
    activate.__doc__ = op.__doc__
    globals()[name] = activate

    def activate_(input: Any, *args: Any, **more: Any) -> Any:
        return activate(input, *args, inplace=True, **more)
    activate_.__name__ = activate_.__qualname__ = name + "_"
    activate_.__doc__ = "In place. See %s." % name
    globals()[name + "_"] = activate_
    return activate


for _name, _takes in {"relu": 0, "relu6": 0, "leaky_relu": 1, "elu": 1, "hardtanh": 2, "hardswish": 0,
                      "hardsigmoid": 0, "silu": 0, "mish": 0}.items():
    _activation(_name, takes=_takes)


_hardtanh = globals()["hardtanh"]


def hardtanh(input: Any, min_val: builtins.float = -1.0, max_val: builtins.float = 1.0,
             inplace: builtins.bool = False) -> Any:
    """The element, but at least min_val and at most max_val."""
    if min_val > max_val:
        raise ValueError("min_val cannot be greater than max_val")
    return _hardtanh(input, min_val, max_val, inplace=inplace)


def _implicit_dim(ndim: builtins.int) -> builtins.int:
    """torch's guess where no dim is given."""
    return 0 if ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: Any = None, _stacklevel: builtins.int = 3, dtype: Any = None) -> Any:
    """exp(x) over its sum along a dimension."""
    return _C.softmax(input, _implicit_dim(input.ndim) if dim is None else dim, dtype=dtype)


def softmin(input: Any, dim: Any = None, _stacklevel: builtins.int = 3, dtype: Any = None) -> Any:
    """softmax of -x."""
    return _C.softmin(input, _implicit_dim(input.ndim) if dim is None else dim, dtype=dtype)


def log_softmax(input: Any, dim: Any = None, _stacklevel: builtins.int = 3, dtype: Any = None) -> Any:
    """The logarithm of softmax, without its loss of precision."""
    return _C.log_softmax(input, _implicit_dim(input.ndim) if dim is None else dim, dtype=dtype)


def celu(input: Any, alpha: builtins.float = 1.0, inplace: builtins.bool = False) -> Any:
    """The element where positive, alpha (exp(x / alpha) - 1) elsewhere."""
    return _run(_C.celu, input, (alpha,), inplace)


def selu(input: Any, inplace: builtins.bool = False) -> Any:
    """elu with the alpha and scale that keep mean 0 and variance 1."""
    return _run(_C.selu, input, (), inplace)


def threshold(input: Any, threshold: builtins.float, value: builtins.float, inplace: builtins.bool = False) -> Any:
    """The element where above threshold, value elsewhere."""
    return _run(_C.threshold, input, (threshold, value), inplace)


def rrelu(input: Any, lower: builtins.float = 1.0 / 8, upper: builtins.float = 1.0 / 3,
          training: builtins.bool = False, inplace: builtins.bool = False) -> Any:
    """The element where positive, elsewhere times a slope drawn from [lower, upper), or their mean."""
    return _write(input, _C.rrelu(input.clone() if inplace and input.requires_grad else input, lower, upper, training),
                  inplace)


def celu_(input: Any, alpha: builtins.float = 1.0) -> Any:
    """In place. See celu."""
    return celu(input, alpha, True)


def selu_(input: Any) -> Any:
    """In place. See selu."""
    return selu(input, True)


def threshold_(input: Any, threshold: builtins.float, value: builtins.float) -> Any:
    """In place. See threshold."""
    return _run(_C.threshold, input, (threshold, value), True)


def rrelu_(input: Any, lower: builtins.float = 1.0 / 8, upper: builtins.float = 1.0 / 3,
           training: builtins.bool = False) -> Any:
    """In place. See rrelu."""
    return rrelu(input, lower, upper, training, True)


# ---- dropouts ----

def _drop(op: Any, input: Any, p: builtins.float, training: builtins.bool, inplace: builtins.bool) -> Any:
    if p < 0 or p > 1:
        raise ValueError("dropout probability has to be between 0 and 1, but got %s" % p)
    return _write(input, op(input, p, training), inplace)


def dropout(input: Any, p: builtins.float = 0.5, training: builtins.bool = True,
            inplace: builtins.bool = False) -> Any:
    """Sets elements to zero with probability p while training, and scales the others by 1 / (1 - p)."""
    return _drop(_C.dropout, input, p, training, inplace)


def dropout1d(input: Any, p: builtins.float = 0.5, training: builtins.bool = True,
              inplace: builtins.bool = False) -> Any:
    """Sets whole channels of (N, C, L) or (C, L) to zero with probability p, and scales the others."""
    if input.dim() not in (2, 3):
        raise RuntimeError("dropout1d: Expected 2D or 3D input, but received a %dD input." % input.dim())
    return _drop(_C.dropout1d, input, p, training, inplace)


def dropout2d(input: Any, p: builtins.float = 0.5, training: builtins.bool = True,
              inplace: builtins.bool = False) -> Any:
    """Sets whole channels of (N, C, H, W) to zero with probability p, and scales the others."""
    return _drop(_C.dropout2d, input, p, training, inplace)


def dropout3d(input: Any, p: builtins.float = 0.5, training: builtins.bool = True,
              inplace: builtins.bool = False) -> Any:
    """Sets whole channels of (N, C, D, H, W) or (C, D, H, W) to zero with probability p, and scales the others."""
    return _drop(_C.dropout3d, input, p, training, inplace)


def alpha_dropout(input: Any, p: builtins.float = 0.5, training: builtins.bool = False,
                  inplace: builtins.bool = False) -> Any:
    """Sets elements to SELU's lower limit with probability p, and keeps mean and variance."""
    return _drop(_C.alpha_dropout, input, p, training, inplace)


def feature_alpha_dropout(input: Any, p: builtins.float = 0.5, training: builtins.bool = False,
                          inplace: builtins.bool = False) -> Any:
    """alpha_dropout of whole channels."""
    return _drop(_C.feature_alpha_dropout, input, p, training, inplace)
