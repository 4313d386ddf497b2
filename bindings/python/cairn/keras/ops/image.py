"""keras.ops.image: sizes, colours and windows of images, (N, H, W, C) or (H, W, C) unless data_format differs."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from ..._arguments import refused
from ...nn import functional as F
from ._make import floats, op, tensor

__all__ = ["crop_images", "extract_patches", "gaussian_blur", "hsv_to_rgb", "pad_images", "resize", "rgb_to_grayscale",
           "rgb_to_hsv"]


def _last(images: Any, data_format: str | None, f: Callable[[Any], Any]) -> Any:
    """f of (N, H, W, C), whatever the layout is."""
    from ..backend import image_data_format
    x = tensor(images)
    first = (data_format or image_data_format()) == "channels_first"
    single = x.ndim == 3
    x = x.unsqueeze(0) if single else x
    out = f(x.permute(0, 2, 3, 1) if first else x)
    out = out.permute(0, 3, 1, 2) if first else out
    return out.squeeze(0) if single else out


@op
def resize(images: Any, size: Any, interpolation: str = "bilinear", antialias: bool = False,
           crop_to_aspect_ratio: bool = False, pad_to_aspect_ratio: bool = False, fill_mode: str = "constant",
           fill_value: float = 0.0, data_format: str | None = None) -> Any:
    from ..layers.image import resized, window
    refused("resize", "room around an image is filled with fill_value", "constant", fill_mode=fill_mode)
    height, width = (int(n) for n in size)

    def one(x: Any) -> Any:
        kind = x.dtype
        x = floats(x).permute(0, 3, 1, 2)
        if crop_to_aspect_ratio:
            x = window(x, height, width)
        if pad_to_aspect_ratio:
            h, w = int(x.shape[2]), int(x.shape[3])
            tall, wide = max(h, int(w * height / width)), max(w, int(h * width / height))
            top, left = (tall - h) // 2, (wide - w) // 2
            x = F.pad(x, [left, wide - w - left, top, tall - h - top], value=fill_value)
        made = resized(x, height, width, interpolation, antialias).permute(0, 2, 3, 1)
        return made if kind.is_floating_point else made.round().clamp(0, 255).to(kind)
    return _last(images, data_format, one)


def _sizes(before: Any, after: Any, target: Any, have: int, sign: int) -> tuple[int, int]:
    """What comes off (or is put on) in front and behind."""
    if target is not None:
        change = (have - target) * sign
        if before is None and after is None:
            before = change // 2
        before = change - after if before is None else before
        after = change - before
    if before is None or after is None:
        raise ValueError("give two of the sides and the target, or both sides")
    return int(before), int(after)


@op
def crop_images(images: Any, top_cropping: Any = None, left_cropping: Any = None, bottom_cropping: Any = None,
                right_cropping: Any = None, target_height: Any = None, target_width: Any = None,
                data_format: str | None = None) -> Any:
    def one(x: Any) -> Any:
        t, b = _sizes(top_cropping, bottom_cropping, target_height, int(x.shape[1]), 1)
        k, r = _sizes(left_cropping, right_cropping, target_width, int(x.shape[2]), 1)
        return x[:, t:int(x.shape[1]) - b, k:int(x.shape[2]) - r]
    return _last(images, data_format, one)


@op
def pad_images(images: Any, top_padding: Any = None, left_padding: Any = None, bottom_padding: Any = None,
               right_padding: Any = None, target_height: Any = None, target_width: Any = None,
               data_format: str | None = None) -> Any:
    def one(x: Any) -> Any:
        t, b = _sizes(top_padding, bottom_padding, target_height, int(x.shape[1]), -1)
        k, r = _sizes(left_padding, right_padding, target_width, int(x.shape[2]), -1)
        return F.pad(x, [0, 0, k, r, t, b])
    return _last(images, data_format, one)


@op
def rgb_to_grayscale(images: Any, data_format: str | None = None) -> Any:
    def one(x: Any) -> Any:
        made = (floats(x) * cairn.tensor([0.2989, 0.587, 0.114])).sum(-1, keepdim=True)
        return made if x.dtype.is_floating_point else made.to(x.dtype)
    return _last(images, data_format, one)


@op
def rgb_to_hsv(images: Any, data_format: str | None = None) -> Any:
    def one(x: Any) -> Any:
        r, g, b = floats(x).unbind(-1)
        most, least = cairn.maximum(cairn.maximum(r, g), b), cairn.minimum(cairn.minimum(r, g), b)
        span = most - least
        safe = cairn.where(span > 0, span, cairn.ones_like(span))
        hue = cairn.where(most == r, (g - b) / safe, cairn.where(most == g, 2.0 + (b - r) / safe, 4.0 + (r - g) / safe))
        hue = cairn.where(span > 0, (hue / 6.0) % 1.0, cairn.zeros_like(hue))
        grey = cairn.where(most > 0, span / cairn.where(most > 0, most, cairn.ones_like(most)), cairn.zeros_like(most))
        return cairn.stack([hue, grey, most], dim=-1)
    return _last(images, data_format, one)


@op
def hsv_to_rgb(images: Any, data_format: str | None = None) -> Any:
    def one(x: Any) -> Any:
        h, s, v = floats(x).unbind(-1)
        parts = []
        for offset in (5.0, 3.0, 1.0):
            k = (offset + h * 6.0) % 6.0
            parts.append(v - v * s * cairn.minimum(k, 4.0 - k).clamp(0.0, 1.0))
        return cairn.stack(parts, dim=-1)
    return _last(images, data_format, one)


@op
def extract_patches(images: Any, size: Any, strides: Any = None, dilation_rate: Any = 1, padding: str = "valid",
                    data_format: str | None = None) -> Any:
    """(N, rows, columns, height * width * channels), a row for each window."""
    from ..layers.windows import padded, same_pads, tuple_of
    window = tuple_of(size, 2, "size")
    step = window if strides is None else tuple_of(strides, 2, "strides")
    wide = tuple_of(dilation_rate, 2, "dilation_rate")

    def one(x: Any) -> Any:
        x = floats(x).permute(0, 3, 1, 2)
        if padding == "same":
            x = padded(x, same_pads(x.shape[2:], window, step, wide))
        n, c = int(x.shape[0]), int(x.shape[1])
        rows, columns = ((int(x.shape[2 + i]) - (window[i] - 1) * wide[i] - 1) // step[i] + 1 for i in (0, 1))
        flat = F.unfold(x, window, wide, 0, step).reshape(n, c, -1, rows, columns)
        return flat.permute(0, 3, 4, 2, 1).reshape(n, rows, columns, -1)
    return _last(images, data_format, one)


@op
def gaussian_blur(images: Any, kernel_size: Any = (3, 3), sigma: Any = (1.0, 1.0),
                  data_format: str | None = None) -> Any:
    from ..layers.augment import blurred
    return _last(images, data_format, lambda x: blurred(floats(x).permute(0, 3, 1, 2), tuple(kernel_size), sigma)
                 .permute(0, 2, 3, 1))
