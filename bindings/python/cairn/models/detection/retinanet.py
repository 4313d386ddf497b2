"""RetinaNet. torchvision.models.detection.retinanet's names, arguments and names of weights."""
from __future__ import annotations

import math
from functools import partial
from typing import Any, Callable, Sequence

from ... import _C, nn
from ..._tensor import Tensor
from ...ops import Conv2dNormActivation, FrozenBatchNorm2d, sigmoid_focal_loss
from ...ops.feature_pyramid_network import LastLevelP6P7
from ..resnet import build
from ..segmentation._utils import no_weights
from . import _utils
from .anchor_utils import AnchorGenerator
from .backbone_utils import BackboneWithFPN, _resnet_fpn_extractor, _validate_trainable_layers
from .dense import DenseDetector, matched_boxes
from .faster_rcnn import COCO_CLASSES, DEVIATION, MEAN, check_backbone, check_type
from .generalized_rcnn import Target
from .rpn import flattened
from .transform import GeneralizedRCNNTransform

__all__ = ["RetinaNet", "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2"]

_Norm = Callable[..., nn.Module]


def default_anchors() -> AnchorGenerator:
    """Three sizes at each of five maps."""
    sizes = tuple((x, int(x * 2 ** (1.0 / 3)), int(x * 2 ** (2.0 / 3))) for x in (32, 64, 128, 256, 512))
    return AnchorGenerator(sizes, ((0.5, 1.0, 2.0),) * len(sizes))


def draw_small(module: nn.Module) -> None:
    """First weights of the convolutions of a head."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, std=0.01)
            if layer.bias is not None:
                nn.init.constant_(layer.bias, 0)


def draw_rare(layer: nn.Conv2d, probability: float) -> None:
    """First weights of a convolution whose scores say at first that everything is as rare as this."""
    nn.init.normal_(layer.weight, std=0.01)
    nn.init.constant_(layer.bias, -math.log((1 - probability) / probability))


class RetinaNetHead(nn.Module):
    """Scores of classes and changes of boxes, for each anchor."""

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        self.classification_head = RetinaNetClassificationHead(in_channels, num_anchors, num_classes,
                                                               norm_layer=norm_layer)
        self.regression_head = RetinaNetRegressionHead(in_channels, num_anchors, norm_layer)

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                     matched_idxs: Sequence[Tensor]) -> dict[str, Tensor]:
        return {"classification": self.classification_head.compute_loss(targets, head_outputs, matched_idxs),
                "bbox_regression": self.regression_head.compute_loss(targets, head_outputs, anchors, matched_idxs)}

    def forward(self, x: Sequence[Tensor]) -> dict[str, Tensor]:
        return {"cls_logits": self.classification_head(x), "bbox_regression": self.regression_head(x)}


def _four(channels: int, norm_layer: _Norm | None) -> nn.Sequential:
    return nn.Sequential(*(Conv2dNormActivation(channels, channels, norm_layer=norm_layer) for _ in range(4)))


class RetinaNetClassificationHead(nn.Module):
    """Scores of classes: (N, anchors, classes)."""

    _version = 2

    def __init__(self, in_channels: int, num_anchors: int, num_classes: int, prior_probability: float = 0.01,
                 norm_layer: _Norm | None = None) -> None:
        super().__init__()
        self.conv = _four(in_channels, norm_layer)
        draw_small(self.conv)
        self.cls_logits = nn.Conv2d(in_channels, num_anchors * num_classes, 3, padding=1)
        draw_rare(self.cls_logits, prior_probability)
        self.num_classes, self.num_anchors = num_classes, num_anchors
        self.BETWEEN_THRESHOLDS = _utils.Matcher.BETWEEN_THRESHOLDS

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor],
                     matched_idxs: Sequence[Tensor]) -> Tensor:
        losses = []
        for target, logits, matched in zip(targets, head_outputs["cls_logits"], matched_idxs):
            own = _utils.where(matched >= 0)
            wanted = _C.zeros_like(logits)
            wanted[own, target["labels"][matched[own]]] = 1.0
            counts = matched != self.BETWEEN_THRESHOLDS
            loss = sigmoid_focal_loss(logits[counts], wanted[counts], reduction="sum")
            losses.append(loss / max(1, own.shape[0]))
        return _C.stack(losses).sum() / len(targets)

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        return flattened([self.cls_logits(self.conv(m)) for m in x], self.num_classes)


class RetinaNetRegressionHead(nn.Module):
    """Changes of boxes: (N, anchors, 4)."""

    _version = 2

    def __init__(self, in_channels: int, num_anchors: int, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        self.conv = _four(in_channels, norm_layer)
        self.bbox_reg = nn.Conv2d(in_channels, num_anchors * 4, 3, padding=1)
        draw_small(self)
        self.box_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        self._loss_type = "l1"

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                     matched_idxs: Sequence[Tensor]) -> Tensor:
        losses = []
        for target, change, anchor, matched in zip(targets, head_outputs["bbox_regression"], anchors, matched_idxs):
            own = _utils.where(matched >= 0)
            loss = _utils._box_loss(self._loss_type, self.box_coder, anchor[own], target["boxes"][matched[own]],
                                    change[own])
            losses.append(loss / max(1, own.shape[0]))
        return _C.stack(losses).sum() / max(1, len(targets))

    def forward(self, x: Sequence[Tensor]) -> Tensor:
        return flattened([self.bbox_reg(self.conv(m)) for m in x], 4)


class RetinaNet(DenseDetector):
    """A backbone, anchors at each place of its maps, and a head for them."""

    def __init__(self, backbone: nn.Module, num_classes: int, min_size: int | Sequence[int] = 800,
                 max_size: int = 1333, image_mean: Sequence[float] | None = None,
                 image_std: Sequence[float] | None = None, anchor_generator: AnchorGenerator | None = None,
                 head: nn.Module | None = None, proposal_matcher: Any = None, score_thresh: float = 0.05,
                 nms_thresh: float = 0.5, detections_per_img: int = 300, fg_iou_thresh: float = 0.5,
                 bg_iou_thresh: float = 0.4, topk_candidates: int = 1000, **kwargs: Any) -> None:
        super().__init__()
        check_backbone(backbone)
        check_type("anchor_generator", anchor_generator, AnchorGenerator)
        self.backbone = backbone
        self.anchor_generator = anchor_generator or default_anchors()
        self.head = head or RetinaNetHead(backbone.out_channels, self.anchor_generator.num_anchors_per_location()[0],
                                          num_classes)
        self.proposal_matcher = proposal_matcher or _utils.Matcher(fg_iou_thresh, bg_iou_thresh, True)
        self.box_coder = _utils.BoxCoder((1.0, 1.0, 1.0, 1.0))
        self.transform = GeneralizedRCNNTransform(min_size, max_size, MEAN if image_mean is None else image_mean,
                                                  DEVIATION if image_std is None else image_std, **kwargs)
        self.score_thresh, self.nms_thresh = score_thresh, nms_thresh
        self.detections_per_img, self.topk_candidates = detections_per_img, topk_candidates

    def compute_losses(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor],
                       levels: Sequence[int]) -> dict[str, Tensor]:  # unused: levels (FCOS wants them)
        return self.compute_loss(targets, head_outputs, anchors)

    def compute_loss(self, targets: Sequence[Target], head_outputs: dict[str, Tensor], anchors: Sequence[Tensor]
                     ) -> dict[str, Tensor]:
        matched = matched_boxes(self.proposal_matcher, anchors, targets)
        losses: dict[str, Tensor] = self.head.compute_loss(targets, head_outputs, anchors, matched)
        return losses

    def found_in(self, head_outputs: dict[str, Tensor], anchors: Tensor, levels: Sequence[int],
                 shape: tuple[int, int]) -> tuple[Tensor, Tensor, Tensor]:
        return self.best_of_levels(head_outputs["cls_logits"].sigmoid(), head_outputs["bbox_regression"], anchors,
                                   levels, shape, self.box_coder.decode_single)


def smaller_maps(weights_backbone: Any, trainable: int | None, channels: int, frozen: bool = True) -> BackboneWithFPN:
    """A ResNet with 50 layers, whose pyramid has two smaller maps, made of one of so many channels."""
    layers = _validate_trainable_layers(weights_backbone is not None, trainable, 5, 3)
    norm = FrozenBatchNorm2d if frozen and weights_backbone is not None else nn.BatchNorm2d
    return _resnet_fpn_extractor(build("resnet50", weights_backbone, norm_layer=norm), layers, [2, 3, 4],
                                 LastLevelP6P7(channels, 256))


def retinanet_resnet50_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                           weights_backbone: Any = "IMAGENET1K_V1", trainable_backbone_layers: int | None = None,
                           **kwargs: Any) -> RetinaNet:  # unused: progress (fetching prints nothing)
    """RetinaNet on a ResNet with 50 layers."""
    no_weights("retinanet_resnet50_fpn", weights)
    return RetinaNet(smaller_maps(weights_backbone, trainable_backbone_layers, 256),
                     COCO_CLASSES if num_classes is None else num_classes, **kwargs)


def retinanet_resnet50_fpn_v2(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                              weights_backbone: Any = None, trainable_backbone_layers: int | None = None,
                              **kwargs: Any) -> RetinaNet:  # unused: progress (fetching prints nothing)
    """The same with norms in the heads, and a loss of overlaps."""
    no_weights("retinanet_resnet50_fpn_v2", weights)
    classes = COCO_CLASSES if num_classes is None else num_classes
    backbone, anchors = smaller_maps(weights_backbone, trainable_backbone_layers, 2048, False), default_anchors()
    head = RetinaNetHead(backbone.out_channels, anchors.num_anchors_per_location()[0], classes,
                         partial(nn.GroupNorm, 32))
    head.regression_head._loss_type = "giou"
    return RetinaNet(backbone, classes, anchor_generator=anchors, head=head, **kwargs)
