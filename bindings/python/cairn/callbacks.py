"""What is told along the way of a fit: Callback to subclass, and the usual ones.

    model.fit(x, y, callbacks=[EarlyStopping(patience=3, restore_best_weights=True), CSVLogger("log.csv")])
"""
from __future__ import annotations

import csv
import importlib
import math
import os
import time
from typing import Any, Callable, Iterable

from ._arguments import refused, unexpected
from ._progress import Bar, curves, figure, panels

__all__ = ["BackupAndRestore", "CSVLogger", "Callback", "CallbackList", "EarlyStopping", "History", "LambdaCallback",
           "LearningRateScheduler", "ModelCheckpoint", "ProgbarLogger", "ReduceLROnPlateau", "TensorBoard",
           "TerminateOnNaN"]

_Logs = dict[str, Any] | None


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

    def on_train_begin(self, logs: _Logs = None) -> None: ...
    def on_train_end(self, logs: _Logs = None) -> None: ...
    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None: ...
    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None: ...
    def on_batch_begin(self, batch: int, logs: _Logs = None) -> None: ...
    def on_batch_end(self, batch: int, logs: _Logs = None) -> None: ...

    def on_train_batch_begin(self, batch: int, logs: _Logs = None) -> None:
        self.on_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        self.on_batch_end(batch, logs)

    def on_test_begin(self, logs: _Logs = None) -> None: ...
    def on_test_end(self, logs: _Logs = None) -> None: ...
    def on_test_batch_begin(self, batch: int, logs: _Logs = None) -> None: ...
    def on_test_batch_end(self, batch: int, logs: _Logs = None) -> None: ...
    def on_predict_begin(self, logs: _Logs = None) -> None: ...
    def on_predict_end(self, logs: _Logs = None) -> None: ...
    def on_predict_batch_begin(self, batch: int, logs: _Logs = None) -> None: ...
    def on_predict_batch_end(self, batch: int, logs: _Logs = None) -> None: ...


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
    def one(self: Any, logs: _Logs = None) -> None:
        for c in self.callbacks:
            getattr(c, name)(logs)

    def one_of(self: Any, number: int, logs: _Logs = None) -> None:
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

    def on_train_begin(self, logs: _Logs = None) -> None:
        self.epoch, self.history = [], {}

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
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

    def on_train_begin(self, logs: _Logs = None) -> None:
        self.fitting = True

    def on_train_end(self, logs: _Logs = None) -> None:
        self.fitting = False

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        self.bar = Bar(self._title(epoch), self.params.get("steps"), plain=self.params["verbose"] == 2)

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        if self.bar is not None:
            self.bar.update(batch + 1, logs or {})

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        if self.bar is not None:
            self.bar.finish(logs or {})

    def on_test_begin(self, logs: _Logs = None) -> None:
        if not self.fitting:
            self.bar = Bar("", self.params.get("steps"), plain=self.params["verbose"] == 2)

    def on_test_batch_end(self, batch: int, logs: _Logs = None) -> None:
        if not self.fitting and self.bar is not None:
            self.bar.update(batch + 1, logs or {})

    def on_test_end(self, logs: _Logs = None) -> None:
        if not self.fitting and self.bar is not None:
            self.bar.finish(logs or {})

    def on_predict_begin(self, logs: _Logs = None) -> None:
        self.bar = Bar("", self.params.get("steps"), plain=self.params["verbose"] == 2)

    def on_predict_batch_end(self, batch: int, logs: _Logs = None) -> None:
        if self.bar is not None:
            self.bar.update(batch + 1, {})

    def on_predict_end(self, logs: _Logs = None) -> None:
        if self.bar is not None:
            self.bar.finish({})


class _Watching(Callback):
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

    def value(self, logs: _Logs) -> float | None:
        found = (logs or {}).get(self.monitor)
        if found is None and not self.warned:
            import warnings
            self.warned = True
            warnings.warn("%s looks at %r, which is not there; there are %s" % (
                type(self).__name__, self.monitor, ", ".join(logs or {})), stacklevel=2)
        return None if found is None else float(found)


class EarlyStopping(_Watching):  # unused: logs (the callbacks' signature)
    """Ends the fit when the figure has not become better for `patience` epochs."""

    def __init__(self, monitor: str = "val_loss", min_delta: float = 0, patience: int = 0, verbose: int = 0,
                 mode: str = "auto", baseline: float | None = None, restore_best_weights: bool = False,
                 start_from_epoch: int = 0) -> None:
        super().__init__(monitor, mode, min_delta)
        self.patience, self.verbose, self.baseline = patience, verbose, baseline
        self.restore_best_weights, self.start_from_epoch = restore_best_weights, start_from_epoch

    def on_train_begin(self, logs: _Logs = None) -> None:
        self.wait = self.stopped_epoch = self.best_epoch = 0
        self.best = self.worst()
        self.best_weights: Any = None

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
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

    def on_train_end(self, logs: _Logs = None) -> None:
        if self.stopped_epoch and self.verbose:
            print("Epoch %d: early stopping" % (self.stopped_epoch + 1))
        if self.best_weights is not None:
            if self.verbose:
                print("Restoring the weights of epoch %d" % (self.best_epoch + 1))
            self.model.load_state_dict(self.best_weights)


class ModelCheckpoint(_Watching):  # unused: logs (the callbacks' signature)
    """Saves the model after each epoch, or when a figure is the best; filepath may have {epoch} and {val_loss:.2f}."""

    def __init__(self, filepath: Any, monitor: str = "val_loss", verbose: int = 0, save_best_only: bool = False,
                 save_weights_only: bool = False, mode: str = "auto", save_freq: Any = "epoch",
                 initial_value_threshold: float | None = None) -> None:
        super().__init__(monitor, mode)
        if save_freq != "epoch" and not isinstance(save_freq, int):
            raise ValueError("save_freq is 'epoch' or a number of batches, not %r" % (save_freq,))
        self.filepath, self.verbose, self.save_freq = str(filepath), verbose, save_freq
        self.save_best_only, self.save_weights_only = save_best_only, save_weights_only
        self.best = self.worst() if initial_value_threshold is None else initial_value_threshold
        self.batches = self.epoch = 0

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        self.batches += 1
        if self.save_freq != "epoch" and self.batches % self.save_freq == 0:
            self._save(self.epoch, logs, batch)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, logs, 0)

    def _save(self, epoch: int, logs: _Logs, batch: int) -> None:
        if self.save_best_only:
            now = self.value(logs)
            if now is None or not self.better(now, self.best):
                return
            if self.verbose:
                print("Epoch %d: %s became %s" % (epoch + 1, self.monitor, figure(now)))
            self.best = now
        path = self.filepath.format(epoch=epoch + 1, batch=batch + 1, **(logs or {}))
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        (self.model.save_weights if self.save_weights_only else self.model.save)(path)
        if self.verbose:
            print("Epoch %d: saved %s" % (epoch + 1, path))


class CSVLogger(Callback):  # unused: logs (the callbacks' signature)
    """A row an epoch."""

    def __init__(self, filename: Any, separator: str = ",", append: bool = False) -> None:
        super().__init__()
        self.filename, self.separator, self.append = os.fspath(filename), separator, append
        self.keys: list[str] | None = None
        self.file: Any = None

    def on_train_begin(self, logs: _Logs = None) -> None:
        old = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self.file = open(self.filename, "a" if self.append else "w", newline="", encoding="utf-8")
        self.keys, self.headed = None, bool(old)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        logs = logs or {}
        if self.keys is None:
            self.keys = sorted(logs)
            if not any(k.startswith("val_") for k in logs):  # they may come in a later epoch
                self.keys += ["val_" + k for k in self.keys]
        writer = csv.DictWriter(self.file, ["epoch"] + self.keys, delimiter=self.separator, extrasaction="ignore",
                                restval="NA")
        if not self.headed:
            writer.writeheader()
            self.headed = True
        writer.writerow({"epoch": epoch, **logs})
        self.file.flush()

    def on_train_end(self, logs: _Logs = None) -> None:
        self.file.close()


class TensorBoard(Callback):  # unused: logs, epoch, batch (the callbacks' signature)
    """Figures in event files: log_dir/train and log_dir/validation.

    histogram_freq: after how many epochs weights are written, with write_images as pictures too. write_graph: the
    layers of the model as text. update_freq: "epoch", "batch" or a number of batches. write_steps_per_second: how fast
    epochs were."""

    def __init__(self, log_dir: Any = "logs", histogram_freq: int = 0, write_graph: bool = True,
                 write_images: bool = False, write_steps_per_second: bool = False, update_freq: Any = "epoch",
                 profile_batch: Any = 0, embeddings_freq: int = 0, embeddings_metadata: Any = None) -> None:
        super().__init__()
        refused("TensorBoard", "utils.tensorboard.SummaryWriter.add_embedding writes them", 0,
                embeddings_freq=embeddings_freq)
        refused("TensorBoard", "it is for embeddings_freq", embeddings_metadata=embeddings_metadata)
        refused("TensorBoard", "batches are not profiled", 0, profile_batch=profile_batch)
        if update_freq not in ("epoch", "batch") and not isinstance(update_freq, int):
            raise ValueError("update_freq is 'epoch', 'batch' or a number of batches, not %r" % (update_freq,))
        self.log_dir, self.histogram_freq, self.update_freq = os.fspath(log_dir), histogram_freq, update_freq
        self.write_graph, self.write_images = write_graph, write_images
        self.write_steps_per_second = write_steps_per_second
        self.begun, self.first = 0.0, 0  # of the epoch: when, and with which step
        self.writers: dict[str, Any] = {}
        self.step = 0

    def _writer(self, part: str) -> Any:
        if part not in self.writers:
            from .utils.tensorboard import SummaryWriter
            self.writers[part] = SummaryWriter(os.path.join(self.log_dir, part))
        return self.writers[part]

    def on_train_begin(self, logs: _Logs = None) -> None:
        if self.write_graph:
            self._writer("train").add_text("model", repr(self.model), 0)

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        self.begun, self.first = time.monotonic(), self.step

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        self.step += 1
        every = 1 if self.update_freq == "batch" else self.update_freq
        if isinstance(every, int) and self.step % every == 0:
            for name, value in (logs or {}).items():
                self._writer("train").add_scalar("batch_" + name, float(value), self.step)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        for name, value in (logs or {}).items():
            part = "validation" if name.startswith("val_") else "train"
            self._writer(part).add_scalar("epoch_" + name.removeprefix("val_"), float(value), epoch)
        rate = rate_of(self.model.optimizer)
        if rate is not None:
            self._writer("train").add_scalar("epoch_learning_rate", rate, epoch)
        if self.write_steps_per_second:
            took = max(time.monotonic() - self.begun, 1e-9)
            self._writer("train").add_scalar("epoch_steps_per_second", (self.step - self.first) / took, epoch)
        if self.histogram_freq and epoch % self.histogram_freq == 0:
            for name, weight in self.model.named_parameters():
                self._writer("train").add_histogram(name.replace(".", "/"), weight.detach(), epoch)
                if self.write_images:
                    self._writer("train").add_image(name.replace(".", "/") + "/image", _picture(weight), epoch,
                                                    dataformats="HW")

    def on_train_end(self, logs: _Logs = None) -> None:
        for writer in self.writers.values():
            writer.close()
        self.writers = {}


def _picture(weight: Any) -> Any:
    """A weight as grey values between 0 and 1, its last dimension from left to right."""
    flat = weight.detach().float().cpu()
    flat = flat.reshape(1, -1) if flat.ndim < 2 else flat.reshape(-1, flat.shape[-1])
    low, high = flat.min(), flat.max()
    return (flat - low) / (high - low).clamp(min=1e-12)


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


class LearningRateScheduler(Callback):  # unused: logs, epoch (the callbacks' signature)
    """schedule(epoch, rate) or schedule(epoch) says the rate of an epoch."""

    def __init__(self, schedule: Callable[..., float], verbose: int = 0) -> None:
        super().__init__()
        self.schedule, self.verbose = schedule, verbose

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
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

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        if logs is not None:
            logs["learning_rate"] = rate_of(self.model.optimizer)


class ReduceLROnPlateau(_Watching):  # unused: logs (the callbacks' signature)
    """A smaller rate when the figure has not become better for `patience` epochs."""

    def __init__(self, monitor: str = "val_loss", factor: float = 0.1, patience: int = 10, verbose: int = 0,
                 mode: str = "auto", min_delta: float = 0.0001, cooldown: int = 0, min_lr: float = 0.0) -> None:
        super().__init__(monitor, mode, min_delta)
        if factor >= 1.0:
            raise ValueError("ReduceLROnPlateau makes rates smaller: factor must be below 1, not %r" % (factor,))
        self.factor, self.patience, self.verbose = factor, patience, verbose
        self.cooldown, self.min_lr = cooldown, min_lr
        self.on_train_begin()

    def on_train_begin(self, logs: _Logs = None) -> None:
        self.best, self.wait, self.resting = self.worst(), 0, 0

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
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
    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
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


class BackupAndRestore(Callback):  # unused: logs, batch (the callbacks' signature)
    """Weights, optimiser and epoch in a folder; a fit that was cut short goes on from there.

    save_freq: "epoch", or after how many batches; what is kept in the middle of an epoch begins that epoch again.
    double_checkpoint: the state before is kept beside, for when the last cannot be read."""

    def __init__(self, backup_dir: Any, save_freq: Any = "epoch", double_checkpoint: bool = False,
                 delete_checkpoint: bool = True) -> None:
        super().__init__()
        if save_freq != "epoch" and not (isinstance(save_freq, int) and save_freq > 0):
            raise ValueError("save_freq is 'epoch' or a number of batches, not %r" % (save_freq,))
        self.path = os.path.join(os.fspath(backup_dir), "backup.pt")
        self.save_freq, self.double_checkpoint, self.delete_checkpoint = save_freq, double_checkpoint, delete_checkpoint
        self.first_epoch = 0  # where the fit goes on
        self.epoch = self.batches = 0

    def on_train_begin(self, logs: _Logs = None) -> None:
        before = self.path + ".before"
        if not os.path.exists(self.path) and not os.path.exists(before):
            return
        try:
            self._restore(self.path)
        except (OSError, RuntimeError, ValueError, KeyError):
            if not os.path.exists(before):
                raise
            self._restore(before)

    def _restore(self, path: str) -> None:
        from . import load
        kept = load(path)
        self.model.load_state_dict(kept["model"])
        if kept.get("optimizer") is not None:
            self.model.optimizer.load_state_dict(kept["optimizer"])
        self.first_epoch = int(kept["epoch"]) + 1

    def on_epoch_begin(self, epoch: int, logs: _Logs = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: _Logs = None) -> None:
        self.batches += 1
        if self.save_freq != "epoch" and self.batches % self.save_freq == 0:
            self._keep(self.epoch - 1)

    def on_epoch_end(self, epoch: int, logs: _Logs = None) -> None:
        if self.save_freq == "epoch":
            self._keep(epoch)

    def _keep(self, done: int) -> None:
        """Writes the state; done: the last epoch that need not be run again."""
        from . import save
        os.makedirs(os.path.dirname(self.path) or ".", exist_ok=True)
        state = getattr(self.model.optimizer, "state_dict", None)
        part = self.path + ".part"
        save({"model": self.model.state_dict(), "optimizer": None if state is None else state(), "epoch": done,
              "time": time.time()}, part)
        if self.double_checkpoint and os.path.exists(self.path):
            os.replace(self.path, self.path + ".before")
        os.replace(part, self.path)

    def on_train_end(self, logs: _Logs = None) -> None:
        for path in (self.path, self.path + ".before"):
            if self.delete_checkpoint and os.path.exists(path):
                os.remove(path)
