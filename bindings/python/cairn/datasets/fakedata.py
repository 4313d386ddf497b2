"""Images for trying programs out."""
from __future__ import annotations

from typing import Any

from .. import _C
from ..transforms import functional as _F
from .vision import VisionDataset, _Change

__all__ = ["FakeData"]


class FakeData(VisionDataset):
    """Random images, the same each time, for trying programs out."""

    def __init__(self, size: int = 1000, image_size: tuple[int, int, int] = (3, 224, 224), num_classes: int = 10,
                 transform: _Change = None, target_transform: _Change = None, random_offset: int = 0) -> None:
        super().__init__(None, None, transform, target_transform)
        self.size = size
        self.image_size = tuple(image_size)
        self.num_classes = num_classes
        self.random_offset = random_offset

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Any:
        if not 0 <= index < self.size:
            raise IndexError("there is no sample %d among %d" % (index, self.size))
        source = _C.Generator().manual_seed(index + self.random_offset)
        image = _F.convert_image_dtype(_C.rand(self.image_size, generator=source), _C.uint8)
        label = int(_C.randint(0, self.num_classes, (1,), generator=source).item())
        return self._pictured(image, label)
