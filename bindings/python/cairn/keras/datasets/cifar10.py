"""keras.datasets.cifar10: 32 x 32 colour images (uint8) of ten classes, which are (n, 1)."""
from __future__ import annotations

from ._files import Parts, classes

__all__ = ["load_data"]


def load_data(path: str = "cifar10.npz") -> Parts:
    """path: an .npz file, one in Keras's folder, or the folder that cifar-10-batches-py is in."""
    return classes("CIFAR10", path, True)
