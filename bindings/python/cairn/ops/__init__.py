"""torchvision.ops' names: boxes, regions of feature maps, and the parts that its networks are built from. Put together
from ops of the library. Other names are torch.ops' namespaces.

Boxes are (n, 4): left, top, right, bottom.
"""
import sys
from types import ModuleType
from typing import Any

from . import focal_loss, misc, roi_pooling
from .boxes import (batched_nms, box_area, box_convert, box_iou, clip_boxes_to_image, complete_box_iou,
                    distance_box_iou, generalized_box_iou, masks_to_boxes, nms, remove_small_boxes)
from .deform_conv import DeformConv2d, deform_conv2d
from .drop_block import DropBlock2d, DropBlock3d, drop_block2d, drop_block3d
from .feature_pyramid_network import FeaturePyramidNetwork
from .focal_loss import (complete_box_iou_loss, distance_box_iou_loss, generalized_box_iou_loss,
                         sigmoid_focal_loss)
from .misc import (MLP, Conv2dNormActivation, Conv3dNormActivation, FrozenBatchNorm2d, Permute, SqueezeExcitation,
                   StochasticDepth, stochastic_depth)
from .poolers import MultiScaleRoIAlign
from .roi_pooling import (PSRoIAlign, PSRoIPool, RoIAlign, RoIPool, ps_roi_align, ps_roi_pool, roi_align, roi_pool)

__all__ = ["Conv2dNormActivation", "Conv3dNormActivation", "DeformConv2d", "DropBlock2d", "DropBlock3d",
           "FeaturePyramidNetwork", "FrozenBatchNorm2d", "MLP", "MultiScaleRoIAlign", "PSRoIAlign", "PSRoIPool",
           "Permute", "RoIAlign", "RoIPool", "SqueezeExcitation", "StochasticDepth", "batched_nms", "box_area",
           "box_convert", "box_iou", "clip_boxes_to_image", "complete_box_iou", "complete_box_iou_loss",
           "deform_conv2d", "distance_box_iou", "distance_box_iou_loss", "drop_block2d", "drop_block3d",
           "generalized_box_iou", "generalized_box_iou_loss", "masks_to_boxes", "nms", "ps_roi_align", "ps_roi_pool",
           "remove_small_boxes", "roi_align", "roi_pool", "sigmoid_focal_loss", "stochastic_depth"]

# torchvision's modules of one function each: the name is the function's here, as it is there.
for _part, _module in (("stochastic_depth", misc), ("giou_loss", focal_loss), ("diou_loss", focal_loss),
                       ("ciou_loss", focal_loss), ("roi_align", roi_pooling), ("roi_pool", roi_pooling),
                       ("ps_roi_align", roi_pooling), ("ps_roi_pool", roi_pooling)):
    sys.modules[__name__ + "." + _part] = _module
del _part, _module


class _Names(ModuleType):
    """This module: importing a module of one function leaves the name the function's."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (isinstance(value, ModuleType) and callable(self.__dict__.get(name))):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Names


def __getattr__(name: str) -> Any:
    """torch.ops' namespaces."""
    if name.startswith("__"):
        raise AttributeError("module 'cairn.ops' has no attribute %r" % (name,))
    from .._ops import namespace
    return namespace(name)
