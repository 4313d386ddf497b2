"""ResNet of 50, 101 and 152 layers, and the second kind of them, whose blocks begin with the norm."""
from __future__ import annotations

from typing import Any, Callable

from .. import layers
from ._common import Net, usual

__all__ = ["ResNet50", "ResNet101", "ResNet101V2", "ResNet152", "ResNet152V2", "ResNet50V2"]

_blocks = {50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}


def _norm(net: Net, x: Any, name: str, relu: str | None = None) -> Any:
    x = layers.BatchNormalization(axis=net.axis, epsilon=1.001e-5, name=name)(x)
    return x if relu is None else layers.Activation("relu", name=relu)(x)


def _first_kind(net: Net, x: Any, filters: int, stride: int, shortcut: bool, name: str) -> Any:
    other = x
    if shortcut:
        other = layers.Conv2D(4 * filters, 1, strides=stride, name=name + "_0_conv")(x)
        other = _norm(net, other, name + "_0_bn")
    x = layers.Conv2D(filters, 1, strides=stride, name=name + "_1_conv")(x)
    x = _norm(net, x, name + "_1_bn", name + "_1_relu")
    x = layers.Conv2D(filters, 3, padding="same", name=name + "_2_conv")(x)
    x = _norm(net, x, name + "_2_bn", name + "_2_relu")
    x = layers.Conv2D(4 * filters, 1, name=name + "_3_conv")(x)
    x = _norm(net, x, name + "_3_bn")
    x = layers.Add(name=name + "_add")([other, x])
    return layers.Activation("relu", name=name + "_out")(x)


def _second_kind(net: Net, x: Any, filters: int, stride: int, shortcut: bool, name: str) -> Any:
    before = _norm(net, x, name + "_preact_bn", name + "_preact_relu")
    if shortcut:
        other = layers.Conv2D(4 * filters, 1, strides=stride, name=name + "_0_conv")(before)
    else:
        other = layers.MaxPooling2D(1, strides=stride)(x) if stride > 1 else x
    x = layers.Conv2D(filters, 1, strides=1, use_bias=False, name=name + "_1_conv")(before)
    x = _norm(net, x, name + "_1_bn", name + "_1_relu")
    x = layers.ZeroPadding2D(padding=((1, 1), (1, 1)), name=name + "_2_pad")(x)
    x = layers.Conv2D(filters, 3, strides=stride, use_bias=False, name=name + "_2_conv")(x)
    x = _norm(net, x, name + "_2_bn", name + "_2_relu")
    x = layers.Conv2D(4 * filters, 1, name=name + "_3_conv")(x)
    return layers.Add(name=name + "_out")([other, x])


def _resnet(net: Net, size: int, second: bool, name: str) -> Any:
    x = layers.ZeroPadding2D(padding=((3, 3), (3, 3)), name="conv1_pad")(net.input)
    x = layers.Conv2D(64, 7, strides=2, name="conv1_conv")(x)
    if not second:
        x = _norm(net, x, "conv1_bn", "conv1_relu")
    x = layers.ZeroPadding2D(padding=((1, 1), (1, 1)), name="pool1_pad")(x)
    x = layers.MaxPooling2D(3, strides=2, name="pool1_pool")(x)
    for stage, n in enumerate(_blocks[size]):
        for i in range(1, n + 1):
            label = "conv%d_block%d" % (stage + 2, i)
            if second:  # the last block of a stage makes the step
                stride = 2 if i == n and stage < 3 else 1
                x = _second_kind(net, x, 64 << stage, stride, i == 1, label)
            else:
                x = _first_kind(net, x, 64 << stage, 2 if i == 1 and stage else 1, i == 1, label)
    if second:
        x = _norm(net, x, "post_bn", "post_relu")
    return net.end(x, name, names=("avg_pool", "max_pool"))


def _named(size: int, second: bool) -> Callable[..., Any]:
    title = "resnet%d%s" % (size, "v2" if second else "")

    def made(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
             name: str = title) -> Any:
        net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 224, 32,
                  usual % title)
        return _resnet(net, size, second, name)
    made.__name__ = made.__qualname__ = "ResNet%d%s" % (size, "V2" if second else "")
    return made


ResNet50, ResNet101, ResNet152 = (_named(n, False) for n in (50, 101, 152))
ResNet50V2, ResNet101V2, ResNet152V2 = (_named(n, True) for n in (50, 101, 152))
