"""Data sets that lie in a folder with a folder for each class."""
from __future__ import annotations

import os
from typing import Any, Callable, Sequence

from .. import _C
from .._tensor import Tensor
from ..transforms import io as _io
from .vision import VisionDataset, _Change, _Path

__all__ = ["DatasetFolder", "IMG_EXTENSIONS", "ImageFolder", "default_loader", "find_classes",
           "has_file_allowed_extension", "is_image_file", "make_dataset"]

IMG_EXTENSIONS = (".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp")


def has_file_allowed_extension(filename: str, extensions: str | Sequence[str]) -> bool:
    """Whether a name ends so; capital letters count as small ones."""
    endings = (extensions,) if isinstance(extensions, str) else tuple(extensions)
    return filename.lower().endswith(endings)


def is_image_file(filename: str) -> bool:
    return has_file_allowed_extension(filename, IMG_EXTENSIONS)


def default_loader(path: str) -> Tensor:
    """An image as (3, height, width) of uint8: PNG and JPEG by the library, other kinds by Pillow."""
    if has_file_allowed_extension(path, (".jpg", ".jpeg", ".png")):
        return _io.read_image(path, _io.ImageReadMode.RGB)
    from PIL import Image
    from ..transforms.functional import pil_to_tensor
    with Image.open(path) as image:
        return pil_to_tensor(image.convert("RGB"))


def find_classes(directory: _Path) -> tuple[list[str], dict[str, int]]:
    """The folders in a folder, in order, and their numbers."""
    classes = sorted(entry.name for entry in os.scandir(directory) if entry.is_dir())
    if not classes:
        raise FileNotFoundError("there is no folder of a class in %s" % os.fspath(directory))
    return classes, {name: i for i, name in enumerate(classes)}


def make_dataset(directory: _Path, class_to_idx: dict[str, int] | None = None,
                 extensions: str | Sequence[str] | None = None, is_valid_file: Callable[[str], bool] | None = None,
                 allow_empty: bool = False) -> list[tuple[str, int]]:
    """(path, class) of the files below each class's folder, in order. Either their endings or a function says which."""
    if (extensions is None) == (is_valid_file is None):
        raise ValueError("either extensions or is_valid_file says which files count")
    if class_to_idx is None:
        class_to_idx = find_classes(directory)[1]
    if not class_to_idx:
        raise ValueError("there must be at least one class")
    endings = extensions or ()
    fits = is_valid_file or (lambda path: has_file_allowed_extension(path, endings))
    samples: list[tuple[str, int]] = []
    empty = set(class_to_idx)
    for name in sorted(class_to_idx):
        for folder, _, files in sorted(os.walk(os.path.join(os.path.expanduser(directory), name), followlinks=True)):
            paths = [os.path.join(folder, file) for file in sorted(files)]
            found = [(path, class_to_idx[name]) for path in paths if fits(path)]
            if found:
                empty.discard(name)
            samples += found
    if empty and not allow_empty:
        raise FileNotFoundError("there are no files of the classes %s" % ", ".join(sorted(empty)))
    return samples


class DatasetFolder(VisionDataset):
    """Files of any kind below a folder for each class; `loader` reads one by its path. A subclass may find the classes
    (find_classes) or the files (make_dataset) in another way."""

    def __init__(self, root: _Path, loader: Callable[[str], Any], extensions: Sequence[str] | None = None,
                 transform: _Change = None, target_transform: _Change = None,
                 is_valid_file: Callable[[str], bool] | None = None, allow_empty: bool = False) -> None:
        super().__init__(os.path.expanduser(os.fspath(root)), None, transform, target_transform)
        self.loader = loader
        self.extensions = extensions
        self.classes, self.class_to_idx = self.find_classes(self.root)
        self.samples = self.make_dataset(self.root, class_to_idx=self.class_to_idx, extensions=extensions,
                                         is_valid_file=is_valid_file, allow_empty=allow_empty)
        self.targets = [label for _, label in self.samples]

    @staticmethod
    def make_dataset(directory: _Path, class_to_idx: dict[str, int], extensions: Sequence[str] | None = None,
                     is_valid_file: Callable[[str], bool] | None = None,
                     allow_empty: bool = False) -> list[tuple[str, int]]:
        return make_dataset(directory, class_to_idx, extensions, is_valid_file, allow_empty)

    def find_classes(self, directory: _Path) -> tuple[list[str], dict[str, int]]:
        return find_classes(directory)

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        path, label = self.samples[index]
        return self._changed((self.loader(path), label))


class ImageFolder(DatasetFolder):
    """A folder with a folder of images for each class, in the order of their names: (3, H, W) uint8. A `loader` of
    one's own gets the path of an image. Where all are PNG and JPEG the library's threads read them."""

    def __init__(self, root: _Path, transform: _Change = None, target_transform: _Change = None,
                 loader: Callable[[str], Any] | None = None, is_valid_file: Callable[[str], bool] | None = None,
                 allow_empty: bool = False) -> None:
        super().__init__(root, loader or default_loader, IMG_EXTENSIONS if is_valid_file is None else None, transform,
                         target_transform, is_valid_file, allow_empty)
        self.imgs = self.samples

    def __getitem__(self, index: int) -> Any:
        if self.loader is not default_loader:
            return super().__getitem__(index)
        path, label = self.samples[index]
        return self._pictured(default_loader(path), label)

    def _native(self) -> _C.NativeDataset | None:
        if self.loader is not default_loader:
            return None
        whole = _C._image_folder(self.root)
        places = {path: i for i, (path, _) in enumerate(whole.samples())}
        rows = [places.get(path, -1) for path, _ in self.samples]
        known = whole.samples()
        if -1 in rows or any(known[i][1] != label for i, (_, label) in zip(rows, self.samples)):
            return None
        data = whole if rows == list(range(len(known))) else whole.subset(_C.tensor(rows, dtype=_C.int64))
        return self._with_transform(data)
