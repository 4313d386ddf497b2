"""CIFAR-10 and CIFAR-100, from their binary files or those for Python."""
from __future__ import annotations

import os
import pickle
from typing import Any

from .. import _C
from .._tensor import Tensor
from .vision import _Change, _Images, _Path, _unpack

__all__ = ["CIFAR10", "CIFAR100"]


def _has_numpy() -> bool:
    try:
        import numpy  # noqa: F401
    except ImportError:
        return False
    return True


# ---- the files for Python ----

class _Array:
    """What a pickle has of numpy's arrays and their types, without numpy."""

    raw: bytes = b""
    shape: tuple[int, ...] = ()

    def __init__(self, *args: Any) -> None:  # unused: args (__setstate__ has all that is wanted)
        pass

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        if len(state) == 5:  # version, shape, type, order, bytes; a type's own state is longer
            data = state[4]
            self.shape, self.raw = state[1], data if isinstance(data, bytes) else data.encode("latin1")


class _Reader(pickle.Unpickler):
    """Reads lists, texts and arrays of bytes, and nothing that could do anything."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith("numpy") and name in ("_reconstruct", "ndarray", "dtype"):
            return _Array
        if (module, name) == ("_codecs", "encode"):
            return lambda text, coding: text.encode(coding)
        raise pickle.UnpicklingError("a file of CIFAR does not hold a %s.%s" % (module, name))


def _read(path: str) -> dict[str, Any]:
    with open(path, "rb") as file:
        found: dict[str, Any] = _Reader(file, encoding="latin1").load()
    return found


def read_pickles(paths: list[str], keys: tuple[str, str, str]) -> tuple[Tensor, list[int], list[str]]:
    """Images (n, 3, 32, 32), classes and the names of the classes of CIFAR's files for Python."""
    labels, meta, names = keys
    parts = [_read(path) for path in paths]
    raw = bytearray(b"".join(part["data"].raw for part in parts))
    targets = [int(label) for part in parts for label in part[labels]]
    file = os.path.join(os.path.dirname(paths[0]), meta)
    known = _read(file)[names] if os.path.isfile(file) else [str(i) for i in range(max(targets) + 1)]
    return _C.frombuffer(raw, dtype=_C.uint8).view(-1, 3, 32, 32), targets, [str(name) for name in known]


# ---- the sets ----

class CIFAR10(_Images):
    """Colour pictures of 32 x 32 pixels in 10 classes, 50,000 to train with and 10,000 to test with: the binary files
    in root/cifar-10-batches-bin, or those for Python in cifar-10-batches-py. download=True fetches and unpacks the
    former. `data` is (n, 32, 32, 3): numpy's array, or a tensor where numpy is missing."""

    base_folder = "cifar-10-batches-bin"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    _number = 10
    _parts = (["data_batch_%d.bin" % i for i in range(1, 6)], ["test_batch.bin"])
    _names = "batches.meta.txt"
    _pickled = "cifar-10-batches-py"
    _keys = ("labels", "batches.meta", "label_names")

    def __init__(self, root: _Path, train: bool = True, transform: _Change = None, target_transform: _Change = None,
                 download: bool = False) -> None:
        super().__init__(os.path.expanduser(os.fspath(root)), None, transform, target_transform)
        self.train = train
        part = 0 if train else 1
        files = [os.path.join(self.root, self.base_folder, f) for f in self._parts[part]]
        pickles = [os.path.join(self.root, self._pickled, f.removesuffix(".bin")) for f in self._parts[part]]
        if not all(map(os.path.isfile, files)) and all(map(os.path.isfile, pickles)):
            self._images, self.targets, self.classes = read_pickles(pickles, self._keys)
            return
        if download and not all(map(os.path.isfile, files)):
            self.download()
        if not all(map(os.path.isfile, files)):
            raise RuntimeError("%s is not in %s: download=True fetches it"
                               % (type(self).__name__, os.path.join(self.root, self.base_folder)))
        self._images, labels = _C._load_cifar(tuple(os.fsencode(f) for f in files), self._number)
        self.targets: list[int] = labels.tolist()
        self.classes = self._class_names()

    def _class_names(self) -> list[str]:
        path = os.path.join(self.root, self.base_folder, self._names)
        if not os.path.isfile(path):
            return [str(i) for i in range(self._number)]
        with open(path, encoding="utf-8") as file:
            return [line.strip() for line in file if line.strip()]

    def download(self) -> None:
        """Fetches and unpacks the archive."""
        wanted = {self.base_folder + "/" + name for name in (*self._parts[0], *self._parts[1], self._names)}
        _unpack(self.url, self.root, wanted.__contains__)

    @property
    def data(self) -> Any:
        images = self._images.permute(0, 2, 3, 1)
        return images.numpy() if _has_numpy() else images

    @data.setter
    def data(self, images: Any) -> None:
        self._images = _C.as_tensor(images).permute(0, 3, 1, 2).contiguous()

    def _pixels(self) -> Tensor:
        return self._images

    def extra_repr(self) -> str:
        return "Split: %s" % ("Train" if self.train else "Test")


class CIFAR100(CIFAR10):
    """The same with 100 classes (the fine ones)."""

    base_folder = "cifar-100-binary"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
    _number = 100
    _parts = (["train.bin"], ["test.bin"])
    _names = "fine_label_names.txt"
    _pickled = "cifar-100-python"
    _keys = ("fine_labels", "meta", "fine_label_names")
