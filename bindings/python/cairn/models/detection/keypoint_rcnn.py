"""Keypoint R-CNN. torchvision.models.detection.keypoint_rcnn's names, arguments and names of weights."""
from __future__ import annotations

from typing import Any, Sequence

from ... import nn
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import MultiScaleRoIAlign
from ..segmentation._utils import no_weights
from .faster_rcnn import FasterRCNN, check_type, fpn_resnet50

__all__ = ["KeypointRCNN", "keypointrcnn_resnet50_fpn"]


class KeypointRCNN(FasterRCNN):
    """Faster R-CNN with points in each box. Targets have keypoints (n, points, 3) too: x, y, and whether it is seen."""

    def __init__(self, backbone: nn.Module, num_classes: int | None = None, min_size: Any = None, *more: Any,
                 keypoint_roi_pool: MultiScaleRoIAlign | None = None, keypoint_head: nn.Module | None = None,
                 keypoint_predictor: nn.Module | None = None, num_keypoints: int | None = None,
                 **settings: Any) -> None:
        check_type("keypoint_roi_pool", keypoint_roi_pool, MultiScaleRoIAlign)
        if num_keypoints is not None and keypoint_predictor is not None:
            raise ValueError("num_keypoints should be None when keypoint_predictor is specified")
        sides = (640, 672, 704, 736, 768, 800) if min_size is None else min_size
        super().__init__(backbone, num_classes, sides, *more, **settings)
        channels: Any = backbone.out_channels
        self.roi_heads.keypoint_roi_pool = keypoint_roi_pool or MultiScaleRoIAlign(["0", "1", "2", "3"], 14, 2)
        self.roi_heads.keypoint_head = keypoint_head or KeypointRCNNHeads(channels, (512,) * 8)
        self.roi_heads.keypoint_predictor = keypoint_predictor or KeypointRCNNPredictor(
            512, 17 if num_keypoints is None else num_keypoints)


class KeypointRCNNHeads(nn.Sequential):
    """Convolutions that keep sizes."""

    def __init__(self, in_channels: int, layers: Sequence[int]) -> None:
        blocks: list[nn.Module] = []
        for channels in layers:
            blocks += [nn.Conv2d(in_channels, channels, 3, 1, 1), nn.ReLU(inplace=True)]
            in_channels = channels
        super().__init__(*blocks)
        for layer in self.children():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
                nn.init.constant_(layer.bias, 0)


class KeypointRCNNPredictor(nn.Module):
    """A map for each point, of four times the size."""

    def __init__(self, in_channels: int, num_keypoints: int) -> None:
        super().__init__()
        self.kps_score_lowres = nn.ConvTranspose2d(in_channels, num_keypoints, 4, stride=2, padding=1)
        nn.init.kaiming_normal_(self.kps_score_lowres.weight, mode="fan_out", nonlinearity="relu")
        nn.init.constant_(self.kps_score_lowres.bias, 0)
        self.up_scale, self.out_channels = 2, num_keypoints

    def forward(self, x: Tensor) -> Tensor:
        return _F.interpolate(self.kps_score_lowres(x), scale_factor=float(self.up_scale), mode="bilinear",
                              align_corners=False, recompute_scale_factor=False)


def keypointrcnn_resnet50_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                              num_keypoints: int | None = None, weights_backbone: Any = "IMAGENET1K_V1",
                              trainable_backbone_layers: int | None = None,
                              **kwargs: Any) -> KeypointRCNN:  # unused: progress (fetching prints nothing)
    """Keypoint R-CNN on a ResNet with 50 layers."""
    no_weights("keypointrcnn_resnet50_fpn", weights)
    return KeypointRCNN(fpn_resnet50(weights_backbone, trainable_backbone_layers),
                        2 if num_classes is None else num_classes,
                        num_keypoints=17 if num_keypoints is None else num_keypoints, **kwargs)
