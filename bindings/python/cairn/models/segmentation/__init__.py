"""Networks that classify each pixel, with torchvision's arguments, names of weights and results."""
from .deeplabv3 import (DeepLabV3, deeplabv3_mobilenet_v3_large, deeplabv3_resnet101,
                        deeplabv3_resnet50)
from .fcn import FCN, fcn_resnet101, fcn_resnet50
from .lraspp import LRASPP, lraspp_mobilenet_v3_large

__all__ = ["DeepLabV3", "FCN", "LRASPP", "deeplabv3_mobilenet_v3_large", "deeplabv3_resnet101", "deeplabv3_resnet50",
           "fcn_resnet101", "fcn_resnet50", "lraspp_mobilenet_v3_large"]
