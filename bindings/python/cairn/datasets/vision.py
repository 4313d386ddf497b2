"""What data sets of images share: their transforms, their text, how files come to a machine.

Place: below the other modules of cairn.datasets. VisionDataset is also what programs derive their own sets from.
"""
from __future__ import annotations

import os
from typing import Any, Callable

from .. import _C
from .._tensor import Tensor
from ..transforms._image import to_pil_image
from ..transforms._plain import asks_for_pillow, native_of as _native_transform
from ..utils.data.dataset import Dataset

__all__ = ["StandardTransform", "VisionDataset"]

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


def _has_pillow() -> bool:
    try:
        import PIL  # noqa: F401
    except ImportError:
        return False
    return True


class StandardTransform:
    """A transform of images and one of targets as one of both."""

    def __init__(self, transform: _Change = None, target_transform: _Change = None) -> None:
        self.transform = transform
        self.target_transform = target_transform

    def __call__(self, input: Any, target: Any) -> tuple[Any, Any]:
        if self.transform is not None:
            input = self.transform(input)
        if self.target_transform is not None:
            target = self.target_transform(target)
        return input, target

    def __repr__(self) -> str:
        lines = [type(self).__name__]
        for head, change in (("Transform: ", self.transform), ("Target transform: ", self.target_transform)):
            if change is not None:
                first, *others = repr(change).splitlines()
                lines += [head + first] + [" " * len(head) + line for line in others]
        return "\n".join(lines)


class VisionDataset(_Changing):
    """A data set of images in a folder, to derive from: __getitem__ and __len__ are the program's. Either `transform`
    and `target_transform`, or `transforms`, which takes and gives both."""

    _repr_indent = 4

    def __init__(self, root: _Path | None = None, transforms: Callable[..., Any] | None = None,
                 transform: _Change = None, target_transform: _Change = None) -> None:
        if transforms is not None and (transform is not None or target_transform is not None):
            raise ValueError("either transforms, or transform and target_transform")
        self.root: Any = os.path.expanduser(root) if isinstance(root, str) else root
        self.transform = transform
        self.target_transform = target_transform
        self.transforms = transforms
        if transform is not None or target_transform is not None:
            self.transforms = StandardTransform(transform, target_transform)

    def _pictured(self, image: Tensor, label: Any) -> Any:
        """A sample with its transforms. What is not the library's own gets one of Pillow's images, as from torchvision,
        where Pillow is installed."""
        picture: Any = image
        if self.transform is not None and asks_for_pillow(self.transform) and _has_pillow():
            picture = to_pil_image(image)
        return self._changed((picture, label))

    def __len__(self) -> int:
        raise NotImplementedError("%s has no __len__" % type(self).__name__)

    def extra_repr(self) -> str:
        """More lines for its text."""
        return ""

    def __repr__(self) -> str:
        body = ["Number of datapoints: %d" % len(self)]
        if self.root is not None:
            body.append("Root location: %s" % (self.root,))
        body += self.extra_repr().splitlines()
        if getattr(self, "transforms", None) is not None:
            body.append(repr(self.transforms))
        return "\n".join(["Dataset " + type(self).__name__] + [" " * self._repr_indent + line for line in body])


class _Images(VisionDataset):
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
        return self._pictured(self._pixels()[index], int(self.targets[index]))

    def _native(self) -> _C.NativeDataset | None:
        pixels, targets = self._pixels(), _C.as_tensor(self.targets, dtype=_C.int64)
        if not pixels.is_cpu or not pixels.is_contiguous() or pixels.shape[0] != targets.shape[0]:
            return None
        return self._with_transform(_C._dataset_tensors((pixels, targets)))


def _fetch(url: str, folder: str, to: str, sha256: str | None) -> None:
    """Downloads into the library's own folder (which keeps it for other roots), and copies."""
    import shutil
    os.makedirs(to, exist_ok=True)
    kept = _C._download(url, sha256, folder, None)
    place = os.path.join(to, os.path.basename(kept))
    shutil.copyfile(kept, place + ".part")
    os.replace(place + ".part", place)


def _unpack(url: str, root: str, wanted: Callable[[str], bool]) -> None:
    """Fetches an archive into root and takes files out of it."""
    import tarfile
    _fetch(url, "datasets", root, None)
    with tarfile.open(os.path.join(root, os.path.basename(url))) as archive:
        for member in archive:
            if member.isfile() and wanted(member.name):
                archive.extract(member, root)
