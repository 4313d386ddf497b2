"""More of torchvision.transforms.functional: changes of the levels of an image, and of the places of its pixels.

Place: cairn.transforms.functional hands these names on.
"""
from __future__ import annotations

from typing import Any, Sequence

from .. import _C
from .._tensor import Tensor
from ..nn import functional as _F
from . import functional as F
from ._image import image_function
from .functional import InterpolationMode

__all__ = ["adjust_sharpness", "autocontrast", "elastic_transform", "equalize", "perspective", "posterize", "solarize"]

_BILINEAR = InterpolationMode.BILINEAR


def _greatest(img: Tensor) -> int:
    return 1 if img.dtype.is_floating_point else F._largest(img.dtype)


# ---- levels ----

@image_function
def adjust_sharpness(img: Tensor, sharpness_factor: float) -> Tensor:
    """Away from its blurred self by a factor: 0 is blurred, 1 the image, 2 sharper."""
    if sharpness_factor < 0:
        raise ValueError("sharpness_factor is 0 or more, not %s" % sharpness_factor)
    if min(img.shape[-2:]) <= 2:
        return img
    whole = not img.dtype.is_floating_point
    values = img.float() if whole else img
    kernel = _C.ones((3, 3), dtype=values.dtype, device=img.device)
    kernel[1, 1] = 5.0
    middle = _F.conv2d(values.reshape(-1, 1, *img.shape[-2:]), (kernel / kernel.sum()).view(1, 1, 3, 3))
    middle = (middle.round() if whole else middle).reshape(*img.shape[:-2], *middle.shape[-2:])
    soft = values.clone()  # the pixels at the sides stay
    soft[..., 1:-1, 1:-1] = middle
    made = sharpness_factor * values + (1.0 - sharpness_factor) * soft
    return made.clamp(0, _greatest(img)).to(img.dtype)


@image_function
def autocontrast(img: Tensor) -> Tensor:
    """The levels of each channel spread, so that the darkest becomes 0 and the brightest the greatest value."""
    most = _greatest(img)
    values = img if img.dtype.is_floating_point else img.float()
    low, high = values.amin((-2, -1), keepdim=True), values.amax((-2, -1), keepdim=True)
    flat = low == high
    scale = _C.where(flat, 1.0, high - low).reciprocal() * most
    low, scale = _C.where(flat, 0.0, low), _C.where(flat, 1.0, scale)
    return ((values - low) * scale).clamp(0, most).to(img.dtype)


def _equalized(channel: Tensor) -> Tensor:
    """One channel (height, width) of uint8."""
    counts = _C.bincount(channel.reshape(-1).to(_C.int64), minlength=256)
    step = int(counts.sum() - counts[counts.nonzero()[-1]].sum()) // 255
    if step == 0:
        return channel
    below = counts.cumsum(0) - counts
    levels = ((below + step // 2) // step).clamp(0, 255).to(_C.uint8)
    return levels[channel.to(_C.int64)]


@image_function
def equalize(img: Tensor) -> Tensor:
    """Levels so that each occurs about as often as another, channel by channel; of uint8."""
    if img.dtype != _C.uint8:
        raise TypeError("equalize takes uint8, not %s" % img.dtype)
    flat = img.reshape(-1, *img.shape[-2:])
    return _C.stack([_equalized(channel) for channel in flat.unbind(0)]).reshape(img.shape)


@image_function
def posterize(img: Tensor, bits: int) -> Tensor:
    """The highest `bits` bits of each value; of uint8."""
    if img.dtype != _C.uint8:
        raise TypeError("posterize takes uint8, not %s" % img.dtype)
    if not 0 <= bits <= 8:
        raise ValueError("posterize keeps 0 to 8 bits, not %s" % bits)
    kept: int = 256 - 2 ** (8 - int(bits))
    return img & kept


@image_function
def solarize(img: Tensor, threshold: float) -> Tensor:
    """The negative of the values from the threshold on."""
    most = _greatest(img)
    if threshold > most:
        raise ValueError("the threshold lies at %s at most, not %s" % (most, threshold))
    return _C.where(img >= threshold, most - img, img)


# ---- places ----

def _mapping(startpoints: Sequence[Sequence[int]], endpoints: Sequence[Sequence[int]]) -> list[float]:
    """The eight numbers that take the end points back to the start points."""
    rows, values = [], []
    for (x, y), (u, v) in zip(endpoints, startpoints):
        rows.append([x, y, 1, 0, 0, 0, -u * x, -u * y])
        rows.append([0, 0, 0, x, y, 1, -v * x, -v * y])
        values += [u, v]
    made = _C.linalg_solve(_C.tensor(rows, dtype=_C.float64), _C.tensor(values, dtype=_C.float64))
    numbers: list[float] = made.to(_C.float32).tolist()
    return numbers


@image_function
def perspective(img: Tensor, startpoints: Sequence[Sequence[int]], endpoints: Sequence[Sequence[int]],
                interpolation: InterpolationMode | int = _BILINEAR, fill: Any = None) -> Tensor:
    """Seen from aside: four points (x, y) of the image, from the upper left corner with the clock, and where they
    come to lie."""
    c = _mapping(startpoints, endpoints)
    h, w = img.shape[-2:]
    ys = _C.arange(0, h, dtype=_C.float32).unsqueeze(1) + 0.5
    xs = _C.arange(0, w, dtype=_C.float32).unsqueeze(0) + 0.5
    far = xs * c[6] + ys * c[7] + 1
    across = (xs * (c[0] / (0.5 * w)) + ys * (c[1] / (0.5 * w)) + c[2] / (0.5 * w)) / far - 1
    down = (xs * (c[3] / (0.5 * h)) + ys * (c[4] / (0.5 * h)) + c[5] / (0.5 * h)) / far - 1
    return F._at(img, _C.stack([across, down], -1), F._mode(interpolation), fill)


@image_function
def elastic_transform(img: Tensor, displacement: Tensor, interpolation: InterpolationMode | int = _BILINEAR,
                      fill: Any = None) -> Tensor:
    """Each pixel from a place moved by displacement (1, height, width, 2), in which the image is 2 wide and high."""
    if not isinstance(displacement, Tensor):
        raise TypeError("displacement must be a tensor, not %s" % type(displacement).__name__)
    h, w = img.shape[-2:]
    if tuple(displacement.shape) != (1, h, w, 2):
        raise ValueError("displacement must be %s, not %s" % ((1, h, w, 2), tuple(displacement.shape)))
    ys = _C.linspace((-h + 1) / h, (h - 1) / h, h).unsqueeze(1).expand(h, w)
    xs = _C.linspace((-w + 1) / w, (w - 1) / w, w).unsqueeze(0).expand(h, w)
    grid = _C.stack([xs, ys], -1) + displacement[0].cpu().float()
    return F._at(img, grid, F._mode(interpolation), fill)
