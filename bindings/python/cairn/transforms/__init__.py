"""Changes of images for training and evaluation, with torchvision.transforms' names, on the library's own loops.

Images are tensors (channels, height, width), uint8 or floats in [0, 1]; Pillow's images come and go as they are, and
ToTensor also takes numpy's (height, width, channels). Whatever draws takes this thread's random numbers. A Compose of
transforms with the usual arguments is run in C, without Python, where a DataLoader reads a data set of the library.
"""
from . import functional, io
from ._batch import CutMix, MixUp
from ._plain import (CenterCrop, Compose, ConvertImageDtype, FiveCrop, GaussianBlur, Grayscale, Lambda, Normalize, Pad,
                     PILToTensor, Resize, TenCrop, ToPILImage, ToTensor, Transform)
from ._random import (ColorJitter, RandomAffine, RandomApply, RandomChoice, RandomCrop, RandomErasing, RandomGrayscale,
                      RandomHorizontalFlip, RandomInvert, RandomOrder, RandomResizedCrop, RandomRotation,
                      RandomVerticalFlip)
from ._random_levels import (RandomAdjustSharpness, RandomAutocontrast, RandomEqualize, RandomPosterize,
                             RandomSolarize)
from ._random_warp import ElasticTransform, LinearTransformation, RandomPerspective
from .autoaugment import AugMix, AutoAugment, AutoAugmentPolicy, RandAugment, TrivialAugmentWide
from .functional import InterpolationMode

__all__ = ["AugMix", "AutoAugment", "AutoAugmentPolicy", "CenterCrop", "ColorJitter", "Compose", "ConvertImageDtype",
           "CutMix", "ElasticTransform", "FiveCrop", "GaussianBlur", "Grayscale", "InterpolationMode", "Lambda",
           "LinearTransformation", "MixUp", "Normalize", "PILToTensor", "Pad", "RandAugment", "RandomAdjustSharpness",
           "RandomAffine", "RandomApply", "RandomAutocontrast", "RandomChoice", "RandomCrop", "RandomEqualize",
           "RandomErasing", "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder",
           "RandomPerspective", "RandomPosterize", "RandomResizedCrop", "RandomRotation", "RandomSolarize",
           "RandomVerticalFlip", "Resize", "TenCrop", "ToPILImage", "ToTensor", "Transform", "TrivialAugmentWide",
           "functional", "io"]

from . import transforms as transforms, v2 as v2  # noqa: E402  (they hand on the names above)
