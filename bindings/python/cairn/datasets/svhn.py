"""SVHN: house numbers, colour pictures of 32 x 32 pixels of one digit each."""
from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from .. import _C
from .._tensor import Tensor
from .vision import _Change, _fetch, _Images, _Path

__all__ = ["SVHN"]


class SVHN(_Images):
    """73,257 to train with, 26,032 to test with, 531,131 easier ones (extra): root/train_32x32.mat and so on, which
    scipy reads. `data` is numpy's (n, 3, 32, 32), `labels` the digits."""

    url = "http://ufldl.stanford.edu/housenumbers/"
    splits = ("train", "test", "extra")
    classes = [str(i) for i in range(10)]

    def __init__(self, root: _Path, split: str = "train", transform: _Change = None, target_transform: _Change = None,
                 download: bool = False) -> None:
        if split not in self.splits:
            raise ValueError("there is no split %r; there are %s" % (split, ", ".join(self.splits)))
        super().__init__(os.path.expanduser(os.fspath(root)), None, transform, target_transform)
        self.split = split
        name = split + "_32x32.mat"
        path = os.path.join(self.root, name)
        if download and not os.path.isfile(path):
            _fetch(self.url + name, "datasets/SVHN", self.root, None)
        if not os.path.isfile(path):
            raise RuntimeError("SVHN is not in %s: download=True fetches it" % self.root)
        found = import_module("scipy.io").loadmat(path)
        self.data = found["X"].transpose(3, 2, 0, 1).copy()  # was (32, 32, 3, n)
        self.labels = found["y"].astype("int64").squeeze()
        self.labels[self.labels == 10] = 0  # as the files have the digit 0

    @property
    def targets(self) -> Any:
        return self.labels

    def _pixels(self) -> Tensor:
        return _C.as_tensor(self.data)

    def extra_repr(self) -> str:
        return "Split: %s" % self.split
