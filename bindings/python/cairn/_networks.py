"""Networks of torchvision that the library's zoo does not have in C, put together from its layers: SqueezeNet,
DenseNet, MobileNetV3, EfficientNet, GoogLeNet, ConvNeXt.

Place: behind cairn/zoo.py. Names of parameters are torchvision's, so that its files of weights load unchanged.
"""
from __future__ import annotations

import functools
import math
from typing import Any, Callable, NamedTuple

from . import _C, nn
from ._tensor import Tensor
from .nn import functional as F
from .ops import Conv2dNormActivation, Permute, SqueezeExcitation, StochasticDepth

__all__ = ["MAKERS"]


def _divisible(v: float, by: int = 8) -> int:
    """The multiple of `by` next to v, not less than nine tenths of it."""
    made = max(by, int(v + by / 2) // by * by)
    return made + by if made < 0.9 * v else made


def _first_weights(net: nn.Module, linear: Callable[[nn.Linear], object] | None = None, mode: str = "fan_out") -> None:
    for m in net.modules():
        if isinstance(m, nn.Conv2d):
            nn.init.kaiming_normal_(m.weight, mode=mode)
            if m.bias is not None:
                nn.init.zeros_(m.bias)
        elif isinstance(m, nn.Linear) and linear is not None:
            linear(m)


def _small(m: nn.Linear) -> None:
    nn.init.normal_(m.weight, 0, 0.01)
    nn.init.zeros_(m.bias)


# ---- SqueezeNet ----

class Fire(nn.Module):
    """Few channels by a 1 x 1 convolution, then many by one of 1 x 1 and one of 3 x 3, side by side."""

    def __init__(self, inplanes: int, squeeze_planes: int, expand1x1_planes: int, expand3x3_planes: int) -> None:
        super().__init__()
        self.inplanes = inplanes
        self.squeeze = nn.Conv2d(inplanes, squeeze_planes, kernel_size=1)
        self.squeeze_activation = nn.ReLU(inplace=True)
        self.expand1x1 = nn.Conv2d(squeeze_planes, expand1x1_planes, kernel_size=1)
        self.expand1x1_activation = nn.ReLU(inplace=True)
        self.expand3x3 = nn.Conv2d(squeeze_planes, expand3x3_planes, kernel_size=3, padding=1)
        self.expand3x3_activation = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        x = self.squeeze_activation(self.squeeze(x))
        return _C.cat([self.expand1x1_activation(self.expand1x1(x)), self.expand3x3_activation(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    def __init__(self, version: str = "1_0", num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.num_classes = num_classes
        old = version == "1_0"
        width, side, pools = (96, 7, (2, 6)) if old else (64, 3, (1, 3))  # a pooling behind these blocks
        layers: list[nn.Module] = [nn.Conv2d(3, width, kernel_size=side, stride=2), nn.ReLU(inplace=True),
                                   nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True)]
        for i, squeeze in enumerate((16, 16, 32, 32, 48, 48, 64, 64)):
            layers.append(Fire(width, squeeze, 4 * squeeze, 4 * squeeze))
            width = 8 * squeeze
            if i in pools:
                layers.append(nn.MaxPool2d(kernel_size=3, stride=2, ceil_mode=True))
        self.features = nn.Sequential(*layers)
        last = nn.Conv2d(width, num_classes, kernel_size=1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout), last, nn.ReLU(inplace=True),
                                        nn.AdaptiveAvgPool2d((1, 1)))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                if m is last:
                    nn.init.normal_(m.weight, mean=0.0, std=0.01)
                else:
                    nn.init.kaiming_uniform_(m.weight)
                assert m.bias is not None
                nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        return _C.flatten(self.classifier(self.features(x)), 1)


# ---- DenseNet ----

class _DenseLayer(nn.Module):
    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float) -> None:
        super().__init__()
        middle = bn_size * growth_rate
        self.norm1 = nn.BatchNorm2d(num_input_features)
        self.relu1 = nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, middle, kernel_size=1, stride=1, bias=False)
        self.norm2 = nn.BatchNorm2d(middle)
        self.relu2 = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(middle, growth_rate, kernel_size=3, stride=1, padding=1, bias=False)
        self.drop_rate = float(drop_rate)

    def forward(self, input: Any) -> Tensor:
        x = input if isinstance(input, Tensor) else _C.cat(list(input), 1)
        made: Tensor = self.conv2(self.relu2(self.norm2(self.conv1(self.relu1(self.norm1(x))))))
        return F.dropout(made, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else made


class _DenseBlock(nn.ModuleDict):
    """Layers each of which sees the results of all before it."""

    def __init__(self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int,
                 drop_rate: float) -> None:
        super().__init__()
        for i in range(num_layers):
            self.add_module("denselayer%d" % (i + 1),
                            _DenseLayer(num_input_features + i * growth_rate, growth_rate, bn_size, drop_rate))

    def forward(self, init_features: Tensor) -> Tensor:
        features = [init_features]
        for layer in self.values():
            features.append(layer(features))
        return _C.cat(features, 1)


class _Transition(nn.Sequential):
    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(num_input_features)
        self.relu = nn.ReLU(inplace=True)
        self.conv = nn.Conv2d(num_input_features, num_output_features, kernel_size=1, stride=1, bias=False)
        self.pool = nn.AvgPool2d(kernel_size=2, stride=2)


class DenseNet(nn.Module):
    def __init__(self, growth_rate: int = 32, block_config: tuple[int, ...] = (6, 12, 24, 16),
                 num_init_features: int = 64, bn_size: int = 4, drop_rate: float = 0, num_classes: int = 1000) -> None:
        super().__init__()
        self.features = nn.Sequential()
        width = num_init_features
        for name, layer in (("conv0", nn.Conv2d(3, width, kernel_size=7, stride=2, padding=3, bias=False)),
                            ("norm0", nn.BatchNorm2d(width)), ("relu0", nn.ReLU(inplace=True)),
                            ("pool0", nn.MaxPool2d(kernel_size=3, stride=2, padding=1))):
            self.features.add_module(name, layer)
        for i, n in enumerate(block_config):
            self.features.add_module("denseblock%d" % (i + 1), _DenseBlock(n, width, bn_size, growth_rate, drop_rate))
            width += n * growth_rate
            if i + 1 < len(block_config):
                self.features.add_module("transition%d" % (i + 1), _Transition(width, width // 2))
                width //= 2
        self.features.add_module("norm5", nn.BatchNorm2d(width))
        self.classifier = nn.Linear(width, num_classes)
        _first_weights(self, lambda m: nn.init.zeros_(m.bias), "fan_in")

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.features(x), inplace=True)
        made: Tensor = self.classifier(_C.flatten(F.adaptive_avg_pool2d(x, (1, 1)), 1))
        return made


# ---- MobileNetV3 ----

class InvertedResidual(nn.Module):
    """Wide in the middle: channels by 1 x 1, a convolution of each, squeeze and excitation, back by 1 x 1."""

    def __init__(self, cnf: tuple[int, int, int, int, bool, bool, int], norm_layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        width, kernel, middle, out, excited, hard, stride = cnf
        self.use_res_connect = stride == 1 and width == out
        self.out_channels = out
        act = nn.Hardswish if hard else nn.ReLU
        layers: list[nn.Module] = []
        if middle != width:
            layers.append(Conv2dNormActivation(width, middle, 1, norm_layer=norm_layer, activation_layer=act))
        layers.append(Conv2dNormActivation(middle, middle, kernel, stride, groups=middle, norm_layer=norm_layer,
                                           activation_layer=act))
        if excited:
            layers.append(SqueezeExcitation(middle, _divisible(middle // 4), scale_activation=nn.Hardsigmoid))
        layers.append(Conv2dNormActivation(middle, out, 1, norm_layer=norm_layer, activation_layer=None))
        self.block = nn.Sequential(*layers)

    def forward(self, input: Tensor) -> Tensor:
        made: Tensor = self.block(input)
        return made + input if self.use_res_connect else made


# in, kernel, middle, out, squeeze and excitation, hard swish, stride
_V3_SMALL = ((16, 3, 16, 16, 1, 0, 2), (16, 3, 72, 24, 0, 0, 2), (24, 3, 88, 24, 0, 0, 1), (24, 5, 96, 40, 1, 1, 2),
             (40, 5, 240, 40, 1, 1, 1), (40, 5, 240, 40, 1, 1, 1), (40, 5, 120, 48, 1, 1, 1), (48, 5, 144, 48, 1, 1, 1),
             (48, 5, 288, 96, 1, 1, 2), (96, 5, 576, 96, 1, 1, 1), (96, 5, 576, 96, 1, 1, 1))
_V3_LARGE = ((16, 3, 16, 16, 0, 0, 1), (16, 3, 64, 24, 0, 0, 2), (24, 3, 72, 24, 0, 0, 1), (24, 5, 72, 40, 1, 0, 2),
             (40, 5, 120, 40, 1, 0, 1), (40, 5, 120, 40, 1, 0, 1), (40, 3, 240, 80, 0, 1, 2), (80, 3, 200, 80, 0, 1, 1),
             (80, 3, 184, 80, 0, 1, 1), (80, 3, 184, 80, 0, 1, 1), (80, 3, 480, 112, 1, 1, 1),
             (112, 3, 672, 112, 1, 1, 1), (112, 5, 672, 160, 1, 1, 2), (160, 5, 960, 160, 1, 1, 1),
             (160, 5, 960, 160, 1, 1, 1))


class MobileNetV3(nn.Module):
    def __init__(self, settings: tuple[Any, ...], last_channel: int, num_classes: int = 1000,
                 dropout: float = 0.2) -> None:
        super().__init__()
        norm = functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)
        out = settings[-1][3]
        layers: list[nn.Module] = [Conv2dNormActivation(3, settings[0][0], 3, 2, norm_layer=norm,
                                                        activation_layer=nn.Hardswish)]
        layers += [InvertedResidual(row, norm) for row in settings]
        layers.append(Conv2dNormActivation(out, 6 * out, 1, norm_layer=norm, activation_layer=nn.Hardswish))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Linear(6 * out, last_channel), nn.Hardswish(inplace=True),
                                        nn.Dropout(p=dropout, inplace=True), nn.Linear(last_channel, num_classes))
        _first_weights(self, _small)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.classifier(_C.flatten(self.avgpool(self.features(x)), 1))
        return made


# ---- EfficientNet ----

class MBConv(nn.Module):
    def __init__(self, width: int, out: int, widen: int, kernel: int, stride: int, drop: float,
                 norm_layer: Callable[..., nn.Module]) -> None:
        super().__init__()
        self.use_res_connect = stride == 1 and width == out
        self.out_channels = out
        middle = _divisible(width * widen)
        layers: list[nn.Module] = []
        if middle != width:
            layers.append(Conv2dNormActivation(width, middle, 1, norm_layer=norm_layer, activation_layer=nn.SiLU))
        layers.append(Conv2dNormActivation(middle, middle, kernel, stride, groups=middle, norm_layer=norm_layer,
                                           activation_layer=nn.SiLU))
        layers.append(SqueezeExcitation(middle, max(1, width // 4),
                                        activation=functools.partial(nn.SiLU, inplace=True)))
        layers.append(Conv2dNormActivation(middle, out, 1, norm_layer=norm_layer, activation_layer=None))
        self.block = nn.Sequential(*layers)
        self.stochastic_depth = StochasticDepth(drop, "row")

    def forward(self, input: Tensor) -> Tensor:
        made: Tensor = self.block(input)
        if self.use_res_connect:
            made = self.stochastic_depth(made)
            made += input
        return made


class EfficientNet(nn.Module):
    # widen, kernel, stride, in, out, blocks
    _STAGES = ((1, 3, 1, 32, 16, 1), (6, 3, 2, 16, 24, 2), (6, 5, 2, 24, 40, 2), (6, 3, 2, 40, 80, 3),
               (6, 5, 1, 80, 112, 3), (6, 5, 2, 112, 192, 4), (6, 3, 1, 192, 320, 1))

    def __init__(self, width_mult: float, depth_mult: float, dropout: float, stochastic_depth_prob: float = 0.2,
                 num_classes: int = 1000, norm_layer: Callable[..., nn.Module] = nn.BatchNorm2d) -> None:
        super().__init__()
        stages = [(widen, kernel, stride, _divisible(a * width_mult), _divisible(b * width_mult),
                   math.ceil(n * depth_mult)) for widen, kernel, stride, a, b, n in self._STAGES]
        total, done = sum(s[5] for s in stages), 0
        layers: list[nn.Module] = [Conv2dNormActivation(3, stages[0][3], 3, 2, norm_layer=norm_layer,
                                                        activation_layer=nn.SiLU)]
        for widen, kernel, stride, a, b, n in stages:
            blocks = []
            for i in range(n):
                blocks.append(MBConv(b if i else a, b, widen, kernel, 1 if i else stride,
                                     stochastic_depth_prob * done / total, norm_layer))
                done += 1
            layers.append(nn.Sequential(*blocks))
        last = 4 * stages[-1][4]
        layers.append(Conv2dNormActivation(stages[-1][4], last, 1, norm_layer=norm_layer, activation_layer=nn.SiLU))
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(nn.Dropout(p=dropout, inplace=True), nn.Linear(last, num_classes))

        def even(m: nn.Linear) -> None:
            nn.init.uniform_(m.weight, -1 / math.sqrt(m.out_features), 1 / math.sqrt(m.out_features))
            nn.init.zeros_(m.bias)

        _first_weights(self, even)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.classifier(_C.flatten(self.avgpool(self.features(x)), 1))
        return made


# ---- GoogLeNet ----

class GoogLeNetOutputs(NamedTuple):
    """What a GoogLeNet with helpers gives in training."""

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


class BasicConv2d(nn.Module):
    def __init__(self, in_channels: int, out_channels: int, **kwargs: Any) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, bias=False, **kwargs)
        self.bn = nn.BatchNorm2d(out_channels, eps=0.001)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.bn(self.conv(x)), inplace=True)


class Inception(nn.Module):
    def __init__(self, width: int, ch1x1: int, ch3x3red: int, ch3x3: int, ch5x5red: int, ch5x5: int,
                 pool_proj: int) -> None:
        super().__init__()
        self.branch1 = BasicConv2d(width, ch1x1, kernel_size=1)
        self.branch2 = nn.Sequential(BasicConv2d(width, ch3x3red, kernel_size=1),
                                     BasicConv2d(ch3x3red, ch3x3, kernel_size=3, padding=1))
        self.branch3 = nn.Sequential(BasicConv2d(width, ch5x5red, kernel_size=1),
                                     BasicConv2d(ch5x5red, ch5x5, kernel_size=3, padding=1))
        self.branch4 = nn.Sequential(nn.MaxPool2d(kernel_size=3, stride=1, padding=1, ceil_mode=True),
                                     BasicConv2d(width, pool_proj, kernel_size=1))

    def forward(self, x: Tensor) -> Tensor:
        return _C.cat([self.branch1(x), self.branch2(x), self.branch3(x), self.branch4(x)], 1)


class InceptionAux(nn.Module):
    """A classifier on the way, which helps training."""

    def __init__(self, width: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.conv = BasicConv2d(width, 128, kernel_size=1)
        self.fc1 = nn.Linear(2048, 1024)
        self.fc2 = nn.Linear(1024, num_classes)
        self.dropout = nn.Dropout(p=dropout)

    def forward(self, x: Tensor) -> Tensor:
        x = _C.flatten(self.conv(F.adaptive_avg_pool2d(x, (4, 4))), 1)
        made: Tensor = self.fc2(self.dropout(F.relu(self.fc1(x), inplace=True)))
        return made


class GoogLeNet(nn.Module):
    _BLOCKS = {"3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
               "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
               "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
               "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
               "5b": (832, 384, 192, 384, 48, 128, 128)}

    def __init__(self, num_classes: int = 1000, aux_logits: bool = True, transform_input: bool = False,
                 init_weights: bool | None = None, dropout: float = 0.2, dropout_aux: float = 0.7) -> None:
        super().__init__()
        self.aux_logits = aux_logits
        self.transform_input = transform_input
        self.conv1 = BasicConv2d(3, 64, kernel_size=7, stride=2, padding=3)
        self.maxpool1 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        self.conv2 = BasicConv2d(64, 64, kernel_size=1)
        self.conv3 = BasicConv2d(64, 192, kernel_size=3, padding=1)
        self.maxpool2 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
        for name, sizes in self._BLOCKS.items():
            self.add_module("inception" + name, Inception(*sizes))
            if name == "3b":
                self.maxpool3 = nn.MaxPool2d(3, stride=2, ceil_mode=True)
            elif name == "4e":
                self.maxpool4 = nn.MaxPool2d(2, stride=2, ceil_mode=True)
        self.aux1 = InceptionAux(512, num_classes, dropout_aux) if aux_logits else None
        self.aux2 = InceptionAux(528, num_classes, dropout_aux) if aux_logits else None
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.dropout = nn.Dropout(p=dropout)
        self.fc = nn.Linear(1024, num_classes)
        for m in self.modules() if init_weights or init_weights is None else ():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, mean=0.0, std=0.01, a=-2, b=2)

    def forward(self, x: Tensor) -> Any:
        if self.transform_input:  # from the mean and deviation of ImageNet to a half each
            scale = _C.tensor([0.229, 0.224, 0.225], device=x.device).view(3, 1, 1) / 0.5
            shift = (_C.tensor([0.485, 0.456, 0.406], device=x.device).view(3, 1, 1) - 0.5) / 0.5
            x = x * scale + shift
        helped = self.training and self.aux_logits
        aux: dict[str, Tensor] = {}
        x = self.maxpool2(self.conv3(self.conv2(self.maxpool1(self.conv1(x)))))
        for name in self._BLOCKS:
            helper = self.aux1 if name == "4b" else self.aux2 if name == "4e" else None
            if helped and helper is not None:
                aux[name] = helper(x)
            x = self.get_submodule("inception" + name)(x)
            if name in ("3b", "4e"):
                x = (self.maxpool3 if name == "3b" else self.maxpool4)(x)
        x = self.fc(self.dropout(_C.flatten(self.avgpool(x), 1)))
        return GoogLeNetOutputs(x, aux["4e"], aux["4b"]) if helped else x


# ---- ConvNeXt ----

class LayerNorm2d(nn.LayerNorm):
    """Over the channels of images (B, C, H, W)."""

    def forward(self, x: Tensor) -> Tensor:
        x = x.permute(0, 2, 3, 1)
        return F.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps).permute(0, 3, 1, 2)


class CNBlock(nn.Module):
    def __init__(self, dim: int, layer_scale: float, stochastic_depth_prob: float) -> None:
        super().__init__()
        self.block = nn.Sequential(nn.Conv2d(dim, dim, kernel_size=7, padding=3, groups=dim, bias=True),
                                   Permute([0, 2, 3, 1]), nn.LayerNorm(dim, eps=1e-6), nn.Linear(dim, 4 * dim),
                                   nn.GELU(), nn.Linear(4 * dim, dim), Permute([0, 3, 1, 2]))
        self.layer_scale = nn.Parameter(_C.full((dim, 1, 1), layer_scale))
        self.stochastic_depth = StochasticDepth(stochastic_depth_prob, "row")

    def forward(self, input: Tensor) -> Tensor:
        made: Tensor = self.stochastic_depth(self.layer_scale * self.block(input))
        return made + input


class ConvNeXt(nn.Module):
    def __init__(self, width: int, blocks: tuple[int, int, int, int], stochastic_depth_prob: float = 0.0,
                 layer_scale: float = 1e-6, num_classes: int = 1000) -> None:
        super().__init__()
        norm = functools.partial(LayerNorm2d, eps=1e-6)
        layers: list[nn.Module] = [Conv2dNormActivation(3, width, 4, 4, 0, norm_layer=norm, activation_layer=None,
                                                        bias=True)]
        done = 0
        for i, n in enumerate(blocks):
            stage = []
            for _ in range(n):
                stage.append(CNBlock(width, layer_scale, stochastic_depth_prob * done / (sum(blocks) - 1.0)))
                done += 1
            layers.append(nn.Sequential(*stage))
            if i < 3:
                layers.append(nn.Sequential(norm(width), nn.Conv2d(width, 2 * width, kernel_size=2, stride=2)))
                width *= 2
        self.features = nn.Sequential(*layers)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.classifier = nn.Sequential(norm(width), nn.Flatten(1), nn.Linear(width, num_classes))
        for m in self.modules():
            if isinstance(m, (nn.Conv2d, nn.Linear)):
                nn.init.trunc_normal_(m.weight, std=0.02)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.classifier(self.avgpool(self.features(x)))
        return made


# ---- by name ----

_NORM = functools.partial(nn.BatchNorm2d, eps=0.001, momentum=0.01)


def _efficient(width: float, depth: float, dropout: float, **settings: Any) -> EfficientNet:
    return EfficientNet(width, depth, settings.pop("dropout", dropout), **settings)


# name: what it is, and what makes it
MAKERS: dict[str, tuple[str, Callable[..., nn.Module]]] = {
    "squeezenet1_0": ("SqueezeNet 1.0", functools.partial(SqueezeNet, "1_0")),
    "squeezenet1_1": ("SqueezeNet 1.1", functools.partial(SqueezeNet, "1_1")),
    "densenet121": ("DenseNet with 121 layers", functools.partial(DenseNet, 32, (6, 12, 24, 16), 64)),
    "densenet161": ("DenseNet with 161 layers", functools.partial(DenseNet, 48, (6, 12, 36, 24), 96)),
    "densenet169": ("DenseNet with 169 layers", functools.partial(DenseNet, 32, (6, 12, 32, 32), 64)),
    "densenet201": ("DenseNet with 201 layers", functools.partial(DenseNet, 32, (6, 12, 48, 32), 64)),
    "mobilenet_v3_small": ("MobileNet v3, small", functools.partial(MobileNetV3, _V3_SMALL, 1024)),
    "mobilenet_v3_large": ("MobileNet v3, large", functools.partial(MobileNetV3, _V3_LARGE, 1280)),
    "googlenet": ("GoogLeNet", GoogLeNet),
    "convnext_tiny": ("ConvNeXt, tiny", functools.partial(ConvNeXt, 96, (3, 3, 9, 3), 0.1)),
    "convnext_small": ("ConvNeXt, small", functools.partial(ConvNeXt, 96, (3, 3, 27, 3), 0.4)),
    "convnext_base": ("ConvNeXt, base", functools.partial(ConvNeXt, 128, (3, 3, 27, 3), 0.5)),
    "convnext_large": ("ConvNeXt, large", functools.partial(ConvNeXt, 192, (3, 3, 27, 3), 0.5)),
}
for _i, (_w, _d, _p) in enumerate(((1.0, 1.0, 0.2), (1.0, 1.1, 0.2), (1.1, 1.2, 0.3), (1.2, 1.4, 0.3), (1.4, 1.8, 0.4),
                                   (1.6, 2.2, 0.4), (1.8, 2.6, 0.5), (2.0, 3.1, 0.5))):
    MAKERS["efficientnet_b%d" % _i] = ("EfficientNet B%d" % _i, functools.partial(
        _efficient, _w, _d, _p, **({"norm_layer": _NORM} if _i > 4 else {})))
