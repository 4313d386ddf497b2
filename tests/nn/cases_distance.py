"""CosineSimilarity and PairwiseDistance."""
from golden import Case, T

CASES = [
    Case("CosineSimilarity", {}, {"x1": T(3, 4), "x2": T(3, 4)}),
    Case("CosineSimilarity", {"dim": 0, "eps": 0.5}, {"x1": T(3, 2, 2), "x2": T(3, 2, 2)}),
    Case("CosineSimilarity", {"dim": -1}, {"x1": T(2, 3, 4), "x2": T(1, 4)}),
    Case("PairwiseDistance", {}, {"x1": T(3, 4), "x2": T(3, 4)}),
    Case("PairwiseDistance", {"p": 1.0, "keepdim": True}, {"x1": T(3, 4), "x2": T(3, 4)}),
    Case("PairwiseDistance", {"p": 3.0, "eps": 0.01}, {"x1": T(4), "x2": T(4)}),
    Case("PairwiseDistance", {"p": float("inf")}, {"x1": T(2, 4), "x2": T(4)}),
    Case("PairwiseDistance", {}, {"x1": T(3, 4), "x2": T(3, 5)}, error="call"),
]
