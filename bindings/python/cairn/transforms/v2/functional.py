"""torchvision.transforms.v2.functional's names: those of cairn.transforms.functional, and the newer ones."""
from __future__ import annotations

from typing import Any

from ... import _C
from ..._tensor import Tensor
from .. import functional as _F
from .._image import is_pil
from ..functional import *  # noqa: F401,F403
from ..functional import convert_image_dtype, get_dimensions, get_image_size, hflip, pil_to_tensor, vflip

horizontal_flip, vertical_flip = hflip, vflip


def to_image(inpt: Any) -> Tensor:
    """Pillow's images and arrays of (height, width, channels) as tensors, their values as they are."""
    if isinstance(inpt, Tensor):
        return inpt
    if is_pil(inpt):
        return pil_to_tensor(inpt)
    made = _C.tensor(inpt)
    return made.unsqueeze(0) if made.ndim == 2 else made.permute(2, 0, 1).contiguous()


def to_dtype(inpt: Tensor, dtype: Any = _C.float32, scale: bool = False) -> Tensor:
    """Another type; with scale=True the values are scaled to its range."""
    return convert_image_dtype(inpt, dtype) if scale else inpt.to(dtype)


def get_size(inpt: Any) -> list[int]:
    """Height, width."""
    return get_dimensions(inpt)[1:]


def get_num_channels(inpt: Any) -> int:
    return get_dimensions(inpt)[0]


def permute_channels(inpt: Tensor, permutation: list[int]) -> Tensor:
    """The channels in another order."""
    if sorted(permutation) != list(range(inpt.shape[-3])):
        raise ValueError("%s is no order of %d channels" % (permutation, inpt.shape[-3]))
    return inpt[..., permutation, :, :]


def grayscale_to_rgb(inpt: Any) -> Any:
    """Three channels alike of one; others stay as they are."""
    return _F.rgb_to_grayscale(inpt, 3) if get_dimensions(inpt)[0] == 1 else inpt


def gaussian_noise(inpt: Tensor, mean: float = 0.0, sigma: float = 0.1, clip: bool = True) -> Tensor:
    """Normal numbers added: to floats as they are, to uint8 as parts of 255. clip: not beyond the image's range."""
    if sigma < 0:
        raise ValueError("sigma is 0 or more, not %s" % sigma)
    if inpt.dtype.is_floating_point:
        made = inpt + mean + _C.randn_like(inpt) * sigma
        return made.clamp(0, 1) if clip else made
    if inpt.dtype != _C.uint8:
        raise ValueError("gaussian_noise takes floats or uint8, not %s" % inpt.dtype)
    noise = mean * 255 + _C.randn(inpt.shape, device=inpt.device) * (sigma * 255)
    if clip:
        return (inpt.float() + noise).clamp(0, 255).to(_C.uint8)
    return (inpt.to(_C.int32) + noise.to(_C.int32)).to(_C.uint8)
