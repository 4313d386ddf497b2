"""A network's parts up to some layers, with what those give. torchvision.models._utils' names."""
from __future__ import annotations

from collections import OrderedDict
from typing import Any

from .. import nn
from .._tensor import Tensor

__all__ = ["IntermediateLayerGetter"]


class IntermediateLayerGetter(nn.ModuleDict):
    """Runs the children of a network one after the other, up to the last one named in return_layers, whose values are
    the names of the results."""

    def __init__(self, model: nn.Module, return_layers: dict[str, str]) -> None:
        children = OrderedDict(model.named_children())
        wanted = {str(k): str(v) for k, v in return_layers.items()}
        if not set(wanted) <= set(children):
            raise ValueError("return_layers are not present in model")
        last = max(list(children).index(name) for name in wanted)
        super().__init__(OrderedDict(list(children.items())[:last + 1]))
        self.return_layers = wanted

    def forward(self, x: Tensor) -> Any:
        found: dict[str, Tensor] = OrderedDict()
        for name, module in self.items():
            x = module(x)
            if name in self.return_layers:
                found[self.return_layers[name]] = x
        return found
