"""Boxes to begin with, at each place of feature maps. torchvision.models.detection.anchor_utils' names."""
from __future__ import annotations

import math
from typing import Any, Sequence

from ... import _C, nn
from ..._tensor import Tensor
from .image_list import ImageList

__all__ = ["AnchorGenerator", "DefaultBoxGenerator"]


class AnchorGenerator(nn.Module):
    """For each map, boxes of some sizes and ratios of sides around each of its places."""

    def __init__(self, sizes: Sequence[Any] = ((128, 256, 512),), aspect_ratios: Sequence[Any] = ((0.5, 1.0, 2.0),)
                 ) -> None:
        super().__init__()
        if not isinstance(sizes[0], (list, tuple)):
            sizes = tuple((s,) for s in sizes)
        if not isinstance(aspect_ratios[0], (list, tuple)):
            aspect_ratios = (aspect_ratios,) * len(sizes)
        self.sizes, self.aspect_ratios = sizes, aspect_ratios
        self.cell_anchors = [self.generate_anchors(s, r) for s, r in zip(sizes, aspect_ratios)]

    def generate_anchors(self, scales: Sequence[float], aspect_ratios: Sequence[float], dtype: Any = None,
                         device: Any = "cpu") -> Tensor:
        """Boxes around 0, (ratios * scales, 4), in whole numbers."""
        given = {"dtype": _C.float32 if dtype is None else dtype, "device": device}
        size, root = _C.as_tensor(list(scales), **given), _C.sqrt(_C.as_tensor(list(aspect_ratios), **given))
        wide, high = ((1 / root)[:, None] * size).reshape(-1), (root[:, None] * size).reshape(-1)
        return (_C.stack((-wide, -high, wide, high), 1) / 2).round()

    def num_anchors_per_location(self) -> list[int]:
        return [len(s) * len(r) for s, r in zip(self.sizes, self.aspect_ratios)]

    def set_cell_anchors(self, dtype: Any, device: Any) -> None:
        self.cell_anchors = [a.to(dtype=dtype, device=device) for a in self.cell_anchors]

    def grid_anchors(self, grid_sizes: Sequence[Sequence[int]], strides: Sequence[Sequence[int]]) -> list[Tensor]:
        if not len(grid_sizes) == len(strides) == len(self.cell_anchors):
            raise AssertionError("Anchors should be lists of one length: there are %d sizes of anchors, %d maps and %d "
                                 "strides" % (len(self.cell_anchors), len(grid_sizes), len(strides)))
        made = []
        for (high, wide), (down, right), base in zip(grid_sizes, strides, self.cell_anchors):
            x, y = _C.arange(0, wide, device=base.device) * right, _C.arange(0, high, device=base.device) * down
            x, y = x[None, :].expand(high, wide).reshape(-1), y[:, None].expand(high, wide).reshape(-1)
            shifts = _C.stack((x, y, x, y), 1)
            made.append((shifts[:, None] + base[None]).reshape(-1, 4))
        return made

    def forward(self, image_list: ImageList, feature_maps: Sequence[Tensor]) -> list[Tensor]:
        high, wide = image_list.tensors.shape[-2:]
        grids = [(m.shape[-2], m.shape[-1]) for m in feature_maps]
        self.set_cell_anchors(feature_maps[0].dtype, feature_maps[0].device)
        made = _C.cat(self.grid_anchors(grids, [(high // h, wide // w) for h, w in grids]))
        return [made for _ in image_list.image_sizes]


class DefaultBoxGenerator(nn.Module):
    """SSD's boxes: at each place of a map two squares, and two boxes for each ratio of sides."""

    def __init__(self, aspect_ratios: Sequence[Sequence[float]], min_ratio: float = 0.15, max_ratio: float = 0.9,
                 scales: Sequence[float] | None = None, steps: Sequence[int] | None = None, clip: bool = True) -> None:
        super().__init__()
        if steps is not None and len(aspect_ratios) != len(steps):
            raise ValueError("aspect_ratios and steps should have the same length")
        self.aspect_ratios, self.steps, self.clip = aspect_ratios, steps, clip
        n = len(aspect_ratios)
        if scales is not None:
            self.scales = list(scales)
        elif n > 1:
            self.scales = [min_ratio + (max_ratio - min_ratio) * k / (n - 1.0) for k in range(n)] + [1.0]
        else:
            self.scales = [min_ratio, max_ratio]
        self._wh_pairs = [self._sides(k) for k in range(n)]

    def _sides(self, k: int) -> Tensor:
        scale, between = self.scales[k], math.sqrt(self.scales[k] * self.scales[k + 1])
        pairs = [[scale, scale], [between, between]]
        for ratio in self.aspect_ratios[k]:
            wide, high = scale * math.sqrt(ratio), scale / math.sqrt(ratio)
            pairs += [[wide, high], [high, wide]]
        return _C.as_tensor(pairs, dtype=_C.float32)

    def num_anchors_per_location(self) -> list[int]:
        return [2 + 2 * len(ratios) for ratios in self.aspect_ratios]

    def _grid_default_boxes(self, grid_sizes: Sequence[Sequence[int]], image_size: Sequence[int],
                            dtype: Any = None) -> Tensor:
        """Middles and sides, as parts of the image."""
        made = []
        for k, (rows, columns) in enumerate(grid_sizes):
            down = image_size[0] / self.steps[k] if self.steps is not None else rows
            right = image_size[1] / self.steps[k] if self.steps is not None else columns
            x = ((_C.arange(0, columns) + 0.5) / right).to(_C.float32)
            y = ((_C.arange(0, rows) + 0.5) / down).to(_C.float32)
            x, y = x[None, :].expand(rows, columns).reshape(-1), y[:, None].expand(rows, columns).reshape(-1)
            sides = self._wh_pairs[k].clamp(min=0, max=1) if self.clip else self._wh_pairs[k]
            middles = _C.stack((x, y), 1)[:, None].expand(-1, len(sides), 2)
            made.append(_C.cat((middles, sides[None].expand(len(x), -1, 2)), 2).reshape(-1, 4))
        return _C.cat(made).to(_C.float32 if dtype is None else dtype)

    def __repr__(self) -> str:
        return "%s(aspect_ratios=%s, clip=%s, scales=%s, steps=%s)" % (
            type(self).__name__, self.aspect_ratios, self.clip, self.scales, self.steps)

    def forward(self, image_list: ImageList, feature_maps: Sequence[Tensor]) -> list[Tensor]:
        size = image_list.tensors.shape[-2:]
        first = feature_maps[0]
        boxes = self._grid_default_boxes([m.shape[-2:] for m in feature_maps], size, first.dtype).to(first.device)
        whole = _C.tensor([float(size[1]), float(size[0])], device=first.device)
        middle, sides = boxes[:, :2], 0.5 * boxes[:, 2:]
        made = _C.cat(((middle - sides) * whole, (middle + sides) * whole), 1)
        return [made for _ in image_list.image_sizes]
