"""What layers that change images share: one image or a batch, channels last or first, factors, draws, sampling.

A layer draws what it will do (get_random_transformation), then does it to images, labels and masks: data are images, or
a dictionary of "images", "labels" and "segmentation_masks". Inside, images are floats (N, C, H, W).
"""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from ..._training.batches import to_tensor
from ..backend import dtype_of, image_data_format
from ..random import SeedGenerator
from .base import Layer

__all__ = ["Augment", "blurred", "range_of", "sampled", "value_pair"]


def range_of(factor: Any, low: float, high: float, name: str = "factor", symmetric: bool = True) -> tuple[Any, Any]:
    """(lower, upper) of a number, which stands for both ways as far as the bounds allow, or of a pair."""
    if isinstance(factor, (list, tuple)) and len(factor) == 2:
        lower, upper = sorted(factor)
    elif isinstance(factor, (int, float)):
        upper = abs(factor)
        lower = max(-upper, low) if symmetric else 0.0
    else:
        raise ValueError("%s is a number or two of them, not %r" % (name, factor))
    if lower < low or upper > high:
        raise ValueError("%s is between %g and %g, not %r" % (name, low, high, factor))
    return lower, upper


def value_pair(value_range: Any) -> list[Any]:
    if not isinstance(value_range, (list, tuple)) or len(value_range) != 2:
        raise ValueError("value_range is a pair of numbers, not %r" % (value_range,))
    return sorted(value_range)


class Augment(Layer):  # unused: n, height, width, drawn (what Augment calls)
    """To subclass with drawn(n, height, width) and changed(images, drawn)."""

    random = True  # whether it does something while training only
    interpolation = "bilinear"

    def _common(self, data_format: str | None, seed: Any = None) -> None:
        self.data_format = data_format or image_data_format()
        if self.data_format not in ("channels_last", "channels_first"):
            raise ValueError("data_format is channels_last or channels_first, not %r" % (data_format,))
        self.seed = seed
        self._numbers = None if seed is None else SeedGenerator(getattr(seed, "initial_seed_value", seed)).generator
        self.built = True

    # ---- draws ----
    def uniform(self, shape: Any, low: float = 0.0, high: float = 1.0) -> Any:
        return cairn.rand(tuple(shape), generator=self._numbers) * (high - low) + low

    def chosen(self, n: int, factor: tuple[float, float]) -> Any:
        """Which images are changed, each by a chance that is drawn from the range."""
        return self.uniform((n,)) < self.uniform((n,), *factor)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return None

    def get_random_transformation(self, data: Any, training: bool = True, seed: Any = None) -> Any:
        """What will be done to a batch; None while not training."""
        images = data["images"] if isinstance(data, dict) else data
        if images.ndim not in (3, 4):
            raise ValueError("%s takes an image or a batch of images, not a tensor of shape %s"
                             % (self.name, tuple(images.shape)))
        if self.random and not training:
            return None
        sizes = images.shape[-2:] if self.data_format == "channels_first" else images.shape[-3:-1]
        before = self._numbers
        if seed is not None:
            self._numbers = seed.generator if isinstance(seed, SeedGenerator) else SeedGenerator(seed).generator
        try:
            return self.drawn(int(images.shape[0]) if images.ndim == 4 else 1, int(sizes[0]), int(sizes[1]))
        finally:
            self._numbers = before

    # ---- changes ----
    def changed(self, images: Any, drawn: Any) -> Any:
        raise NotImplementedError

    def changed_labels(self, labels: Any, drawn: Any) -> Any:
        return labels

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        """Masks of classes; where changes move places they override it."""
        return masks

    def _as_batch(self, f: Any, images: Any, drawn: Any) -> Any:
        """f of (N, C, H, W), whatever the layout is."""
        x = images.unsqueeze(0) if images.ndim == 3 else images
        last = self.data_format == "channels_last"
        out = f(x.permute(0, 3, 1, 2) if last else x, drawn)
        out = out.permute(0, 2, 3, 1) if last else out
        return out.squeeze(0) if images.ndim == 3 else out

    def transform_images(self, images: Any, transformation: Any, training: bool = True) -> Any:
        images = to_tensor(images)
        images = images.to(dtype_of(self._dtype))
        return self._as_batch(self.changed, images, transformation) if training or not self.random else images

    def transform_labels(self, labels: Any, transformation: Any, training: bool = True) -> Any:
        labels = to_tensor(labels)
        return self.changed_labels(labels, transformation) if training or not self.random else labels

    def transform_segmentation_masks(self, segmentation_masks: Any, transformation: Any, training: bool = True) -> Any:
        masks = to_tensor(segmentation_masks)
        if self.random and not training:
            return masks
        return self._as_batch(self.changed_masks, masks.to(dtype_of(self._dtype)), transformation).to(masks.dtype)

    def call(self, data: Any, training: bool = True) -> Any:
        transformation = self.get_random_transformation(data, training)
        if not isinstance(data, dict):
            return self.transform_images(data, transformation, training)
        if "bounding_boxes" in data:
            raise ValueError("%s changes images, labels and segmentation_masks; bounding boxes are not there"
                             % self.name)
        made = dict(data)
        single = data["images"].ndim == 3
        made["images"] = self.transform_images(data["images"], transformation, training)
        if "labels" in data:
            labels = data["labels"].unsqueeze(0) if single else data["labels"]
            labels = self.transform_labels(labels, transformation, training)
            made["labels"] = labels.squeeze(0) if single else labels
        if "segmentation_masks" in data:
            made["segmentation_masks"] = self.transform_segmentation_masks(data["segmentation_masks"], transformation,
                                                                           training)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args and isinstance(args[0], dict):
            args = ({k: to_tensor(v) for k, v in args[0].items()},) + args[1:]
        return super().__call__(*args, **kwargs)


# ---- sampling ----
def sampled(images: Any, x: Any, y: Any, interpolation: str, fill_mode: str, fill_value: float = 0.0) -> Any:
    """images (N, C, H, W) at the places x, y (N, H', W'), in pixels. fill_mode: what lies outside, constant, nearest,
    reflect (d c b a | a b c d), mirror (d c b | a b c d) or wrap."""
    height, width = int(images.shape[2]), int(images.shape[3])
    corners = fill_mode == "mirror"
    if fill_mode == "wrap":
        x, y = x.remainder(width), y.remainder(height)
        images = cairn.cat([images, images[:, :, :1]], 2)
        images = cairn.cat([images, images[:, :, :, :1]], 3)
        height, width = height + 1, width + 1
    if interpolation == "nearest":
        x, y = x.round(), y.round()
    if corners:
        grid = [x * (2.0 / max(width - 1, 1)) - 1.0, y * (2.0 / max(height - 1, 1)) - 1.0]
    else:
        grid = [(x * 2.0 + 1.0) / width - 1.0, (y * 2.0 + 1.0) / height - 1.0]
    outside = {"constant": "zeros", "nearest": "border", "wrap": "border", "reflect": "reflection",
               "mirror": "reflection"}[fill_mode]
    shift = fill_value if fill_mode == "constant" and fill_value else 0.0
    out = F.grid_sample(images - shift if shift else images, cairn.stack(grid, -1).to(images.dtype),
                        mode=interpolation, padding_mode=outside, align_corners=corners)
    return out + shift if shift else out


def blurred(images: Any, sizes: tuple[int, int], sigma: Any) -> Any:
    """images (N, C, H, W) under a bell of these sizes; zeros lie around them."""
    def bell(size: int, s: Any) -> Any:
        at = cairn.arange(size, dtype=images.dtype, device=images.device) - (size - 1) / 2
        w = (-0.5 * (at / s).square()).exp()
        return w / w.sum()
    n = int(images.shape[1])
    kernel = bell(sizes[1], sigma[1]).unsqueeze(1) * bell(sizes[0], sigma[0]).unsqueeze(0)
    return F.conv2d(images, kernel.expand(n, 1, sizes[1], sizes[0]), padding=(sizes[1] // 2, sizes[0] // 2), groups=n)
