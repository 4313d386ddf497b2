"""Pooling."""
import torch

from golden import Case, T

SHAPES = {1: (2, 2, 9), 2: (1, 2, 5, 6), 3: (1, 1, 4, 5, 4)}


def indices(*shape):
    """Places in rows of `shape` for unpooling, each named once."""
    count = torch.Size(shape).numel()
    g = torch.Generator().manual_seed(count)
    return lambda *out: torch.randperm(count, generator=g)[:torch.Size(out).numel()].reshape(1, 1, *out)


MAX = [Case("MaxPool%dd" % d, make, {"input": T(*SHAPES[d])}) for d in (1, 2, 3) for make in (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 2, "stride": 1, "dilation": 2, "return_indices": True},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True, "return_indices": True},
)] + [
    Case("MaxPool2d", {"kernel_size": [3, 2], "stride": [2, 1], "padding": [1, 0]}, {"input": T(2, 2, 6, 7)}),
    Case("MaxPool1d", {"kernel_size": 2}, {"input": T(3, 8)}),
    Case("MaxPool2d", {"kernel_size": 2}, {"input": T(2, 4, 4)}),
    Case("MaxPool3d", {"kernel_size": [1, 2, 2], "stride": [1, 2, 2]}, {"input": T(2, 2, 4, 4)}),
]

MEAN = [Case("AvgPool%dd" % d, make, {"input": T(*SHAPES[d])}) for d in (1, 2, 3) for make in (
    {"kernel_size": 2},
    {"kernel_size": 3, "stride": 2, "padding": 1},
    {"kernel_size": 3, "stride": 2, "padding": 1, "count_include_pad": False},
    {"kernel_size": 2, "stride": 3, "ceil_mode": True},
)] + [
    Case("AvgPool2d", {"kernel_size": [2, 3], "divisor_override": 5}, {"input": T(2, 4, 6)}),
    Case("AvgPool3d", {"kernel_size": 2, "divisor_override": 3}, {"input": T(1, 1, 4, 4, 2)}),
]

# Norms of odd order need positive elements.
NORMS = [Case("LPPool%dd" % d, {"norm_type": p, "kernel_size": 2, **make}, {"input": T(*SHAPES[d], low=0.1, high=2.0)})
         for d in (1, 2, 3) for p, make in ((2.0, {}), (3.0, {"stride": 1, "ceil_mode": True}), (1.0, {"stride": 2}))]

ADAPTIVE = [Case("AdaptiveAvgPool%dd" % d, {"output_size": 3}, {"input": T(*SHAPES[d])}) for d in (1, 2, 3)] + \
    [Case("AdaptiveMaxPool%dd" % d, make, {"input": T(*SHAPES[d])}) for d in (1, 2, 3)
     for make in ({"output_size": 3}, {"output_size": 2, "return_indices": True})] + [
    Case("AdaptiveAvgPool2d", {"output_size": [3, None]}, {"input": T(2, 5, 4)}),
    Case("AdaptiveAvgPool2d", {"output_size": [4, 1]}, {"input": T(1, 2, 3, 4)}),
    Case("AdaptiveAvgPool3d", {"output_size": [None, 2, 3]}, {"input": T(1, 1, 2, 3, 4)}),
    Case("AdaptiveMaxPool2d", {"output_size": [None, 2], "return_indices": True}, {"input": T(1, 2, 3, 4)}),
]

UNIT = {"low": 0.0, "high": 1.0}
FRACTIONAL = [
    Case("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 4, "return_indices": True,
                                 "_random_samples": T(2, 2, 2, **UNIT)}, {"input": T(2, 2, 7, 8)}, move=False),
    Case("FractionalMaxPool2d", {"kernel_size": [2, 3], "output_ratio": [0.5, 0.6],
                                 "_random_samples": T(1, 2, 2, **UNIT)}, {"input": T(2, 8, 8)}, move=False),
    Case("FractionalMaxPool3d", {"kernel_size": 2, "output_ratio": 0.5, "return_indices": True,
                                 "_random_samples": T(1, 2, 3, **UNIT)}, {"input": T(1, 2, 5, 6, 7)}, move=False),
    Case("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 3}, {"input": T(1, 1, 6, 6)}, random=True,
         modes=("train",)),  # PyTorch draws in eval mode too
]

UNPOOL = [
    Case("MaxUnpool1d", {"kernel_size": 2}, {"input": T(1, 1, 4), "indices": indices(8)(4)}),
    Case("MaxUnpool1d", {"kernel_size": 2, "stride": 3, "padding": 1}, {"input": T(1, 1, 4), "indices": indices(9)(4)}),
    Case("MaxUnpool1d", {"kernel_size": 2}, {"input": T(1, 1, 4), "indices": indices(9)(4), "output_size": [9]}),
    Case("MaxUnpool2d", {"kernel_size": 2}, {"input": T(1, 1, 2, 3), "indices": indices(4, 6)(2, 3)}),
    Case("MaxUnpool2d", {"kernel_size": [2, 2], "stride": [2, 3]},
         {"input": T(1, 1, 2, 2), "indices": indices(5, 5)(2, 2), "output_size": [1, 1, 5, 5]}),
    Case("MaxUnpool3d", {"kernel_size": 2}, {"input": T(1, 1, 2, 1, 2), "indices": indices(4, 2, 4)(2, 1, 2)}),
    Case("MaxUnpool2d", {"kernel_size": 2},
         {"input": T(1, 1, 2, 2), "indices": indices(4, 4)(2, 2), "output_size": [9, 9]}, error="call"),
]

ERRORS = [
    Case("FractionalMaxPool2d", {"kernel_size": 2}, {}, error="make"),
    Case("FractionalMaxPool2d", {"kernel_size": 2, "output_size": 3, "output_ratio": 0.5}, {}, error="make"),
    Case("FractionalMaxPool3d", {"kernel_size": 2, "output_ratio": 1.5}, {}, error="make"),
    Case("MaxPool2d", {"kernel_size": 3, "padding": 2}, {"input": T(1, 1, 6, 6)}, error="call"),
    Case("MaxPool2d", {"kernel_size": 3}, {"input": T(1, 1, 2, 2)}, error="call"),
    Case("MaxPool2d", {"kernel_size": 3}, {"input": T(4, 4)}, error="call"),
    Case("AvgPool2d", {"kernel_size": 2, "divisor_override": 0}, {"input": T(1, 4, 4)}, error="call"),
    Case("AdaptiveAvgPool2d", {"output_size": 3}, {"input": T(4, 4)}, error="call"),
]

CASES = MAX + MEAN + NORMS + ADAPTIVE + FRACTIONAL + UNPOOL + ERRORS
