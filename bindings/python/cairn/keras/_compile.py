"""What Keras's compile() was told: names mean Keras's losses, metrics and optimisers, and a mixed policy scales the
loss. The rest is that of cairn.Model (cairn/_training/compiled.py)."""
from __future__ import annotations

from typing import Any, Callable

from .._training.compiled import Compiled
from . import losses, metrics, optimizers
from .dtype_policies import dtype_policy

__all__ = ["KerasCompiled"]


class KerasCompiled(Compiled):
    def named_loss(self, name: str) -> Any:
        return losses.get(name)

    def named_metric(self, name: str, loss: Any) -> Any:
        return metrics.get(name, loss)

    def mean(self, name: str) -> Any:
        return metrics.Mean(name)

    def mean_of(self, f: Callable[..., Any], name: str) -> Any:
        return metrics.MeanMetricWrapper(f, name)

    def named_optimizer(self, given: Any) -> Any:
        if isinstance(given, (str, dict, type)):
            given = optimizers.get(given)
        ours = isinstance(given, optimizers.Optimizer) and not isinstance(given, optimizers.LossScaleOptimizer)
        if self.scale and ours and dtype_policy().name == "mixed_float16":
            given = optimizers.LossScaleOptimizer(given)
        return given
