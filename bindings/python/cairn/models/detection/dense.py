"""What detectors without proposals share: their way from images to losses or boxes.

Place: under RetinaNet, FCOS and SSD, which say what their losses are and which boxes they keep. Invariant: boxes and
scores go by the places of feature maps, from the largest map to the smallest.
"""
from __future__ import annotations

from typing import Any, Sequence

from ... import _C, nn
from ..._tensor import Tensor
from ...ops import batched_nms, box_iou, clip_boxes_to_image
from . import _utils
from .generalized_rcnn import Target, as_maps, check_boxes, check_positive

__all__ = ["DenseDetector"]


class DenseDetector(nn.Module):
    """transform, backbone, head and anchor_generator are the class's own; so are compute_losses and found_in."""

    transform: Any
    backbone: Any
    head: Any
    anchor_generator: Any
    nms_thresh: float
    detections_per_img: int
    score_thresh: float
    topk_candidates: int

    def compute_losses(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                       levels: Sequence[int]) -> dict[str, Tensor]:
        """By their names. levels: how many anchors each map has."""
        raise NotImplementedError

    def found_in(self, head_outputs: dict[str, Tensor], anchors: Tensor, levels: Sequence[int],
                 shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
        """Boxes, scores and labels of one image (height, width), of which those that overlap are not dropped yet."""
        raise NotImplementedError

    def forward(self, images: Sequence[Tensor], targets: Sequence[Target] | None = None) -> Any:
        if self.training:
            check_boxes(targets)
        before = [(int(m.shape[-2]), int(m.shape[-1])) for m in images]
        batch, changed = self.transform(images, targets)
        check_positive(changed)
        maps = list(as_maps(self.backbone(batch.tensors)).values())
        outputs = self.head(maps)
        anchors = self.anchor_generator(batch, maps)
        places = [m.shape[2] * m.shape[3] for m in maps]
        each = outputs["cls_logits"].shape[1] // sum(places)
        levels = [n * each for n in places]
        if self.training:
            return self.compute_losses(changed, outputs, anchors, levels)
        found = []
        for i, shape in enumerate(batch.image_sizes):
            boxes, scores, labels = self.found_in({k: v[i] for k, v in outputs.items()}, anchors[i], levels, shape)
            kept = batched_nms(boxes, scores, labels, self.nms_thresh)[:self.detections_per_img]
            found.append({"boxes": boxes[kept], "scores": scores[kept], "labels": labels[kept]})
        return self.transform.postprocess(found, batch.image_sizes, before)

    def best_of_levels(self, scores: Tensor, regression: Tensor, anchors: Tensor, levels: Sequence[int],
                       shape: tuple[int, int], decode: Any) -> tuple[Tensor, Tensor, Tensor]:
        """Of each map the likeliest classes of places, scores (places, classes), as boxes."""
        boxes, likely, labels = [], [], []
        parts = [t.split(list(levels)) for t in (scores, regression, anchors)]
        for score, change, anchor in zip(*parts):
            flat = score.flatten()
            at = _utils.where(flat > self.score_thresh)
            best, order = flat[at].topk(min(self.topk_candidates, at.shape[0]))
            place, label = at[order] // score.shape[-1], at[order] % score.shape[-1]
            boxes.append(clip_boxes_to_image(decode(change[place], anchor[place]), shape))
            likely.append(best)
            labels.append(label)
        return _C.cat(boxes), _C.cat(likely), _C.cat(labels)


def matched_boxes(matcher: Any, anchors: Sequence[Tensor], targets: Sequence[Target]) -> list[Tensor]:
    """For each anchor the number of its box; negative where it has none."""
    return [matcher(box_iou(t["boxes"], a)) if t["boxes"].numel() else
            _C.full((a.shape[0],), -1, dtype=_C.int64, device=a.device) for a, t in zip(anchors, targets)]
