"""torchvision.transforms.functional's names: one change of one image (or batch) each, with the numbers given."""
from __future__ import annotations

import enum
import math
from typing import Any, Sequence

from .. import _C
from .._tensor import Tensor
from ..nn import functional as _F
from ._image import each, image_function, is_pil, is_plain, pair, pil_to_tensor, to_pil_image

__all__ = ["InterpolationMode", "adjust_brightness", "adjust_contrast", "adjust_gamma", "adjust_hue",
           "adjust_saturation", "adjust_sharpness", "affine", "autocontrast", "center_crop", "convert_image_dtype",
           "crop", "elastic_transform", "equalize", "erase", "five_crop", "gaussian_blur", "get_dimensions",
           "get_image_num_channels", "get_image_size", "hflip", "invert", "normalize", "pad", "perspective",
           "pil_to_tensor", "posterize", "resize", "resized_crop", "rgb_to_grayscale", "rotate", "solarize",
           "ten_crop", "to_grayscale", "to_pil_image", "to_tensor", "vflip"]


class InterpolationMode(enum.Enum):
    """How pixels between pixels are made."""

    NEAREST = "nearest"
    NEAREST_EXACT = "nearest-exact"
    BILINEAR = "bilinear"
    BICUBIC = "bicubic"
    BOX = "box"
    HAMMING = "hamming"
    LANCZOS = "lanczos"


_PILLOW = {0: InterpolationMode.NEAREST, 2: InterpolationMode.BILINEAR, 3: InterpolationMode.BICUBIC}


def _mode(interpolation: InterpolationMode | int) -> InterpolationMode:
    """Also by Pillow's numbers."""
    if isinstance(interpolation, InterpolationMode):
        return interpolation
    return _PILLOW[interpolation]


# ---- what an image is ----

def get_dimensions(img: Any) -> list[int]:
    """Channels, height, width."""
    if is_pil(img):
        return [len(img.getbands()), img.size[1], img.size[0]]
    return [1 if img.ndim == 2 else img.shape[-3], img.shape[-2], img.shape[-1]]


def get_image_size(img: Any) -> list[int]:
    """Width, height."""
    return get_dimensions(img)[:0:-1]


def get_image_num_channels(img: Any) -> int:
    return get_dimensions(img)[0]


# ---- types ----

def to_tensor(pic: Any) -> Tensor:
    """An image (Pillow's, or a numpy array of (height, width, channels)) as floats (channels, height, width), bytes
    scaled to [0, 1]. Images that are tensors already are (channels, height, width)."""
    if isinstance(pic, Tensor):
        image = pic
    elif is_pil(pic):
        image = pil_to_tensor(pic)
        if pic.mode == "I;16":
            return image.to(_C.int32)
    elif hasattr(pic, "__array_interface__"):
        if pic.ndim not in (2, 3):
            raise ValueError("to_tensor takes arrays of 2 or 3 dimensions, not %d" % pic.ndim)
        image = _C.tensor(pic.copy() if min(pic.strides) < 0 else pic)
        image = image.unsqueeze(0) if image.ndim == 2 else image.permute(2, 0, 1).contiguous()
    else:
        raise TypeError("to_tensor takes a tensor, an array or one of Pillow's images, not %s"
                        % type(pic).__name__)
    if image.dtype != _C.uint8:
        return image
    made = _C._image_float(image) if is_plain(image) else image.float() / 255
    return made.to(_C.get_default_dtype())


def _largest(dtype: Any) -> int:
    bits: int = 8 * dtype.itemsize - (1 if dtype.is_signed else 0)
    return int(2 ** bits) - 1


def convert_image_dtype(image: Tensor, dtype: Any = _C.float32) -> Tensor:
    """Another type, with the values scaled: [0, 1] for floats, the whole range for integers."""
    if image.dtype == dtype:
        return image
    if image.dtype.is_floating_point:
        if dtype.is_floating_point:
            return image.to(dtype)
        if (image.dtype == _C.float32 and dtype in (_C.int32, _C.int64)) or (
                image.dtype == _C.float64 and dtype == _C.int64):
            raise RuntimeError("%s cannot tell all values of %s apart" % (image.dtype, dtype))
        return (image * (_largest(dtype) + 1 - 1e-3)).to(dtype)
    most = _largest(image.dtype)
    if dtype.is_floating_point:
        return image.to(dtype) / most
    to = _largest(dtype)
    if most > to:
        return image.div((most + 1) // (to + 1), rounding_mode="floor").to(dtype)
    return image.to(dtype) * ((to + 1) // (most + 1))


def normalize(tensor: Tensor, mean: Sequence[float], std: Sequence[float], inplace: bool = False) -> Tensor:
    """(x - mean) / std by channel, of an image or a batch of them."""
    if not isinstance(tensor, Tensor):
        raise TypeError("normalize takes a tensor, not %s: ToTensor comes first" % type(tensor).__name__)
    if not tensor.dtype.is_floating_point:
        raise TypeError("normalize takes floats, not %s" % tensor.dtype)
    if tensor.ndim < 3:
        raise ValueError("normalize takes (..., channels, height, width), not %s"
                         % (tuple(tensor.shape),))
    means, stds = tuple(float(m) for m in mean), tuple(float(s) for s in std)
    if any(s == 0 for s in stds):
        raise ValueError("normalize: a deviation is 0")
    if is_plain(tensor) and not inplace and len(means) == len(stds):
        return _C._image_normalize(tensor, means, stds)
    m, s = (_C.tensor(v, dtype=tensor.dtype, device=tensor.device).view(-1, 1, 1) for v in (means, stds))
    return tensor.sub_(m).div_(s) if inplace else (tensor - m) / s


# ---- sizes and windows ----

def _resized(height: int, width: int, size: int | Sequence[int], max_size: int | None) -> tuple[int, int]:
    if not isinstance(size, int) and len(size) not in (1, 2):
        raise ValueError("size has one or two numbers, not %d" % len(size))
    if not isinstance(size, int) and len(size) == 2:
        if max_size is not None:
            raise ValueError("max_size is for a size of one number, that of the shorter side")
        return int(size[0]), int(size[1])
    short = size if isinstance(size, int) else int(size[0])
    least = min(height, width)
    new = [short if side == least else int(short * side / least) for side in (height, width)]
    if height == width:
        new = [short, short]
    if max_size is not None:
        if max_size <= short:
            raise ValueError("max_size %d is not greater than the shorter side, %s" % (max_size, size))
        most = max(new)
        if most > max_size:
            new = [max_size if n == most else int(max_size * n / most) for n in new]
    return new[0], new[1]


@image_function
def resize(img: Tensor, size: int | Sequence[int], interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
           max_size: int | None = None, antialias: bool | None = True) -> Tensor:
    """Another size: (height, width), or one number for the shorter side, the proportions kept."""
    mode = _mode(interpolation)
    if not isinstance(size, (int, list, tuple)):
        raise TypeError("size is a number or (height, width), not %s" % type(size).__name__)
    height, width = _resized(img.shape[-2], img.shape[-1], size, max_size)
    if (height, width) == tuple(img.shape[-2:]):
        return img
    if mode is InterpolationMode.BILINEAR and antialias and (is_plain(img) or not img.requires_grad):
        return each(img, lambda one: _C._image_resize(one, height, width), "resize")
    return _interpolate(img, [height, width], mode, bool(antialias))


def _interpolate(img: Tensor, size: list[int], mode: InterpolationMode, antialias: bool) -> Tensor:
    """By the op: the other ways, and with gradients."""
    smooth = mode in (InterpolationMode.BILINEAR, InterpolationMode.BICUBIC)
    if not smooth and mode not in (InterpolationMode.NEAREST, InterpolationMode.NEAREST_EXACT):
        raise ValueError("resize: tensors know nearest, nearest-exact, bilinear and bicubic, not %s" % mode.value)
    flat = img.reshape(-1, *img.shape[-3:])
    whole = not img.dtype.is_floating_point
    made = _F.interpolate(flat.float() if whole else flat, size=size, mode=mode.value,
                          align_corners=False if smooth else None, antialias=antialias and smooth)
    if whole:
        made = made.round().clamp(0, _largest(img.dtype)).to(img.dtype)
    return made.reshape(*img.shape[:-3], *made.shape[1:])


@image_function
def crop(img: Tensor, top: int, left: int, height: int, width: int) -> Tensor:
    """A window; what lies outside the image is 0."""
    h, w = img.shape[-2:]
    if 0 <= top <= h - height and 0 <= left <= w - width:
        return img[..., top:top + height, left:left + width]
    if img.requires_grad:
        around = [max(-left, 0), max(left + width - w, 0), max(-top, 0), max(top + height - h, 0)]
        img = _F.pad(img, around)
        return img[..., max(top, 0):max(top, 0) + height, max(left, 0):max(left, 0) + width]
    return each(img, lambda one: _C._image_crop(one, top, left, height, width), "crop")


@image_function
def center_crop(img: Tensor, output_size: int | Sequence[int]) -> Tensor:
    """The middle, with 0 around it where the image is too small."""
    native = _C._transform("center_crop", pair(output_size))
    return each(img, native.apply, "center_crop")


@image_function
def resized_crop(img: Tensor, top: int, left: int, height: int, width: int, size: int | Sequence[int],
                 interpolation: InterpolationMode | int = InterpolationMode.BILINEAR,
                 antialias: bool | None = True) -> Tensor:
    """A window at another size."""
    return resize(crop(img, top, left, height, width), size, interpolation, antialias=antialias)


def _around(padding: int | Sequence[int]) -> list[int]:
    """left, right, top, bottom"""
    if isinstance(padding, int):
        return [padding] * 4
    if len(padding) == 1:
        return [int(padding[0])] * 4
    if len(padding) == 2:
        return [int(padding[0])] * 2 + [int(padding[1])] * 2
    if len(padding) == 4:
        left, top, right, bottom = (int(p) for p in padding)
        return [left, right, top, bottom]
    raise ValueError("padding is one number, two or four, not %d" % len(padding))


def _pad_channels(img: Tensor, around: list[int], fill: Sequence[float]) -> Tensor:
    parts = [_F.pad(one, around, value=value) for one, value in zip(img.unbind(-3), fill)]
    return _C.stack(parts, -3)


@image_function
def pad(img: Tensor, padding: int | Sequence[int], fill: float | Sequence[float] = 0,
        padding_mode: str = "constant") -> Tensor:
    """More pixels at the sides: padding is one number, (left and right, top and bottom) or (left, top, right, bottom).
    """
    around = _around(padding)
    if padding_mode == "constant":
        if isinstance(fill, (int, float)):
            return _F.pad(img, around, value=fill)
        return _pad_channels(img, around, fill if len(fill) > 1 else list(fill) * img.shape[-3])
    if padding_mode == "symmetric":
        rows, columns = (_mirrored(n, a, b) for n, a, b in ((img.shape[-2], *around[2:]), (img.shape[-1], *around[:2])))
        return img.index_select(-2, rows.to(img.device)).index_select(-1, columns.to(img.device))
    if padding_mode not in ("edge", "reflect"):
        raise ValueError("there is no padding_mode %r" % (padding_mode,))
    flat = img.reshape(-1, *img.shape[-3:])
    wide = flat if img.dtype.is_floating_point else flat.float()
    made = _F.pad(wide, around, mode="replicate" if padding_mode == "edge" else "reflect").to(img.dtype)
    return made.reshape(*img.shape[:-3], *made.shape[1:])


def _mirrored(n: int, before: int, behind: int) -> Tensor:
    """Numbers of pixels along a side that is mirrored at its ends."""
    places = [i % (2 * n) for i in range(-before, n + behind)]
    return _C.tensor([i if i < n else 2 * n - 1 - i for i in places], dtype=_C.int64)


@image_function
def hflip(img: Tensor) -> Tensor:
    """Left for right."""
    return _C._image_flip(img, True, False) if is_plain(img) else img.flip(-1)


@image_function
def vflip(img: Tensor) -> Tensor:
    """Upside down."""
    return _C._image_flip(img, False, True) if is_plain(img) else img.flip(-2)


def five_crop(img: Any, size: int | Sequence[int]) -> tuple[Any, ...]:
    """The four corners and the middle."""
    height, width = pair(size)
    _, h, w = get_dimensions(img)
    if width > w or height > h:
        raise ValueError("a window of %s does not fit into an image of %s" % ((height, width), (h, w)))
    corners = [(0, 0), (0, w - width), (h - height, 0), (h - height, w - width)]
    return (*(crop(img, top, left, height, width) for top, left in corners), center_crop(img, (height, width)))


def ten_crop(img: Any, size: int | Sequence[int], vertical_flip: bool = False) -> tuple[Any, ...]:
    """five_crop of the image and of its mirror image."""
    return five_crop(img, size) + five_crop(vflip(img) if vertical_flip else hflip(img), size)


@image_function
def erase(img: Tensor, i: int, j: int, h: int, w: int, v: Tensor | float, inplace: bool = False) -> Tensor:
    """The window at row i, column j filled with v."""
    if not isinstance(img, Tensor):
        raise TypeError("erase takes a tensor, not %s" % type(img).__name__)
    made = img if inplace else img.clone()
    made[..., i:i + h, j:j + w] = v
    return made


# ---- rotations ----

def _inverse(center: tuple[float, float], angle: float, translate: Sequence[float], scale: float,
             shear: Sequence[float]) -> list[float]:
    """Where a pixel of the new image comes from: two rows of three, in pixels from the middle. The new image is the
    old one sheared, turned with the clock, scaled around `center` and then moved."""
    turn, sx, sy = math.radians(angle), math.radians(shear[0]), math.radians(shear[1])
    a = math.cos(turn - sy) / math.cos(sy)
    b = -math.cos(turn - sy) * math.tan(sx) / math.cos(sy) - math.sin(turn)
    c = math.sin(turn - sy) / math.cos(sy)
    d = -math.sin(turn - sy) * math.tan(sx) / math.cos(sy) + math.cos(turn)
    m = [d / scale, -b / scale, 0.0, -c / scale, a / scale, 0.0]
    x, y = -center[0] - translate[0], -center[1] - translate[1]
    m[2] = m[0] * x + m[1] * y + center[0]
    m[5] = m[3] * x + m[4] * y + center[1]
    return m


def _sampled(img: Tensor, m: list[float], mode: InterpolationMode, fill: Any, size: tuple[int, int]) -> Tensor:
    """The image seen through a matrix."""
    h, w = img.shape[-2:]
    high, wide = size
    r = _C.tensor([v / (0.5 * (w if i < 3 else h)) for i, v in enumerate(m)], dtype=_C.float32).tolist()
    ys = _C.arange(0, high, dtype=_C.float32).unsqueeze(1) - (high - 1) / 2
    xs = _C.arange(0, wide, dtype=_C.float32).unsqueeze(0) - (wide - 1) / 2
    return _at(img, _C.stack([xs * r[0] + ys * r[1] + r[2], xs * r[3] + ys * r[4] + r[5]], -1), mode, fill)


def _at(img: Tensor, grid: Tensor, mode: InterpolationMode, fill: Any) -> Tensor:
    """The image at places (height, width, 2) in [-1, 1], by the op that samples there; `fill` outside of it."""
    if mode not in (InterpolationMode.NEAREST, InterpolationMode.BILINEAR):
        raise ValueError("pixels are taken from the nearest place or bilinearly, not %s" % mode.value)
    flat = img.reshape(-1, *img.shape[-3:])
    values = flat if img.dtype.is_floating_point else flat.float()
    grid = grid.to(img.device, values.dtype).unsqueeze(0).expand(values.shape[0], *grid.shape)
    made = _F.grid_sample(values, grid, mode=mode.value, padding_mode="zeros", align_corners=False)
    if fill is not None and any(_each_channel(fill, img.shape[-3])):
        inside = _F.grid_sample(_C.ones_like(values[:, :1]), grid, mode=mode.value, padding_mode="zeros",
                                align_corners=False)
        other = _C.tensor(_each_channel(fill, img.shape[-3]), dtype=values.dtype, device=img.device).view(-1, 1, 1)
        made = (_C.where(inside < 0.5, other, made) if mode is InterpolationMode.NEAREST
                else made * inside + (1 - inside) * other)
    if not img.dtype.is_floating_point:
        made = made.round().to(img.dtype)
    return made.reshape(*img.shape[:-3], *made.shape[1:])


def _each_channel(fill: Any, channels: int) -> list[float]:
    values = [float(f) for f in fill] if isinstance(fill, (list, tuple)) else [float(fill)]
    return values * channels if len(values) == 1 else values


def _is_black(fill: Any) -> bool:
    return fill is None or not any(_each_channel(fill, 1))


@image_function
def rotate(img: Tensor, angle: float, interpolation: InterpolationMode | int = InterpolationMode.NEAREST,
           expand: bool = False, center: Sequence[float] | None = None, fill: Any = None) -> Tensor:
    """Turned against the clock, around the middle or `center` (x, y). expand: large enough for all of it."""
    mode = _mode(interpolation)
    if (mode is InterpolationMode.NEAREST and not expand and center is None and _is_black(fill)
            and not img.requires_grad):
        return each(img, lambda one: _C._image_affine(one, -angle, 0, 0, 1, 0, 0), "rotate")
    h, w = img.shape[-2:]
    size = (h, w)
    middle = (0.0, 0.0) if center is None else (center[0] - w * 0.5, center[1] - h * 0.5)
    if expand:
        middle = (0.0, 0.0)
        size = _turned_size(h, w, angle)
    return _sampled(img, _inverse(middle, -angle, (0, 0), 1.0, (0, 0)), mode, fill, size)


def _turned_size(h: int, w: int, angle: float) -> tuple[int, int]:
    """The pixels that hold a turned image whole."""
    turn = math.radians(angle)
    corners = [(sx * w / 2, sy * h / 2) for sx in (-1, 1) for sy in (-1, 1)]
    xs = [x * math.cos(turn) + y * math.sin(turn) for x, y in corners]
    ys = [-x * math.sin(turn) + y * math.cos(turn) for x, y in corners]

    def span(v: list[float], side: int) -> int:
        low, high = (math.trunc(round((e + side / 2) * 1e4, 2)) / 1e4 for e in (min(v), max(v)))
        return math.ceil(high) - math.floor(low)

    return span(ys, h), span(xs, w)


@image_function
def affine(img: Tensor, angle: float, translate: Sequence[float], scale: float, shear: float | Sequence[float],
           interpolation: InterpolationMode | int = InterpolationMode.NEAREST, fill: Any = None,
           center: Sequence[float] | None = None) -> Tensor:
    """Turned with the clock, moved by `translate` pixels (x, y), scaled and sheared (degrees along x, and y)."""
    if scale <= 0.0:
        raise ValueError("affine: the scale is positive, not %s" % scale)
    both = [float(shear), 0.0] if isinstance(shear, (int, float)) else [float(s) for s in shear]
    both = both + [0.0] if len(both) == 1 else both
    mode = _mode(interpolation)
    if mode is InterpolationMode.NEAREST and center is None and _is_black(fill) and not img.requires_grad:
        return each(img, lambda one: _C._image_affine(one, angle, translate[0], translate[1], scale, *both), "affine")
    h, w = img.shape[-2:]
    middle = (0.0, 0.0) if center is None else (center[0] - w * 0.5, center[1] - h * 0.5)
    return _sampled(img, _inverse(middle, angle, translate, scale, both), mode, fill, (h, w))


# ---- colours ----

@image_function
def adjust_brightness(img: Tensor, brightness_factor: float) -> Tensor:
    """Times a factor: 0 is black, 1 the image."""
    if brightness_factor < 0:
        raise ValueError("brightness_factor is 0 or more, not %s" % brightness_factor)
    return each(img, lambda one: _C._image_brightness(one, brightness_factor), "adjust_brightness")


@image_function
def adjust_contrast(img: Tensor, contrast_factor: float) -> Tensor:
    """Away from the mean grey by a factor: 0 is grey, 1 the image."""
    if contrast_factor < 0:
        raise ValueError("contrast_factor is 0 or more, not %s" % contrast_factor)
    return each(img, lambda one: _C._image_contrast(one, contrast_factor), "adjust_contrast")


@image_function
def adjust_saturation(img: Tensor, saturation_factor: float) -> Tensor:
    """Away from its own grey by a factor: 0 is grey, 1 the image."""
    if saturation_factor < 0:
        raise ValueError("saturation_factor is 0 or more, not %s" % saturation_factor)
    return each(img, lambda one: _C._image_saturation(one, saturation_factor), "adjust_saturation")


@image_function
def adjust_hue(img: Tensor, hue_factor: float) -> Tensor:
    """The colours turned by a part of their circle, -0.5 to 0.5."""
    if not -0.5 <= hue_factor <= 0.5:
        raise ValueError("hue_factor lies in [-0.5, 0.5]; it is %s" % hue_factor)
    return each(img, lambda one: _C._image_hue(one, hue_factor), "adjust_hue")


@image_function
def adjust_gamma(img: Tensor, gamma: float, gain: float = 1) -> Tensor:
    """gain * x ** gamma, of values in [0, 1]."""
    if gamma < 0:
        raise ValueError("gamma is 0 or more, not %s" % gamma)
    made = (gain * convert_image_dtype(img, _C.float32) ** gamma).clamp(0, 1)
    return convert_image_dtype(made, img.dtype)


@image_function
def invert(img: Tensor) -> Tensor:
    """The negative."""
    return (1 if img.dtype.is_floating_point else _largest(img.dtype)) - img


@image_function
def rgb_to_grayscale(img: Tensor, num_output_channels: int = 1) -> Tensor:
    """Grey, in 1 channel or 3 alike."""
    if num_output_channels not in (1, 3):
        raise ValueError("num_output_channels is 1 or 3, not %r" % (num_output_channels,))
    return each(img, lambda one: _C._image_grayscale(one, num_output_channels), "rgb_to_grayscale")


to_grayscale = rgb_to_grayscale


@image_function
def gaussian_blur(img: Tensor, kernel_size: int | Sequence[int],
                  sigma: float | Sequence[float] | None = None) -> Tensor:
    """Each pixel the mean of those around it, weighted by a bell curve; sides are mirrored."""
    kx, ky = pair(kernel_size)
    if kx <= 0 or ky <= 0 or kx % 2 == 0 or ky % 2 == 0:
        raise ValueError("kernel_size wants odd, positive numbers, not %s" % (kernel_size,))
    if sigma is None:
        sigma = [k * 0.15 + 0.35 for k in (kx, ky)]
    both = [float(sigma)] * 2 if isinstance(sigma, (int, float)) else [float(s) for s in sigma]
    both = both * 2 if len(both) == 1 else both
    if any(s <= 0 for s in both):
        raise ValueError("sigma wants positive numbers, not %s" % (sigma,))
    flat = img.reshape(-1, 1, *img.shape[-2:])
    values = flat if img.dtype.is_floating_point else flat.float()

    def bell(n: int, s: float) -> Tensor:
        x = _C.linspace(-(n - 1) * 0.5, (n - 1) * 0.5, n, dtype=values.dtype, device=img.device)
        weights = (-0.5 * (x / s) ** 2).exp()
        return weights / weights.sum()

    kernel = bell(ky, both[1]).unsqueeze(1) * bell(kx, both[0]).unsqueeze(0)
    values = _F.pad(values, [kx // 2, kx // 2, ky // 2, ky // 2], mode="reflect")
    made = _F.conv2d(values, kernel.view(1, 1, ky, kx))
    return (made if img.dtype.is_floating_point else made.round().to(img.dtype)).reshape(img.shape)


from ._levels import (adjust_sharpness, autocontrast, elastic_transform, equalize, perspective,  # noqa: E402
                      posterize, solarize)
