"""Regions taken from the feature map whose size fits theirs. torchvision.ops.poolers' names."""
from __future__ import annotations

import math
from typing import Any, Sequence

from .. import _C, nn
from .._tensor import Tensor
from .boxes import box_area
from .roi_pooling import roi_align

__all__ = ["MultiScaleRoIAlign"]


class MultiScaleRoIAlign(nn.Module):
    """roi_align on one of several maps for each box: the larger the box, the smaller the map. A box of canonical_scale
    belongs to the level canonical_level, which counts halvings of the image's size."""

    def __init__(self, featmap_names: Sequence[str], output_size: Any, sampling_ratio: int, *,
                 canonical_scale: int = 224, canonical_level: int = 4) -> None:
        super().__init__()
        self.featmap_names = featmap_names
        self.output_size = (output_size, output_size) if isinstance(output_size, int) else tuple(output_size)
        self.sampling_ratio = sampling_ratio
        self.canonical_scale, self.canonical_level = canonical_scale, canonical_level
        self.scales: list[float] | None = None

    def _scales(self, maps: list[Tensor], image_shapes: Sequence[Sequence[int]]) -> list[float]:
        """How much smaller than the images each map is: a power of two."""
        if not image_shapes:
            raise ValueError("images list should not be empty")
        high = max(shape[0] for shape in image_shapes)
        wide = max(shape[1] for shape in image_shapes)
        found = []
        for m in maps:
            sides = [2.0 ** round(math.log2(size / whole)) for size, whole in zip(m.shape[-2:], (high, wide))]
            found.append(sides[0])
        return found

    def _levels(self, boxes: Tensor, scales: list[float]) -> Tensor:
        first, last = round(-math.log2(scales[0])), round(-math.log2(scales[-1]))
        level = _C.floor(self.canonical_level + _C.log2(box_area(boxes).sqrt() / self.canonical_scale) + 1e-6)
        return (level.clamp(first, last) - first).to(_C.int64)

    def forward(self, x: dict[str, Tensor], boxes: list[Tensor], image_shapes: list[tuple[int, int]]) -> Tensor:
        maps = [m for name, m in x.items() if name in self.featmap_names]
        if self.scales is None:
            self.scales = self._scales(maps, image_shapes)
        rois = _C.cat([_C.cat((_C.full_like(b[:, :1], i), b), 1) for i, b in enumerate(boxes)], 0)
        if len(maps) == 1:
            return roi_align(maps[0], rois, self.output_size, self.scales[0], self.sampling_ratio)
        levels = self._levels(rois[:, 1:], self.scales)
        rows = [(levels == i).nonzero().squeeze(1) for i in range(len(maps))]
        parts = [roi_align(m, rois[row], self.output_size, scale, self.sampling_ratio)
                 for m, row, scale in zip(maps, rows, self.scales)]
        return _C.cat(parts)[_C.cat(rows).argsort()]

    def __repr__(self) -> str:
        return "%s(featmap_names=%s, output_size=%s, sampling_ratio=%s)" % (
            type(self).__name__, self.featmap_names, self.output_size, self.sampling_ratio)
