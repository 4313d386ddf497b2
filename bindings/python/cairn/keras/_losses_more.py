"""Losses for unbalanced classes, overlaps of areas, embeddings and sequences."""
from __future__ import annotations

from typing import Any

import cairn
from ..nn import functional as F
from ._batches import to_tensor
from .backend import epsilon
from .losses import Loss, _Function, _functions, _pair, _target_first

__all__ = ["CTC", "CategoricalFocalCrossentropy", "CategoricalGeneralizedCrossEntropy", "Circle", "Dice", "Tversky",
           "categorical_focal_crossentropy", "categorical_generalized_cross_entropy", "circle", "ctc", "dice",
           "tversky"]


@_target_first
def categorical_focal_crossentropy(y_true: Any, y_pred: Any, alpha: Any = 0.25, gamma: float = 2.0,
                                   from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    if label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / y_true.shape[-1]
    p = F.softmax(y_pred, dim=axis) if from_logits else y_pred
    p = (p / p.sum(axis, keepdim=True)).clamp(epsilon(), 1.0 - epsilon())
    scale = alpha if isinstance(alpha, (int, float)) else to_tensor(alpha).to(p.dtype)
    return ((1.0 - p).pow(gamma) * scale * -y_true * p.log()).sum(axis)


@_target_first
def categorical_generalized_cross_entropy(y_true: Any, y_pred: Any, q: float) -> Any:
    y_pred = to_tensor(y_pred)
    hot = F.one_hot(to_tensor(y_true).long(), int(y_pred.shape[-1])).to(y_pred.dtype)
    return (1.0 - (y_pred * hot).sum(-1).pow(q)) / q


def _sum(values: Any, axis: Any) -> Any:
    return values.sum() if axis is None else values.sum(axis)


@_target_first
def dice(y_true: Any, y_pred: Any, axis: Any = None) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    return 1.0 - 2.0 * _sum(y_true * y_pred, axis) / (_sum(y_true, axis) + _sum(y_pred, axis) + epsilon())


@_target_first
def tversky(y_true: Any, y_pred: Any, alpha: float = 0.5, beta: float = 0.5, axis: Any = None) -> Any:
    y_true, y_pred = _pair(y_true, y_pred)
    both = _sum(y_true * y_pred, axis)
    missed, extra = _sum((1.0 - y_pred) * y_true, axis), _sum(y_pred * (1.0 - y_true), axis)
    return 1.0 - both / (both + missed * alpha + extra * beta + epsilon())


@_target_first
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


@_target_first
def ctc(y_true: Any, y_pred: Any) -> Any:
    """Scores (batch, time, classes) and labels (batch, length) with 0 as the blank and behind the end."""
    from . import ops
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if y_true.ndim != 2 or y_pred.ndim != 3:
        raise ValueError("CTC needs targets (batch, length) and outputs (batch, time, classes), not %s and %s"
                         % (tuple(y_true.shape), tuple(y_pred.shape)))
    times = cairn.full((int(y_pred.shape[0]),), int(y_pred.shape[1]), dtype=cairn.int64)
    return ops.ctc_loss(y_true, y_pred, (y_true != 0).sum(-1), times)


class CategoricalFocalCrossentropy(_Function):
    function = staticmethod(categorical_focal_crossentropy)

    def __init__(self, alpha: Any = 0.25, gamma: float = 2.0, from_logits: bool = False, label_smoothing: float = 0.0,
                 axis: int = -1, reduction: str | None = "sum_over_batch_size", name: str | None = None,
                 dtype: Any = None) -> None:
        self.options = {"alpha": alpha, "gamma": gamma, "from_logits": from_logits, "label_smoothing": label_smoothing,
                        "axis": axis}
        super().__init__(reduction, name, dtype)


class CategoricalGeneralizedCrossEntropy(_Function):
    function = staticmethod(categorical_generalized_cross_entropy)

    def __init__(self, q: float = 0.5, reduction: str | None = "sum_over_batch_size", name: str | None = None,
                 dtype: Any = None) -> None:
        if not 0.0 < q < 1.0:
            raise ValueError("q is between 0 and 1, not %r" % (q,))
        self.options = {"q": q}
        super().__init__(reduction, name, dtype)


class Dice(_Function):
    function = staticmethod(dice)

    def __init__(self, reduction: str | None = "sum_over_batch_size", name: str | None = None, axis: Any = None,
                 dtype: Any = None) -> None:
        self.options = {"axis": axis}
        super().__init__(reduction, name, dtype)


class Tversky(_Function):
    function = staticmethod(tversky)

    def __init__(self, alpha: float = 0.5, beta: float = 0.5, reduction: str | None = "sum_over_batch_size",
                 name: str | None = None, axis: Any = None, dtype: Any = None) -> None:
        self.options = {"alpha": alpha, "beta": beta, "axis": axis}
        super().__init__(reduction, name, dtype)


class Circle(Loss):
    def __init__(self, gamma: float = 80.0, margin: float = 0.4, remove_diagonal: bool = True,
                 reduction: str | None = "sum_over_batch_size", name: str | None = "circle", dtype: Any = None) -> None:
        super().__init__(name, reduction, dtype)
        self.gamma, self.margin, self.remove_diagonal = gamma, margin, remove_diagonal

    def call(self, y_true: Any, y_pred: Any, ref_labels: Any = None, ref_embeddings: Any = None) -> Any:
        return circle(y_true, y_pred, ref_labels, ref_embeddings, self.remove_diagonal, self.gamma, self.margin)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "gamma": self.gamma, "margin": self.margin,
                "remove_diagonal": self.remove_diagonal}


class CTC(_Function):
    function = staticmethod(ctc)


_functions.update({f.__name__: f for f in (categorical_focal_crossentropy, categorical_generalized_cross_entropy,
                                           circle, ctc, dice, tversky)})
