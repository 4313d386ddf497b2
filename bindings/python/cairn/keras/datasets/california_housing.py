"""keras.datasets.california_housing: 8 figures of a district, and the price of its houses."""
from __future__ import annotations

from ._files import Parts, rows

__all__ = ["load_data"]


def load_data(version: str = "large", path: str = "california_housing.npz", test_split: float = 0.2,
              seed: int = 113) -> Parts:
    """path: Keras's file, or its name in Keras's folder; the small version is its first 600 rows."""
    if version not in ("small", "large"):
        raise ValueError("version is small or large, not %r" % (version,))
    return rows(path, test_split, seed, 600 if version == "small" else None)
