"""Convolutions and pooling on images (N, H, W, C), sequences (N, T, C) and volumes; channels_first where asked.

Kernels have Keras's shape (window, in, out); the ops see them, and the images, with their dimensions in torch's order.
"""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .. import activations
from .base import Layer

__all__ = ["AveragePooling1D", "AveragePooling2D", "AveragePooling3D", "AvgPool1D", "AvgPool2D", "Conv1D",
           "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Convolution2D", "Cropping2D", "DepthwiseConv2D",
           "GlobalAveragePooling1D", "GlobalAveragePooling2D", "GlobalAvgPool2D", "GlobalMaxPooling1D",
           "GlobalMaxPooling2D", "MaxPool1D", "MaxPool2D", "MaxPooling1D", "MaxPooling2D", "MaxPooling3D",
           "SeparableConv2D", "UpSampling1D", "UpSampling2D", "ZeroPadding1D", "ZeroPadding2D"]


def tuple_of(value: Any, n: int, what: str) -> tuple[int, ...]:
    made = (value,) * n if isinstance(value, int) else tuple(value)
    if len(made) != n:
        raise ValueError("%s must be a number or %d of them, not %r" % (what, n, value))
    return made


def to_first(x: Any) -> Any:
    """(N, ..., C) as (N, C, ...)."""
    return x.permute(0, x.ndim - 1, *range(1, x.ndim - 1))


def to_last(x: Any) -> Any:
    return x.permute(0, *range(2, x.ndim), 1)


def same_pads(sizes: Any, windows: Any, steps: Any, dilations: Any) -> list[tuple[int, int]]:
    """Room before and after, so that outputs have ceil(size / step) places; what is odd comes after."""
    pads = []
    for n, k, s, d in zip(sizes, windows, steps, dilations):
        whole = max((-(-int(n) // s) - 1) * s + (k - 1) * d + 1 - int(n), 0)
        pads.append((whole // 2, whole - whole // 2))
    return pads


def padded(x: Any, pads: list[tuple[int, int]], value: float = 0.0) -> Any:
    """x (N, C, ...) with room around the last dimensions."""
    flat = [n for pair in reversed(pads) for n in pair]
    return F.pad(x, flat, value=value) if any(flat) else x


class _Windowed(Layer):
    """Of `ndim` dimensions with a window; data_format says where the channels are."""

    ndim = 2
    _float_inputs = True

    def _format(self, data_format: str | None) -> None:
        if data_format not in (None, "channels_last", "channels_first"):
            raise ValueError("data_format is channels_last or channels_first, not %r" % (data_format,))
        self.channels_first = data_format == "channels_first"

    def _check(self, inputs: Any) -> None:
        if inputs.ndim != self.ndim + 2:
            where = "channels, ..." if self.channels_first else "..., channels"
            raise ValueError("%s needs inputs of %d dimensions (samples, %s), not of shape %s"
                             % (self.name, self.ndim + 2, where, tuple(inputs.shape)))


class _Conv(_Windowed):
    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, dilation_rate: Any = 1, groups: int = 1, activation: Any = None,
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self._format(data_format)
        self.filters, self.groups, self.use_bias = int(filters), groups, use_bias
        self.kernel_size = tuple_of(kernel_size, self.ndim, "kernel_size")
        self.strides = tuple_of(strides, self.ndim, "strides")
        self.dilation = tuple_of(dilation_rate, self.ndim, "dilation_rate")
        self.padding = str(padding).lower()
        if self.padding not in ("valid", "same") and (self.padding != "causal" or self.ndim != 1):
            raise ValueError("padding of %s is 'valid' or 'same'%s, not %r"
                             % (type(self).__name__, " or 'causal'" if self.ndim == 1 else "", padding))
        self.activation = activations.get(activation)
        self.how = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self.how_bias = (bias_initializer, bias_regularizer, bias_constraint)
        self.bias: Any = None

    def _add(self, shape: tuple[int, ...], out: int, name: str = "kernel") -> Any:
        first, regular, keep = self.how
        kernel = self.add_weight(shape, first, regularizer=regular, constraint=keep, name=name)
        if self.use_bias and self.bias is None:
            first, regular, keep = self.how_bias
            self.bias = self.add_weight((out,), first, regularizer=regular, constraint=keep, name="bias")
        return kernel

    def build(self, input_shape: Any) -> None:
        channels = input_shape[1 if self.channels_first else -1]
        if channels is None or channels % self.groups or self.filters % self.groups:
            raise ValueError("%s: %s channels and %d filters cannot be split into %d groups"
                             % (self.name, channels, self.filters, self.groups))
        self.kernel = self._add(self.kernel_size + (channels // self.groups, self.filters), self.filters)
        self.built = True

    def _kernel(self) -> Any:
        """(out, in, window) of (window, in, out)."""
        n = self.ndim
        return self.kernel.permute(n + 1, n, *range(n))

    def _convolved(self, x: Any, kernel: Any, bias: Any, groups: int) -> Any:
        if self.padding == "causal":
            x = padded(x, [((self.kernel_size[0] - 1) * self.dilation[0], 0)])
        pads: Any = 0
        if self.padding == "same":
            room = same_pads(x.shape[2:], self.kernel_size, self.strides, self.dilation)
            if all(a == b for a, b in room):
                pads = tuple(a for a, _ in room)
            else:
                x = padded(x, room)
        return self._op()(x, kernel, bias, self.strides, pads, self.dilation, groups)

    def _op(self) -> Any:
        return (F.conv1d, F.conv2d, F.conv3d)[self.ndim - 1]

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        out = self._convolved(x, self._kernel(), self.bias, self.groups)
        return self.activation(out if self.channels_first else to_last(out))


class Conv1D(_Conv):
    ndim = 1


class Conv2D(_Conv):
    pass


Convolution2D = Conv2D


class Conv3D(_Conv):
    ndim = 3


class DepthwiseConv2D(_Conv):
    """Each channel with depth_multiplier kernels of its own."""

    def __init__(self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
                 data_format: str | None = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, **kwargs: Any) -> None:
        super().__init__(0, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         depthwise_initializer, bias_initializer, depthwise_regularizer, **kwargs)
        self.depth_multiplier = depth_multiplier

    def build(self, input_shape: Any) -> None:
        channels = input_shape[1 if self.channels_first else -1]
        self.kernel = self._add(self.kernel_size + (channels, self.depth_multiplier), channels * self.depth_multiplier)
        self.groups = channels
        self.built = True

    def _kernel(self) -> Any:
        h, w, c, m = self.kernel.shape
        return self.kernel.reshape(h, w, c * m).permute(2, 0, 1).unsqueeze(1)


class SeparableConv2D(_Conv):
    """A window for each channel, then a mix of channels."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, dilation_rate: Any = 1, depth_multiplier: int = 1,
                 activation: Any = None, use_bias: bool = True, depthwise_initializer: Any = "glorot_uniform",
                 pointwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", **kwargs: Any) -> None:
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         depthwise_initializer, bias_initializer, **kwargs)
        self.depth_multiplier, self.pointwise_initializer = depth_multiplier, pointwise_initializer

    def build(self, input_shape: Any) -> None:
        channels = input_shape[1 if self.channels_first else -1]
        between = channels * self.depth_multiplier
        self.depthwise_kernel = self.add_weight(self.kernel_size + (channels, self.depth_multiplier), self.how[0],
                                                name="depthwise_kernel")
        self.pointwise_kernel = self.add_weight((1, 1, between, self.filters), self.pointwise_initializer,
                                                name="pointwise_kernel")
        if self.use_bias:
            self.bias = self.add_weight((self.filters,), self.how_bias[0], name="bias")
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        h, w, c, m = self.depthwise_kernel.shape
        x = self._convolved(x, self.depthwise_kernel.reshape(h, w, c * m).permute(2, 0, 1).unsqueeze(1), None, c)
        x = F.conv2d(x, self.pointwise_kernel.permute(3, 2, 0, 1), self.bias)
        return self.activation(x if self.channels_first else to_last(x))


class _ConvTranspose(_Conv):
    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 output_padding: Any = None, data_format: str | None = None, dilation_rate: Any = 1,
                 activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", **kwargs: Any) -> None:
        super().__init__(filters, kernel_size, strides, padding, data_format, dilation_rate, 1, activation, use_bias,
                         kernel_initializer, bias_initializer, **kwargs)
        self.output_padding = None if output_padding is None else tuple_of(output_padding, self.ndim, "output_padding")

    def build(self, input_shape: Any) -> None:
        channels = input_shape[1 if self.channels_first else -1]
        self.kernel = self._add(self.kernel_size + (self.filters, channels), self.filters)
        self.built = True

    def call(self, inputs: Any) -> Any:
        """The whole result, cut to the size that the padding says."""
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        op = (F.conv_transpose1d, F.conv_transpose2d)[self.ndim - 1]
        out = op(x, self._kernel(), self.bias, self.strides, 0, 0, 1, self.dilation)
        for i in range(self.ndim):
            n, k, s = int(x.shape[2 + i]), (self.kernel_size[i] - 1) * self.dilation[i] + 1, self.strides[i]
            more = None if self.output_padding is None else self.output_padding[i]
            before = 0
            if self.padding == "same":
                size = n * s if more is None else (n - 1) * s + k - 2 * (k // 2) + more
                before = max(k - s, 0) // 2 if more is None else k // 2
            else:
                size = n * s + max(k - s, 0) if more is None else (n - 1) * s + k + more
            have = int(out.shape[2 + i])
            if before + size > have:
                shape = [int(n) for n in out.shape]  # beyond the last window there is the bias alone
                shape[2 + i] = before + size - have
                tail = out.new_zeros(shape)
                if self.bias is not None:
                    tail = tail + self.bias.reshape([1, -1] + [1] * self.ndim)
                out = cairn.cat([out, tail], dim=2 + i)
            out = out.narrow(2 + i, before, size)
        return self.activation(out if self.channels_first else to_last(out))


class Conv1DTranspose(_ConvTranspose):
    ndim = 1


class Conv2DTranspose(_ConvTranspose):
    pass


# ---- pooling ----
class _Pool(_Windowed):
    kind = "max"

    def __init__(self, pool_size: Any = 2, strides: Any = None, padding: str = "valid", data_format: str | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self.pool_size = tuple_of(pool_size, self.ndim, "pool_size")
        self.strides = self.pool_size if strides is None else tuple_of(strides, self.ndim, "strides")
        self.padding = str(padding).lower()
        if self.padding not in ("valid", "same"):
            raise ValueError("padding of %s is 'valid' or 'same', not %r" % (type(self).__name__, padding))
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        ones = (1,) * self.ndim
        room = same_pads(x.shape[2:], self.pool_size, self.strides, ones) if self.padding == "same" else []
        if self.kind == "max":
            op: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[self.ndim - 1]
            out = op(padded(x, room, -3e38 if x.dtype != cairn.float16 else -6e4), self.pool_size, self.strides)
        else:
            op = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[self.ndim - 1]
            out = op(padded(x, room), self.pool_size, self.strides)
            if any(a or b for a, b in room):  # the mean is of what is there
                there = padded(cairn.ones((1, 1) + tuple(x.shape[2:]), dtype=x.dtype, device=x.device), room)
                out = out / op(there, self.pool_size, self.strides)
        return out if self.channels_first else to_last(out)


class MaxPooling1D(_Pool):
    ndim = 1


class MaxPooling2D(_Pool):
    pass


class MaxPooling3D(_Pool):
    ndim = 3


class AveragePooling1D(_Pool):
    ndim, kind = 1, "average"


class AveragePooling2D(_Pool):
    kind = "average"


class AveragePooling3D(_Pool):
    ndim, kind = 3, "average"


MaxPool1D, MaxPool2D, AvgPool1D, AvgPool2D = MaxPooling1D, MaxPooling2D, AveragePooling1D, AveragePooling2D


class _Global(_Windowed):
    kind = "average"

    def __init__(self, data_format: str | None = None, keepdims: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        self.keepdims = keepdims
        self.built = True

    def call(self, inputs: Any, mask: Any = None) -> Any:
        self._check(inputs)
        dims = tuple(range(2, inputs.ndim)) if self.channels_first else tuple(range(1, inputs.ndim - 1))
        if mask is not None and self.ndim == 1 and not self.channels_first:
            seen = mask.to(inputs.dtype).unsqueeze(-1)
            return (inputs * seen).sum(1, keepdim=self.keepdims) / seen.sum(1, keepdim=self.keepdims)
        if self.kind == "max":
            return inputs.amax(dims, keepdim=self.keepdims)
        return inputs.mean(dims, keepdim=self.keepdims)


class GlobalAveragePooling1D(_Global):
    ndim = 1


class GlobalAveragePooling2D(_Global):
    pass


class GlobalMaxPooling1D(_Global):
    ndim, kind = 1, "max"

    def call(self, inputs: Any) -> Any:  # type: ignore[override]
        return super().call(inputs)


class GlobalMaxPooling2D(_Global):
    kind = "max"


GlobalAvgPool2D = GlobalAveragePooling2D


# ---- room and size ----
class ZeroPadding2D(_Windowed):
    def __init__(self, padding: Any = 1, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        pairs = (padding,) * 2 if isinstance(padding, int) else tuple(padding)
        self.room = [(p, p) if isinstance(p, int) else tuple(p) for p in pairs]
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        flat = [n for pair in reversed(self.room) for n in pair]
        return F.pad(inputs, flat if self.channels_first else [0, 0] + flat)


class ZeroPadding1D(_Windowed):
    ndim = 1

    def __init__(self, padding: Any = 1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(None)
        self.room = [0, 0] + list((padding, padding) if isinstance(padding, int) else padding)

    def call(self, inputs: Any) -> Any:
        return F.pad(inputs, self.room)


class Cropping2D(ZeroPadding2D):
    def __init__(self, cropping: Any = 0, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(cropping, data_format, **kwargs)

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        at = 2 if self.channels_first else 1
        for i, (before, after) in enumerate(self.room):
            inputs = inputs.narrow(at + i, before, int(inputs.shape[at + i]) - before - after)
        return inputs


class UpSampling2D(_Windowed):
    def __init__(self, size: Any = 2, data_format: str | None = None, interpolation: str = "nearest",
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._format(data_format)
        if interpolation not in ("nearest", "bilinear", "bicubic"):
            raise ValueError("interpolation is nearest, bilinear or bicubic, not %r" % (interpolation,))
        self.size, self.interpolation = tuple_of(size, 2, "size"), interpolation
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        sizes = [int(n) * s for n, s in zip(x.shape[2:], self.size)]
        more: dict[str, Any] = {} if self.interpolation == "nearest" else {"align_corners": False}
        out = F.interpolate(x, size=sizes, mode=self.interpolation, **more)
        return out if self.channels_first else to_last(out)


class UpSampling1D(_Windowed):
    ndim = 1

    def __init__(self, size: int = 2, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.size = size

    def call(self, inputs: Any) -> Any:
        return inputs.repeat_interleave(self.size, 1)
