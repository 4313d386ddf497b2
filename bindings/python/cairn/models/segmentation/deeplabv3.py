"""DeepLabV3: convolutions at several distances beside one another. torchvision.models.segmentation.deeplabv3's
names."""
from __future__ import annotations

from typing import Any, Sequence

from ... import nn
from ..._tensor import Tensor
from .._utils import IntermediateLayerGetter
from ._utils import (_SimpleSegmentationModel, cat, classes_of, mobilenet_stages, no_weights, pooled_like,
                     resnet_backbone)
from .fcn import FCNHead

__all__ = ["DeepLabV3", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet101", "deeplabv3_resnet50"]


class DeepLabV3(_SimpleSegmentationModel):
    """A backbone with a DeepLabHead."""


class ASPPConv(nn.Sequential):
    """A convolution whose places lie `dilation` apart."""

    def __init__(self, in_channels: int, out_channels: int, dilation: int) -> None:
        super().__init__(nn.Conv2d(in_channels, out_channels, 3, padding=dilation, dilation=dilation, bias=False),
                         nn.BatchNorm2d(out_channels), nn.ReLU())


class ASPPPooling(nn.Sequential):
    """The mean of each channel, through a linear layer, at all places."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__(nn.AdaptiveAvgPool2d(1), nn.Conv2d(in_channels, out_channels, 1, bias=False),
                         nn.BatchNorm2d(out_channels), nn.ReLU())

    def forward(self, x: Tensor) -> Tensor:
        return pooled_like(super().forward(x), x.shape[-2:])


class ASPP(nn.Module):
    """A pyramid of such convolutions, joined by a linear layer for each place."""

    def __init__(self, in_channels: int, atrous_rates: Sequence[int], out_channels: int = 256) -> None:
        super().__init__()
        parts: list[nn.Module] = [nn.Sequential(nn.Conv2d(in_channels, out_channels, 1, bias=False),
                                                nn.BatchNorm2d(out_channels), nn.ReLU())]
        parts += [ASPPConv(in_channels, out_channels, rate) for rate in atrous_rates]
        parts.append(ASPPPooling(in_channels, out_channels))
        self.convs = nn.ModuleList(parts)
        self.project = nn.Sequential(nn.Conv2d(len(parts) * out_channels, out_channels, 1, bias=False),
                                     nn.BatchNorm2d(out_channels), nn.ReLU(), nn.Dropout(0.5))

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.project(cat([part(x) for part in self.convs], 1))
        return made


class DeepLabHead(nn.Sequential):
    """The pyramid, a convolution and the classes."""

    def __init__(self, in_channels: int, num_classes: int, atrous_rates: Sequence[int] = (12, 24, 36)) -> None:
        super().__init__(ASPP(in_channels, atrous_rates), nn.Conv2d(256, 256, 3, padding=1, bias=False),
                         nn.BatchNorm2d(256), nn.ReLU(), nn.Conv2d(256, num_classes, 1))


def _deeplab(name: str, weights: Any, num_classes: int | None, aux_loss: bool | None,
             weights_backbone: Any) -> DeepLabV3:
    no_weights("deeplabv3_" + name, weights)
    classes, aux = classes_of(num_classes), bool(aux_loss)
    return DeepLabV3(resnet_backbone(name, weights_backbone, aux), DeepLabHead(2048, classes),
                     FCNHead(1024, classes) if aux else None)


def deeplabv3_resnet50(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                       aux_loss: bool | None = None,
                       weights_backbone: Any = None) -> DeepLabV3:  # unused: progress (fetching prints nothing)
    """DeepLabV3 on a ResNet with 50 layers."""
    return _deeplab("resnet50", weights, num_classes, aux_loss, weights_backbone)


def deeplabv3_resnet101(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                        aux_loss: bool | None = None,
                        weights_backbone: Any = None) -> DeepLabV3:  # unused: progress (fetching prints nothing)
    """DeepLabV3 on a ResNet with 101 layers."""
    return _deeplab("resnet101", weights, num_classes, aux_loss, weights_backbone)


def deeplabv3_mobilenet_v3_large(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                                 aux_loss: bool | None = None,
                                 weights_backbone: Any = None) -> DeepLabV3:  # unused: progress (quiet)
    """DeepLabV3 on a MobileNetV3."""
    no_weights("deeplabv3_mobilenet_v3_large", weights)
    classes, aux = classes_of(num_classes), bool(aux_loss)
    layers, at, channels = mobilenet_stages(weights_backbone)
    taken = {str(at[-1]): "out", **({str(at[-4]): "aux"} if aux else {})}
    return DeepLabV3(IntermediateLayerGetter(layers, taken), DeepLabHead(channels[-1], classes),
                     FCNHead(channels[-4], classes) if aux else None)
