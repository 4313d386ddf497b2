"""What proposals hold: classes and boxes, masks, points. torchvision.models.detection.roi_heads' names."""
from __future__ import annotations

from typing import Any, Sequence

from ... import _C, nn
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import batched_nms, box_iou, clip_boxes_to_image, remove_small_boxes, roi_align
from . import _utils

__all__ = ["RoIHeads"]

Target = dict[str, Tensor]


def fastrcnn_loss(class_logits: Tensor, box_regression: Tensor, labels: Sequence[Tensor],
                  regression_targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
    """Of the classes, and of the boxes of what is not background: each class has a box of its own."""
    label, wanted = _C.cat(list(labels)), _C.cat(list(regression_targets))
    positive = _utils.where(label > 0)
    boxes = box_regression.reshape(class_logits.shape[0], -1, 4)[positive, label[positive]]
    loss = _F.smooth_l1_loss(boxes, wanted[positive], beta=1 / 9, reduction="sum") / label.numel()
    return _F.cross_entropy(class_logits, label), loss


# ---- masks ----
def maskrcnn_inference(x: Tensor, labels: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Of each mask that of its class, as probabilities."""
    label = _C.cat(list(labels))
    own = x.sigmoid()[_C.arange(0, x.shape[0], device=label.device), label][:, None]
    return own.split([one.shape[0] for one in labels], 0)


def maskrcnn_loss(mask_logits: Tensor, proposals: Sequence[Tensor], gt_masks: Sequence[Tensor],
                  gt_labels: Sequence[Tensor], mask_matched_idxs: Sequence[Tensor]) -> Tensor:
    """The mask of a proposal's class beside the part of the true one that the proposal shows."""
    size = mask_logits.shape[-1]
    label = _C.cat([one[at] for one, at in zip(gt_labels, mask_matched_idxs)])
    truth = []
    for masks, boxes, at in zip(gt_masks, proposals, mask_matched_idxs):
        rois = _C.cat((at.to(boxes.dtype)[:, None], boxes), 1)
        truth.append(roi_align(masks[:, None].to(rois.dtype), rois, (size, size), 1.0)[:, 0])
    wanted = _C.cat(truth)
    if wanted.numel() == 0:
        return mask_logits.sum() * 0
    own = mask_logits[_C.arange(0, label.shape[0], device=label.device), label]
    return _F.binary_cross_entropy_with_logits(own, wanted)


def _pasted(mask: Tensor, box: Sequence[int], high: int, wide: int) -> Tensor:
    """A mask at its box in an image of zeros."""
    left, top, right, bottom = box
    size = (max(bottom - top + 1, 1), max(right - left + 1, 1))
    mask = _F.interpolate(mask[None, None], size=size, mode="bilinear", align_corners=False)[0, 0]
    made = _C.zeros((high, wide), dtype=mask.dtype, device=mask.device)
    x0, x1, y0, y1 = max(left, 0), min(right + 1, wide), max(top, 0), min(bottom + 1, high)
    made[y0:y1, x0:x1] = mask[y0 - top:y1 - top, x0 - left:x1 - left]
    return made


def paste_masks_in_image(masks: Tensor, boxes: Tensor, img_shape: Sequence[int], padding: int = 1) -> Tensor:
    """Masks (n, 1, m, m) of boxes as masks of the image: (n, 1, height, width). They get a border of zeros first, and
    boxes grow with it."""
    size = masks.shape[-1]
    scale = (size + 2 * padding) / size
    masks = _F.pad(masks, (padding,) * 4)
    half = (boxes[:, 2:] - boxes[:, :2]) * 0.5 * scale
    middle = (boxes[:, 2:] + boxes[:, :2]) * 0.5
    whole = _C.cat((middle - half, middle + half), 1).to(_C.int64).tolist()
    made = [_pasted(m[0], box, img_shape[0], img_shape[1]) for m, box in zip(masks, whole)]
    return _C.stack(made)[:, None] if made else masks.new_empty((0, 1, img_shape[0], img_shape[1]))


# ---- points ----
def keypoints_to_heatmap(keypoints: Tensor, rois: Tensor, heatmap_size: int) -> tuple[Tensor, Tensor]:
    """In which cell of a grid over its box each point lies, and whether it does and is seen."""
    cells = []
    for i in range(2):
        low, high = rois[:, i:i + 1], rois[:, i + 2:i + 3]
        cell = ((keypoints[..., i] - low) * (heatmap_size / (high - low))).floor().to(_C.int64)
        cells.append(cell.masked_fill(keypoints[..., i] == high, heatmap_size - 1))
    x, y = cells
    inside = (x >= 0) & (y >= 0) & (x < heatmap_size) & (y < heatmap_size)
    valid = (inside & (keypoints[..., 2] > 0)).to(_C.int64)
    return (y * heatmap_size + x) * valid, valid


def keypointrcnn_loss(keypoint_logits: Tensor, proposals: Sequence[Tensor], gt_keypoints: Sequence[Tensor],
                      keypoint_matched_idxs: Sequence[Tensor]) -> Tensor:
    """Each point is one of as many classes as there are cells."""
    n, points, high, wide = keypoint_logits.shape
    if high != wide:
        raise ValueError("keypoint_logits height and width (last two elements of shape) should be equal. Instead got "
                         "H = %d and W = %d" % (high, wide))
    cells, seen = [], []
    for boxes, truth, at in zip(proposals, gt_keypoints, keypoint_matched_idxs):
        cell, valid = keypoints_to_heatmap(truth[at], boxes, high)
        cells.append(cell.reshape(-1))
        seen.append(valid.reshape(-1))
    wanted, valid = _C.cat(cells), _utils.where(_C.cat(seen))
    if wanted.numel() == 0 or valid.numel() == 0:
        return keypoint_logits.sum() * 0
    return _F.cross_entropy(keypoint_logits.reshape(n * points, high * wide)[valid], wanted[valid])


def heatmaps_to_keypoints(maps: Tensor, rois: Tensor) -> tuple[Tensor, Tensor]:
    """The highest place of each map (boxes, points, m, m), brought to its box's size: (boxes, points, 3), and how high
    it is there."""
    sides = (rois[:, 2:] - rois[:, :2]).clamp(min=1)
    whole = sides.ceil().to(_C.int64).tolist()
    points, scores = [], []
    for i, (wide, high) in enumerate(whole):
        big = _F.interpolate(maps[i][:, None], size=(high, wide), mode="bicubic", align_corners=False)[:, 0]
        flat = big.reshape(big.shape[0], -1)
        at = flat.argmax(1)
        x, y = at % wide, at // wide
        x, y = (x.float() + 0.5) * (sides[i, 0] / wide), (y.float() + 0.5) * (sides[i, 1] / high)
        points.append(_C.stack((x + rois[i, 0], y + rois[i, 1], _C.ones_like(x)), 1))
        scores.append(flat.gather(1, at[:, None])[:, 0])
    if not points:
        return maps.new_zeros((0, maps.shape[1], 3)), maps.new_zeros((0, maps.shape[1]))
    return _C.stack(points), _C.stack(scores)


# ---- all of it ----
class RoIHeads(nn.Module):
    """Takes the regions of proposals from feature maps and gives them to a head and a predictor: for classes and boxes,
    and, where there are such, for masks and for points in the boxes that were found."""

    def __init__(self, box_roi_pool: Any, box_head: Any, box_predictor: Any, fg_iou_thresh: float, bg_iou_thresh: float,
                 batch_size_per_image: int, positive_fraction: float, bbox_reg_weights: Sequence[float] | None,
                 score_thresh: float, nms_thresh: float, detections_per_img: int, mask_roi_pool: Any = None,
                 mask_head: Any = None, mask_predictor: Any = None, keypoint_roi_pool: Any = None,
                 keypoint_head: Any = None, keypoint_predictor: Any = None) -> None:
        super().__init__()
        self.box_similarity = box_iou
        self.proposal_matcher = _utils.Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=False)
        self.fg_bg_sampler = _utils.BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self.box_coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0) if bbox_reg_weights is None else bbox_reg_weights)
        self.box_roi_pool, self.box_head, self.box_predictor = box_roi_pool, box_head, box_predictor
        self.score_thresh, self.nms_thresh, self.detections_per_img = score_thresh, nms_thresh, detections_per_img
        self.mask_roi_pool, self.mask_head, self.mask_predictor = mask_roi_pool, mask_head, mask_predictor
        self.keypoint_roi_pool, self.keypoint_head = keypoint_roi_pool, keypoint_head
        self.keypoint_predictor = keypoint_predictor

    def has_mask(self) -> bool:
        return None not in (self.mask_roi_pool, self.mask_head, self.mask_predictor)

    def has_keypoint(self) -> bool:
        return None not in (self.keypoint_roi_pool, self.keypoint_head, self.keypoint_predictor)

    def assign_targets_to_proposals(self, proposals: Sequence[Tensor], gt_boxes: Sequence[Tensor],
                                    gt_labels: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        """For each proposal the number of its box, and that one's class: 0 where it has none, -1 between."""
        matched_idxs, labels = [], []
        for proposal, boxes, label in zip(proposals, gt_boxes, gt_labels):
            if boxes.numel() == 0:
                none = _C.zeros((proposal.shape[0],), dtype=_C.int64, device=proposal.device)
                matched_idxs.append(none)
                labels.append(none.clone())
                continue
            matched = self.proposal_matcher(box_iou(boxes, proposal))
            own = label[matched.clamp(min=0)].to(_C.int64)
            own = own.masked_fill(matched == self.proposal_matcher.BELOW_LOW_THRESHOLD, 0)
            labels.append(own.masked_fill(matched == self.proposal_matcher.BETWEEN_THRESHOLDS, -1))
            matched_idxs.append(matched.clamp(min=0))
        return matched_idxs, labels

    def subsample(self, labels: Sequence[Tensor]) -> list[Tensor]:
        positive, negative = self.fg_bg_sampler(labels)
        return [_utils.where(p | n) for p, n in zip(positive, negative)]

    def check_targets(self, targets: Sequence[Target] | None) -> None:
        if targets is None:
            raise ValueError("targets should not be None")
        for key in ("boxes", "labels", *(("masks",) if self.has_mask() else ())):
            if not all(key in t for t in targets):
                raise ValueError("Every element of targets should have a %s key" % key)

    def select_training_samples(self, proposals: Sequence[Tensor], targets: Sequence[Target] | None
                                ) -> tuple[list[Tensor], list[Tensor], list[Tensor], tuple[Tensor, ...]]:
        """Some of the proposals and true boxes, what belongs to them, and what is to be learnt."""
        self.check_targets(targets)
        assert targets is not None
        gt_boxes = [t["boxes"].to(proposals[0].dtype) for t in targets]
        every = [_C.cat((p, b)) for p, b in zip(proposals, gt_boxes)]
        matched, labels = self.assign_targets_to_proposals(every, gt_boxes, [t["labels"] for t in targets])
        drawn = self.subsample(labels)
        every, labels, matched = ([a[at] for a, at in zip(of, drawn)] for of in (every, labels, matched))
        own = [(boxes if boxes.numel() else boxes.new_zeros((1, 4)))[at] for boxes, at in zip(gt_boxes, matched)]
        return every, matched, labels, self.box_coder.encode(own, every)

    def postprocess_detections(self, class_logits: Tensor, box_regression: Tensor, proposals: Sequence[Tensor],
                               image_shapes: Sequence[tuple[int, int]]
                               ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Each class of each proposal is a box; those that are likely, not small, and overlap with no better one."""
        counts, classes = [p.shape[0] for p in proposals], class_logits.shape[-1]
        every = self.box_coder.decode(box_regression, proposals).split(counts, 0)
        likely = _F.softmax(class_logits, -1).split(counts, 0)
        found: tuple[list[Tensor], list[Tensor], list[Tensor]] = ([], [], [])
        for box, score, shape in zip(every, likely, image_shapes):
            label = _C.arange(0, classes, device=score.device)[None].expand(score.shape[0], classes)
            kept = (clip_boxes_to_image(box, shape)[:, 1:].reshape(-1, 4), score[:, 1:].reshape(-1),
                    label[:, 1:].reshape(-1))
            kept = _taken(kept, _utils.where(kept[1] > self.score_thresh))
            kept = _taken(kept, remove_small_boxes(kept[0], 1e-2))
            best = batched_nms(kept[0], kept[1], kept[2], self.nms_thresh)[:self.detections_per_img]
            for into, part in zip(found, _taken(kept, best)):
                into.append(part)
        return found

    def _check_types(self, targets: Sequence[Target] | None) -> None:
        for t in targets or ():
            if not t["boxes"].is_floating_point():
                raise TypeError("target boxes must of float type, instead got %s" % t["boxes"].dtype)
            if t["labels"].dtype != _C.int64:
                raise TypeError("target labels must of int64 type, instead got %s" % t["labels"].dtype)
            if self.has_keypoint() and t["keypoints"].dtype != _C.float32:
                raise TypeError("target keypoints must of float type, instead got %s" % t["keypoints"].dtype)

    def forward(self, features: dict[str, Tensor], proposals: Sequence[Tensor],
                image_shapes: Sequence[tuple[int, int]], targets: Sequence[Target] | None = None
                ) -> tuple[list[Target], dict[str, Tensor]]:
        self._check_types(targets)
        matched: list[Tensor] = []
        labels: list[Tensor] = []
        wanted: tuple[Tensor, ...] = ()
        if self.training:
            proposals, matched, labels, wanted = self.select_training_samples(proposals, targets)
        seen = self.box_head(self.box_roi_pool(features, proposals, image_shapes))
        logits, regression = self.box_predictor(seen)
        found: list[Target] = []
        losses: dict[str, Tensor] = {}
        if self.training:
            losses["loss_classifier"], losses["loss_box_reg"] = fastrcnn_loss(logits, regression, labels, wanted)
            positive = [_utils.where(one > 0) for one in labels]
            regions = [p[at] for p, at in zip(proposals, positive)]
            matched = [m[at] for m, at in zip(matched, positive)]
        else:
            boxes, scores, labels = self.postprocess_detections(logits, regression, proposals, image_shapes)
            found = [{"boxes": b, "labels": c, "scores": s} for b, c, s in zip(boxes, labels, scores)]
            regions = boxes
        if self.has_mask():
            self._masks(features, regions, image_shapes, targets, matched, found, losses)
        if self.has_keypoint():
            self._keypoints(features, regions, image_shapes, targets, matched, found, losses)
        return found, losses

    def _masks(self, features: dict[str, Tensor], regions: Sequence[Tensor], shapes: Sequence[tuple[int, int]],
               targets: Sequence[Target] | None, matched: Sequence[Tensor], found: list[Target],
               losses: dict[str, Tensor]) -> None:
        logits = self.mask_predictor(self.mask_head(self.mask_roi_pool(features, regions, shapes)))
        if self.training:
            assert targets is not None
            losses["loss_mask"] = maskrcnn_loss(logits, regions, [t["masks"] for t in targets],
                                                [t["labels"] for t in targets], matched)
        elif found:
            for mask, into in zip(maskrcnn_inference(logits, [f["labels"] for f in found]), found):
                into["masks"] = mask

    def _keypoints(self, features: dict[str, Tensor], regions: Sequence[Tensor], shapes: Sequence[tuple[int, int]],
                   targets: Sequence[Target] | None, matched: Sequence[Tensor], found: list[Target],
                   losses: dict[str, Tensor]) -> None:
        logits = self.keypoint_predictor(self.keypoint_head(self.keypoint_roi_pool(features, regions, shapes)))
        if self.training:
            assert targets is not None
            losses["loss_keypoint"] = keypointrcnn_loss(logits, regions, [t["keypoints"] for t in targets], matched)
            return
        for maps, boxes, into in zip(logits.split([b.shape[0] for b in regions], 0), regions, found):
            into["keypoints"], into["keypoints_scores"] = heatmaps_to_keypoints(maps, boxes)


def _taken(parts: tuple[Tensor, Tensor, Tensor], at: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    boxes, scores, labels = parts
    return boxes[at], scores[at], labels[at]
