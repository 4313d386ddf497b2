"""Networks that find things in images, with torchvision's arguments, names of weights and results."""
from .faster_rcnn import (FasterRCNN, fasterrcnn_mobilenet_v3_large_320_fpn, fasterrcnn_mobilenet_v3_large_fpn,
                          fasterrcnn_resnet50_fpn, fasterrcnn_resnet50_fpn_v2)
from .fcos import FCOS, fcos_resnet50_fpn
from .keypoint_rcnn import KeypointRCNN, keypointrcnn_resnet50_fpn
from .mask_rcnn import MaskRCNN, maskrcnn_resnet50_fpn, maskrcnn_resnet50_fpn_v2
from .retinanet import RetinaNet, retinanet_resnet50_fpn, retinanet_resnet50_fpn_v2
from .ssd import SSD, ssd300_vgg16
from .ssdlite import ssdlite320_mobilenet_v3_large

__all__ = ["FCOS", "FasterRCNN", "KeypointRCNN", "MaskRCNN", "RetinaNet", "SSD",
           "fasterrcnn_mobilenet_v3_large_320_fpn", "fasterrcnn_mobilenet_v3_large_fpn", "fasterrcnn_resnet50_fpn",
           "fasterrcnn_resnet50_fpn_v2", "fcos_resnet50_fpn", "keypointrcnn_resnet50_fpn", "maskrcnn_resnet50_fpn",
           "maskrcnn_resnet50_fpn_v2", "retinanet_resnet50_fpn", "retinanet_resnet50_fpn_v2", "ssd300_vgg16",
           "ssdlite320_mobilenet_v3_large"]
