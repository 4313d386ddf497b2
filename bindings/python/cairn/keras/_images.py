"""Images in files and arrays: load_img, img_to_array, array_to_img, save_img, smart_resize. Images are Pillow's."""
from __future__ import annotations

import io
import os
from typing import Any

import cairn
from .._training.batches import array, to_tensor
from .backend import floatx, image_data_format

__all__ = ["array_to_img", "decoded", "img_to_array", "load_img", "save_img", "smart_resize"]


def _pillow() -> Any:
    try:
        from PIL import Image
    except ImportError as error:
        raise ImportError("images as objects need Pillow: pip install pillow") from error
    return Image


def load_img(path: Any, color_mode: str = "rgb", target_size: Any = None, interpolation: str = "nearest",
             keep_aspect_ratio: bool = False) -> Any:
    """Pillow's image of a file (or of bytes), with the channels that color_mode names, in the size asked for."""
    modes = {"grayscale": ("L", "I;16", "I"), "rgb": ("RGB",), "rgba": ("RGBA",)}
    if color_mode not in modes:
        raise ValueError("color_mode is grayscale, rgb or rgba, not %r" % (color_mode,))
    kind = _pillow()
    if isinstance(path, io.BytesIO):
        img = kind.open(path)
    else:
        with open(path, "rb") as file:
            img = kind.open(io.BytesIO(file.read()))
    if img.mode not in modes[color_mode]:
        img = img.convert(modes[color_mode][0])
    if target_size is None or img.size == (target_size[1], target_size[0]):
        return img
    ways = {"nearest": "NEAREST", "bilinear": "BILINEAR", "bicubic": "BICUBIC", "hamming": "HAMMING", "box": "BOX",
            "lanczos": "LANCZOS"}
    if interpolation not in ways:
        raise ValueError("interpolation is %s, not %r" % (", ".join(ways), interpolation))
    wide, tall = target_size[1], target_size[0]
    box = None
    if keep_aspect_ratio:
        w, h = img.size
        cut_w, cut_h = min(w, h * wide // tall), min(h, w * tall // wide)
        box = ((w - cut_w) // 2, (h - cut_h) // 2, (w - cut_w) // 2 + cut_w, (h - cut_h) // 2 + cut_h)
    return img.resize((wide, tall), getattr(kind.Resampling, ways[interpolation]), box=box)


def img_to_array(img: Any, data_format: str | None = None, dtype: Any = None) -> Any:
    """numpy's array (height, width, channels) of Pillow's image."""
    import numpy
    made = numpy.asarray(img, dtype=dtype or floatx())
    if made.ndim == 2:
        made = made.reshape(made.shape + (1,))
    if made.ndim != 3:
        raise ValueError("an image has 2 or 3 dimensions, not shape %s" % (made.shape,))
    return made.transpose(2, 0, 1) if (data_format or image_data_format()) == "channels_first" else made


def array_to_img(x: Any, data_format: str | None = None, scale: bool = True, dtype: Any = None) -> Any:
    """Pillow's image of an array. scale: from its smallest number as 0 to its largest as 255."""
    import numpy
    kind = _pillow()
    x = x.detach().cpu().numpy() if isinstance(x, cairn.Tensor) else x
    x = numpy.asarray(x, dtype=dtype or floatx())
    if x.ndim != 3:
        raise ValueError("array_to_img takes one image of 3 dimensions, not shape %s" % (x.shape,))
    if (data_format or image_data_format()) == "channels_first":
        x = x.transpose(1, 2, 0)
    if scale:
        x = x - x.min()
        x = x / (x.max() or 1.0) * 255
    if x.shape[2] == 1:
        whole = x[:, :, 0]
        return kind.fromarray(whole.astype("int32" if whole.max() > 255 else "uint8"))
    if x.shape[2] not in (3, 4):
        raise ValueError("an image has 1, 3 or 4 channels, not %d" % x.shape[2])
    return kind.fromarray(x.astype("uint8"))


def save_img(path: Any, x: Any, data_format: str | None = None, file_format: str | None = None, scale: bool = True,
             **kwargs: Any) -> None:
    """Writes an array as an image; the name of the file, or file_format, says how."""
    img = array_to_img(x, data_format, scale)
    kind = file_format or os.path.splitext(os.fspath(path))[1][1:] if isinstance(path, (str, os.PathLike)) else \
        file_format
    if img.mode == "RGBA" and str(kind).lower() in ("jpg", "jpeg"):
        img = img.convert("RGB")
    img.save(path, format=file_format, **kwargs)


def smart_resize(x: Any, size: Any, interpolation: str = "bilinear", data_format: str | None = None) -> Any:
    """The largest centred part with the ratio of size, in that size; an array for an array, a tensor for a tensor."""
    from .layers.image import resized, window
    image = to_tensor(x)
    image = image if image.dtype.is_floating_point else image.to(cairn.get_default_dtype())
    last = (data_format or image_data_format()) == "channels_last"
    batch = image.unsqueeze(0) if image.ndim == 3 else image
    batch = batch.permute(0, 3, 1, 2) if last else batch
    made = resized(window(batch, *size), int(size[0]), int(size[1]), interpolation)
    made = made.permute(0, 2, 3, 1) if last else made
    made = made.squeeze(0) if image.ndim == 3 else made
    return made if isinstance(x, cairn.Tensor) else array(made)


def decoded(path: str, channels: int) -> Any:
    """A tensor of floats (channels, height, width) of a file: PNG and JPEG by the library, others by Pillow."""
    from ..transforms import io as files
    mode = {1: files.ImageReadMode.GRAY, 3: files.ImageReadMode.RGB, 4: files.ImageReadMode.RGB_ALPHA}[channels]
    if path.lower().endswith((".png", ".jpg", ".jpeg")):
        return files.read_image(path, mode).to(cairn.get_default_dtype())
    img = load_img(path, {1: "grayscale", 3: "rgb", 4: "rgba"}[channels])
    return cairn.as_tensor(img_to_array(img).transpose(2, 0, 1).copy())
