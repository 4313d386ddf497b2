"""A convolution or linear layer and the batch norm behind it as one layer, for evaluation; and layers that are made
without drawing their weights.
"""
from __future__ import annotations

import copy
import inspect
import warnings
from typing import Any, Iterable

from ..._tensor import Tensor
from ..module import Module
from ..parameter import Parameter
from .clip_grad import clip_grad_norm_

__all__ = ["clip_grad_norm", "convert_conv2d_weight_memory_format", "convert_conv3d_weight_memory_format",
           "fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights", "skip_init"]


def _fused(weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, scale: Tensor | None,
           shift: Tensor | None, axis: int) -> tuple[Parameter, Parameter]:
    """Weight and bias so that what the norm did to the outputs is in them; axis: that of outputs in the weight."""
    factor = (var + eps).rsqrt() if scale is None else scale * (var + eps).rsqrt()
    shape = [1] * weight.ndim
    shape[axis] = -1
    moved = ((0 if bias is None else bias) - mean) * factor
    made = Parameter((weight * factor.reshape(shape)).detach(), weight.requires_grad)
    return made, Parameter((moved if shift is None else moved + shift).detach(),
                           weight.requires_grad if bias is None else bias.requires_grad)


def fuse_conv_bn_weights(conv_w: Tensor, conv_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
                         bn_w: Tensor | None, bn_b: Tensor | None,
                         transpose: bool = False) -> tuple[Parameter, Parameter]:
    """Weight and bias of a convolution that does what it and the batch norm did."""
    return _fused(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 1 if transpose else 0)


def fuse_linear_bn_weights(linear_w: Tensor, linear_b: Tensor | None, bn_rm: Tensor, bn_rv: Tensor, bn_eps: float,
                           bn_w: Tensor, bn_b: Tensor) -> tuple[Parameter, Parameter]:
    """Weight and bias of a linear layer that does what it and the batch norm did."""
    return _fused(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, 0)


def _fuse(layer: Any, bn: Any, axis: int) -> Any:
    if layer.training or bn.training:
        raise AssertionError("Fusion only for eval!")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("fusion needs the running statistics of the batch norm")
    made = copy.deepcopy(layer)
    made.weight, made.bias = _fused(made.weight, made.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight,
                                    bn.bias, axis)
    return made


def fuse_conv_bn_eval(conv: Any, bn: Any, transpose: bool = False) -> Any:
    """One convolution in the place of a convolution and the batch norm behind it; both in eval mode."""
    return _fuse(conv, bn, 1 if transpose else 0)


def fuse_linear_bn_eval(linear: Any, bn: Any) -> Any:
    """One linear layer in the place of a linear layer and the batch norm behind it; both in eval mode."""
    if linear.out_features != bn.num_features and bn.num_features != 1:
        raise AssertionError("to fuse, linear.out_features == bn.num_features or bn.num_features == 1")
    return _fuse(linear, bn, 0)


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """The module without a promise about its parameters' values: they are to be written over."""
    if not (isinstance(module_cls, type) and issubclass(module_cls, Module)):
        raise RuntimeError("Expected a Module; got %s" % (module_cls,))
    if "device" not in inspect.signature(module_cls).parameters and "device" in kwargs:
        raise RuntimeError("Module must support a \'device\' arg to skip initialization")
    return module_cls(*args, **kwargs)


def _reordered(module: Module, memory_format: Any, ndim: int) -> Module:
    for part in module.modules():
        weight = getattr(part, "weight", None)
        if "Conv" in type(part).__name__ and isinstance(weight, Tensor) and weight.ndim == ndim:
            weight.data = weight.detach().clone().contiguous(memory_format=memory_format)
    return module


def convert_conv2d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """The weights of all two-dimensional convolutions in that memory order."""
    return _reordered(module, memory_format, 4)


def convert_conv3d_weight_memory_format(module: Module, memory_format: Any) -> Module:
    """The weights of all three-dimensional convolutions in that memory order."""
    return _reordered(module, memory_format, 5)


def clip_grad_norm(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0,
                   error_if_nonfinite: bool = False, foreach: bool | None = None) -> Tensor:
    """The older name of clip_grad_norm_."""
    warnings.warn("clip_grad_norm is deprecated in favour of clip_grad_norm_", FutureWarning, stacklevel=2)
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite, foreach)
