"""Linear layers."""
import torch

from golden import Case, T

CASES = [
    Case("Identity", {}, {"input": T(2, 3)}),
    Case("Linear", {"in_features": 4, "out_features": 3}, {"input": T(5, 4)}, work=True),
    Case("Linear", {"in_features": 4, "out_features": 3, "bias": False}, {"input": T(2, 3, 4)}, work=True),
    Case("Linear", {"in_features": 4, "out_features": 3}, {"input": T(4)}),
    Case("Linear", {"in_features": 4, "out_features": 3, "dtype": torch.float64},
         {"input": T(2, 4, dtype=torch.float64)}, tol=1e-13),  # float64 has more digits
    Case("Bilinear", {"in1_features": 3, "in2_features": 4, "out_features": 2}, {"input1": T(5, 3), "input2": T(5, 4)}),
    Case("Bilinear", {"in1_features": 3, "in2_features": 4, "out_features": 2, "bias": False},
         {"input1": T(2, 5, 3), "input2": T(2, 5, 4)}),
    Case("Linear", {"in_features": 4, "out_features": 3}, {"input": T(5, 3)}, error="call"),
    Case("Linear", {"in_features": -1, "out_features": 3}, {}, error="make"),
    Case("Bilinear", {"in1_features": 0, "in2_features": 4, "out_features": 2}, {}, error="make"),
]
