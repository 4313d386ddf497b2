"""Dropout and noise: what happens while training only. A seed gives a layer random numbers of its own."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from ..random import SeedGenerator
from .base import Layer

__all__ = ["AlphaDropout", "Dropout", "GaussianDropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D",
           "SpatialDropout3D"]


class _Noise(Layer):
    _float_inputs = supports_masking = True

    def _seeded(self, seed: Any) -> None:
        self.seed = seed
        self._numbers = None if seed is None else SeedGenerator(getattr(seed, "initial_seed_value", seed)).generator

    def _kept(self, shape: Any, rate: float, like: Any) -> Any:
        """Ones with the chance 1 - rate, else zeros."""
        drawn = cairn.rand(tuple(int(n) for n in shape), generator=self._numbers)
        return (drawn >= rate).to(device=like.device, dtype=like.dtype)

    def _normal(self, like: Any) -> Any:
        if self._numbers is None:
            return cairn.randn_like(like)
        return cairn.randn(tuple(like.shape), generator=self._numbers).to(device=like.device, dtype=like.dtype)


class Dropout(_Noise):
    """Zeros for a part of the numbers while training."""

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError("the rate of %s is between 0 and 1, not %r" % (type(self).__name__, rate))
        self._options(rate=rate, noise_shape=None if noise_shape is None else tuple(noise_shape))
        self._seeded(seed)
        self.built = True

    def _shape(self, inputs: Any) -> tuple[int, ...]:
        """Of the draws: 1 where all share one."""
        if self.noise_shape is None:
            return tuple(int(n) for n in inputs.shape)
        return tuple(int(inputs.shape[i]) if n is None else n for i, n in enumerate(self.noise_shape))

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None and self._numbers is None:
            return F.dropout(inputs, self.rate, training=True)
        if self.rate >= 1:
            return cairn.zeros_like(inputs)
        return inputs * self._kept(self._shape(inputs), self.rate, inputs) / (1.0 - self.rate)


class SpatialDropout1D(Dropout):
    """Whole channels of (N, T, C)."""

    _not_options = ("noise_shape",)

    def __init__(self, rate: float, seed: int | None = None, name: str | None = None, dtype: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(rate, (None, 1, None), seed, name=name, dtype=dtype, **kwargs)


class SpatialDropout2D(Dropout):
    """Whole channels of images."""

    ndim = 2
    _not_options = ("noise_shape",)

    def __init__(self, rate: float, data_format: str | None = None, seed: int | None = None, name: str | None = None,
                 dtype: Any = None, **kwargs: Any) -> None:
        first, ones = data_format == "channels_first", (1,) * self.ndim
        super().__init__(rate, (None, None, *ones) if first else (None, *ones, None), seed, name=name, dtype=dtype,
                         **kwargs)
        self._options(data_format=data_format or "channels_last")


class SpatialDropout3D(SpatialDropout2D):
    """Whole channels of volumes."""

    ndim = 3


class AlphaDropout(Dropout):
    """Dropout that leaves mean and size of what selu returns."""

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None and self._numbers is None:
            return F.alpha_dropout(inputs, self.rate, training=True)
        low = -1.0507009873554805 * 1.6732632423543772  # where selu ends
        scale = ((1.0 - self.rate) * (1.0 + self.rate * low * low)) ** -0.5
        kept = self._kept(self._shape(inputs), self.rate, inputs)
        return (inputs * kept + low * (1.0 - kept)) * scale - scale * low * self.rate


class GaussianNoise(_Noise):
    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= stddev <= 1:
            raise ValueError("stddev of GaussianNoise is between 0 and 1, not %r" % (stddev,))
        self._options(stddev=stddev)
        self._seeded(seed)
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        return inputs + self._normal(inputs) * self.stddev if training and self.stddev else inputs


class GaussianDropout(_Noise):
    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate < 1:
            raise ValueError("the rate of GaussianDropout is in [0, 1), not %r" % (rate,))
        self._options(rate=rate)
        self._seeded(seed)
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or not self.rate:
            return inputs
        return inputs * (1.0 + self._normal(inputs) * math.sqrt(self.rate / (1.0 - self.rate)))
