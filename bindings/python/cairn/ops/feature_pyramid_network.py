"""Feature maps of several sizes joined from the smallest up, with torchvision's names of parts and weights."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any, Callable, Sequence

from .. import nn
from .._tensor import Tensor
from ..nn import functional as _F
from .misc import Conv2dNormActivation

__all__ = ["ExtraFPNBlock", "FeaturePyramidNetwork", "LastLevelMaxPool", "LastLevelP6P7"]


class ExtraFPNBlock(nn.Module):
    """Makes more maps: from the joined ones, what they were made of, and their names."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        raise NotImplementedError("%s has no forward" % type(self).__name__)


class FeaturePyramidNetwork(nn.Module):
    """Each map brought to out_channels, the next smaller one added to it, and a convolution over the sum."""

    def __init__(self, in_channels_list: Sequence[int], out_channels: int, extra_blocks: ExtraFPNBlock | None = None,
                 norm_layer: Callable[..., nn.Module] | None = None) -> None:
        super().__init__()
        self.inner_blocks, self.layer_blocks = nn.ModuleList(), nn.ModuleList()
        for channels in in_channels_list:
            if channels == 0:
                raise ValueError("in_channels=0 is currently not supported")
            for blocks, width, size in ((self.inner_blocks, channels, 1), (self.layer_blocks, out_channels, 3)):
                blocks.append(Conv2dNormActivation(width, out_channels, size, norm_layer=norm_layer,
                                                   activation_layer=None))
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_uniform_(module.weight, a=1)
                if module.bias is not None:
                    nn.init.constant_(module.bias, 0)
        if extra_blocks is not None and not isinstance(extra_blocks, ExtraFPNBlock):
            raise TypeError("extra_blocks is an ExtraFPNBlock, not %s" % type(extra_blocks).__name__)
        self.extra_blocks = extra_blocks

    def forward(self, x: dict[str, Tensor]) -> dict[str, Tensor]:
        names, maps = list(x.keys()), list(x.values())
        joined: Any = None
        results: list[Tensor] = []
        for i in reversed(range(len(maps))):
            inner = self.inner_blocks[i](maps[i])
            joined = inner if joined is None else inner + _F.interpolate(joined, size=inner.shape[-2:], mode="nearest")
            results.insert(0, self.layer_blocks[i](joined))
        if self.extra_blocks is not None:
            results, names = self.extra_blocks(results, maps, names)
        return OrderedDict(zip(names, results))


class LastLevelMaxPool(ExtraFPNBlock):
    """One more map: every second number of the last."""

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]
                ) -> tuple[list[Tensor], list[str]]:  # unused: x (others make maps of it)
        return [*results, _F.max_pool2d(results[-1], 1, 2, 0)], [*names, "pool"]


class LastLevelP6P7(ExtraFPNBlock):
    """Two more maps, by convolutions of the last one."""

    def __init__(self, in_channels: int, out_channels: int) -> None:
        super().__init__()
        self.p6 = nn.Conv2d(in_channels, out_channels, 3, 2, 1)
        self.p7 = nn.Conv2d(out_channels, out_channels, 3, 2, 1)
        for module in (self.p6, self.p7):
            nn.init.kaiming_uniform_(module.weight, a=1)
            nn.init.constant_(module.bias, 0)
        self.use_P5 = in_channels == out_channels

    def forward(self, results: list[Tensor], x: list[Tensor], names: list[str]) -> tuple[list[Tensor], list[str]]:
        p6 = self.p6(results[-1] if self.use_P5 else x[-1])
        return [*results, p6, self.p7(_F.relu(p6))], [*names, "p6", "p7"]
