"""torch.utils.data.datapipes: data sets that are made of one another by method calls, pipe.map(f).batch(8)."""
from . import datapipe as datapipe, iter as iter, map as map  # noqa: A004

__all__ = ["datapipe", "iter", "map"]
