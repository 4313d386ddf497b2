"""Xception: separable convolutions with shortcuts."""
from __future__ import annotations

from typing import Any

from .. import layers
from ._common import Net, usual

__all__ = ["Xception"]


def Xception(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
             name: str = "xception") -> Any:
    net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 299, 71,
              usual % "xception")
    axis = 1 if net.first else -1

    def norm(x: Any, label: str | None = None) -> Any:
        return layers.BatchNormalization(axis=axis, name=label)(x)

    def separable(x: Any, filters: int, label: str) -> Any:
        x = layers.SeparableConv2D(filters, 3, padding="same", use_bias=False, name=label)(x)
        return norm(x, label + "_bn")

    def relu(x: Any, label: str) -> Any:
        return layers.Activation("relu", name=label + "_act")(x)

    def halved(x: Any, block: int, filters: tuple[int, int]) -> Any:
        """A block that makes the images smaller, with a shortcut that does too."""
        other = layers.Conv2D(filters[1], 1, strides=2, padding="same", use_bias=False)(x)
        other = norm(other)
        for i, n in enumerate(filters, 1):
            label = "block%d_sepconv%d" % (block, i)
            if block > 2 or i > 1:
                x = relu(x, label)
            x = separable(x, n, label)
        x = layers.MaxPooling2D(3, strides=2, padding="same", name="block%d_pool" % block)(x)
        return layers.add([x, other])

    x = layers.Conv2D(32, 3, strides=2, use_bias=False, name="block1_conv1")(net.input)
    x = relu(norm(x, "block1_conv1_bn"), "block1_conv1")
    x = layers.Conv2D(64, 3, use_bias=False, name="block1_conv2")(x)
    x = relu(norm(x, "block1_conv2_bn"), "block1_conv2")
    for block, n in ((2, 128), (3, 256), (4, 728)):
        x = halved(x, block, (n, n))
    for block in range(5, 13):
        other = x
        for i in (1, 2, 3):
            label = "block%d_sepconv%d" % (block, i)
            x = separable(relu(x, label), 728, label)
        x = layers.add([x, other])
    x = halved(x, 13, (728, 1024))
    for i, n in ((1, 1536), (2, 2048)):
        label = "block14_sepconv%d" % i
        x = relu(separable(x, n, label), label)
    return net.end(x, name)
