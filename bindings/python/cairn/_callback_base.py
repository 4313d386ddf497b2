"""What all callbacks are: Callback to subclass, those that watch one figure, and the learning rate of an optimiser."""
from __future__ import annotations

import math
from typing import Any

__all__ = ["Callback", "Logs", "Watching", "rate_of", "set_rate"]

Logs = dict[str, Any] | None


class Callback:
    """Its methods are called along the way; all do nothing until a subclass says otherwise."""

    def __init__(self) -> None:
        self.params: dict[str, Any] = {}
        self._model: Any = None

    params: dict[str, Any] = {}
    _model: Any = None

    @property
    def model(self) -> Any:
        return self._model

    def set_params(self, params: dict[str, Any]) -> None:
        self.params = params

    def set_model(self, model: Any) -> None:
        self._model = model

    def on_train_begin(self, logs: Logs = None) -> None: ...
    def on_train_end(self, logs: Logs = None) -> None: ...
    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None: ...
    def on_batch_begin(self, batch: int, logs: Logs = None) -> None: ...
    def on_batch_end(self, batch: int, logs: Logs = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: Logs = None) -> None:
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: Logs = None) -> None: ...
    def on_test_end(self, logs: Logs = None) -> None: ...
    def on_test_batch_begin(self, batch: int, logs: Logs = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None: ...
    def on_predict_begin(self, logs: Logs = None) -> None: ...
    def on_predict_end(self, logs: Logs = None) -> None: ...
    def on_predict_batch_begin(self, batch: int, logs: Logs = None) -> None: ...
    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None: ...


class Watching(Callback):
    """Looks at one figure: whether it has become better."""

    def __init__(self, monitor: str, mode: str, min_delta: float = 0.0) -> None:
        super().__init__()
        if mode not in ("auto", "min", "max"):
            raise ValueError("mode is auto, min or max, not %r" % (mode,))
        self.monitor, self.mode, self.min_delta = monitor, mode, abs(min_delta)
        self.warned = False

    def _higher(self) -> bool:
        name = self.monitor.removeprefix("val_")
        better = ("acc", "auc", "precision", "recall", "f1", "iou", "io_u", "r2", "top_k", "cosine", "score")
        return self.mode == "max" or self.mode == "auto" and any(part in name for part in better)

    def better(self, value: float, best: float, delta: float | None = None) -> bool:
        by = self.min_delta if delta is None else delta
        return value > best + by if self._higher() else value < best - by

    def worst(self) -> float:
        return -math.inf if self._higher() else math.inf

    def value(self, logs: Logs) -> float | None:
        found = (logs or {}).get(self.monitor)
        if found is None and not self.warned:
            import warnings
            self.warned = True
            warnings.warn("%s looks at %r, which is not there; there are %s" % (
                type(self).__name__, self.monitor, ", ".join(logs or {})), stacklevel=2)
        return None if found is None else float(found)


def rate_of(optimizer: Any) -> float | None:
    """The learning rate; None where there is none."""
    if hasattr(optimizer, "learning_rate"):
        return float(optimizer.learning_rate)
    groups = getattr(optimizer, "param_groups", None)
    return float(groups[0]["lr"]) if groups else None


def set_rate(optimizer: Any, rate: float) -> None:
    """Sets it; groups keep their ratios."""
    if hasattr(optimizer, "learning_rate"):
        optimizer.learning_rate = rate
        return
    old = float(optimizer.param_groups[0]["lr"])
    for group in optimizer.param_groups:
        group["lr"] = rate if old == 0 else float(group["lr"]) * rate / old
