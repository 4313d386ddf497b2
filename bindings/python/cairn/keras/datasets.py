"""keras.datasets: ((x, y), (x, y)) of what cairn.datasets has, as numpy's arrays (tensors where numpy is missing).

mnist.load_data("folder") reads the files of a folder; without one it is "data" where the program runs (or what the
variable CAIRN_DATA names), and files that are missing there are fetched as cairn.datasets.MNIST(download=True) does.
"""
from __future__ import annotations

import os
from typing import Any

import cairn

from ._batches import array

__all__ = ["cifar10", "cifar100", "digits", "fashion_mnist", "mnist"]

_Parts = tuple[tuple[Any, Any], tuple[Any, Any]]


class _Digits:
    """1,797 hand-written digits of 8 x 8 pixels, float32 in [0, 1], which are part of the library."""

    def load_data(self) -> _Parts:
        return self._part(True), self._part(False)

    def _part(self, train: bool) -> tuple[Any, Any]:
        from ..utils.data import DataLoader
        batches = list(DataLoader(cairn.datasets.digits(train=train), batch_size=512))
        x, y = cairn.cat([b[0] for b in batches]), cairn.cat([b[1] for b in batches])
        return array(x.squeeze(1)), array(y)


class _Files:
    def __init__(self, kind: str, columns: bool) -> None:
        self.kind, self.columns = kind, columns  # whether classes are (n, 1), as Keras has them for CIFAR

    def load_data(self, path: str | None = None, label_mode: str = "fine") -> _Parts:
        """path: the folder of the files."""
        folder = path if path is not None and os.path.isdir(path) else os.environ.get("CAIRN_DATA", "data")
        make = getattr(cairn.datasets, self.kind)
        parts = []
        for train in (True, False):
            found = make(folder, train=train, download=folder != path)
            y = array(cairn.as_tensor(found.targets).to(cairn.uint8))
            parts.append((array(found.data.contiguous()), y[:, None] if self.columns else y))
        return parts[0], parts[1]


digits = _Digits()
mnist, fashion_mnist = _Files("MNIST", False), _Files("FashionMNIST", False)
cifar10, cifar100 = _Files("CIFAR10", True), _Files("CIFAR100", True)
