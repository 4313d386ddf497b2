"""torchvision.transforms.v2's names, where they are other than the old ones: ToImage, ToDtype; and all of those."""
from __future__ import annotations

from typing import Any

from .. import _C
from .._tensor import Tensor
from . import functional as functional
from ._batch import CutMix as CutMix, MixUp as MixUp
from ._image import is_pil, pil_to_tensor
from ._plain import *  # noqa: F401,F403
from ._plain import Transform
from ._random import *  # noqa: F401,F403
from .functional import InterpolationMode as InterpolationMode


class ToImage(Transform):
    """Pillow's images and arrays of (height, width, channels) as tensors, their values as they are."""

    def forward(self, img: Any) -> Tensor:
        if isinstance(img, Tensor):
            return img
        if is_pil(img):
            return pil_to_tensor(img)
        made = _C.tensor(img)
        return made.unsqueeze(0) if made.ndim == 2 else made.permute(2, 0, 1).contiguous()


class ToDtype(Transform):
    """Another type; with scale=True the values are scaled to its range."""

    _fields = ("dtype", "scale")

    def __init__(self, dtype: _C.dtype, scale: bool = False) -> None:
        self.dtype = dtype
        self.scale = scale

    def forward(self, img: Any) -> Tensor:
        return functional.convert_image_dtype(img, self.dtype) if self.scale else img.to(self.dtype)
