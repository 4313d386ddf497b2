"""keras.datasets.cifar100: 32 x 32 colour images (uint8) of a hundred classes, which are (n, 1)."""
from __future__ import annotations

from ._files import Parts, classes

__all__ = ["load_data"]


def load_data(label_mode: str = "fine", path: str = "cifar100.npz") -> Parts:
    """path: an .npz file, one in Keras's folder, or the folder that cifar-100-python is in."""
    if label_mode not in ("fine", "coarse"):
        raise ValueError("label_mode is fine or coarse, not %r" % (label_mode,))
    return classes("CIFAR100", path, True, coarse=label_mode == "coarse")
