"""Metrics as Keras has them: update_state(y_true, y_pred, sample_weight), result(), reset_state().

They add up what losses and ops of cairn say of each batch; figures over classes as in scikit-learn are cairn.metrics.
"""
from __future__ import annotations

import inspect
from typing import Any, Callable

import cairn
from .._arguments import unexpected
from .._training.losses import functions
from .._training.metrics import (Automatic, binary_accuracy, categorical_accuracy, exact_accuracy,
                                 sparse_categorical_accuracy, sparse_top_k_categorical_accuracy,
                                 top_k_categorical_accuracy)
from . import losses
from ._metric_base import Mean, MeanMetricWrapper, Metric, Sum
from ._metric_areas import BinaryIoU, IoU, MeanIoU, OneHotIoU, OneHotMeanIoU
from ._metric_correlation import (ConcordanceCorrelation, PearsonCorrelation, R2Score, concordance_correlation,
                                  pearson_correlation)
from ._metric_counts import (AUC, F1Score, FalseNegatives, FalsePositives, FBetaScore, Precision, Recall,
                             TrueNegatives, TruePositives)
from ._metric_points import PrecisionAtRecall, RecallAtPrecision, SensitivityAtSpecificity, SpecificityAtSensitivity
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


class _Automatic(Automatic, Mean):
    """What "accuracy" means depends on the shapes of the first batch and on the loss."""


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
    if identifier in functions:
        return MeanMetricWrapper(functions[identifier], identifier)
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
