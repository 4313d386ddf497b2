"""PyTorch's side of conv.c: convolutions and their two gradients, in both memory orders."""
from functools import partial

import torch
from torch.nn import functional as F
from torch_side import Case, fill, serve

# channels in, height and width, channels out, kernel, stride, groups
SHAPES = {"conv3x3": (64, 56, 64, 3, 1, 1), "conv1x1": (256, 28, 128, 1, 1, 1),
          "conv_depthwise": (128, 56, 128, 3, 1, 128), "conv_strided": (64, 56, 128, 3, 2, 1),
          "conv_first": (3, 224, 64, 7, 2, 1)}


def prepare(batch, channels, side, out, k, stride, groups):
    return [fill((batch, channels, side, side), 1, 1.0), fill((out, channels // groups, k, k), 2, 0.1),
            fill((batch, out, side // stride, side // stride), 3, 1.0)]


def forward(x, w, g, stride, padding, groups):
    return F.conv2d(x, w, stride=stride, padding=padding, groups=groups)


def gradient(which, x, w, g, stride, padding, groups):
    mask = [which == 0, which == 1, False]
    return torch.ops.aten.convolution_backward(g, x, w, None, [stride] * 2, [padding] * 2, [1, 1], False, [0, 0],
                                               groups, mask)[which]


def cases():
    for name, (channels, side, out, k, stride, groups) in SHAPES.items():
        for batch in (1, 8):
            flops = 2 * batch * out * (side // stride)**2 * channels // groups * k * k
            inputs = partial(prepare, batch, channels, side, out, k, stride, groups)
            for suffix, call in ("", forward), ("_gx", partial(gradient, 0)), ("_gw", partial(gradient, 1)):
                yield Case(f"{name}_b{batch}{suffix}", "flop", flops, inputs,
                           partial(call, stride=stride, padding=k // 2, groups=groups),
                           variants=("contiguous", "channels_last"))


if __name__ == "__main__":
    serve(list(cases()))
