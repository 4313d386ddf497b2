"""Ops of torch.ops.aten whose arguments are not those of the function of that name.

Place in the flow: _ops.py. Invariant: arguments and results are those of PyTorch's schema."""
from __future__ import annotations

import builtins
from typing import Any, Callable, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["FORMS", "loss"]

FORMS: dict[str, Callable[..., Any]] = {}


def _form(function: Callable[..., Any]) -> Callable[..., Any]:
    """Notes a function under its own name."""
    FORMS[function.__name__] = function
    return function


def _functional() -> Any:
    from .nn import functional
    return functional


def loss(name: str, function: Any, kinds: tuple[str, ...], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A loss: its reduction is a number, behind the tensors; what follows has names."""
    order = {"binary_cross_entropy": ("weight", "reduction"),
             "binary_cross_entropy_with_logits": ("weight", "pos_weight", "reduction"),
             "kl_div": ("reduction", "log_target"), "nll_loss": ("weight", "reduction", "ignore_index"),
             "cross_entropy_loss": ("weight", "reduction", "ignore_index", "label_smoothing"),
             "smooth_l1_loss": ("reduction", "beta"), "huber_loss": ("reduction", "delta"),
             "multi_margin_loss": ("p", "margin", "weight", "reduction"),
             "hinge_embedding_loss": ("margin", "reduction")}.get(name, ("reduction",))
    named = {**dict(zip(order, args[2:])), **kwargs}
    if isinstance(named.get("reduction"), int):
        named["reduction"] = kinds[named["reduction"]]
    return function(*args[:2], **named)


@_form
def cross_entropy_loss(*args: Any, **kwargs: Any) -> Any:
    return loss("cross_entropy_loss", _functional().cross_entropy, ("none", "mean", "sum"), args, kwargs)


@_form
def _softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _C.softmax(self.float() if half_to_float else self, dim)


@_form
def _log_softmax(self: Tensor, dim: int, half_to_float: bool) -> Tensor:
    return _C.log_softmax(self.float() if half_to_float else self, dim)


@_form
def _to_copy(self: Tensor, *, dtype: Any = None, layout: Any = None, device: Any = None, pin_memory: Any = None,
             non_blocking: bool = False, memory_format: Any = None) -> Tensor:  # unused: non_blocking (see Tensor.to)
    if layout not in (None, _C.strided):
        raise NotImplementedError("_to_copy: tensors are strided")
    made = self.to(device, dtype, copy=True, memory_format=memory_format)
    return made.pin_memory() if pin_memory else made


@_form
def slice(self: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    dim = dim % self.ndim
    index: Any = (builtins.slice(None),) * dim + (builtins.slice(start, None if end == 2 ** 63 - 1 else end, step),)
    return self[index]


@_form
def index(self: Tensor, indices: Sequence[Any]) -> Tensor:
    return self[tuple(builtins.slice(None) if i is None else i for i in indices)]


@_form
def index_put(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    return self.clone().index_put_(tuple(_whole(indices)), values, accumulate)


@_form
def index_put_(self: Tensor, indices: Sequence[Any], values: Tensor, accumulate: bool = False) -> Tensor:
    return self.index_put_(tuple(_whole(indices)), values, accumulate)


def _whole(indices: Sequence[Any]) -> list[Tensor]:
    """Indices with none left out: a None in front of others is every place of its dimension."""
    given = list(indices)
    while given and given[-1] is None:
        given.pop()
    if None in given:
        raise NotImplementedError("index_put: None in front of a tensor; assign to self[:, ...] instead")
    return given


@_form
def alias(self: Tensor) -> Tensor:
    return self.view(self.shape)


@_form
def lift(self: Tensor) -> Tensor:
    return self


FORMS["lift_fresh"] = lift


@_form
def _unsafe_view(self: Tensor, size: Sequence[int]) -> Tensor:
    return self.view(tuple(size))


@_form
def _reshape_alias(self: Tensor, size: Sequence[int], stride: Sequence[int]) -> Tensor:
    return self.as_strided(size, stride, self.storage_offset())


@_form
def _local_scalar_dense(self: Tensor) -> Any:
    return self.item()


@_form
def sym_size(self: Tensor, dim: int | None = None) -> Any:
    return self.shape if dim is None else self.shape[dim]


@_form
def sym_stride(self: Tensor, dim: int | None = None) -> Any:
    return self.stride() if dim is None else self.stride(dim)


@_form
def sym_numel(self: Tensor) -> int:
    return self.numel()


@_form
def sym_storage_offset(self: Tensor) -> int:
    return self.storage_offset()


@_form
def zero(self: Tensor) -> Tensor:
    return _C.zeros_like(self)


@_form
def copy(self: Tensor, src: Tensor, non_blocking: bool = False) -> Tensor:
    return _C.empty_like(self).copy_(src, non_blocking)


@_form
def convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
                transposed: bool, output_padding: Any, groups: int) -> Tensor:
    f, spatial = _functional(), input.ndim - 2
    if transposed:
        made: Tensor = getattr(f, "conv_transpose%dd" % spatial)(input, weight, bias, stride, padding, output_padding,
                                                                 groups, dilation)
    else:
        made = getattr(f, "conv%dd" % spatial)(input, weight, bias, stride, padding, dilation, groups)
    return made


@_form
def _convolution(input: Tensor, weight: Tensor, bias: Tensor | None, stride: Any, padding: Any, dilation: Any,
                 transposed: bool, output_padding: Any, groups: int,
                 *settings: bool) -> Tensor:  # unused: settings (speed)
    made: Tensor = convolution(input, weight, bias, stride, padding, dilation, transposed, output_padding, groups)
    return made


def _moments(x: Tensor, dims: Any, eps: float) -> tuple[Tensor, Tensor]:
    mean = x.mean(dims, keepdim=True)
    return mean, (x.var(dims, correction=0, keepdim=True) + eps).rsqrt()


@_form
def native_layer_norm(input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:
    dims = tuple(range(-len(normalized_shape), 0))
    normed: Tensor = _functional().layer_norm(input, tuple(normalized_shape), weight, bias, eps)
    return (normed, *_moments(input, dims, eps))


@_form
def native_group_norm(input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int,
                      eps: float) -> tuple[Tensor, Tensor, Tensor]:
    normed: Tensor = _functional().group_norm(input, group, weight, bias, eps)
    mean, scale = _moments(input.reshape(N, group, C // group * HxW), (2,), eps)
    return normed, mean.squeeze(2), scale.squeeze(2)


@_form
def max_pool2d_with_indices(self: Tensor, kernel_size: Any, stride: Any = (), padding: Any = 0, dilation: Any = 1,
                            ceil_mode: bool = False) -> Any:
    return _functional().max_pool2d(self, kernel_size, stride or None, padding, dilation, ceil_mode, True)


@_form
def _adaptive_avg_pool2d(self: Tensor, output_size: Any) -> Any:
    return _functional().adaptive_avg_pool2d(self, output_size)


@_form
def _adaptive_avg_pool3d(self: Tensor, output_size: Any) -> Any:
    return _functional().adaptive_avg_pool3d(self, output_size)


@_form
def sigmoid_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * output * (1 - output)


@_form
def tanh_backward(grad_output: Tensor, output: Tensor) -> Tensor:
    return grad_output * (1 - output * output)


@_form
def threshold_backward(grad_output: Tensor, self: Tensor, threshold: Any) -> Tensor:
    return _C.where(self > threshold, grad_output, _C.zeros_like(grad_output))


@_form
def log_sigmoid(self: Tensor) -> Any:
    return _functional().logsigmoid(self)


def _resampled(mode: str, corners: bool) -> Callable[..., Any]:
    """upsample_*: sizes, or scales of which one form has a list, the other a number for each dimension."""
    def call(input: Tensor, output_size: Any, *rest: Any, **named: Any) -> Any:
        given = [*rest]
        align = named.pop("align_corners") if "align_corners" in named else given.pop(0) if corners else None
        scales = [s for s in (*given, *named.values()) if s is not None]
        flat = scales[0] if len(scales) == 1 and isinstance(scales[0], (list, tuple)) else scales
        size = None if output_size is None else tuple(output_size)
        more = {"align_corners": align} if corners else {}
        return _functional().interpolate(input, size, tuple(flat) if size is None else None, mode, **more)
    return call


for _dims, _mode in ((1, "linear"), (2, "bilinear"), (2, "bicubic"), (3, "trilinear")):
    FORMS["upsample_%s%dd" % (_mode, _dims)] = _resampled(_mode, True)
for _dims in (1, 2, 3):
    FORMS["upsample_nearest%dd" % _dims] = _resampled("nearest", False)


def _padded(mode: str) -> Callable[..., Any]:
    def call(self: Tensor, padding: Any) -> Any:
        return _functional().pad(self, tuple(padding), mode)
    return call


for _dims in (1, 2, 3):
    FORMS["reflection_pad%dd" % _dims] = _padded("reflect")
    FORMS["replication_pad%dd" % _dims] = _padded("replicate")
del _dims, _mode


def _sampled(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Any:
    return _functional().grid_sample(input, grid, ("bilinear", "nearest", "bicubic")[interpolation_mode],
                                     ("zeros", "border", "reflection")[padding_mode], align_corners)


FORMS["grid_sampler"] = FORMS["grid_sampler_2d"] = FORMS["grid_sampler_3d"] = _sampled
FORMS["affine_grid_generator"] = lambda theta, size, align_corners: _functional().affine_grid(theta, size,
                                                                                              align_corners)
