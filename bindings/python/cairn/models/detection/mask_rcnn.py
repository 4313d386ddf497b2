"""Mask R-CNN. torchvision.models.detection.mask_rcnn's names, arguments and names of weights."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Sequence

from ... import nn
from ...ops import Conv2dNormActivation, MultiScaleRoIAlign
from ..segmentation._utils import no_weights
from .faster_rcnn import COCO_CLASSES, FasterRCNN, check_type, draw_convolutions, fpn_resnet50, second_parts

__all__ = ["MaskRCNN", "maskrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn_v2"]


class MaskRCNN(FasterRCNN):
    """Faster R-CNN with a mask for each box. Targets have masks (n, height, width) too."""

    def __init__(self, backbone: nn.Module, num_classes: int | None = None, *more: Any,
                 mask_roi_pool: MultiScaleRoIAlign | None = None, mask_head: nn.Module | None = None,
                 mask_predictor: nn.Module | None = None, **settings: Any) -> None:
        check_type("mask_roi_pool", mask_roi_pool, MultiScaleRoIAlign)
        if num_classes is not None and mask_predictor is not None:
            raise ValueError("num_classes should be None when mask_predictor is specified")
        super().__init__(backbone, num_classes, *more, **settings)
        channels: Any = backbone.out_channels
        self.roi_heads.mask_roi_pool = mask_roi_pool or MultiScaleRoIAlign(["0", "1", "2", "3"], 14, 2)
        self.roi_heads.mask_head = mask_head or MaskRCNNHeads(channels, (256,) * 4, 1)
        self.roi_heads.mask_predictor = mask_predictor or MaskRCNNPredictor(256, 256, num_classes or 0)


class MaskRCNNHeads(nn.Sequential):
    """Convolutions that keep sizes."""

    _version = 2

    def __init__(self, in_channels: int, layers: Sequence[int], dilation: int,
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        blocks: list[nn.Module] = []
        for channels in layers:
            blocks.append(Conv2dNormActivation(in_channels, channels, 3, 1, dilation, dilation=dilation,
                                               norm_layer=norm_layer))
            in_channels = channels
        super().__init__(*blocks)
        draw_convolutions(self)


class MaskRCNNPredictor(nn.Sequential):
    """A mask for each class, of twice the size."""

    def __init__(self, in_channels: int, dim_reduced: int, num_classes: int) -> None:
        super().__init__(OrderedDict([("conv5_mask", nn.ConvTranspose2d(in_channels, dim_reduced, 2, 2, 0)),
                                      ("relu", nn.ReLU(inplace=True)),
                                      ("mask_fcn_logits", nn.Conv2d(dim_reduced, num_classes, 1, 1, 0))]))
        for name, parameter in self.named_parameters():
            if "weight" in name:
                nn.init.kaiming_normal_(parameter, mode="fan_out", nonlinearity="relu")


def maskrcnn_resnet50_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                          weights_backbone: Any = "IMAGENET1K_V1", trainable_backbone_layers: int | None = None,
                          **kwargs: Any) -> MaskRCNN:  # unused: progress (fetching prints nothing)
    """Mask R-CNN on a ResNet with 50 layers."""
    no_weights("maskrcnn_resnet50_fpn", weights)
    return MaskRCNN(fpn_resnet50(weights_backbone, trainable_backbone_layers),
                    COCO_CLASSES if num_classes is None else num_classes, **kwargs)


def maskrcnn_resnet50_fpn_v2(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                             weights_backbone: Any = None, trainable_backbone_layers: int | None = None,
                             **kwargs: Any) -> MaskRCNN:  # unused: progress (fetching prints nothing)
    """The same with heads of convolutions, and norms."""
    no_weights("maskrcnn_resnet50_fpn_v2", weights)
    backbone = fpn_resnet50(weights_backbone, trainable_backbone_layers, second=True)
    masks = MaskRCNNHeads(backbone.out_channels, [256] * 4, 1, norm_layer=nn.BatchNorm2d)
    return MaskRCNN(backbone, COCO_CLASSES if num_classes is None else num_classes,
                    **{**second_parts(backbone), "mask_head": masks, **kwargs})
