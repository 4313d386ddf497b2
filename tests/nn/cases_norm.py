"""Cases of src/nn/norm.c. See README.md."""
from golden import Case, T

IMAGES = {"1d": (3, 3, 4), "2d": (2, 3, 3, 2), "3d": (2, 3, 2, 1, 3)}
CASES = []

for form, shape in IMAGES.items():
    batch, instance = "BatchNorm" + form, "InstanceNorm" + form
    CASES += [
        Case(batch, {"num_features": 3}, {"input": T(*shape)}),
        Case(batch, {"num_features": 3, "eps": 0.1, "momentum": 0.3, "affine": False}, {"input": T(*shape)}),
        Case(batch, {"num_features": 3, "momentum": None}, {"input": T(*shape)}),
        Case(batch, {"num_features": 3, "momentum": 0.0, "bias": False}, {"input": T(*shape)}),
        Case(batch, {"num_features": 3, "track_running_stats": False}, {"input": T(*shape)}),
        Case(batch, {"num_features": 4}, {"input": T(*shape)}, error="call"),
        Case(batch, {"num_features": 3}, {"input": T(3)}, error="call"),
        Case(batch, {"num_features": 3}, {"input": T(2, 3, 2, 2, 2, 2)}, error="call"),
        Case(instance, {"num_features": 3}, {"input": T(*shape)}),
        Case(instance, {"num_features": 3}, {"input": T(*shape[1:])}),
        Case(instance, {"num_features": 3, "affine": True, "eps": 0.1}, {"input": T(*shape)}),
        Case(instance, {"num_features": 3, "affine": True, "bias": False}, {"input": T(*shape)}),
        Case(instance, {"num_features": 3, "affine": True, "track_running_stats": True, "momentum": 0.4},
             {"input": T(*shape)}),
        Case(instance, {"num_features": 3, "track_running_stats": True}, {"input": T(*shape[1:])}),
        Case(instance, {"num_features": 4, "affine": True}, {"input": T(*shape)}, error="call"),
        Case(instance, {"num_features": 3}, {"input": T(2, 3, 2, 2, 2, 2)}, error="call"),
    ]

CASES += [
    Case("BatchNorm1d", {"num_features": 3}, {"input": T(4, 3)}),
    Case("BatchNorm1d", {"num_features": 3}, {"input": T(1, 3)}, modes=("train",), error="call"),
    # torch's own runs in training on GPUs only; test_special.c compares it with BatchNorm2d there
    Case("SyncBatchNorm", {"num_features": 3}, {"input": T(4, 3, 2)}, modes=("eval",)),
    Case("LayerNorm", {"normalized_shape": [6]}, {"input": T(2, 4, 6)}),
    Case("LayerNorm", {"normalized_shape": 6}, {"input": T(6)}),
    Case("LayerNorm", {"normalized_shape": [4, 6], "eps": 0.01}, {"input": T(2, 4, 6)}),
    Case("LayerNorm", {"normalized_shape": [4, 6], "elementwise_affine": False}, {"input": T(2, 4, 6)}),
    Case("LayerNorm", {"normalized_shape": [4, 6], "bias": False}, {"input": T(2, 4, 6)}),
    Case("LayerNorm", {"normalized_shape": [5]}, {"input": T(2, 4, 6)}, error="call"),
    Case("RMSNorm", {"normalized_shape": [6]}, {"input": T(2, 4, 6)}, run=lambda m, v: m(v["input"])),
    Case("RMSNorm", {"normalized_shape": [4, 6], "eps": 0.01}, {"input": T(2, 4, 6)}, run=lambda m, v: m(v["input"])),
    Case("RMSNorm", {"normalized_shape": [6], "elementwise_affine": False}, {"input": T(2, 4, 6)},
         run=lambda m, v: m(v["input"])),
    Case("GroupNorm", {"num_groups": 2, "num_channels": 6}, {"input": T(3, 6, 4)}),
    Case("GroupNorm", {"num_groups": 6, "num_channels": 6, "eps": 0.1}, {"input": T(3, 6, 2, 4)}),
    Case("GroupNorm", {"num_groups": 1, "num_channels": 4, "affine": False}, {"input": T(3, 4, 2, 2)}),
    Case("GroupNorm", {"num_groups": 2, "num_channels": 4, "bias": False}, {"input": T(3, 4, 2)}),
    Case("GroupNorm", {"num_groups": 4, "num_channels": 6}, {}, error="make"),
    Case("GroupNorm", {"num_groups": 2, "num_channels": 6}, {"input": T(3, 4, 4)}, error="call"),
    Case("LocalResponseNorm", {"size": 3}, {"input": T(2, 5, 4)}),
    Case("LocalResponseNorm", {"size": 2, "alpha": 0.5, "beta": 0.6, "k": 2.0}, {"input": T(2, 5, 3, 4)}),
    Case("LocalResponseNorm", {"size": 5, "alpha": 0.1}, {"input": T(2, 5, 2, 3, 2)}),
]
