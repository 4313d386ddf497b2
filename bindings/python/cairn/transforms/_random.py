"""Transforms that draw. Their numbers come from this thread's random numbers (cairn.manual_seed); in a DataLoader each
batch has its own."""
from __future__ import annotations

import math
from typing import Any, Callable, Sequence

from .. import _C
from .._tensor import Tensor
from . import functional as F
from ._image import pair
from ._plain import Transform
from .functional import InterpolationMode

__all__ = ["ColorJitter", "RandomAffine", "RandomApply", "RandomChoice", "RandomCrop", "RandomErasing",
           "RandomGrayscale", "RandomHorizontalFlip", "RandomInvert", "RandomOrder", "RandomResizedCrop",
           "RandomRotation", "RandomVerticalFlip"]

_NEAREST = InterpolationMode.NEAREST


def _uniform(low: float, high: float) -> float:
    return float(_C.empty(1, dtype=_C.float64).uniform_(low, high).item())


def _below(n: int) -> int:
    return int(_C.randint(0, n, (1,)).item()) if n > 1 else 0


def _happens(p: float) -> bool:
    return _uniform(0, 1) < p


def _probability(p: float) -> float:
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise ValueError("p is a probability, between 0 and 1, not %r" % (p,))
    return p


def _range(value: float | Sequence[float], name: str) -> tuple[float, float]:
    """One number stands for that many either way."""
    if isinstance(value, (int, float)):
        if value < 0:
            raise ValueError("%s: a single number must not be negative" % name)
        return -float(value), float(value)
    if len(value) != 2:
        raise ValueError("%s has two numbers, not %d" % (name, len(value)))
    return float(value[0]), float(value[1])


# ---- flips ----

class _Sometimes(Transform):
    """Does its one thing with probability p."""

    _fields: tuple[str, ...] = ("p",)

    def __init__(self, p: float = 0.5) -> None:
        self.p = _probability(p)

    def change(self, img: Any) -> Any:
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        return self.change(img) if _happens(self.p) else img

    def _native(self) -> _C.NativeTransform | None:
        if type(self).change is RandomHorizontalFlip.change:
            return _C._transform("random_flip", (self.p, 0))
        if type(self).change is RandomVerticalFlip.change:
            return _C._transform("random_flip", (0, self.p))
        return None


class RandomHorizontalFlip(_Sometimes):
    """Left for right with probability p."""

    def change(self, img: Any) -> Any:
        return F.hflip(img)


class RandomVerticalFlip(_Sometimes):
    """Upside down with probability p."""

    def change(self, img: Any) -> Any:
        return F.vflip(img)


class RandomInvert(_Sometimes):
    """The negative with probability p."""

    def change(self, img: Any) -> Any:
        return F.invert(img)


class RandomGrayscale(_Sometimes):
    """Grey, in as many channels as before, with probability p."""

    def __init__(self, p: float = 0.1) -> None:
        super().__init__(p)

    def change(self, img: Any) -> Any:
        return F.rgb_to_grayscale(img, F.get_dimensions(img)[0])


# ---- windows ----

class RandomCrop(Transform):
    """A window at a random place, of the image with `padding` around it."""

    _fields = ("size", "padding")

    def __init__(self, size: int | Sequence[int], padding: int | Sequence[int] | None = None,
                 pad_if_needed: bool = False, fill: float | Sequence[float] = 0,
                 padding_mode: str = "constant") -> None:
        self.size = pair(size)
        self.padding = padding
        self.pad_if_needed = pad_if_needed
        self.fill = fill
        self.padding_mode = padding_mode

    @staticmethod
    def get_params(img: Any, output_size: tuple[int, int]) -> tuple[int, int, int, int]:
        """top, left, height, width"""
        _, h, w = F.get_dimensions(img)
        height, width = output_size
        if h < height or w < width:
            raise ValueError("a window of %s does not fit into an image of %s" % ((height, width), (h, w)))
        return _below(h - height + 1), _below(w - width + 1), height, width

    def forward(self, img: Any) -> Any:
        if self.padding is not None:
            img = F.pad(img, self.padding, self.fill, self.padding_mode)
        _, h, w = F.get_dimensions(img)
        if self.pad_if_needed and w < self.size[1]:
            img = F.pad(img, [self.size[1] - w, 0], self.fill, self.padding_mode)
        if self.pad_if_needed and h < self.size[0]:
            img = F.pad(img, [0, self.size[0] - h], self.fill, self.padding_mode)
        return F.crop(img, *self.get_params(img, self.size))

    def _native(self) -> _C.NativeTransform | None:
        around = set(F._around(self.padding or 0))
        if self.pad_if_needed or self.fill != 0 or self.padding_mode != "constant" or len(around) > 1:
            return None
        return _C._transform("random_crop", (*self.size, around.pop()))


class RandomResizedCrop(Transform):
    """A window of a random part of the area and of random proportions, at another size."""

    _fields = ("size", "scale", "ratio", "interpolation", "antialias")

    def __init__(self, size: int | Sequence[int], scale: Sequence[float] = (0.08, 1.0),
                 ratio: Sequence[float] = (3 / 4, 4 / 3),
                 interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
                 antialias: bool | None = True) -> None:
        for name, v in (("scale", scale), ("ratio", ratio)):
            if not isinstance(v, (list, tuple)):
                raise TypeError("%s is a pair of numbers, not %s" % (name, type(v).__name__))
        self.size = pair(size)
        self.scale = scale
        self.ratio = ratio
        self.interpolation = F._mode(interpolation)
        self.antialias = antialias

    @staticmethod
    def get_params(img: Any, scale: Sequence[float], ratio: Sequence[float]) -> tuple[int, int, int, int]:
        """top, left, height, width: ten tries, then the largest window in the middle that has an allowed shape."""
        _, h, w = F.get_dimensions(img)
        for _ in range(10):
            area = h * w * _uniform(scale[0], scale[1])
            shape = math.exp(_uniform(math.log(ratio[0]), math.log(ratio[1])))
            width, height = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if 0 < width <= w and 0 < height <= h:
                return _below(h - height + 1), _below(w - width + 1), height, width
        height = round(w / ratio[0]) if w / h < ratio[0] else h
        width = round(h * ratio[1]) if w / h > ratio[1] else w
        return (h - height) // 2, (w - width) // 2, height, width

    def forward(self, img: Any) -> Any:
        window = self.get_params(img, self.scale, self.ratio)
        return F.resized_crop(img, *window, self.size, self.interpolation, self.antialias)

    def __repr__(self) -> str:
        shown = (self.size, tuple(round(v, 4) for v in self.scale), tuple(round(v, 4) for v in self.ratio),
                 self.interpolation.value, self.antialias)
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % pair for pair in zip(self._fields, shown)))

    def _native(self) -> _C.NativeTransform | None:
        usual = all(math.isclose(a, b) for a, b in zip(self.ratio, (3 / 4, 4 / 3)))
        if not usual or self.interpolation is not InterpolationMode.BILINEAR or not self.antialias:
            return None
        return _C._transform("random_resized_crop", (*self.size, self.scale[0], self.scale[1]))


class RandomErasing(Transform):
    """A random window filled with `value` (a number, one for each channel, or "random") with probability p."""

    _fields = ("p", "scale", "ratio", "value", "inplace")

    def __init__(self, p: float = 0.5, scale: Sequence[float] = (0.02, 0.33), ratio: Sequence[float] = (0.3, 3.3),
                 value: float | str | Sequence[float] = 0, inplace: bool = False) -> None:
        if isinstance(value, str) and value != "random":
            raise ValueError("a text as value can only be \"random\", not %r" % value)
        if not isinstance(value, (int, float, str, list, tuple)):
            raise TypeError("value is a number, a number for each channel or \"random\", not %s"
                            % type(value).__name__)
        if not 0 <= scale[0] <= 1 or not 0 <= scale[1] <= 1:
            raise ValueError("scale lies between 0 and 1")
        self.p = _probability(p)
        self.scale = scale
        self.ratio = ratio
        self.value = value
        self.inplace = inplace

    @staticmethod
    def get_params(img: Tensor, scale: Sequence[float], ratio: Sequence[float],
                   value: Sequence[float] | None = None) -> tuple[int, int, int, int, Tensor]:
        """top, left, height, width and what to fill in; the image itself where ten tries did not fit."""
        c, h, w = img.shape[-3:]
        for _ in range(10):
            area = h * w * _uniform(scale[0], scale[1])
            shape = math.exp(_uniform(math.log(ratio[0]), math.log(ratio[1])))
            height, width = round(math.sqrt(area * shape)), round(math.sqrt(area / shape))
            if height >= h or width >= w:
                continue
            fill = (_C.randn((c, height, width)) if value is None
                    else _C.tensor([float(v) for v in value]).view(-1, 1, 1))
            return _below(h - height + 1), _below(w - width + 1), height, width, fill.to(img.device, img.dtype)
        return 0, 0, h, w, img

    def forward(self, img: Any) -> Any:
        if not _happens(self.p):
            return img
        value = self.value
        numbers = None if isinstance(value, str) else [value] if isinstance(value, (int, float)) else list(value)
        if numbers is not None and len(numbers) not in (1, img.shape[-3]):
            raise ValueError("value has %d numbers for an image of %d channels" % (len(numbers), img.shape[-3]))
        return F.erase(img, *self.get_params(img, self.scale, self.ratio, numbers), self.inplace)

    def _native(self) -> _C.NativeTransform | None:
        if tuple(self.scale) != (0.02, 0.33) or tuple(self.ratio) != (0.3, 3.3) or self.value != 0 or self.inplace:
            return None
        return _C._transform("random_erasing", (self.p,))


# ---- rotations ----

class RandomRotation(Transform):
    """Turned by up to `degrees` either way, or between two angles."""

    _fields = ("degrees", "interpolation", "expand", "fill")

    def __init__(self, degrees: float | Sequence[float], interpolation: InterpolationMode | int = _NEAREST,
                 expand: bool = False, center: Sequence[float] | None = None, fill: Any = 0) -> None:
        self.degrees = list(_range(degrees, "degrees"))
        self.interpolation = F._mode(interpolation)
        self.expand = expand
        self.center = center
        self.fill = 0 if fill is None else fill

    @staticmethod
    def get_params(degrees: Sequence[float]) -> float:
        return _uniform(degrees[0], degrees[1])

    def forward(self, img: Any) -> Any:
        return F.rotate(img, self.get_params(self.degrees), self.interpolation, self.expand, self.center, self.fill)

    def _native(self) -> _C.NativeTransform | None:
        usual = self.interpolation is _NEAREST and not self.expand and self.center is None and F._is_black(self.fill)
        if not usual or self.degrees[0] != -self.degrees[1]:
            return None
        return _C._transform("random_rotation", (self.degrees[1],))


class RandomAffine(Transform):
    """Turned by up to `degrees`, moved by up to parts of the sides (`translate`), scaled and sheared."""

    _fields = ("degrees", "translate", "scale", "shear")

    def __init__(self, degrees: float | Sequence[float], translate: Sequence[float] | None = None,
                 scale: Sequence[float] | None = None, shear: float | Sequence[float] | None = None,
                 interpolation: InterpolationMode | int = _NEAREST, fill: Any = 0,
                 center: Sequence[float] | None = None) -> None:
        self.degrees = list(_range(degrees, "degrees"))
        if translate is not None and not all(0 <= t <= 1 for t in translate):
            raise ValueError("translate lies between 0 and 1")
        if scale is not None and not all(s > 0 for s in scale):
            raise ValueError("scale is positive")
        self.translate = translate
        self.scale = scale
        self.shear = (None if shear is None else list(shear) if isinstance(shear, (list, tuple)) and len(shear) == 4
                      else list(_range(shear, "shear")))
        self.interpolation = F._mode(interpolation)
        self.fill = 0 if fill is None else fill
        self.center = center

    @staticmethod
    def get_params(degrees: Sequence[float], translate: Sequence[float] | None, scale_ranges: Sequence[float] | None,
                   shears: Sequence[float] | None,
                   img_size: Sequence[int]) -> tuple[float, tuple[int, int], float, tuple[float, float]]:
        """angle, (x, y), scale, (shear along x, along y); img_size is (width, height)."""
        angle = _uniform(degrees[0], degrees[1])
        move, scale, shear = (0, 0), 1.0, (0.0, 0.0)
        if translate is not None:
            x, y = (float(part * side) for part, side in zip(translate, img_size))
            move = round(_uniform(-x, x)), round(_uniform(-y, y))
        if scale_ranges is not None:
            scale = _uniform(scale_ranges[0], scale_ranges[1])
        if shears is not None:
            shear = (_uniform(shears[0], shears[1]), _uniform(shears[2], shears[3]) if len(shears) == 4 else 0.0)
        return angle, move, scale, shear

    def forward(self, img: Any) -> Any:
        angle, move, scale, shear = self.get_params(self.degrees, self.translate, self.scale, self.shear,
                                                    F.get_image_size(img))
        return F.affine(img, angle, move, scale, shear, self.interpolation, self.fill, self.center)

    def __repr__(self) -> str:
        given = [(n, getattr(self, n)) for n in ("translate", "scale", "shear") if getattr(self, n) is not None]
        if self.interpolation is not _NEAREST:
            given.append(("interpolation", self.interpolation.value))
        given += [(n, v) for n, v, usual in (("fill", self.fill, 0), ("center", self.center, None)) if v != usual]
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % g for g in [("degrees", self.degrees), *given]))

    def _native(self) -> _C.NativeTransform | None:
        usual = self.interpolation is _NEAREST and self.center is None and F._is_black(self.fill)
        move = tuple(self.translate or (0, 0))
        shear = self.shear or [0.0, 0.0]
        if not usual or self.degrees[0] != -self.degrees[1] or move[0] != move[1] or len(shear) != 2 \
                or shear[0] != -shear[1]:
            return None
        scale = tuple(self.scale or (0, 0))
        return _C._transform("random_affine", (self.degrees[1], move[0], scale[0], scale[1], shear[1]))


# ---- colours ----

class ColorJitter(Transform):
    """Brightness, contrast, saturation and hue changed at random, in random order."""

    _fields = ("brightness", "contrast", "saturation", "hue")

    def __init__(self, brightness: float | Sequence[float] = 0, contrast: float | Sequence[float] = 0,
                 saturation: float | Sequence[float] = 0, hue: float | Sequence[float] = 0) -> None:
        self._given = (brightness, contrast, saturation, hue)
        self.brightness = self._factors(brightness, "brightness")
        self.contrast = self._factors(contrast, "contrast")
        self.saturation = self._factors(saturation, "saturation")
        self.hue = self._factors(hue, "hue", 0.0, (-0.5, 0.5))

    @staticmethod
    def _factors(value: float | Sequence[float], name: str, middle: float = 1.0,
                 bounds: tuple[float, float] = (0.0, math.inf)) -> tuple[float, float] | None:
        """The range to draw from; None where nothing is to change."""
        low, high = _range(value, name)
        if isinstance(value, (int, float)):
            low, high = (max(middle + low, 0.0) if middle else low), middle + high
        if not bounds[0] <= low <= high <= bounds[1]:
            raise ValueError("%s must lie in [%s, %s]" % (name, *bounds))
        return None if low == high == middle else (low, high)

    @staticmethod
    def get_params(brightness: Sequence[float] | None, contrast: Sequence[float] | None,
                   saturation: Sequence[float] | None, hue: Sequence[float] | None) -> tuple[Any, ...]:
        """The order of the four changes, and the factor of each (None: not changed)."""
        drawn = [None if v is None else _uniform(v[0], v[1]) for v in (brightness, contrast, saturation, hue)]
        return (_C.randperm(4), *drawn)

    def forward(self, img: Any) -> Any:
        order, *factors = self.get_params(self.brightness, self.contrast, self.saturation, self.hue)
        changes = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
        for k in order.tolist():
            if factors[k] is not None:
                img = changes[k](img, factors[k])
        return img

    def _native(self) -> _C.NativeTransform | None:
        numbers = [v for v in self._given if isinstance(v, (int, float))]
        ranges = [self._factors(v, "") for v in numbers[:3]] + [self._factors(v, "", 0.0, (-0.5, 0.5))
                                                                for v in numbers[3:]]
        if ranges != [self.brightness, self.contrast, self.saturation, self.hue]:
            return None
        return _C._transform("color_jitter", tuple(numbers))


# ---- lists ----

class _List(Transform):
    """Some of a list of transforms, one after the other; what several inputs mean is left to them."""

    transforms: Sequence[Callable[..., Any]]

    def chosen(self) -> Sequence[Callable[..., Any]]:
        """Those that a call runs, drawn anew."""
        raise NotImplementedError

    def forward(self, img: Any) -> Any:
        for t in self.chosen():
            img = t(img)
        return img

    def __call__(self, *inputs: Any) -> Any:
        if len(inputs) == 1:
            return self.forward(inputs[0])
        for t in self.chosen():
            inputs = t(*inputs)
        return inputs


class RandomApply(_List):
    """All of a list with probability p, or none."""

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: float = 0.5) -> None:
        self.transforms = transforms
        self.p = _probability(p)

    def chosen(self) -> Sequence[Callable[..., Any]]:
        return self.transforms if _happens(self.p) else ()

    def __repr__(self) -> str:
        lines = ["%s(" % type(self).__name__, "    p=%s" % self.p, *("    %s" % (t,) for t in self.transforms), ")"]
        return "\n".join(lines)


class RandomChoice(_List):
    """One of a list."""

    _fields = ("transforms", "p")

    def __init__(self, transforms: Sequence[Callable[..., Any]], p: Sequence[float] | None = None) -> None:
        if p is not None and len(p) != len(transforms):
            raise ValueError("as many probabilities as transforms are needed")
        self.transforms = transforms
        self.p = p

    def chosen(self) -> Sequence[Callable[..., Any]]:
        k = (_below(len(self.transforms)) if self.p is None
             else int(_C.multinomial(_C.tensor([float(v) for v in self.p]), 1).item()))
        return [self.transforms[k]]


class RandomOrder(_List):
    """All of a list, in random order."""

    _fields = ("transforms",)

    def __init__(self, transforms: Sequence[Callable[..., Any]]) -> None:
        self.transforms = transforms

    def chosen(self) -> Sequence[Callable[..., Any]]:
        return [self.transforms[k] for k in _C.randperm(len(self.transforms)).tolist()]
