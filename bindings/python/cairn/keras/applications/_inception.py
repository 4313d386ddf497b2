"""InceptionV3: convolutions of several windows side by side."""
from __future__ import annotations

from typing import Any

from .. import layers
from ._common import Net, usual

__all__ = ["InceptionV3"]


def InceptionV3(include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None, input_shape: Any = None,
                pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
                name: str = "inception_v3") -> Any:
    net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 299, 75,
              usual % "inception_v3")

    def conv(x: Any, filters: int, rows: int, columns: int, padding: str = "same", strides: int = 1) -> Any:
        x = layers.Conv2D(filters, (rows, columns), strides=strides, padding=padding, use_bias=False)(x)
        x = layers.BatchNormalization(axis=net.axis, scale=False)(x)
        return layers.Activation("relu")(x)

    def chain(x: Any, *steps: tuple[int, int, int]) -> Any:
        for step in steps:
            x = conv(x, *step)
        return x

    def mean(x: Any, filters: int) -> Any:
        return conv(layers.AveragePooling2D(3, strides=1, padding="same")(x), filters, 1, 1)

    def joined(parts: list[Any], label: str | None = None) -> Any:
        return layers.concatenate(parts, axis=net.axis, name=label)

    x = conv(net.input, 32, 3, 3, "valid", 2)
    x = conv(x, 32, 3, 3, "valid")
    x = conv(x, 64, 3, 3)
    x = layers.MaxPooling2D(3, strides=2)(x)
    x = conv(x, 80, 1, 1, "valid")
    x = conv(x, 192, 3, 3, "valid")
    x = layers.MaxPooling2D(3, strides=2)(x)
    for i, last in enumerate((32, 64, 64)):
        x = joined([conv(x, 64, 1, 1), chain(x, (48, 1, 1), (64, 5, 5)), chain(x, (64, 1, 1), (96, 3, 3), (96, 3, 3)),
                    mean(x, last)], "mixed%d" % i)
    straight = conv(x, 384, 3, 3, "valid", 2)
    double = conv(chain(x, (64, 1, 1), (96, 3, 3)), 96, 3, 3, "valid", 2)
    x = joined([straight, double, layers.MaxPooling2D(3, strides=2)(x)], "mixed3")
    for i, n in enumerate((128, 160, 160, 192), 4):
        x = joined([conv(x, 192, 1, 1), chain(x, (n, 1, 1), (n, 1, 7), (192, 7, 1)),
                    chain(x, (n, 1, 1), (n, 7, 1), (n, 1, 7), (n, 7, 1), (192, 1, 7)), mean(x, 192)], "mixed%d" % i)
    straight = conv(conv(x, 192, 1, 1), 320, 3, 3, "valid", 2)
    long = conv(chain(x, (192, 1, 1), (192, 1, 7), (192, 7, 1)), 192, 3, 3, "valid", 2)
    x = joined([straight, long, layers.MaxPooling2D(3, strides=2)(x)], "mixed8")
    for i in range(2):
        one, part = conv(x, 320, 1, 1), conv(x, 384, 1, 1)
        part = joined([conv(part, 384, 1, 3), conv(part, 384, 3, 1)], "mixed9_%d" % i)
        double = chain(x, (448, 1, 1), (384, 3, 3))
        double = joined([conv(double, 384, 1, 3), conv(double, 384, 3, 1)])
        x = joined([one, part, double, mean(x, 192)], "mixed%d" % (9 + i))
    return net.end(x, name)
