"""Regions of feature maps brought to one size: roi_align, roi_pool, and those whose channels belong to places (ps_).

All that takes means is two products with matrices of weights, one for the rows and one for the columns, because the
points that are looked at lie on a grid: out[k] = rows[k] @ image @ columns[k]. Gradients are the products'; the boxes
get none, as in torchvision. Invariant: what a chunk of regions needs stays below a number of elements.
"""
from __future__ import annotations

import math
from typing import Any, Callable, Iterator

from .. import _C, nn
from .._tensor import Tensor

__all__ = ["PSRoIAlign", "PSRoIPool", "RoIAlign", "RoIPool", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]

_MOST = 1 << 25  # elements of what is computed at once

def _regions(boxes: Any) -> Tensor:
    """(k, 5): the number of the image, and the box."""
    if isinstance(boxes, Tensor):
        if boxes.ndim != 2 or boxes.shape[1] != 5:
            raise ValueError("boxes are a tensor (k, 5), the first column the number of the image, or a list of "
                             "tensors (n, 4); not %s" % (tuple(boxes.shape),))
        return boxes
    for b in boxes:
        if b.ndim != 2 or b.shape[1] != 4:
            raise ValueError("each tensor of boxes is (n, 4), not %s" % (tuple(b.shape),))
    return _C.cat([_C.cat((_C.full_like(b[:, :1], i), b), 1) for i, b in enumerate(boxes)], 0)


def _pair(size: Any) -> tuple[int, int]:
    return (size, size) if isinstance(size, int) else (int(size[0]), int(size[-1]))


def _chunks(input: Tensor, rois: Tensor, cost: int) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """An image, some regions of it, and their numbers."""
    images = rois[:, 0].to(_C.int64).tolist()
    for i in sorted(set(images)):
        if not 0 <= i < input.shape[0]:
            raise ValueError("a box belongs to image %d of %d" % (i, input.shape[0]))
        mine = [k for k, image in enumerate(images) if image == i]
        step = max(1, _MOST // max(cost, 1))
        for at in range(0, len(mine), step):
            rows = _C.tensor(mine[at:at + step], dtype=_C.int64, device=rois.device)
            yield input[i], rois[rows, 1:], rows


def _points(low: Tensor, size: Tensor, bins: int, length: int, samples: int) -> Tensor:
    """Weights (k, bins, length) of the means of points that lie evenly in each bin, interpolated between pixels."""
    step = size / bins
    grid = _C.full_like(step, samples) if samples > 0 else _C.ceil(step)
    n = int(grid.max().item()) if grid.numel() else 0
    at = _C.arange(0, max(n, 1), device=low.device).to(low.dtype)
    bin = _C.arange(0, bins, device=low.device).to(low.dtype)
    p = low[:, None, None] + bin[None, :, None] * step[:, None, None] + (
        (at + 0.5)[None, None] * (step / grid)[:, None, None])
    counts = (at[None, None] < grid[:, None, None]) & (p >= -1) & (p <= length)
    p = p.clamp(0, length - 1)
    pixel = _C.arange(0, length, device=low.device).to(low.dtype)
    near = (1 - (p[..., None] - pixel).abs()).clamp(min=0)
    near = _C.where(counts[..., None], near, _C.zeros_like(near)).sum(2)
    return near / grid.clamp(min=1)[:, None, None]


def _rounded(x: Tensor) -> Tensor:
    """To the nearest whole number, halves away from zero."""
    return _C.where(x < 0, -_C.floor(-x + 0.5), _C.floor(x + 0.5))


def _windows(low: Tensor, size: Tensor, bins: int, last: int) -> tuple[Tensor, Tensor]:
    """Where each bin begins and ends, in pixels: (k, bins), not beyond 0 and `last`."""
    bin, step = _C.arange(0, bins, device=low.device).to(low.dtype), (size / bins)[:, None]
    begin, end = _C.floor(bin * step) + low[:, None], _C.ceil((bin + 1) * step) + low[:, None]
    return begin.clamp(0, last), end.clamp(0, last)


def _sides(box: Tensor) -> list[tuple[Tensor, Tensor]]:
    """Top and bottom, left and right."""
    return [(box[:, 1], box[:, 3]), (box[:, 0], box[:, 2])]


def _wide(input: Tensor) -> Tensor:
    """Half precision is computed in single, as products would round in between."""
    return input.float() if input.dtype in (_C.float16, _C.bfloat16) else input


def _filled(input: Tensor, shape: tuple[int, ...], parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """The parts at their numbers, as the input's type."""
    if not parts:
        return input.new_zeros(shape) + input.sum() * 0
    order = _C.cat([rows for rows, _ in parts]).argsort()
    return _C.cat([made for _, made in parts])[order].to(input.dtype)


def roi_align(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0, sampling_ratio: int = -1,
              aligned: bool = False) -> Tensor:
    """Each box of the images as (channels, *output_size): means of points in each bin, sampling_ratio each way, or as
    many as there are pixels. Boxes are those of the images, times spatial_scale; aligned moves them by half a pixel.
    boxes: (k, 5) with the image's number first, or a tensor (n, 4) for each image."""
    rois, (high, wide) = _regions(boxes).detach(), _pair(output_size)
    x, offset = _wide(input), 0.5 if aligned else 0.0
    _, channels, rows, columns = input.shape
    parts = []
    for image, box, numbers in _chunks(x, rois, high * channels * columns + rows * columns):
        weights = []
        for (low, end), bins, length in zip(_sides(box.to(x.dtype)), (high, wide), (rows, columns)):
            low, end = low * spatial_scale - offset, end * spatial_scale - offset
            size = end - low if aligned else (end - low).clamp(min=1)
            weights.append(_points(low, size, bins, length, sampling_ratio))
        k = box.shape[0]
        made = weights[0].reshape(k * high, rows) @ image.transpose(0, 1).reshape(rows, channels * columns)
        made = made.reshape(k, high * channels, columns) @ weights[1].transpose(1, 2)
        parts.append((numbers, made.reshape(k, high, channels, wide).transpose(1, 2)))
    return _filled(input, (rois.shape[0], channels, high, wide), parts)


def _best(x: Tensor, begin: Tensor, end: Tensor) -> Tensor:
    """The largest of each window along the last dimension of x (k, ..., length), the first of equals: (k, ..., bins).
    """
    most = max(int((end - begin).max().item()), 1)
    at = begin[..., None] + _C.arange(0, most, device=x.device).to(begin.dtype)
    inside = at < end[..., None]
    k, bins = begin.shape
    where = at.clamp(0, x.shape[-1] - 1).to(_C.int64).reshape([k] + [1] * (x.ndim - 2) + [bins * most])
    taken = x.gather(-1, where.expand(*x.shape[:-1], bins * most)).reshape(*x.shape[:-1], bins, most)
    inside = inside.reshape([k] + [1] * (x.ndim - 2) + [bins, most])
    return _C.where(inside, taken, _C.full_like(taken, -math.inf)).max(-1)[0]


def roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Each box of the images as (channels, *output_size): the largest number of each bin, whose sides are rounded to
    pixels."""
    rois, (high, wide) = _regions(boxes).detach(), _pair(output_size)
    _, channels, rows, columns = input.shape
    parts = []
    for image, box, numbers in _chunks(input, rois, channels * rows * (columns + 2 * wide)):
        windows = []
        for (low, end), bins, length in zip(_sides(_wide(box)), (high, wide), (rows, columns)):
            low, end = _rounded(low * spatial_scale), _rounded(end * spatial_scale)
            windows.append(_windows(low, (end - low + 1).clamp(min=1), bins, length))
        made = _best(image.expand(box.shape[0], *image.shape), *windows[1])
        made = _best(made.transpose(2, 3), *windows[0]).transpose(2, 3)
        parts.append((numbers, _C.where(made == -math.inf, _C.zeros_like(made), made)))
    return _filled(input, (rois.shape[0], channels, high, wide), parts)


def _by_places(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float,
               weights: Callable[[Tensor, Tensor, int, int], Tensor]) -> Tensor:
    """Means of bins, each from channels of its own. weights: of (begin, end) of the boxes, bins, and pixels."""
    rois, (high, wide) = _regions(boxes).detach(), _pair(output_size)
    x = _wide(input)
    _, channels, rows, columns = input.shape
    if channels % (high * wide):
        raise ValueError("%d channels cannot be shared by %d x %d bins" % (channels, high, wide))
    each = channels // (high * wide)
    parts = []
    for image, box, numbers in _chunks(x, rois, channels * columns + rows * columns):
        (top, bottom), (left, right) = [(a * spatial_scale, b * spatial_scale) for a, b in _sides(box.to(x.dtype))]
        by_rows, by_columns = weights(top, bottom, high, rows), weights(left, right, wide, columns)
        places = image.reshape(each, high, wide, rows, columns).permute(1, 3, 0, 2, 4)
        made = by_rows.transpose(0, 1) @ places.reshape(high, rows, each * wide * columns)  # (high, k, ...)
        made = made.reshape(high, box.shape[0], each, wide, columns)
        parts.append((numbers, (made * by_columns[None, :, None]).sum(-1).permute(1, 2, 0, 3)))
    return _filled(input, (rois.shape[0], each, high, wide), parts)


def ps_roi_align(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0,
                 sampling_ratio: int = -1) -> Tensor:
    """roi_align in which each bin has channels of its own: (k, channels / bins, *output_size)."""
    def weights(low: Tensor, end: Tensor, bins: int, length: int) -> Tensor:
        return _points(low - 0.5, end - low, bins, length, sampling_ratio)
    return _by_places(input, boxes, output_size, spatial_scale, weights)


def ps_roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Means of whole pixels, each bin of channels of its own: (k, channels / bins, *output_size)."""
    def weights(low: Tensor, end: Tensor, bins: int, length: int) -> Tensor:
        low, end = _rounded(low), _rounded(end)
        begin, stop = _windows(low, (end - low).clamp(min=1), bins, length - 1)  # torchvision's bound
        pixel = _C.arange(0, length, device=low.device).to(low.dtype)
        inside = (pixel >= begin[..., None]) & (pixel < stop[..., None])
        return inside.to(low.dtype) / (stop - begin).clamp(min=1)[..., None]
    return _by_places(input, boxes, output_size, spatial_scale, weights)


class _Layer(nn.Module):
    """One of the functions, with its settings."""

    _names: tuple[str, ...] = ("output_size", "spatial_scale")

    def extra_repr(self) -> str:
        return ", ".join("%s=%s" % (name, getattr(self, name)) for name in self._names)


class RoIAlign(_Layer):
    """roi_align as a layer."""

    _names = ("output_size", "spatial_scale", "sampling_ratio", "aligned")

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int, aligned: bool = False) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale
        self.sampling_ratio, self.aligned = sampling_ratio, aligned

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio, self.aligned)


class RoIPool(_Layer):
    """roi_pool as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return roi_pool(input, rois, self.output_size, self.spatial_scale)


class PSRoIAlign(_Layer):
    """ps_roi_align as a layer."""

    _names = ("output_size", "spatial_scale", "sampling_ratio")

    def __init__(self, output_size: Any, spatial_scale: float, sampling_ratio: int) -> None:
        super().__init__()
        self.output_size, self.spatial_scale, self.sampling_ratio = output_size, spatial_scale, sampling_ratio

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return ps_roi_align(input, rois, self.output_size, self.spatial_scale, self.sampling_ratio)


class PSRoIPool(_Layer):
    """ps_roi_pool as a layer."""

    def __init__(self, output_size: Any, spatial_scale: float) -> None:
        super().__init__()
        self.output_size, self.spatial_scale = output_size, spatial_scale

    def forward(self, input: Tensor, rois: Any) -> Tensor:
        return ps_roi_pool(input, rois, self.output_size, self.spatial_scale)
