"""LossScaleOptimizer: another optimiser, for losses and gradients in float16."""
from __future__ import annotations

from typing import Any, Iterable

import cairn
from ..._arguments import unexpected
from ._base import Optimizer, _tensor

__all__ = ["LossScaleOptimizer"]


class LossScaleOptimizer(Optimizer):
    """Another optimiser, for float16: the loss is made large, gradients small again; a step whose gradients are not
    finite is left out and the scale halved, which doubles after dynamic_growth_steps good ones."""

    def __init__(self, inner_optimizer: Any, initial_scale: float = 2.0 ** 15, dynamic_growth_steps: int = 2000,
                 name: str | None = None, **common: Any) -> None:
        unexpected("LossScaleOptimizer", common)  # what optimisers take in common is for the one inside
        if not isinstance(inner_optimizer, Optimizer):
            from . import get
            inner_optimizer = get(inner_optimizer)
        self.inner_optimizer: Any = None
        super().__init__(name=name)
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
