"""Losses of detection: the focal loss of scores, and those of pairs of boxes. torchvision.ops' names."""
from __future__ import annotations

import math

from .. import _C
from .._tensor import Tensor
from ..nn import functional as _F

__all__ = ["complete_box_iou_loss", "distance_box_iou_loss", "generalized_box_iou_loss", "sigmoid_focal_loss"]


def _reduced(loss: Tensor, reduction: str) -> Tensor:
    if reduction not in ("none", "mean", "sum"):
        raise ValueError("reduction is none, mean or sum, not %r" % (reduction,))
    if reduction == "none":
        return loss
    return loss.mean() if reduction == "mean" and loss.numel() else loss.sum()


def sigmoid_focal_loss(inputs: Tensor, targets: Tensor, alpha: float = 0.25, gamma: float = 2,
                       reduction: str = "none") -> Tensor:
    """The binary cross entropy of scores, in which examples that are easy count less."""
    p = inputs.sigmoid()
    loss = _F.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    if reduction == "mean":
        return loss.mean()
    return _reduced(loss, reduction)


class _Pairs:
    """Two boxes a row, and what they have in common."""

    def __init__(self, boxes1: Tensor, boxes2: Tensor, eps: float) -> None:
        if not boxes1.is_floating_point():
            boxes1 = boxes1.float()
        if not boxes2.is_floating_point():
            boxes2 = boxes2.float()
        self.one, self.two = boxes1.unbind(-1), boxes2.unbind(-1)
        left, top, right, bottom = self.one
        left2, top2, right2, bottom2 = self.two
        wide = _C.minimum(right, right2) - _C.maximum(left, left2)
        high = _C.minimum(bottom, bottom2) - _C.maximum(top, top2)
        common = _C.where((wide > 0) & (high > 0), wide * high, _C.zeros_like(wide))
        self.both = (right - left) * (bottom - top) + (right2 - left2) * (bottom2 - top2) - common
        self.iou = common / (self.both + eps)
        self.wide = _C.maximum(right, right2) - _C.minimum(left, left2)  # of the smallest box around both
        self.high = _C.maximum(bottom, bottom2) - _C.minimum(top, top2)

    def distance(self, eps: float) -> Tensor:
        """1 less distance_box_iou."""
        left, top, right, bottom = self.one
        left2, top2, right2, bottom2 = self.two
        apart = ((left + right) / 2 - (left2 + right2) / 2) ** 2 + ((top + bottom) / 2 - (top2 + bottom2) / 2) ** 2
        return 1 - self.iou + apart / (self.wide ** 2 + self.high ** 2 + eps)


def generalized_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less generalized_box_iou of each pair of boxes."""
    p = _Pairs(boxes1, boxes2, eps)
    around = p.wide * p.high
    return _reduced(1 - (p.iou - (around - p.both) / (around + eps)), reduction)


def distance_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less distance_box_iou of each pair."""
    return _reduced(_Pairs(boxes1, boxes2, eps).distance(eps), reduction)


def complete_box_iou_loss(boxes1: Tensor, boxes2: Tensor, reduction: str = "none", eps: float = 1e-7) -> Tensor:
    """1 less complete_box_iou of each pair."""
    p = _Pairs(boxes1, boxes2, eps)
    shapes = [_C.atan((right - left) / (bottom - top)) for left, top, right, bottom in (p.one, p.two)]
    v = 4 / math.pi ** 2 * (shapes[1] - shapes[0]) ** 2
    alpha = (v / (1 - p.iou + v + eps)).detach()
    return _reduced(p.distance(eps) + alpha * v, reduction)
