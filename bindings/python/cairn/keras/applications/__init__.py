"""keras.applications: known nets as functional models, with Keras's names of layers and weights. Nothing is fetched:
weights is None, the path of a file, or "imagenet" where Keras's file is in its folder (~/.keras/models)."""
from . import densenet as densenet, efficientnet as efficientnet, imagenet_utils as imagenet_utils, \
    inception_v3 as inception_v3, mobilenet as mobilenet, mobilenet_v2 as mobilenet_v2, resnet as resnet, \
    resnet50 as resnet50, resnet_v2 as resnet_v2, vgg16 as vgg16, vgg19 as vgg19, xception as xception
from ._densenet import DenseNet121 as DenseNet121, DenseNet169 as DenseNet169, DenseNet201 as DenseNet201
from ._efficientnet import EfficientNetB0 as EfficientNetB0, EfficientNetB1 as EfficientNetB1, \
    EfficientNetB2 as EfficientNetB2, EfficientNetB3 as EfficientNetB3, EfficientNetB4 as EfficientNetB4, \
    EfficientNetB5 as EfficientNetB5, EfficientNetB6 as EfficientNetB6, EfficientNetB7 as EfficientNetB7
from ._inception import InceptionV3 as InceptionV3
from ._mobilenet import MobileNet as MobileNet, MobileNetV2 as MobileNetV2
from ._resnet import ResNet50 as ResNet50, ResNet101 as ResNet101, ResNet152 as ResNet152, ResNet50V2 as ResNet50V2, \
    ResNet101V2 as ResNet101V2, ResNet152V2 as ResNet152V2
from ._vgg import VGG16 as VGG16, VGG19 as VGG19
from ._xception import Xception as Xception

__all__ = ["DenseNet121", "DenseNet169", "DenseNet201", "EfficientNetB0", "EfficientNetB1", "EfficientNetB2",
           "EfficientNetB3", "EfficientNetB4", "EfficientNetB5", "EfficientNetB6", "EfficientNetB7", "InceptionV3",
           "MobileNet", "MobileNetV2", "ResNet50", "ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2",
           "ResNet50V2", "VGG16", "VGG19", "Xception"]
