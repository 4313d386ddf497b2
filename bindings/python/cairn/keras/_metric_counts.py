"""Metrics that count what was said right and wrong at thresholds, and areas under curves of such counts."""
from __future__ import annotations

from typing import Any

import cairn
from .._training.batches import to_tensor
from .._training.losses import pair
from ._metric_base import Metric

__all__ = ["AUC", "F1Score", "FBetaScore", "FalseNegatives", "FalsePositives", "Precision", "Recall", "TrueNegatives",
           "TruePositives"]


class _Counts(Metric):
    """True and false, positive and negative, at each threshold."""

    def __init__(self, thresholds: Any = None, name: str | None = None, dtype: Any = None,
                 class_id: int | None = None, top_k: int | None = None) -> None:
        super().__init__(dtype, name)
        self.single = not isinstance(thresholds, (list, tuple))
        given = thresholds if thresholds is not None else 0.5 if top_k is None else -1e10
        self.thresholds = [float(t) for t in (given if isinstance(given, (list, tuple)) else [given])]
        self.class_id, self.top_k = class_id, top_k
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = pair(y_true, y_pred)
        if self.top_k is not None:
            best = y_pred.topk(self.top_k, -1)[1]
            among = cairn.zeros_like(y_pred, dtype=cairn.bool).scatter(-1, best, True)
            y_pred = y_pred.masked_fill(~among, float("-inf"))
        if self.class_id is not None:
            y_true, y_pred = y_true[..., self.class_id], y_pred[..., self.class_id]
        true, found = y_true.reshape(-1) > 0.5, y_pred.reshape(-1)
        weight = cairn.ones_like(found, dtype=self._kind)
        if sample_weight is not None:
            given = to_tensor(sample_weight).to(device=found.device, dtype=self._kind)
            given = given.reshape(tuple(given.shape) + (1,) * (y_pred.ndim - given.ndim))
            weight = given.expand_as(y_pred).reshape(-1)
        said = found.unsqueeze(0) > cairn.tensor(self.thresholds, device=found.device).unsqueeze(1)
        for name, yes, right in (("tp", True, True), ("fp", True, False), ("fn", False, True), ("tn", False, False)):
            hit = (said if yes else ~said) & (true if right else ~true)
            setattr(self, name, getattr(self, name) + (hit.to(self._kind) * weight).sum(1))

    def reset_state(self) -> None:
        self.tp: Any = 0.0
        self.fp: Any = 0.0
        self.fn: Any = 0.0
        self.tn: Any = 0.0

    def _answer(self, value: Any) -> Any:
        value = value if isinstance(value, cairn.Tensor) else cairn.zeros(len(self.thresholds), dtype=self._kind)
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

    def __init__(self, num_thresholds: int = 200, curve: str = "ROC", summation_method: str = "interpolation",
                 name: str | None = "auc", dtype: Any = None, thresholds: Any = None, multi_label: bool = False,
                 num_labels: int | None = None, label_weights: Any = None, from_logits: bool = False) -> None:
        between = sorted(thresholds) if thresholds is not None else [
            (i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
        super().__init__([-1e-7] + [float(t) for t in between] + [1.0 + 1e-7], name, dtype)
        if not multi_label and (num_labels is not None or label_weights is not None):
            raise ValueError("num_labels and label_weights are for multi_label=True")
        if curve not in ("ROC", "PR"):
            raise ValueError("curve must be 'ROC' or 'PR', not %r" % (curve,))
        if summation_method not in ("interpolation", "minoring", "majoring"):
            raise ValueError("summation_method is interpolation, minoring or majoring, not %r" % (summation_method,))
        self.curve, self.from_logits, self.summation_method = curve, from_logits, summation_method
        self.multi_label, self.num_labels, self.label_weights = multi_label, num_labels, label_weights
        self.num_thresholds = len(self.thresholds)
        self.parts: list[AUC] = []  # with multi_label, one for each

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_pred = to_tensor(y_pred)
        y_pred = y_pred.sigmoid() if self.from_logits else y_pred.clamp(0.0, 1.0)
        if not self.multi_label:
            super().update_state(y_true, y_pred, sample_weight)
            return
        y_true = to_tensor(y_true)
        if self.num_labels is not None and int(y_pred.shape[-1]) != self.num_labels:
            raise ValueError("%s has num_labels=%d; these outputs have %d" % (
                self.name, self.num_labels, int(y_pred.shape[-1])))
        if not self.parts:
            self.parts = [AUC(curve=self.curve, summation_method=self.summation_method, dtype=self._dtype,
                              thresholds=self.thresholds[1:-1]) for _ in range(int(y_pred.shape[-1]))]
        for i, part in enumerate(self.parts):
            part.update_state(y_true[..., i], y_pred[..., i], sample_weight)

    def reset_state(self) -> None:
        super().reset_state()
        self.parts = []

    def result(self) -> Any:
        if self.parts:
            each = cairn.stack([part.result() for part in self.parts])
            if self.label_weights is None:
                return each.mean()
            weights = to_tensor(self.label_weights).to(each.dtype)
            return (each * weights).sum() / weights.sum()
        if not isinstance(self.tp, cairn.Tensor):
            return cairn.tensor(0.0, dtype=self._kind)
        recall = _ratio(self.tp, self.tp + self.fn)
        if self.curve == "PR" and self.summation_method == "interpolation":
            return self._between_precisions()
        if self.curve == "ROC":
            x, y = _ratio(self.fp, self.fp + self.tn), recall
        else:
            x, y = recall, _ratio(self.tp, self.tp + self.fp)
        heights = (y[:-1] + y[1:]) / 2.0
        if self.summation_method != "interpolation":
            heights = (cairn.minimum if self.summation_method == "minoring" else cairn.maximum)(y[:-1], y[1:])
        return ((x[:-1] - x[1:]) * heights).sum()

    def _between_precisions(self) -> Any:
        """Precision is not linear between two points of its curve (Davis and Goadrich, 2006)."""
        dtp, p = self.tp[:-1] - self.tp[1:], self.tp + self.fp
        slope = _ratio(dtp, (p[:-1] - p[1:]).clamp(min=0.0))
        begin = self.tp[1:] - slope * p[1:]
        both = (p[:-1] > 0) & (p[1:] > 0)
        safe = cairn.where(both, _ratio(p[:-1], p[1:].clamp(min=0.0)), cairn.ones_like(dtp))
        return _ratio(slope * (dtp + begin * safe.log()), (self.tp[1:] + self.fn[1:]).clamp(min=0.0)).sum()


class F1Score(Metric):
    sums: list[Any]

    def __init__(self, average: str | None = None, threshold: float | None = None, name: str | None = "f1_score",
                 dtype: Any = None) -> None:
        super().__init__(dtype, name)
        if average not in (None, "micro", "macro", "weighted"):
            raise ValueError("average is None, micro, macro or weighted, not %r" % (average,))
        self.average, self.threshold = average, threshold
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        y_true, y_pred = pair(y_true, y_pred)
        y_true = y_true.to(self._kind)
        if self.threshold is None:
            said = cairn.nn.functional.one_hot(y_pred.argmax(-1), int(y_pred.shape[-1])).to(y_true.dtype)
        else:
            said = (y_pred > self.threshold).to(y_true.dtype)
        weight = 1.0 if sample_weight is None else to_tensor(sample_weight).to(said.dtype).reshape(-1, 1)
        new = ((said * y_true * weight).sum(0), (said * weight).sum(0), (y_true * weight).sum(0))
        self.sums = [a + b for a, b in zip(self.sums, new)]

    def result(self) -> Any:
        hit, said, true = self.sums
        if not isinstance(hit, cairn.Tensor):
            return cairn.tensor(0.0, dtype=self._kind)
        if self.average == "micro":
            return self._score(hit.sum(), said.sum(), true.sum())
        each = self._score(hit, said, true)
        if self.average == "macro":
            return each.mean()
        return (each * true).sum() / true.sum() if self.average == "weighted" else each

    def _score(self, hit: Any, said: Any, true: Any) -> Any:
        return _ratio(2.0 * hit, said + true)

    def reset_state(self) -> None:
        self.sums = [0.0, 0.0, 0.0]


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
