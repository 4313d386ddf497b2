"""keras.ops.nn: activations, windows, losses and norms, of cairn's ops; what a layer does is that layer's."""
from __future__ import annotations

from typing import Any

import cairn
from ..._arguments import only_speed, refused
from ...nn import functional as F
from .. import activations
from ..backend import dtype_of, epsilon as small
from ._ctc import ctc_decode as ctc_decode
from ._make import binary, dims, floats, op, tensor, unary

sigmoid = unary(cairn.sigmoid, "sigmoid")
for _name in ("relu relu6 silu softplus softsign selu hard_sigmoid hard_silu log_sigmoid tanh_shrink hard_tanh "
              "sparse_plus sparse_sigmoid").split():
    globals()[_name] = unary(getattr(activations, _name), _name)
swish, hard_swish = unary(activations.silu, "swish"), unary(activations.hard_silu, "hard_swish")


@op
def softmax(x: Any, axis: Any = -1) -> Any:
    return activations.softmax(floats(x), axis)


@op
def log_softmax(x: Any, axis: int = -1) -> Any:
    return F.log_softmax(floats(x), dim=axis)


@op
def leaky_relu(x: Any, negative_slope: float = 0.2) -> Any:
    return F.leaky_relu(floats(x), negative_slope)


@op
def elu(x: Any, alpha: float = 1.0) -> Any:
    return F.elu(floats(x), alpha)


@op
def celu(x: Any, alpha: float = 1.0) -> Any:
    return F.celu(floats(x), alpha)


@op
def gelu(x: Any, approximate: bool = True) -> Any:
    return F.gelu(floats(x), approximate="tanh" if approximate else "none")


@op
def glu(x: Any, axis: int = -1) -> Any:
    return F.glu(floats(x), axis)


@op
def hard_shrink(x: Any, threshold: float = 0.5) -> Any:
    return F.hardshrink(floats(x), threshold)


@op
def soft_shrink(x: Any, threshold: float = 0.5) -> Any:
    return F.softshrink(floats(x), threshold)


@op
def threshold(x: Any, threshold: float, default_value: float) -> Any:
    return F.threshold(floats(x), threshold, default_value)


@op
def squareplus(x: Any, b: float = 4) -> Any:
    return activations.squareplus(floats(x), b)


@op
def sparsemax(x: Any, axis: int = -1) -> Any:
    return activations.sparsemax(floats(x), axis)


# ---- windows: what the layers of this name do ----
def _sizes(strides: Any, padding: str, data_format: str | None, **more: Any) -> dict[str, Any]:
    return {"strides": strides, "padding": padding, "data_format": data_format, "name": "op", **more}


def _called(kind: str, x: Any, weights: dict[str, Any], *args: Any, **kwargs: Any) -> Any:
    from .. import layers
    layer = getattr(layers, kind)(*args, **kwargs)
    layer.built = True
    for name, value in weights.items():
        layer.__dict__[name] = floats(value)
    return layer.call(floats(x))


@op
def max_pool(inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid",
             data_format: str | None = None) -> Any:
    return _called("MaxPooling%dD" % (len(inputs.shape) - 2), inputs, {}, pool_size,
                   **_sizes(strides, padding, data_format))


@op
def average_pool(inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid",
                 data_format: str | None = None) -> Any:
    return _called("AveragePooling%dD" % (len(inputs.shape) - 2), inputs, {}, pool_size,
                   **_sizes(strides, padding, data_format))


@op
def adaptive_average_pool(inputs: Any, output_size: Any, data_format: str | None = None) -> Any:
    return _called("AdaptiveAveragePooling%dD" % (len(inputs.shape) - 2), inputs, {}, output_size,
                   data_format=data_format, name="op")


@op
def adaptive_max_pool(inputs: Any, output_size: Any, data_format: str | None = None) -> Any:
    return _called("AdaptiveMaxPooling%dD" % (len(inputs.shape) - 2), inputs, {}, output_size,
                   data_format=data_format, name="op")


@op
def conv(inputs: Any, kernel: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
         dilation_rate: Any = 1) -> Any:
    n = len(inputs.shape) - 2
    channels = int(inputs.shape[1 if data_format == "channels_first" else -1])
    return _called("Conv%dD" % n, inputs, {"kernel": kernel}, int(kernel.shape[-1]), tuple(kernel.shape[:n]),
                   groups=channels // int(kernel.shape[-2]), use_bias=False,
                   **_sizes(strides, padding, data_format, dilation_rate=dilation_rate))


@op
def depthwise_conv(inputs: Any, kernel: Any, strides: Any = 1, padding: str = "valid", data_format: str | None = None,
                   dilation_rate: Any = 1) -> Any:
    n = len(inputs.shape) - 2
    return _called("DepthwiseConv%dD" % n, inputs, {"kernel": kernel}, tuple(kernel.shape[:n]),
                   depth_multiplier=int(kernel.shape[-1]), use_bias=False,
                   **_sizes(strides, padding, data_format, dilation_rate=dilation_rate))


@op
def separable_conv(inputs: Any, depthwise_kernel: Any, pointwise_kernel: Any, strides: Any = 1, padding: str = "valid",
                   data_format: str | None = None, dilation_rate: Any = 1) -> Any:
    return conv(depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate),
                pointwise_kernel, data_format=data_format)


@op
def conv_transpose(inputs: Any, kernel: Any, strides: Any = 1, padding: str = "valid", output_padding: Any = None,
                   data_format: str | None = None, dilation_rate: Any = 1) -> Any:
    n = len(inputs.shape) - 2
    return _called("Conv%dDTranspose" % n, inputs, {"kernel": kernel}, int(kernel.shape[-2]), tuple(kernel.shape[:n]),
                   output_padding=output_padding, use_bias=False,
                   **_sizes(strides, padding, data_format, dilation_rate=dilation_rate))


@op
def unfold(x: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return F.unfold(floats(x), kernel_size, dilation, padding, stride)


@op
def fold(x: Any, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> Any:
    return F.fold(floats(x), output_size, kernel_size, dilation, padding, stride)


@op
def depth_to_space(x: Any, block_size: int, data_format: str = "channels_last") -> Any:
    x, b = tensor(x), block_size
    if data_format == "channels_first":
        return depth_to_space(x.permute(0, 2, 3, 1), b).permute(0, 3, 1, 2)
    n, h, w, c = (int(k) for k in x.shape)
    return x.reshape(n, h, w, b, b, c // b // b).permute(0, 1, 3, 2, 4, 5).reshape(n, h * b, w * b, c // b // b)


@op
def space_to_depth(x: Any, block_size: int, data_format: str = "channels_last") -> Any:
    x, b = tensor(x), block_size
    if data_format == "channels_first":
        return space_to_depth(x.permute(0, 2, 3, 1), b).permute(0, 3, 1, 2)
    n, h, w, c = (int(k) for k in x.shape)
    return x.reshape(n, h // b, b, w // b, b, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h // b, w // b, c * b * b)


# ---- norms, places, losses ----
@op
def normalize(x: Any, axis: int = -1, order: int = 2, epsilon: float | None = None) -> Any:
    return F.normalize(floats(x), p=order, dim=axis, eps=1e-12 if epsilon is None else epsilon)


@op
def moments(x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False) -> Any:
    refused("moments", "there is one replica", False, synchronized=synchronized)
    x = floats(x)
    d = dims(x, axes)
    return x.mean(d, keepdim=keepdims), x.var(d, correction=0, keepdim=keepdims)


@op
def batch_normalization(x: Any, mean: Any, variance: Any, axis: int, offset: Any = None, scale: Any = None,
                        epsilon: float = 0.001) -> Any:
    x = floats(x)
    shape = tuple(-1 if d == axis % x.ndim else 1 for d in range(x.ndim))
    made = (x - floats(mean).reshape(shape)) * (floats(variance).reshape(shape) + epsilon).rsqrt()
    made = made if scale is None else made * floats(scale).reshape(shape)
    return made if offset is None else made + floats(offset).reshape(shape)


@op
def layer_normalization(x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: float | None = None,
                        rms_scaling: bool = False) -> Any:
    """rms_scaling: Keras's older option, which divides by the deviation without taking the mean off."""
    x = floats(x)
    d = dims(x, axis)
    size = (x.var(d, correction=0, keepdim=True) + (small() if epsilon is None else epsilon)).rsqrt()
    made = x * size if rms_scaling else (x - x.mean(d, keepdim=True)) * size
    made = made if gamma is None else made * _along(gamma, x, axis)
    return made if beta is None or rms_scaling else made + _along(beta, x, axis)


def _along(weight: Any, x: Any, axis: Any) -> Any:
    """A weight of the sizes of some axes, in the places of x that they are."""
    weight = floats(weight)
    places = [a % x.ndim for a in (axis if isinstance(axis, (list, tuple)) else [axis])]
    if weight.ndim == x.ndim or places == [x.ndim - 1]:
        return weight
    return weight.reshape(tuple(int(n) if i in places else 1 for i, n in enumerate(x.shape)))


@op
def rms_normalization(x: Any, scale: Any = None, axis: Any = -1, epsilon: float | None = None) -> Any:
    x = floats(x)
    made = x * (x.square().mean(dims(x, axis), keepdim=True) + (small() if epsilon is None else epsilon)).rsqrt()
    return made if scale is None else made * _along(scale, x, axis)


@op
def one_hot(x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False) -> Any:
    refused("one_hot", "tensors are dense", False, sparse=sparse)
    places = tensor(x).long().unsqueeze(-1) == cairn.arange(num_classes)  # what is outside has no place
    return places.to(dtype_of(dtype)).movedim(-1, axis)


@op
def multi_hot(inputs: Any, num_classes: int | None = None, axis: int = -1, dtype: Any = None, sparse: bool = False,
              num_tokens: int | None = None) -> Any:
    """1 in the places of the classes that a row of inputs (N, length, ...) has; axis: where the classes are put.
    num_tokens is Keras's older word for num_classes."""
    refused("multi_hot", "tensors are dense", False, sparse=sparse)
    many = num_classes if num_classes is not None else num_tokens
    if many is None:
        raise ValueError("multi_hot needs num_classes")
    hot = one_hot(inputs, many, dtype=dtype)
    if hot.ndim == 1:
        return hot
    return hot.amax(1 if hot.ndim > 2 else 0).movedim(-1, axis)


@op
def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    y, p = floats(target), floats(output)
    if from_logits:
        return F.binary_cross_entropy_with_logits(p, y, reduction="none")
    return F.binary_cross_entropy(p.clamp(1e-7, 1.0 - 1e-7), y, reduction="none")


@op
def categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    from .. import losses
    return losses.categorical_crossentropy(floats(target), floats(output), from_logits, axis=axis)


@op
def sparse_categorical_crossentropy(target: Any, output: Any, from_logits: bool = False, axis: int = -1) -> Any:
    from .. import losses
    return losses.sparse_categorical_crossentropy(tensor(target), floats(output), from_logits, axis=axis)


@op
def ctc_loss(target: Any, output: Any, target_length: Any, output_length: Any, mask_index: int = 0) -> Any:
    scores = F.log_softmax(floats(output), dim=-1).transpose(0, 1)
    return F.ctc_loss(scores, tensor(target).long(), tensor(output_length).long(), tensor(target_length).long(),
                      blank=mask_index, reduction="none")


@op
def dot_product_attention(query: Any, key: Any, value: Any, bias: Any = None, mask: Any = None,
                          scale: float | None = None, is_causal: bool = False, flash_attention: Any = None,
                          attn_logits_soft_cap: float | None = None) -> Any:
    """(batch, time, heads, size) each."""
    only_speed("dot_product_attention", flash_attention=flash_attention or None)
    q, k, v = (floats(t).transpose(1, 2) for t in (query, key, value))
    if k.shape[1] != q.shape[1]:
        k, v = (t.repeat_interleave(int(q.shape[1]) // int(t.shape[1]), 1) for t in (k, v))
    logits = q @ k.transpose(-1, -2) * (scale if scale is not None else int(q.shape[-1]) ** -0.5)
    if bias is not None:
        logits = logits + floats(bias)
    if attn_logits_soft_cap is not None:
        logits = attn_logits_soft_cap * (logits / attn_logits_soft_cap).tanh()
    allowed = None if mask is None else tensor(mask).to(cairn.bool)
    if is_causal:
        ahead = cairn.ones(int(q.shape[2]), int(k.shape[2]), dtype=cairn.bool).tril()
        allowed = ahead if allowed is None else allowed & ahead
    if allowed is not None:
        logits = cairn.where(allowed, logits, -0.7 * cairn.finfo(logits.dtype).max)
    return (F.softmax(logits, dim=-1) @ v).transpose(1, 2)


psnr = op(lambda x1, x2, max_val: 20.0 * floats(max_val).log10() - 10.0 * (floats(x1) - floats(x2)).square().mean()
          .log10(), "psnr")
cdist = binary(lambda a, b: cairn.cdist(a, b), "cdist", True)
