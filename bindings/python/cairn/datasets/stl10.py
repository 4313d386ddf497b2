"""STL-10: colour pictures of 96 x 96 pixels in 10 classes, and many without."""
from __future__ import annotations

import os
from typing import Any

from .. import _C
from .._tensor import Tensor
from .vision import _Change, _Images, _Path, _unpack

__all__ = ["STL10"]


class STL10(_Images):
    """5,000 to train with, 8,000 to test with, and 100,000 without a class (whose class is -1): root/stl10_binary.
    split: train, test, unlabeled or train+unlabeled; folds: one of the ten parts of the training set."""

    base_folder = "stl10_binary"
    url = "http://ai.stanford.edu/~acoates/stl10/stl10_binary.tar.gz"
    splits = ("train", "train+unlabeled", "unlabeled", "test")

    def __init__(self, root: _Path, split: str = "train", folds: int | None = None, transform: _Change = None,
                 target_transform: _Change = None, download: bool = False) -> None:
        if split not in self.splits:
            raise ValueError("there is no split %r; there are %s" % (split, ", ".join(self.splits)))
        if folds is not None and not 0 <= folds < 10:
            raise ValueError("the folds are 0 to 9, not %r" % (folds,))
        super().__init__(os.path.expanduser(os.fspath(root)), None, transform, target_transform)
        self.split, self.folds = split, folds
        folder = os.path.join(self.root, self.base_folder)
        if download and not os.path.isfile(os.path.join(folder, "train_X.bin")):
            _unpack(self.url, self.root, lambda name: name.startswith(self.base_folder + "/"))
        parts = [self._part(folder, name) for name in split.split("+")]
        self._images = _C.cat([images for images, _ in parts])
        self._labels = _C.cat([labels for _, labels in parts])
        with open(os.path.join(folder, "class_names.txt"), encoding="utf-8") as file:
            self.classes = file.read().split()

    def _part(self, folder: str, name: str) -> tuple[Tensor, Tensor]:
        """Images (n, 3, 96, 96) and classes from 0 on. The files have columns before rows, and classes from 1 on."""
        images, labels = (os.path.join(folder, "%s_%s.bin" % (name, kind)) for kind in "Xy")
        if not os.path.isfile(images):
            raise RuntimeError("STL10 is not in %s: download=True fetches it" % folder)
        with open(images, "rb") as file:
            x = _C.frombuffer(bytearray(file.read()), dtype=_C.uint8).view(-1, 3, 96, 96).transpose(2, 3).contiguous()
        if name == "unlabeled":
            return x, _C.full((len(x),), -1, dtype=_C.int64)
        with open(labels, "rb") as file:
            y = _C.frombuffer(bytearray(file.read()), dtype=_C.uint8).to(_C.int64) - 1
        if name == "train" and self.folds is not None:
            with open(os.path.join(folder, "fold_indices.txt"), encoding="utf-8") as text:
                rows = _C.tensor([int(i) for i in text.read().splitlines()[self.folds].split()])
            x, y = x[rows], y[rows]
        return x, y

    @property
    def targets(self) -> Any:
        return self._labels

    @property
    def labels(self) -> Any:
        """The classes, as numpy's array where numpy is."""
        from ._cifar import _has_numpy
        return self._labels.numpy() if _has_numpy() else self._labels

    @property
    def data(self) -> Any:
        """(n, 3, 96, 96)"""
        from ._cifar import _has_numpy
        return self._images.numpy() if _has_numpy() else self._images

    def _pixels(self) -> Tensor:
        return self._images

    def extra_repr(self) -> str:
        return "Split: %s" % self.split
