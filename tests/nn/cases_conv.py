"""Convolutions and transposed convolutions."""
import torch

from golden import Case, T


def conv(cls, channels, make, *shape, **more):
    return Case(cls, {"in_channels": channels[0], "out_channels": channels[1], **make}, {"input": T(*shape)}, **more)


PLAIN = [
    conv("Conv1d", (2, 3), {"kernel_size": 3}, 2, 2, 7, work=True),
    conv("Conv1d", (2, 3), {"kernel_size": 3}, 2, 7),
    conv("Conv1d", (4, 6), {"kernel_size": 2, "stride": 2, "padding": 1, "dilation": 2, "groups": 2, "bias": False},
         2, 4, 9, work=True),
    conv("Conv1d", (2, 3), {"kernel_size": 4, "padding": "same", "dilation": 2}, 1, 2, 8, work=True),
    conv("Conv1d", (2, 3), {"kernel_size": 4, "padding": "valid", "stride": 3}, 1, 2, 8),
    conv("Conv2d", (3, 4), {"kernel_size": 3}, 2, 3, 5, 6, work=True),
    conv("Conv2d", (3, 4), {"kernel_size": 3}, 3, 5, 6, work=True),
    conv("Conv2d", (2, 4), {"kernel_size": [3, 2], "stride": [2, 1], "padding": [1, 2], "dilation": [1, 2],
                            "groups": 2}, 2, 2, 6, 5, work=True),
    conv("Conv2d", (2, 2), {"kernel_size": 1, "bias": False}, 2, 2, 3, 3, work=True),
    conv("Conv2d", (3, 6), {"kernel_size": 3, "groups": 3, "padding": 1, "stride": 2}, 1, 3, 7, 7, work=True),
    conv("Conv2d", (2, 3), {"kernel_size": [4, 3], "padding": "same"}, 1, 2, 5, 5),
    conv("Conv2d", (2, 3), {"kernel_size": 3, "padding": "valid"}, 1, 2, 5, 5),
    conv("Conv3d", (2, 3), {"kernel_size": 2}, 2, 2, 3, 4, 3, work=True),
    conv("Conv3d", (2, 3), {"kernel_size": 2}, 2, 3, 4, 3),
    conv("Conv3d", (2, 4), {"kernel_size": [1, 3, 2], "stride": [1, 2, 1], "padding": [0, 1, 1], "dilation": [1, 1, 2],
                            "groups": 2, "bias": False}, 1, 2, 3, 5, 4, work=True),
    conv("Conv3d", (1, 2), {"kernel_size": [2, 3, 1], "padding": "same"}, 1, 1, 3, 4, 3),
]

BORDERS = [conv(cls, (2, 3), {"kernel_size": 3, "padding": padding, "padding_mode": mode}, 1, 2, *shape)
           for mode in ("reflect", "replicate", "circular")
           for cls, padding, shape in (("Conv1d", 2, (6,)), ("Conv2d", [1, 2], (4, 5)), ("Conv2d", "same", (4, 4)),
                                       ("Conv3d", 1, (3, 3, 2)))]

TRANSPOSED = [
    conv("ConvTranspose1d", (2, 3), {"kernel_size": 3}, 2, 2, 5, work=True),
    conv("ConvTranspose1d", (4, 2), {"kernel_size": 3, "stride": 3, "padding": 1, "output_padding": 2, "groups": 2,
                                     "bias": False, "dilation": 2}, 1, 4, 5, work=True),
    conv("ConvTranspose1d", (2, 3), {"kernel_size": 3, "stride": 2}, 2, 5),
    conv("ConvTranspose2d", (3, 2), {"kernel_size": 3}, 2, 3, 4, 3, work=True),
    conv("ConvTranspose2d", (2, 4), {"kernel_size": [3, 2], "stride": [2, 3], "padding": [1, 0],
                                     "output_padding": [1, 2], "groups": 2, "dilation": [1, 2]}, 1, 2, 3, 3, work=True),
    conv("ConvTranspose2d", (3, 2), {"kernel_size": 2, "stride": 2}, 3, 4, 3),
    conv("ConvTranspose3d", (2, 2), {"kernel_size": 2}, 1, 2, 2, 3, 2, work=True),
    conv("ConvTranspose3d", (2, 2), {"kernel_size": 2, "stride": [1, 2, 2], "padding": 1, "output_padding": [0, 1, 1],
                                     "bias": False}, 1, 2, 3, 3, 3),
    Case("ConvTranspose1d", {"in_channels": 2, "out_channels": 1, "kernel_size": 3, "stride": 3},
         {"input": T(1, 2, 4), "output_size": [13]}),
    Case("ConvTranspose2d", {"in_channels": 2, "out_channels": 1, "kernel_size": 3, "stride": 2, "padding": 1},
         {"input": T(1, 2, 4, 4), "output_size": [8, 7]}),
    Case("ConvTranspose2d", {"in_channels": 2, "out_channels": 1, "kernel_size": 3, "stride": 2, "padding": 1},
         {"input": T(1, 2, 4, 4), "output_size": [1, 1, 7, 8]}),
    Case("ConvTranspose3d", {"in_channels": 1, "out_channels": 1, "kernel_size": 2, "stride": 2},
         {"input": T(1, 1, 2, 2, 2), "output_size": [5, 4, 5]}),
]

ERRORS = [
    conv("Conv2d", (3, 4), {"kernel_size": 3, "groups": 2}, 1, error="make"),
    conv("Conv2d", (4, 3), {"kernel_size": 3, "groups": 2}, 1, error="make"),
    conv("Conv2d", (4, 4), {"kernel_size": 3, "groups": 0}, 1, error="make"),
    conv("Conv2d", (4, 4), {"kernel_size": 3, "padding": "same", "stride": 2}, 1, error="make"),
    conv("Conv1d", (4, 4), {"kernel_size": 3, "padding": "full"}, 1, error="make"),
    conv("Conv3d", (4, 4), {"kernel_size": 3, "padding_mode": "mirror"}, 1, error="make"),
    conv("ConvTranspose2d", (4, 4), {"kernel_size": 3, "padding_mode": "reflect"}, 1, error="make"),
    conv("ConvTranspose2d", (4, 4), {"kernel_size": 3, "groups": 3}, 1, error="make"),
    conv("Conv2d", (3, 4), {"kernel_size": 3}, 1, 2, 5, 5, error="call"),
    conv("Conv2d", (3, 4), {"kernel_size": 3}, 1, 3, 2, 5, error="call"),
    conv("Conv2d", (3, 4), {"kernel_size": 3}, 3, 5, error="call"),
    Case("ConvTranspose2d", {"in_channels": 2, "out_channels": 1, "kernel_size": 3, "stride": 2},
         {"input": T(1, 2, 4, 4), "output_size": [12, 12]}, error="call"),
    Case("ConvTranspose2d", {"in_channels": 2, "out_channels": 1, "kernel_size": 3, "stride": 2},
         {"input": T(1, 2, 4, 4), "output_size": [9]}, error="call"),
]

WIDE = [Case(cls, {"in_channels": 2, "out_channels": 2, "kernel_size": 2, "dtype": torch.float64},
             {"input": T(1, 2, 3, 4, dtype=torch.float64)}, tol=1e-13)  # float64 has more digits
        for cls in ("Conv2d", "ConvTranspose2d")]

CASES = WIDE + PLAIN + BORDERS + TRANSPOSED + ERRORS
