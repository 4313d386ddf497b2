"""Data sets of the library itself: its digits, and its readers of files.

Place: cairn.datasets hands these names on. A sample is (image or row as a tensor, class as an int).
"""
from __future__ import annotations

import os
from typing import Any, Sequence

from .. import _C
from .._tensor import Tensor
from .vision import _Change, _Changing, _Path

__all__ = ["NativeDataset", "cifar", "csv", "digits", "idx", "tensors", "tokens"]


class NativeDataset(_Changing):
    """A data set of the library."""

    def __init__(self, data: _C.NativeDataset, transform: _Change = None, target_transform: _Change = None) -> None:
        self._data = data
        self.transform = transform
        self.target_transform = target_transform
        self.classes: list[str] = data.labels
        self.class_to_idx = {name: i for i, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self._data)

    def __getitem__(self, index: int) -> Any:
        return self._changed(self._data.get(index))

    def _native(self) -> _C.NativeDataset | None:
        return self._with_transform(self._data)

    def __repr__(self) -> str:
        return "Dataset %s\n    Number of datapoints: %d" % (self._data.name, len(self))


def digits(train: bool | None = True, transform: _Change = None, target_transform: _Change = None) -> NativeDataset:
    """1,797 hand-written digits of 8 x 8 pixels, inside the library: (1, 8, 8) float32 in [0, 1]. 1,437 to train with,
    360 by other writers to test with, or all (None)."""
    return NativeDataset(_C._digits(2 if train is None else 0 if train else 1), transform, target_transform)


def idx(images: _Path, labels: _Path, transform: _Change = None, target_transform: _Change = None) -> NativeDataset:
    """IDX files (MNIST's format), plain or gzipped: (1, H, W) float32 in [0, 1], and classes."""
    return NativeDataset(_C._idx(os.fspath(images), os.fspath(labels)), transform, target_transform)


def cifar(files: Sequence[_Path], classes: int = 10, transform: _Change = None,
          target_transform: _Change = None) -> NativeDataset:
    """CIFAR's binary files: (3, 32, 32) float32 in [0, 1], and classes."""
    return NativeDataset(_C._cifar(tuple(os.fsencode(f) for f in files), classes), transform, target_transform)


def csv(path: _Path, delimiter: str = ",", header: bool = False, target: str | int | None = None,
        target_classes: bool = False) -> NativeDataset:
    """A table of numbers: a row of float32, and the column `target` (by name or number; None: the last, "": none),
    with target_classes as the number of the class that it names."""
    column = None if target is None else str(target)
    return NativeDataset(_C._csv(os.fspath(path), delimiter, header, column, target_classes))


def tokens(source: _Path | Tensor, length: int, stride: int = 0, dtype: _C.dtype = _C.uint16) -> NativeDataset:
    """Windows over a long row of tokens, a raw file (of `dtype`) or a tensor: `length` tokens every `stride` (0: one
    window behind the other), and the same one token further."""
    if isinstance(source, Tensor):
        return NativeDataset(_C._token_tensor(source, length, stride))
    return NativeDataset(_C._token_file(os.fspath(source), dtype, length, stride))


def tensors(path: _Path) -> NativeDataset:
    """Rows of the tensors of a file (safetensors, npz, npy, pt): x and y, or all in order."""
    return NativeDataset(_C._dataset_load(os.fspath(path)))
