"""Images made larger, smaller, cut, turned, moved and mirrored."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from .augment import Augment, blurred, range_of, sampled

__all__ = ["CenterCrop", "RandomCrop", "RandomElasticTransform", "RandomFlip", "RandomPerspective", "RandomRotation",
           "RandomShear", "RandomTranslation", "RandomZoom", "Resizing"]


def resized(x: Any, height: int, width: int, interpolation: str = "bilinear", antialias: bool = False) -> Any:
    """x (N, C, H, W) in another size."""
    if interpolation not in ("nearest", "bilinear", "bicubic"):
        raise ValueError("interpolation is nearest, bilinear or bicubic, not %r" % (interpolation,))
    if interpolation == "nearest":
        return F.interpolate(x, size=[height, width], mode="nearest-exact")
    return F.interpolate(x, size=[height, width], mode=interpolation, align_corners=False, antialias=antialias)


def window(x: Any, height: int, width: int) -> Any:
    """The largest centred part of x (N, C, H, W) that has the ratio of these sizes."""
    have = (int(x.shape[2]), int(x.shape[3]))
    h = max(min(have[0], int(have[1] * height / width)), 1)
    w = max(min(have[1], int(have[0] * width / height)), 1)
    return x.narrow(2, (have[0] - h) // 2, h).narrow(3, (have[1] - w) // 2, w)


class Resizing(Augment):  # unused: drawn (what Augment calls)
    """Images of height x width; of the largest part with this ratio, or with room around, where asked."""

    random = False
    _not_options = ("seed",)

    def __init__(self, height: int, width: int, interpolation: str = "bilinear", crop_to_aspect_ratio: bool = False,
                 pad_to_aspect_ratio: bool = False, fill_mode: str = "constant", fill_value: float = 0.0,
                 antialias: bool = False, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if crop_to_aspect_ratio and pad_to_aspect_ratio:
            raise ValueError("one of crop_to_aspect_ratio and pad_to_aspect_ratio, not both")
        if fill_mode != "constant":
            raise ValueError("fill_mode of Resizing is constant, not %r" % (fill_mode,))
        if interpolation not in ("nearest", "bilinear", "bicubic"):
            raise ValueError("interpolation is nearest, bilinear or bicubic, not %r" % (interpolation,))
        self._options(height=height, width=width, interpolation=interpolation, fill_mode=fill_mode,
                      crop_to_aspect_ratio=crop_to_aspect_ratio, pad_to_aspect_ratio=pad_to_aspect_ratio,
                      fill_value=fill_value, antialias=bool(antialias))
        self._common(data_format)

    def _resized(self, images: Any, interpolation: str) -> Any:
        if self.crop_to_aspect_ratio:
            images = window(images, self.height, self.width)
        elif self.pad_to_aspect_ratio:
            h, w = int(images.shape[2]), int(images.shape[3])
            up = (max(h, int(w * self.height / self.width)) - h) // 2
            aside = (max(w, int(h * self.width / self.height)) - w) // 2
            images = F.pad(images, [aside, aside, up, up], value=self.fill_value)
        return resized(images, self.height, self.width, interpolation, self.antialias)

    def changed(self, images: Any, drawn: Any) -> Any:
        return self._resized(images, self.interpolation)

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self._resized(masks, "nearest")


class CenterCrop(Augment):  # unused: drawn (what Augment calls)
    """The middle; images that are smaller are made larger first."""

    random = False

    def __init__(self, height: int, width: int, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(height=height, width=width)
        self._common(data_format)

    def changed(self, images: Any, drawn: Any) -> Any:
        h, w = int(images.shape[2]) - self.height, int(images.shape[3]) - self.width
        if h >= 0 and w >= 0:
            return images.narrow(2, h // 2, self.height).narrow(3, w // 2, self.width)
        return resized(window(images, self.height, self.width), self.height, self.width)

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self.changed(masks, drawn)


class RandomCrop(Augment):  # unused: n (what Augment calls)
    """A part at a place drawn for the batch; without training, the largest centred part in the size asked for."""

    random = False

    def __init__(self, height: int, width: int, seed: int | None = None, data_format: str | None = None,
                 name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        self._options(height=height, width=width)
        self._common(data_format, seed)

    def get_random_transformation(self, data: Any, training: bool = True, seed: Any = None) -> Any:
        return super().get_random_transformation(data, True, seed) if training else None

    def drawn(self, n: int, height: int, width: int) -> Any:
        if height < self.height or width < self.width:
            return None
        at = self.uniform((2,))
        return int(at[0].item() * (height - self.height + 1)), int(at[1].item() * (width - self.width + 1))

    def changed(self, images: Any, drawn: Any) -> Any:
        if drawn is None:
            return resized(window(images, self.height, self.width), self.height, self.width)
        return images.narrow(2, drawn[0], self.height).narrow(3, drawn[1], self.width)

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self.changed(masks, drawn)


class RandomFlip(Augment):  # unused: height, width (what Augment calls)
    def __init__(self, mode: str = "horizontal_and_vertical", seed: int | None = None, data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError("mode is horizontal, vertical or horizontal_and_vertical, not %r" % (mode,))
        self._options(mode=mode)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return {"flips": self.uniform((n, 1, 1, 1)) <= 0.5}

    def changed(self, images: Any, drawn: Any) -> Any:
        dims = [d for word, d in (("horizontal", 3), ("vertical", 2)) if word in self.mode]
        return cairn.where(drawn["flips"].to(images.device), images.flip(dims), images)

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self.changed(masks, drawn)


# ---- places moved ----
class _Warp(Augment):
    """Each image seen through a matrix (x, y of an output are a0 x + a1 y + a2 and b0 x + b1 y + b2 of the input)."""

    def _fill(self, interpolation: str, fill_mode: str, fill_value: float) -> None:
        if interpolation not in ("nearest", "bilinear"):
            raise ValueError("interpolation is nearest or bilinear, not %r" % (interpolation,))
        if fill_mode not in ("reflect", "wrap", "constant", "nearest"):
            raise ValueError("fill_mode is reflect, wrap, constant or nearest, not %r" % (fill_mode,))
        self._options(interpolation=interpolation, fill_mode=fill_mode, fill_value=fill_value)

    def matrix(self, drawn: Any, height: int, width: int) -> Any:
        """(a0, a1, a2, b0, b1, b2), each a tensor (N)."""
        raise NotImplementedError

    def _seen(self, images: Any, drawn: Any, interpolation: str) -> Any:
        height, width = int(images.shape[2]), int(images.shape[3])
        parts = [(p.to(device=images.device, dtype=images.dtype)).reshape(-1, 1, 1)
                 for p in self.matrix(drawn, height, width)]
        y = cairn.arange(height, dtype=images.dtype, device=images.device).reshape(1, -1, 1)
        x = cairn.arange(width, dtype=images.dtype, device=images.device).reshape(1, 1, -1)
        return sampled(images, parts[0] * x + parts[1] * y + parts[2], parts[3] * x + parts[4] * y + parts[5],
                       interpolation, self.fill_mode, self.fill_value)

    def changed(self, images: Any, drawn: Any) -> Any:
        return self._seen(images, drawn, self.interpolation)

    def changed_masks(self, masks: Any, drawn: Any) -> Any:
        return self._seen(masks, drawn, "nearest")


class RandomRotation(_Warp):  # unused: height, width (what Augment calls)
    """factor: parts of a whole turn."""

    def __init__(self, factor: Any, fill_mode: str = "reflect", interpolation: str = "bilinear",
                 seed: int | None = None, fill_value: float = 0.0, data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = range_of(factor, -1.0, 1.0)
        self._fill(interpolation, fill_mode, fill_value)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return {"angle": self.uniform((n,), self.factor[0] * 360.0, self.factor[1] * 360.0)}

    def matrix(self, drawn: Any, height: int, width: int) -> Any:
        angle = drawn["angle"] * (math.pi / 180.0)
        c, s, cx, cy = angle.cos(), angle.sin(), (width - 1) * 0.5, (height - 1) * 0.5
        return c, -s, cx - cx * c + cy * s, s, c, cy - cx * s - cy * c


class RandomZoom(_Warp):  # unused: height, width (what Augment calls)
    """Factors above 0 zoom out, below 0 in."""

    def __init__(self, height_factor: Any, width_factor: Any = None, fill_mode: str = "reflect",
                 interpolation: str = "bilinear", seed: int | None = None, fill_value: float = 0.0,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(height_factor=height_factor, width_factor=width_factor)
        self._tall = range_of(height_factor, -1.0, 1.0, "height_factor")
        self._wide = None if width_factor is None else range_of(width_factor, -1.0, 1.0, "width_factor")
        self._fill(interpolation, fill_mode, fill_value)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        tall = self.uniform((n, 1), *self._tall) + 1.0
        return {"height_zoom": tall,
                "width_zoom": tall if self._wide is None else self.uniform((n, 1), *self._wide) + 1.0}

    def matrix(self, drawn: Any, height: int, width: int) -> Any:
        x, y = drawn["width_zoom"], drawn["height_zoom"]
        zero = cairn.zeros_like(x)
        return x, zero, (1.0 - x) * ((width - 1) / 2.0), zero, y, (1.0 - y) * ((height - 1) / 2.0)


class RandomTranslation(_Warp):  # unused: height, width (what Augment calls)
    """Moved down and to the right by parts of the sizes."""

    def __init__(self, height_factor: Any, width_factor: Any, fill_mode: str = "reflect",
                 interpolation: str = "bilinear", seed: int | None = None, fill_value: float = 0.0,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(height_factor=height_factor, width_factor=width_factor)
        self._down = range_of(height_factor, -1.0, 1.0, "height_factor")
        self._right = range_of(width_factor, -1.0, 1.0, "width_factor")
        self._fill(interpolation, fill_mode, fill_value)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        down = self.uniform((n, 1), *self._down) * height
        return {"translations": cairn.cat([self.uniform((n, 1), *self._right) * width, down], 1)}

    def matrix(self, drawn: Any, height: int, width: int) -> Any:
        right, down = drawn["translations"].unbind(1)
        one, zero = cairn.ones_like(down), cairn.zeros_like(down)
        return one, zero, -right, zero, one, -down


class RandomShear(_Warp):  # unused: height, width (what Augment calls)
    def __init__(self, x_factor: Any = 0.0, y_factor: Any = 0.0, interpolation: str = "bilinear",
                 fill_mode: str = "reflect", fill_value: float = 0.0, data_format: str | None = None,
                 seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for name, factor in (("x_factor", x_factor), ("y_factor", y_factor)):
            lower, upper = range_of(factor, -1.0, 1.0, name)
            if min(factor if isinstance(factor, (list, tuple)) else [factor]) < 0 and (lower, upper) != tuple(factor):
                raise ValueError("%s is between 0 and 1, not %r" % (name, factor))
            setattr(self, name, (lower, upper))
        self._fill(interpolation, fill_mode, fill_value)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        way = (self.uniform((n, 1)) <= 0.5).to(cairn.float32) * 2.0 - 1.0
        y = self.uniform((n, 1), *self.y_factor)
        return {"shear_factor": cairn.cat([self.uniform((n, 1), *self.x_factor), y], 1) * way}

    def matrix(self, drawn: Any, height: int, width: int) -> Any:
        x, y = drawn["shear_factor"].unbind(1)
        one, zero = cairn.ones_like(x), cairn.zeros_like(x)
        return one, x, zero, y, one, zero


class RandomPerspective(_Warp):
    """Corners moved by parts (up to half of scale) of their places; factor: how many images are changed."""

    fill_mode = "constant"

    def __init__(self, factor: Any = 1.0, scale: float = 1.0, interpolation: str = "bilinear", fill_value: float = 0.0,
                 seed: int | None = None, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= scale <= 1:
            raise ValueError("scale is between 0 and 1, not %r" % (scale,))
        self.factor = range_of(factor, 0.0, 1.0)
        self._fill(interpolation, "constant", fill_value)
        self._options(scale=scale)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        start = cairn.tensor([[0.0, 0.0], [width - 1.0, 0.0], [0.0, height - 1.0], [width - 1.0, height - 1.0]])
        start = start.unsqueeze(0).repeat(n, 1, 1)
        return {"apply_perspective": self.chosen(n, self.factor), "start_points": start,
                "end_points": start + start * self.uniform((n, 4, 2), -0.5 * self.scale, 0.5 * self.scale)}

    def _seen(self, images: Any, drawn: Any, interpolation: str) -> Any:
        height, width = int(images.shape[2]), int(images.shape[3])
        m = _homography(drawn["start_points"], drawn["end_points"]).to(device=images.device, dtype=images.dtype)
        a = [p.reshape(-1, 1, 1) for p in m.unbind(1)]
        y = cairn.arange(height, dtype=images.dtype, device=images.device).reshape(1, -1, 1)
        x = cairn.arange(width, dtype=images.dtype, device=images.device).reshape(1, 1, -1)
        under = a[6] * x + a[7] * y + 1.0
        out = sampled(images, (a[0] * x + a[1] * y + a[2]) / under, (a[3] * x + a[4] * y + a[5]) / under,
                      interpolation, "constant", self.fill_value)
        return cairn.where(drawn["apply_perspective"].reshape(-1, 1, 1, 1).to(images.device), out, images)


def _homography(start: Any, end: Any) -> Any:
    """The eight numbers (N, 8) of the maps that take each end point (N, 4, 2) to its start."""
    x, y = end[..., 0], end[..., 1]
    one, zero = cairn.ones_like(x), cairn.zeros_like(x)
    rows = [cairn.stack([x, y, one, zero, zero, zero, -start[..., 0] * x, -start[..., 0] * y], -1),
            cairn.stack([zero, zero, zero, x, y, one, -start[..., 1] * x, -start[..., 1] * y], -1)]
    system = cairn.stack(rows, 2).reshape(-1, 8, 8)
    return cairn.linalg.solve(system.to(cairn.float64), start.reshape(-1, 8, 1).to(cairn.float64)).squeeze(-1)


class RandomElasticTransform(_Warp):
    """Places moved by smooth noise; scale says how far, factor how many images are changed."""

    def __init__(self, factor: Any = 1.0, scale: Any = 1.0, interpolation: str = "bilinear", fill_mode: str = "reflect",
                 fill_value: float = 0.0, value_range: Any = (0, 255), seed: int | None = None,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor, self.scale = range_of(factor, 0.0, 1.0), range_of(scale, 0.0, 1.0, "scale")
        self._fill(interpolation, fill_mode, fill_value)
        self._options(value_range=value_range)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        scale = self.uniform((), *self.scale)
        noise = cairn.randn((2, n, 1, height, width), generator=self._numbers)
        return {"apply_transform": self.chosen(n, self.factor), "distortion_factor": scale, "noise": noise}

    def _seen(self, images: Any, drawn: Any, interpolation: str) -> Any:
        height, width = int(images.shape[2]), int(images.shape[3])
        scale = float(drawn["distortion_factor"])
        far, sigma = max(height, width) * 0.1 * scale, min(height, width) * 0.05 * scale
        if sigma <= 0:
            return images
        size = int(6 * sigma) | 1
        dx, dy = (blurred(d.to(device=images.device, dtype=images.dtype) * sigma, (size, size), (sigma, sigma))[:, 0]
                  for d in drawn["noise"].unbind(0))
        y = cairn.arange(height, dtype=images.dtype, device=images.device).reshape(1, -1, 1)
        x = cairn.arange(width, dtype=images.dtype, device=images.device).reshape(1, 1, -1)
        out = sampled(images, x + dx * far, y + dy * far, interpolation, self.fill_mode, self.fill_value)
        return cairn.where(drawn["apply_transform"].reshape(-1, 1, 1, 1).to(images.device), out, images)

    def changed(self, images: Any, drawn: Any) -> Any:
        return super().changed(images, drawn).clamp(*[float(v) for v in self.value_range])
