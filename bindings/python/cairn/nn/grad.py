"""cairn.nn.grad: gradients of convolutions as functions of their own: what backward would compute."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import _C
from .._modes import enable_grad
from .._tensor import Tensor
from ..autograd import grad
from . import functional as F

__all__ = ["conv1d_input", "conv1d_weight", "conv2d_input", "conv2d_weight", "conv3d_input", "conv3d_weight"]


def _input(conv: Callable[..., Tensor], size: Sequence[int], weight: Tensor, grad_output: Tensor, *how: Any) -> Tensor:
    """The gradient of the input, which itself does not matter: a convolution is linear in it."""
    with enable_grad():
        x = _C.zeros(tuple(size), dtype=weight.dtype, device=weight.device, requires_grad=True)
        return grad(conv(x, weight, None, *how), x, grad_output, create_graph=grad_output.requires_grad)[0]


def _weight(conv: Callable[..., Tensor], input: Tensor, size: Sequence[int], grad_output: Tensor, *how: Any) -> Tensor:
    """The gradient of the weight."""
    with enable_grad():
        w = _C.zeros(tuple(size), dtype=input.dtype, device=input.device, requires_grad=True)
        return grad(conv(input, w, None, *how), w, grad_output, create_graph=grad_output.requires_grad)[0]


def conv1d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv1d with respect to its input."""
    return _input(F.conv1d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv1d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv1d with respect to its weight."""
    return _weight(F.conv1d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv2d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv2d with respect to its input."""
    return _input(F.conv2d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv2d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv2d with respect to its weight."""
    return _weight(F.conv2d, input, weight_size, grad_output, stride, padding, dilation, groups)


def conv3d_input(input_size: Sequence[int], weight: Tensor, grad_output: Tensor, stride: Any = 1, padding: Any = 0,
                 dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv3d with respect to its input."""
    return _input(F.conv3d, input_size, weight, grad_output, stride, padding, dilation, groups)


def conv3d_weight(input: Tensor, weight_size: Sequence[int], grad_output: Tensor, stride: Any = 1, padding: Any = 0,
                  dilation: Any = 1, groups: int = 1) -> Tensor:
    """The gradient of conv3d with respect to its weight."""
    return _weight(F.conv3d, input, weight_size, grad_output, stride, padding, dilation, groups)
