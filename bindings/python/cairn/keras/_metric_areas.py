"""Metrics of overlapping areas: intersection over union of classes, from a table of what was taken for what."""
from __future__ import annotations

from typing import Any

import cairn
from .._training.batches import to_tensor
from ._metric_base import Metric
from ._metric_counts import _ratio

__all__ = ["BinaryIoU", "IoU", "MeanIoU", "OneHotIoU", "OneHotMeanIoU"]


class MeanIoU(Metric):
    table: Any

    def __init__(self, num_classes: int, name: str | None = "mean_io_u", dtype: Any = None,
                 sparse_y_true: bool = True, sparse_y_pred: bool = True, ignore_class: int | None = None,
                 axis: int = -1) -> None:
        super().__init__(dtype, name)
        self.classes, self.sparse = num_classes, (sparse_y_true, sparse_y_pred)
        self.ignore_class, self.axis = ignore_class, axis
        self.chosen = list(range(num_classes))
        self.reset_state()

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        t, p = (v if s else v.to(cairn.float32).argmax(self.axis)
                for v, s in zip((to_tensor(y_true), to_tensor(y_pred)), self.sparse))
        weight = None
        if sample_weight is not None:
            given = to_tensor(sample_weight)
            given = given.to(self._kind).reshape(tuple(given.shape) + (1,) * (t.ndim - given.ndim))
            weight = given.expand_as(t).reshape(-1)
        t, p = t.reshape(-1).long(), p.reshape(-1).long()
        if self.ignore_class is not None:
            there = t != self.ignore_class
            t, p, weight = t[there], p[there], None if weight is None else weight[there]
        seen = cairn.bincount(t * self.classes + p, weight, minlength=self.classes * self.classes)
        self.table = self.table + seen.reshape(self.classes, self.classes).to(self._kind)

    def result(self) -> Any:
        if not isinstance(self.table, cairn.Tensor):
            return cairn.tensor(0.0, dtype=self._kind)
        hit = self.table.diagonal()
        union = self.table.sum(0) + self.table.sum(1) - hit
        rows = cairn.tensor(self.chosen)
        hit, union = hit[rows], union[rows]
        return _ratio(hit, union).sum() / (union > 0).to(self._kind).sum().clamp(min=1.0)

    def reset_state(self) -> None:
        self.table = 0.0


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
