"""VGG as a class to derive from, with torchvision's arguments and names of weights. cairn.models.vgg16() is the zoo's
network, which is C; both take the same weights."""
from __future__ import annotations

from typing import Sequence

from .. import _C, nn
from .._tensor import Tensor

__all__ = ["VGG"]


class VGG(nn.Module):
    """Convolutions and pools (make_layers makes them), then three linear layers."""

    def __init__(self, features: nn.Module, num_classes: int = 1000, init_weights: bool = True,
                 dropout: float = 0.5) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(nn.Linear(512 * 7 * 7, 4096), nn.ReLU(True), nn.Dropout(p=dropout),
                                        nn.Linear(4096, 4096), nn.ReLU(True), nn.Dropout(p=dropout),
                                        nn.Linear(4096, num_classes))
        for m in self.modules() if init_weights else ():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(m, nn.Linear):
                nn.init.normal_(m.weight, 0, 0.01)
            if isinstance(m, (nn.Conv2d, nn.Linear)) and m.bias is not None:
                nn.init.constant_(m.bias, 0)

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.classifier(_C.flatten(self.avgpool(self.features(x)), 1))
        return made


def make_layers(cfg: Sequence[str | int], batch_norm: bool = False) -> nn.Sequential:
    """A convolution for each number, its channels, and a pool for each "M"."""
    layers: list[nn.Module] = []
    width = 3
    for step in cfg:
        if isinstance(step, str):
            layers.append(nn.MaxPool2d(2, 2))
            continue
        layers.append(nn.Conv2d(width, step, 3, padding=1))
        layers += [nn.BatchNorm2d(step)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
        width = step
    return nn.Sequential(*layers)
