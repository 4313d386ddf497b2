"""Faster R-CNN. torchvision.models.detection.faster_rcnn's names, arguments and names of weights."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from ... import nn
from ..._tensor import Tensor
from ...nn import functional as _F
from ...ops import Conv2dNormActivation, FrozenBatchNorm2d, MultiScaleRoIAlign
from ..resnet import build
from ..segmentation._utils import no_weights
from .anchor_utils import AnchorGenerator
from .backbone_utils import (BackboneWithFPN, _mobilenet_extractor, _resnet_fpn_extractor, _validate_trainable_layers,
                             mobilenet)
from .generalized_rcnn import GeneralizedRCNN
from .roi_heads import RoIHeads
from .rpn import RegionProposalNetwork, RPNHead
from .transform import GeneralizedRCNNTransform

__all__ = ["FasterRCNN", "fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_mobilenet_v3_large_fpn",
           "fasterrcnn_resnet50_fpn", "fasterrcnn_resnet50_fpn_v2"]

MEAN, DEVIATION = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]
COCO_CLASSES = 91


def default_anchors() -> AnchorGenerator:
    """One size at each of five maps."""
    return AnchorGenerator(((32,), (64,), (128,), (256,), (512,)), ((0.5, 1.0, 2.0),) * 5)


def check_backbone(backbone: nn.Module) -> None:
    if not hasattr(backbone, "out_channels"):
        raise ValueError("backbone should contain an attribute out_channels specifying the number of output channels "
                         "(assumed to be the same for all the levels)")


def check_type(name: str, given: Any, wanted: type) -> None:
    if given is not None and not isinstance(given, wanted):
        raise TypeError("%s should be of type %s or None instead of %s" % (name, wanted.__name__, type(given)))


class FasterRCNN(GeneralizedRCNN):
    """A backbone, proposals, and heads that say what they are. Boxes of targets are left, top, right, bottom."""

    def __init__(self, backbone: nn.Module, num_classes: int | None = None, min_size: int | Sequence[int] = 800,
                 max_size: int = 1333, image_mean: Sequence[float] | None = None,
                 image_std: Sequence[float] | None = None, rpn_anchor_generator: AnchorGenerator | None = None,
                 rpn_head: nn.Module | None = None, rpn_pre_nms_top_n_train: int = 2000,
                 rpn_pre_nms_top_n_test: int = 1000, rpn_post_nms_top_n_train: int = 2000,
                 rpn_post_nms_top_n_test: int = 1000, rpn_nms_thresh: float = 0.7, rpn_fg_iou_thresh: float = 0.7,
                 rpn_bg_iou_thresh: float = 0.3, rpn_batch_size_per_image: int = 256,
                 rpn_positive_fraction: float = 0.5, rpn_score_thresh: float = 0.0,
                 box_roi_pool: MultiScaleRoIAlign | None = None, box_head: nn.Module | None = None,
                 box_predictor: nn.Module | None = None, box_score_thresh: float = 0.05, box_nms_thresh: float = 0.5,
                 box_detections_per_img: int = 100, box_fg_iou_thresh: float = 0.5, box_bg_iou_thresh: float = 0.5,
                 box_batch_size_per_image: int = 512, box_positive_fraction: float = 0.25,
                 bbox_reg_weights: Sequence[float] | None = None, **kwargs: Any) -> None:
        check_backbone(backbone)
        check_type("rpn_anchor_generator", rpn_anchor_generator, AnchorGenerator)
        check_type("box_roi_pool", box_roi_pool, MultiScaleRoIAlign)
        if (num_classes is None) == (box_predictor is None):
            raise ValueError("num_classes should %sbe None when box_predictor is %sspecified"
                             % (("", "") if box_predictor is not None else ("not ", "not ")))
        channels: Any = backbone.out_channels
        anchors = rpn_anchor_generator or default_anchors()
        rpn = RegionProposalNetwork(
            anchors, rpn_head or RPNHead(channels, anchors.num_anchors_per_location()[0]), rpn_fg_iou_thresh,
            rpn_bg_iou_thresh, rpn_batch_size_per_image, rpn_positive_fraction,
            {"training": rpn_pre_nms_top_n_train, "testing": rpn_pre_nms_top_n_test},
            {"training": rpn_post_nms_top_n_train, "testing": rpn_post_nms_top_n_test}, rpn_nms_thresh,
            rpn_score_thresh)
        pool = box_roi_pool or MultiScaleRoIAlign(["0", "1", "2", "3"], 7, 2)
        head = box_head or TwoMLPHead(channels * pool.output_size[0] ** 2, 1024)
        predictor = box_predictor or FastRCNNPredictor(1024, num_classes or 0)
        heads = RoIHeads(pool, head, predictor, box_fg_iou_thresh, box_bg_iou_thresh, box_batch_size_per_image,
                         box_positive_fraction, bbox_reg_weights, box_score_thresh, box_nms_thresh,
                         box_detections_per_img)
        transform = GeneralizedRCNNTransform(min_size, max_size, MEAN if image_mean is None else image_mean,
                                             DEVIATION if image_std is None else image_std, **kwargs)
        super().__init__(backbone, rpn, heads, transform)


class TwoMLPHead(nn.Module):
    """Two linear layers."""

    def __init__(self, in_channels: int, representation_size: int) -> None:
        super().__init__()
        self.fc6 = nn.Linear(in_channels, representation_size)
        self.fc7 = nn.Linear(representation_size, representation_size)

    def forward(self, x: Tensor) -> Tensor:
        return _F.relu(self.fc7(_F.relu(self.fc6(x.flatten(1)))))


def draw_convolutions(module: nn.Module) -> None:
    """First weights of heads that are made of convolutions."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


class FastRCNNConvFCHead(nn.Sequential):
    """Convolutions, then linear layers. input_size: channels, height and width."""

    def __init__(self, input_size: tuple[int, int, int], conv_layers: Sequence[int], fc_layers: Sequence[int],
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        width, high, wide = input_size
        blocks: list[nn.Module] = []
        for channels in conv_layers:
            blocks.append(Conv2dNormActivation(width, channels, norm_layer=norm_layer))
            width = channels
        blocks.append(nn.Flatten())
        width *= high * wide
        for features in fc_layers:
            blocks += [nn.Linear(width, features), nn.ReLU(inplace=True)]
            width = features
        super().__init__(*blocks)
        draw_convolutions(self)


class FastRCNNPredictor(nn.Module):
    """Scores of classes, and a box for each of them."""

    def __init__(self, in_channels: int, num_classes: int) -> None:
        super().__init__()
        self.cls_score = nn.Linear(in_channels, num_classes)
        self.bbox_pred = nn.Linear(in_channels, num_classes * 4)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        if x.dim() == 4 and tuple(x.shape[2:]) != (1, 1):
            raise AssertionError("x has the wrong shape, expecting the last two dimensions to be [1,1] instead of %s"
                                 % list(x.shape[2:]))
        x = x.flatten(1)
        return self.cls_score(x), self.bbox_pred(x)


def fpn_resnet50(weights_backbone: Any, trainable: int | None, second: bool = False) -> BackboneWithFPN:
    """A ResNet with 50 layers and a pyramid; second: of the second versions, whose norms are trained."""
    layers = _validate_trainable_layers(weights_backbone is not None, trainable, 5, 3)
    frozen = weights_backbone is not None and not second
    body = build("resnet50", weights_backbone, norm_layer=FrozenBatchNorm2d if frozen else nn.BatchNorm2d)
    return _resnet_fpn_extractor(body, layers, norm_layer=nn.BatchNorm2d if second else None)


def second_parts(backbone: nn.Module) -> dict[str, Any]:
    """The heads of the second versions."""
    anchors, channels = default_anchors(), backbone.out_channels
    return {"rpn_anchor_generator": anchors,
            "rpn_head": RPNHead(channels, anchors.num_anchors_per_location()[0], conv_depth=2),
            "box_head": FastRCNNConvFCHead((channels, 7, 7), [256] * 4, [1024], norm_layer=nn.BatchNorm2d)}


def fasterrcnn_resnet50_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                            weights_backbone: Any = "IMAGENET1K_V1", trainable_backbone_layers: int | None = None,
                            **kwargs: Any) -> FasterRCNN:  # unused: progress (fetching prints nothing)
    """Faster R-CNN on a ResNet with 50 layers."""
    no_weights("fasterrcnn_resnet50_fpn", weights)
    return FasterRCNN(fpn_resnet50(weights_backbone, trainable_backbone_layers),
                      COCO_CLASSES if num_classes is None else num_classes, **kwargs)


def fasterrcnn_resnet50_fpn_v2(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                               weights_backbone: Any = None, trainable_backbone_layers: int | None = None,
                               **kwargs: Any) -> FasterRCNN:  # unused: progress (fetching prints nothing)
    """The same with heads of convolutions, and norms."""
    no_weights("fasterrcnn_resnet50_fpn_v2", weights)
    backbone = fpn_resnet50(weights_backbone, trainable_backbone_layers, second=True)
    return FasterRCNN(backbone, COCO_CLASSES if num_classes is None else num_classes,
                      **{**second_parts(backbone), **kwargs})


def _on_mobilenet(what: str, weights: Any, num_classes: int | None, weights_backbone: Any, trainable: int | None,
                  settings: dict[str, Any]) -> FasterRCNN:
    no_weights(what, weights)
    layers = _validate_trainable_layers(weights_backbone is not None, trainable, 6, 3)
    norm = FrozenBatchNorm2d if weights_backbone is not None else nn.BatchNorm2d
    backbone = _mobilenet_extractor(mobilenet("mobilenet_v3_large", weights_backbone, norm), True, layers)
    anchors = AnchorGenerator(((32, 64, 128, 256, 512),) * 3, ((0.5, 1.0, 2.0),) * 3)
    return FasterRCNN(backbone, COCO_CLASSES if num_classes is None else num_classes,
                      rpn_anchor_generator=anchors, **settings)


def fasterrcnn_mobilenet_v3_large_320_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                                          weights_backbone: Any = "IMAGENET1K_V1",
                                          trainable_backbone_layers: int | None = None,
                                          **kwargs: Any) -> FasterRCNN:  # unused: progress (fetching prints nothing)
    """Faster R-CNN on a MobileNetV3, for small images."""
    usual = {"min_size": 320, "max_size": 640, "rpn_pre_nms_top_n_test": 150, "rpn_post_nms_top_n_test": 150,
             "rpn_score_thresh": 0.05}
    return _on_mobilenet("fasterrcnn_mobilenet_v3_large_320_fpn", weights, num_classes, weights_backbone,
                         trainable_backbone_layers, {**usual, **kwargs})


def fasterrcnn_mobilenet_v3_large_fpn(*, weights: Any = None, progress: bool = True, num_classes: int | None = None,
                                      weights_backbone: Any = "IMAGENET1K_V1",
                                      trainable_backbone_layers: int | None = None,
                                      **kwargs: Any) -> FasterRCNN:  # unused: progress (fetching prints nothing)
    """Faster R-CNN on a MobileNetV3."""
    return _on_mobilenet("fasterrcnn_mobilenet_v3_large_fpn", weights, num_classes, weights_backbone,
                         trainable_backbone_layers, {"rpn_score_thresh": 0.05, **kwargs})
