"""torch.nn.functional's names. Ops of the table's `nn` namespace come as they are; where torch's form has arguments
that the op has not (inplace=, the old size_average=), a function here takes them.
"""
from __future__ import annotations

import builtins
from typing import Any

from .. import _C, _forms
from .._names import SPACES

for _name in SPACES["nn"]:
    globals()[_name] = getattr(_C, _name)

sigmoid, tanh = _C.sigmoid, _C.tanh


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


def dropout(input: Any, p: builtins.float = 0.5, training: builtins.bool = True, inplace: builtins.bool = False) -> Any:
    """Sets elements to zero with probability p while training, and scales the others by 1 / (1 - p)."""
    if p < 0 or p > 1:
        raise ValueError("dropout probability has to be between 0 and 1, but got %s" % p)
    made = _C.dropout(input, p, training)
    return input.copy_(made) if inplace else made


# ---- losses: torch still takes size_average and reduce ----

def _reduction(size_average: Any, reduce: Any, reduction: str) -> str:
    if size_average is not None or reduce is not None:
        mean, some = size_average is not False, reduce is not False
        return "mean" if mean and some else "sum" if some else "none"
    if reduction not in ("none", "mean", "sum", "batchmean"):
        raise ValueError("%s is not a valid value for reduction" % reduction)
    return reduction


def mse_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
             weight: Any = None) -> Any:
    """The mean square of the difference."""
    how = _reduction(size_average, reduce, reduction)
    if weight is None:
        return _C.mse_loss(input, target, how)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    terms = weight * _C.mse_loss(input, target, "none")
    return terms if how == "none" else terms.sum() if how == "sum" else terms.sum() / weight.sum()


def l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
            weight: Any = None) -> Any:
    """The mean distance."""
    how = _reduction(size_average, reduce, reduction)
    if weight is None:
        return _C.l1_loss(input, target, how)
    terms = weight * _C.l1_loss(input, target, "none")
    return terms if how == "none" else terms.sum() if how == "sum" else terms.sum() / weight.sum()


def smooth_l1_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
                   beta: builtins.float = 1.0) -> Any:
    """Square near zero, distance beyond beta."""
    return _C.smooth_l1_loss(input, target, _reduction(size_average, reduce, reduction), beta)


def huber_loss(input: Any, target: Any, reduction: str = "mean", delta: builtins.float = 1.0,
               weight: Any = None) -> Any:
    """Half the square near zero, distance beyond delta."""
    if weight is None:
        return _C.huber_loss(input, target, _reduction(None, None, reduction), delta)
    terms = weight * _C.huber_loss(input, target, "none", delta)
    return terms if reduction == "none" else terms.sum() if reduction == "sum" else terms.mean()


def kl_div(input: Any, target: Any, size_average: Any = None, reduce: Any = None, reduction: str = "mean",
           log_target: builtins.bool = False) -> Any:
    """Kullback-Leibler divergence of target from exp(input)."""
    return _C.kl_div(input, target, _reduction(size_average, reduce, reduction), log_target)


def cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None,
                  ignore_index: builtins.int = -100, reduce: Any = None, reduction: str = "mean",
                  label_smoothing: builtins.float = 0.0) -> Any:
    """Cross entropy of scores and class numbers, or probabilities."""
    return _C.cross_entropy(input, target, weight, ignore_index, _reduction(size_average, reduce, reduction),
                            label_smoothing)


def nll_loss(input: Any, target: Any, weight: Any = None, size_average: Any = None, ignore_index: builtins.int = -100,
             reduce: Any = None, reduction: str = "mean") -> Any:
    """Negative log likelihood: minus the log-probability of the class."""
    return _C.nll_loss(input, target, weight, ignore_index, _reduction(size_average, reduce, reduction))


def binary_cross_entropy(input: Any, target: Any, weight: Any = None, size_average: Any = None, reduce: Any = None,
                         reduction: str = "mean") -> Any:
    """Cross entropy of probabilities."""
    return _C.binary_cross_entropy(input, target, weight, _reduction(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(input: Any, target: Any, weight: Any = None, size_average: Any = None,
                                     reduce: Any = None, reduction: str = "mean", pos_weight: Any = None) -> Any:
    """binary_cross_entropy of sigmoid(input), without its loss of precision."""
    return _C.binary_cross_entropy_with_logits(input, target, weight, _reduction(size_average, reduce, reduction),
                                               pos_weight)


# ---- embedding ----

def embedding(input: Any, weight: Any, padding_idx: Any = None, max_norm: Any = None, norm_type: builtins.float = 2.0,
              scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Any:
    """Rows of weight by number."""
    if max_norm is not None or scale_grad_by_freq:
        raise NotImplementedError("embedding(): max_norm and scale_grad_by_freq are not there yet")
    return _C.embedding(input, weight, padding_idx)


def normalize(input: Any, p: builtins.float = 2.0, dim: builtins.int = 1, eps: builtins.float = 1e-12,
              out: Any = None) -> Any:
    """Divides by the p-norm along a dimension, which counts at least eps."""
    size = _forms.norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return _C.div(input, size, out=out)


from ._conv import *  # noqa: E402,F401,F403
from ._shape import *  # noqa: E402,F401,F403
from ._pw import *  # noqa: E402,F401,F403
