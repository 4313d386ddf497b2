"""Images of other libraries, and how the library's loops, which take one (channels, height, width) of uint8 or
float32, serve batches and other types."""
from __future__ import annotations

import functools
from typing import Any, Callable, Sequence, TypeVar

from .. import _C
from .._tensor import Tensor

__all__ = ["each", "is_pil", "is_plain", "pil_to_tensor", "to_pil_image", "image_function"]

_F = TypeVar("_F", bound=Callable[..., Any])


def is_pil(image: Any) -> bool:
    """One of Pillow's images; does not import Pillow."""
    return any(kind.__module__ == "PIL.Image" and kind.__name__ == "Image" for kind in type(image).__mro__)


def is_plain(image: Tensor) -> bool:
    """What the library's loops take as it is."""
    return (image.ndim == 3 and image.is_cpu and image.dtype in (_C.uint8, _C.float32)
            and not (image.requires_grad and _C.is_grad_enabled()))


def each(image: Tensor, change: Callable[[Tensor], Tensor], who: str) -> Tensor:
    """change(image), or of each image of a batch; other floats go through float32, other devices by way of the host."""
    if not isinstance(image, Tensor):
        raise TypeError("%s: an image is a tensor or one of Pillow's, not %s" % (who, type(image).__name__))
    if is_plain(image):
        return change(image)
    if image.ndim < 3:
        raise ValueError("%s: an image is (..., channels, height, width), not of %d dimensions" % (who, image.ndim))
    if image.requires_grad and _C.is_grad_enabled():
        raise RuntimeError("%s has no gradient: detach the image first" % who)
    images = image.cpu()
    if image.dtype.is_floating_point:
        images = images.float()
    if images.ndim == 3:
        made = change(images)
    else:
        flat = images.reshape(-1, *images.shape[-3:])
        made = _C.stack([change(one) for one in flat.unbind(0)])
        made = made.reshape(*image.shape[:-3], *made.shape[1:])
    return made.to(image.device, image.dtype if made.dtype == images.dtype else made.dtype)


# ---- Pillow ----

# Modes whose pixels are not bytes -> their element type.
_WIDE = {"I": _C.int32, "F": _C.float32, "I;16": _C.uint16}


def pil_to_tensor(pic: Any) -> Tensor:
    """A Pillow image as (channels, height, width), its values as they are."""
    if not is_pil(pic):
        raise TypeError("pil_to_tensor takes one of Pillow's images, not %s" % type(pic).__name__)
    if pic.mode == "1":
        pic = pic.convert("L")
    width, height = pic.size
    channels = len(pic.getbands())
    dtype = _WIDE.get(pic.mode, _C.uint8)
    pixels = _C.frombuffer(bytearray(pic.tobytes()), dtype=dtype)
    return pixels.reshape(height, width, channels).permute(2, 0, 1)


def _mode_of(image: Tensor) -> str:
    channels = image.shape[0]
    if image.dtype == _C.uint8 and channels in (1, 2, 3, 4):
        return ("L", "LA", "RGB", "RGBA")[channels - 1]
    for mode, dtype in _WIDE.items():
        if channels == 1 and image.dtype == dtype:
            return mode
    raise TypeError("there is no mode of Pillow for %d channels of %s" % (channels, image.dtype))


def to_pil_image(pic: Any, mode: str | None = None) -> Any:
    """A tensor (channels, height, width), or a numpy array (height, width, channels), as a Pillow image. Floats are
    taken as values in [0, 1]."""
    from PIL import Image
    if not isinstance(pic, Tensor):
        array = _C.as_tensor(pic)
        pic = array.unsqueeze(0) if array.ndim == 2 else array.permute(2, 0, 1)
    elif pic.ndim == 2:
        pic = pic.unsqueeze(0)
    if pic.ndim != 3:
        raise ValueError("to_pil_image takes 2 or 3 dimensions, not %d" % pic.ndim)
    if pic.dtype.is_floating_point and mode != "F":
        pic = (pic.float() * 255).to(_C.uint8)
    kind = _mode_of(pic)
    data = _C._to_bytes(pic.permute(1, 2, 0).contiguous().cpu())
    image = Image.frombytes(kind, (pic.shape[2], pic.shape[1]), data)
    return image if mode is None or mode == kind else image.convert(mode)


def image_function(function: _F) -> _F:
    """A function of an image as a tensor that also takes one of Pillow's, and then returns one."""
    @functools.wraps(function)
    def wrapped(img: Any, *args: Any, **kwargs: Any) -> Any:
        if not is_pil(img):
            return function(img, *args, **kwargs)
        made = function(pil_to_tensor(img), *args, **kwargs)
        if isinstance(made, Tensor):
            return to_pil_image(made, None if made.shape[0] != len(img.getbands()) else img.mode)
        return type(made)(to_pil_image(one) for one in made)

    return wrapped  # type: ignore[return-value]


def pair(value: int | Sequence[int]) -> tuple[int, int]:
    """A size: one number for both sides, or (height, width)."""
    if isinstance(value, int):
        return value, value
    sides = [int(v) for v in value]
    if len(sides) == 1:
        return sides[0], sides[0]
    if len(sides) != 2:
        raise ValueError("size is one number or (height, width), not %d numbers" % len(sides))
    return sides[0], sides[1]
