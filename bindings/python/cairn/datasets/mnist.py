"""MNIST and the sets in its format."""
from __future__ import annotations

import os
import string
from typing import Any

from .. import _C
from .._tensor import Tensor
from .vision import _Change, _fetch, _Images, _Path

__all__ = ["EMNIST", "FashionMNIST", "KMNIST", "MNIST", "QMNIST"]


class MNIST(_Images):
    """Hand-written digits, 60,000 of 28 x 28 pixels to train with and 10,000 to test with. The files lie in
    root/MNIST/raw as torchvision has them, gzipped or not; download=True fetches those that are missing."""

    mirrors = ["https://ossci-datasets.s3.amazonaws.com/mnist/"]
    _sums: dict[str, str] = {
        "train-images-idx3-ubyte": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
        "train-labels-idx1-ubyte": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
        "t10k-images-idx3-ubyte": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
        "t10k-labels-idx1-ubyte": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"}
    classes = ["0 - zero", "1 - one", "2 - two", "3 - three", "4 - four", "5 - five", "6 - six", "7 - seven",
               "8 - eight", "9 - nine"]

    def __init__(self, root: _Path, train: bool = True, transform: _Change = None, target_transform: _Change = None,
                 download: bool = False) -> None:
        super().__init__(os.path.expanduser(os.fspath(root)), None, transform, target_transform)
        self.train = train
        if download:
            self.download()
        images, labels = (self._file(name) for name in self._names(train))
        if images is None or labels is None:
            raise RuntimeError("%s is not in %s: download=True fetches it" % (type(self).__name__, self.raw_folder))
        self.data: Tensor = _C._load_idx(images)
        self.targets: Tensor = _C._load_idx(labels).to(_C.int64)

    @staticmethod
    def _names(train: bool) -> list[str]:
        """The files of the images and of the classes."""
        part = "train" if train else "t10k"
        return ["%s-%s-ubyte" % (part, kind) for kind in ("images-idx3", "labels-idx1")]

    @property
    def raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

    @property
    def processed_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "processed")

    @property
    def train_labels(self) -> Tensor:
        return self.targets

    test_labels = train_labels

    @property
    def train_data(self) -> Tensor:
        return self.data

    test_data = train_data

    def extra_repr(self) -> str:
        return "Split: %s" % ("Train" if self.train else "Test")

    def _file(self, name: str) -> str | None:
        """Its path, in the raw folder or the root itself."""
        for folder in (self.raw_folder, self.root):
            for ending in ("", ".gz"):
                path = os.path.join(folder, name + ending)
                if os.path.isfile(path):
                    return path
        return None

    def download(self) -> None:
        """Fetches the files that are not there."""
        for name in (*self._names(True), *self._names(False)):
            if self._file(name) is None:
                _fetch(self.mirrors[0] + name + ".gz", "datasets/" + type(self).__name__, self.raw_folder,
                       self._sums.get(name))

    def _pixels(self) -> Tensor:
        return self.data.unsqueeze(1)


class FashionMNIST(MNIST):
    """Pictures of clothes in MNIST's format."""

    mirrors = ["http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/"]
    _sums: dict[str, str] = {}
    classes = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag",
               "Ankle boot"]


class KMNIST(MNIST):
    """Hand-written Japanese characters in MNIST's format."""

    mirrors = ["http://codh.rois.ac.jp/kmnist/dataset/kmnist/"]
    _sums: dict[str, str] = {}
    classes = ["o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"]


class EMNIST(MNIST):
    """Hand-written letters and digits in MNIST's format, divided in several ways: byclass, bymerge, balanced, letters,
    digits, mnist. The images lie on their sides, as in the files. download=True fetches all of them (560 MB)."""

    url = "https://biometrics.nist.gov/cs_links/EMNIST/gzip.zip"
    splits = ("byclass", "bymerge", "balanced", "letters", "digits", "mnist")
    _merged = set("cijklmopsuvwxyz")  # whose small letters count as the capital ones
    _all = set(string.digits + string.ascii_letters)
    classes_split_dict = {
        "byclass": sorted(_all), "bymerge": sorted(_all - _merged), "balanced": sorted(_all - _merged),
        "letters": ["N/A", *string.ascii_lowercase], "digits": [*string.digits], "mnist": [*string.digits]}

    def __init__(self, root: _Path, split: str, train: bool = True, transform: _Change = None,
                 target_transform: _Change = None, download: bool = False) -> None:
        if split not in self.splits:
            raise ValueError("there is no split %r; there are %s" % (split, ", ".join(self.splits)))
        self.split = split
        super().__init__(root, train, transform, target_transform, download)
        self.classes = self.classes_split_dict[split]

    def _names(self, train: bool) -> list[str]:  # type: ignore[override]
        part = "train" if train else "test"
        return ["emnist-%s-%s-%s-ubyte" % (self.split, part, kind) for kind in ("images-idx3", "labels-idx1")]

    def download(self) -> None:
        """Fetches the archive, and takes out what is not there."""
        import shutil
        import zipfile
        names = [*self._names(True), *self._names(False)]
        if all(self._file(name) for name in names):
            return
        _fetch(self.url, "datasets/EMNIST", self.raw_folder, None)
        with zipfile.ZipFile(os.path.join(self.raw_folder, "gzip.zip")) as archive:
            for name in archive.namelist():
                if name.endswith("ubyte.gz"):
                    to = os.path.join(self.raw_folder, os.path.basename(name))
                    with archive.open(name) as source, open(to, "wb") as file:
                        shutil.copyfileobj(source, file)


class QMNIST(MNIST):
    """MNIST with the 60,000 test images that it was drawn from. what: train, test, test10k, test50k or nist. With
    compat=False a target is the whole row of eight numbers, the class first."""

    mirrors = ["https://raw.githubusercontent.com/facebookresearch/qmnist/master/"]
    _sums: dict[str, str] = {}
    subsets = {"train": "train", "test": "test", "test10k": "test", "test50k": "test", "nist": "nist"}

    def __init__(self, root: _Path, what: str | None = None, compat: bool = True, train: bool = True,
                 **kwargs: Any) -> None:
        self.what = what if what is not None else "train" if train else "test"
        self.compat = compat
        if self.what not in self.subsets:
            raise ValueError("there is no part %r; there are %s" % (what, ", ".join(self.subsets)))
        super().__init__(root, self.what == "train", **kwargs)
        part = slice(None, 10000) if self.what == "test10k" else slice(10000, None) if self.what == "test50k" else None
        if part is not None:
            self.data, self.targets = self.data[part].clone(), self.targets[part].clone()

    def _names(self, train: bool) -> list[str]:  # type: ignore[override]  # unused: train (`what` says more)
        part = "xnist" if self.what == "nist" else "qmnist-%s" % self.subsets[self.what]
        return [part + "-images-idx3-ubyte", part + "-labels-idx2-int"]

    def __getitem__(self, index: Any) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError("there is no sample %d among %d" % (index, len(self)))
        row = self.targets[index]
        return self._pictured(self._pixels()[index], int(row[0]) if self.compat else row)

    def extra_repr(self) -> str:
        return "Split: %s" % self.what
