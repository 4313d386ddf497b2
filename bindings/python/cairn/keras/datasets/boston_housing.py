"""keras.datasets.boston_housing: 13 figures of a district, and the price of its houses."""
from __future__ import annotations

from ._files import Parts, rows

__all__ = ["load_data"]


def load_data(path: str = "boston_housing.npz", test_split: float = 0.2, seed: int = 113) -> Parts:
    """path: Keras's file, or its name in Keras's folder."""
    return rows(path, test_split, seed)
