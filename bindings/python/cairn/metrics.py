"""Figures of merit over many batches: accuracy, precision, area under the curve, perplexity ...

    accuracy = cairn.metrics.Accuracy()
    for x, y in loader:
        accuracy.update(net(x), y)
    print(accuracy.compute())

Outputs are scores (N, C, ...) for classes (N, ...), or (N, ...) for (N, ...): floats say yes above 0.5, integers are
classes themselves. A batch that does not fit raises and does not count.
"""
from __future__ import annotations

from typing import Any, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["AUC", "Accuracy", "ConfusionMatrix", "F1", "Mean", "MeanIoU", "Metric", "Perplexity", "Precision", "Recall",
           "TopK", "get"]


def _tensor(value: Any) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else _C.as_tensor(value)


class Metric:
    """The base of all: update() with each batch, compute() whenever the figure is wanted, reset() before the next
    epoch."""

    _metric: _C.MetricBase

    def __init__(self, kind: str, n: int = 0, average: str = "macro", name: str = "mean") -> None:
        self._made = kind, n, average, name
        self._metric = _C.MetricBase(*self._made)

    @property
    def name(self) -> str:
        """What it is called in logs."""
        return self._metric.name

    @property
    def higher_is_better(self) -> bool:
        return self._metric.higher_is_better

    def update(self, output: Any, target: Any) -> None:
        """One batch more."""
        self._metric.update(_tensor(output), _tensor(target))

    def compute(self) -> Any:
        """The figure of all batches since the last reset; nan when there was none."""
        return self._metric.value()

    def reset(self) -> None:
        """Forgets all batches."""
        self._metric.reset()

    def __call__(self, output: Any, target: Any) -> Any:
        """Counts the batch, and returns the figure of this batch alone."""
        self.update(output, target)
        alone: Metric = object.__new__(type(self))
        alone.__dict__.update(self.__dict__)
        alone._metric = _C.MetricBase(*self._made)
        alone.update(output, target)
        return alone.compute()

    def __repr__(self) -> str:
        return "%s(%s)" % (type(self).__name__, self._metric.value())


class Accuracy(Metric):
    """The share of right answers."""

    def __init__(self) -> None:
        super().__init__("accuracy")


class TopK(Metric):
    """How often the right class is among the k with the best scores."""

    def __init__(self, k: int = 5) -> None:
        super().__init__("top_k", k)


class _PerClass(Metric):
    """A figure of each class, and their average."""

    def __init__(self, kind: str, num_classes: int, average: str | None) -> None:
        self.average = "none" if average is None else average
        super().__init__(kind, num_classes, "macro" if self.average == "none" else self.average)

    def compute(self) -> Any:
        return self.per_class() if self.average == "none" else super().compute()

    def per_class(self) -> Tensor:
        """One value for each class."""
        found = self._metric.tensor()
        assert found is not None
        return found


class Precision(_PerClass):
    """Of what was called a class, the share that is of it.

    average: "macro" (the mean over the classes that occur), "micro" (all counts together), "weighted" (by how often
    each class is true), "none" (a tensor, one value a class)."""

    def __init__(self, num_classes: int = 2, average: str | None = "macro") -> None:
        super().__init__("precision", num_classes, average)


class Recall(_PerClass):
    """Of what is of a class, the share that was called so. average: as Precision."""

    def __init__(self, num_classes: int = 2, average: str | None = "macro") -> None:
        super().__init__("recall", num_classes, average)


class F1(_PerClass):
    """The harmonic mean of precision and recall. average: as Precision."""

    def __init__(self, num_classes: int = 2, average: str | None = "macro") -> None:
        super().__init__("f1", num_classes, average)


class ConfusionMatrix(Metric):
    """How often each class (row) was taken for each class (column)."""

    def __init__(self, num_classes: int = 2) -> None:
        super().__init__("confusion", num_classes)

    def compute(self) -> Tensor:
        found = self._metric.tensor()
        assert found is not None
        return found

    def accuracy(self) -> float:
        return self._metric.value()


class AUC(Metric):
    """The area under the ROC curve of scores (N) for truths (N)."""

    def __init__(self) -> None:
        super().__init__("auc")


class Perplexity(Metric):
    """exp of the mean cross entropy; scores may also be (N, ..., C)."""

    def __init__(self) -> None:
        super().__init__("perplexity")


class MeanIoU(_PerClass):
    """Intersection over union of the pixels of each class, averaged over the classes that occur."""

    def __init__(self, num_classes: int) -> None:
        super().__init__("mean_iou", num_classes, "macro")


class Mean(Metric):
    """The mean of numbers: a loss, say. update(value, weight)."""

    def __init__(self, name: str = "mean") -> None:
        super().__init__("mean", 0, "macro", name)

    def update(self, output: Any, target: Any = 1) -> None:
        self._metric.add(float(output), float(target))

    def __call__(self, output: Any, target: Any = 1) -> Any:
        self.update(output, target)
        return float(output)


_BY_NAME: dict[str, type[Metric]] = {
    "accuracy": Accuracy, "acc": Accuracy, "topk": TopK, "top_k": TopK, "auc": AUC, "perplexity": Perplexity,
    "precision": Precision, "recall": Recall, "f1": F1, "confusion": ConfusionMatrix, "mean_iou": MeanIoU, "mean": Mean}


def get(metric: str | Metric | Sequence[Any], **settings: Any) -> Metric:
    """A metric by name; one that is a metric already is returned itself."""
    if isinstance(metric, Metric):
        return metric
    if not isinstance(metric, str) or metric.lower() not in _BY_NAME:
        raise ValueError("there is no metric %r; there are %s" % (metric, ", ".join(sorted(_BY_NAME))))
    return _BY_NAME[metric.lower()](**settings)
