"""Metrics as Keras has them: update_state(y_true, y_pred, sample_weight), result(), reset_state().

They add up what losses and ops of cairn say of each batch; figures over classes as in scikit-learn are cairn.metrics.
"""
from __future__ import annotations

import inspect
from typing import Any, Callable

import cairn
from .._arguments import unexpected
from . import losses
from ._batches import to_tensor
from ._metric_base import Mean, MeanMetricWrapper, Metric, Sum, _float, masked_weight
from ._metric_counts import (AUC, F1Score, FalseNegatives, FalsePositives, MeanIoU, Precision, R2Score, Recall,
                             TrueNegatives, TruePositives)

from ._metric_more import (BinaryIoU, ConcordanceCorrelation, FBetaScore, IoU, OneHotIoU, OneHotMeanIoU,
                           PearsonCorrelation, PrecisionAtRecall, RecallAtPrecision, SensitivityAtSpecificity,
                           SpecificityAtSensitivity, concordance_correlation, pearson_correlation)
from .losses import (binary_crossentropy, binary_focal_crossentropy, categorical_crossentropy,
                     categorical_focal_crossentropy, categorical_hinge, hinge, huber, kl_divergence, log_cosh,
                     mean_absolute_error, mean_absolute_percentage_error, mean_squared_error,
                     mean_squared_logarithmic_error, poisson, sparse_categorical_crossentropy, squared_hinge)

__all__ = ["BinaryIoU", "CategoricalHinge", "ConcordanceCorrelation", "FBetaScore", "Hinge", "IoU", "LogCoshError",
           "OneHotIoU", "OneHotMeanIoU", "PearsonCorrelation", "PrecisionAtRecall", "RecallAtPrecision",
           "SensitivityAtSpecificity", "SpecificityAtSensitivity", "SquaredHinge", "binary_crossentropy",
           "binary_focal_crossentropy", "categorical_crossentropy", "categorical_focal_crossentropy",
           "categorical_hinge", "concordance_correlation", "deserialize", "hinge", "huber", "kl_divergence", "log_cosh",
           "mean_absolute_error", "mean_absolute_percentage_error", "mean_squared_error",
           "mean_squared_logarithmic_error", "pearson_correlation", "poisson", "serialize",
           "sparse_categorical_crossentropy", "sparse_top_k_categorical_accuracy", "squared_hinge"]
__all__ += ["AUC", "Accuracy", "BinaryAccuracy", "BinaryCrossentropy", "CategoricalAccuracy", "CategoricalCrossentropy",
           "CosineSimilarity", "F1Score", "FalseNegatives", "FalsePositives", "KLDivergence", "Mean",
           "MeanAbsoluteError", "MeanAbsolutePercentageError", "MeanIoU", "MeanMetricWrapper", "MeanSquaredError",
           "MeanSquaredLogarithmicError", "Metric", "Poisson", "Precision", "R2Score", "Recall",
           "RootMeanSquaredError", "SparseCategoricalAccuracy", "SparseCategoricalCrossentropy",
           "SparseTopKCategoricalAccuracy", "Sum", "TopKCategoricalAccuracy", "TrueNegatives", "TruePositives",
           "binary_accuracy", "categorical_accuracy", "get", "sparse_categorical_accuracy",
           "top_k_categorical_accuracy"]


def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    y_true, y_pred = losses._pair(y_true, y_pred)
    return losses._mean(_float(_float(y_pred > threshold) == y_true))


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
    y_true, y_pred = losses._pair(y_true, y_pred)
    return _float(y_true == y_pred)


def _by_shape(y_true: Any, y_pred: Any, names: str) -> str:
    """Which accuracy (or cross entropy) targets and outputs of these shapes mean."""
    if y_pred.ndim == 1 or y_pred.shape[-1] == 1:
        return "binary_" + names
    if tuple(y_true.shape) == tuple(y_pred.shape):
        return "categorical_" + names
    return "sparse_categorical_" + names


class _Automatic(Mean):
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
            values = globals()[which](y_true, y_pred, **options)
        else:
            values = getattr(losses, which)(y_true, y_pred)
        self._add(values, masked_weight(values, mask, sample_weight))

    def _is_binary(self, name: str) -> bool:
        return name in ("bce", "binary_crossentropy", "bce_with_logits", "binary_cross_entropy") or self._scores()

    def _scores(self) -> bool:
        """Whether outputs are scores, so that yes is above 0."""
        if self.loss in ("bce_with_logits", "binary_cross_entropy_with_logits"):
            return True
        return type(self.loss).__name__ == "BCEWithLogitsLoss"


class Accuracy(MeanMetricWrapper):
    def __init__(self, name: str | None = "accuracy", dtype: Any = None) -> None:
        super().__init__(exact_accuracy, name, dtype)


class BinaryAccuracy(MeanMetricWrapper):
    def __init__(self, name: str | None = "binary_accuracy", dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(binary_accuracy, name, dtype, threshold=threshold)


class CategoricalAccuracy(MeanMetricWrapper):
    def __init__(self, name: str | None = "categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(categorical_accuracy, name, dtype)


class SparseCategoricalAccuracy(MeanMetricWrapper):
    def __init__(self, name: str | None = "sparse_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_categorical_accuracy, name, dtype)


class TopKCategoricalAccuracy(MeanMetricWrapper):
    def __init__(self, k: int = 5, name: str | None = "top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(top_k_categorical_accuracy, name, dtype, k=k)


class SparseTopKCategoricalAccuracy(MeanMetricWrapper):
    def __init__(self, k: int = 5, name: str | None = "sparse_top_k_categorical_accuracy", dtype: Any = None) -> None:
        super().__init__(sparse_top_k_categorical_accuracy, name, dtype, k=k)


class _OfLoss(MeanMetricWrapper):
    function: Callable[..., Any] = staticmethod(losses.mean_squared_error)

    def __init__(self, name: str | None = None, dtype: Any = None, **options: Any) -> None:
        takes = inspect.signature(type(self).function).parameters
        unexpected(type(self).__name__, {k: v for k, v in options.items() if k not in takes})
        super().__init__(type(self).function, name or type(self).function.__name__, dtype, **options)


class MeanSquaredError(_OfLoss):
    pass


class RootMeanSquaredError(_OfLoss):
    def __init__(self, name: str | None = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name, dtype)

    def result(self) -> Any:
        return super().result().sqrt()


class MeanAbsoluteError(_OfLoss):
    function = staticmethod(losses.mean_absolute_error)


class MeanAbsolutePercentageError(_OfLoss):
    function = staticmethod(losses.mean_absolute_percentage_error)


class MeanSquaredLogarithmicError(_OfLoss):
    function = staticmethod(losses.mean_squared_logarithmic_error)


class KLDivergence(_OfLoss):
    function = staticmethod(losses.kl_divergence)


class Poisson(_OfLoss):
    function = staticmethod(losses.poisson)


class Hinge(_OfLoss):
    function = staticmethod(losses.hinge)


class SquaredHinge(_OfLoss):
    function = staticmethod(losses.squared_hinge)


class CategoricalHinge(_OfLoss):
    function = staticmethod(losses.categorical_hinge)


class LogCoshError(_OfLoss):
    function = staticmethod(losses.log_cosh)

    def __init__(self, name: str | None = "logcosh", dtype: Any = None) -> None:
        super().__init__(name, dtype)


class BinaryCrossentropy(_OfLoss):
    function = staticmethod(losses.binary_crossentropy)


class CategoricalCrossentropy(_OfLoss):
    function = staticmethod(losses.categorical_crossentropy)


class SparseCategoricalCrossentropy(_OfLoss):
    function = staticmethod(losses.sparse_categorical_crossentropy)


class CosineSimilarity(MeanMetricWrapper):
    def __init__(self, name: str | None = "cosine_similarity", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(lambda y, p: -losses.cosine_similarity(y, p, axis), name, dtype)
        self.axis = axis


_names: dict[str, Any] = {
    "mse": lambda: MeanSquaredError("mse"), "mae": lambda: MeanAbsoluteError("mae"),
    "mape": lambda: MeanAbsolutePercentageError("mape"), "msle": lambda: MeanSquaredLogarithmicError("msle"),
    "rmse": lambda: RootMeanSquaredError("rmse"), "auc": AUC, "precision": Precision, "recall": Recall,
    "mean_squared_error": MeanSquaredError, "mean_absolute_error": MeanAbsoluteError,
    "root_mean_squared_error": RootMeanSquaredError, "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy, "sparse_categorical_accuracy": SparseCategoricalAccuracy,
    "top_k_categorical_accuracy": TopKCategoricalAccuracy, "r2_score": R2Score,
    "sparse_top_k_categorical_accuracy": SparseTopKCategoricalAccuracy, "cosine_similarity": CosineSimilarity,
    "mean_absolute_percentage_error": MeanAbsolutePercentageError, "f1_score": F1Score, "poisson": Poisson,
    "mean_squared_logarithmic_error": MeanSquaredLogarithmicError, "kl_divergence": KLDivergence,
    "binary_crossentropy": BinaryCrossentropy, "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy, "true_positives": TruePositives,
    "false_positives": FalsePositives, "true_negatives": TrueNegatives, "false_negatives": FalseNegatives}
_names.update({"MSE": _names["mse"], "MAE": _names["mae"]})


def get(identifier: Any, loss: Any = None) -> Any:
    """The metric of a name; loss: what "accuracy" is looked at beside."""
    if isinstance(identifier, dict):
        return deserialize(identifier)
    if not isinstance(identifier, str):
        return identifier
    if identifier in ("accuracy", "acc"):
        return _Automatic(identifier, "accuracy", loss)
    if identifier in ("crossentropy", "ce"):
        return _Automatic(identifier, "crossentropy", loss)
    if identifier in _names:
        return _names[identifier]()
    from ._serial import get_custom_objects
    made = get_custom_objects().get(identifier) or globals().get(identifier)
    if isinstance(made, type) and issubclass(made, Metric):
        return made()
    if identifier in losses._functions:
        return MeanMetricWrapper(losses._functions[identifier], identifier)
    try:  # figures over classes: f1, perplexity, ...
        return cairn.metrics.get(identifier)
    except ValueError:
        raise ValueError("unknown metric %r; there are accuracy, %s; cairn.metrics has more, some of which need a "
                         "number of classes" % (identifier, ", ".join(sorted(_names)))) from None


def serialize(metric: Any) -> Any:
    from ._serial import serialize as serialized
    return serialized(metric)


def deserialize(config: Any, custom_objects: Any = None) -> Any:
    from ._serial import deserialize as made
    return get(config) if isinstance(config, str) else made(config, custom_objects)
