"""Classes for those parts of the zoo's networks that in torchvision derive from other classes, so that programs find
them with isinstance, take them by number or by name, and get torchvision's named results.

Place: behind nn.Module._class_for, which makes a class for every other name of C. What the parts compute is C's.
"""
from __future__ import annotations

from typing import Any, NamedTuple

from . import _C, nn, ops
from ._tensor import Tensor
from .nn.module import _Made

__all__ = ["CLASSES", "GoogLeNetOutputs"]


class Conv2dNormActivation(_Made, ops.Conv2dNormActivation):
    """A convolution, a norm and an activation."""


class SqueezeExcitation(_Made, ops.SqueezeExcitation):
    """Each channel times a number that is computed from the means of all."""


class StochasticDepth(_Made, ops.StochasticDepth):
    """Whole samples left out in training."""


class Permute(_Made, ops.Permute):
    """The dimensions in another order."""


class MLPBlock(_Made, ops.MLP):
    """The linear layers of a vision transformer's layer."""


class LayerNorm2d(_Made, nn.LayerNorm):
    """A norm over the channels of images."""


class _Transition(_Made, nn.Sequential):
    """What stands between two dense blocks."""


class _DenseBlock(_Made, nn.ModuleDict):
    """Layers each of which sees the results of all before it."""


class GoogLeNetOutputs(NamedTuple):
    """What a GoogLeNet with classifiers on the way gives in training."""

    logits: Tensor
    aux_logits2: Tensor | None
    aux_logits1: Tensor | None


class GoogLeNet(_Made):
    """GoogLeNet; its classifiers on the way are None where it was made without them."""

    _own_forward = False
    aux1: Any = None
    aux2: Any = None

    def forward(self, x: Tensor) -> Any:
        made = _C.ModuleBase.forward(self, x)
        return GoogLeNetOutputs(*made) if isinstance(made, tuple) else made


CLASSES: dict[str, type[nn.Module]] = {
    cls.__name__: cls for cls in (Conv2dNormActivation, SqueezeExcitation, StochasticDepth, Permute, MLPBlock,
                                  LayerNorm2d, _Transition, _DenseBlock, GoogLeNet)}
for _cls in CLASSES.values():
    _cls.__module__ = "cairn.nn"
