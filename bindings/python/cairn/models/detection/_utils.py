"""What detectors share: boxes as numbers to be learnt, which box belongs to which, samples of them, losses.
torchvision.models.detection._utils' names."""
from __future__ import annotations

import math
from typing import Any, Sequence

from ... import _C, nn
from ..._modes import no_grad
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import complete_box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss

__all__ = ["BalancedPositiveNegativeSampler", "BoxCoder", "BoxLinearCoder", "Matcher", "SSDMatcher"]


def where(mask: Tensor) -> Tensor:
    """The numbers of the elements that are true."""
    return mask.nonzero().squeeze(1)


class BalancedPositiveNegativeSampler:
    """Draws batch_size_per_image elements of each image, of which at most that fraction are positive (1 or more; 0 is
    negative, what is below is left out). Gives masks of the two kinds."""

    def __init__(self, batch_size_per_image: int, positive_fraction: float) -> None:
        self.batch_size_per_image, self.positive_fraction = batch_size_per_image, positive_fraction

    def __call__(self, matched_idxs: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        drawn: tuple[list[Tensor], list[Tensor]] = ([], [])
        for matched in matched_idxs:
            positive, negative = where(matched >= 1), where(matched == 0)
            some = min(positive.numel(), int(self.batch_size_per_image * self.positive_fraction))
            others = min(negative.numel(), self.batch_size_per_image - some)
            for into, all_of, n in ((drawn[0], positive, some), (drawn[1], negative, others)):
                mask = _C.zeros_like(matched, dtype=_C.uint8)
                mask[all_of[_C.randperm(all_of.numel(), device=all_of.device)[:n]]] = 1
                into.append(mask)
        return drawn


def _middle(boxes: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Middles, widths and heights, (n, 1) each."""
    wide, high = boxes[:, 2:3] - boxes[:, 0:1], boxes[:, 3:4] - boxes[:, 1:2]
    return boxes[:, 0:1] + 0.5 * wide, boxes[:, 1:2] + 0.5 * high, wide, high


class BoxCoder:
    """Boxes by how they differ from others: how far the middle moves in parts of the sides, and logarithms of the
    ratios of the sides, each times a weight."""

    def __init__(self, weights: Sequence[float], bbox_xform_clip: float = math.log(1000.0 / 16)) -> None:
        self.weights, self.bbox_xform_clip = weights, bbox_xform_clip

    def encode(self, reference_boxes: Sequence[Tensor], proposals: Sequence[Tensor]) -> tuple[Tensor, ...]:
        sizes = [len(b) for b in reference_boxes]
        return self.encode_single(_C.cat(list(reference_boxes)), _C.cat(list(proposals))).split(sizes, 0)

    def encode_single(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        (x, y, wide, high), (px, py, pw, ph) = _middle(reference_boxes), _middle(proposals)
        wx, wy, ww, wh = self.weights
        return _C.cat((wx * (x - px) / pw, wy * (y - py) / ph, ww * _C.log(wide / pw), wh * _C.log(high / ph)), 1)

    def decode(self, rel_codes: Tensor, boxes: Sequence[Tensor]) -> Tensor:
        if not isinstance(boxes, (list, tuple)):
            raise AssertionError("This function expects boxes of type list or tuple.")
        total = sum(b.shape[0] for b in boxes)
        codes = rel_codes.reshape(total, -1) if total else rel_codes
        made = self.decode_single(codes, _C.cat(list(boxes)))
        return made.reshape(total, -1, 4) if total else made

    def decode_single(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        x, y, wide, high = _middle(boxes.to(rel_codes.dtype))
        dx, dy, dw, dh = (rel_codes[:, i::4] / w for i, w in enumerate(self.weights))
        cx, cy = dx * wide + x, dy * high + y
        w = 0.5 * (_C.exp(dw.clamp(max=self.bbox_xform_clip)) * wide)
        h = 0.5 * (_C.exp(dh.clamp(max=self.bbox_xform_clip)) * high)
        return _C.stack((cx - w, cy - h, cx + w, cy + h), 2).flatten(1)


class BoxLinearCoder:
    """Boxes by how far their sides are from the middle of others, in parts of those's sides."""

    def __init__(self, normalize_by_size: bool = True) -> None:
        self.normalize_by_size = normalize_by_size

    def _frame(self, boxes: Tensor) -> tuple[Tensor, Tensor, Any]:
        x, y = 0.5 * (boxes[..., 0] + boxes[..., 2]), 0.5 * (boxes[..., 1] + boxes[..., 3])
        wide, high = boxes[..., 2] - boxes[..., 0], boxes[..., 3] - boxes[..., 1]
        return x, y, _C.stack((wide, high, wide, high), -1) if self.normalize_by_size else 1

    def encode(self, reference_boxes: Tensor, proposals: Tensor) -> Tensor:
        x, y, size = self._frame(reference_boxes)
        left, top, right, bottom = proposals.unbind(-1)
        made: Tensor = _C.stack((x - left, y - top, right - x, bottom - y), -1) / size
        return made

    def decode(self, rel_codes: Tensor, boxes: Tensor) -> Tensor:
        x, y, size = self._frame(boxes.to(rel_codes.dtype))
        left, top, right, bottom = (rel_codes * size).unbind(-1)
        return _C.stack((x - left, y - top, x + right, y + bottom), -1)


class Matcher:
    """For each column of a matrix of overlaps the row where it is highest; negative where that is below a threshold,
    or between the two. allow_low_quality_matches: each row keeps the columns where it is highest all the same."""

    BELOW_LOW_THRESHOLD = -1
    BETWEEN_THRESHOLDS = -2

    def __init__(self, high_threshold: float, low_threshold: float, allow_low_quality_matches: bool = False) -> None:
        if low_threshold > high_threshold:
            raise AssertionError("low_threshold should be <= high_threshold")
        self.high_threshold, self.low_threshold = high_threshold, low_threshold
        self.allow_low_quality_matches = allow_low_quality_matches

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        if match_quality_matrix.numel() == 0:
            raise ValueError("No %s boxes available for one of the images during training"
                             % ("proposal" if match_quality_matrix.shape[0] else "ground-truth"))
        best, first = match_quality_matrix.max(0)
        below, between = best < self.low_threshold, (best >= self.low_threshold) & (best < self.high_threshold)
        matches = first.masked_fill(below, self.BELOW_LOW_THRESHOLD).masked_fill(between, self.BETWEEN_THRESHOLDS)
        if self.allow_low_quality_matches:
            kept = (match_quality_matrix == match_quality_matrix.max(1)[0][:, None]).any(0)
            matches = _C.where(kept, first, matches)
        return matches


class SSDMatcher(Matcher):
    """A Matcher of one threshold in which each row has the column where it is highest."""

    def __init__(self, threshold: float) -> None:
        super().__init__(threshold, threshold, allow_low_quality_matches=False)

    def __call__(self, match_quality_matrix: Tensor) -> Tensor:
        matches = super().__call__(match_quality_matrix)
        best = match_quality_matrix.max(1)[1]
        matches[best] = _C.arange(0, best.shape[0], dtype=_C.int64, device=best.device)
        return matches


def overwrite_eps(model: nn.Module, eps: float) -> None:
    """Sets what frozen norms add to variances."""
    from ...ops import FrozenBatchNorm2d
    for module in model.modules():
        if isinstance(module, FrozenBatchNorm2d):
            module.eps = eps


def retrieve_out_channels(model: nn.Module, size: tuple[int, int]) -> list[int]:
    """The channels of each map that a backbone gives for an image (width, height)."""
    training = model.training
    model.eval()
    with no_grad():
        device = next(iter(model.parameters())).device
        maps = model(_C.zeros((1, 3, size[1], size[0]), device=device))
    model.train(training)
    return [m.shape[1] for m in ([maps] if isinstance(maps, Tensor) else maps.values())]


def _topk_min(input: Tensor, orig_kval: int, axis: int) -> int:
    return min(orig_kval, input.shape[axis])


def _box_loss(type: str, box_coder: BoxCoder, anchors_per_image: Tensor, matched_gt_boxes_per_image: Tensor,
              bbox_regression_per_image: Tensor, cnf: dict[str, float] | None = None) -> Tensor:
    """The sum of a loss of boxes, by its name."""
    settings = cnf or {}
    if type in ("l1", "smooth_l1"):
        target = box_coder.encode_single(matched_gt_boxes_per_image, anchors_per_image)
        if type == "l1":
            return _F.l1_loss(bbox_regression_per_image, target, reduction="sum")
        return _F.smooth_l1_loss(bbox_regression_per_image, target, reduction="sum", beta=settings.get("beta", 1.0))
    losses = {"ciou": complete_box_iou_loss, "diou": distance_box_iou_loss, "giou": generalized_box_iou_loss}
    if type not in losses:
        raise AssertionError("Unsupported loss: %s" % type)
    boxes = box_coder.decode_single(bbox_regression_per_image, anchors_per_image)
    return losses[type](boxes, matched_gt_boxes_per_image, reduction="sum", eps=settings.get("eps", 1e-7))
