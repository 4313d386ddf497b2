"""Boxes: their forms, areas and overlaps, and which of many stay. torchvision.ops.boxes' names.

Boxes are (n, 4): left, top, right, bottom.
"""
from __future__ import annotations

import math
from typing import Sequence

from .. import _C
from .._tensor import Tensor

__all__ = ["batched_nms", "box_area", "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou",
           "distance_box_iou", "generalized_box_iou", "masks_to_boxes", "nms", "remove_small_boxes"]


def box_area(boxes: Tensor) -> Tensor:
    """The area of each box, (n)."""
    return (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])


def box_convert(boxes: Tensor, in_fmt: str, out_fmt: str) -> Tensor:
    """Boxes in another form: xyxy (left, top, right, bottom), xywh (left, top, width, height), cxcywh (the middle,
    width, height)."""
    forms = ("xyxy", "xywh", "cxcywh")
    if in_fmt not in forms or out_fmt not in forms:
        raise ValueError("boxes are given as %s, not as %r or %r" % (", ".join(forms), in_fmt, out_fmt))
    if in_fmt == out_fmt:
        return boxes.clone()
    a, b, c, d = boxes.unbind(-1)
    if in_fmt == "xywh":
        c, d = a + c, b + d
    elif in_fmt == "cxcywh":
        a, b, c, d = a - 0.5 * c, b - 0.5 * d, a + 0.5 * c, b + 0.5 * d
    if out_fmt == "xywh":
        c, d = c - a, d - b
    elif out_fmt == "cxcywh":
        a, b, c, d = (a + c) / 2, (b + d) / 2, c - a, d - b
    return _C.stack((a, b, c, d), -1)


def _shared(one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
    """What each box of one and each of two have in common, and what they cover together: (n, m) each."""
    corner = _C.maximum(one[:, None, :2], two[:, :2])
    sides = (_C.minimum(one[:, None, 2:], two[:, 2:]) - corner).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    return common, box_area(one)[:, None] + box_area(two) - common


def box_iou(boxes1: Tensor, boxes2: Tensor, fmt: str = "xyxy") -> Tensor:
    """What two boxes have in common as a part of what they cover, (n, m)."""
    if fmt != "xyxy":
        boxes1, boxes2 = box_convert(boxes1, fmt, "xyxy"), box_convert(boxes2, fmt, "xyxy")
    common, both = _shared(boxes1, boxes2)
    return common / both


def generalized_box_iou(boxes1: Tensor, boxes2: Tensor) -> Tensor:
    """box_iou less the part of the smallest box around both that neither covers."""
    common, both = _shared(boxes1, boxes2)
    sides = (_C.maximum(boxes1[:, None, 2:], boxes2[:, 2:]) - _C.minimum(boxes1[:, None, :2], boxes2[:, :2]))
    around = sides.clamp(min=0)[..., 0] * sides.clamp(min=0)[..., 1]
    return common / both - (around - both) / around


def distance_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """box_iou less the distance of the middles, as a part of the diagonal of the smallest box around both; squares."""
    one, two = boxes1[:, None], boxes2[None]
    sides = _C.maximum(one[..., 2:], two[..., 2:]) - _C.minimum(one[..., :2], two[..., :2])
    diagonal = (sides.clamp(min=0) ** 2).sum(-1) + eps
    apart = (((one[..., :2] + one[..., 2:]) - (two[..., :2] + two[..., 2:])) / 2) ** 2
    return box_iou(boxes1, boxes2) - apart.sum(-1) / diagonal


def complete_box_iou(boxes1: Tensor, boxes2: Tensor, eps: float = 1e-7) -> Tensor:
    """distance_box_iou less how differently long the boxes are for their height."""
    shapes = [_C.atan((b[:, 2] - b[:, 0]) / (b[:, 3] - b[:, 1])) for b in (boxes1, boxes2)]
    v = 4 / math.pi ** 2 * (shapes[0][:, None] - shapes[1][None]) ** 2
    alpha = (v / (1 - box_iou(boxes1, boxes2) + v + eps)).detach()
    return distance_box_iou(boxes1, boxes2, eps) - alpha * v


def masks_to_boxes(masks: Tensor) -> Tensor:
    """The smallest box around each mask (n, height, width), by the numbers of its first and last pixels."""
    n, high, wide = masks.shape if masks.numel() else (0, 0, 0)
    made = _C.zeros((n, 4), dtype=_C.float32, device=masks.device)
    on = masks != 0
    for side, dim, size in ((0, 1, wide), (1, 2, high)):
        if not n:
            break
        any_on, at = on.any(dim), _C.arange(0, size, device=masks.device)
        made[:, side] = _C.where(any_on, at, size).amin(1).to(_C.float32)
        made[:, side + 2] = _C.where(any_on, at, -1).amax(1).to(_C.float32)
    return made


def clip_boxes_to_image(boxes: Tensor, size: Sequence[int]) -> Tensor:
    """Boxes that end at the sides of an image (height, width)."""
    high, wide = size
    x, y = boxes[..., 0::2].clamp(0, wide), boxes[..., 1::2].clamp(0, high)
    return _C.stack((x, y), -1).reshape(boxes.shape)


def remove_small_boxes(boxes: Tensor, min_size: float) -> Tensor:
    """The numbers of those boxes whose sides are min_size or longer."""
    fits = (boxes[:, 2] - boxes[:, 0] >= min_size) & (boxes[:, 3] - boxes[:, 1] >= min_size)
    return fits.nonzero().squeeze(1)


def nms(boxes: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """The numbers of the boxes that stay, the best first, when each drops those worse than it that overlap with it by
    more than the threshold."""
    return _C.nms(boxes, scores, float(iou_threshold))


def batched_nms(boxes: Tensor, scores: Tensor, idxs: Tensor, iou_threshold: float) -> Tensor:
    """nms of each class (idxs) by itself."""
    return _C.batched_nms(boxes, scores, idxs, float(iou_threshold))
