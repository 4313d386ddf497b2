"""Transforms of whole batches: images mixed with each other, and their classes with them."""
from __future__ import annotations

import math
from typing import Any

from .. import _C
from .._tensor import Tensor
from ..nn import functional as _F
from ._random import _below

__all__ = ["MixUp", "CutMix"]


class MixUp:
    """Each sample of a batch mixed with another, in a proportion drawn from the beta distribution of alpha:
    `x, y = MixUp(num_classes=10)(x, y)`. y becomes the probabilities of the classes."""

    def __init__(self, alpha: float = 1.0, num_classes: int | None = None) -> None:
        self.alpha = float(alpha)
        self.num_classes = num_classes

    def __call__(self, *inputs: Any) -> Any:
        x, y = inputs if len(inputs) == 2 else inputs[0]
        return self.mix(x, y)

    def mix(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return _C._mixup(x, y, _classes(y, self.num_classes), self.alpha)

    def __repr__(self) -> str:
        return "%s(alpha=%s, num_classes=%s)" % (type(self).__name__, self.alpha, self.num_classes)


class CutMix(MixUp):
    """A window of each image replaced by that of another, and the classes mixed by its part of the area."""

    def mix(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        classes = _classes(y, self.num_classes)
        part = float(_C._mixup(_C.tensor([1.0, 0.0]), _C.tensor([0, 1]), 2, self.alpha)[0][0].item())
        h, w = x.shape[-2:]
        row, column, side = _below(h), _below(w), 0.5 * math.sqrt(1 - part)
        top, bottom = max(row - round(side * h), 0), min(row + round(side * h), h)
        left, right = max(column - round(side * w), 0), min(column + round(side * w), w)
        mixed = x.clone()
        mixed[..., top:bottom, left:right] = x.roll(1, 0)[..., top:bottom, left:right]
        part = 1 - (bottom - top) * (right - left) / (h * w)
        one = _F.one_hot(y, classes).float()
        return mixed, one * part + one.roll(1, 0) * (1 - part)


def _classes(y: Tensor, given: int | None) -> int:
    if given is None:
        raise ValueError("num_classes must be given for classes as numbers")
    if y.ndim != 1:
        raise ValueError("the classes are one number for each sample, not of shape %s" % (tuple(y.shape),))
    return given
