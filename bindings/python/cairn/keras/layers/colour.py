"""Colours of images changed: brightness, contrast, hue, grey, posters, blur, parts erased."""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .augment import Augment, blurred, range_of, value_pair

__all__ = ["AutoContrast", "Equalization", "RandomBrightness", "RandomColorDegeneration", "RandomColorJitter",
           "RandomContrast", "RandomErasing", "RandomGaussianBlur", "RandomGrayscale", "RandomHue", "RandomInvert",
           "RandomPosterization", "RandomSaturation", "RandomSharpness", "Solarization"]


def _wide(v: Any, like: Any) -> Any:
    """One number for each image."""
    return v.reshape(-1, 1, 1, 1).to(device=like.device, dtype=like.dtype)


def _rescaled(x: Any, source: Any, target: Any) -> Any:
    (a, b), (c, d) = source, target
    return x if (a, b) == (c, d) else (x - a) / (b - a) * (d - c) + c


def _grey(images: Any) -> Any:
    """(N, 1, H, W) of three channels or one."""
    if images.shape[1] == 1:
        return images
    if images.shape[1] != 3:
        raise ValueError("images have 3 channels (or 1) here, not %d" % images.shape[1])
    r, g, b = images.unbind(1)
    return (r * 0.2989 + g * 0.587 + b * 0.114).unsqueeze(1)


def _to_hsv(images: Any) -> Any:
    """Hue in turns, saturation, value, each (N, H, W)."""
    r, g, b = cairn.where(images.abs() < 1.1920929e-07, 0.0, images).unbind(1)
    value, least = cairn.maximum(cairn.maximum(r, g), b), cairn.minimum(cairn.minimum(r, g), b)
    span = value - least
    norm = 1.0 / (6.0 * cairn.where(span > 0, span, 1.0))
    saturation = cairn.where(value > 0, span / cairn.where(value > 0, value, 1.0), 0.0)
    hue = cairn.where(value == g, norm * (b - r) + 2.0 / 6.0, norm * (r - g) + 4.0 / 6.0)
    hue = cairn.where(value == r, norm * (g - b), hue)
    return cairn.where(span > 0, hue, 0.0) + (hue < 0).to(images.dtype), saturation, value


def _to_rgb(hue: Any, saturation: Any, value: Any) -> Any:
    def channel(n: float) -> Any:
        k = (hue * 6.0 + n).remainder(6.0)
        return value - value * saturation * cairn.minimum(k, 4.0 - k).clamp(0.0, 1.0)
    return cairn.stack([channel(5.0), channel(3.0), channel(1.0)], 1)


class _Factor(Augment):  # unused: height, width (what Augment calls)
    """A number for each image, drawn from the range `factor`."""

    bounds = (-1.0, 1.0)

    def __init__(self, factor: Any, value_range: Any = (0, 255), data_format: str | None = None,
                 seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = range_of(factor, *self.bounds)
        self.value_range = value_pair(value_range)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return {"factor": self.uniform((n,), *self.factor)}

    def _kept(self, images: Any) -> Any:
        return images.clamp(float(self.value_range[0]), float(self.value_range[1]))


class RandomBrightness(_Factor):  # unused: height, width (what Augment calls)
    """A part of the value range added."""

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(factor, value_range, seed=seed, **kwargs)

    def drawn(self, n: int, height: int, width: int) -> Any:
        size = self.value_range[1] - self.value_range[0]
        return {"rgb_delta": self.uniform((n, 1, 1, 1), *self.factor) * size}

    def changed(self, images: Any, drawn: Any) -> Any:
        return self._kept(images + _wide(drawn["rgb_delta"], images))


class RandomContrast(_Factor):  # unused: height, width (what Augment calls)
    """Distances from the mean of each channel made larger or smaller."""

    bounds = (0.0, 1.0)

    def __init__(self, factor: Any, value_range: Any = (0, 255), seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(factor, value_range, seed=seed, **kwargs)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return {"contrast_factor": self.uniform((n, 1, 1, 1), 1.0 - self.factor[0], 1.0 + self.factor[1])}

    def changed(self, images: Any, drawn: Any) -> Any:
        mean = images.mean((2, 3), keepdim=True)
        return self._kept((images - mean) * _wide(drawn["contrast_factor"], images) + mean)


class RandomColorDegeneration(_Factor):
    """Towards grey: 0 leaves an image as it is, 1 leaves no colour."""

    bounds = (0.0, 1.0)

    def changed(self, images: Any, drawn: Any) -> Any:
        return self._kept(images + _wide(drawn["factor"], images) * (_grey(images) - images))


class RandomSaturation(_Factor):  # unused: height, width (what Augment calls)
    """0 is grey, 0.5 leaves an image as it is, 1 is as colourful as can be."""

    bounds = (0.0, 1.0)

    def drawn(self, n: int, height: int, width: int) -> Any:
        factor = self.uniform((n,), *self.factor)
        return {"factor": factor / (1.0 - factor + 1e-7)}

    def changed(self, images: Any, drawn: Any) -> Any:
        hue, saturation, value = _to_hsv(images)
        return _to_rgb(hue, self._kept(saturation * _wide(drawn["factor"], images)[:, 0]), value)


class RandomHue(_Factor):  # unused: height, width (what Augment calls)
    """Colours turned by up to half of factor, of a whole turn."""

    bounds = (0.0, 1.0)

    def drawn(self, n: int, height: int, width: int) -> Any:
        way = (self.uniform((n,)) <= 0.5).to(cairn.float32) * 2.0 - 1.0
        return {"factor": way * self.uniform((n,), *self.factor) * 0.5}

    def changed(self, images: Any, drawn: Any) -> Any:
        hue, saturation, value = _to_hsv(_rescaled(images, tuple(self.value_range), (0, 1)))
        hue = hue + _wide(drawn["factor"], images)[:, 0]
        hue = cairn.where(hue > 1.0, hue - 1.0, hue)
        hue = cairn.where(hue < 0.0, hue + 1.0, hue)
        return _rescaled(_to_rgb(hue, saturation, value).clamp(0.0, 1.0), (0, 1), tuple(self.value_range))


class RandomSharpness(_Factor):
    """0 is blurred, 0.5 leaves an image as it is, 1 is sharper."""

    bounds = (0.0, 1.0)

    def changed(self, images: Any, drawn: Any) -> Any:
        n = int(images.shape[1])
        kernel = cairn.full((n, 1, 3, 3), 1.0 / 13.0, dtype=images.dtype, device=images.device)
        kernel[:, :, 1, 1] = 5.0 / 13.0
        smooth = F.conv2d(images, kernel, padding=1, groups=n)
        return self._kept(images + (1.0 - 2.0 * _wide(drawn["factor"], images)) * (smooth - images))


class RandomPosterization(_Factor):  # unused: height, width (what Augment calls)
    """Only the first `factor` bits of the numbers."""

    bounds = (1.0, 8.0)

    def __init__(self, factor: Any, value_range: Any = (0, 255), data_format: str | None = None,
                 seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(factor, value_range, data_format, seed, **kwargs)
        if not isinstance(factor, (list, tuple)):
            self.factor = (1, int(factor))

    def drawn(self, n: int, height: int, width: int) -> Any:
        low, high = int(self.factor[0]), int(self.factor[1])
        bits = cairn.randint(low, high, (n,), generator=self._numbers) if low != high else cairn.full((n,), low)
        return {"shift_factor": 8 - bits.long()}

    def changed(self, images: Any, drawn: Any) -> Any:
        step = 2.0 ** _wide(drawn["shift_factor"], images)
        whole = _rescaled(images, tuple(self.value_range), (0, 255)).clamp(0.0, 255.0).floor()
        return _rescaled((whole / step).floor() * step, (0, 255), tuple(self.value_range))


class Solarization(Augment):  # unused: height, width (what Augment calls)
    """Numbers at or above a threshold turned around, after something was added."""

    def __init__(self, addition_factor: Any = 0.0, threshold_factor: Any = 0.0, value_range: Any = (0, 255),
                 seed: int | None = None, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.addition_factor = range_of(addition_factor, 0.0, 1.0, "addition_factor", False)
        self.threshold_factor = range_of(threshold_factor, 0.0, 1.0, "threshold_factor", False)
        self.value_range = value_pair(value_range)
        self._common(data_format, seed)

    def drawn(self, n: int, height: int, width: int) -> Any:
        def number(pair: Any) -> Any:
            return self.uniform((n, 1, 1, 1), pair[0], pair[1] * 255)
        return {"additions": number(self.addition_factor), "thresholds": number(self.threshold_factor)}

    def changed(self, images: Any, drawn: Any) -> Any:
        out = _rescaled(images, tuple(self.value_range), (0, 255)) + _wide(drawn["additions"], images)
        out = out.clamp(0.0, 255.0)
        out = cairn.where(out < _wide(drawn["thresholds"], images), out, 255.0 - out)
        return _rescaled(out, (0, 255), tuple(self.value_range))


class AutoContrast(Augment):  # unused: drawn (what Augment calls)
    """Each channel stretched over the whole range; also without training."""

    random = False

    def __init__(self, value_range: Any = (0, 255), data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value_range = value_pair(value_range)
        self._common(data_format)

    def changed(self, images: Any, drawn: Any) -> Any:
        low, high = images.amin((2, 3), keepdim=True), images.amax((2, 3), keepdim=True)
        span = high - low
        out = (images - low) / cairn.where(span > 0, span, 1.0)
        out = _rescaled(out.clamp(0.0, 1.0), (0, 1), tuple(self.value_range))
        return cairn.where(span > 0, out, images)


class Equalization(Augment):  # unused: drawn (what Augment calls)
    """Numbers moved so that all of them are as frequent, for each channel of a batch."""

    def __init__(self, value_range: Any = (0, 255), bins: int = 256, data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.value_range = value_pair(value_range)
        self._options(bins=bins)
        self._common(data_format)

    def changed(self, images: Any, drawn: Any) -> Any:
        x = _rescaled(images, tuple(self.value_range), (0, 255))
        out = cairn.stack([self._equal(c) for c in x.unbind(1)], 1)
        return _rescaled(out, (0, 255), tuple(self.value_range))

    def _equal(self, channel: Any) -> Any:
        places = (channel * ((self.bins - 1) / 255.0)).clamp(0.0, self.bins - 1.0).long()
        counts = cairn.bincount(places.reshape(-1), minlength=self.bins)
        if int((counts > 0).sum().item()) <= 1:
            return channel
        upto = counts.cumsum(0)
        first = upto[upto > 0][0]
        table = ((upto - first).to(channel.dtype) * 255.0 / (upto[-1] - first).clamp(min=1)).round().clamp(0.0, 255.0)
        return table[places]


class _Chosen(Augment):
    """Some of the images are changed: each with a chance drawn from the range `factor`."""

    def __init__(self, factor: Any, data_format: str | None, seed: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.factor = range_of(factor, 0.0, 1.0)
        self._common(data_format, seed)

    def _where(self, chosen: Any, new: Any, images: Any) -> Any:
        return cairn.where(chosen.reshape(-1, 1, 1, 1).to(images.device), new, images)


class RandomInvert(_Chosen):  # unused: height, width (what Augment calls)
    def __init__(self, factor: Any = 1.0, value_range: Any = (0, 255), seed: int | None = None,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(factor, data_format, seed, **kwargs)
        self._options(value_range=value_range)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return {"apply_inversion": self.chosen(n, self.factor)}

    def changed(self, images: Any, drawn: Any) -> Any:
        return self._where(drawn["apply_inversion"], float(self.value_range[1]) - images, images)


class RandomGrayscale(_Chosen):  # unused: height, width (what Augment calls)
    def __init__(self, factor: float = 0.5, data_format: str | None = None, seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(factor, data_format, seed, **kwargs)
        self._options(factor=factor)

    def drawn(self, n: int, height: int, width: int) -> Any:
        return self.uniform((n, 1, 1, 1)) < float(self.factor)  # type: ignore[arg-type]

    def changed(self, images: Any, drawn: Any) -> Any:
        return self._where(drawn, _grey(images), images)


class RandomGaussianBlur(_Chosen):  # unused: height, width (what Augment calls)
    def __init__(self, factor: Any = 1.0, kernel_size: Any = 3, sigma: Any = 1.0, value_range: Any = (0, 255),
                 data_format: str | None = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(factor, data_format, seed, **kwargs)
        sizes = tuple(kernel_size) if isinstance(kernel_size, (list, tuple)) else (kernel_size, kernel_size)
        if len(sizes) != 2 or any(s % 2 == 0 for s in sizes):
            raise ValueError("kernel_size is an odd number or two of them, not %r" % (kernel_size,))
        self._options(kernel_size=sizes, value_range=value_range, sigma=range_of(sigma, 0.0, 1.0, "sigma"))

    def drawn(self, n: int, height: int, width: int) -> Any:
        return {"should_apply_blur": self.chosen(n, self.factor),
                "blur_factor": self.uniform((2,), *self.sigma) + 1e-6}

    def changed(self, images: Any, drawn: Any) -> Any:
        sigma = drawn["blur_factor"].to(device=images.device, dtype=images.dtype)
        out = self._where(drawn["should_apply_blur"], blurred(images, self.kernel_size, sigma), images)
        return out.clamp(float(self.value_range[0]), float(self.value_range[1]))


class RandomErasing(_Chosen):
    """A rectangle filled with fill_value, or noise. scale: the part of the image that it takes."""

    def __init__(self, factor: Any = 1.0, scale: Any = (0.02, 0.33), fill_value: Any = None,
                 value_range: Any = (0, 255), seed: int | None = None, data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(factor, data_format, seed, **kwargs)
        self._options(scale=range_of(scale, 0.0, 1.0, "scale"), fill_value=fill_value, value_range=value_range)

    def drawn(self, n: int, height: int, width: int) -> Any:
        part = self.uniform((n, 2), *self.scale).sqrt()
        made = {"batch_masks": boxes(self, n, height, width, part[:, 0], part[:, 1])[0],
                "apply_erasing": self.chosen(n, self.factor), "fill_value": self.fill_value}
        if self.fill_value is None:
            made["fill_value"] = cairn.randn((n, 1, height, width), generator=self._numbers) * self.value_range[1]
        return made

    def changed(self, images: Any, drawn: Any) -> Any:
        fill = drawn["fill_value"]
        fill = cairn.tensor(fill, dtype=images.dtype) if not isinstance(fill, cairn.Tensor) else fill
        fill = (fill.reshape(1, -1, 1, 1) if fill.ndim < 2 else fill).to(device=images.device, dtype=images.dtype)
        fill = fill.clamp(float(self.value_range[0]), float(self.value_range[1]))
        inside = drawn["batch_masks"].to(images.device) & drawn["apply_erasing"].reshape(-1, 1, 1, 1).to(images.device)
        return cairn.where(inside, fill, images)


def boxes(layer: Any, n: int, height: int, width: int, wide: Any, tall: Any) -> tuple[Any, Any]:
    """Rectangles that take these parts of the sides, at places drawn: masks (N, 1, H, W), and what is left outside."""
    across, down = wide * width, tall * height
    left, top = layer.uniform((n,)) * (width - across), layer.uniform((n,)) * (height - down)
    x, y = cairn.arange(width).reshape(1, 1, 1, -1), cairn.arange(height).reshape(1, 1, -1, 1)
    a, b, c, d = (v.reshape(-1, 1, 1, 1) for v in (left, left + across, top, top + down))
    return (x >= a) & (x < b) & (y >= c) & (y < d), 1.0 - across * down / (width * height)


class RandomColorJitter(Augment):
    """Brightness, contrast, saturation and hue, one after the other, as far as factors are given."""

    def __init__(self, value_range: Any = (0, 255), brightness_factor: Any = None, contrast_factor: Any = None,
                 saturation_factor: Any = None, hue_factor: Any = None, seed: int | None = None,
                 data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(value_range=value_range, brightness_factor=brightness_factor, contrast_factor=contrast_factor,
                      saturation_factor=saturation_factor, hue_factor=hue_factor)
        self._common(data_format, seed)
        kinds: Any = ((RandomBrightness, brightness_factor), (RandomContrast, contrast_factor),
                      (RandomSaturation, saturation_factor), (RandomHue, hue_factor))
        self._steps = [kind(factor, value_range, seed=seed, data_format="channels_first")
                       for kind, factor in kinds if factor is not None]

    def drawn(self, n: int, height: int, width: int) -> Any:
        return [step.drawn(n, height, width) for step in self._steps]

    def changed(self, images: Any, drawn: Any) -> Any:
        for step, own in zip(self._steps, drawn):
            images = step.changed(images, own)
        return images
