"""Optimisers that cairn.optim does not have, of ops: Ftrl, Lamb; and LossScaleOptimizer around another."""
from __future__ import annotations

from typing import Any, Iterable

import cairn
from ._base import Optimizer, _tensor

__all__ = ["Ftrl", "Lamb", "LossScaleOptimizer"]


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


class LossScaleOptimizer(Optimizer):
    """Another optimiser, for float16: the loss is made large, gradients small again; a step whose gradients are not
    finite is left out and the scale halved, which doubles after dynamic_growth_steps good ones."""

    def __init__(self, inner_optimizer: Any, initial_scale: float = 2.0 ** 15, dynamic_growth_steps: int = 2000,
                 name: str | None = None, **common: Any) -> None:
        if not isinstance(inner_optimizer, Optimizer):
            from . import get
            inner_optimizer = get(inner_optimizer)
        self.inner_optimizer: Any = None
        super().__init__(name=name, **common)
        self.inner_optimizer = inner_optimizer
        self.initial_scale, self.dynamic_growth_steps = float(initial_scale), dynamic_growth_steps
        self.dynamic_scale, self.good = self.initial_scale, 0

    @property
    def learning_rate(self) -> Any:
        return self.inner_optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        if self.inner_optimizer is not None:
            self.inner_optimizer.learning_rate = value

    lr = learning_rate

    @property
    def iterations(self) -> Any:
        return self.inner_optimizer.iterations

    @property
    def variables(self) -> list[Any]:
        found: list[Any] = self.inner_optimizer.variables
        return found

    def build(self, variables: Iterable[Any]) -> None:
        self.inner_optimizer.build(variables)
        self.built = True

    def scale_loss(self, loss: Any) -> Any:
        return loss * self.dynamic_scale

    def step_on(self, weights: list[Any]) -> None:
        own = [w for w in map(_tensor, weights) if w.grad is not None]
        for w in own:
            w.grad = w.grad / self.dynamic_scale
        if not all(bool(cairn.isfinite(w.grad).all()) for w in own):
            self.dynamic_scale, self.good = self.dynamic_scale / 2.0, 0
            return
        self.good += 1
        if self.good >= self.dynamic_growth_steps:
            self.dynamic_scale, self.good = self.dynamic_scale * 2.0, 0
        self.inner_optimizer.step_on(weights)

    def finalize_variable_values(self, var_list: Iterable[Any]) -> None:
        self.inner_optimizer.finalize_variable_values(var_list)

    def state_dict(self) -> dict[str, Any]:
        return {"scale": self.dynamic_scale, "good": self.good, "inner": self.inner_optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.dynamic_scale, self.good = float(state["scale"]), int(state["good"])
        self.inner_optimizer._model = self._model
        self.inner_optimizer.load_state_dict(state["inner"])

    def get_config(self) -> dict[str, Any]:
        from . import serialize
        return {"name": self.name, "inner_optimizer": serialize(self.inner_optimizer),
                "initial_scale": self.initial_scale, "dynamic_growth_steps": self.dynamic_growth_steps}
