"""keras.random: random tensors, by the library's numbers or a SeedGenerator's."""
from __future__ import annotations

from typing import Any

import cairn
from ..nn import functional as F
from .._training.batches import to_tensor
from .backend import dtype_of

__all__ = ["SeedGenerator", "beta", "binomial", "categorical", "dropout", "gamma", "normal", "randint", "shuffle",
           "truncated_normal", "uniform"]


class SeedGenerator:
    """Random numbers of its own, which go on from call to call."""

    def __init__(self, seed: int | None = None, name: str = "seed_generator") -> None:
        self.name = name
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
    chances = F.softmax(to_tensor(logits), dim=-1)
    return cairn.multinomial(chances, num_samples, True, generator=_generator(seed)).to(dtype_of(dtype))


def shuffle(x: Any, axis: int = 0, seed: Any = None) -> Any:
    x = to_tensor(x)
    return x.index_select(axis, cairn.randperm(int(x.shape[axis]), generator=_generator(seed)))


def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
    """Zeros in a part `rate` of the places, the others larger; noise_shape: of what is drawn, 1 where it is shared."""
    if not 0.0 <= rate < 1.0:
        raise ValueError("rate is from 0 to below 1, not %r" % (rate,))
    shape = tuple(inputs.shape) if noise_shape is None else tuple(
        int(inputs.shape[i]) if n is None else int(n) for i, n in enumerate(noise_shape))
    kept = cairn.empty(shape, dtype=inputs.dtype).uniform_(generator=_generator(seed)) >= rate
    return inputs * kept.to(device=inputs.device, dtype=inputs.dtype) / (1.0 - rate)


def _open(shape: Any, seed: Any) -> Any:
    """Above 0 and at most 1."""
    return 1.0 - cairn.empty(_shape(shape)).uniform_(generator=_generator(seed))


def gamma(shape: Any, alpha: Any, dtype: Any = None, seed: Any = None) -> Any:
    """Of the shape parameter alpha and scale 1 (Marsaglia and Tsang, 2000)."""
    seed = seed if isinstance(seed, SeedGenerator) else SeedGenerator(seed)
    size = _shape(shape)
    a = cairn.as_tensor(alpha, dtype=cairn.float32).expand(size)
    d = cairn.where(a < 1.0, a + 1.0, a) - 1.0 / 3.0
    c = 1.0 / (9.0 * d).sqrt()
    made, open_ = cairn.zeros(size), cairn.ones(size, dtype=cairn.bool)
    while bool(open_.any()):
        x, u = normal(size, seed=seed), _open(size, seed)
        v = (1.0 + c * x).pow(3)
        good = open_ & (v > 0) & (u.log() < 0.5 * x * x + d - d * v + d * v.clamp(min=1e-30).log())
        made = cairn.where(good, d * v, made)
        open_ = open_ & ~good
    made = cairn.where(a < 1.0, made * _open(size, seed).pow(1.0 / a), made)
    return made.to(dtype_of(dtype))


def beta(shape: Any, alpha: Any, beta: Any, dtype: Any = None, seed: Any = None) -> Any:
    seed = seed if isinstance(seed, SeedGenerator) else SeedGenerator(seed)
    a, b = gamma(shape, alpha, seed=seed), gamma(shape, beta, seed=seed)
    return (a / (a + b)).to(dtype_of(dtype))


def binomial(shape: Any, counts: Any, probabilities: Any, dtype: Any = None, seed: Any = None) -> Any:
    """How many of `counts` throws succeed."""
    size = _shape(shape)
    many = cairn.as_tensor(counts).expand(size)
    most = int(many.max().item())
    thrown = cairn.empty(size + (most,)).uniform_(generator=_generator(seed)) < cairn.as_tensor(
        probabilities, dtype=cairn.float32).expand(size).unsqueeze(-1)
    used = cairn.arange(most) < many.unsqueeze(-1)
    return (thrown & used).sum(-1).to(dtype_of(dtype))
