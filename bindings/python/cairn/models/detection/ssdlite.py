"""SSDLite: SSD of convolutions of each channel by itself. torchvision.models.detection.ssdlite's names, arguments and
names of weights."""
from __future__ import annotations

from collections import OrderedDict
from functools import partial
from typing import Any, Callable, Sequence

from ... import nn
from ..._tensor import Tensor
from ...ops import Conv2dNormActivation
from ..segmentation._utils import channels_of, no_weights, stages_of
from . import _utils
from .anchor_utils import DefaultBoxGenerator
from .backbone_utils import _validate_trainable_layers, freeze, mobilenet
from .faster_rcnn import COCO_CLASSES
from .ssd import SSD, SSDScoringHead

__all__ = ["ssdlite320_mobilenet_v3_large"]

_Norm = Callable[..., nn.Module]


def _prediction_block(in_channels: int, out_channels: int, kernel_size: int, norm_layer: _Norm) -> nn.Sequential:
    return nn.Sequential(Conv2dNormActivation(in_channels, in_channels, kernel_size, groups=in_channels,
                                              norm_layer=norm_layer, activation_layer=nn.ReLU6),
                         nn.Conv2d(in_channels, out_channels, 1))


def _extra_block(in_channels: int, out_channels: int, norm_layer: _Norm) -> nn.Sequential:
    middle = out_channels // 2
    style: dict[str, Any] = {"norm_layer": norm_layer, "activation_layer": nn.ReLU6}
    return nn.Sequential(Conv2dNormActivation(in_channels, middle, 1, **style),
                         Conv2dNormActivation(middle, middle, 3, 2, groups=middle, **style),
                         Conv2dNormActivation(middle, out_channels, 1, **style))


def _normal_init(conv: nn.Module) -> None:
    for layer in conv.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.normal_(layer.weight, mean=0.0, std=0.03)
            if layer.bias is not None:
                nn.init.constant_(layer.bias, 0.0)


class SSDLiteHead(nn.Module):
    """Scores of classes and changes of boxes."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int,
                 norm_layer: _Norm) -> None:
        super().__init__()
        self.classification_head = SSDLiteClassificationHead(in_channels, num_anchors, num_classes, norm_layer)
        self.regression_head = SSDLiteRegressionHead(in_channels, num_anchors, norm_layer)

    def forward(self, x: Sequence[Tensor]) -> dict[str, Tensor]:
        return {"bbox_regression": self.regression_head(x), "cls_logits": self.classification_head(x)}


def _blocks(in_channels: Sequence[int], num_anchors: Sequence[int], columns: int, norm_layer: _Norm) -> nn.ModuleList:
    made = nn.ModuleList([_prediction_block(c, columns * a, 3, norm_layer) for c, a in zip(in_channels, num_anchors)])
    _normal_init(made)
    return made


class SSDLiteClassificationHead(SSDScoringHead):
    """Scores of classes: (N, boxes, classes)."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], num_classes: int,
                 norm_layer: _Norm) -> None:
        super().__init__(_blocks(in_channels, num_anchors, num_classes, norm_layer), num_classes)


class SSDLiteRegressionHead(SSDScoringHead):
    """Changes of boxes: (N, boxes, 4)."""

    def __init__(self, in_channels: Sequence[int], num_anchors: Sequence[int], norm_layer: _Norm) -> None:
        super().__init__(_blocks(in_channels, num_anchors, 4, norm_layer), 4)


class SSDLiteFeatureExtractorMobileNet(nn.Module):
    """A MobileNet cut inside of the block at c4_pos, behind its first convolution, and smaller maps behind it."""

    def __init__(self, backbone: nn.Module, c4_pos: int, norm_layer: _Norm, width_mult: float = 1.0,
                 min_depth: int = 16) -> None:
        super().__init__()
        layers = list(backbone)
        first, *rest = layers[c4_pos].block.named_children()
        self.features = nn.Sequential(nn.Sequential(*layers[:c4_pos], first[1]),
                                      nn.Sequential(nn.Sequential(OrderedDict(rest)), *layers[c4_pos + 1:]))
        widths = [channels_of(layers[-1])] + [max(min_depth, int(d * width_mult)) for d in (512, 256, 256, 128)]
        self.extra = nn.ModuleList([_extra_block(a, b, norm_layer) for a, b in zip(widths, widths[1:])])
        _normal_init(self.extra)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps = []
        for block in (*self.features, *self.extra):
            x = block(x)
            maps.append(x)
        return OrderedDict((str(i), m) for i, m in enumerate(maps))


def _mobilenet_extractor(backbone: nn.Module, trainable_layers: int, norm_layer: _Norm
                         ) -> SSDLiteFeatureExtractorMobileNet:
    layers = backbone.features
    stages = stages_of(layers)
    if not 0 <= trainable_layers <= len(stages):
        raise ValueError("trainable_layers should be in the range [0, %d], instead got %d"
                         % (len(stages), trainable_layers))
    freeze(layers, len(layers) if trainable_layers == 0 else stages[len(stages) - trainable_layers])
    return SSDLiteFeatureExtractorMobileNet(layers, stages[-2], norm_layer)


def ssdlite320_mobilenet_v3_large(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                                  weights_backbone: Any = "IMAGENET1K_V1", trainable_backbone_layers: int | None = None,
                                  norm_layer: _Norm | None = None,
                                  **kwargs: Any) -> SSD:  # unused: progress (fetching prints nothing)
    """SSDLite for images of 320 x 320, on a MobileNetV3."""
    no_weights("ssdlite320_mobilenet_v3_large", weights)
    classes, norm = COCO_CLASSES if num_classes is None else num_classes, norm_layer
    kept = _validate_trainable_layers(weights_backbone is not None, trainable_backbone_layers, 6, 6)
    if norm is None:
        norm = partial(nn.BatchNorm2d, eps=0.001, momentum=0.03)
    whole = mobilenet("mobilenet_v3_large", weights_backbone, norm, reduced_tail=weights_backbone is None)
    if weights_backbone is None:
        _normal_init(whole)
    backbone, size = _mobilenet_extractor(whole, kept, norm), (320, 320)
    anchors = DefaultBoxGenerator([[2, 3]] * 6, min_ratio=0.2, max_ratio=0.95)
    channels = _utils.retrieve_out_channels(backbone, size)
    usual = {"score_thresh": 0.001, "nms_thresh": 0.55, "detections_per_img": 300, "topk_candidates": 300,
             "image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    return SSD(backbone, anchors, size, classes,
               head=SSDLiteHead(channels, anchors.num_anchors_per_location(), classes, norm), **{**usual, **kwargs})
