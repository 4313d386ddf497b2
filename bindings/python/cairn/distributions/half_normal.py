"""HalfNormal: the absolute value of a normal number."""
from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ._location import Half
from .normal import Normal

if TYPE_CHECKING:
    from cairn import Tensor

__all__ = ["HalfNormal"]


class HalfNormal(Half):
    """|x| of a normal x with mean 0 and standard deviation scale."""

    whole = Normal

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale.pow(2) * (1 - 2 / math.pi)
