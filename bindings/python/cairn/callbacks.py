"""What is told along the way of a fit: Callback to subclass, and the usual ones.

    model.fit(x, y, callbacks=[EarlyStopping(patience=3, restore_best_weights=True), CSVLogger("log.csv")])
"""
from __future__ import annotations

import importlib
import math
from typing import Any, Callable, Iterable

from ._arguments import unexpected
from ._callback_base import Callback, Logs, Watching, rate_of, set_rate
from ._callback_files import BackupAndRestore, CSVLogger, ModelCheckpoint, TensorBoard
from ._progress import Bar, curves, figure, panels

__all__ = ["BackupAndRestore", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback",
           "LearningRateScheduler", "ModelCheckpoint", "ProgbarLogger", "ReduceLROnPlateau", "TensorBoard",
           "TerminateOnNaN"]


class CallbackList(Callback):
    """Callbacks told one after the other, with a History and a bar where they are wanted."""

    def __init__(self, callbacks: Any = None, add_history: bool = False, add_progbar: bool = False, model: Any = None,
                 verbose: int = 1, epochs: int = 1, steps: int | None = None) -> None:
        super().__init__()
        given = list(callbacks) if isinstance(callbacks, (list, tuple)) else [] if callbacks is None else [callbacks]
        for one in given:
            if not hasattr(one, "on_epoch_end"):
                raise TypeError("a callback is an object with on_epoch_end and the like, not %r" % (one,))
        self.history: Any = next((c for c in given if isinstance(c, History)), None)
        if add_progbar and not any(isinstance(c, ProgbarLogger) for c in given):
            given.append(ProgbarLogger())
        if self.history is None and add_history:
            self.history = History()
            given.append(self.history)
        self.callbacks = given
        for one in given:
            one.set_model(model)
            one.set_params({"verbose": verbose, "epochs": epochs, "steps": steps})

    def append(self, callback: Any) -> None:
        self.callbacks.append(callback)


def _all(name: str, numbered: bool) -> Callable[..., None]:
    def one(self: Any, logs: Logs = None) -> None:
        for c in self.callbacks:
            getattr(c, name)(logs)

    def one_of(self: Any, number: int, logs: Logs = None) -> None:
        for c in self.callbacks:
            getattr(c, name)(number, logs)
    return one_of if numbered else one


for _name in [n for n in vars(Callback) if n.startswith("on_")]:
    setattr(CallbackList, _name, _all(_name, "batch" in _name or "epoch" in _name))


class History(Callback):  # unused: logs (the callbacks' signature)
    """All figures of all epochs: history["loss"][0] is that of epoch[0]. plot() draws them; notebooks show them."""

    def __init__(self) -> None:
        super().__init__()
        self.history: dict[str, list[float]] = {}
        self.epoch: list[int] = []

    def on_train_begin(self, logs: Logs = None) -> None:
        self.epoch, self.history = [], {}

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        self.epoch.append(epoch)
        for name, value in (logs or {}).items():
            self.history.setdefault(name, []).append(float(value))

    def plot(self, path: Any = None, metrics: Iterable[str] | None = None) -> Any:
        """The curves: matplotlib's figure when it is installed, else an SVG text; with a path written there."""
        chosen = {k: v for k, v in self.history.items() if metrics is None or k.removeprefix("val_") in metrics}
        if path is not None and str(path).endswith(".svg"):
            text = curves(self.epoch, chosen)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            return Curves(text)
        try:
            plt: Any = importlib.import_module("matplotlib.pyplot")
        except ImportError:
            if path is not None:
                raise ImportError("a picture %s needs matplotlib; a name that ends with .svg does not" % path) from None
            return Curves(curves(self.epoch, chosen))
        groups = panels(chosen)
        whole, axes = plt.subplots(1, max(len(groups), 1), figsize=(4.5 * max(len(groups), 1), 3.2), squeeze=False)
        for place, (name, lines) in zip(axes[0], groups.items()):
            for key, values in lines.items():
                place.plot([e + 1 for e in self.epoch[-len(values):]], values, label=key)
            place.set_xlabel("epoch")
            place.set_title(name)
            place.legend()
        whole.tight_layout()
        if path is not None:
            whole.savefig(path)
        return whole

    def _repr_html_(self) -> str:
        return curves(self.epoch, self.history)

    def __repr__(self) -> str:
        last = ", ".join("%s: %s" % (k, figure(v[-1])) for k, v in self.history.items() if v)
        return "<History of %d epochs; last %s>" % (len(self.epoch), last or "nothing")


class Curves(str):
    """A picture as SVG text, which notebooks show."""

    def _repr_svg_(self) -> str:
        return str(self)


class ProgbarLogger(Callback):  # unused: logs, epoch (the callbacks' signature)
    """verbose 1: a bar that moves; 2: a line an epoch."""

    bar: Bar | None = None
    fitting = False
    seen = 0

    def _title(self, epoch: int) -> str:
        return "Epoch %d/%d" % (epoch + 1, self.params["epochs"])

    def on_train_begin(self, logs: Logs = None) -> None:
        self.fitting = True

    def on_train_end(self, logs: Logs = None) -> None:
        self.fitting = False

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.bar = Bar(self._title(epoch), self.params.get("steps"), plain=self.params["verbose"] == 2)

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self.bar is not None:
            self.bar.update(batch + 1, logs or {})

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.bar is not None:
            self.bar.finish(logs or {})

    def on_test_begin(self, logs: Logs = None) -> None:
        if not self.fitting:
            self.bar = Bar("", self.params.get("steps"), plain=self.params["verbose"] == 2)

    def on_test_batch_end(self, batch: int, logs: Logs = None) -> None:
        if not self.fitting and self.bar is not None:
            self.bar.update(batch + 1, logs or {})

    def on_test_end(self, logs: Logs = None) -> None:
        if not self.fitting and self.bar is not None:
            self.bar.finish(logs or {})

    def on_predict_begin(self, logs: Logs = None) -> None:
        self.bar = Bar("", self.params.get("steps"), plain=self.params["verbose"] == 2)

    def on_predict_batch_end(self, batch: int, logs: Logs = None) -> None:
        if self.bar is not None:
            self.bar.update(batch + 1, {})

    def on_predict_end(self, logs: Logs = None) -> None:
        if self.bar is not None:
            self.bar.finish({})


class EarlyStopping(Watching):  # unused: logs (the callbacks' signature)
    """Ends the fit when the figure has not become better for `patience` epochs."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0,
                 mode: str = "auto", baseline: float | None = None, restore_best_weights: bool = False,
                 start_from_epoch: int = 0) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: Logs = None) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = self.worst()
        self.best_weights: Any = None

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        now = self.value(logs)
        if now is None or epoch < self.start_from_epoch:
            return
        if self.restore_best_weights and self.best_weights is None:
            self.best_weights, self.best_epoch = self.model._state_for_restore(), epoch
        self.wait += 1
        if self.better(now, self.best):
            self.best, self.best_epoch = now, epoch
            if self.restore_best_weights:
                self.best_weights = self.model._state_for_restore()
            if self.baseline is None or self.better(now, self.baseline):
                self.wait = 0
            return
        if self.wait >= self.patience and epoch > 0:
            self.stopped_epoch = epoch
            self.model.stop_training = True

    def on_train_end(self, logs: Logs = None) -> None:
        if self.stopped_epoch and self.verbose:
            print("Epoch %d: early stopping" % (self.stopped_epoch + 1))
        if self.best_weights is not None:
            if self.verbose:
                print("Restoring the weights of epoch %d" % (self.best_epoch + 1))
            self.model.load_state_dict(self.best_weights)


class LearningRateScheduler(Callback):  # unused: logs, epoch (the callbacks' signature)
    """schedule(epoch, rate) or schedule(epoch) says the rate of an epoch."""

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        now = rate_of(self.model.optimizer)
        try:
            rate = self.schedule(epoch, now)
        except TypeError:
            rate = self.schedule(epoch)
        rate = float(rate)
        if now is not None:
            set_rate(self.model.optimizer, rate)
        if self.verbose:
            print("Epoch %d: the learning rate is %g" % (epoch + 1, rate))

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if logs is not None:
            logs["learning_rate"] = rate_of(self.model.optimizer)


class ReduceLROnPlateau(Watching):  # unused: logs (the callbacks' signature)
    """A smaller rate when the figure has not become better for `patience` epochs."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
                 mode: str = "auto", min_delta: float = 0.0001, cooldown: int = 0, min_lr: float = 0.0) -> None:
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau makes rates smaller: factor must be below 1, not %r" % (factor,))
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self.on_train_begin()

    def on_train_begin(self, logs: Logs = None) -> None:
        self.best, self.wait, self.resting = self.worst(), 0, 0

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        now = self.value(logs)
        if logs is not None:
            logs["learning_rate"] = rate_of(self.model.optimizer)
        if now is None:
            return
        if self.resting:
            self.resting, self.wait = self.resting - 1, 0
        if self.better(now, self.best):
            self.best, self.wait = now, 0
        elif not self.resting:
            self.wait += 1
            old = rate_of(self.model.optimizer) or 0.0
            if self.wait >= self.patience and old > self.min_lr:
                set_rate(self.model.optimizer, max(old * self.factor, self.min_lr))
                self.resting, self.wait = self.cooldown, 0
                if self.verbose:
                    print("Epoch %d: the learning rate becomes %g" % (epoch + 1, rate_of(self.model.optimizer) or 0.0))


class TerminateOnNaN(Callback):
    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        loss = (logs or {}).get("loss")
        if loss is not None and not math.isfinite(float(loss)):
            print("Batch %d: the loss is %s; the fit ends" % (batch, loss))
            self.model.stop_training = True


class LambdaCallback(Callback):
    """Functions as a callback."""

    def __init__(self, on_epoch_begin: Any = None, on_epoch_end: Any = None, on_train_begin: Any = None,
                 on_train_end: Any = None, on_train_batch_begin: Any = None, on_train_batch_end: Any = None,
                 **others: Any) -> None:
        super().__init__()
        unexpected("LambdaCallback", {k: v for k, v in others.items() if not k.startswith("on_")
                                      or not hasattr(Callback, k)})
        given = {"on_epoch_begin": on_epoch_begin, "on_epoch_end": on_epoch_end, "on_train_begin": on_train_begin,
                 "on_train_end": on_train_end, "on_train_batch_begin": on_train_batch_begin,
                 "on_train_batch_end": on_train_batch_end, **others}
        for name, f in given.items():
            if f is not None:
                setattr(self, name.replace("on_batch_", "on_train_batch_"), f)
