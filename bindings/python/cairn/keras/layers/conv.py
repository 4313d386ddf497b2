"""Convolutions on images (N, H, W, C), sequences (N, T, C) and volumes; channels_first where asked.

Kernels have Keras's shape (window, in, out); the ops see them, and the images, with their dimensions in torch's order.
"""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .windows import Windowed, padded, same_pads, to_first, to_last, tuple_of

__all__ = ["Conv1D", "Conv1DTranspose", "Conv2D", "Conv2DTranspose", "Conv3D", "Conv3DTranspose", "Convolution1D",
           "Convolution1DTranspose", "Convolution2D", "Convolution2DTranspose", "Convolution3D",
           "Convolution3DTranspose", "DepthwiseConv1D", "DepthwiseConv2D", "SeparableConv1D", "SeparableConv2D",
           "SeparableConvolution1D", "SeparableConvolution2D"]


class _BaseConv(Windowed):
    """What all have: windows, steps, padding, the activation, a bias."""

    def _windows(self, kernel_size: Any, strides: Any, padding: str, data_format: str | None, dilation_rate: Any,
                 **options: Any) -> None:
        self._format(data_format)
        self.kernel_size = tuple_of(kernel_size, self.ndim, "kernel_size")
        self.strides = tuple_of(strides, self.ndim, "strides")
        self.dilation_rate = tuple_of(dilation_rate, self.ndim, "dilation_rate")
        self._padding(padding, *(("causal",) if self.ndim == 1 else ()))
        if any(s > 1 for s in self.strides) and any(d > 1 for d in self.dilation_rate):
            raise ValueError("%s: strides %s and dilation_rate %s cannot both be more than 1"
                             % (type(self).__name__, self.strides, self.dilation_rate))
        self._options(**options)
        self.bias: Any = None

    def _op(self) -> Any:
        return (F.conv1d, F.conv2d, F.conv3d)[self.ndim - 1]

    def _convolved(self, x: Any, kernel: Any, bias: Any, groups: int) -> Any:
        """x (N, C, ...) and kernel (out, in, window), with the padding that the layer has."""
        if self.padding == "causal":
            x = padded(x, [((self.kernel_size[0] - 1) * self.dilation_rate[0], 0)])
        pads: Any = 0
        if self.padding == "same":
            room = same_pads(x.shape[2:], self.kernel_size, self.strides, self.dilation_rate)
            if all(a == b for a, b in room):
                pads = tuple(a for a, _ in room)
            else:
                x = padded(x, room)
        return self._op()(x, kernel, bias, self.strides, pads, self.dilation_rate, groups)

    def _depthwise(self, kernel: Any) -> Any:
        """(window, in, multiplier) as (in * multiplier, 1, window)."""
        n = self.ndim
        flat = kernel.reshape(tuple(kernel.shape[:n]) + (-1,))
        return flat.permute(n, *range(n)).unsqueeze(1)


class _Conv(_BaseConv):
    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, dilation_rate: Any = 1, groups: int = 1, activation: Any = None,
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if int(filters) < 1 or int(groups) < 1 or int(filters) % int(groups):
            raise ValueError("%s: %r filters cannot be split into %r groups" % (type(self).__name__, filters, groups))
        self._windows(kernel_size, strides, padding, data_format, dilation_rate, filters=int(filters),
                      groups=int(groups), activation=activation, use_bias=use_bias,
                      kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
                      kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
                      kernel_constraint=kernel_constraint, bias_constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        if channels % self.groups:
            raise ValueError("%s: %d channels cannot be split into %d groups" % (self.name, channels, self.groups))
        self.kernel = self._weight("kernel", self.kernel_size + (channels // self.groups, self.filters))
        if self.use_bias:
            self.bias = self._weight("bias", (self.filters,))
        self.built = True

    def _kernel(self) -> Any:
        """(out, in, window) of (window, in, out)."""
        n = self.ndim
        return self.kernel.permute(n + 1, n, *range(n))

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        out = self._convolved(x, self._kernel(), self.bias, self.groups)
        return self.activation(out if self.channels_first else to_last(out))


class Conv1D(_Conv):
    ndim = 1


class Conv2D(_Conv):
    pass


class Conv3D(_Conv):
    ndim = 3


class DepthwiseConv2D(_BaseConv):
    """Each channel with depth_multiplier kernels of its own."""

    def __init__(self, kernel_size: Any, strides: Any = 1, padding: str = "valid", depth_multiplier: int = 1,
                 data_format: str | None = None, dilation_rate: Any = 1, activation: Any = None, use_bias: bool = True,
                 depthwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 depthwise_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self._windows(kernel_size, strides, padding, data_format, dilation_rate, depth_multiplier=int(depth_multiplier),
                      activation=activation, use_bias=use_bias, depthwise_initializer=depthwise_initializer,
                      bias_initializer=bias_initializer, depthwise_regularizer=depthwise_regularizer,
                      bias_regularizer=bias_regularizer, depthwise_constraint=depthwise_constraint,
                      bias_constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        self.kernel = self._weight("kernel", self.kernel_size + (channels, self.depth_multiplier), "depthwise")
        if self.use_bias:
            self.bias = self._weight("bias", (channels * self.depth_multiplier,))
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        out = self._convolved(x, self._depthwise(self.kernel), self.bias, int(self.kernel.shape[-2]))
        return self.activation(out if self.channels_first else to_last(out))


class DepthwiseConv1D(DepthwiseConv2D):
    ndim = 1


class SeparableConv2D(_BaseConv):
    """A window for each channel, then a mix of channels."""

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, dilation_rate: Any = 1, depth_multiplier: int = 1,
                 activation: Any = None, use_bias: bool = True, depthwise_initializer: Any = "glorot_uniform",
                 pointwise_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 depthwise_regularizer: Any = None, pointwise_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, depthwise_constraint: Any = None, pointwise_constraint: Any = None,
                 bias_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self._windows(kernel_size, strides, padding, data_format, dilation_rate, filters=int(filters),
                      depth_multiplier=int(depth_multiplier), activation=activation, use_bias=use_bias,
                      depthwise_initializer=depthwise_initializer, pointwise_initializer=pointwise_initializer,
                      bias_initializer=bias_initializer, depthwise_regularizer=depthwise_regularizer,
                      pointwise_regularizer=pointwise_regularizer, bias_regularizer=bias_regularizer,
                      depthwise_constraint=depthwise_constraint, pointwise_constraint=pointwise_constraint,
                      bias_constraint=bias_constraint)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        self.depthwise_kernel = self._weight("depthwise_kernel", self.kernel_size + (channels, self.depth_multiplier),
                                             "depthwise")
        self.pointwise_kernel = self._weight(
            "pointwise_kernel", (1,) * self.ndim + (channels * self.depth_multiplier, self.filters), "pointwise")
        if self.use_bias:
            self.bias = self._weight("bias", (self.filters,))
        self.built = True

    def call(self, inputs: Any) -> Any:
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        x = self._convolved(x, self._depthwise(self.depthwise_kernel), None, int(self.depthwise_kernel.shape[-2]))
        n = self.ndim
        x = self._op()(x, self.pointwise_kernel.permute(n + 1, n, *range(n)), self.bias)
        return self.activation(x if self.channels_first else to_last(x))


class SeparableConv1D(SeparableConv2D):
    ndim = 1


class _ConvTranspose(_BaseConv):
    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 output_padding: Any = None, data_format: str | None = None, dilation_rate: Any = 1,
                 activation: Any = None, use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, bias_constraint: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        self._windows(kernel_size, strides, padding, data_format, dilation_rate, filters=int(filters),
                      activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
                      bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer,
                      bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
                      bias_constraint=bias_constraint)
        self.output_padding = None if output_padding is None else \
            tuple_of(output_padding, self.ndim, "output_padding", 0)

    def build(self, input_shape: Any) -> None:
        channels = self._channels(input_shape)
        self.kernel = self._weight("kernel", self.kernel_size + (self.filters, channels))
        if self.use_bias:
            self.bias = self._weight("bias", (self.filters,))
        self.built = True

    def _sizes(self, i: int, n: int) -> tuple[int, int]:
        """Of dimension i with n places: how many of the whole result are cut off in front, and how many stay."""
        k, s = (self.kernel_size[i] - 1) * self.dilation_rate[i] + 1, self.strides[i]
        more = None if self.output_padding is None else self.output_padding[i]
        if self.padding == "same":
            size = n * s if more is None else (n - 1) * s + k % 2 + more
            return max((n - 1) * s + k - size, 0) // 2, size
        return 0, n * s + max(k - s, 0) if more is None else (n - 1) * s + k + more

    def call(self, inputs: Any) -> Any:
        """The whole result, cut to the size that the padding says."""
        self._check(inputs)
        x = inputs if self.channels_first else to_first(inputs)
        op: Any = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self.ndim - 1]
        n = self.ndim
        out = op(x, self.kernel.permute(n + 1, n, *range(n)), self.bias, self.strides, 0, 0, 1, self.dilation_rate)
        for i in range(n):
            before, size = self._sizes(i, int(x.shape[2 + i]))
            have = int(out.shape[2 + i])
            if before + size > have:
                shape = [int(m) for m in out.shape]  # beyond the last window there is the bias alone
                shape[2 + i] = before + size - have
                tail = out.new_zeros(shape)
                if self.bias is not None:
                    tail = tail + self.bias.reshape([1, -1] + [1] * n)
                out = cairn.cat([out, tail], dim=2 + i)
            out = out.narrow(2 + i, before, size)
        return self.activation(out if self.channels_first else to_last(out))


class Conv1DTranspose(_ConvTranspose):
    ndim = 1


class Conv2DTranspose(_ConvTranspose):
    pass


class Conv3DTranspose(_ConvTranspose):
    ndim = 3

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, output_padding: Any = None, dilation_rate: Any = 1,
                 **kwargs: Any) -> None:
        super().__init__(filters, kernel_size, strides, padding, output_padding, data_format, dilation_rate, **kwargs)


Convolution1D, Convolution2D, Convolution3D = Conv1D, Conv2D, Conv3D
Convolution1DTranspose, Convolution2DTranspose, Convolution3DTranspose = (Conv1DTranspose, Conv2DTranspose,
                                                                          Conv3DTranspose)
SeparableConvolution1D, SeparableConvolution2D = SeparableConv1D, SeparableConv2D
