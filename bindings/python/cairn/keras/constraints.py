"""What weights are made to fulfil after each step: keras.constraints."""
from __future__ import annotations

from typing import Any

__all__ = ["Constraint", "MaxNorm", "MinMaxNorm", "NonNeg", "UnitNorm", "deserialize", "get", "max_norm",
           "min_max_norm", "non_neg", "serialize", "unit_norm"]


class Constraint:
    """To subclass with __call__(w), which returns what w becomes."""

    def __call__(self, w: Any) -> Any:
        raise NotImplementedError("%s has no method __call__(w)" % type(self).__name__)

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class MaxNorm(Constraint):
    def __init__(self, max_value: float = 2.0, axis: int = 0) -> None:
        self.max_value, self.axis = max_value, axis

    def __call__(self, w: Any) -> Any:
        norms = w.square().sum(self.axis, keepdim=True).sqrt()
        return w * (norms.clamp(0.0, self.max_value) / (norms + 1e-7))


class UnitNorm(Constraint):
    def __init__(self, axis: int = 0) -> None:
        self.axis = axis

    def __call__(self, w: Any) -> Any:
        return w / (w.square().sum(self.axis, keepdim=True).sqrt() + 1e-7)


class NonNeg(Constraint):
    def __call__(self, w: Any) -> Any:
        return w.clamp(min=0.0)


class MinMaxNorm(Constraint):
    def __init__(self, min_value: float = 0.0, max_value: float = 1.0, rate: float = 1.0, axis: Any = 0) -> None:
        self.min_value, self.max_value, self.rate, self.axis = min_value, max_value, rate, axis

    def __call__(self, w: Any) -> Any:
        norms = w.square().sum(self.axis, keepdim=True).sqrt()
        wanted = self.rate * norms.clamp(self.min_value, self.max_value) + (1.0 - self.rate) * norms
        return w * (wanted / (norms + 1e-7))


max_norm, unit_norm, non_neg, min_max_norm = MaxNorm, UnitNorm, NonNeg, MinMaxNorm


def get(identifier: Any) -> Any:
    """The constraint of a name or configuration; others are themselves."""
    known: dict[str, type[Constraint]] = {"max_norm": MaxNorm, "unit_norm": UnitNorm, "non_neg": NonNeg,
                                          "min_max_norm": MinMaxNorm, "MaxNorm": MaxNorm, "UnitNorm": UnitNorm,
                                          "NonNeg": NonNeg, "MinMaxNorm": MinMaxNorm}
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if isinstance(identifier, str):
        from ._serial import get_custom_objects
        made = get_custom_objects().get(identifier) or known.get(identifier)
        if made is None:
            raise ValueError("unknown constraint %r; there are %s" % (identifier, ", ".join(sorted(known))))
        return made() if isinstance(made, type) else made
    return identifier() if isinstance(identifier, type) else identifier


def serialize(constraint: Any) -> Any:
    from ._serial import serialize as serialized
    return serialized(constraint)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return made(config, custom_objects)
