"""Losses of (targets, outputs) as Keras has them: a value for each sample, probabilities unless from_logits is set.

All are made of cairn's ops; `functions` has them by name, and by torch's names those that take scores: "cross_entropy",
"bce_with_logits". reduced() makes one number of the values."""
from __future__ import annotations

import math
from typing import Any, Callable

import cairn
from ..nn import functional as F
from .batches import to_tensor
from .settings import epsilon

__all__ = ["functions", "as_wide", "mean_of_places", "pair", "reduced"]


def as_wide(weight: Any, values: Any) -> Any:
    """Weights with as many dimensions as the values of samples, theirs first."""
    while weight.ndim > values.ndim and weight.shape[-1] == 1:
        weight = weight.squeeze(-1)
    return weight.reshape(tuple(weight.shape) + (1,) * (values.ndim - weight.ndim))


def reduced(values: Any, weight: Any = None, mask: Any = None, how: str | None = "sum_over_batch_size") -> Any:
    """One number of the values of samples, each as often as its weight says; places that a mask leaves out do not
    count. how: a reduction of Keras's."""
    own = getattr(values, "_keras_mask", None)
    mask = own if own is not None else mask
    if weight is not None:
        weight = as_wide(to_tensor(weight).to(device=values.device, dtype=values.dtype), values)
    if mask is not None and tuple(mask.shape) == tuple(values.shape):
        seen = mask.to(values.dtype)
        if how in ("sum_over_batch_size", "mean", "auto"):
            seen = seen * (seen.numel() / seen.sum().clamp(min=1.0))
        weight = seen if weight is None else weight * seen
    if weight is not None:
        values = values * weight
    if how in (None, "none"):
        return values
    if how == "sum":
        return values.sum()
    if how == "mean_with_sample_weight" and weight is not None:
        return values.sum() / weight.expand_as(values).sum()
    return values.mean() if values.ndim else values


def pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    """Both as tensors of the output's type; targets (N) for outputs (N, 1) and the other way round agree."""
    y_pred, y_true = to_tensor(y_pred), to_tensor(y_true)
    if not y_pred.dtype.is_floating_point:
        y_pred = y_pred.to(cairn.get_default_dtype())
    y_true = y_true.to(device=y_pred.device, dtype=y_pred.dtype)
    if y_true.ndim == y_pred.ndim - 1 and y_pred.shape[-1] == 1:
        y_true = y_true.unsqueeze(-1)
    elif y_true.ndim == y_pred.ndim + 1 and y_true.shape[-1] == 1:
        y_true = y_true.squeeze(-1)
    return y_true, y_pred


def mean_of_places(values: Any, axis: int = -1) -> Any:
    """Over the places of each sample; values that are one for each sample stay as they are."""
    return values.mean(axis) if values.ndim > 1 or values.ndim == 1 and values.shape[0] == 1 else values


def target_first(f: Callable[..., Any]) -> Callable[..., Any]:
    f._target_first = True  # type: ignore[attr-defined]
    return f


@target_first
def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places(F.mse_loss(y_pred, y_true, reduction="none"))


@target_first
def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places(F.l1_loss(y_pred, y_true, reduction="none"))


@target_first
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return 100.0 * mean_of_places(((y_true - y_pred) / y_true.abs().clamp(min=epsilon())).abs())


@target_first
def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places((y_pred.clamp(min=epsilon()).log1p() - y_true.clamp(min=epsilon()).log1p()).square())


@target_first
def log_cosh(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    d = y_pred - y_true
    return mean_of_places(d + F.softplus(-2.0 * d) - math.log(2.0))


@target_first
def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places(F.huber_loss(y_pred, y_true, reduction="none", delta=delta))


def _signs(y_true: Any) -> Any:
    """Targets of 0 and 1 as -1 and 1."""
    return 2.0 * y_true - 1.0 if bool(((y_true == 0) | (y_true == 1)).all()) else y_true


@target_first
def hinge(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places((1.0 - _signs(y_true) * y_pred).clamp(min=0.0))


@target_first
def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places((1.0 - _signs(y_true) * y_pred).clamp(min=0.0).square())


@target_first
def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return (((1.0 - y_true) * y_pred).amax(-1) - (y_true * y_pred).sum(-1) + 1.0).clamp(min=0.0)


@target_first
def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    t, p = y_true.clamp(epsilon(), 1.0), y_pred.clamp(epsilon(), 1.0)
    return (t * (t / p).log()).sum(-1)


@target_first
def poisson(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places(y_pred - y_true * (y_pred + epsilon()).log())


@target_first
def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return -(F.normalize(y_true, dim=axis) * F.normalize(y_pred, dim=axis)).sum(axis)


@target_first
def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0,
                        axis: int = -1) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    if from_logits:
        return mean_of_places(F.binary_cross_entropy_with_logits(y_pred, y_true, reduction="none"), axis)
    p = y_pred.clamp(epsilon(), 1.0 - epsilon())
    return mean_of_places(F.binary_cross_entropy(p, y_true, reduction="none"), axis)


@target_first
def binary_focal_crossentropy(y_true: Any, y_pred: Any, apply_class_balancing: bool = False, alpha: float = 0.25,
                              gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                              axis: int = -1) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    p = (y_pred.sigmoid() if from_logits else y_pred).clamp(epsilon(), 1.0 - epsilon())
    right = y_true * p + (1.0 - y_true) * (1.0 - p)
    values = (1.0 - right).pow(gamma) * F.binary_cross_entropy(p, y_true, reduction="none")
    if apply_class_balancing:
        values = values * (y_true * alpha + (1.0 - y_true) * (1.0 - alpha))
    return mean_of_places(values, axis)


@target_first
def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0,
                             axis: int = -1) -> Any:
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if tuple(y_true.shape) != tuple(y_pred.shape):
        raise ValueError("categorical_crossentropy needs targets of the outputs' shape %s, one place for each class, "
                         "not %s; for classes as integers take sparse_categorical_crossentropy"
                         % (tuple(y_pred.shape), tuple(y_true.shape)))
    y_true = y_true.to(device=y_pred.device, dtype=y_pred.dtype)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / y_true.shape[axis]
    return -(y_true * _log_probabilities(y_pred, from_logits, axis)).sum(axis)


def _log_probabilities(y_pred: Any, from_logits: bool, axis: int) -> Any:
    if from_logits:
        return F.log_softmax(y_pred, dim=axis)
    p = y_pred / y_pred.sum(axis, keepdim=True)
    return p.clamp(epsilon(), 1.0 - epsilon()).log()


@target_first
def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False,
                                    ignore_class: int | None = None, axis: int = -1) -> Any:
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
        y_true = y_true.squeeze(-1)
    at = axis % y_pred.ndim
    wanted = tuple(n for i, n in enumerate(y_pred.shape) if i != at)
    if tuple(y_true.shape) != wanted:
        raise ValueError("sparse_categorical_crossentropy needs integers of shape %s for outputs of shape %s, not %s"
                         % (wanted, tuple(y_pred.shape), tuple(y_true.shape)))
    y_true = y_true.to(device=y_pred.device, dtype=cairn.int64)
    known = _log_probabilities(y_pred, from_logits, at)
    if ignore_class is None:
        return -known.gather(at, y_true.unsqueeze(at)).squeeze(at)
    skip = y_true == ignore_class
    picked = -known.gather(at, y_true.masked_fill(skip, 0).unsqueeze(at)).squeeze(at)
    made = picked.masked_fill(skip, 0.0)
    setattr(made, "_keras_mask", ~skip)  # the mean is of those that count
    return made


@target_first
def cross_entropy(y_true: Any, y_pred: Any) -> Any:
    """torch's: scores (N, C, ...) and classes (N, ...) or probabilities of classes."""
    y_true = to_tensor(y_true).to(y_pred.device)
    if not y_true.dtype.is_floating_point:
        if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
            y_true = y_true.squeeze(-1)
        if y_true.ndim < y_pred.ndim:
            y_true = y_true.to(cairn.int64)
        else:
            y_true = y_true.to(y_pred.dtype)
    return F.cross_entropy(y_pred, y_true, reduction="none")


@target_first
def nll(y_true: Any, y_pred: Any) -> Any:
    return F.nll_loss(y_pred, to_tensor(y_true).to(device=y_pred.device, dtype=cairn.int64), reduction="none")


@target_first
def bce_with_logits(y_true: Any, y_pred: Any) -> Any:
    return binary_crossentropy(y_true, y_pred, from_logits=True)


@target_first
def smooth_l1(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return mean_of_places(F.smooth_l1_loss(y_pred, y_true, reduction="none"))


@target_first
def categorical_focal_crossentropy(y_true: Any, y_pred: Any, alpha: Any = 0.25, gamma: float = 2.0,
                                   from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / y_true.shape[-1]
    p = F.softmax(y_pred, dim=axis) if from_logits else y_pred
    p = (p / p.sum(axis, keepdim=True)).clamp(epsilon(), 1.0 - epsilon())
    scale = alpha if isinstance(alpha, (int, float)) else to_tensor(alpha).to(p.dtype)
    return ((1.0 - p).pow(gamma) * scale * -y_true * p.log()).sum(axis)


@target_first
def categorical_generalized_cross_entropy(y_true: Any, y_pred: Any, q: float) -> Any:
    y_pred = to_tensor(y_pred)
    hot = F.one_hot(to_tensor(y_true).long(), int(y_pred.shape[-1])).to(y_pred.dtype)
    return (1.0 - (y_pred * hot).sum(-1).pow(q)) / q


def _sum(values: Any, axis: Any) -> Any:
    return values.sum() if axis is None else values.sum(axis)


@target_first
def dice(y_true: Any, y_pred: Any, axis: Any = None) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    return 1.0 - 2.0 * _sum(y_true * y_pred, axis) / (_sum(y_true, axis) + _sum(y_pred, axis) + epsilon())


@target_first
def tversky(y_true: Any, y_pred: Any, alpha: float = 0.5, beta: float = 0.5, axis: Any = None) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    both = _sum(y_true * y_pred, axis)
    missed, extra = _sum((1.0 - y_pred) * y_true, axis), _sum(y_pred * (1.0 - y_true), axis)
    return 1.0 - both / (both + missed * alpha + extra * beta + epsilon())


@target_first
def circle(y_true: Any, y_pred: Any, ref_labels: Any = None, ref_embeddings: Any = None, remove_diagonal: bool = True,
           gamma: float = 80, margin: float = 0.4) -> Any:
    """Of embeddings of length 1 and their classes (Sun et al., 2020)."""
    y_pred, y_true = to_tensor(y_pred), to_tensor(y_true).reshape(-1)
    others = y_pred if ref_embeddings is None else to_tensor(ref_embeddings)
    labels = y_true if ref_labels is None else to_tensor(ref_labels).reshape(-1)
    far = (1.0 - y_pred @ others.t()).clamp(min=0.0)
    same = y_true.unsqueeze(1) == labels.unsqueeze(0)
    differs = ~same
    if remove_diagonal and ref_embeddings is None:
        same = same & ~cairn.eye(int(far.shape[0]), dtype=cairn.bool)
    none = float("-inf")
    pull = cairn.where(same, -gamma * (margin + far).clamp(min=0.0) * (margin - far), none).logsumexp(1)
    push = cairn.where(differs, gamma * (1.0 + margin - far).clamp(min=0.0) * (1.0 - margin - far), none).logsumexp(1)
    loss = F.softplus(pull + push)
    setattr(loss, "_keras_mask", loss > 0)
    return loss


@target_first
def ctc(y_true: Any, y_pred: Any) -> Any:
    """Scores (batch, time, classes) and labels (batch, length) with 0 as the blank and behind the end."""
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if y_true.ndim != 2 or y_pred.ndim != 3:
        raise ValueError("CTC needs targets (batch, length) and outputs (batch, time, classes), not %s and %s"
                         % (tuple(y_true.shape), tuple(y_pred.shape)))
    times = cairn.full((int(y_pred.shape[0]),), int(y_pred.shape[1]), dtype=cairn.int64)
    scores = F.log_softmax(y_pred, dim=-1).transpose(0, 1)
    return F.ctc_loss(scores, y_true.long(), times, (y_true != 0).sum(-1), blank=0, reduction="none")


functions: dict[str, Callable[..., Any]] = {
    "mse": mean_squared_error, "mean_squared_error": mean_squared_error, "mae": mean_absolute_error,
    "mean_absolute_error": mean_absolute_error, "l1": mean_absolute_error, "mape": mean_absolute_percentage_error,
    "mean_absolute_percentage_error": mean_absolute_percentage_error, "msle": mean_squared_logarithmic_error,
    "mean_squared_logarithmic_error": mean_squared_logarithmic_error, "log_cosh": log_cosh, "logcosh": log_cosh,
    "huber": huber, "smooth_l1": smooth_l1, "hinge": hinge, "squared_hinge": squared_hinge,
    "categorical_hinge": categorical_hinge, "kl_divergence": kl_divergence, "kld": kl_divergence, "poisson": poisson,
    "cosine_similarity": cosine_similarity, "binary_crossentropy": binary_crossentropy, "bce": binary_crossentropy,
    "binary_focal_crossentropy": binary_focal_crossentropy, "categorical_crossentropy": categorical_crossentropy,
    "sparse_categorical_crossentropy": sparse_categorical_crossentropy, "cross_entropy": cross_entropy,
    "crossentropy": cross_entropy, "nll": nll, "bce_with_logits": bce_with_logits,
    "binary_cross_entropy": binary_crossentropy, "binary_cross_entropy_with_logits": bce_with_logits}
functions.update({f.__name__: f for f in (categorical_focal_crossentropy, categorical_generalized_cross_entropy, circle,
                                          ctc, dice, tversky)})
