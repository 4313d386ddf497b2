"""torchvision.transforms.v2's names: all of cairn.transforms, and the newer ones.

Of several inputs, or a dictionary, the first image is changed and the rest (classes, tables) goes through unchanged.
"""
from __future__ import annotations

import math
from typing import Any, Sequence

from ... import _C
from ..._tensor import Tensor
from . import functional as functional
from .. import functional as _F
from .._batch import CutMix as CutMix, MixUp as MixUp
from .._image import is_pil
from .._plain import (CenterCrop as CenterCrop, Compose as Compose, ConvertImageDtype as ConvertImageDtype, FiveCrop as
                      FiveCrop, GaussianBlur as GaussianBlur, Grayscale as Grayscale, Lambda as Lambda, Normalize as
                      Normalize, Pad as Pad, PILToTensor as PILToTensor, Resize as Resize, TenCrop as TenCrop,
                      ToPILImage as ToPILImage, ToTensor as ToTensor)
from .._plain import Transform as _Transform
from .._random import *  # noqa: F401,F403
from .._random import ColorJitter, _below, _happens, _Sometimes, _uniform
from .._random_levels import *  # noqa: F401,F403
from .._random_warp import *  # noqa: F401,F403
from ..autoaugment import *  # noqa: F401,F403
from ..functional import InterpolationMode as InterpolationMode
from .functional import gaussian_noise, permute_channels, to_dtype, to_image

_BILINEAR = InterpolationMode.BILINEAR


class Transform(_Transform):
    """A change of images: a subclass has transform(inpt, params), and may draw in make_params(flat_inputs)."""

    def make_params(self, flat_inputs: list[Any]) -> dict[str, Any]:  # unused: flat_inputs (for subclasses)
        """What is drawn once for a call."""
        return {}

    def transform(self, inpt: Any, params: dict[str, Any]) -> Any:
        raise NotImplementedError("%s has no transform" % type(self).__name__)

    def forward(self, img: Any) -> Any:
        return self.transform(img, self.make_params([img]))


class Identity(_Transform):
    """No change."""

    def forward(self, img: Any) -> Any:
        return img


class ToImage(_Transform):
    """Pillow's images and arrays of (height, width, channels) as tensors, their values as they are."""

    def forward(self, img: Any) -> Tensor:
        return to_image(img)


class ToPureTensor(Identity):
    """Images are plain tensors here already."""


class ToDtype(_Transform):
    """Another type; with scale=True the values are scaled to its range."""

    _fields = ("dtype", "scale")

    def __init__(self, dtype: _C.dtype, scale: bool = False) -> None:
        self.dtype = dtype
        self.scale = scale

    def forward(self, img: Any) -> Tensor:
        return to_dtype(img, self.dtype, self.scale)

    def _native(self) -> _C.NativeTransform | None:
        return _C._transform("float", ()) if self.scale and self.dtype == _C.float32 else None


class RGB(_Transform):
    """Three channels."""

    def forward(self, img: Any) -> Any:
        return functional.grayscale_to_rgb(img)


class GaussianNoise(_Transform):
    """functional.gaussian_noise."""

    _fields = ("mean", "sigma", "clip")

    def __init__(self, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> None:
        self.mean = mean
        self.sigma = sigma
        self.clip = clip

    def forward(self, img: Any) -> Tensor:
        return gaussian_noise(img, self.mean, self.sigma, self.clip)


class RandomChannelPermutation(_Transform):
    """The channels in random order."""

    def forward(self, img: Any) -> Any:
        order = _C.randperm(_F.get_dimensions(img)[0]).tolist()
        if not is_pil(img):
            return permute_channels(img, order)
        return _F.to_pil_image(permute_channels(_F.pil_to_tensor(img), order))


class RandomPhotometricDistort(_Transform):
    """Brightness, contrast, saturation, hue and the order of the channels, each changed with probability p."""

    _fields = ("brightness", "contrast", "saturation", "hue", "p")

    def __init__(self, brightness: tuple[float, float] = (0.875, 1.125), contrast: tuple[float, float] = (0.5, 1.5),
                 saturation: tuple[float, float] = (0.5, 1.5), hue: tuple[float, float] = (-0.05, 0.05),
                 p: float = 0.5) -> None:
        self.brightness, self.contrast, self.saturation, self.hue, self.p = brightness, contrast, saturation, hue, p

    def forward(self, img: Any) -> Any:
        parts = [ColorJitter(brightness=self.brightness), ColorJitter(saturation=self.saturation),
                 ColorJitter(hue=self.hue)]
        contrast = ColorJitter(contrast=self.contrast)
        parts = [contrast, *parts] if _happens(0.5) else [*parts, contrast]
        for part in parts:
            img = part(img) if _happens(self.p) else img
        return RandomChannelPermutation()(img) if _happens(self.p) else img


class RandomZoomOut(_Sometimes):
    """A larger image of `fill` with the image at a random place in it, with probability p; its sides are
    side_range times as long."""

    _fields = ("p", "fill", "side_range")

    def __init__(self, fill: float | Sequence[float] = 0, side_range: Sequence[float] = (1.0, 4.0),
                 p: float = 0.5) -> None:
        super().__init__(p)
        if not 1 <= side_range[0] <= side_range[1]:
            raise ValueError("side_range goes from 1 on upwards, not %s" % (side_range,))
        self.fill = fill
        self.side_range = side_range

    def change(self, img: Any) -> Any:
        _, h, w = _F.get_dimensions(img)
        ratio = _uniform(self.side_range[0], self.side_range[1])
        high, wide = int(h * ratio), int(w * ratio)
        left, top = _below(wide - w + 1), _below(high - h + 1)
        return _F.pad(img, [left, top, wide - w - left, high - h - top], self.fill)


class ScaleJitter(_Transform):
    """Resized to fit target_size times a number drawn from scale_range, the proportions kept."""

    _fields = ("target_size", "scale_range", "interpolation", "antialias")

    def __init__(self, target_size: tuple[int, int], scale_range: tuple[float, float] = (0.1, 2.0),
                 interpolation: InterpolationMode | int = _BILINEAR, antialias: bool | None = True) -> None:
        self.target_size = target_size
        self.scale_range = scale_range
        self.interpolation = _F._mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        _, h, w = _F.get_dimensions(img)
        scale = _uniform(self.scale_range[0], self.scale_range[1])
        r = min(self.target_size[1] / h, self.target_size[0] / w) * scale
        return _F.resize(img, [int(h * r), int(w * r)], self.interpolation, antialias=self.antialias)


class RandomResize(_Transform):
    """The shorter side becomes min_size to max_size pixels long (the latter left out), the proportions kept."""

    _fields = ("min_size", "max_size", "interpolation", "antialias")

    def __init__(self, min_size: int, max_size: int, interpolation: InterpolationMode | int = _BILINEAR,
                 antialias: bool | None = True) -> None:
        if not 0 < min_size < max_size:
            raise ValueError("min_size is less than max_size, not %s and %s" % (min_size, max_size))
        self.min_size = min_size
        self.max_size = max_size
        self.interpolation = _F._mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        side = self.min_size + _below(self.max_size - self.min_size)
        return _F.resize(img, [side], self.interpolation, antialias=self.antialias)


class RandomShortestSize(_Transform):
    """The shorter side becomes one of min_size, the longer one max_size at most."""

    _fields = ("min_size", "max_size", "interpolation", "antialias")

    def __init__(self, min_size: Sequence[int] | int, max_size: int | None = None,
                 interpolation: InterpolationMode | int = _BILINEAR, antialias: bool | None = True) -> None:
        self.min_size = [min_size] if isinstance(min_size, int) else list(min_size)
        self.max_size = max_size
        self.interpolation = _F._mode(interpolation)
        self.antialias = antialias

    def forward(self, img: Any) -> Any:
        _, h, w = _F.get_dimensions(img)
        r = self.min_size[_below(len(self.min_size))] / min(h, w)
        if self.max_size is not None:
            r = min(r, self.max_size / max(h, w))
        return _F.resize(img, [math.floor(h * r), math.floor(w * r)], self.interpolation, antialias=self.antialias)
