"""Helpers around tensors: data, checkpoints, the exchange with other libraries (cairn.utils.dlpack), and
torchvision.utils' pictures (make_grid, save_image)."""
from .._tensor import Tensor
from . import checkpoint, data, dlpack
from .images import draw_bounding_boxes, draw_keypoints, draw_segmentation_masks, make_grid, save_image

_PARTS = ("_python_dispatch", "_pytree", "benchmark", "collect_env", "cpp_extension", "flop_counter", "hooks",
          "model_zoo", "tensorboard", "weak")  # which are loaded by those who use them


def swap_tensors(t1: Tensor, t2: Tensor) -> None:
    """Each becomes what the other one was: data, gradient, class and attributes."""
    for t in (t1, t2):
        if t.grad_fn is not None:
            raise RuntimeError("swap_tensors: a tensor that an op computed cannot be swapped; leaves can")
    (kind1, held1), (kind2, held2) = ((type(t), dict(vars(t))) for t in (t1, t2))
    (data1, grad1, needs1), (data2, grad2, needs2) = ((t.data, t.grad, t.requires_grad) for t in (t1, t2))
    for t, kind, held, data, grad, needs in ((t1, kind2, held2, data2, grad2, needs2),
                                             (t2, kind1, held1, data1, grad1, needs1)):
        t.grad = None
        if type(t) is not kind:
            t.__class__ = kind
        vars(t).clear()
        vars(t).update(held)
        t.requires_grad_(False)
        t.data = data
        t.requires_grad_(needs)
        t.grad = grad


def __getattr__(name: str) -> object:
    if name not in _PARTS:
        raise AttributeError("module 'cairn.utils' has no attribute %r" % (name,))
    from importlib import import_module
    return import_module("." + name, __name__)


__all__ = ["checkpoint", "data", "dlpack", "draw_bounding_boxes", "draw_keypoints", "draw_segmentation_masks",
           "make_grid", "save_image", "swap_tensors"]
