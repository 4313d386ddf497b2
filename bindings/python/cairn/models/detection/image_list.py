"""Images of several sizes in one tensor. torchvision.models.detection.image_list's name."""
from __future__ import annotations

from typing import Any

from ..._tensor import Tensor

__all__ = ["ImageList"]


class ImageList:
    """tensors: the images, filled up with zeros to one size; image_sizes: what each was before."""

    def __init__(self, tensors: Tensor, image_sizes: list[tuple[int, int]]) -> None:
        self.tensors, self.image_sizes = tensors, image_sizes

    def to(self, device: Any) -> ImageList:
        return ImageList(self.tensors.to(device), self.image_sizes)
