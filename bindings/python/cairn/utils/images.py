"""Pictures of pictures, with torchvision.utils' names: batches as one grid, into files, and with boxes, masks and
points drawn on them.

Place: cairn.utils hands these names on. A grid, and PNG and JPEG files, need nothing but the library; boxes and points
are drawn, and other kinds of files written, by Pillow.
"""
from __future__ import annotations

import os
import warnings
from typing import Any, BinaryIO, Sequence

from .. import _C
from .._modes import no_grad
from .._tensor import Tensor

__all__ = ["draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks", "make_grid", "save_image"]

_Colour = str | tuple[int, int, int]
_Colours = Sequence[_Colour] | _Colour | None


# ---- grids ----

def _spread(image: Tensor, low: float, high: float) -> None:
    """low to high becomes 0 to 1, in place."""
    image.clamp_(low, high).sub_(low).div_(max(high - low, 1e-5))


@no_grad()
def make_grid(tensor: Tensor | Sequence[Tensor], nrow: int = 8, padding: int = 2, normalize: bool = False,
              value_range: tuple[float, float] | None = None, scale_each: bool = False,
              pad_value: float = 0.0) -> Tensor:
    """Images, (n, channels, height, width) or a list, as one image with `nrow` of them in a row and `padding` pixels
    between. Grey images get three channels. normalize: the values from the least to the greatest (of all, or with
    scale_each of each image), or from value_range, become 0 to 1."""
    if isinstance(tensor, (list, tuple)):
        if not all(isinstance(t, Tensor) for t in tensor):
            raise TypeError("make_grid takes a tensor or a list of tensors")
        images = _C.stack([*tensor])
    elif isinstance(tensor, Tensor):
        images = tensor
    else:
        raise TypeError("make_grid takes a tensor or a list of tensors, not %s" % type(tensor).__name__)
    if images.ndim == 2:
        images = images.unsqueeze(0)
    if images.ndim == 3:
        images = images.unsqueeze(0)
    if images.ndim != 4:
        raise ValueError("make_grid takes images of 2 to 4 dimensions, not %d" % images.ndim)
    if images.shape[1] == 1:
        images = _C.cat((images, images, images), 1)
    if normalize:
        if value_range is not None and not isinstance(value_range, tuple):
            raise TypeError("value_range is a tuple (least, greatest), not %r" % (value_range,))
        images = images.clone()
        for part in images if scale_each else [images]:
            _spread(part, *(value_range or (float(part.min()), float(part.max()))))
    if images.shape[0] == 1:
        return images.squeeze(0)
    n, channels, height, width = images.shape
    columns = min(nrow, n)
    rows = -(-n // columns)
    height, width = height + padding, width + padding
    grid = images.new_full((channels, height * rows + padding, width * columns + padding), pad_value)
    for k in range(n):
        top, left = k // columns * height + padding, k % columns * width + padding
        grid[:, top:top + height - padding, left:left + width - padding] = images[k]
    return grid


@no_grad()
def save_image(tensor: Tensor | Sequence[Tensor], fp: str | os.PathLike[str] | BinaryIO, format: str | None = None,
               **kwargs: Any) -> None:
    """make_grid's image (with its arguments) as a file: a path, whose ending says the kind, or an open file. Values are
    in [0, 1]."""
    pixels = make_grid(tensor, **kwargs).mul(255).add_(0.5).clamp_(0, 255).to("cpu", _C.uint8)
    path = os.fspath(fp) if isinstance(fp, (str, os.PathLike)) else None
    kind = (format or os.path.splitext(path or "")[1].removeprefix(".")).lower()
    if kind in ("png", "jpg", "jpeg"):
        data = _C._image_encode(pixels.contiguous(), 0 if kind == "png" else 75)
        if path is None:
            fp.write(data)  # type: ignore[union-attr]
        else:
            with open(path, "wb") as file:
                file.write(data)
        return
    from ..transforms._image import to_pil_image
    to_pil_image(pixels).save(fp, format=format)


# ---- drawing ----

def _colours(given: _Colours, n: int) -> list[tuple[int, ...]]:
    """A colour for each of n things, as numbers of 0 to 255; by themselves they differ."""
    if given is None:
        return [tuple(i * step % 255 for step in (2 ** 25 - 1, 2 ** 15 - 1, 2 ** 21 - 1)) for i in range(n)]
    if isinstance(given, (list, Sequence)) and not isinstance(given, (str, tuple)):
        if len(given) < n:
            raise ValueError("there are %d colours for %d things to draw" % (len(given), n))
        each: list[Any] = list(given)
    elif isinstance(given, (str, tuple)):
        each = [given] * n
    else:
        raise ValueError("colors is a colour or a list of them, not %r" % (given,))
    if any(isinstance(c, str) for c in each):
        from PIL import ImageColor
        each = [ImageColor.getrgb(c) if isinstance(c, str) else c for c in each]
    return [tuple(c) for c in each]


def _check(image: Any, channels: tuple[int, ...]) -> None:
    if not isinstance(image, Tensor):
        raise TypeError("the image must be a tensor, not %s" % type(image).__name__)
    if image.dtype != _C.uint8 and not image.dtype.is_floating_point:
        raise ValueError("the image must be of uint8 or floats, not %s" % image.dtype)
    if image.ndim != 3:
        raise ValueError("one image (channels, height, width) is drawn on, not %d dimensions" % image.ndim)
    if image.shape[0] not in channels:
        raise ValueError("the image must have %s channels, not %d" % (" or ".join(map(str, channels)),
                                                                      image.shape[0]))


def _canvas(image: Tensor) -> Any:
    """As one of Pillow's images, in colour."""
    from ..transforms import functional as F
    image = image.detach()
    image = image.expand(3, -1, -1) if image.shape[0] == 1 else image
    return F.to_pil_image(F.convert_image_dtype(image, _C.uint8))


def _back(canvas: Any, like: Tensor) -> Tensor:
    from ..transforms import functional as F
    return F.convert_image_dtype(F.pil_to_tensor(canvas), like.dtype)


@no_grad()
def draw_bounding_boxes(image: Tensor, boxes: Tensor, labels: Sequence[str | None] | None = None,
                        colors: _Colours = None, fill: bool | None = False, width: int = 1, font: str | None = None,
                        font_size: int | None = None, label_colors: _Colours = None,
                        label_background_colors: _Colours = None, fill_labels: bool = False) -> Tensor:
    """The image with rectangles, boxes (n, 4): left, top, right, bottom; or (n, 8): four corners. labels: a text for
    each. fill: the inside shaded. font: a TrueType file. fill_labels: on a background of its own."""
    from PIL import ImageDraw, ImageFont
    _check(image, (1, 3))
    n = boxes.shape[0]
    if n == 0:
        warnings.warn("there are no boxes to draw")
        return image
    if boxes.shape[-1] == 4 and bool(((boxes[:, 0] > boxes[:, 2]) | (boxes[:, 1] > boxes[:, 3])).any()):
        raise ValueError("boxes are (left, top, right, bottom); some end before they begin")
    if labels is not None and len(labels) != n:
        raise ValueError("there are %d labels for %d boxes" % (len(labels), n))
    lines = _colours(colors, n)
    words = _colours(label_colors or "black", n) if label_colors or fill_labels else lines
    grounds = _colours(label_background_colors, n) if fill_labels and label_background_colors else lines
    letters: Any = ImageFont.load_default() if font is None else ImageFont.truetype(font, font_size or 10)
    canvas = _canvas(image)
    pen = ImageDraw.Draw(canvas, "RGBA" if fill else None)
    for k, box in enumerate(boxes.to(_C.int64).tolist()):
        inside = (*lines[k], 100) if fill else None
        if len(box) == 8:
            pen.polygon(box, fill=inside, outline=lines[k], width=width)
        else:
            pen.rectangle(box, fill=inside, outline=lines[k], width=width)
        text = None if labels is None else labels[k]
        if text is None:
            continue
        at = (box[0] + width + 1, box[1] + width + 1)
        if fill_labels:
            left, top, right, bottom = pen.textbbox(at, text, font=letters)
            pen.rectangle((left - 1, top - 1, right + 1, bottom + 1), fill=grounds[k])
        pen.text(at, text, fill=words[k], font=letters)
    return _back(canvas, image)


@no_grad()
def draw_segmentation_masks(image: Tensor, masks: Tensor, alpha: float = 0.8, colors: _Colours = None) -> Tensor:
    """The image with masks (n, height, width) or (height, width) of bool in colours: alpha 0 shows the image, 1 the
    colours alone. Where masks overlap it is darkened."""
    _check(image, (3,))
    masks = masks.unsqueeze(0) if masks.ndim == 2 else masks
    if masks.ndim != 3 or masks.shape[-2:] != image.shape[-2:]:
        raise ValueError("masks are (n, height, width) as the image, not %s" % (tuple(masks.shape),))
    if masks.dtype != _C.bool:
        raise ValueError("masks must be of bool, not %s" % masks.dtype)
    if masks.shape[0] == 0:
        warnings.warn("there are no masks to draw")
        return image
    drawn = image.detach().clone()
    for mask, colour in zip(masks, _colours(colors, masks.shape[0])):
        shade = _C.tensor(colour, device=image.device)
        if image.dtype.is_floating_point:
            shade = shade / 255
        drawn = _C.where(mask, shade.to(image.dtype).view(3, 1, 1), drawn)
    drawn = drawn.masked_fill(masks.sum(0) > 1, 0)
    return (image * (1 - alpha) + drawn * alpha).to(image.dtype)


@no_grad()
def draw_keypoints(image: Tensor, keypoints: Tensor, connectivity: Sequence[tuple[int, int]] | None = None,
                   colors: _Colour | None = None, radius: int = 2, width: int = 3,
                   visibility: Tensor | None = None) -> Tensor:
    """The image with points (instances, points, 2) as discs, and lines between the pairs of `connectivity`. Points that
    visibility (instances, points) calls invisible are left out, with their lines."""
    from PIL import ImageDraw
    _check(image, (3,))
    if keypoints.ndim != 3:
        raise ValueError("keypoints are (instances, points, 2), not %s" % (tuple(keypoints.shape),))
    shown = _C.ones(keypoints.shape[:2], dtype=_C.bool) if visibility is None else visibility.bool()
    shown = shown.squeeze(-1) if shown.ndim == 3 else shown
    if tuple(shown.shape) != tuple(keypoints.shape[:2]):
        raise ValueError("visibility %s does not fit keypoints %s" % (tuple(shown.shape), tuple(keypoints.shape)))
    canvas = _canvas(image)
    pen = ImageDraw.Draw(canvas)
    for points, seen in zip(keypoints.to(_C.int64).tolist(), shown.tolist()):
        for (x, y), visible in zip(points, seen):
            if visible:
                pen.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colors, outline=None, width=0)
        for a, b in connectivity or ():
            if seen[a] and seen[b]:
                pen.line([tuple(points[a]), tuple(points[b])], width=width)
    return _back(canvas, image)
