"""Layers that change shape or size."""
from golden import Case, T

FORMS = [
    Case("Flatten", {}, {"input": T(2, 3, 4)}),
    Case("Flatten", {"start_dim": 0, "end_dim": 1}, {"input": T(2, 3, 4)}),
    Case("Flatten", {"start_dim": 2}, {"input": T(2, 1, 2, 3)}),
    Case("Unflatten", {"dim": 1, "unflattened_size": [2, 3]}, {"input": T(2, 6, 2)}),
    Case("Unflatten", {"dim": -1, "unflattened_size": [2, -1, 1]}, {"input": T(2, 4)}),
    Case("Fold", {"output_size": [4, 5], "kernel_size": 2}, {"input": T(1, 8, 12)}),
    Case("Fold", {"output_size": 5, "kernel_size": [2, 3], "dilation": [1, 2], "padding": 1, "stride": [2, 1]},
         {"input": T(12, 9)}),
    Case("Unfold", {"kernel_size": [2, 3]}, {"input": T(2, 2, 4, 4)}),
    Case("Unfold", {"kernel_size": 2, "dilation": 2, "padding": 1, "stride": [1, 2]}, {"input": T(2, 4, 5)}),
    Case("PixelShuffle", {"upscale_factor": 2}, {"input": T(2, 8, 2, 3)}),
    Case("PixelUnshuffle", {"downscale_factor": 2}, {"input": T(2, 2, 4, 6)}),
    Case("ChannelShuffle", {"groups": 2}, {"input": T(1, 6, 2, 2)}),
    Case("PixelShuffle", {"upscale_factor": 2}, {"input": T(1, 6, 2, 2)}, error="call"),
    Case("PixelUnshuffle", {"downscale_factor": 2}, {"input": T(1, 1, 3, 2)}, error="call"),
    Case("ChannelShuffle", {"groups": 4}, {"input": T(1, 6, 2, 2)}, error="call"),
    Case("Unflatten", {"dim": 1, "unflattened_size": [2, 2]}, {"input": T(2, 6)}, error="call"),
    Case("Flatten", {"start_dim": 3}, {"input": T(2, 6)}, error="call"),
    Case("Fold", {"output_size": 4, "kernel_size": 2}, {"input": T(1, 8, 5)}, error="call"),
]

IMAGE = {1: (2, 2, 4), 2: (1, 2, 3, 4), 3: (1, 1, 2, 3, 2)}
MODES = [(mode, d) for mode in ("nearest", "nearest-exact", "area") for d in (1, 2, 3)] + \
    [("linear", 1), ("bilinear", 2), ("trilinear", 3), ("bicubic", 2)]

SIZES = [Case("Upsample", {"mode": mode, **size}, {"input": T(*IMAGE[d])})
         for mode, d in MODES for size in ({"size": 5}, {"scale_factor": 1.7})] + \
    [Case("Upsample", {"mode": mode, "align_corners": True, **size}, {"input": T(*IMAGE[d])})
     for mode, d in MODES if "linear" in mode or "cubic" in mode for size in ({"size": 5}, {"scale_factor": 1.7})] + [
    Case("Upsample", {"size": [5, 2]}, {"input": T(1, 2, 3, 4)}),
    Case("Upsample", {"scale_factor": [2.0, 0.5], "mode": "bilinear"}, {"input": T(1, 2, 3, 4)}),
    Case("Upsample", {"scale_factor": 1.7, "mode": "bilinear", "recompute_scale_factor": True},
         {"input": T(1, 2, 3, 4)}),
    Case("Upsample", {"scale_factor": 2.0, "mode": "bicubic", "align_corners": False}, {"input": T(1, 1, 3, 3)}),
    Case("UpsamplingNearest2d", {"scale_factor": 2.0}, {"input": T(1, 2, 2, 3)}),
    Case("UpsamplingNearest2d", {"size": [3, 5]}, {"input": T(1, 2, 2, 3)}),
    Case("UpsamplingBilinear2d", {"scale_factor": 2.0}, {"input": T(1, 2, 2, 3)}),
    Case("UpsamplingBilinear2d", {"size": 5}, {"input": T(1, 2, 2, 3)}),
    Case("Upsample", {"size": 5, "mode": "bilinear"}, {"input": T(1, 2, 4)}, error="call"),
    Case("Upsample", {"size": 5, "mode": "cubic"}, {"input": T(1, 2, 4)}, error="call"),
    Case("Upsample", {"size": 5, "mode": "nearest", "align_corners": True}, {"input": T(1, 2, 4)}, error="call"),
]

CASES = FORMS + SIZES
