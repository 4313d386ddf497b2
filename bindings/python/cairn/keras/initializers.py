"""First values of weights, as Keras draws them: objects that make a tensor of a shape."""
from __future__ import annotations

import math
from typing import Any, Sequence

import cairn
from .. import nn

__all__ = ["Constant", "GlorotNormal", "GlorotUniform", "HeNormal", "HeUniform", "Identity", "Initializer",
           "LecunNormal", "LecunUniform", "Ones", "Orthogonal", "RandomNormal", "RandomUniform", "TruncatedNormal",
           "VarianceScaling", "Zeros", "constant", "deserialize", "get", "glorot_normal", "glorot_uniform", "he_normal",
           "he_uniform", "identity", "lecun_normal", "lecun_uniform", "ones", "orthogonal", "random_normal",
           "random_uniform", "serialize", "truncated_normal", "variance_scaling", "zeros"]


class Initializer:
    """To subclass with __call__(shape, dtype=None)."""

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        raise NotImplementedError("%s has no method __call__(shape)" % type(self).__name__)

    def get_config(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if not k.startswith("_")}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**{k: v for k, v in config.items() if k not in ("input_axes", "output_axes")})

    def clone(self) -> Any:
        return type(self).from_config(self.get_config())


def _generator(seed: Any) -> Any:
    """Random numbers of a seed of one's own; None: those of the library."""
    seed = getattr(seed, "initial_seed_value", seed)
    return None if seed is None else cairn.Generator().manual_seed(int(seed))


def _empty(shape: Sequence[int], dtype: Any) -> Any:
    from .backend import dtype_of
    return cairn.empty(tuple(int(n) for n in shape), dtype=dtype_of(dtype))


class Zeros(Initializer):
    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        return _empty(shape, dtype).zero_()


class Ones(Initializer):
    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        return _empty(shape, dtype).fill_(1)


class Constant(Initializer):
    def __init__(self, value: Any = 0.0) -> None:
        self.value = value

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        made = _empty(shape, dtype)
        if isinstance(self.value, (int, float)):
            return made.fill_(self.value)
        return made.copy_(cairn.as_tensor(self.value).to(made.dtype).expand_as(made))


class RandomNormal(Initializer):
    def __init__(self, mean: float = 0.0, stddev: float = 0.05, seed: Any = None) -> None:
        self.mean, self.stddev, self.seed = mean, stddev, seed

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        return _empty(shape, dtype).normal_(self.mean, self.stddev, generator=_generator(self.seed))


class RandomUniform(Initializer):
    def __init__(self, minval: float = -0.05, maxval: float = 0.05, seed: Any = None) -> None:
        self.minval, self.maxval, self.seed = minval, maxval, seed

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        return _empty(shape, dtype).uniform_(self.minval, self.maxval, generator=_generator(self.seed))


class TruncatedNormal(RandomNormal):
    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        low, high = self.mean - 2.0 * self.stddev, self.mean + 2.0 * self.stddev
        return nn.init.trunc_normal_(_empty(shape, dtype), self.mean, self.stddev, low, high,
                                     generator=_generator(self.seed))


def fans(shape: Sequence[int]) -> tuple[float, float]:
    """How many numbers come in and go out; kernels end with inputs and outputs."""
    if len(shape) < 2:
        n = float(shape[0]) if shape else 1.0
        return n, n
    field = math.prod(shape[:-2])
    return float(shape[-2] * field), float(shape[-1] * field)


class VarianceScaling(Initializer):
    def __init__(self, scale: float = 1.0, mode: str = "fan_in", distribution: str = "truncated_normal",
                 seed: Any = None) -> None:
        if mode not in ("fan_in", "fan_out", "fan_avg"):
            raise ValueError("mode must be fan_in, fan_out or fan_avg, not %r" % (mode,))
        if distribution not in ("truncated_normal", "untruncated_normal", "normal", "uniform"):
            raise ValueError("unknown distribution %r" % (distribution,))
        self.scale, self.mode, self.distribution, self.seed = scale, mode, distribution, seed

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        into, out = fans(shape)
        n = {"fan_in": into, "fan_out": out, "fan_avg": (into + out) / 2.0}[self.mode]
        variance = self.scale / max(1.0, n)
        if self.distribution == "uniform":
            limit = math.sqrt(3.0 * variance)
            return RandomUniform(-limit, limit, self.seed)(shape, dtype)
        if self.distribution == "untruncated_normal":
            return RandomNormal(0.0, math.sqrt(variance), self.seed)(shape, dtype)
        return TruncatedNormal(0.0, math.sqrt(variance) / 0.87962566103423978, self.seed)(shape, dtype)


class _Scaled(VarianceScaling):
    _how: tuple[float, str, str] = (1.0, "fan_in", "uniform")

    def __init__(self, seed: Any = None) -> None:
        super().__init__(*self._how, seed=seed)

    def get_config(self) -> dict[str, Any]:
        return {"seed": self.seed}


class GlorotUniform(_Scaled):
    _how = (1.0, "fan_avg", "uniform")


class GlorotNormal(_Scaled):
    _how = (1.0, "fan_avg", "truncated_normal")


class HeUniform(_Scaled):
    _how = (2.0, "fan_in", "uniform")


class HeNormal(_Scaled):
    _how = (2.0, "fan_in", "truncated_normal")


class LecunUniform(_Scaled):
    _how = (1.0, "fan_in", "uniform")


class LecunNormal(_Scaled):
    _how = (1.0, "fan_in", "truncated_normal")


class Orthogonal(Initializer):
    def __init__(self, gain: float = 1.0, seed: Any = None) -> None:
        self.gain, self.seed = gain, seed

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        flat = _empty((math.prod(shape[:-1]), shape[-1]), dtype)
        return nn.init.orthogonal_(flat, self.gain, generator=_generator(self.seed)).reshape(tuple(shape))


class Identity(Initializer):
    def __init__(self, gain: float = 1.0) -> None:
        self.gain = gain

    def __call__(self, shape: Sequence[int], dtype: Any = None) -> Any:
        return _empty(shape, dtype).copy_(cairn.eye(int(shape[0]), int(shape[1])) * self.gain)


_classes: dict[str, type[Initializer]] = {
    "zeros": Zeros, "zero": Zeros, "ones": Ones, "one": Ones, "constant": Constant, "random_normal": RandomNormal,
    "normal": RandomNormal, "random_uniform": RandomUniform, "uniform": RandomUniform,
    "truncated_normal": TruncatedNormal, "variance_scaling": VarianceScaling, "glorot_uniform": GlorotUniform,
    "glorot_normal": GlorotNormal, "he_uniform": HeUniform, "he_normal": HeNormal, "lecun_uniform": LecunUniform,
    "lecun_normal": LecunNormal, "orthogonal": Orthogonal, "identity": Identity, "eye": Identity}


zeros, ones, constant, identity, orthogonal = Zeros, Ones, Constant, Identity, Orthogonal
random_normal, random_uniform, truncated_normal = RandomNormal, RandomUniform, TruncatedNormal
variance_scaling, glorot_uniform, glorot_normal = VarianceScaling, GlorotUniform, GlorotNormal
he_uniform, he_normal, lecun_uniform, lecun_normal = HeUniform, HeNormal, LecunUniform, LecunNormal
IdentityInitializer, OrthogonalInitializer = Identity, Orthogonal


def get(identifier: Any) -> Any:
    """The initialiser of a name, class or configuration; functions of a shape are themselves."""
    if identifier is None:
        return None
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        from ._serial import get_custom_objects
        made = get_custom_objects().get(identifier) or _classes.get(identifier) or globals().get(identifier)
        if not isinstance(made, type) and not callable(made):
            raise ValueError("unknown initializer %r; there are %s" % (identifier, ", ".join(sorted(_classes))))
        return made() if isinstance(made, type) else made
    if isinstance(identifier, type):
        return identifier()
    if hasattr(identifier, "shape") and not callable(identifier):
        return Constant(identifier)
    if not callable(identifier):
        raise ValueError("an initializer is a name or a function of a shape, not %r" % (identifier,))
    return identifier


def serialize(initializer: Any) -> Any:
    from ._serial import serialize as serialized
    return serialized(initializer)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return made(config, custom_objects)
