"""HalfCauchy: the absolute value of a Cauchy number."""
from __future__ import annotations

from typing import TYPE_CHECKING

import cairn as cn

from ._location import Half
from .cauchy import Cauchy

if TYPE_CHECKING:
    from cairn import Tensor

__all__ = ["HalfCauchy"]


class HalfCauchy(Half):
    """|x| of a Cauchy x around 0 with the given scale."""

    whole = Cauchy

    @property
    def mean(self) -> Tensor:
        """inf"""
        return self.scale.new_full(self._extended_shape(), cn.inf)

    @property
    def variance(self) -> Tensor:
        """inf"""
        return self.mean
