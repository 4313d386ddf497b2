"""Transforms that move the pixels of an image by what they draw: perspective and rubber sheets; and the linear one."""
from __future__ import annotations

from typing import Any, Sequence

from .. import _C
from .._tensor import Tensor
from . import functional as F
from ._plain import Transform
from ._random import _below, _happens, _probability
from .functional import InterpolationMode

__all__ = ["ElasticTransform", "LinearTransformation", "RandomPerspective"]

_BILINEAR = InterpolationMode.BILINEAR


class RandomPerspective(Transform):
    """Seen from aside with probability p: each corner moves inwards by up to `distortion_scale` of half a side."""

    _fields = ("p",)

    def __init__(self, distortion_scale: float = 0.5, p: float = 0.5,
                 interpolation: InterpolationMode | int = _BILINEAR, fill: Any = 0) -> None:
        self.p = _probability(p)
        self.distortion_scale = distortion_scale
        self.interpolation = F._mode(interpolation)
        self.fill = 0 if fill is None else fill

    @staticmethod
    def get_params(width: int, height: int, distortion_scale: float) -> tuple[list[list[int]], list[list[int]]]:
        """The corners, from the upper left one with the clock, and where they come to lie."""
        x, y = int(distortion_scale * (width // 2)), int(distortion_scale * (height // 2))
        right, bottom = width - x - 1, height - y - 1
        corners = [[0, 0], [width - 1, 0], [width - 1, height - 1], [0, height - 1]]
        moved = [[_below(x + 1), _below(y + 1)], [right + _below(x + 1), _below(y + 1)],
                 [right + _below(x + 1), bottom + _below(y + 1)], [_below(x + 1), bottom + _below(y + 1)]]
        return corners, moved

    def forward(self, img: Any) -> Any:
        if not _happens(self.p):
            return img
        width, height = F.get_image_size(img)
        corners, moved = self.get_params(width, height, self.distortion_scale)
        return F.perspective(img, corners, moved, self.interpolation, self.fill)


class ElasticTransform(Transform):
    """As on a rubber sheet: places moved at random, by `alpha` and smoothed by a bell curve of width `sigma`."""

    _fields = ("alpha", "sigma", "interpolation", "fill")

    def __init__(self, alpha: float | Sequence[float] = 50.0, sigma: float | Sequence[float] = 5.0,
                 interpolation: InterpolationMode | int = _BILINEAR, fill: Any = 0) -> None:
        self.alpha = self._both(alpha, "alpha")
        self.sigma = self._both(sigma, "sigma")
        self.interpolation = F._mode(interpolation)
        self.fill = [float(v) for v in fill] if isinstance(fill, (list, tuple)) else [float(fill or 0)]

    @staticmethod
    def _both(value: float | Sequence[float], name: str) -> list[float]:
        values = [float(value)] * 2 if isinstance(value, (int, float)) else [float(v) for v in value]
        if len(values) not in (1, 2):
            raise ValueError("%s has one or two numbers, not %d" % (name, len(values)))
        return values * 2 if len(values) == 1 else values

    @staticmethod
    def get_params(alpha: Sequence[float], sigma: Sequence[float], size: Sequence[int]) -> Tensor:
        """The displacement (1, height, width, 2)."""
        moves = []
        for a, s, side in zip(alpha, sigma, size):
            move = _C.rand(1, 1, size[0], size[1]) * 2 - 1
            if s > 0:
                k = int(8 * s + 1)
                k += 1 - k % 2
                move = F.gaussian_blur(move, [k, k], [float(v) for v in sigma])
            moves.append(move * a / side)
        return _C.cat(moves, 1).permute(0, 2, 3, 1)

    def forward(self, img: Any) -> Any:
        _, height, width = F.get_dimensions(img)
        moves = self.get_params(self.alpha, self.sigma, [height, width])
        return F.elastic_transform(img, moves, self.interpolation, self.fill)

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, ", ".join("%s=%s" % (n, getattr(self, n)) for n in self._fields))


class LinearTransformation(Transform):
    """A matrix times the image as one long row, less a mean: whitening."""

    _fields = ("transformation_matrix", "mean_vector")

    def __init__(self, transformation_matrix: Tensor, mean_vector: Tensor) -> None:
        n = transformation_matrix.shape[0]
        if tuple(transformation_matrix.shape) != (n, n):
            raise ValueError("the matrix must be square, not %s" % (tuple(transformation_matrix.shape),))
        if mean_vector.numel() != n:
            raise ValueError("the mean has %d numbers for a matrix of %d rows" % (mean_vector.numel(), n))
        self.transformation_matrix = transformation_matrix
        self.mean_vector = mean_vector

    def forward(self, img: Any) -> Tensor:
        shape, n = img.shape, self.transformation_matrix.shape[0]
        if shape[-3] * shape[-2] * shape[-1] != n:
            raise ValueError("an image of %s does not fit a matrix of %d rows" % (tuple(shape), n))
        made: Tensor = ((img.reshape(-1, n) - self.mean_vector) @ self.transformation_matrix).reshape(shape)
        return made

    def __repr__(self) -> str:
        return "%s(transformation_matrix=%s, mean_vector=%s)" % (
            type(self).__name__, self.transformation_matrix.tolist(), self.mean_vector.tolist())
