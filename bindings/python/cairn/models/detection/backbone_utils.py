"""Backbones for detectors: networks that classify, with a pyramid of feature maps on top.
torchvision.models.detection.backbone_utils' names."""
from __future__ import annotations

import warnings
from typing import Any, Callable, Sequence

from ... import nn, zoo
from ..._tensor import Tensor
from ...ops import FeaturePyramidNetwork, FrozenBatchNorm2d
from ...ops.feature_pyramid_network import ExtraFPNBlock, LastLevelMaxPool
from .._utils import IntermediateLayerGetter
from ..resnet import ResNet, build
from ..segmentation._utils import channels_of, stages_of

__all__ = ["BackboneWithFPN", "mobilenet_backbone", "resnet_fpn_backbone"]

_Norm = Callable[..., nn.Module]
OUT_CHANNELS = 256


class BackboneWithFPN(nn.Module):
    """A network's maps (return_layers: layer to name), joined by a FeaturePyramidNetwork."""

    def __init__(self, backbone: nn.Module, return_layers: dict[str, str], in_channels_list: Sequence[int],
                 out_channels: int, extra_blocks: ExtraFPNBlock | None = None, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        self.body = IntermediateLayerGetter(backbone, return_layers)
        self.fpn = FeaturePyramidNetwork(in_channels_list, out_channels, extra_blocks or LastLevelMaxPool(), norm_layer)
        self.out_channels = out_channels

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        made: dict[str, Tensor] = self.fpn(self.body(x))
        return made


def with_norm(module: nn.Module, norm_layer: _Norm) -> nn.Module:
    """The network with other norms in the place of its own."""
    for name, child in list(module.named_children()):
        if type(child) is nn.BatchNorm2d:
            setattr(module, name, norm_layer(child.num_features))
        else:
            with_norm(child, norm_layer)
    return module


def resnet_fpn_backbone(*, backbone_name: str, weights: Any, norm_layer: _Norm = FrozenBatchNorm2d,
                        trainable_layers: int = 3, returned_layers: Sequence[int] | None = None,
                        extra_blocks: ExtraFPNBlock | None = None) -> BackboneWithFPN:
    """A ResNet with a pyramid; of its five parts the last trainable_layers are trained."""
    return _resnet_fpn_extractor(build(backbone_name, weights, norm_layer=norm_layer), trainable_layers,
                                 returned_layers, extra_blocks)


def _resnet_fpn_extractor(backbone: ResNet, trainable_layers: int, returned_layers: Sequence[int] | None = None,
                          extra_blocks: ExtraFPNBlock | None = None, norm_layer: _Norm | None = None
                          ) -> BackboneWithFPN:
    if not 0 <= trainable_layers <= 5:
        raise ValueError("Trainable layers should be in the range [0,5], got %s" % trainable_layers)
    trained = ("layer4", "layer3", "layer2", "layer1", "conv1")[:trainable_layers]
    trained += ("bn1",) if trainable_layers == 5 else ()
    for name, parameter in backbone.named_parameters():
        if not name.startswith(trained or ("-",)):
            parameter.requires_grad_(False)
    returned = [1, 2, 3, 4] if returned_layers is None else list(returned_layers)
    if min(returned) <= 0 or max(returned) >= 5:
        raise ValueError("Each returned layer should be in the range [1,4]. Got %s" % (returned,))
    first = backbone.inplanes // 8
    return BackboneWithFPN(backbone, {"layer%d" % k: str(i) for i, k in enumerate(returned)},
                           [first * 2 ** (k - 1) for k in returned], OUT_CHANNELS, extra_blocks, norm_layer)


def _validate_trainable_layers(is_trained: bool, trainable_backbone_layers: int | None, max_value: int,
                               default_value: int) -> int:
    """How many parts of a backbone are trained: all of one without weights."""
    if not is_trained:
        if trainable_backbone_layers is not None:
            warnings.warn("Changing trainable_backbone_layers has no effect if neither pretrained nor "
                          "pretrained_backbone have been set to True, falling back to trainable_backbone_layers=%d so "
                          "that all layers are trainable" % max_value)
        return max_value
    chosen = default_value if trainable_backbone_layers is None else trainable_backbone_layers
    if not 0 <= chosen <= max_value:
        raise ValueError("Trainable backbone layers should be in the range [0,%d], got %d " % (max_value, chosen))
    return chosen


def mobilenet_backbone(*, backbone_name: str, weights: Any, fpn: bool, norm_layer: _Norm = FrozenBatchNorm2d,
                       trainable_layers: int = 2, returned_layers: Sequence[int] | None = None,
                       extra_blocks: ExtraFPNBlock | None = None) -> nn.Module:
    """A MobileNet with a pyramid, or with a linear layer for each place behind it."""
    return _mobilenet_extractor(mobilenet(backbone_name, weights, norm_layer), fpn, trainable_layers, returned_layers,
                                extra_blocks)


def mobilenet(name: str, weights: Any, norm_layer: _Norm, **settings: Any) -> nn.Module:
    """A MobileNet of the zoo with these norms."""
    whole = zoo.get_model(name, **settings)
    state = None if weights is None else zoo.get_model(name, weights=weights).state_dict()
    with_norm(whole, norm_layer)
    if state is not None:
        whole.load_state_dict(state)
    return whole


def _mobilenet_extractor(backbone: nn.Module, fpn: bool, trainable_layers: int,
                         returned_layers: Sequence[int] | None = None, extra_blocks: ExtraFPNBlock | None = None,
                         norm_layer: _Norm | None = None) -> nn.Module:
    layers: Any = backbone.features
    stages = stages_of(layers)
    n = len(stages)
    if not 0 <= trainable_layers <= n:
        raise ValueError("Trainable layers should be in the range [0,%d], got %d " % (n, trainable_layers))
    freeze(layers, len(layers) if trainable_layers == 0 else stages[n - trainable_layers])
    if not fpn:
        made = nn.Sequential(layers, nn.Conv2d(channels_of(layers[-1]), OUT_CHANNELS, 1))
        setattr(made, "out_channels", OUT_CHANNELS)
        return made
    returned = [n - 2, n - 1] if returned_layers is None else list(returned_layers)
    if min(returned) < 0 or max(returned) >= n:
        raise ValueError("Each returned layer should be in the range [0,%d], got %s " % (n - 1, returned))
    return BackboneWithFPN(layers, {str(stages[k]): str(i) for i, k in enumerate(returned)},
                           [channels_of(layers[stages[k]]) for k in returned], OUT_CHANNELS, extra_blocks, norm_layer)


def freeze(layers: nn.Module, before: int) -> None:
    """The first layers are not trained."""
    for layer in list(layers)[:before]:
        for parameter in layer.parameters():
            parameter.requires_grad_(False)
