"""Layers that torchvision's networks are built from. torchvision.ops.misc's names."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import _C, nn
from .._tensor import Tensor

__all__ = ["Conv2dNormActivation", "Conv3dNormActivation", "FrozenBatchNorm2d", "MLP", "Permute", "SqueezeExcitation",
           "StochasticDepth", "stochastic_depth"]


def stochastic_depth(input: Tensor, p: float, mode: str, training: bool = True) -> Tensor:
    """Whole samples (mode "row"), or the batch ("batch"), set to zero with probability p in training; the others are
    scaled up for it."""
    if not 0 <= p <= 1:
        raise ValueError("p is a probability, not %s" % p)
    if mode not in ("batch", "row"):
        raise ValueError("mode is batch or row, not %r" % (mode,))
    if not training or p == 0:
        return input
    stays = _C.empty([input.shape[0] if mode == "row" else 1] + [1] * (input.ndim - 1), dtype=input.dtype,
                     device=input.device).bernoulli_(1 - p)
    return input * (stays / (1 - p) if p < 1 else stays)


class StochasticDepth(nn.Module):
    """stochastic_depth as a layer."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p = p
        self.mode = mode

    def forward(self, input: Tensor) -> Tensor:
        return stochastic_depth(input, self.p, self.mode, self.training)

    def __repr__(self) -> str:
        return "%s(p=%s, mode=%s)" % (type(self).__name__, self.p, self.mode)


class Permute(nn.Module):
    """The dimensions in another order."""

    def __init__(self, dims: Sequence[int]) -> None:
        super().__init__()
        self.dims = list(dims)

    def forward(self, x: Tensor) -> Tensor:
        return x.permute(self.dims)


class _ConvNormActivation(nn.Sequential):
    """A convolution that keeps sizes, a norm and an activation; norm_layer or activation_layer None leaves one out."""

    def __init__(self, conv: Callable[..., nn.Module], dims: int, in_channels: int, out_channels: int, kernel_size: Any,
                 stride: Any, padding: Any, groups: int, norm_layer: Callable[..., nn.Module] | None,
                 activation_layer: Callable[..., nn.Module] | None, dilation: Any, inplace: bool | None,
                 bias: bool | None) -> None:
        if padding is None:
            sizes = kernel_size if isinstance(kernel_size, (list, tuple)) else (kernel_size,) * dims
            gaps = dilation if isinstance(dilation, (list, tuple)) else (dilation,) * dims
            around = tuple((k - 1) // 2 * d for k, d in zip(sizes, gaps))
            padding = around[0] if len(set(around)) == 1 else around
        layers: list[nn.Module] = [conv(in_channels, out_channels, kernel_size, stride, padding, dilation, groups,
                                        bias=norm_layer is None if bias is None else bias)]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer() if inplace is None else activation_layer(inplace=inplace))
        super().__init__(*layers)
        self.out_channels = out_channels


class Conv2dNormActivation(_ConvNormActivation):
    """A convolution that keeps sizes, a norm and an activation; norm_layer or activation_layer None leaves one out."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any = 3, stride: Any = 1, padding: Any = None,
                 groups: int = 1, norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm2d,
                 activation_layer: Callable[..., nn.Module] | None = nn.ReLU, dilation: Any = 1,
                 inplace: bool | None = True, bias: bool | None = None) -> None:
        super().__init__(nn.Conv2d, 2, in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
                         activation_layer, dilation, inplace, bias)


class Conv3dNormActivation(_ConvNormActivation):
    """The same with a convolution over three dimensions."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any = 3, stride: Any = 1, padding: Any = None,
                 groups: int = 1, norm_layer: Callable[..., nn.Module] | None = nn.BatchNorm3d,
                 activation_layer: Callable[..., nn.Module] | None = nn.ReLU, dilation: Any = 1,
                 inplace: bool | None = True, bias: bool | None = None) -> None:
        super().__init__(nn.Conv3d, 3, in_channels, out_channels, kernel_size, stride, padding, groups, norm_layer,
                         activation_layer, dilation, inplace, bias)


class FrozenBatchNorm2d(nn.Module):
    """A batch norm whose numbers are fixed: statistics and weights are buffers."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, value in (("weight", 1.0), ("bias", 0.0), ("running_mean", 0.0), ("running_var", 1.0)):
            self.register_buffer(name, _C.full((num_features,), value))

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.pop(prefix + "num_batches_tracked", None)  # weights of a BatchNorm2d have it
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def forward(self, x: Tensor) -> Tensor:
        scale: Tensor = (self.weight * (self.running_var + self.eps).rsqrt()).reshape(1, -1, 1, 1)
        shift: Tensor = self.bias.reshape(1, -1, 1, 1) - self.running_mean.reshape(1, -1, 1, 1) * scale
        return x * scale + shift

    def __repr__(self) -> str:
        return "%s(%d, eps=%s)" % (type(self).__name__, self.weight.shape[0], self.eps)


class SqueezeExcitation(nn.Module):
    """Each channel times a number that is computed from the means of all."""

    def __init__(self, input_channels: int, squeeze_channels: int, activation: Callable[..., nn.Module] = nn.ReLU,
                 scale_activation: Callable[..., nn.Module] = nn.Sigmoid) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation = activation()
        self.scale_activation = scale_activation()

    def forward(self, input: Tensor) -> Tensor:
        scale: Tensor = self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input)))))
        return scale * input


class MLP(nn.Sequential):
    """Linear layers with an activation and dropout between them."""

    def __init__(self, in_channels: int, hidden_channels: Sequence[int],
                 norm_layer: Callable[..., nn.Module] | None = None,
                 activation_layer: Callable[..., nn.Module] | None = nn.ReLU, inplace: bool | None = None,
                 bias: bool = True, dropout: float = 0.0) -> None:
        given: dict[str, Any] = {} if inplace is None else {"inplace": inplace}
        layers: list[nn.Module] = []
        for i, width in enumerate(hidden_channels):
            layers.append(nn.Linear(in_channels, width, bias=bias))
            if i + 1 < len(hidden_channels):
                if norm_layer is not None:
                    layers.append(norm_layer(width))
                if activation_layer is not None:
                    layers.append(activation_layer(**given))
            layers.append(nn.Dropout(dropout, **given))
            in_channels = width
        super().__init__(*layers)
