"""keras.callbacks: those of cairn.callbacks, and what only Keras's users ask for."""
from __future__ import annotations

from typing import Any

import cairn
from ..callbacks import (BackupAndRestore as BackupAndRestore, CSVLogger as CSVLogger, Callback as Callback,
                         CallbackList as CallbackList, EarlyStopping as EarlyStopping, History as History,
                         LambdaCallback as LambdaCallback, LearningRateScheduler as LearningRateScheduler,
                         ModelCheckpoint as ModelCheckpoint, ProgbarLogger as ProgbarLogger,
                         ReduceLROnPlateau as ReduceLROnPlateau, TensorBoard as TensorBoard,
                         TerminateOnNaN as TerminateOnNaN)

__all__ = ["BackupAndRestore", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback",
           "LearningRateScheduler", "ModelCheckpoint", "ProgbarLogger", "ReduceLROnPlateau", "RemoteMonitor",
           "SwapEMAWeights", "TensorBoard", "TerminateOnNaN"]


class SwapEMAWeights(Callback):  # unused: logs, epoch (the callbacks' signature)
    """With an optimiser that has use_ema: the averages stand in for the weights while the model is looked at (and
    saved, with swap_on_epoch)."""

    def __init__(self, swap_on_epoch: bool = False) -> None:
        super().__init__()
        self.swap_on_epoch = swap_on_epoch

    def _swap(self) -> None:
        own = getattr(self.model.optimizer, "inner_optimizer", self.model.optimizer)
        if not getattr(own, "use_ema", False):
            raise ValueError("SwapEMAWeights needs an optimizer with use_ema=True")
        with cairn.no_grad():
            for w in self.model.parameters():
                kept = own._averages.get(id(w))
                if kept is not None:
                    now = w.detach().clone()
                    w.copy_(kept)
                    kept.copy_(now)

    def on_test_begin(self, logs: Any = None) -> None:
        self._swap()

    def on_test_end(self, logs: Any = None) -> None:
        self._swap()

    def on_predict_begin(self, logs: Any = None) -> None:
        self._swap()

    def on_predict_end(self, logs: Any = None) -> None:
        self._swap()

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        if self.swap_on_epoch and epoch:
            self._swap()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        if self.swap_on_epoch:
            self._swap()


class RemoteMonitor(Callback):
    """Posts the figures of each epoch to a server as JSON."""

    def __init__(self, root: str = "http://localhost:9000", path: str = "/publish/epoch/end/", field: str = "data",
                 headers: dict[str, str] | None = None, send_as_json: bool = False) -> None:
        super().__init__()
        self.url, self.field, self.headers, self.send_as_json = root + path, field, headers or {}, send_as_json

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        import json
        import warnings
        from urllib import parse, request
        said = json.dumps({"epoch": epoch, **{k: float(v) for k, v in (logs or {}).items()}})
        body = said if self.send_as_json else parse.urlencode({self.field: said})
        kind = {"Content-Type": "application/json"} if self.send_as_json else {}
        try:
            request.urlopen(request.Request(self.url, body.encode(), {**kind, **self.headers}), timeout=10).close()
        except OSError as error:
            warnings.warn("RemoteMonitor could not reach %s: %s" % (self.url, error), stacklevel=2)
