"""Metrics of how outputs follow targets: the share of their spread that is explained, and correlations."""
from __future__ import annotations

from typing import Any

import cairn
from .._training.batches import to_tensor
from .._training.losses import pair
from ._metric_base import MeanMetricWrapper, Metric

__all__ = ["ConcordanceCorrelation", "PearsonCorrelation", "R2Score", "concordance_correlation",
           "pearson_correlation"]


class R2Score(Metric):
    """How much of the spread of the targets the outputs explain."""

    sums: list[Any]

    def __init__(self, class_aggregation: str | None = "uniform_average", num_regressors: int = 0,
                 name: str | None = "r2_score", dtype: Any = None) -> None:
        super().__init__(dtype, name)
        if class_aggregation not in (None, "uniform_average", "variance_weighted_average"):
            raise ValueError("class_aggregation is None, uniform_average or variance_weighted_average, not %r"
                             % (class_aggregation,))
        self.class_aggregation, self.num_regressors, self.samples = class_aggregation, num_regressors, 0
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = pair(y_true, y_pred)
        t, p = (v.to(self._kind).reshape(v.shape[0], -1) for v in (y_true, y_pred))
        w = cairn.ones_like(t) if sample_weight is None else \
            to_tensor(sample_weight).to(t.dtype).reshape(-1, 1).expand_as(t)
        self.samples += int(t.shape[0])
        new = ((t * w).sum(0), (t.square() * w).sum(0), ((t - p).square() * w).sum(0), w.sum(0))
        self.sums = [a + b for a, b in zip(self.sums, new)]

    def result(self) -> Any:
        total, squares, residual, count = self.sums
        if not self.samples:
            return cairn.tensor(float("nan"), dtype=self._kind)
        spread = squares - total * total / count
        score: Any = 1.0 - residual / spread
        score = cairn.where(score.isinf(), 0.0, score)  # targets that do not differ say nothing
        if self.class_aggregation == "uniform_average":
            score = score.mean()
        elif self.class_aggregation == "variance_weighted_average":
            score = (score * spread).sum() / spread.sum()
        if self.num_regressors:
            free = self.samples - self.num_regressors - 1
            score = 1.0 - (1.0 - score) * (self.samples - 1) / max(free, 1)
        return score

    def reset_state(self) -> None:
        self.samples = 0
        self.sums = [0.0, 0.0, 0.0, 0.0]


def pearson_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    y_true, y_pred = pair(y_true, y_pred)
    t, p = y_true - y_true.mean(axis, keepdim=True), y_pred - y_pred.mean(axis, keepdim=True)
    t, p = t / t.std(axis, correction=0, keepdim=True), p / p.std(axis, correction=0, keepdim=True)
    return (t * p).mean(axis)


def concordance_correlation(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    t, p = pair(y_true, y_pred)
    tm, pm = t.mean(axis, keepdim=True), p.mean(axis, keepdim=True)
    spread = t.var(axis, correction=0, keepdim=True) + p.var(axis, correction=0, keepdim=True) + (tm - pm).square()
    return (2.0 * (t - pm) * (p - pm) / (spread + 1e-7)).mean(axis)


class PearsonCorrelation(MeanMetricWrapper):
    def __init__(self, name: str | None = "pearson_correlation", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(pearson_correlation, name, dtype, axis=axis)


class ConcordanceCorrelation(MeanMetricWrapper):
    def __init__(self, name: str | None = "concordance_correlation", dtype: Any = None, axis: int = -1) -> None:
        super().__init__(concordance_correlation, name, dtype, axis=axis)
