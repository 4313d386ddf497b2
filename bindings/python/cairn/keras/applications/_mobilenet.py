"""MobileNet and MobileNetV2: a window for each channel, then a mix of channels; alpha says how many."""
from __future__ import annotations

from typing import Any

from .. import layers
from ..backend import image_data_format
from ._common import Net, padding_for, usual

__all__ = ["MobileNet", "MobileNetV2"]


def _rounded(value: float, by: int = 8) -> int:
    made = max(by, int(value + by / 2) // by * by)
    return made + by if made < 0.9 * value else made


def _relu6(net: Net, x: Any, norm: str, relu: str | None, **options: Any) -> Any:
    x = layers.BatchNormalization(axis=net.axis if net.first else -1, name=norm, **options)(x)
    return x if relu is None else layers.ReLU(6.0, name=relu)(x)


def _kept(shape: Any) -> int:
    """The size of images that there is a file of weights for."""
    sides = (None, None) if shape is None else (shape[1:3] if image_data_format() == "channels_first" else shape[:2])
    return int(sides[0]) if sides[0] == sides[1] and sides[0] in (96, 128, 160, 192, 224) else 224


def MobileNet(input_shape: Any = None, alpha: float = 1.0, depth_multiplier: int = 1, dropout: float = 1e-3,
              include_top: bool = True, weights: Any = "imagenet", input_tensor: Any = None,
              pooling: str | None = None, classes: int = 1000, classifier_activation: Any = "softmax",
              name: str | None = None) -> Any:
    file = "mobilenet_%s_%d_tf" % ({1.0: "1_0", 0.75: "7_5", 0.5: "5_0"}.get(alpha, "2_5"), _kept(input_shape))
    net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 224, 32, file,
              "_no_top")
    x = layers.Conv2D(int(32 * alpha), 3, padding="same", use_bias=False, strides=2, name="conv1")(net.input)
    x = _relu6(net, x, "conv1_bn", "conv1_relu")
    steps = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2)] + [(512, 1)] * 5 + [(1024, 2), (1024, 1)]
    for i, (filters, stride) in enumerate(steps, 1):
        if stride == 2:
            x = layers.ZeroPadding2D(((0, 1), (0, 1)), name="conv_pad_%d" % i)(x)
        x = layers.DepthwiseConv2D(3, padding="same" if stride == 1 else "valid", depth_multiplier=depth_multiplier,
                                   strides=stride, use_bias=False, name="conv_dw_%d" % i)(x)
        x = _relu6(net, x, "conv_dw_%d_bn" % i, "conv_dw_%d_relu" % i)
        x = layers.Conv2D(int(filters * alpha), 1, padding="same", use_bias=False, name="conv_pw_%d" % i)(x)
        x = _relu6(net, x, "conv_pw_%d_bn" % i, "conv_pw_%d_relu" % i)

    def top(x: Any) -> Any:
        x = layers.GlobalAveragePooling2D(keepdims=True)(x)
        x = layers.Dropout(dropout, name="dropout")(x)
        x = layers.Conv2D(classes, 1, padding="same", name="conv_preds")(x)
        x = layers.Reshape((classes,), name="reshape_2")(x)
        return layers.Activation(classifier_activation, name="predictions")(x)
    return net.end(x, name or "mobilenet_%0.2f_%s" % (alpha, net.rows), top)


def MobileNetV2(input_shape: Any = None, alpha: float = 1.0, include_top: bool = True, weights: Any = "imagenet",
                input_tensor: Any = None, pooling: str | None = None, classes: int = 1000,
                classifier_activation: Any = "softmax", name: str | None = None) -> Any:
    file = "%s_%s_%d" % (usual % "mobilenet_v2", float(alpha), _kept(input_shape))
    net = Net(include_top, weights, input_tensor, input_shape, pooling, classes, classifier_activation, 224, 32, file,
              "_no_top")
    slow: dict[str, Any] = {"epsilon": 1e-3, "momentum": 0.999}
    x = layers.Conv2D(_rounded(32 * alpha), 3, strides=2, padding="same", use_bias=False, name="Conv1")(net.input)
    x = _relu6(net, x, "bn_Conv1", "Conv1_relu", **slow)
    steps = [(16, 1)] + [(24, 2), (24, 1)] + [(32, 2), (32, 1), (32, 1)] + [(64, 2)] + [(64, 1)] * 3 + \
        [(96, 1)] * 3 + [(160, 2), (160, 1), (160, 1)] + [(320, 1)]
    for i, (filters, stride) in enumerate(steps):
        into, out = x, _rounded(int(filters * alpha))
        label = "block_%d_" % i if i else "expanded_conv_"
        channels = int(x.shape[1 if net.first else -1])
        if i:
            x = layers.Conv2D(6 * channels, 1, padding="same", use_bias=False, name=label + "expand")(x)
            x = _relu6(net, x, label + "expand_BN", label + "expand_relu", **slow)
        if stride == 2:
            x = layers.ZeroPadding2D(padding_for(x, 3, net.first), name=label + "pad")(x)
        x = layers.DepthwiseConv2D(3, strides=stride, use_bias=False, padding="same" if stride == 1 else "valid",
                                   name=label + "depthwise")(x)
        x = _relu6(net, x, label + "depthwise_BN", label + "depthwise_relu", **slow)
        x = layers.Conv2D(out, 1, padding="same", use_bias=False, name=label + "project")(x)
        x = _relu6(net, x, label + "project_BN", None, **slow)
        if channels == out and stride == 1:
            x = layers.Add(name=label + "add")([into, x])
    x = layers.Conv2D(_rounded(1280 * alpha) if alpha > 1 else 1280, 1, use_bias=False, name="Conv_1")(x)
    x = _relu6(net, x, "Conv_1_bn", "out_relu", **slow)

    def top(x: Any) -> Any:
        x = layers.GlobalAveragePooling2D()(x)
        return layers.Dense(classes, activation=classifier_activation, name="predictions")(x)
    return net.end(x, name or "mobilenetv2_%0.2f_%s" % (alpha, net.rows), top)
