"""The weights that torchvision's networks have, by torchvision's names: ResNet18_Weights.DEFAULT and its like.

Place: beside cairn/zoo.py, which hands these names on. A member says where its file lies, and `.transforms()` makes the
change of images that it was trained with. Nothing is fetched before a network is made with it, or get_state_dict.
"""
from __future__ import annotations

import enum
import os
from typing import Any, Mapping, NamedTuple, Sequence

from . import _C
from ._arguments import refused
from ._tensor import Tensor
from .transforms import functional as _F
from .transforms.functional import InterpolationMode

__all__ = ["ImageClassification", "Weights", "WeightsEnum", "class_for", "classes", "find", "load", "local_or_url"]

_SERVER = "https://download.pytorch.org/models/"


class ImageClassification:
    """What comes before a classifier: resized, the middle cut out, floats, normalised. Takes Pillow's images, tensors
    and batches of tensors."""

    def __init__(self, *, crop_size: int | Sequence[int], resize_size: int | Sequence[int] = 256,
                 mean: Sequence[float] = (0.485, 0.456, 0.406), std: Sequence[float] = (0.229, 0.224, 0.225),
                 interpolation: InterpolationMode = InterpolationMode.BILINEAR,
                 antialias: bool | None = True) -> None:
        self.crop_size = [crop_size] if isinstance(crop_size, int) else list(crop_size)
        self.resize_size = [resize_size] if isinstance(resize_size, int) else list(resize_size)
        self.mean = list(mean)
        self.std = list(std)
        self.interpolation = interpolation
        self.antialias = antialias

    def forward(self, img: Any) -> Tensor:
        img = _F.resize(img, self.resize_size, self.interpolation, antialias=self.antialias)
        img = _F.center_crop(img, self.crop_size)
        img = img if isinstance(img, Tensor) else _F.pil_to_tensor(img)
        return _F.normalize(_F.convert_image_dtype(img, _C.float32), self.mean, self.std)

    __call__ = forward

    def __repr__(self) -> str:
        names = ("crop_size", "resize_size", "mean", "std", "interpolation")
        return "\n".join([type(self).__name__ + "("] + ["    %s=%s" % (n, getattr(self, n)) for n in names] + [")"])


class Weights(NamedTuple):
    """One file of weights."""

    url: str
    crop: int
    resize: int
    smooth: bool  # bicubic
    meta: Mapping[str, Any]


class WeightsEnum(enum.Enum):
    """The weights of one network; DEFAULT are the best of them."""

    @property
    def url(self) -> str:
        return str(self.value.url)

    @property
    def meta(self) -> dict[str, Any]:
        """num_params, min_size, and how well it does (_metrics)."""
        return dict(self.value.meta)

    def transforms(self, **changes: Any) -> ImageClassification:
        """The change of images that goes with these weights."""
        mode = InterpolationMode.BICUBIC if self.value.smooth else InterpolationMode.BILINEAR
        settings: dict[str, Any] = dict(crop_size=self.value.crop, resize_size=self.value.resize, interpolation=mode)
        return ImageClassification(**{**settings, **changes})

    def get_state_dict(self, progress: bool = True, check_hash: bool = False,
                       map_location: Any = None) -> Any:  # unused: progress (fetching prints nothing)
        """The weights themselves, fetched where they are not on this machine yet."""
        refused("get_state_dict", "hashes of files are not compared", False, check_hash=check_hash)
        return load(local_or_url(self), map_location=map_location)

    def __repr__(self) -> str:
        return "%s.%s" % (type(self).__name__, self.name)

    __str__ = __repr__


# network: name of the class, smallest side, and for each file: name, file, crop, resize, bicubic, parameters, the
# share of pictures whose class was the first guess, and among the first five. The last file is the default.
_File = tuple[str, str, int, int, bool, int, float, float]
_V1, _V2, _E2E, _LINEAR = "IMAGENET1K_V1", "IMAGENET1K_V2", "IMAGENET1K_SWAG_E2E_V1", "IMAGENET1K_SWAG_LINEAR_V1"


def _v1(file: str, parameters: int, first: float, five: float, resize: int = 256) -> _File:
    return (_V1, file, 224, resize, False, parameters, first, five)


def _v2(file: str, parameters: int, first: float, five: float) -> _File:
    return (_V2, file, 224, 232, False, parameters, first, five)


_TABLE: dict[str, tuple[str, int, tuple[_File, ...]]] = {
    "alexnet": ("AlexNet", 63, (_v1("alexnet-owt-7be5be79.pth", 61100840, 56.522, 79.066),)),
    "vgg11": ("VGG11", 32, (_v1("vgg11-8a719046.pth", 132863336, 69.02, 88.628),)),
    "vgg11_bn": ("VGG11_BN", 32, (_v1("vgg11_bn-6002323d.pth", 132868840, 70.37, 89.81),)),
    "vgg13": ("VGG13", 32, (_v1("vgg13-19584684.pth", 133047848, 69.928, 89.246),)),
    "vgg13_bn": ("VGG13_BN", 32, (_v1("vgg13_bn-abd245e5.pth", 133053736, 71.586, 90.374),)),
    "vgg16": ("VGG16", 32, (_v1("vgg16-397923af.pth", 138357544, 71.592, 90.382),)),
    "vgg16_bn": ("VGG16_BN", 32, (_v1("vgg16_bn-6c64b313.pth", 138365992, 73.36, 91.516),)),
    "vgg19": ("VGG19", 32, (_v1("vgg19-dcbb9e9d.pth", 143667240, 72.376, 90.876),)),
    "vgg19_bn": ("VGG19_BN", 32, (_v1("vgg19_bn-c79401a0.pth", 143678248, 74.218, 91.842),)),
    "resnet18": ("ResNet18", 1, (_v1("resnet18-f37072fd.pth", 11689512, 69.758, 89.078),)),
    "resnet34": ("ResNet34", 1, (_v1("resnet34-b627a593.pth", 21797672, 73.314, 91.42),)),
    "resnet50": ("ResNet50", 1, (_v1("resnet50-0676ba61.pth", 25557032, 76.13, 92.862),
                                 _v2("resnet50-11ad3fa6.pth", 25557032, 80.858, 95.434))),
    "resnet101": ("ResNet101", 1, (_v1("resnet101-63fe2227.pth", 44549160, 77.374, 93.546),
                                   _v2("resnet101-cd907fc2.pth", 44549160, 81.886, 95.78))),
    "resnet152": ("ResNet152", 1, (_v1("resnet152-394f9c45.pth", 60192808, 78.312, 94.046),
                                   _v2("resnet152-f82ba261.pth", 60192808, 82.284, 96.002))),
    "mobilenet_v2": ("MobileNet_V2", 1, (_v1("mobilenet_v2-b0353104.pth", 3504872, 71.878, 90.286),
                                         _v2("mobilenet_v2-7ebf99e0.pth", 3504872, 72.154, 90.822))),
    "vit_b_16": ("ViT_B_16", 224, (
        (_E2E, "vit_b_16_swag-9ac1b537.pth", 384, 384, True, 86859496, 85.304, 97.65),
        (_LINEAR, "vit_b_16_lc_swag-4e70ced5.pth", 224, 224, True, 86567656, 81.886, 96.18),
        _v1("vit_b_16-c867db91.pth", 86567656, 81.072, 95.318))),
    "vit_b_32": ("ViT_B_32", 224, (_v1("vit_b_32-d86f8d99.pth", 88224232, 75.912, 92.466),)),
    "vit_l_16": ("ViT_L_16", 224, (
        (_E2E, "vit_l_16_swag-4f3808c9.pth", 512, 512, True, 305174504, 88.064, 98.512),
        (_LINEAR, "vit_l_16_lc_swag-4d563306.pth", 224, 224, True, 304326632, 85.146, 97.422),
        _v1("vit_l_16-852ce7e3.pth", 304326632, 79.662, 94.638, 242))),
    "vit_l_32": ("ViT_L_32", 224, (_v1("vit_l_32-c7638314.pth", 306535400, 76.972, 93.07),)),
    "vit_h_14": ("ViT_H_14", 224, (
        (_LINEAR, "vit_h_14_lc_swag-c1eb923e.pth", 224, 224, True, 632045800, 85.708, 97.73),
        (_E2E, "vit_h_14_swag-80465313.pth", 518, 518, True, 633470440, 88.552, 98.694))),
    "resnext50_32x4d": ("ResNeXt50_32X4D", 1, (
        _v1("resnext50_32x4d-7cdf4587.pth", 25028904, 77.618, 93.698),
        _v2("resnext50_32x4d-1a0047aa.pth", 25028904, 81.198, 95.34))),
    "resnext101_32x8d": ("ResNeXt101_32X8D", 1, (
        _v1("resnext101_32x8d-8ba56ff5.pth", 88791336, 79.312, 94.526),
        _v2("resnext101_32x8d-110c445d.pth", 88791336, 82.834, 96.228))),
    "resnext101_64x4d": ("ResNeXt101_64X4D", 1, (_v1("resnext101_64x4d-173b62eb.pth", 83455272, 83.246, 96.454, 232),)),
    "wide_resnet50_2": ("Wide_ResNet50_2", 1, (
        _v1("wide_resnet50_2-95faca4d.pth", 68883240, 78.468, 94.086),
        _v2("wide_resnet50_2-9ba9bcbe.pth", 68883240, 81.602, 95.758))),
    "wide_resnet101_2": ("Wide_ResNet101_2", 1, (
        _v1("wide_resnet101_2-32ee1156.pth", 126886696, 78.848, 94.284),
        _v2("wide_resnet101_2-d733dc28.pth", 126886696, 82.51, 96.02))),
    "squeezenet1_0": ("SqueezeNet1_0", 21, (_v1("squeezenet1_0-b66bff10.pth", 1248424, 58.092, 80.42),)),
    "squeezenet1_1": ("SqueezeNet1_1", 17, (_v1("squeezenet1_1-b8a52dc0.pth", 1235496, 58.178, 80.624),)),
    "densenet121": ("DenseNet121", 29, (_v1("densenet121-a639ec97.pth", 7978856, 74.434, 91.972),)),
    "densenet161": ("DenseNet161", 29, (_v1("densenet161-8d451a50.pth", 28681000, 77.138, 93.56),)),
    "densenet169": ("DenseNet169", 29, (_v1("densenet169-b2777c0a.pth", 14149480, 75.6, 92.806),)),
    "densenet201": ("DenseNet201", 29, (_v1("densenet201-c1103571.pth", 20013928, 76.896, 93.37),)),
    "googlenet": ("GoogLeNet", 15, (_v1("googlenet-1378be20.pth", 6624904, 69.778, 89.53),)),
    "mobilenet_v3_small": ("MobileNet_V3_Small", 1, (_v1("mobilenet_v3_small-047dcff4.pth", 2542856, 67.668, 87.402),)),
    "mobilenet_v3_large": ("MobileNet_V3_Large", 1, (
        _v1("mobilenet_v3_large-8738ca79.pth", 5483032, 74.042, 91.34),
        _v2("mobilenet_v3_large-5c1a4163.pth", 5483032, 75.274, 92.566))),
    "efficientnet_b0": ("EfficientNet_B0", 1, (
        (_V1, "efficientnet_b0_rwightman-7f5810bc.pth", 224, 256, True, 5288548, 77.692, 93.532),)),
    "efficientnet_b1": ("EfficientNet_B1", 1, (
        (_V1, "efficientnet_b1_rwightman-bac287d4.pth", 240, 256, True, 7794184, 78.642, 94.186),
        (_V2, "efficientnet_b1-c27df63c.pth", 240, 255, False, 7794184, 79.838, 94.934))),
    "efficientnet_b2": ("EfficientNet_B2", 1, (
        (_V1, "efficientnet_b2_rwightman-c35c1473.pth", 288, 288, True, 9109994, 80.608, 95.31),)),
    "efficientnet_b3": ("EfficientNet_B3", 1, (
        (_V1, "efficientnet_b3_rwightman-b3899882.pth", 300, 320, True, 12233232, 82.008, 96.054),)),
    "efficientnet_b4": ("EfficientNet_B4", 1, (
        (_V1, "efficientnet_b4_rwightman-23ab8bcd.pth", 380, 384, True, 19341616, 83.384, 96.594),)),
    "efficientnet_b5": ("EfficientNet_B5", 1, (
        (_V1, "efficientnet_b5_lukemelas-1a07897c.pth", 456, 456, True, 30389784, 83.444, 96.628),)),
    "efficientnet_b6": ("EfficientNet_B6", 1, (
        (_V1, "efficientnet_b6_lukemelas-24a108a5.pth", 528, 528, True, 43040704, 84.008, 96.916),)),
    "efficientnet_b7": ("EfficientNet_B7", 1, (
        (_V1, "efficientnet_b7_lukemelas-c5b4e57e.pth", 600, 600, True, 66347960, 84.122, 96.908),)),
    "convnext_tiny": ("ConvNeXt_Tiny", 32, (_v1("convnext_tiny-983f1562.pth", 28589128, 82.52, 96.146, 236),)),
    "convnext_small": ("ConvNeXt_Small", 32, (_v1("convnext_small-0c510722.pth", 50223688, 83.616, 96.65, 230),)),
    "convnext_base": ("ConvNeXt_Base", 32, (_v1("convnext_base-6075fbad.pth", 88591464, 84.062, 96.87, 232),)),
    "convnext_large": ("ConvNeXt_Large", 32, (_v1("convnext_large-ea097f82.pth", 197767336, 84.414, 96.976, 232),)),
}
_made: dict[str, type[WeightsEnum]] = {}


def classes() -> dict[str, str]:
    """Names of the classes, and the networks they are for."""
    return {row[0] + "_Weights": network for network, row in _TABLE.items()}


def class_for(network: str) -> type[WeightsEnum]:
    """The class of a network's weights: ResNet18_Weights for "resnet18"."""
    if network not in _TABLE:
        raise ValueError("%s has no weights to choose among" % network)
    if network not in _made:
        name, side, files = _TABLE[network]
        members: dict[str, Weights] = {}
        for key, file, crop, resize, smooth, parameters, first, five in sorted(files, key=lambda f: f[0] != _V1):
            least = crop if side == 224 else side
            members[key] = Weights(_SERVER + file, crop, resize, smooth, {
                "num_params": parameters, "min_size": (least, least),
                "_metrics": {"ImageNet-1K": {"acc@1": first, "acc@5": five}}})
        members["DEFAULT"] = members[files[-1][0]]  # the same value: another name of that member
        make: Any = WeightsEnum  # called with members, it makes a class of them
        _made[network] = make(name + "_Weights", members, module="cairn.zoo")
    return _made[network]


def find(network: str, weights: Any) -> WeightsEnum | None:
    """What `weights` names among a network's: a member, its name ("DEFAULT", "ResNet18_Weights.IMAGENET1K_V1"), or
    None for none."""
    if weights is None or weights is False:
        return None
    own = class_for(network)
    if isinstance(weights, str):
        key = weights.removeprefix(own.__name__ + ".")
        if key not in own.__members__:
            raise ValueError("%s has no weights %r; there are %s" % (network, weights, ", ".join(own.__members__)))
        return own[key]
    if not isinstance(weights, own):
        raise TypeError("the weights of %s are of %s, not %r" % (network, own.__name__, weights))
    return weights


def load(path: str, map_location: Any = None) -> Any:
    """What a file of weights holds; an address is fetched once."""
    from .serialization import load as read
    return read(_C._download(path, None, "weights", None) if path.startswith(("https://", "http://")) else path,
                map_location)


def local_or_url(weights: WeightsEnum) -> str:
    """The file where torchvision has put it when it was here before (TORCH_HOME), or else its address."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    home = os.environ.get("TORCH_HOME") or os.path.join(cache, "torch")
    path = os.path.join(os.path.expanduser(home), "hub", "checkpoints", os.path.basename(weights.url))
    return path if os.path.isfile(path) else weights.url
