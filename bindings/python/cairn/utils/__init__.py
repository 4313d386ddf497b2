"""Helpers around tensors: data, checkpoints, the exchange with other libraries (cairn.utils.dlpack), and
torchvision.utils' pictures (make_grid, save_image)."""
from . import checkpoint, data, dlpack
from .images import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks, make_grid, save_image

__all__ = ["checkpoint", "data", "dlpack", "draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks",
           "make_grid", "save_image"]
