"""Learning rates that depend on the step, as keras.optimizers.schedules: formulas that an optimiser asks before a step.

cairn.optim.lr_scheduler has those of torch, which change an optimiser's groups themselves.
"""
from __future__ import annotations

import math
from typing import Any

__all__ = ["CosineDecay", "CosineDecayRestarts", "ExponentialDecay", "InverseTimeDecay", "LearningRateSchedule",
           "PiecewiseConstantDecay", "PolynomialDecay", "deserialize", "serialize"]


class LearningRateSchedule:
    """To subclass with __call__(step), which returns a rate."""

    def __call__(self, step: Any) -> float:
        raise NotImplementedError("%s has no method __call__(step)" % type(self).__name__)

    def get_config(self) -> dict[str, Any]:
        return {k: v for k, v in vars(self).items() if not k.startswith("_")}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)


class ExponentialDecay(LearningRateSchedule):
    def __init__(self, initial_learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False,
                 name: str = "ExponentialDecay") -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.decay_rate, self.staircase, self.name = decay_rate, staircase, name

    def __call__(self, step: Any) -> float:
        p = float(step) / self.decay_steps
        return float(self.initial_learning_rate * self.decay_rate ** (math.floor(p) if self.staircase else p))


class InverseTimeDecay(ExponentialDecay):
    def __init__(self, initial_learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False,
                 name: str = "InverseTimeDecay") -> None:
        super().__init__(initial_learning_rate, decay_steps, decay_rate, staircase, name)

    def __call__(self, step: Any) -> float:
        p = float(step) / self.decay_steps
        return self.initial_learning_rate / (1.0 + self.decay_rate * (math.floor(p) if self.staircase else p))


class PiecewiseConstantDecay(LearningRateSchedule):
    def __init__(self, boundaries: list[float], values: list[float], name: str = "PiecewiseConstant") -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError("PiecewiseConstantDecay needs one value more than boundaries; got %d and %d"
                             % (len(values), len(boundaries)))
        self.boundaries, self.values, self.name = list(boundaries), list(values), name

    def __call__(self, step: Any) -> float:
        return float(self.values[sum(float(step) > b for b in self.boundaries)])


class PolynomialDecay(LearningRateSchedule):
    def __init__(self, initial_learning_rate: float, decay_steps: float, end_learning_rate: float = 0.0001,
                 power: float = 1.0, cycle: bool = False, name: str = "PolynomialDecay") -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle, self.name = end_learning_rate, power, cycle, name

    def __call__(self, step: Any) -> float:
        at, whole = float(step), float(self.decay_steps)
        if self.cycle:
            whole *= max(1.0, math.ceil(at / whole))
        else:
            at = min(at, whole)
        span = self.initial_learning_rate - self.end_learning_rate
        return float(span * (1.0 - at / whole) ** self.power + self.end_learning_rate)


class CosineDecay(LearningRateSchedule):
    def __init__(self, initial_learning_rate: float, decay_steps: float, alpha: float = 0.0, name: str = "CosineDecay",
                 warmup_target: float | None = None, warmup_steps: int = 0) -> None:
        self.initial_learning_rate, self.decay_steps, self.alpha = initial_learning_rate, decay_steps, alpha
        self.name, self.warmup_target, self.warmup_steps = name, warmup_target, warmup_steps

    def __call__(self, step: Any) -> float:
        at, top = float(step), self.initial_learning_rate
        if self.warmup_target is not None:
            if at < self.warmup_steps:
                return top + (self.warmup_target - top) * at / self.warmup_steps
            at, top = at - self.warmup_steps, self.warmup_target
        along = 0.5 * (1.0 + math.cos(math.pi * min(at, self.decay_steps) / self.decay_steps))
        return top * ((1.0 - self.alpha) * along + self.alpha)


class CosineDecayRestarts(LearningRateSchedule):
    def __init__(self, initial_learning_rate: float, first_decay_steps: float, t_mul: float = 2.0, m_mul: float = 1.0,
                 alpha: float = 0.0, name: str = "SGDRDecay") -> None:
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name

    def __call__(self, step: Any) -> float:
        at, length, height = float(step), float(self.first_decay_steps), 1.0
        while at >= length:
            at, length, height = at - length, length * self.t_mul, height * self.m_mul
        along = 0.5 * height * (1.0 + math.cos(math.pi * at / length))
        return self.initial_learning_rate * ((1.0 - self.alpha) * along + self.alpha)


def serialize(learning_rate_schedule: LearningRateSchedule) -> dict[str, Any]:
    from ..saving import serialize as serialized
    made: dict[str, Any] = serialized(learning_rate_schedule)
    return made


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    from ..saving import _find
    name = config["class_name"]
    kind = globals().get(name) or (custom_objects or {}).get(name) or _find(name)
    return kind.from_config(config["config"])
