"""Metrics at an operating point of a curve: the best precision where recall is enough, and so on."""
from __future__ import annotations

from typing import Any

import cairn
from ._metric_counts import _Counts, _ratio

__all__ = ["PrecisionAtRecall", "RecallAtPrecision", "SensitivityAtSpecificity", "SpecificityAtSensitivity"]


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
