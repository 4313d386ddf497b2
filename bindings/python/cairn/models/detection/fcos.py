"""FCOS: one box for each place of feature maps. torchvision.models.detection.fcos' names, arguments and names of
weights."""
from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Sequence

from ... import _C, nn
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import generalized_box_iou_loss, sigmoid_focal_loss
from ..segmentation._utils import no_weights
from . import _utils
from .anchor_utils import AnchorGenerator
from .dense import DenseDetector
from .faster_rcnn import COCO_CLASSES, DEVIATION, MEAN, check_backbone, check_type
from .generalized_rcnn import Target
from .retinanet import draw_rare, draw_small, smaller_maps
from .rpn import flattened
from .transform import GeneralizedRCNNTransform

__all__ = ["FCOS", "fcos_resnet50_fpn"]

_Norm = Callable[..., nn.Module]


def _layers(channels: int, count: int, norm_layer: _Norm | None) -> nn.Sequential:
    norm = norm_layer or partial(nn.GroupNorm, 32)
    made: list[nn.Module] = []
    for _ in range(count):
        made += [nn.Conv2d(channels, channels, 3, padding=1), norm(channels), nn.ReLU()]
    return nn.Sequential(*made)


class FCOSHead(nn.Module):
    """For each place scores of classes, how far the sides of its box are, and how near it is to the box's middle."""

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int | None = 4) -> None:
        super().__init__()
        self.box_coder = _utils.BoxLinearCoder(normalize_by_size=True)
        self.classification_head = FCOSClassificationHead(in_channels, num_anchors, num_classes, num_convs or 4)
        self.regression_head = FCOSRegressionHead(in_channels, num_anchors, num_convs or 4)

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                     matched_idxs: Sequence[Tensor]) -> dict[str, Tensor]:
        logits, places = head_outputs["cls_logits"], _C.stack(list(anchors))
        labels, boxes = [], []
        for target, matched in zip(targets, matched_idxs):
            if len(target["labels"]):
                label, box = target["labels"][matched.clamp(min=0)], target["boxes"][matched.clamp(min=0)]
            else:
                label, box = matched.clone(), target["boxes"].new_zeros((len(matched), 4))
            labels.append(label.masked_fill(matched < 0, -1))
            boxes.append(box)
        label, box = _C.stack(labels), _C.stack(boxes)
        own = label >= 0
        count = max(1, int(own.sum().item()))
        wanted = _F.one_hot(label.clamp(min=0), logits.shape[-1]).to(logits.dtype) * own[..., None]
        made = self.box_coder.decode(head_outputs["bbox_regression"], places)
        middle = _F.binary_cross_entropy_with_logits(head_outputs["bbox_ctrness"].squeeze(2)[own],
                                                     self._middles(places, box)[own], reduction="sum")
        return {"classification": sigmoid_focal_loss(logits, wanted, reduction="sum") / count,
                "bbox_regression": generalized_box_iou_loss(made[own], box[own], reduction="sum") / count,
                "bbox_ctrness": middle / count}

    def _middles(self, places: Tensor, boxes: Tensor) -> Tensor:
        """1 in the middle of a box, 0 at its sides."""
        left, top, right, bottom = self.box_coder.encode(places, boxes).unbind(-1)
        across = _C.minimum(left, right) / _C.maximum(left, right)
        return _C.sqrt(across * (_C.minimum(top, bottom) / _C.maximum(top, bottom)))

    def forward(self, x: Sequence[Tensor]) -> dict[str, Tensor]:
        regression, middle = self.regression_head(x)
        return {"cls_logits": self.classification_head(x), "bbox_regression": regression, "bbox_ctrness": middle}


class FCOSClassificationHead(nn.Module):
    """Scores of classes: (N, places, classes)."""

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, num_convs: int = 4,
                 prior_probability: float = 0.01, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.conv = _layers(in_channels, num_convs, norm_layer)
        draw_small(self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, padding=1)
        draw_rare(self.cls_logits, prior_probability)

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        return flattened([self.cls_logits(self.conv(m)) for m in x], self.num_classes)


class FCOSRegressionHead(nn.Module):
    """How far sides are, (N, places, 4), and how near the middle is, (N, places, 1)."""

    def __init__(self, in_channels: int, num_anchors: int, num_convs: int = 4, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        self.conv = _layers(in_channels, num_convs, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, padding=1)
        self.bbox_ctrness = nn.Conv2d(in_channels, num_anchors, 3, padding=1)
        draw_small(self)

    def forward(self, x: Sequence[Tensor]) -> tuple[Tensor, Tensor]:
        seen = [self.conv(m) for m in x]
        return (flattened([_F.relu(self.bbox_reg(t)) for t in seen], 4),
                flattened([self.bbox_ctrness(t) for t in seen], 1))


class FCOS(DenseDetector):
    """A backbone and a head; each place belongs to the smallest box that it is near the middle of, on the map whose
    places are large enough for it."""

    def __init__(self, backbone: nn.Module, num_classes: int, min_size: int | Sequence[int] = 800,
                 max_size: int = 1333, image_mean: Sequence[float] | None = None,
                 image_std: Sequence[float] | None = None, anchor_generator: AnchorGenerator | None = None,
                 head: nn.Module | None = None, center_sampling_radius: float = 1.5, score_thresh: float = 0.2,
                 nms_thresh: float = 0.6, detections_per_img: int = 100, topk_candidates: int = 1000,
                 **kwargs: Any) -> None:
        super().__init__()
        check_backbone(backbone)
        check_type("anchor_generator", anchor_generator, AnchorGenerator)
        self.backbone = backbone
        self.anchor_generator = anchor_generator or AnchorGenerator(((8,), (16,), (32,), (64,), (128,)), ((1.0,),) * 5)
        each = self.anchor_generator.num_anchors_per_location()[0]
        if each != 1:
            raise ValueError("anchor_generator.num_anchors_per_location()[0] should be 1 instead of %d" % each)
        self.head = head or FCOSHead(backbone.out_channels, each, num_classes)
        self.box_coder = _utils.BoxLinearCoder(normalize_by_size=True)
        self.transform = GeneralizedRCNNTransform(min_size, max_size, MEAN if image_mean is None else image_mean,
                                                  DEVIATION if image_std is None else image_std, **kwargs)
        self.center_sampling_radius = center_sampling_radius
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def _matched(self, anchors: Tensor, boxes: Tensor, levels: Sequence[int]) -> Tensor:
        """For each place the number of its box, or -1."""
        if boxes.numel() == 0:
            return _C.full((anchors.shape[0],), -1, dtype=_C.int64, device=anchors.device)
        at, size = (anchors[:, :2] + anchors[:, 2:]) / 2, anchors[:, 2] - anchors[:, 0]
        middle = (boxes[:, :2] + boxes[:, 2:]) / 2
        near = (at[:, None] - middle[None]).abs().amax(2) < self.center_sampling_radius * size[:, None]
        sides = _C.cat((at[:, None] - boxes[None, :, :2], boxes[None, :, 2:] - at[:, None]), 2)
        low, high = size * 4, size * 8
        low[:levels[0]] = 0
        high[-levels[-1]:] = math.inf
        far = sides.amax(2)
        fits = near & (sides.amin(2) > 0) & (far > low[:, None]) & (far < high[:, None])
        area = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
        best, index = (fits.to(_C.float32) * (1e8 - area[None])).max(1)
        return index.masked_fill(best < 1e-5, -1)

    def compute_losses(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                       levels: Sequence[int]) -> dict[str, Tensor]:
        return self.compute_loss(targets, head_outputs, anchors, levels)

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                     num_anchors_per_level: Sequence[int]) -> dict[str, Tensor]:
        matched = [self._matched(a, t["boxes"], num_anchors_per_level) for a, t in zip(anchors, targets)]
        losses: dict[str, Tensor] = self.head.compute_loss(targets, head_outputs, anchors, matched)
        return losses

    def found_in(self, head_outputs: dict[str, Tensor], anchors: Tensor, levels: Sequence[int],
                 shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
        scores = _C.sqrt(head_outputs["cls_logits"].sigmoid() * head_outputs["bbox_ctrness"].sigmoid())
        return self.best_of_levels(scores, head_outputs["bbox_regression"], anchors, levels, shape,
                                   self.box_coder.decode)


def fcos_resnet50_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                      weights_backbone: Any = "IMAGENET1K_V1", trainable_backbone_layers: int | None = None,
                      **kwargs: Any) -> FCOS:  # unused: progress (fetching prints nothing)
    """FCOS on a ResNet with 50 layers."""
    no_weights("fcos_resnet50_fpn", weights)
    return FCOS(smaller_maps(weights_backbone, trainable_backbone_layers, 256),
                COCO_CLASSES if num_classes is None else num_classes, **kwargs)
