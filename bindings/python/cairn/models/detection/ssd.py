"""SSD: boxes of several ratios at the places of ever smaller maps. torchvision.models.detection.ssd's names, arguments
and names of weights."""
from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any, Sequence

from ... import _C, nn, zoo
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import clip_boxes_to_image
from ..segmentation._utils import no_weights
from . import _utils
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import _validate_trainable_layers, freeze
from .dense import DenseDetector, matched_boxes
from .faster_rcnn import COCO_CLASSES, DEVIATION, MEAN
from .generalized_rcnn import Target
from .rpn import flattened
from .transform import GeneralizedRCNNTransform

__all__ = ["SSD", "ssd300_vgg16"]


def _xavier_init(conv: nn.Module) -> None:
    for layer in conv.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.constant_(layer.bias, 0.0)


class SSDHead(nn.Module):
    """Scores of classes and changes of boxes, with a convolution of its own for each map."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int) -> None:
        super().__init__()
        self.classification_head = SSDClassificationHead(in_channels, num_anchors, num_classes)
        self.regression_head = SSDRegressionHead(in_channels, num_anchors)

    def forward(self, x: Sequence[Tensor]) -> dict[str, Tensor]:
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


class SSDScoringHead(nn.Module):
    """A module for each map, whose channels are num_columns numbers for each box."""

    def __init__(self, module_list: nn.ModuleList, num_columns: int) -> None:
        super().__init__()
        self.module_list, self.num_columns = module_list, num_columns

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        return flattened([part(m) for part, m in zip(self.module_list, x)], self.num_columns)


def _convolutions(in_channels: Sequence[int], num_anchors: Sequence[int], columns: int) -> nn.ModuleList:
    made = nn.ModuleList([nn.Conv2d(c, columns * a, 3, padding=1) for c, a in zip(in_channels, num_anchors)])
    _xavier_init(made)
    return made


class SSDClassificationHead(SSDScoringHead):
    """Scores of classes: (N, boxes, classes)."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int) -> None:
        super().__init__(_convolutions(in_channels, num_anchors, num_classes), num_classes)


class SSDRegressionHead(SSDScoringHead):
    """Changes of boxes: (N, boxes, 4)."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int]) -> None:
        super().__init__(_convolutions(in_channels, num_anchors, 4), 4)


class SSD(DenseDetector):
    """A backbone, boxes at each place of its maps, and a head for them. Class 0 is background, and of that as much is
    learnt from as positive_fraction leaves: where the loss is highest."""

    def __init__(self, backbone: nn.Module, anchor_generator: DefaultBoxGenerator, size: tuple[int, int],
                 num_classes: int, image_mean: Sequence[float] | None = None, image_std: Sequence[float] | None = None,
                 head: nn.Module | None = None, score_thresh: float = 0.01, nms_thresh: float = 0.45,
                 detections_per_img: int = 200, iou_thresh: float = 0.5, topk_candidates: int = 400,
                 positive_fraction: float = 0.25, **kwargs: Any) -> None:
        super().__init__()
        self.backbone, self.anchor_generator = backbone, anchor_generator
        self.box_coder = _utils.BoxCoder((10.0, 10.0, 5.0, 5.0))
        if head is None:
            channels = getattr(backbone, "out_channels", None) or _utils.retrieve_out_channels(backbone, size)
            if len(channels) != len(anchor_generator.aspect_ratios):
                raise ValueError("The length of the output channels from the backbone (%d) do not match the length of "
                                 "the anchor generator aspect ratios (%d)"
                                 % (len(channels), len(anchor_generator.aspect_ratios)))
            head = SSDHead(channels, anchor_generator.num_anchors_per_location(), num_classes)
        self.head = head
        self.proposal_matcher = _utils.SSDMatcher(iou_thresh)
        self.transform = GeneralizedRCNNTransform(min(size), max(size), MEAN if image_mean is None else image_mean,
                                                  DEVIATION if image_std is None else image_std, size_divisible=1,
                                                  fixed_size=size, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates
        self.neg_to_pos_ratio = (1.0 - positive_fraction) / positive_fraction

    def compute_losses(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                       levels: Sequence[int]) -> dict[str, Tensor]:  # unused: levels (FCOS wants them)
        matched = matched_boxes(self.proposal_matcher, anchors, targets)
        return self.compute_loss(targets, head_outputs, anchors, matched)

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                     matched_idxs: Sequence[Tensor]) -> dict[str, Tensor]:
        boxes, labels, count = [], [], 0
        for target, change, anchor, matched in zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs):
            own = _utils.where(matched >= 0)
            count += own.shape[0]
            wanted = self.box_coder.encode_single(target["boxes"][matched[own]], anchor[own])
            boxes.append(_F.smooth_l1_loss(change[own], wanted, reduction="sum"))
            label = _C.zeros_like(matched)
            label[own] = target["labels"][matched[own]]
            labels.append(label)
        label, logits = _C.stack(labels), head_outputs["cls_logits"]
        loss = _F.cross_entropy(logits.reshape(-1, logits.shape[-1]), label.reshape(-1), reduction="none")
        loss = loss.reshape(label.shape)
        positive = label > 0
        rank = loss.detach().masked_fill(positive, -math.inf).argsort(1, descending=True).argsort(1)
        negative = rank < self.neg_to_pos_ratio * positive.sum(1, keepdim=True)
        return {"bbox_regression": _C.stack(boxes).sum() / max(1, count),
                "classification": (loss[positive].sum() + loss[negative].sum()) / max(1, count)}

    def found_in(self, head_outputs: dict[str, Tensor], anchors: Tensor, levels: Sequence[int],
                 shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:  # unused: levels (all maps together)
        scores = _F.softmax(head_outputs["cls_logits"], -1)
        boxes = clip_boxes_to_image(self.box_coder.decode_single(head_outputs["bbox_regression"], anchors), shape)
        found, likely, labels = [], [], []
        for label in range(1, scores.shape[-1]):
            at = _utils.where(scores[:, label] > self.score_thresh)
            best, order = scores[at, label].topk(min(self.topk_candidates, at.shape[0]))
            found.append(boxes[at[order]])
            likely.append(best)
            labels.append(_C.full_like(order, label))
        return _C.cat(found), _C.cat(likely), _C.cat(labels)


def _shrinking(in_channels: int, middle: int, out: int, kernel: int = 3, stride: int = 1,
               padding: int = 0) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(in_channels, middle, 1), nn.ReLU(inplace=True),
                         nn.Conv2d(middle, out, kernel, stride, padding), nn.ReLU(inplace=True))


class SSDFeatureExtractorVGG(nn.Module):
    """VGG's layers up to the fourth pool, whose result is brought to length 1 and scaled; what is behind, and further
    convolutions, each a map."""

    def __init__(self, backbone: nn.Sequential, highres: bool) -> None:
        super().__init__()
        layers = list(backbone)
        pools = [i for i, layer in enumerate(layers) if isinstance(layer, nn.MaxPool2d)]
        third, fourth = pools[2], pools[3]
        layers[third] = nn.MaxPool2d(2, 2, ceil_mode=True)
        self.scale_weight = nn.Parameter(_C.ones((512,)) * 20)
        self.features = nn.Sequential(*layers[:fourth])
        smaller = [_shrinking(1024, 256, 512, padding=1, stride=2), _shrinking(512, 128, 256, padding=1, stride=2),
                   _shrinking(256, 128, 256), _shrinking(256, 128, 256)]
        if highres:
            smaller.append(_shrinking(256, 128, 256, 4))
        middle = nn.Sequential(nn.MaxPool2d(3, 1, 1), nn.Conv2d(512, 1024, 3, padding=6, dilation=6),
                               nn.ReLU(inplace=True), nn.Conv2d(1024, 1024, 1), nn.ReLU(inplace=True))
        for part in (*smaller, middle):
            _xavier_init(part)
        self.extra = nn.ModuleList([nn.Sequential(*layers[fourth:-1], middle), *smaller])

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        x = self.features(x)
        maps = [self.scale_weight.reshape(1, -1, 1, 1) * _F.normalize(x)]
        for block in self.extra:
            x = block(x)
            maps.append(x)
        return OrderedDict((str(i), m) for i, m in enumerate(maps))


def _vgg_extractor(backbone: nn.Module, highres: bool, trainable_layers: int) -> SSDFeatureExtractorVGG:
    layers = backbone.features
    stages = [0] + [i for i, b in enumerate(layers) if isinstance(b, nn.MaxPool2d)][:-1]
    if not 0 <= trainable_layers <= len(stages):
        raise AssertionError("trainable_layers should be in the range [0, %d]. Instead got %d"
                             % (len(stages), trainable_layers))
    freeze(layers, len(layers) if trainable_layers == 0 else stages[len(stages) - trainable_layers])
    return SSDFeatureExtractorVGG(layers, highres)


def ssd300_vgg16(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                 weights_backbone: Any = "IMAGENET1K_FEATURES", trainable_backbone_layers: int | None = None,
                 **kwargs: Any) -> SSD:  # unused: progress (fetching prints nothing)
    """SSD for images of 300 x 300, on VGG with 16 layers."""
    no_weights("ssd300_vgg16", weights)
    kept = _validate_trainable_layers(weights_backbone is not None, trainable_backbone_layers, 5, 4)
    backbone = _vgg_extractor(zoo.get_model("vgg16", weights=weights_backbone), False, kept)
    anchors = DefaultBoxGenerator([[2], [2, 3], [2, 3], [2, 3], [2], [2]],
                                  scales=[0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05], steps=[8, 16, 32, 64, 100, 300])
    usual = {"image_mean": [0.48235, 0.45882, 0.40784], "image_std": [1.0 / 255.0] * 3}
    return SSD(backbone, anchors, (300, 300), COCO_CLASSES if num_classes is None else num_classes,
               **{**usual, **kwargs})
