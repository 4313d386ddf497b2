"""What all of Keras's metrics share: Metric to subclass, means and sums."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from . import dtype_policies
from ._batches import to_tensor
from .backend import dtype_of, floatx

__all__ = ["Mean", "MeanMetricWrapper", "Metric", "Sum"]


class Metric:
    """To subclass with update_state, result and reset_state; self.x = self.add_variable(...) for what it counts."""

    def __init__(self, dtype: Any = None, name: str | None = None) -> None:
        self.name = name or _snake(type(self).__name__)
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

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("%s has no method update_state" % type(self).__name__)

    def result(self) -> Any:
        raise NotImplementedError("%s has no method result" % type(self).__name__)

    def reset_state(self) -> None:
        for variable, first in self._variables:
            variable.assign(first)

    reset_states = property(lambda self: self.reset_state)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.update_state(*args, **kwargs)
        return self.result()

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

    @property
    def _kind(self) -> Any:
        return dtype_of(self._dtype)

    def __repr__(self) -> str:
        return "<%s name=%s>" % (type(self).__name__, self.name)


def _snake(name: str) -> str:
    known = {"AUC": "auc", "MeanIoU": "mean_io_u", "FBetaScore": "fbeta_score",
             "R2Score": "r2_score", "F1Score": "f1_score"}
    return known.get(name) or "".join("_" + c.lower() if c.isupper() and i else c.lower()
                                      for i, c in enumerate(name))


class Mean(Metric):
    """The mean of numbers and tensors."""

    total: Any
    count: Any

    def __init__(self, name: str | None = "mean", dtype: Any = None) -> None:
        super().__init__(dtype, name)
        self.reset_state()

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        self._add(*args, **kwargs)

    def _add(self, values: Any, sample_weight: Any = None) -> None:
        if isinstance(values, (int, float)) and not isinstance(sample_weight, cairn.Tensor):
            weight = 1.0 if sample_weight is None else float(sample_weight)
            self.total, self.count = self.total + values * weight, self.count + weight
            return
        values = to_tensor(values).detach().to(self._kind)
        if sample_weight is None:
            self.total, self.count = self.total + values.sum(), self.count + values.numel()
        elif isinstance(sample_weight, (int, float)):
            self.total = self.total + values.sum() * sample_weight
            self.count = self.count + values.numel() * sample_weight
        else:
            weight = to_tensor(sample_weight).to(device=values.device, dtype=values.dtype)
            while weight.ndim > values.ndim and weight.shape[-1] == 1:
                weight = weight.squeeze(-1)
            weight = weight.reshape(tuple(weight.shape) + (1,) * (values.ndim - weight.ndim)).expand_as(values)
            self.total, self.count = self.total + (values * weight).sum(), self.count + weight.sum()

    def _scalar(self, value: Any) -> Any:
        return value if isinstance(value, cairn.Tensor) else cairn.tensor(float(value), dtype=self._kind)

    def result(self) -> Any:
        return self._scalar(self.total / self.count if float(self.count) else 0.0)

    def reset_state(self) -> None:
        self.total = self.count = 0.0


class Sum(Mean):
    def __init__(self, name: str | None = "sum", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def result(self) -> Any:
        return self._scalar(self.total)


def masked_weight(values: Any, mask: Any, weight: Any) -> Any:
    """The weights of values whose places a mask may leave out."""
    if mask is None or tuple(mask.shape) != tuple(getattr(values, "shape", ())):
        return weight
    if weight is None:
        return mask
    weight = to_tensor(weight)
    return weight.reshape(tuple(weight.shape) + (1,) * (mask.ndim - weight.ndim)) * mask.to(weight.dtype)


class MeanMetricWrapper(Mean):
    """The mean of a function of (y_true, y_pred)."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name or getattr(fn, "__name__", "metric"), dtype)
        self.fn, self.kwargs = fn, kwargs

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        values = self.fn(y_true, y_pred, **self.kwargs)
        mask = getattr(y_pred, "_keras_mask", None)
        sample_weight = masked_weight(values, mask, sample_weight)
        if sample_weight is None and getattr(values, "ndim", 1) == 0:
            sample_weight = int(y_pred.shape[0]) if getattr(y_pred, "ndim", 0) else 1
        self._add(values, sample_weight)


def _float(t: Any) -> Any:
    return t.to(cairn.float32)
