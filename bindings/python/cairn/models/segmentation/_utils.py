"""What networks that classify each pixel share: a backbone, a head for its last map, and one for a map on the way."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any

from ... import _C, nn, zoo
from ..._tensor import Tensor
from ...nn import functional as _F
from .._utils import IntermediateLayerGetter
from ..resnet import build

__all__ = ["_SimpleSegmentationModel"]


class _SimpleSegmentationModel(nn.Module):
    """Scores of classes at the size of the image: "out", and "aux" where there is a second head."""

    def __init__(self, backbone: nn.Module, classifier: nn.Module, aux_classifier: nn.Module | None = None) -> None:
        super().__init__()
        self.backbone, self.classifier, self.aux_classifier = backbone, classifier, aux_classifier

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        maps, size = self.backbone(x), x.shape[-2:]
        found: dict[str, Tensor] = OrderedDict()
        for name, head in (("out", self.classifier), ("aux", self.aux_classifier)):
            if head is not None:
                found[name] = _F.interpolate(head(maps[name]), size=size, mode="bilinear", align_corners=False)
        return found


def no_weights(what: str, weights: Any) -> None:
    """Weights of whole networks are loaded from files."""
    if weights is not None:
        raise NotImplementedError("%s: weights are loaded with load_state_dict" % what)


def classes_of(num_classes: int | None) -> int:
    """COCO's, with the background, where nothing is said."""
    return 21 if num_classes is None else num_classes


def resnet_backbone(name: str, weights: Any, aux: bool) -> IntermediateLayerGetter:
    """A ResNet whose last two stages keep sizes."""
    body = build(name, weights, replace_stride_with_dilation=[False, True, True])
    return IntermediateLayerGetter(body, {"layer4": "out", **({"layer3": "aux"} if aux else {})})


def stages_of(layers: nn.Module) -> list[int]:
    """Where a MobileNet's maps change their size (or would, without dilation): the first layer, such blocks, the last.
    """
    return [0] + [i for i, b in enumerate(layers) if _halves(b)] + [len(layers) - 1]


def mobilenet_stages(weights: Any) -> tuple[nn.Module, list[int], list[int]]:
    """The layers of a MobileNetV3 whose last stage is dilated, its stages, and their channels."""
    layers = zoo.get_model("mobilenet_v3_large", dilated=True).features
    if weights is not None:
        layers.load_state_dict(zoo.get_model("mobilenet_v3_large", weights=weights).features.state_dict())
    at = stages_of(layers)
    return layers, at, [channels_of(layers[i]) for i in at]


def _convolutions(block: nn.Module) -> list[nn.Conv2d]:
    return [m for m in block.modules() if isinstance(m, nn.Conv2d)]


def _halves(block: nn.Module) -> bool:
    """Is it an inverted residual block that halves sizes? One whose places lie apart counts where channels change."""
    convs = _convolutions(block)
    each = [m for m in convs if m.groups == m.in_channels > 1]  # a convolution of each channel by itself
    if type(block).__name__ != "InvertedResidual" or not each:
        return False
    apart = max(each[0].dilation) > 1 and convs[0].in_channels != convs[-1].out_channels
    return bool(max(each[0].stride) > 1 or apart)


def channels_of(block: nn.Module) -> int:
    """What a layer gives."""
    return int(_convolutions(block)[-1].out_channels)


def pooled_like(x: Tensor, size: Any) -> Tensor:
    """Interpolated to a size."""
    return _F.interpolate(x, size=size, mode="bilinear", align_corners=False)


cat = _C.cat
