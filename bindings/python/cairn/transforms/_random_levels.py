"""Transforms that change the levels of some images, by chance: sharpness, contrast, histogram, bits, inversion."""
from __future__ import annotations

from typing import Any

from . import functional as F
from ._random import _Sometimes

__all__ = ["RandomAdjustSharpness", "RandomAutocontrast", "RandomEqualize", "RandomPosterize", "RandomSolarize"]


class RandomAdjustSharpness(_Sometimes):
    """functional.adjust_sharpness with probability p."""

    def __init__(self, sharpness_factor: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.sharpness_factor = sharpness_factor

    def __repr__(self) -> str:
        return "%s(sharpness_factor=%s,p=%s)" % (type(self).__name__, self.sharpness_factor, self.p)

    def change(self, img: Any) -> Any:
        return F.adjust_sharpness(img, self.sharpness_factor)


class RandomAutocontrast(_Sometimes):
    """functional.autocontrast with probability p."""

    def change(self, img: Any) -> Any:
        return F.autocontrast(img)


class RandomEqualize(_Sometimes):
    """functional.equalize with probability p."""

    def change(self, img: Any) -> Any:
        return F.equalize(img)


class RandomPosterize(_Sometimes):
    """functional.posterize with probability p."""

    def __init__(self, bits: int, p: float = 0.5) -> None:
        super().__init__(p)
        self.bits = bits

    def __repr__(self) -> str:
        return "%s(bits=%s,p=%s)" % (type(self).__name__, self.bits, self.p)

    def change(self, img: Any) -> Any:
        return F.posterize(img, self.bits)


class RandomSolarize(_Sometimes):
    """functional.solarize with probability p."""

    def __init__(self, threshold: float, p: float = 0.5) -> None:
        super().__init__(p)
        self.threshold = threshold

    def __repr__(self) -> str:
        return "%s(threshold=%s,p=%s)" % (type(self).__name__, self.threshold, self.p)

    def change(self, img: Any) -> Any:
        return F.solarize(img, self.threshold)
