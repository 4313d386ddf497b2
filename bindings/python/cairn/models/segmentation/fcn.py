"""Fully convolutional networks. torchvision.models.segmentation.fcn's names."""
from __future__ import annotations

from typing import Any

from ... import nn
from ._utils import _SimpleSegmentationModel, classes_of, no_weights, resnet_backbone

__all__ = ["FCN", "fcn_resnet101", "fcn_resnet50"]


class FCN(_SimpleSegmentationModel):
    """A backbone and heads of two convolutions."""


class FCNHead(nn.Sequential):
    """Two convolutions, the first of which makes channels a quarter."""

    def __init__(self, in_channels: int, channels: int) -> None:
        inter = in_channels // 4
        super().__init__(nn.Conv2d(in_channels, inter, 3, padding=1, bias=False), nn.BatchNorm2d(inter), nn.ReLU(),
                         nn.Dropout(0.1), nn.Conv2d(inter, channels, 1))


def _fcn(name: str, weights: Any, num_classes: int | None, aux_loss: bool | None, weights_backbone: Any) -> FCN:
    no_weights("fcn_" + name, weights)
    classes, aux = classes_of(num_classes), bool(aux_loss)
    return FCN(resnet_backbone(name, weights_backbone, aux), FCNHead(2048, classes),
               FCNHead(1024, classes) if aux else None)


def fcn_resnet50(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                 aux_loss: bool | None = None, weights_backbone: Any = None) -> FCN:  # unused: progress (quiet)
    """FCN on a ResNet with 50 layers."""
    return _fcn("resnet50", weights, num_classes, aux_loss, weights_backbone)


def fcn_resnet101(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                  aux_loss: bool | None = None, weights_backbone: Any = None) -> FCN:  # unused: progress (quiet)
    """FCN on a ResNet with 101 layers."""
    return _fcn("resnet101", weights, num_classes, aux_loss, weights_backbone)
