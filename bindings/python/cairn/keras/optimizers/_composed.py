"""Optimisers that cairn.optim does not have, of ops: Ftrl, Lamb."""
from __future__ import annotations

from typing import Any, Iterable

from ._base import Optimizer

__all__ = ["Ftrl", "Lamb"]


class Ftrl(Optimizer):
    """Follow the regularised leader (McMahan et al., 2013), for sparse linear models."""

    def __init__(self, learning_rate: Any = 0.001, learning_rate_power: float = -0.5,
                 initial_accumulator_value: float = 0.1, l1_regularization_strength: float = 0.0,
                 l2_regularization_strength: float = 0.0, l2_shrinkage_regularization_strength: float = 0.0,
                 beta: float = 0.0, **common: Any) -> None:
        super().__init__(learning_rate, **common)
        if learning_rate_power > 0.0 or initial_accumulator_value < 0.0:
            raise ValueError("Ftrl: learning_rate_power must not be above 0, nor initial_accumulator_value below")
        self.config = {"learning_rate_power": learning_rate_power,
                       "initial_accumulator_value": initial_accumulator_value,
                       "l1_regularization_strength": l1_regularization_strength,
                       "l2_regularization_strength": l2_regularization_strength,
                       "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength, "beta": beta}

    def build(self, variables: Iterable[Any]) -> None:
        super().build(variables)
        self._sums, self._linears = {}, {}
        for w in self._weights:
            self._sums[id(w)] = self.add_variable_from_reference(w, "accumulator")
            self.assign_add(self._sums[id(w)], self.config["initial_accumulator_value"])
            self._linears[id(w)] = self.add_variable_from_reference(w, "linear")

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        own, power = self.config, -self.config["learning_rate_power"]
        total, linear = self._sums[id(variable)], self._linears[id(variable)]
        new = total + gradient.square()
        shrunk = gradient + 2.0 * own["l2_shrinkage_regularization_strength"] * variable
        linear.add_(shrunk - (new.pow(power) - total.pow(power)) / learning_rate * variable)
        l1, l2 = own["l1_regularization_strength"], own["l2_regularization_strength"] + own["beta"] / 2 / learning_rate
        variable.copy_((linear.clamp(-l1, l1) - linear) / (new.pow(power) / learning_rate + 2.0 * l2))
        total.copy_(new)


class Lamb(Optimizer):
    """Adam's steps in proportion to the size of each weight (You et al., 2019), for large batches."""

    def __init__(self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
                 **common: Any) -> None:
        super().__init__(learning_rate, **common)
        self.config = {"beta_1": beta_1, "beta_2": beta_2, "epsilon": epsilon}

    def build(self, variables: Iterable[Any]) -> None:
        super().build(variables)
        self._moments = {id(w): (self.add_variable_from_reference(w, "momentum"),
                                 self.add_variable_from_reference(w, "velocity")) for w in self._weights}

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        (first, second), t = self._moments[id(variable)], self.count + 1
        b1, b2 = self.config["beta_1"], self.config["beta_2"]
        first.lerp_(gradient, 1.0 - b1)
        second.lerp_(gradient.square(), 1.0 - b2)
        step = first / (1.0 - b1 ** t) / ((second / (1.0 - b2 ** t)).sqrt() + self.config["epsilon"])
        own, length = float(variable.norm()), float(step.norm())
        variable.sub_(step * (learning_rate * (own / length if own > 0.0 and length > 0.0 else 1.0)))
