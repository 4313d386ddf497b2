"""Proposals: which boxes at the places of feature maps may hold something. torchvision.models.detection.rpn's names."""
from __future__ import annotations

from typing import Sequence

from ... import _C, nn
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import Conv2dNormActivation, batched_nms, box_iou, clip_boxes_to_image, remove_small_boxes
from . import _utils
from .anchor_utils import AnchorGenerator
from .image_list import ImageList

__all__ = ["RPNHead", "RegionProposalNetwork"]


class RPNHead(nn.Module):
    """For each box of each place a score, and how the box should change."""

    _version = 2

    def __init__(self, in_channels: int, num_anchors: int, conv_depth: int = 1) -> None:
        super().__init__()
        self.conv = nn.Sequential(*(Conv2dNormActivation(in_channels, in_channels, 3, norm_layer=None)
                                    for _ in range(conv_depth)))
        self.cls_logits = nn.Conv2d(in_channels, num_anchors, 1)
        self.bbox_pred = nn.Conv2d(in_channels, num_anchors * 4, 1)
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.normal_(layer.weight, std=0.01)
                nn.init.constant_(layer.bias, 0)

    def forward(self, x: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
        seen = [self.conv(m) for m in x]
        return [self.cls_logits(t) for t in seen], [self.bbox_pred(t) for t in seen]


def flattened(maps: Sequence[Tensor], each: int) -> Tensor:
    """Maps (N, anchors * each, H, W) as (N, all anchors of all places, each)."""
    return _C.cat([m.reshape(m.shape[0], -1, each, m.shape[2], m.shape[3]).permute(0, 3, 4, 1, 2)
                   .reshape(m.shape[0], -1, each) for m in maps], 1)


class RegionProposalNetwork(nn.Module):
    """The best boxes of a head that overlap least, and in training its losses."""

    def __init__(self, anchor_generator: AnchorGenerator, head: nn.Module, fg_iou_thresh: float, bg_iou_thresh: float,
                 batch_size_per_image: int, positive_fraction: float, pre_nms_top_n: dict[str, int],
                 post_nms_top_n: dict[str, int], nms_thresh: float, score_thresh: float = 0.0) -> None:
        super().__init__()
        self.anchor_generator, self.head = anchor_generator, head
        self.box_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        self.box_similarity = box_iou
        self.proposal_matcher = _utils.Matcher(fg_iou_thresh, bg_iou_thresh, allow_low_quality_matches=True)
        self.fg_bg_sampler = _utils.BalancedPositiveNegativeSampler(batch_size_per_image, positive_fraction)
        self._pre_nms_top_n, self._post_nms_top_n = pre_nms_top_n, post_nms_top_n
        self.nms_thresh, self.score_thresh, self.min_size = nms_thresh, score_thresh, 1e-3

    def pre_nms_top_n(self) -> int:
        return self._pre_nms_top_n["training" if self.training else "testing"]

    def post_nms_top_n(self) -> int:
        return self._post_nms_top_n["training" if self.training else "testing"]

    def assign_targets_to_anchors(self, anchors: Sequence[Tensor], targets: Sequence[dict[str, Tensor]]
                                  ) -> tuple[list[Tensor], list[Tensor]]:
        """For each anchor 1 where it belongs to a box, 0 where to none, -1 between; and that box."""
        labels, boxes = [], []
        for anchor, target in zip(anchors, targets):
            truth = target["boxes"]
            if truth.numel() == 0:
                boxes.append(_C.zeros_like(anchor))
                labels.append(_C.zeros((anchor.shape[0],), device=anchor.device))
                continue
            matched = self.proposal_matcher(self.box_similarity(truth, anchor))
            boxes.append(truth[matched.clamp(min=0)])
            label = (matched >= 0).to(_C.float32)
            labels.append(label.masked_fill(matched == self.proposal_matcher.BETWEEN_THRESHOLDS, -1.0))
        return labels, boxes

    def _get_top_n_idx(self, objectness: Tensor, num_anchors_per_level: Sequence[int]) -> Tensor:
        found, offset = [], 0
        for level in objectness.split(list(num_anchors_per_level), 1):
            n = min(self.pre_nms_top_n(), level.shape[1])
            found.append(level.topk(n, dim=1)[1] + offset)
            offset += level.shape[1]
        return _C.cat(found, 1)

    def filter_proposals(self, proposals: Tensor, objectness: Tensor, image_shapes: Sequence[tuple[int, int]],
                         num_anchors_per_level: Sequence[int]) -> tuple[list[Tensor], list[Tensor]]:
        """Of each level the best, without small ones, unlikely ones, and those that overlap with better ones."""
        objectness = objectness.detach().reshape(proposals.shape[0], -1)
        levels = _C.cat([_C.full((n,), i, dtype=_C.int64, device=proposals.device)
                         for i, n in enumerate(num_anchors_per_level)])
        boxes, scores = [], []
        for box, logit, top, shape in zip(proposals, objectness, self._get_top_n_idx(objectness, num_anchors_per_level),
                                          image_shapes):
            box, score, level = clip_boxes_to_image(box[top], shape), logit[top].sigmoid(), levels[top]
            large = remove_small_boxes(box, self.min_size)
            box, score, level = box[large], score[large], level[large]
            likely = _utils.where(score >= self.score_thresh)
            box, score, level = box[likely], score[likely], level[likely]
            kept = batched_nms(box, score, level, self.nms_thresh)[:self.post_nms_top_n()]
            boxes.append(box[kept])
            scores.append(score[kept])
        return boxes, scores

    def compute_loss(self, objectness: Tensor, pred_bbox_deltas: Tensor, labels: Sequence[Tensor],
                     regression_targets: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        positive, negative = (_utils.where(_C.cat(masks)) for masks in self.fg_bg_sampler(labels))
        drawn = _C.cat((positive, negative))
        truth, wanted = _C.cat(list(labels)), _C.cat(list(regression_targets))
        box = _F.smooth_l1_loss(pred_bbox_deltas[positive], wanted[positive], beta=1 / 9, reduction="sum")
        score = _F.binary_cross_entropy_with_logits(objectness.flatten()[drawn], truth[drawn])
        return score, box / drawn.numel()

    def forward(self, images: ImageList, features: dict[str, Tensor],
                targets: Sequence[dict[str, Tensor]] | None = None) -> tuple[list[Tensor], dict[str, Tensor]]:
        maps = list(features.values())
        scores, changes = self.head(maps)
        anchors = self.anchor_generator(images, maps)
        counts = [s.shape[1] * s.shape[2] * s.shape[3] for s in scores]
        objectness, deltas = flattened(scores, 1).flatten(0, -2), flattened(changes, 4).reshape(-1, 4)
        proposals = self.box_coder.decode(deltas.detach(), anchors).reshape(len(anchors), -1, 4)
        boxes, _ = self.filter_proposals(proposals, objectness, images.image_sizes, counts)
        if not self.training:
            return boxes, {}
        if targets is None:
            raise ValueError("targets should not be None")
        labels, matched = self.assign_targets_to_anchors(anchors, targets)
        score, box = self.compute_loss(objectness, deltas, labels, self.box_coder.encode(matched, anchors))
        return boxes, {"loss_objectness": score, "loss_rpn_box_reg": box}
