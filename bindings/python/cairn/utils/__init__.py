"""Helpers around tensors: data, checkpoints, the exchange with other libraries (cairn.utils.dlpack), and
torchvision.utils' pictures (make_grid, save_image)."""
from . import checkpoint, data, dlpack
from .images import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks, make_grid, save_image

_PARTS = ("_python_dispatch", "_pytree", "benchmark", "collect_env", "flop_counter", "hooks", "model_zoo",
          "tensorboard", "weak")  # which are loaded by those who use them


def __getattr__(name: str) -> object:
    if name not in _PARTS:
        raise AttributeError("module 'cairn.utils' has no attribute %r" % (name,))
    from importlib import import_module
    return import_module("." + name, __name__)


__all__ = ["checkpoint", "data", "dlpack", "draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks",
           "make_grid", "save_image"]
