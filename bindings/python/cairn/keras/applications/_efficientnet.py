"""EfficientNet B0 to B7: blocks as MobileNetV2's with a gate for channels, wider and deeper from B0 to B7."""
from __future__ import annotations

import math
from typing import Any, Callable

from .. import layers
from ..initializers import VarianceScaling
from ._common import Net, padding_for

__all__ = ["EfficientNetB0", "EfficientNetB1", "EfficientNetB2", "EfficientNetB3", "EfficientNetB4", "EfficientNetB5",
           "EfficientNetB6", "EfficientNetB7"]

# window, blocks, channels in and out, how many times wider inside, step
_stages = ((3, 1, 32, 16, 1, 1), (3, 2, 16, 24, 6, 2), (5, 2, 24, 40, 6, 2), (3, 3, 40, 80, 6, 2),
           (5, 3, 80, 112, 6, 1), (5, 4, 112, 192, 6, 2), (3, 1, 192, 320, 6, 1))


def _first() -> Any:
    return VarianceScaling(2.0, "fan_out", "truncated_normal")


def _block(net: Net, x: Any, label: str, drop: float, kernel: int, into: int, out: int, wider: int, stride: int) -> Any:
    def norm(x: Any, name: str, activation: str | None) -> Any:
        x = layers.BatchNormalization(axis=net.axis, name=label + name)(x)
        return x if activation is None else layers.Activation("swish", name=label + activation)(x)
    before, filters = x, into * wider
    if wider != 1:
        x = layers.Conv2D(filters, 1, padding="same", use_bias=False, kernel_initializer=_first(),
                          name=label + "expand_conv")(x)
        x = norm(x, "expand_bn", "expand_activation")
    if stride == 2:
        x = layers.ZeroPadding2D(padding_for(x, kernel, net.first), name=label + "dwconv_pad")(x)
    x = layers.DepthwiseConv2D(kernel, strides=stride, padding="valid" if stride == 2 else "same", use_bias=False,
                               depthwise_initializer=_first(), name=label + "dwconv")(x)
    x = norm(x, "bn", "activation")
    gate = layers.GlobalAveragePooling2D(name=label + "se_squeeze")(x)
    gate = layers.Reshape((filters, 1, 1) if net.first else (1, 1, filters), name=label + "se_reshape")(gate)
    gate = layers.Conv2D(max(1, int(into * 0.25)), 1, padding="same", activation="swish", kernel_initializer=_first(),
                         name=label + "se_reduce")(gate)
    gate = layers.Conv2D(filters, 1, padding="same", activation="sigmoid", kernel_initializer=_first(),
                         name=label + "se_expand")(gate)
    x = layers.multiply([x, gate], name=label + "se_excite")
    x = layers.Conv2D(out, 1, padding="same", use_bias=False, kernel_initializer=_first(),
                      name=label + "project_conv")(x)
    x = norm(x, "project_bn", None)
    if stride == 1 and into == out:
        if drop > 0:
            x = layers.Dropout(drop, noise_shape=(None, 1, 1, 1), name=label + "drop")(x)
        x = layers.add([x, before], name=label + "add")
    return x


def _efficientnet(net: Net, width: float, depth: float, dropout: float, name: str) -> Any:
    def channels(n: int) -> int:
        wanted = n * width
        made = max(8, int(wanted + 4) // 8 * 8)
        return made + 8 if made < 0.9 * wanted else made
    x = layers.Rescaling(1.0 / 255.0)(net.input)
    x = layers.Normalization(axis=net.axis)(x)
    if net.imagenet:  # as the weights in the files were trained
        x = layers.Rescaling([1.0 / math.sqrt(v) for v in (0.229, 0.224, 0.225)])(x)
    x = layers.ZeroPadding2D(padding_for(x, 3, net.first), name="stem_conv_pad")(x)
    x = layers.Conv2D(channels(32), 3, strides=2, use_bias=False, kernel_initializer=_first(), name="stem_conv")(x)
    x = layers.BatchNormalization(axis=net.axis, name="stem_bn")(x)
    x = layers.Activation("swish", name="stem_activation")(x)
    many = sum(math.ceil(depth * stage[1]) for stage in _stages)
    at = 0
    for i, (kernel, blocks, into, out, wider, stride) in enumerate(_stages, 1):
        for j in range(math.ceil(depth * blocks)):
            x = _block(net, x, "block%d%s_" % (i, chr(97 + j)), 0.2 * at / many, kernel,
                       channels(out if j else into), channels(out), wider, 1 if j else stride)
            at += 1
    x = layers.Conv2D(channels(1280), 1, padding="same", use_bias=False, kernel_initializer=_first(),
                      name="top_conv")(x)
    x = layers.BatchNormalization(axis=net.axis, name="top_bn")(x)
    x = layers.Activation("swish", name="top_activation")(x)

    def top(x: Any) -> Any:
        x = layers.GlobalAveragePooling2D(name="avg_pool")(x)
        x = layers.Dropout(dropout, name="top_dropout")(x)
        return layers.Dense(net.classes, activation=net.activation, name="predictions",
                            kernel_initializer=VarianceScaling(1.0 / 3.0, "fan_out", "uniform"))(x)
    return net.end(x, name, top, ("avg_pool", "max_pool"))


def _named(number: int, width: float, depth: float, size: int, dropout: float) -> Callable[..., Any]:
    title = "efficientnetb%d" % number

    def made(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
             pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
             name: str = title) -> Any:
        net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, size, 32,
                  title)
        return _efficientnet(net, width, depth, dropout, name)
    made.__name__ = made.__qualname__ = "EfficientNetB%d" % number
    return made


EfficientNetB0 = _named(0, 1.0, 1.0, 224, 0.2)
EfficientNetB1 = _named(1, 1.0, 1.1, 240, 0.2)
EfficientNetB2 = _named(2, 1.1, 1.2, 260, 0.3)
EfficientNetB3 = _named(3, 1.2, 1.4, 300, 0.3)
EfficientNetB4 = _named(4, 1.4, 1.8, 380, 0.4)
EfficientNetB5 = _named(5, 1.6, 2.2, 456, 0.4)
EfficientNetB6 = _named(6, 1.8, 2.6, 528, 0.5)
EfficientNetB7 = _named(7, 2.0, 3.1, 600, 0.5)
