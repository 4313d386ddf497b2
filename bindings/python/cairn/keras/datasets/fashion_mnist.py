"""keras.datasets.fashion_mnist: 28 x 28 images (uint8) of ten classes."""
from __future__ import annotations

from ._files import Parts, classes

__all__ = ["load_data"]


def load_data(path: str = "fashion_mnist.npz") -> Parts:
    """path: an .npz file, one in Keras's folder, or a folder of the raw files."""
    return classes("FashionMNIST", path, False)
