"""Data sets: those inside the library, its readers of files, and torchvision's classes on them.

A sample is (image or row as a tensor, class as an int). Images are (channels, height, width); those of MNIST, CIFAR
and folders are uint8 until a transform (transforms.ToTensor) makes floats of them. A DataLoader runs these data sets in
the library's own threads, also with transforms, as long as those are the library's too.
"""
from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from . import _C
from ._tensor import Tensor
from .transforms import functional as _F
from .transforms._plain import native_of as _native_transform
from .utils.data.dataset import Dataset

__all__ = ["CIFAR10", "CIFAR100", "FakeData", "FashionMNIST", "ImageFolder", "KMNIST", "MNIST", "NativeDataset",
           "cifar", "csv", "digits", "idx", "image_folder", "tensors", "tokens"]

_Path = str | os.PathLike[str]
_Change = Callable[[Any], Any] | None


class _Changing(Dataset[Any]):
    """A data set with a transform of the first field and one of the second."""

    transform: _Change
    target_transform: _Change

    def _changed(self, sample: tuple[Any, ...]) -> Any:
        if self.transform is not None:
            sample = (self.transform(sample[0]), *sample[1:])
        if self.target_transform is not None and len(sample) > 1:
            sample = (sample[0], self.target_transform(sample[1]), *sample[2:])
        return sample

    def _with_transform(self, data: _C.NativeDataset | None) -> _C.NativeDataset | None:
        """As the library runs it; None where a transform is Python's."""
        if data is None or self.target_transform is not None or self.transform is None:
            return data if self.target_transform is None else None
        native = _native_transform(self.transform)
        return None if native is None else data.transformed(native)


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


# ---- torchvision's classes ----

class _Images(_Changing):
    """Images in memory, as uint8, with their classes."""

    classes: list[str]
    targets: Any

    def _pixels(self) -> Tensor:
        """(n, channels, height, width)"""
        raise NotImplementedError

    @property
    def class_to_idx(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.classes)}

    def __len__(self) -> int:
        return len(self.targets)

    def __getitem__(self, index: Any) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError("there is no sample %d among %d" % (index, len(self)))
        return self._changed((self._pixels()[index], int(self.targets[index])))

    def _native(self) -> _C.NativeDataset | None:
        pixels, targets = self._pixels(), _C.as_tensor(self.targets, dtype=_C.int64)
        if not pixels.is_cpu or not pixels.is_contiguous() or pixels.shape[0] != targets.shape[0]:
            return None
        return self._with_transform(_C._dataset_tensors((pixels, targets)))

    def __repr__(self) -> str:
        lines = ["Dataset %s" % type(self).__name__, "    Number of datapoints: %d" % len(self)]
        root = getattr(self, "root", None)
        return "\n".join(lines + ([] if root is None else ["    Root location: %s" % root]))


def _fetch(url: str, folder: str, to: str, sha256: str | None) -> None:
    """Downloads into the library's own folder (which keeps it for other roots), and copies."""
    import shutil
    os.makedirs(to, exist_ok=True)
    kept = _C._download(url, sha256, folder, None)
    place = os.path.join(to, os.path.basename(kept))
    shutil.copyfile(kept, place + ".part")
    os.replace(place + ".part", place)


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
        self.root = os.path.expanduser(os.fspath(root))
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        if download:
            self.download()
        part = "train" if train else "t10k"
        images, labels = (self._file("%s-%s-ubyte" % (part, kind)) for kind in ("images-idx3", "labels-idx1"))
        if images is None or labels is None:
            raise RuntimeError("%s is not in %s: download=True fetches it" % (type(self).__name__, self.raw_folder))
        self.data: Tensor = _C._load_idx(images)
        self.targets: Tensor = _C._load_idx(labels).to(_C.int64)

    @property
    def raw_folder(self) -> str:
        return os.path.join(self.root, type(self).__name__, "raw")

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
        for part in ("train", "t10k"):
            for kind in ("images-idx3", "labels-idx1"):
                name = "%s-%s-ubyte" % (part, kind)
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


class CIFAR10(_Images):
    """Colour pictures of 32 x 32 pixels in 10 classes, 50,000 to train with and 10,000 to test with: the binary files
    in root/cifar-10-batches-bin. download=True fetches and unpacks them. `data` is (n, 32, 32, 3)."""

    base_folder = "cifar-10-batches-bin"
    url = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
    sha256: str | None = None
    _number = 10
    _parts = (["data_batch_%d.bin" % i for i in range(1, 6)], ["test_batch.bin"])
    _names = "batches.meta.txt"

    def __init__(self, root: _Path, train: bool = True, transform: _Change = None, target_transform: _Change = None,
                 download: bool = False) -> None:
        self.root = os.path.expanduser(os.fspath(root))
        self.train = train
        self.transform = transform
        self.target_transform = target_transform
        files = [os.path.join(self.root, self.base_folder, f) for f in self._parts[0 if train else 1]]
        if download and not all(os.path.isfile(f) for f in files):
            self.download()
        if not all(os.path.isfile(f) for f in files):
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
        import tarfile
        _fetch(self.url, "datasets", self.root, self.sha256)
        wanted = {self.base_folder + "/" + name for name in (*self._parts[0], *self._parts[1], self._names)}
        with tarfile.open(os.path.join(self.root, os.path.basename(self.url))) as archive:
            for member in archive:
                if member.isfile() and member.name in wanted:
                    archive.extract(member, self.root)

    @property
    def data(self) -> Tensor:
        return self._images.permute(0, 2, 3, 1)

    @data.setter
    def data(self, images: Any) -> None:
        self._images = _C.as_tensor(images).permute(0, 3, 1, 2).contiguous()

    def _pixels(self) -> Tensor:
        return self._images


class CIFAR100(CIFAR10):
    """The same with 100 classes (the fine ones)."""

    base_folder = "cifar-100-binary"
    url = "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz"
    _number = 100
    _parts = (["train.bin"], ["test.bin"])
    _names = "fine_label_names.txt"


class ImageFolder(NativeDataset):
    """A folder with a folder of PNG and JPEG images for each class, in the order of their names: (3, H, W) uint8.
    A `loader` of one's own gets the path of an image."""

    def __init__(self, root: _Path, transform: _Change = None, target_transform: _Change = None,
                 loader: Callable[[str], Any] | None = None,
                 is_valid_file: Callable[[str], bool] | None = None) -> None:
        self.root = os.path.expanduser(os.fspath(root))
        super().__init__(_C._image_folder(self.root), transform, target_transform)
        self.loader = loader
        self.samples: list[tuple[str, int]] = self._data.samples()
        if is_valid_file is not None:
            kept = [i for i, (path, _) in enumerate(self.samples) if is_valid_file(path)]
            self._data = self._data.subset(_C.tensor(kept, dtype=_C.int64))
            self.samples = [self.samples[i] for i in kept]
        self.imgs = self.samples
        self.targets = [label for _, label in self.samples]

    def __getitem__(self, index: int) -> Any:
        if self.loader is None:
            return super().__getitem__(index)
        path, label = self.samples[index]
        return self._changed((self.loader(path), label))

    def _native(self) -> _C.NativeDataset | None:
        return super()._native() if self.loader is None else None


image_folder = ImageFolder


class FakeData(_Changing):
    """Random images, the same each time, for trying programs out."""

    def __init__(self, size: int = 1000, image_size: tuple[int, int, int] = (3, 224, 224), num_classes: int = 10,
                 transform: _Change = None, target_transform: _Change = None, random_offset: int = 0) -> None:
        self.size = size
        self.image_size = tuple(image_size)
        self.num_classes = num_classes
        self.transform = transform
        self.target_transform = target_transform
        self.random_offset = random_offset

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.size:
            raise IndexError("there is no sample %d among %d" % (index, self.size))
        source = _C.Generator().manual_seed(index + self.random_offset)
        image = _F.convert_image_dtype(_C.rand(self.image_size, generator=source), _C.uint8)
        label = int(_C.randint(0, self.num_classes, (1,), generator=source).item())
        return self._changed((image, label))
