"""keras.random: random tensors, by the library's numbers or a SeedGenerator's."""
from __future__ import annotations

from typing import Any

import cairn
from ..nn import functional as F
from .backend import dtype_of

__all__ = ["SeedGenerator", "categorical", "dropout", "normal", "randint", "shuffle", "truncated_normal", "uniform"]


class SeedGenerator:
    """Random numbers of its own, which go on from call to call."""

    def __init__(self, seed: int | None = None, **ignored: Any) -> None:
        self.initial_seed_value = int(cairn.randint(0, 1 << 31, (1,)).item()) if seed is None else int(seed)
        self.generator = cairn.Generator().manual_seed(self.initial_seed_value)


def _generator(seed: Any) -> Any:
    if seed is None:
        return None
    return seed.generator if isinstance(seed, SeedGenerator) else cairn.Generator().manual_seed(int(seed))


def _shape(shape: Any) -> tuple[int, ...]:
    return (shape,) if isinstance(shape, int) else tuple(int(n) for n in shape)


def normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    return cairn.empty(_shape(shape), dtype=dtype_of(dtype)).normal_(mean, stddev, generator=_generator(seed))


def uniform(shape: Any, minval: float = 0.0, maxval: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    return cairn.empty(_shape(shape), dtype=dtype_of(dtype)).uniform_(minval, maxval, generator=_generator(seed))


def truncated_normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = None, seed: Any = None) -> Any:
    made = cairn.empty(_shape(shape), dtype=dtype_of(dtype))
    return cairn.nn.init.trunc_normal_(made, mean, stddev, mean - 2 * stddev, mean + 2 * stddev,
                                       generator=_generator(seed))


def randint(shape: Any, minval: int, maxval: int, dtype: Any = "int32", seed: Any = None) -> Any:
    return cairn.randint(minval, maxval, _shape(shape), generator=_generator(seed)).to(dtype_of(dtype))


def categorical(logits: Any, num_samples: int, dtype: Any = "int32", seed: Any = None) -> Any:
    chances = F.softmax(logits, dim=-1)
    return cairn.multinomial(chances, num_samples, True, generator=_generator(seed)).to(dtype_of(dtype))


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    return x.index_select(axis, cairn.randperm(int(x.shape[axis]), generator=_generator(seed)))


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    return F.dropout(inputs, rate, training=True)
