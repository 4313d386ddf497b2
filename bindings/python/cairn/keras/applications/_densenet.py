"""DenseNet of 121, 169 and 201 layers: each block of a stage sees all before it."""
from __future__ import annotations

from typing import Any, Callable

from .. import layers
from ._common import Net, usual

__all__ = ["DenseNet121", "DenseNet169", "DenseNet201"]


def _norm(net: Net, x: Any, name: str, relu: str) -> Any:
    x = layers.BatchNormalization(axis=net.axis, epsilon=1.001e-5, name=name)(x)
    return layers.Activation("relu", name=relu)(x)


def _densenet(net: Net, blocks: tuple[int, ...], name: str) -> Any:
    x = layers.ZeroPadding2D(padding=((3, 3), (3, 3)))(net.input)
    x = layers.Conv2D(64, 7, strides=2, use_bias=False, name="conv1_conv")(x)
    x = _norm(net, x, "conv1_bn", "conv1_relu")
    x = layers.ZeroPadding2D(padding=((1, 1), (1, 1)))(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1")(x)
    for stage, n in enumerate(blocks, 2):
        for i in range(1, n + 1):
            label = "conv%d_block%d" % (stage, i)
            y = _norm(net, x, label + "_0_bn", label + "_0_relu")
            y = layers.Conv2D(128, 1, use_bias=False, name=label + "_1_conv")(y)
            y = _norm(net, y, label + "_1_bn", label + "_1_relu")
            y = layers.Conv2D(32, 3, padding="same", use_bias=False, name=label + "_2_conv")(y)
            x = layers.Concatenate(axis=net.axis, name=label + "_concat")([x, y])
        if stage < 5:
            label = "pool%d" % stage
            x = _norm(net, x, label + "_bn", label + "_relu")
            x = layers.Conv2D(int(x.shape[net.axis] * 0.5), 1, use_bias=False, name=label + "_conv")(x)
            x = layers.AveragePooling2D(2, strides=2, name=label + "_pool")(x)
    return net.end(_norm(net, x, "bn", "relu"), name, names=("avg_pool", "max_pool"))


def _named(size: int, blocks: tuple[int, ...]) -> Callable[..., Any]:
    title = "densenet%d" % size

    def made(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
             name: str = title) -> Any:
        net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 224, 32,
                  usual % title)
        return _densenet(net, blocks, name)
    made.__name__ = made.__qualname__ = "DenseNet%d" % size
    return made


DenseNet121 = _named(121, (6, 12, 24, 16))
DenseNet169 = _named(169, (6, 12, 32, 32))
DenseNet201 = _named(201, (6, 12, 48, 32))
