"""nn.functional's activations, dropouts and losses of margins in torch's forms: with `inplace` as an argument, and with
the old size_average and reduce.
"""
from __future__ import annotations

import builtins
from typing import Any, Callable

from .. import _C


def _reduction(size_average: Any, reduce: Any, reduction: str) -> str:
    if size_average is not None or reduce is not None:
        mean, some = size_average is not False, reduce is not False
        return "mean" if mean and some else "sum" if some else "none"
    if reduction not in ("none", "mean", "sum"):
        raise ValueError("%s is not a valid value for reduction" % reduction)
    return reduction


def _write(input: Any, made: Any, inplace: builtins.bool) -> Any:
    return input.copy_(made) if inplace else made


def _run(op: Any, input: Any, args: tuple, inplace: builtins.bool) -> Any:
    """In place straight into the input where no gradient looks at it."""
    if not inplace:
        return op(input, *args)
    return op(input, *args, out=input) if not input.requires_grad else input.copy_(op(input.clone(), *args))


# ---- activations ----

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


# ---- losses ----

def poisson_nll_loss(input: Any, target: Any, log_input: builtins.bool = True, full: builtins.bool = False,
                     size_average: Any = None, eps: builtins.float = 1e-8, reduce: Any = None,
                     reduction: str = "mean") -> Any:
    """Negative log likelihood of counts under Poisson's distribution."""
    return _C.poisson_nll_loss(input, target, log_input, full, eps, _reduction(size_average, reduce, reduction))


def gaussian_nll_loss(input: Any, target: Any, var: Any, full: builtins.bool = False, eps: builtins.float = 1e-6,
                      reduction: str = "mean") -> Any:
    """Negative log likelihood under normal distributions with these variances."""
    if isinstance(var, (builtins.int, builtins.float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = _C.full_like(input, var)
    elif builtins.bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    return _C.gaussian_nll_loss(input, target, var, full, eps, _reduction(None, None, reduction))


def hinge_embedding_loss(input: Any, target: Any, margin: builtins.float = 1.0, size_average: Any = None,
                         reduce: Any = None, reduction: str = "mean") -> Any:
    """A distance where target is 1, what it lacks of the margin where target is -1."""
    return _C.hinge_embedding_loss(input, target, margin, _reduction(size_average, reduce, reduction))


def margin_ranking_loss(input1: Any, input2: Any, target: Any, margin: builtins.float = 0, size_average: Any = None,
                        reduce: Any = None, reduction: str = "mean") -> Any:
    """max(0, margin - target (input1 - input2))."""
    return _C.margin_ranking_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def cosine_embedding_loss(input1: Any, input2: Any, target: Any, margin: builtins.float = 0, size_average: Any = None,
                          reduce: Any = None, reduction: str = "mean") -> Any:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1."""
    return _C.cosine_embedding_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def soft_margin_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None,
                     reduction: str = "mean") -> Any:
    """log(1 + exp(-target input))."""
    return _C.soft_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def multi_margin_loss(input: Any, target: Any, p: builtins.int = 1, margin: builtins.float = 1.0, weight: Any = None,
                      size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    """How far other classes come within the margin of the right one."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _C.multi_margin_loss(input, target, p, margin, weight, _reduction(size_average, reduce, reduction))


def multilabel_margin_loss(input: Any, target: Any, size_average: Any = None, reduce: Any = None,
                           reduction: str = "mean") -> Any:
    """The same with several right classes: target lists them up to the first -1."""
    return _C.multilabel_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input: Any, target: Any, weight: Any = None, size_average: Any = None,
                                reduce: Any = None, reduction: str = "mean") -> Any:
    """binary_cross_entropy_with_logits, averaged over classes first."""
    return _C.multilabel_soft_margin_loss(input, target, weight, _reduction(size_average, reduce, reduction))


def triplet_margin_loss(anchor: Any, positive: Any, negative: Any, margin: builtins.float = 1.0,
                        p: builtins.float = 2, eps: builtins.float = 1e-6, swap: builtins.bool = False,
                        size_average: Any = None, reduce: Any = None, reduction: str = "mean") -> Any:
    """max(0, margin + distance to the positive - distance to the negative)."""
    if margin <= 0:
        raise ValueError("margin must be greater than 0, got %s" % margin)
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
                                  _reduction(size_average, reduce, reduction))


def triplet_margin_with_distance_loss(anchor: Any, positive: Any, negative: Any, *,
                                      distance_function: Callable | None = None, margin: builtins.float = 1.0,
                                      swap: builtins.bool = False, reduction: str = "mean") -> Any:
    """triplet_margin_loss with a distance of one's own."""
    distance = _C.pairwise_distance if distance_function is None else distance_function
    how = _reduction(None, None, reduction)
    if margin <= 0:
        raise ValueError("margin must be greater than 0, got %s" % margin)
    dims = [t.ndim for t in (anchor, positive, negative)]
    if dims != dims[:1] * 3:
        raise RuntimeError("The anchor, positive, and negative tensors are expected to have the same number of "
                           "dimensions, but got: anchor %dD, positive %dD, and negative %dD inputs" % tuple(dims))
    near, far = distance(anchor, positive), distance(anchor, negative)
    if swap:
        far = _C.minimum(far, distance(positive, negative))
    terms = _C._margin_terms(near, far, margin)
    return terms if how == "none" else terms.sum() if how == "sum" else terms.mean()


def _lengths(lengths: Any) -> Any:
    return lengths if isinstance(lengths, _C.TensorBase) else _C.tensor(builtins.list(lengths), dtype=_C.int64)


def ctc_loss(log_probs: Any, targets: Any, input_lengths: Any, target_lengths: Any, blank: builtins.int = 0,
             reduction: str = "mean", zero_infinity: builtins.bool = False) -> Any:
    """Connectionist temporal classification loss of log_softmax over time."""
    return _C.ctc_loss(log_probs, targets, _lengths(input_lengths), _lengths(target_lengths), blank,
                       _reduction(None, None, reduction), zero_infinity)


__all__ = [_name for _name in globals() if not _name.startswith("_") and _name not in
           ("annotations", "builtins", "Any", "Callable")]
