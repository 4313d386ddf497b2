"""Lite R-ASPP: a small head on two maps of a MobileNet. torchvision.models.segmentation.lraspp's names."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ... import nn
from ..._tensor import Tensor
from .._utils import IntermediateLayerGetter
from ._utils import classes_of, mobilenet_stages, no_weights, pooled_like

__all__ = ["LRASPP", "lraspp_mobilenet_v3_large"]


class LRASPP(nn.Module):
    """A backbone that gives maps "low" and "high", and a head for both."""

    def __init__(self, backbone: nn.Module, low_channels: int, high_channels: int, num_classes: int,
                 inter_channels: int = 128) -> None:
        super().__init__()
        self.backbone = backbone
        self.classifier = LRASPPHead(low_channels, high_channels, num_classes, inter_channels)

    def forward(self, input: Tensor) -> dict[str, Tensor]:
        return OrderedDict(out=pooled_like(self.classifier(self.backbone(input)), input.shape[-2:]))


class LRASPPHead(nn.Module):
    """The small map, each channel times what the means of all say, and the large one: their scores added."""

    def __init__(self, low_channels: int, high_channels: int, num_classes: int, inter_channels: int) -> None:
        super().__init__()
        self.cbr = nn.Sequential(nn.Conv2d(high_channels, inter_channels, 1, bias=False),
                                 nn.BatchNorm2d(inter_channels), nn.ReLU(inplace=True))
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(high_channels, inter_channels, 1, bias=False),
                                   nn.Sigmoid())
        self.low_classifier = nn.Conv2d(low_channels, num_classes, 1)
        self.high_classifier = nn.Conv2d(inter_channels, num_classes, 1)

    def forward(self, input: dict[str, Tensor]) -> Tensor:
        low, high = input["low"], input["high"]
        x = pooled_like(self.cbr(high) * self.scale(high), low.shape[-2:])
        made: Tensor = self.low_classifier(low) + self.high_classifier(x)
        return made


def lraspp_mobilenet_v3_large(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                              weights_backbone: Any = None) -> LRASPP:  # unused: progress (quiet)
    """Lite R-ASPP on a MobileNetV3."""
    no_weights("lraspp_mobilenet_v3_large", weights)
    layers, at, channels = mobilenet_stages(weights_backbone)
    backbone = IntermediateLayerGetter(layers, {str(at[-4]): "low", str(at[-1]): "high"})
    return LRASPP(backbone, channels[-4], channels[-1], classes_of(num_classes))
