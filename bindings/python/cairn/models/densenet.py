"""DenseNet as a class to derive from, with torchvision's arguments and names of weights. cairn.models.densenet121() is
the zoo's network, which is C; both take the same weights."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Sequence

from .. import _C, nn
from .._tensor import Tensor
from ..nn import functional as _F
from ..utils.checkpoint import checkpoint

__all__ = ["DenseNet"]


class _DenseLayer(nn.Module):
    """Two convolutions of all that came before; memory_efficient computes the first again in the backward pass."""

    def __init__(self, num_input_features: int, growth_rate: int, bn_size: int, drop_rate: float,
                 memory_efficient: bool = False) -> None:
        super().__init__()
        middle = bn_size * growth_rate
        self.norm1, self.relu1 = nn.BatchNorm2d(num_input_features), nn.ReLU(inplace=True)
        self.conv1 = nn.Conv2d(num_input_features, middle, 1, bias=False)
        self.norm2, self.relu2 = nn.BatchNorm2d(middle), nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(middle, growth_rate, 3, padding=1, bias=False)
        self.drop_rate, self.memory_efficient = float(drop_rate), memory_efficient

    def bn_function(self, *inputs: Tensor) -> Tensor:
        made: Tensor = self.conv1(self.relu1(self.norm1(_C.cat(list(inputs), 1))))
        return made

    def forward(self, input: Tensor | Sequence[Tensor]) -> Tensor:
        given = [input] if isinstance(input, Tensor) else list(input)
        if self.memory_efficient and any(t.requires_grad for t in given):
            middle: Any = checkpoint(self.bn_function, *given, use_reentrant=False)
        else:
            middle = self.bn_function(*given)
        made: Tensor = self.conv2(self.relu2(self.norm2(middle)))
        return _F.dropout(made, p=self.drop_rate, training=self.training) if self.drop_rate > 0 else made


class _DenseBlock(nn.ModuleDict):
    """Layers each of which sees the results of all before it."""

    def __init__(self, num_layers: int, num_input_features: int, bn_size: int, growth_rate: int, drop_rate: float,
                 memory_efficient: bool = False) -> None:
        super().__init__()
        for i in range(num_layers):
            self.add_module("denselayer%d" % (i + 1), _DenseLayer(num_input_features + i * growth_rate, growth_rate,
                                                                  bn_size, drop_rate, memory_efficient))

    def forward(self, init_features: Tensor) -> Tensor:
        found = [init_features]
        for layer in self.values():
            found.append(layer(found))
        return _C.cat(found, 1)


class _Transition(nn.Sequential):
    """Half the channels and half the size."""

    def __init__(self, num_input_features: int, num_output_features: int) -> None:
        super().__init__(OrderedDict([("norm", nn.BatchNorm2d(num_input_features)), ("relu", nn.ReLU(inplace=True)),
                                      ("conv", nn.Conv2d(num_input_features, num_output_features, 1, bias=False)),
                                      ("pool", nn.AvgPool2d(2, 2))]))


class DenseNet(nn.Module):
    """Dense blocks with transitions between them, a mean over each channel, a linear layer."""

    def __init__(self, growth_rate: int = 32, block_config: Sequence[int] = (6, 12, 24, 16),
                 num_init_features: int = 64, bn_size: int = 4, drop_rate: float = 0, num_classes: int = 1000,
                 memory_efficient: bool = False) -> None:
        super().__init__()
        width = num_init_features
        parts: list[tuple[str, nn.Module]] = [
            ("conv0", nn.Conv2d(3, width, 7, 2, 3, bias=False)), ("norm0", nn.BatchNorm2d(width)),
            ("relu0", nn.ReLU(inplace=True)), ("pool0", nn.MaxPool2d(3, 2, 1))]
        for i, layers in enumerate(block_config, 1):
            parts.append(("denseblock%d" % i, _DenseBlock(layers, width, bn_size, growth_rate, drop_rate,
                                                          memory_efficient)))
            width += layers * growth_rate
            if i < len(block_config):
                parts.append(("transition%d" % i, _Transition(width, width // 2)))
                width //= 2
        parts.append(("norm5", nn.BatchNorm2d(width)))
        self.features = nn.Sequential(OrderedDict(parts))
        self.classifier = nn.Linear(width, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
        nn.init.constant_(self.classifier.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        seen = _F.relu(self.features(x), inplace=True)
        made: Tensor = self.classifier(_C.flatten(_F.adaptive_avg_pool2d(seen, (1, 1)), 1))
        return made
