"""Normalisation, and the layers that prepare images and numbers."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from .._batches import to_tensor
from .base import Layer
from .conv import to_first, to_last

__all__ = ["BatchNormalization", "CategoryEncoding", "CenterCrop", "GroupNormalization", "LayerNormalization",
           "Normalization", "RMSNormalization", "RandomContrast", "RandomFlip", "RandomRotation", "RandomTranslation",
           "RandomZoom", "Rescaling", "Resizing", "UnitNormalization"]


def _options(epsilon: float, center: bool, scale: bool, given: dict[str, Any]) -> dict[str, Any]:
    """What the scales are made with, taken out of the arguments."""
    how: dict[str, Any] = {"epsilon": epsilon, "center": center, "scale": scale}
    for kind, first in (("beta", "zeros"), ("gamma", "ones")):
        how[kind] = (given.pop(kind + "_initializer", first), given.pop(kind + "_regularizer", None),
                     given.pop(kind + "_constraint", None))
    return how


class _Scaled(Layer):
    """With gamma and beta."""

    _float_inputs = supports_masking = True

    def _add_scale(self, shape: tuple[int, ...]) -> None:
        self.gamma: Any = None
        self.beta: Any = None
        for name, wanted in (("gamma", self.how["scale"]), ("beta", self.how["center"])):
            if wanted:
                first, regular, keep = self.how[name]
                setattr(self, name, self.add_weight(shape, first, regularizer=regular, constraint=keep, name=name))

    how: dict[str, Any]


class BatchNormalization(_Scaled):
    """Numbers of mean 0 and size 1 over the batch while training, by moving means otherwise."""

    def __init__(self, axis: int = -1, momentum: float = 0.99, epsilon: float = 1e-3, center: bool = True,
                 scale: bool = True, moving_mean_initializer: Any = "zeros", moving_variance_initializer: Any = "ones",
                 synchronized: bool = False, **kwargs: Any) -> None:
        how = _options(epsilon, center, scale, kwargs)
        super().__init__(**kwargs)
        self.axis, self.momentum, self.how = axis, momentum, how
        self.moving = (moving_mean_initializer, moving_variance_initializer)

    def build(self, input_shape: Any) -> None:
        n = (input_shape[self.axis],)
        self._add_scale(n)
        self.moving_mean = self.add_weight(n, self.moving[0], trainable=False, name="moving_mean")
        self.moving_variance = self.add_weight(n, self.moving[1], trainable=False, name="moving_variance")
        self.built = True

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        last = self.axis % inputs.ndim == inputs.ndim - 1 and inputs.ndim > 2
        x = to_first(inputs) if last else inputs if self.axis % inputs.ndim == 1 else inputs.movedim(self.axis, 1)
        learn = bool(training) and self.trainable
        out = F.batch_norm(x, None if learn else self.moving_mean.detach(),
                           None if learn else self.moving_variance.detach(), self.gamma, self.beta, learn,
                           1.0 - self.momentum, self.how["epsilon"])
        if learn:
            self._move(x.detach())
        if last:
            return to_last(out)
        return out if self.axis % inputs.ndim == 1 else out.movedim(1, self.axis)

    def _move(self, x: Any) -> None:
        """Moving means take a step to those of the batch; of variances as they are, not as estimates."""
        dims = [i for i in range(x.ndim) if i != 1]
        with cairn.no_grad():
            self.moving_mean.mul_(self.momentum).add_(x.mean(dims), alpha=1.0 - self.momentum)
            self.moving_variance.mul_(self.momentum).add_(x.var(dims, correction=0), alpha=1.0 - self.momentum)


class LayerNormalization(_Scaled):
    def __init__(self, axis: Any = -1, epsilon: float = 1e-3, center: bool = True, scale: bool = True,
                 **kwargs: Any) -> None:
        how = _options(epsilon, center, scale, kwargs)
        super().__init__(**kwargs)
        self.axis, self.how = ((axis,) if isinstance(axis, int) else tuple(axis)), how

    def build(self, input_shape: Any) -> None:
        n = len(input_shape)
        axes = sorted(a % n for a in self.axis)
        if axes != list(range(n - len(axes), n)):
            raise ValueError("LayerNormalization is over the last dimensions; axis %r of %d are not"
                             % (self.axis, n))
        self.sizes = tuple(int(input_shape[a]) for a in axes)
        self._add_scale(self.sizes)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.layer_norm(inputs, self.sizes, self.gamma, self.beta, self.how["epsilon"])


class RMSNormalization(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, axis: int = -1, epsilon: float = 1e-6, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis, self.epsilon = axis, epsilon

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight((input_shape[-1],), "ones", name="scale")
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.rms_norm(inputs, (inputs.shape[-1],), self.scale, self.epsilon)


class GroupNormalization(_Scaled):
    def __init__(self, groups: int = 32, axis: int = -1, epsilon: float = 1e-3, center: bool = True,
                 scale: bool = True, **kwargs: Any) -> None:
        how = _options(epsilon, center, scale, kwargs)
        super().__init__(**kwargs)
        self.groups, self.axis, self.how = groups, axis, how

    def build(self, input_shape: Any) -> None:
        self._add_scale((input_shape[self.axis],))
        self.built = True

    def call(self, inputs: Any) -> Any:
        x = inputs.movedim(self.axis, 1)
        groups = int(x.shape[1]) if self.groups == -1 else self.groups
        return F.group_norm(x, groups, self.gamma, self.beta, self.how["epsilon"]).movedim(1, self.axis)


class UnitNormalization(Layer):
    _float_inputs = True

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        return F.normalize(inputs, dim=self.axis)


# ---- preparing ----
class Rescaling(Layer):
    """inputs * scale + offset."""

    _float_inputs = supports_masking = True

    def __init__(self, scale: Any, offset: Any = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.scale, self.offset = scale, offset
        self.built = True

    def call(self, inputs: Any) -> Any:
        def number(v: Any) -> Any:
            return v if isinstance(v, (int, float)) else to_tensor(v).to(device=inputs.device, dtype=inputs.dtype)
        return inputs * number(self.scale) + number(self.offset)


class Normalization(Layer):
    """(inputs - mean) / deviation; adapt(data) finds them."""

    _float_inputs = True

    def __init__(self, axis: Any = -1, mean: Any = None, variance: Any = None, invert: bool = False,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = () if axis is None else (axis,) if isinstance(axis, int) else tuple(axis)
        self.invert = invert
        self.known = None if mean is None else (to_tensor(mean), to_tensor(variance))

    def build(self, input_shape: Any) -> None:
        keep = {a % len(input_shape) for a in self.axis}
        self.sizes = tuple(n if i in keep else 1 for i, n in enumerate(input_shape))
        for name, at, first in (("mean", 0, "zeros"), ("variance", 1, "ones")):
            made = self.add_weight(self.sizes, first, trainable=False, name=name)
            if self.known is not None:
                made.assign(self.known[at].to(made.dtype).expand(self.sizes) if self.known[at].ndim != made.ndim
                            else self.known[at])
            setattr(self, name, made)
        self.built = True

    def adapt(self, data: Any, batch_size: Any = None, steps: Any = None) -> None:
        if not hasattr(data, "__array__") and not isinstance(data, cairn.Tensor):
            data = cairn.cat([to_tensor(b[0] if isinstance(b, (list, tuple)) else b) for b in data])
        data = to_tensor(data).to(cairn.get_default_dtype())
        data = data.unsqueeze(-1) if data.ndim == 1 else data
        if not self.built:
            self.build(tuple(data.shape))
        dims = [i for i in range(data.ndim) if i not in {a % data.ndim for a in self.axis}]
        self.mean.assign(data.mean(dims, keepdim=True))
        self.variance.assign(data.var(dims, correction=0, keepdim=True))

    def call(self, inputs: Any) -> Any:
        size = self.variance.sqrt().clamp(min=1e-7)
        return self.mean + inputs * size if self.invert else (inputs - self.mean) / size


class CategoryEncoding(Layer):
    """Integers as one_hot, multi_hot or count."""

    def __init__(self, num_tokens: int, output_mode: str = "multi_hot", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if output_mode not in ("one_hot", "multi_hot", "count"):
            raise ValueError("output_mode is one_hot, multi_hot or count, not %r" % (output_mode,))
        self.num_tokens, self.output_mode = num_tokens, output_mode

    def call(self, inputs: Any) -> Any:
        places = inputs.long()
        if self.output_mode == "one_hot" and places.ndim > 1 and places.shape[-1] == 1:
            places = places.squeeze(-1)
        hot = F.one_hot(places, self.num_tokens).to(cairn.get_default_dtype())
        if self.output_mode == "one_hot" or places.ndim < 2:
            return hot
        return hot.sum(-2) if self.output_mode == "count" else hot.amax(-2)


class Resizing(Layer):
    _float_inputs = True

    def __init__(self, height: int, width: int, interpolation: str = "bilinear", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size, self.interpolation = (height, width), interpolation

    def call(self, inputs: Any) -> Any:
        single = inputs.ndim == 3
        x = to_first(inputs.unsqueeze(0) if single else inputs)
        more: dict[str, Any] = {} if self.interpolation == "nearest" else {"align_corners": False}
        out = to_last(F.interpolate(x, size=list(self.size), mode=self.interpolation, **more))
        return out[0] if single else out


class CenterCrop(Layer):
    def __init__(self, height: int, width: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = (height, width)

    def call(self, inputs: Any) -> Any:
        at = inputs.ndim - 3
        for i, n in enumerate(self.size):
            inputs = inputs.narrow(at + i, (int(inputs.shape[at + i]) - n) // 2, n)
        return inputs


class _Random(Layer):
    """Changes of images (N, H, W, C), other for each while training."""

    _float_inputs = True

    def _with_grid(self, inputs: Any, theta: Any) -> Any:
        """Each image seen through its matrix (2, 3)."""
        x = to_first(inputs)
        grid = F.affine_grid(theta.to(x.dtype), list(x.shape), align_corners=False)
        return to_last(F.grid_sample(x, grid, mode="bilinear", padding_mode="reflection", align_corners=False))

    @staticmethod
    def _between(low: float, high: float, like: Any) -> Any:
        return cairn.rand(like.shape[0], device=like.device) * (high - low) + low


def _range(factor: Any) -> tuple[float, float]:
    return (float(factor[0]), float(factor[1])) if isinstance(factor, (list, tuple)) else (-float(factor),
                                                                                          float(factor))


class RandomFlip(_Random):
    def __init__(self, mode: str = "horizontal_and_vertical", seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if mode not in ("horizontal", "vertical", "horizontal_and_vertical"):
            raise ValueError("mode is horizontal, vertical or horizontal_and_vertical, not %r" % (mode,))
        self.mode = mode

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return inputs
        for word, dim in (("horizontal", -2), ("vertical", -3)):
            if word in self.mode:
                turn = cairn.rand(inputs.shape[0], device=inputs.device) < 0.5
                inputs = cairn.where(turn.reshape(-1, 1, 1, 1), inputs.flip(dim), inputs)
        return inputs


class RandomRotation(_Random):
    """factor: parts of a whole turn."""

    def __init__(self, factor: Any, fill_mode: str = "reflect", seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.range = _range(factor)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return inputs
        angle = self._between(*self.range, inputs) * (2.0 * math.pi)
        ratio = float(inputs.shape[1]) / float(inputs.shape[2])
        c, s, zero = angle.cos(), angle.sin(), cairn.zeros_like(angle)
        rows = [cairn.stack([c, -s * ratio, zero], 1), cairn.stack([s / ratio, c, zero], 1)]
        return self._with_grid(inputs, cairn.stack(rows, 1))


class RandomZoom(_Random):
    def __init__(self, height_factor: Any, width_factor: Any = None, fill_mode: str = "reflect",
                 seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ranges = (_range(height_factor), None if width_factor is None else _range(width_factor))

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return inputs
        high = self._between(*self.ranges[0], inputs) + 1.0
        wide = high if self.ranges[1] is None else self._between(*self.ranges[1], inputs) + 1.0
        zero = cairn.zeros_like(high)
        rows = [cairn.stack([wide, zero, zero], 1), cairn.stack([zero, high, zero], 1)]
        return self._with_grid(inputs, cairn.stack(rows, 1))


class RandomTranslation(_Random):
    def __init__(self, height_factor: Any, width_factor: Any, fill_mode: str = "reflect", seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ranges = (_range(height_factor), _range(width_factor))

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return inputs
        down, right = (self._between(*r, inputs) * -2.0 for r in self.ranges)
        one, zero = cairn.ones_like(down), cairn.zeros_like(down)
        rows = [cairn.stack([one, zero, right], 1), cairn.stack([zero, one, down], 1)]
        return self._with_grid(inputs, cairn.stack(rows, 1))


class RandomContrast(_Random):
    def __init__(self, factor: Any, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.range = _range(factor)

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training:
            return inputs
        scale = (self._between(*self.range, inputs) + 1.0).reshape(-1, 1, 1, 1)
        mean = inputs.mean((1, 2), keepdim=True)
        return (inputs - mean) * scale + mean
