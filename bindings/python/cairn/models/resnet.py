"""ResNet as classes to derive from, with torchvision's arguments and names of weights.

Place: backbones of segmentation and detection need norms and dilations of their choice, and programs put blocks of
their own into ResNet. cairn.models.resnet50() is the zoo's network, which is C; both take the same weights.
"""
from __future__ import annotations

from typing import Any, Callable, Sequence

from .. import _C, nn, zoo
from .._tensor import Tensor

__all__ = ["BasicBlock", "Bottleneck", "ResNet"]

_Norm = Callable[..., nn.Module]


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> nn.Conv2d:
    """A convolution over 3 x 3 places that keeps sizes, up to the stride."""
    return nn.Conv2d(in_planes, out_planes, 3, stride, dilation, dilation, groups, bias=False)


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> nn.Conv2d:
    """A linear layer for each place."""
    return nn.Conv2d(in_planes, out_planes, 1, stride, bias=False)


class BasicBlock(nn.Module):
    """Two convolutions, whose result is added to their input."""

    expansion: int = 1

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
                 groups: int = 1, base_width: int = 64, dilation: int = 1, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        if groups != 1 or base_width != 64:
            raise ValueError("BasicBlock only supports groups=1 and base_width=64")
        if dilation > 1:
            raise NotImplementedError("Dilation > 1 not supported in BasicBlock")
        norm = norm_layer or nn.BatchNorm2d
        self.conv1, self.bn1 = conv3x3(inplanes, planes, stride), norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2, self.bn2 = conv3x3(planes, planes), norm(planes)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += x if self.downsample is None else self.downsample(x)
        made: Tensor = self.relu(y)
        return made


class Bottleneck(nn.Module):
    """A convolution between two linear ones of each place, the first of which makes channels fewer."""

    expansion: int = 4

    def __init__(self, inplanes: int, planes: int, stride: int = 1, downsample: nn.Module | None = None,
                 groups: int = 1, base_width: int = 64, dilation: int = 1, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        norm = norm_layer or nn.BatchNorm2d
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1, self.bn1 = conv1x1(inplanes, width), norm(width)
        self.conv2, self.bn2 = conv3x3(width, width, stride, groups, dilation), norm(width)
        self.conv3, self.bn3 = conv1x1(width, planes * self.expansion), norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample, self.stride = downsample, stride

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        y += x if self.downsample is None else self.downsample(x)
        made: Tensor = self.relu(y)
        return made


class ResNet(nn.Module):
    """Four stages of blocks, a mean over each channel, a linear layer. replace_stride_with_dilation: for the last three
    stages, whether they look at places further apart instead of halving sizes."""

    def __init__(self, block: type[BasicBlock | Bottleneck], layers: Sequence[int], num_classes: int = 1000,
                 zero_init_residual: bool = False, groups: int = 1, width_per_group: int = 64,
                 replace_stride_with_dilation: Sequence[bool] | None = None, norm_layer: _Norm | None = None) -> None:
        super().__init__()
        dilate = [False] * 3 if replace_stride_with_dilation is None else list(replace_stride_with_dilation)
        if len(dilate) != 3:
            raise ValueError("replace_stride_with_dilation should be None or a 3-element tuple, got %s" % (dilate,))
        self._norm_layer = norm_layer or nn.BatchNorm2d
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        self.conv1 = nn.Conv2d(3, self.inplanes, 7, 2, 3, bias=False)
        self.bn1 = self._norm_layer(self.inplanes)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilate[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilate[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilate[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        self._draw(zero_init_residual)

    def _draw(self, zero_init_residual: bool) -> None:
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, (nn.BatchNorm2d, nn.GroupNorm)):
                nn.init.constant_(m.weight, 1)
                nn.init.constant_(m.bias, 0)
        for m in self.modules() if zero_init_residual else ():
            last = m.bn3 if isinstance(m, Bottleneck) else m.bn2 if isinstance(m, BasicBlock) else None
            if last is not None and last.weight is not None:
                nn.init.constant_(last.weight, 0)

    def _make_layer(self, block: type[BasicBlock | Bottleneck], planes: int, blocks: int, stride: int = 1,
                    dilate: bool = False) -> nn.Sequential:
        norm, before, downsample = self._norm_layer, self.dilation, None
        if dilate:
            self.dilation *= stride
            stride = 1
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(conv1x1(self.inplanes, planes * block.expansion, stride),
                                       norm(planes * block.expansion))
        made = [block(self.inplanes, planes, stride, downsample, self.groups, self.base_width, before, norm)]
        self.inplanes = planes * block.expansion
        for _ in range(1, blocks):
            made.append(block(self.inplanes, planes, groups=self.groups, base_width=self.base_width,
                              dilation=self.dilation, norm_layer=norm))
        return nn.Sequential(*made)

    def _forward_impl(self, x: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        made: Tensor = self.fc(_C.flatten(self.avgpool(x), 1))
        return made

    def forward(self, x: Tensor) -> Tensor:
        return self._forward_impl(x)


_PLANS: dict[str, tuple[type[BasicBlock | Bottleneck], list[int], dict[str, int]]] = {
    "resnet18": (BasicBlock, [2, 2, 2, 2], {}), "resnet34": (BasicBlock, [3, 4, 6, 3], {}),
    "resnet50": (Bottleneck, [3, 4, 6, 3], {}), "resnet101": (Bottleneck, [3, 4, 23, 3], {}),
    "resnet152": (Bottleneck, [3, 8, 36, 3], {}),
    "resnext50_32x4d": (Bottleneck, [3, 4, 6, 3], {"groups": 32, "width_per_group": 4}),
    "resnext101_32x8d": (Bottleneck, [3, 4, 23, 3], {"groups": 32, "width_per_group": 8}),
    "resnext101_64x4d": (Bottleneck, [3, 4, 23, 3], {"groups": 64, "width_per_group": 4}),
    "wide_resnet50_2": (Bottleneck, [3, 4, 6, 3], {"width_per_group": 128}),
    "wide_resnet101_2": (Bottleneck, [3, 4, 23, 3], {"width_per_group": 128})}


def build(name: str, weights: Any = None, **settings: Any) -> ResNet:
    """A ResNet of these classes by its name, with the weights that the zoo has for it."""
    if name not in _PLANS:
        raise ValueError("there is no ResNet %r; there are %s" % (name, ", ".join(_PLANS)))
    block, layers, own = _PLANS[name]
    made = ResNet(block, layers, **{**own, **settings})
    if weights is not None:
        made.load_state_dict(zoo.get_model(name, weights=weights).state_dict())
    return made


def __getattr__(name: str) -> Any:
    """resnet18 and the others: functions that make these classes."""
    if name in _PLANS:
        def make(*, weights: Any = None, progress: bool = True, **settings: Any) -> ResNet:  # unused: progress (quiet)
            return build(name, weights, **settings)
        make.__name__ = make.__qualname__ = name
        globals()[name] = make
        return make
    if name.endswith("_Weights"):
        return getattr(zoo, name)
    raise AttributeError("module 'cairn.models.resnet' has no attribute %r" % (name,))
