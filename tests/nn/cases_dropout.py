"""Dropout: train mode by its moments."""
from golden import Case, T

CASES = [
    Case("Dropout", {}, {"input": T(2, 4)}, random=True),
    Case("Dropout", {"p": 0.2, "inplace": True}, {"input": T(2, 4)}, random=True),
    Case("Dropout", {"p": 0.0}, {"input": T(2, 4)}),
    Case("Dropout", {"p": 1.0}, {"input": T(2, 4)}),
    Case("Dropout1d", {"p": 0.3}, {"input": T(2, 3, 2)}, random=True),
    Case("Dropout1d", {}, {"input": T(3, 2)}, random=True),
    Case("Dropout2d", {"p": 0.3, "inplace": True}, {"input": T(2, 2, 2, 2)}, random=True),
    Case("Dropout3d", {"p": 0.6}, {"input": T(1, 3, 2, 1, 2)}, random=True),
    Case("AlphaDropout", {"p": 0.3}, {"input": T(2, 4)}, random=True),
    Case("AlphaDropout", {"inplace": True}, {"input": T(2, 4)}, random=True),
    Case("FeatureAlphaDropout", {"p": 0.4}, {"input": T(2, 3, 2)}, random=True),
    Case("Dropout", {"p": 1.5}, {}, error="make"),
    Case("AlphaDropout", {"p": -0.1}, {}, error="make"),
]
