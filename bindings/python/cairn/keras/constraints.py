"""What weights are made to fulfil after each step: keras.constraints."""
from __future__ import annotations

from typing import Any

__all__ = ["Constraint", "MaxNorm", "NonNeg", "UnitNorm", "get", "max_norm", "non_neg", "unit_norm"]


class Constraint:
    """To subclass with __call__(w), which answers what w becomes."""

    def __call__(self, w: Any) -> Any:
        raise NotImplementedError("%s has no method __call__(w)" % type(self).__name__)

    def get_config(self) -> dict[str, Any]:
        return dict(vars(self))


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


max_norm, unit_norm, non_neg = MaxNorm, UnitNorm, NonNeg


def get(identifier: Any) -> Any:
    known: dict[str, type[Constraint]] = {"max_norm": MaxNorm, "unit_norm": UnitNorm, "non_neg": NonNeg,
                                          "MaxNorm": MaxNorm, "UnitNorm": UnitNorm, "NonNeg": NonNeg}
    if isinstance(identifier, dict):
        return known[identifier["class_name"]](**identifier["config"])
    if isinstance(identifier, str):
        if identifier not in known:
            raise ValueError("unknown constraint %r" % (identifier,))
        return known[identifier]()
    return identifier
