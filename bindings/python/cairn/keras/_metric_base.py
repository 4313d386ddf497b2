"""What all of Keras's metrics share: Metric to subclass, means and sums."""
from __future__ import annotations

from typing import Any, Callable

from .._training import metrics as training
from . import dtype_policies
from .backend import dtype_of, floatx

__all__ = ["Mean", "MeanMetricWrapper", "Metric", "Sum"]


class Metric(training.Metric):
    """To subclass with update_state, result and reset_state; self.x = self.add_variable(...) for what it counts."""

    def __init__(self, dtype: Any = None, name: str | None = None) -> None:
        training.Metric.__init__(self, name or _snake(type(self).__name__))
        self._dtype = None if dtype is None else dtype_policies.get(dtype).compute_dtype
        self._variables: list[Any] = []

    def add_variable(self, shape: Any = (), initializer: Any = "zeros", dtype: Any = None, aggregation: str = "sum",
                     name: str | None = None) -> Any:
        """A number or array that reset_state() sets back. aggregation: how replicas are joined; there is one."""
        from . import initializers
        from .layers.variable import Variable, check_aggregation
        check_aggregation(aggregation)
        kind = self._kind if dtype is None else dtype_of(dtype)
        first = initializers.get("zeros" if initializer is None else initializer)(tuple(shape), kind)
        made = Variable(first, dtype=kind, trainable=False, name=name or "variable")
        self._variables.append((made, made.value.clone()))
        return made

    def add_weight(self, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], str):
            kwargs["name"], args = args[0], args[1:]
        return self.add_variable(*args, **kwargs)

    @property
    def variables(self) -> list[Any]:
        return [v for v, _ in self._variables]

    def reset_state(self) -> None:
        for variable, first in self._variables:
            variable.assign(first)

    reset_states = property(lambda self: self.reset_state)

    def get_config(self) -> dict[str, Any]:
        """What it was made with, as far as it says so by attributes of the same names."""
        import inspect
        config: dict[str, Any] = {"name": self.name}
        for p in list(inspect.signature(type(self).__init__).parameters.values())[1:]:
            kept = self.__dict__.get("kwargs", {})
            if p.name == "name" or p.kind in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
                continue
            if p.name in kept:
                config[p.name] = kept[p.name]
            elif hasattr(self, p.name):
                config[p.name] = getattr(self, p.name)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)

    @property
    def dtype(self) -> str:
        """The type that it counts in."""
        return floatx() if self._dtype is None else self._dtype


def _snake(name: str) -> str:
    known = {"AUC": "auc", "MeanIoU": "mean_io_u", "FBetaScore": "fbeta_score",
             "R2Score": "r2_score", "F1Score": "f1_score"}
    return known.get(name) or "".join("_" + c.lower() if c.isupper() and i else c.lower()
                                      for i, c in enumerate(name))


class Mean(training.Mean, Metric):
    """The mean of numbers and tensors."""

    def __init__(self, name: str | None = "mean", dtype: Any = None) -> None:
        Metric.__init__(self, dtype, name)
        self.reset_state()


class Sum(Mean):
    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def result(self) -> Any:
        return self._scalar(self.total)


class MeanMetricWrapper(training.MeanOf, Mean):
    """The mean of a function of (y_true, y_pred)."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        Mean.__init__(self, name or getattr(fn, "__name__", "metric"), dtype)
        self.fn, self.kwargs = fn, kwargs
