"""Metrics that count what was said right and wrong, and those over classes."""
from __future__ import annotations

from typing import Any

import cairn
from . import losses
from ._batches import to_tensor
from ._metric_base import Metric, _float

__all__ = ["AUC", "F1Score", "FalseNegatives", "FalsePositives", "MeanIoU", "Precision", "R2Score", "Recall",
           "TrueNegatives", "TruePositives"]


class _Counts(Metric):
    """True and false, positive and negative, at each threshold."""

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None,
                 class_id: int | None = None, top_k: int | None = None) -> None:
        super().__init__(name=name)
        self.single = not isinstance(thresholds, (list, tuple))
        given = 0.5 if thresholds is None else thresholds
        self.thresholds = [float(t) for t in (given if isinstance(given, (list, tuple)) else [given])]
        self.class_id, self.top_k = class_id, top_k
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = losses._pair(y_true, y_pred)
        if self.top_k is not None:
            best = y_pred.topk(self.top_k, -1)[1]
            y_pred = cairn.zeros_like(y_pred).scatter(-1, best, 1.0)
        if self.class_id is not None:
            y_true, y_pred = y_true[..., self.class_id], y_pred[..., self.class_id]
        true, found = y_true.reshape(-1) > 0.5, y_pred.reshape(-1)
        weight = cairn.ones_like(found)
        if sample_weight is not None:
            given = to_tensor(sample_weight).to(device=found.device, dtype=found.dtype)
            given = given.reshape(tuple(given.shape) + (1,) * (y_pred.ndim - given.ndim))
            weight = given.expand_as(y_pred).reshape(-1)
        said = found.unsqueeze(0) > cairn.tensor(self.thresholds, device=found.device).unsqueeze(1)
        for name, yes, right in (("tp", True, True), ("fp", True, False), ("fn", False, True), ("tn", False, False)):
            hit = (said if yes else ~said) & (true if right else ~true)
            setattr(self, name, getattr(self, name) + (_float(hit) * weight).sum(1))

    def reset_state(self) -> None:
        self.tp: Any = 0.0
        self.fp: Any = 0.0
        self.fn: Any = 0.0
        self.tn: Any = 0.0

    def _answer(self, value: Any) -> Any:
        value = value if isinstance(value, cairn.Tensor) else cairn.zeros(len(self.thresholds))
        return value[0] if self.single else value


def _ratio(a: Any, b: Any) -> Any:
    """a / b, 0 where there is nothing."""
    return cairn.where(b > 0, a / cairn.where(b > 0, b, cairn.ones_like(b)), cairn.zeros_like(b)) \
        if isinstance(b, cairn.Tensor) else 0.0


class Precision(_Counts):
    def __init__(self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None,
                 name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name, dtype, class_id, top_k)

    def result(self) -> Any:
        return self._answer(_ratio(self.tp, self.tp + self.fp))


class Recall(_Counts):
    def __init__(self, thresholds: Any = None, top_k: int | None = None, class_id: int | None = None,
                 name: str | None = None, dtype: Any = None) -> None:
        super().__init__(thresholds, name, dtype, class_id, top_k)

    def result(self) -> Any:
        return self._answer(_ratio(self.tp, self.tp + self.fn))


class TruePositives(_Counts):
    def result(self) -> Any:
        return self._answer(self.tp)


class FalsePositives(_Counts):
    def result(self) -> Any:
        return self._answer(self.fp)


class TrueNegatives(_Counts):
    def result(self) -> Any:
        return self._answer(self.tn)


class FalseNegatives(_Counts):
    def result(self) -> Any:
        return self._answer(self.fn)


class AUC(_Counts):
    """The area under a curve through num_thresholds points, as Keras computes it; cairn.metrics has the exact one."""

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC", name: str | None = "auc", dtype: Any = None,
                 from_logits: bool = False, **ignored: Any) -> None:
        between = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([-1e-7] + between + [1.0 + 1e-7], name)
        if curve not in ("ROC", "PR"):
            raise ValueError("curve must be 'ROC' or 'PR', not %r" % (curve,))
        self.curve, self.from_logits = curve, from_logits

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        super().update_state(y_true, to_tensor(y_pred).sigmoid() if self.from_logits else y_pred, sample_weight)

    def result(self) -> Any:
        if not isinstance(self.tp, cairn.Tensor):
            return cairn.tensor(0.0)
        recall = _ratio(self.tp, self.tp + self.fn)
        if self.curve == "ROC":
            x, y = _ratio(self.fp, self.fp + self.tn), recall
            return ((x[:-1] - x[1:]) * (y[:-1] + y[1:]) / 2.0).sum()
        dtp, p = self.tp[:-1] - self.tp[1:], self.tp + self.fp
        slope = _ratio(dtp, (p[:-1] - p[1:]).clamp(min=0.0))
        begin = self.tp[1:] - slope * p[1:]
        both = (p[:-1] > 0) & (p[1:] > 0)
        safe = cairn.where(both, _ratio(p[:-1], p[1:].clamp(min=0.0)), cairn.ones_like(dtp))
        return _ratio(slope * (dtp + begin * safe.log()), (self.tp[1:] + self.fn[1:]).clamp(min=0.0)).sum()


class R2Score(Metric):
    n: int
    sums: list[Any]

    def __init__(self, class_aggregation: str | None = "uniform_average", num_regressors: int = 0,
                 name: str | None = "r2_score", dtype: Any = None) -> None:
        super().__init__(name=name)
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = losses._pair(y_true, y_pred)
        t, p = y_true.reshape(y_true.shape[0], -1), y_pred.reshape(y_pred.shape[0], -1)
        self.n += int(t.shape[0])
        self.sums = [a + b for a, b in zip(self.sums, (t.sum(0), t.square().sum(0), (t - p).square().sum(0)))]

    def result(self) -> Any:
        total, squares, residual = self.sums
        return (1.0 - residual / (squares - total * total / max(self.n, 1))).mean() if self.n else cairn.tensor(0.0)

    def reset_state(self) -> None:
        self.n = 0
        self.sums = [0.0, 0.0, 0.0]


class F1Score(Metric):
    sums: list[Any]

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str | None = "f1_score",
                 dtype: Any = None) -> None:
        super().__init__(name=name)
        self.average, self.threshold = average, threshold
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = losses._pair(y_true, y_pred)
        if self.threshold is None:
            said = cairn.nn.functional.one_hot(y_pred.argmax(-1), int(y_pred.shape[-1])).to(y_true.dtype)
        else:
            said = (y_pred > self.threshold).to(y_true.dtype)
        new = ((said * y_true).sum(0), said.sum(0), y_true.sum(0))
        self.sums = [a + b for a, b in zip(self.sums, new)]

    def result(self) -> Any:
        hit, said, true = self.sums
        if not isinstance(hit, cairn.Tensor):
            return cairn.tensor(0.0)
        if self.average == "micro":
            return _ratio(2.0 * hit.sum(), said.sum() + true.sum())
        each = _ratio(2.0 * hit, said + true)
        if self.average == "macro":
            return each.mean()
        return (each * true).sum() / true.sum() if self.average == "weighted" else each

    def reset_state(self) -> None:
        self.sums = [0.0, 0.0, 0.0]


class MeanIoU(Metric):
    table: Any

    def __init__(self, num_classes: int, name: str | None = "mean_io_u", dtype: Any = None,
                 sparse_y_true: bool = True, sparse_y_pred: bool = True, **ignored: Any) -> None:
        super().__init__(name=name)
        self.classes, self.sparse = num_classes, (sparse_y_true, sparse_y_pred)
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        t, p = (v if s else v.argmax(-1) for v, s in zip((to_tensor(y_true), to_tensor(y_pred)), self.sparse))
        places = t.reshape(-1).long() * self.classes + p.reshape(-1).long()
        seen = cairn.bincount(places, minlength=self.classes * self.classes)
        self.table = self.table + seen.reshape(self.classes, self.classes).to(cairn.float32)

    def result(self) -> Any:
        if not isinstance(self.table, cairn.Tensor):
            return cairn.tensor(0.0)
        hit = self.table.diagonal()
        union = self.table.sum(0) + self.table.sum(1) - hit
        return _ratio(hit, union).sum() / _float(union > 0).sum().clamp(min=1.0)

    def reset_state(self) -> None:
        self.table = 0.0
