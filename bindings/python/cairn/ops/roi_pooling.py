"""Regions of feature maps brought to one size: roi_align, roi_pool, and those whose channels belong to places (ps_).

Boxes are (k, 5) with the number of the image first, or a list with a tensor (n, 4) for each image; they get no
gradient, as in torchvision. The ops are C's.
"""
from __future__ import annotations

from typing import Any

from .. import _C, nn
from .._tensor import Tensor

__all__ = ["PSRoIAlign", "PSRoIPool", "RoIAlign", "RoIPool", "ps_roi_align", "ps_roi_pool", "roi_align", "roi_pool"]


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


def _pair(size: Any) -> list[int]:
    return [size, size] if isinstance(size, int) else [int(size[0]), int(size[-1])]


def roi_align(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0, sampling_ratio: int = -1,
              aligned: bool = False) -> Tensor:
    """Each box of the images as (channels, *output_size): means of points in each bin, sampling_ratio each way, or as
    many as there are pixels. Boxes are those of the images, times spatial_scale; aligned moves them by half a pixel."""
    return _C.roi_align(input, _regions(boxes), _pair(output_size), float(spatial_scale), sampling_ratio, aligned)


def roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Each box of the images as (channels, *output_size): the largest number of each bin, whose sides are rounded to
    pixels."""
    return _C.roi_pool(input, _regions(boxes), _pair(output_size), float(spatial_scale))[0]


def ps_roi_align(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0,
                 sampling_ratio: int = -1) -> Tensor:
    """roi_align in which each bin has channels of its own: (k, channels / bins, *output_size)."""
    return _C.ps_roi_align(input, _regions(boxes), _pair(output_size), float(spatial_scale), sampling_ratio)


def ps_roi_pool(input: Tensor, boxes: Any, output_size: Any, spatial_scale: float = 1.0) -> Tensor:
    """Means of whole pixels, each bin of channels of its own: (k, channels / bins, *output_size)."""
    return _C.ps_roi_pool(input, _regions(boxes), _pair(output_size), float(spatial_scale))


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
