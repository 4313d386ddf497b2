"""Images and targets to what detectors take, and their results back. torchvision.models.detection.transform's names."""
from __future__ import annotations

import math
from typing import Any, Sequence

from ... import _C, nn
from ..._tensor import Tensor
from ...nn import functional as _F
from .image_list import ImageList
from .roi_heads import paste_masks_in_image

__all__ = ["GeneralizedRCNNTransform", "resize_boxes", "resize_keypoints"]

Target = dict[str, Tensor]


def _ratios(like: Tensor, old: Sequence[int], new: Sequence[int]) -> list[Tensor]:
    """How much longer rows and columns become, in float32."""
    return [_C.tensor(float(n), device=like.device) / _C.tensor(float(o), device=like.device)
            for n, o in zip(new, old)]


def resize_boxes(boxes: Tensor, original_size: Sequence[int], new_size: Sequence[int]) -> Tensor:
    """Boxes of an image (height, width) where they are in one of another size."""
    high, wide = _ratios(boxes, original_size, new_size)
    left, top, right, bottom = boxes.unbind(1)
    return _C.stack((left * wide, top * high, right * wide, bottom * high), 1)


def resize_keypoints(keypoints: Tensor, original_size: Sequence[int], new_size: Sequence[int]) -> Tensor:
    """Points (n, k, 3) of x, y and whether they are seen, likewise."""
    high, wide = _ratios(keypoints, original_size, new_size)
    return _C.stack((keypoints[..., 0] * wide, keypoints[..., 1] * high, keypoints[..., 2]), -1)


class GeneralizedRCNNTransform(nn.Module):
    """Subtracts means, divides by deviations, brings the shorter side to min_size (one of them, in training) unless the
    longer one became more than max_size, and joins the images; fixed_size (width, height) does without both."""

    def __init__(self, min_size: int | Sequence[int], max_size: int, image_mean: Sequence[float],
                 image_std: Sequence[float], size_divisible: int = 32, fixed_size: tuple[int, int] | None = None,
                 **kwargs: Any) -> None:
        super().__init__()
        self.min_size = tuple(min_size) if isinstance(min_size, (list, tuple)) else (min_size,)
        self.max_size, self.image_mean, self.image_std = max_size, image_mean, image_std
        self.size_divisible, self.fixed_size = size_divisible, fixed_size
        self._skip_resize = kwargs.pop("_skip_resize", False)
        if kwargs:
            raise TypeError("GeneralizedRCNNTransform got unexpected arguments: %s" % ", ".join(kwargs))

    def forward(self, images: Sequence[Tensor], targets: Sequence[Target] | None = None
                ) -> tuple[ImageList, list[Target] | None]:
        made, changed = [], [dict(t) for t in targets] if targets is not None else None
        for i, image in enumerate(images):
            if image.dim() != 3:
                raise ValueError("images is expected to be a list of 3d tensors of shape [C, H, W], got %s"
                                 % (tuple(image.shape),))
            image, target = self.resize(self.normalize(image), changed[i] if changed is not None else None)
            made.append(image)
            if changed is not None and target is not None:
                changed[i] = target
        sizes = [(int(m.shape[-2]), int(m.shape[-1])) for m in made]
        return ImageList(self.batch_images(made, self.size_divisible), sizes), changed

    def normalize(self, image: Tensor) -> Tensor:
        if not image.is_floating_point():
            raise TypeError("Expected input images to be of floating type (in range [0, 1]), but found type %s instead"
                            % image.dtype)
        mean, std = (_C.as_tensor(v, dtype=image.dtype, device=image.device)[:, None, None]
                     for v in (self.image_mean, self.image_std))
        return (image - mean) / std

    def torch_choice(self, k: Sequence[int]) -> int:
        """One of them, by cairn's random numbers."""
        return k[int(_C.empty((1,)).uniform_(0.0, float(len(k))).item())]

    def resize(self, image: Tensor, target: Target | None = None) -> tuple[Tensor, Target | None]:
        before = image.shape[-2:]
        if self.training and self._skip_resize:
            return image, target
        side = self.torch_choice(self.min_size) if self.training else self.min_size[-1]
        how: dict[str, Any] = {}
        if self.fixed_size is not None:
            how["size"] = [self.fixed_size[1], self.fixed_size[0]]
        else:
            how["scale_factor"] = min(side / min(before), self.max_size / max(before))
            how["recompute_scale_factor"] = True
        image = _F.interpolate(image[None], mode="bilinear", align_corners=False, **how)[0]
        if target is None:
            return image, None
        if "masks" in target:
            target["masks"] = _F.interpolate(target["masks"][:, None].float(), **how)[:, 0].to(_C.uint8)
        target["boxes"] = resize_boxes(target["boxes"], before, image.shape[-2:])
        if "keypoints" in target:
            target["keypoints"] = resize_keypoints(target["keypoints"], before, image.shape[-2:])
        return image, target

    def batch_images(self, images: list[Tensor], size_divisible: int = 32) -> Tensor:
        high, wide = (math.ceil(max(m.shape[d] for m in images) / size_divisible) * size_divisible for d in (1, 2))
        return _C.stack([_F.pad(m, (0, wide - m.shape[2], 0, high - m.shape[1])) for m in images])

    def postprocess(self, result: list[Target], image_shapes: Sequence[tuple[int, int]],
                    original_image_sizes: Sequence[tuple[int, int]]) -> list[Target]:
        for found, size, original in zip(result, image_shapes, original_image_sizes) if not self.training else ():
            found["boxes"] = resize_boxes(found["boxes"], size, original)
            if "masks" in found:
                found["masks"] = paste_masks_in_image(found["masks"], found["boxes"], original)
            if "keypoints" in found:
                found["keypoints"] = resize_keypoints(found["keypoints"], size, original)
        return result

    def __repr__(self) -> str:
        return "%s(\n    Normalize(mean=%s, std=%s)\n    Resize(min_size=%s, max_size=%s, mode='bilinear')\n)" % (
            type(self).__name__, self.image_mean, self.image_std, self.min_size, self.max_size)
