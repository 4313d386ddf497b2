"""VGG16 and VGG19: blocks of convolutions with windows of 3, each block half the size of the one before."""
from __future__ import annotations

from typing import Any

from .. import layers
from ._common import Net, usual

__all__ = ["VGG16", "VGG19"]


def _vgg(net: Net, many: tuple[int, ...], name: str) -> Any:
    x = net.input
    for block, n in enumerate(many, 1):
        for i in range(1, n + 1):
            x = layers.Conv2D(min(64 << (block - 1), 512), 3, activation="relu", padding="same",
                              name="block%d_conv%d" % (block, i))(x)
        x = layers.MaxPooling2D(2, strides=2, name="block%d_pool" % block)(x)

    def top(x: Any) -> Any:
        x = layers.Flatten(name="flatten")(x)
        for i in (1, 2):
            x = layers.Dense(4096, activation="relu", name="fc%d" % i)(x)
        return layers.Dense(net.classes, activation=net.activation, name="predictions")(x)
    return net.end(x, name, top)


def VGG16(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
          pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
          name: str = "vgg16") -> Any:
    net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 224, 32,
              usual % "vgg16")
    return _vgg(net, (2, 2, 3, 3, 3), name)


def VGG19(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
          pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
          name: str = "vgg19") -> Any:
    net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 224, 32,
              usual % "vgg19")
    return _vgg(net, (2, 2, 4, 4, 4), name)
