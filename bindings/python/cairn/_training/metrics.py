"""Metrics that Model keeps over batches: update_state(y_true, y_pred, sample_weight), result(), reset_state().

Means of functions of a batch, among them the accuracies; figures over classes are counted in C (cairn.metrics), and
cairn.keras.metrics derives Keras's classes from those here."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from . import losses
from .batches import to_tensor

__all__ = ["Automatic", "Mean", "MeanOf", "Metric", "RootMean", "by_name", "masked_weight"]


class Metric:
    """What all are; to subclass with update_state, result and reset_state."""

    _dtype: str | None = None  # the type that it counts in; None: the default

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def _kind(self) -> Any:
        return cairn.get_default_dtype() if self._dtype is None else getattr(cairn, self._dtype)

    def update_state(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("%s has no method update_state" % type(self).__name__)

    def result(self) -> Any:
        raise NotImplementedError("%s has no method result" % type(self).__name__)

    def reset_state(self) -> None:
        raise NotImplementedError("%s has no method reset_state" % type(self).__name__)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.update_state(*args, **kwargs)
        return self.result()

    def __repr__(self) -> str:
        return "<%s name=%s>" % (type(self).__name__, self.name)


class Mean(Metric):
    """The mean of numbers and tensors."""

    total: Any
    count: Any

    def __init__(self, name: str = "mean") -> None:
        super().__init__(name)
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
            weight = losses.as_wide(to_tensor(sample_weight).to(device=values.device, dtype=values.dtype), values)
            self.total = self.total + (values * weight).sum()
            self.count = self.count + weight.expand_as(values).sum()

    def _scalar(self, value: Any) -> Any:
        return value if isinstance(value, cairn.Tensor) else cairn.tensor(float(value), dtype=self._kind)

    def result(self) -> Any:
        return self._scalar(self.total / self.count if float(self.count) else 0.0)

    def reset_state(self) -> None:
        self.total = self.count = 0.0


def masked_weight(values: Any, mask: Any, weight: Any) -> Any:
    """The weights of values whose places a mask may leave out."""
    if mask is None or tuple(mask.shape) != tuple(getattr(values, "shape", ())):
        return weight
    if weight is None:
        return mask
    weight = to_tensor(weight)
    return weight.reshape(tuple(weight.shape) + (1,) * (mask.ndim - weight.ndim)) * mask.to(weight.dtype)


class MeanOf(Mean):
    """The mean of a function of (y_true, y_pred)."""

    def __init__(self, fn: Callable[..., Any], name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name or str(getattr(fn, "__name__", "metric")))
        self.fn, self.kwargs = fn, kwargs

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        values = self.fn(y_true, y_pred, **self.kwargs)
        mask = getattr(y_pred, "_keras_mask", None)
        sample_weight = masked_weight(values, mask, sample_weight)
        if sample_weight is None and getattr(values, "ndim", 1) == 0:
            sample_weight = int(y_pred.shape[0]) if getattr(y_pred, "ndim", 0) else 1
        self._add(values, sample_weight)


class RootMean(MeanOf):
    """The root of the mean: of squared errors, say."""

    def result(self) -> Any:
        return super().result().sqrt()


# ---- accuracies: a number for each sample ----
def _float(t: Any) -> Any:
    return t.to(cairn.float32)


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    y_true, y_pred = losses.pair(y_true, y_pred)
    return losses.mean_of_places(_float(_float(y_pred > threshold) == y_true))


def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    return _float(_float(to_tensor(y_true)).argmax(-1) == to_tensor(y_pred).argmax(-1))


def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
        y_true = y_true.squeeze(-1)
    return _float(y_true == y_pred.argmax(-1))


def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    return sparse_top_k_categorical_accuracy(_float(to_tensor(y_true)).argmax(-1), y_pred, k)


def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
    if y_true.ndim == y_pred.ndim and y_true.shape[-1] == 1:
        y_true = y_true.squeeze(-1)
    best = y_pred.topk(min(k, int(y_pred.shape[-1])), -1)[1]
    return _float((best == y_true.to(best.dtype).unsqueeze(-1)).any(-1))


def exact_accuracy(y_true: Any, y_pred: Any) -> Any:
    y_true, y_pred = losses.pair(y_true, y_pred)
    return _float(y_true == y_pred)


_accuracies: dict[str, Callable[..., Any]] = {f.__name__: f for f in (
    binary_accuracy, categorical_accuracy, sparse_categorical_accuracy, top_k_categorical_accuracy,
    sparse_top_k_categorical_accuracy)}


def _by_shape(y_true: Any, y_pred: Any, names: str) -> str:
    """Which accuracy (or cross entropy) targets and outputs of these shapes mean."""
    if y_pred.ndim == 1 or y_pred.shape[-1] == 1:
        return "binary_" + names
    if tuple(y_true.shape) == tuple(y_pred.shape):
        return "categorical_" + names
    return "sparse_categorical_" + names


class Automatic(Mean):
    """What "accuracy" means depends on the shapes of the first batch and on the loss."""

    def __init__(self, name: str, kind: str, loss: Any) -> None:
        super().__init__(name)
        self.kind, self.loss, self.fn = kind, loss, None

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        mask = getattr(y_pred, "_keras_mask", None)
        y_true, y_pred = to_tensor(y_true), to_tensor(y_pred)
        which = _by_shape(y_true, y_pred, self.kind)
        name = self.loss if isinstance(self.loss, str) else getattr(self.loss, "name", "")
        if self.kind == "accuracy":
            options: dict[str, Any] = {}
            if self._is_binary(name) and which == "categorical_accuracy":
                which = "binary_accuracy"
            if which == "binary_accuracy" and self._scores():
                options = {"threshold": 0.0}
            if name in ("cross_entropy", "CrossEntropyLoss", "nll") and which == "sparse_categorical_accuracy":
                if y_pred.ndim > 2 and y_true.ndim == y_pred.ndim - 1:
                    y_pred = y_pred.movedim(1, -1)  # torch's scores have classes in dimension 1
            values = _accuracies[which](y_true, y_pred, **options)
        else:
            values = losses.functions[which](y_true, y_pred)
        self._add(values, masked_weight(values, mask, sample_weight))

    def _is_binary(self, name: str) -> bool:
        return name in ("bce", "binary_crossentropy", "bce_with_logits", "binary_cross_entropy") or self._scores()

    def _scores(self) -> bool:
        """Whether outputs are scores, so that yes is above 0."""
        if self.loss in ("bce_with_logits", "binary_cross_entropy_with_logits"):
            return True
        return type(self.loss).__name__ == "BCEWithLogitsLoss"


_roots = ("rmse", "root_mean_squared_error")


def by_name(name: str, loss: Any) -> Any:
    """The metric of a name: an accuracy, the mean of a loss, or one of cairn.metrics; loss: what "accuracy" is looked
    at beside."""
    if name in ("accuracy", "acc", "crossentropy", "ce"):
        return Automatic(name, "accuracy" if name.startswith("acc") else "crossentropy", loss)
    if name in _roots:
        return RootMean(losses.mean_squared_error, name)
    known = {**losses.functions, **_accuracies}
    if name in known:
        return MeanOf(known[name], name)
    try:
        return cairn.metrics.get(name)
    except ValueError:
        raise ValueError("unknown metric %r; there are accuracy, crossentropy, %s; cairn.metrics has more, some of "
                         "which need a number of classes" % (name, ", ".join(sorted([*known, *_roots])))) from None
