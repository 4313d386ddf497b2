"""MobileNetV2 as a class to derive from, with torchvision's arguments and names of weights. cairn.models.mobilenet_v2()
is the zoo's network, which is C; both take the same weights."""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import _C, nn
from .._tensor import Tensor
from ..nn import functional as _F
from ..ops import Conv2dNormActivation

__all__ = ["MobileNetV2"]

_Norm = Callable[..., nn.Module]
_STAGES = [[1, 16, 1, 1], [6, 24, 2, 2], [6, 32, 3, 2], [6, 64, 4, 2], [6, 96, 3, 1], [6, 160, 3, 2], [6, 320, 1, 1]]


def _divisible(v: float, by: int) -> int:
    """The multiple next to v, not less than nine tenths of it."""
    near = max(by, int(v + by / 2) // by * by)
    return near + by if near < 0.9 * v else near


class InvertedResidual(nn.Module):
    """Widens, filters each channel by itself, and narrows again; added to its input where shapes fit."""

    def __init__(self, inp: int, oup: int, stride: int, expand_ratio: int, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        if stride not in (1, 2):
            raise ValueError("stride should be 1 or 2 instead of %s" % stride)
        norm, width = norm_layer or nn.BatchNorm2d, int(round(inp * expand_ratio))
        self.stride, self.use_res_connect, self.out_channels = stride, stride == 1 and inp == oup, oup
        layers: list[nn.Module] = []
        if expand_ratio != 1:
            layers.append(Conv2dNormActivation(inp, width, 1, norm_layer=norm, activation_layer=nn.ReLU6))
        layers += [Conv2dNormActivation(width, width, stride=stride, groups=width, norm_layer=norm,
                                        activation_layer=nn.ReLU6), nn.Conv2d(width, oup, 1, bias=False), norm(oup)]
        self.conv = nn.Sequential(*layers)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.conv(x)
        return x + made if self.use_res_connect else made


class MobileNetV2(nn.Module):
    """Stages of such blocks: how much they widen, channels, how many, stride."""

    def __init__(self, num_classes: int = 1000, width_mult: float = 1.0,
                 inverted_residual_setting: Sequence[Sequence[int]] | None = None, round_nearest: int = 8,
                 block: Any = None, norm_layer: _Norm | None = None, dropout: float = 0.2) -> None:
        super().__init__()
        stages = _STAGES if inverted_residual_setting is None else inverted_residual_setting
        if not len(stages) or len(stages[0]) != 4:
            raise ValueError("inverted_residual_setting should be non-empty or a 4-element list, got %s" % (stages,))
        norm, make = norm_layer or nn.BatchNorm2d, block or InvertedResidual
        width = _divisible(32 * width_mult, round_nearest)
        self.last_channel = _divisible(1280 * max(1.0, width_mult), round_nearest)
        style: dict[str, Any] = {"norm_layer": norm, "activation_layer": nn.ReLU6}
        features: list[nn.Module] = [Conv2dNormActivation(3, width, stride=2, **style)]
        for widen, channels, count, stride in stages:
            out = _divisible(channels * width_mult, round_nearest)
            for i in range(count):
                features.append(make(width, out, 1 if i else stride, expand_ratio=widen, norm_layer=norm))
                width = out
        features.append(Conv2dNormActivation(width, self.last_channel, kernel_size=1, **style))
        self.features = nn.Sequential(*features)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), nn.Linear(self.last_channel, num_classes))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out")
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
            if isinstance(m, (nn.Conv2d, nn.Linear)) and m.bias is not None:
                nn.init.zeros_(m.bias)

    def _forward_impl(self, x: Tensor) -> Tensor:
        seen = _F.adaptive_avg_pool2d(self.features(x), (1, 1))
        made: Tensor = self.classifier(_C.flatten(seen, 1))
        return made

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)
