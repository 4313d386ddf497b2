"""Callbacks that write files: the model, rows of figures, event files, and what a fit needs to go on."""
from __future__ import annotations

import csv
import os
import time
from typing import Any

from ._arguments import refused
from ._callback_base import Callback, Logs, Watching, rate_of
from ._progress import figure

__all__ = ["BackupAndRestore", "CSVLogger", "ModelCheckpoint", "TensorBoard"]


class ModelCheckpoint(Watching):  # unused: logs (the callbacks' signature)
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

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.batches += 1
        if self.save_freq != "epoch" and self.batches % self.save_freq == 0:
            self._save(self.epoch, logs, batch)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
        if self.save_freq == "epoch":
            self._save(epoch, logs, 0)

    def _save(self, epoch: int, logs: Logs, batch: int) -> None:
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

    def on_train_begin(self, logs: Logs = None) -> None:
        old = self.append and os.path.exists(self.filename) and os.path.getsize(self.filename) > 0
        self.file = open(self.filename, "a" if self.append else "w", newline="", encoding="utf-8")
        self.keys, self.headed = None, bool(old)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
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

    def on_train_end(self, logs: Logs = None) -> None:
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

    def on_train_begin(self, logs: Logs = None) -> None:
        if self.write_graph:
            self._writer("train").add_text("model", repr(self.model), 0)

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.begun, self.first = time.monotonic(), self.step

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.step += 1
        every = 1 if self.update_freq == "batch" else self.update_freq
        if isinstance(every, int) and self.step % every == 0:
            for name, value in (logs or {}).items():
                self._writer("train").add_scalar("batch_" + name, float(value), self.step)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
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

    def on_train_end(self, logs: Logs = None) -> None:
        for writer in self.writers.values():
            writer.close()
        self.writers = {}


def _picture(weight: Any) -> Any:
    """A weight as grey values between 0 and 1, its last dimension from left to right."""
    flat = weight.detach().float().cpu()
    flat = flat.reshape(1, -1) if flat.ndim < 2 else flat.reshape(-1, flat.shape[-1])
    low, high = flat.min(), flat.max()
    return (flat - low) / (high - low).clamp(min=1e-12)


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

    def on_train_begin(self, logs: Logs = None) -> None:
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

    def on_epoch_begin(self, epoch: int, logs: Logs = None) -> None:
        self.epoch = epoch

    def on_train_batch_end(self, batch: int, logs: Logs = None) -> None:
        self.batches += 1
        if self.save_freq != "epoch" and self.batches % self.save_freq == 0:
            self._keep(self.epoch - 1)

    def on_epoch_end(self, epoch: int, logs: Logs = None) -> None:
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

    def on_train_end(self, logs: Logs = None) -> None:
        for path in (self.path, self.path + ".before"):
            if self.delete_checkpoint and os.path.exists(path):
                os.remove(path)
