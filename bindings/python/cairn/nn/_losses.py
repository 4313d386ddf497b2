"""The losses of torch.nn.functional: torch still takes size_average and reduce."""
from __future__ import annotations

import builtins
from typing import Any, Callable, Sequence

from .. import _C
from .._arguments import only_speed
from .._tensor import Tensor

__all__ = ["mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "cross_entropy",
           "linear_cross_entropy", "nll_loss", "binary_cross_entropy",
           "binary_cross_entropy_with_logits", "poisson_nll_loss", "gaussian_nll_loss",
           "hinge_embedding_loss", "margin_ranking_loss", "cosine_embedding_loss", "soft_margin_loss",
           "multi_margin_loss", "multilabel_margin_loss", "multilabel_soft_margin_loss", "triplet_margin_loss",
           "triplet_margin_with_distance_loss", "ctc_loss"]


def _reduction(size_average: builtins.bool | None, reduce: builtins.bool | None, reduction: str,
               allowed: tuple[str, ...] = ("none", "mean", "sum")) -> str:
    if size_average is not None or reduce is not None:
        mean, some = size_average is not False, reduce is not False
        return "mean" if mean and some else "sum" if some else "none"
    if reduction not in allowed:
        raise ValueError("%s is not a valid value for reduction" % reduction)
    return reduction


def mse_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None,
             reduce: builtins.bool | None = None, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """The mean square of the difference."""
    how = _reduction(size_average, reduce, reduction)
    if weight is None:
        return _C.mse_loss(input, target, how)
    if weight.shape != input.shape:
        raise ValueError("Weights and input must have the same size.")
    terms = weight * _C.mse_loss(input, target, "none")
    return terms if how == "none" else terms.sum() if how == "sum" else terms.sum() / weight.sum()


def l1_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None,
            reduce: builtins.bool | None = None, reduction: str = "mean", weight: Tensor | None = None) -> Tensor:
    """The mean distance."""
    how = _reduction(size_average, reduce, reduction)
    if weight is None:
        return _C.l1_loss(input, target, how)
    terms = weight * _C.l1_loss(input, target, "none")
    return terms if how == "none" else terms.sum() if how == "sum" else terms.sum() / weight.sum()


def smooth_l1_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None,
                   reduce: builtins.bool | None = None, reduction: str = "mean", beta: builtins.float = 1.0) -> Tensor:
    """Square near zero, distance beyond beta."""
    return _C.smooth_l1_loss(input, target, _reduction(size_average, reduce, reduction), beta)


def huber_loss(input: Tensor, target: Tensor, reduction: str = "mean", delta: builtins.float = 1.0,
               weight: Tensor | None = None) -> Tensor:
    """Half the square near zero, distance beyond delta."""
    if weight is None:
        return _C.huber_loss(input, target, _reduction(None, None, reduction), delta)
    terms = weight * _C.huber_loss(input, target, "none", delta)
    return terms if reduction == "none" else terms.sum() if reduction == "sum" else terms.mean()


def kl_div(input: Tensor, target: Tensor, size_average: builtins.bool | None = None,
           reduce: builtins.bool | None = None, reduction: str = "mean", log_target: builtins.bool = False) -> Tensor:
    """Kullback-Leibler divergence of target from exp(input)."""
    how = _reduction(size_average, reduce, reduction, ("none", "mean", "sum", "batchmean"))
    return _C.kl_div(input, target, how, log_target)


def cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                  size_average: builtins.bool | None = None, ignore_index: builtins.int = -100,
                  reduce: builtins.bool | None = None, reduction: str = "mean",
                  label_smoothing: builtins.float = 0.0) -> Tensor:
    """Cross entropy of scores and class numbers, or probabilities."""
    return _C.cross_entropy(input, target, weight, ignore_index, _reduction(size_average, reduce, reduction),
                            label_smoothing)


def linear_cross_entropy(input: Tensor, linear_weight: Tensor, target: Tensor, *, linear_bias: Tensor | None = None,
                         weight: Tensor | None = None, reduction: str = "mean",
                         ignore_index: builtins.int | None = None, label_smoothing: builtins.float = 0.0,
                         options: Any = None) -> Tensor:
    """cross_entropy of the scores that a linear layer gives. Of many rows with plain classes no more than 4,096 rows of
    scores are there at a time; options, which choose such parts in torch, change nothing."""
    only_speed("linear_cross_entropy", options=options)
    if ignore_index is not None and target.is_floating_point():
        raise RuntimeError("linear_cross_entropy: ignore_index cannot be specified when target contains probabilities")
    ignored = -100 if ignore_index is None else ignore_index
    if linear_weight.ndim == 2:
        return _C.linear_cross_entropy(input, linear_weight, target, linear_bias=linear_bias, weight=weight,
                                       reduction=_reduction(None, None, reduction), ignore_index=ignored,
                                       label_smoothing=label_smoothing)
    if input.ndim != 2:
        raise RuntimeError("linear_cross_entropy: linear_weight %s, of more than one dimension of classes, takes a "
                           "batch (N, in_features), not %s" % (tuple(linear_weight.shape), tuple(input.shape)))
    outer = linear_weight.shape[:-1]
    scores = _C.linear(input, linear_weight.reshape(-1, linear_weight.shape[-1]),
                       None if linear_bias is None else linear_bias.reshape(-1))
    return cross_entropy(scores.reshape(*input.shape[:-1], *outer), target, weight, ignore_index=ignored,
                         reduction=reduction, label_smoothing=label_smoothing)


def nll_loss(input: Tensor, target: Tensor, weight: Tensor | None = None, size_average: builtins.bool | None = None,
             ignore_index: builtins.int = -100, reduce: builtins.bool | None = None, reduction: str = "mean") -> Tensor:
    """Negative log likelihood: minus the log-probability of the class."""
    return _C.nll_loss(input, target, weight, ignore_index, _reduction(size_average, reduce, reduction))


def binary_cross_entropy(input: Tensor, target: Tensor, weight: Tensor | None = None,
                         size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """Cross entropy of probabilities."""
    return _C.binary_cross_entropy(input, target, weight, _reduction(size_average, reduce, reduction))


def binary_cross_entropy_with_logits(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                     size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                                     reduction: str = "mean", pos_weight: Tensor | None = None) -> Tensor:
    """binary_cross_entropy of sigmoid(input), without its loss of precision."""
    return _C.binary_cross_entropy_with_logits(input, target, weight, _reduction(size_average, reduce, reduction),
                                               pos_weight)


def poisson_nll_loss(input: Tensor, target: Tensor, log_input: builtins.bool = True, full: builtins.bool = False,
                     size_average: builtins.bool | None = None, eps: builtins.float = 1e-8,
                     reduce: builtins.bool | None = None, reduction: str = "mean") -> Tensor:
    """Negative log likelihood of counts under Poisson's distribution."""
    return _C.poisson_nll_loss(input, target, log_input, full, eps, _reduction(size_average, reduce, reduction))


def gaussian_nll_loss(input: Tensor, target: Tensor, var: Tensor | builtins.float, full: builtins.bool = False,
                      eps: builtins.float = 1e-6, reduction: str = "mean") -> Tensor:
    """Negative log likelihood under normal distributions with these variances."""
    if isinstance(var, (builtins.int, builtins.float)):
        if var < 0:
            raise ValueError("var has negative entry/entries")
        var = _C.full_like(input, var)
    elif builtins.bool((var < 0).any()):
        raise ValueError("var has negative entry/entries")
    return _C.gaussian_nll_loss(input, target, var, full, eps, _reduction(None, None, reduction))


def hinge_embedding_loss(input: Tensor, target: Tensor, margin: builtins.float = 1.0,
                         size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                         reduction: str = "mean") -> Tensor:
    """A distance where target is 1, what it lacks of the margin where target is -1."""
    return _C.hinge_embedding_loss(input, target, margin, _reduction(size_average, reduce, reduction))


def margin_ranking_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0,
                        size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, margin - target (input1 - input2))."""
    return _C.margin_ranking_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def cosine_embedding_loss(input1: Tensor, input2: Tensor, target: Tensor, margin: builtins.float = 0,
                          size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                          reduction: str = "mean") -> Tensor:
    """1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1."""
    return _C.cosine_embedding_loss(input1, input2, target, margin, _reduction(size_average, reduce, reduction))


def soft_margin_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None,
                     reduce: builtins.bool | None = None, reduction: str = "mean") -> Tensor:
    """log(1 + exp(-target input))."""
    return _C.soft_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def multi_margin_loss(input: Tensor, target: Tensor, p: builtins.int = 1, margin: builtins.float = 1.0,
                      weight: Tensor | None = None, size_average: builtins.bool | None = None,
                      reduce: builtins.bool | None = None, reduction: str = "mean") -> Tensor:
    """How far other classes come within the margin of the right one."""
    if p not in (1, 2):
        raise ValueError("only p == 1 and p == 2 supported")
    if weight is not None and weight.dim() != 1:
        raise ValueError("weight must be one-dimensional")
    return _C.multi_margin_loss(input, target, p, margin, weight, _reduction(size_average, reduce, reduction))


def multilabel_margin_loss(input: Tensor, target: Tensor, size_average: builtins.bool | None = None,
                           reduce: builtins.bool | None = None, reduction: str = "mean") -> Tensor:
    """The same with several right classes: target lists them up to the first -1."""
    return _C.multilabel_margin_loss(input, target, _reduction(size_average, reduce, reduction))


def multilabel_soft_margin_loss(input: Tensor, target: Tensor, weight: Tensor | None = None,
                                size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                                reduction: str = "mean") -> Tensor:
    """binary_cross_entropy_with_logits, averaged over classes first."""
    return _C.multilabel_soft_margin_loss(input, target, weight, _reduction(size_average, reduce, reduction))


def triplet_margin_loss(anchor: Tensor, positive: Tensor, negative: Tensor, margin: builtins.float = 1.0,
                        p: builtins.float = 2, eps: builtins.float = 1e-6, swap: builtins.bool = False,
                        size_average: builtins.bool | None = None, reduce: builtins.bool | None = None,
                        reduction: str = "mean") -> Tensor:
    """max(0, margin + distance to the positive - distance to the negative)."""
    if margin <= 0:
        raise ValueError("margin must be greater than 0, got %s" % margin)
    return _C.triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap,
                                  _reduction(size_average, reduce, reduction))


def triplet_margin_with_distance_loss(anchor: Tensor, positive: Tensor, negative: Tensor, *,
                                      distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
                                      margin: builtins.float = 1.0, swap: builtins.bool = False,
                                      reduction: str = "mean") -> Tensor:
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


def _lengths(lengths: Tensor | Sequence[builtins.int], like: Tensor) -> Tensor:
    """Numbers or a tensor of any device, where `like` is."""
    if isinstance(lengths, Tensor):
        return lengths.to(like.device)
    return _C.tensor(builtins.list(lengths), dtype=_C.int64, device=like.device)


def ctc_loss(log_probs: Tensor, targets: Tensor, input_lengths: Tensor | Sequence[builtins.int],
             target_lengths: Tensor | Sequence[builtins.int], blank: builtins.int = 0, reduction: str = "mean",
             zero_infinity: builtins.bool = False) -> Tensor:
    """Connectionist temporal classification loss of log_softmax over time."""
    return _C.ctc_loss(log_probs, targets, _lengths(input_lengths, log_probs), _lengths(target_lengths, log_probs),
                       blank, _reduction(None, None, reduction), zero_infinity)
