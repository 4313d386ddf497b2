"""Metrics at an operating point of a curve, of overlapping areas, of correlation."""
from __future__ import annotations

from typing import Any

import cairn
from . import losses
from ._batches import to_tensor
from ._metric_base import MeanMetricWrapper
from ._metric_counts import F1Score, MeanIoU, _Counts, _ratio

__all__ = ["BinaryIoU", "ConcordanceCorrelation", "FBetaScore", "IoU", "OneHotIoU", "OneHotMeanIoU",
           "PearsonCorrelation", "PrecisionAtRecall", "RecallAtPrecision", "SensitivityAtSpecificity",
           "SpecificityAtSensitivity", "concordance_correlation", "pearson_correlation"]


class _AtPoint(_Counts):
    """The best of one figure among thresholds where another is at least a value."""

    def __init__(self, value: float, num_thresholds: int, class_id: int | None, name: str | None, dtype: Any) -> None:
        if not 0.0 <= value <= 1.0:
            raise ValueError("the figure to reach is between 0 and 1, not %r" % (value,))
        between = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([0.0] + between + [1.0] if num_thresholds > 1 else [0.5], name, dtype, class_id)
        self.value, self.num_thresholds = value, num_thresholds

    def _best(self, wanted: Any, held: Any) -> Any:
        if not isinstance(wanted, cairn.Tensor):
            return cairn.tensor(0.0, dtype=self._kind)
        good = held >= self.value
        return cairn.where(good, wanted, cairn.zeros_like(wanted)).amax()

    def _rates(self) -> tuple[Any, Any, Any]:
        """Precision, recall (sensitivity), specificity."""
        precision, recall = _ratio(self.tp, self.tp + self.fp), _ratio(self.tp, self.tp + self.fn)
        return precision, recall, _ratio(self.tn, self.tn + self.fp)


class PrecisionAtRecall(_AtPoint):
    def __init__(self, recall: float, num_thresholds: int = 200, class_id: int | None = None, name: str | None = None,
                 dtype: Any = None) -> None:
        super().__init__(recall, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        precision, recall, _ = self._rates()
        return self._best(precision, recall)


class RecallAtPrecision(_AtPoint):
    def __init__(self, precision: float, num_thresholds: int = 200, class_id: int | None = None,
                 name: str | None = None, dtype: Any = None) -> None:
        super().__init__(precision, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        precision, recall, _ = self._rates()
        return self._best(recall, precision)


class SensitivityAtSpecificity(_AtPoint):
    def __init__(self, specificity: float, num_thresholds: int = 200, class_id: int | None = None,
                 name: str | None = None, dtype: Any = None) -> None:
        super().__init__(specificity, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        _, sensitivity, specificity = self._rates()
        return self._best(sensitivity, specificity)


class SpecificityAtSensitivity(_AtPoint):
    def __init__(self, sensitivity: float, num_thresholds: int = 200, class_id: int | None = None,
                 name: str | None = None, dtype: Any = None) -> None:
        super().__init__(sensitivity, num_thresholds, class_id, name, dtype)

    def result(self) -> Any:
        _, sensitivity, specificity = self._rates()
        return self._best(specificity, sensitivity)


class FBetaScore(F1Score):
    def __init__(self, average: str | None = None, beta: float = 1.0, threshold: float | None = None,
                 name: str | None = "fbeta_score", dtype: Any = None) -> None:
        super().__init__(average, threshold, name, dtype)
        if beta <= 0.0:
            raise ValueError("beta is above 0, not %r" % (beta,))
        self.beta = beta

    def _score(self, hit: Any, said: Any, true: Any) -> Any:
        square = self.beta ** 2
        return _ratio((1.0 + square) * hit, said + square * true)


# ---- areas ----
class IoU(MeanIoU):
    """The mean over some of the classes."""

    def __init__(self, num_classes: int, target_class_ids: Any, name: str | None = "io_u", dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_true: bool = True, sparse_y_pred: bool = True,
                 axis: int = -1) -> None:
        super().__init__(num_classes, name, dtype, sparse_y_true, sparse_y_pred, ignore_class=ignore_class, axis=axis)
        self.chosen = list(target_class_ids)


class BinaryIoU(IoU):
    def __init__(self, target_class_ids: Any = (0, 1), threshold: float | None = 0.5, name: str | None = "binary_io_u",
                 dtype: Any = None) -> None:
        super().__init__(2, target_class_ids, name, dtype)
        self.threshold = threshold

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_pred = to_tensor(y_pred)
        super().update_state(y_true, y_pred if self.threshold is None else (y_pred >= self.threshold), sample_weight)


class OneHotIoU(IoU):
    def __init__(self, num_classes: int, target_class_ids: Any, name: str | None = "one_hot_io_u", dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_pred: bool = False, axis: int = -1) -> None:
        super().__init__(num_classes, target_class_ids, name, dtype, ignore_class, False, sparse_y_pred, axis)


class OneHotMeanIoU(MeanIoU):
    def __init__(self, num_classes: int, name: str | None = "one_hot_mean_io_u", dtype: Any = None,
                 ignore_class: int | None = None, sparse_y_pred: bool = False, axis: int = -1) -> None:
        super().__init__(num_classes, name, dtype, False, sparse_y_pred, ignore_class=ignore_class, axis=axis)


# ---- correlation ----
def pearson_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    y_true, y_pred = losses._pair(y_true, y_pred)
    t, p = y_true - y_true.mean(axis, keepdim=True), y_pred - y_pred.mean(axis, keepdim=True)
    t, p = t / t.std(axis, correction=0, keepdim=True), p / p.std(axis, correction=0, keepdim=True)
    return (t * p).mean(axis)


def concordance_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    t, p = losses._pair(y_true, y_pred)
    tm, pm = t.mean(axis, keepdim=True), p.mean(axis, keepdim=True)
    spread = t.var(axis, correction=0, keepdim=True) + p.var(axis, correction=0, keepdim=True) + (tm - pm).square()
    return (2.0 * (t - pm) * (p - pm) / (spread + 1e-7)).mean(axis)


class PearsonCorrelation(MeanMetricWrapper):
    def __init__(self, name: str | None = "pearson_correlation", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(pearson_correlation, name, dtype, axis=axis)


class ConcordanceCorrelation(MeanMetricWrapper):
    def __init__(self, name: str | None = "concordance_correlation", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(concordance_correlation, name, dtype, axis=axis)
