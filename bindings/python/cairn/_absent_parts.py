"""Private modules of PyTorch that programs take single names from, where cairn has nothing of the kind.

Place in the flow: names of cairn that begin with an underscore and are none of its modules come from here. Invariant: a
question about what is not there is answered with no, and all else raises when it is used.
"""
from __future__ import annotations

from typing import Any

from . import _absent

__all__ = ["part"]

_WHY = "this part of PyTorch's inside has no counterpart in cairn"
_TABLE = {
    "_subclasses": "FakeTensor FakeTensorMode", "_subclasses.fake_tensor": "FakeTensor FakeTensorMode "
    "UnsupportedFakeTensorException DynamicOutputShapeException",
    "_subclasses.functional_tensor": "FunctionalTensor FunctionalTensorMode",
    "_subclasses.meta_utils": "", "_functorch": "", "_functorch.vmap": "",
    "_functorch.eager_transforms": "", "_functorch.aot_autograd": "aot_function aot_module make_boxed_func",
    "_functorch.pyfunctorch": "", "_functorch.config": "", "_functorch._aot_autograd": "", "_functorch.apis": "",
    "_functorch.deprecated": "", "_prims": "", "_prims_common": "is_contiguous_or_false make_contiguous_strides_for",
    "_refs": "", "_decomp": "get_decompositions register_decomposition core_aten_decompositions",
    "_higher_order_ops": "", "_higher_order_ops.associative_scan": "associative_scan",
    "_higher_order_ops.wrap": "", "_guards": "TracingContext", "_logging": "set_logs", "_lazy": "",
    "_dispatch": "", "_export": "", "_numpy": "", "_vmap_internals": "", "_meta_registrations": "", "_custom_ops": "",
    "_library": "", "_library.fake_class_registry": "register_fake_class", "_streambase": "",
    "_weights_only_unpickler": "", "_VF": "",
}
_made: dict[str, Any] = {}


def active_fake_mode() -> None:
    """The mode in which tensors have no values: there is none."""


def detect_fake_mode(inputs: Any = None) -> None:  # unused: inputs (no tensor is of such a mode)
    """The mode that tensors without values are of: there is none."""


def is_fake(x: object) -> bool:  # unused: x (nothing is)
    """Is it a tensor without values of PyTorch's tracer? Nothing is."""
    return False


def part(name: str) -> Any:
    """The module of that name, or AttributeError."""
    if not _made:
        _made.update(_absent.spaces(__name__.partition(".")[0], _TABLE, _WHY))
        setattr(_made["_subclasses.fake_tensor"], "is_fake", is_fake)
        from ._vmap import vmap
        setattr(_made["_vmap_internals"], "vmap", vmap)
        setattr(_made["_vmap_internals"], "_vmap", vmap)
        for question in (active_fake_mode, detect_fake_mode):
            setattr(_made["_guards"], question.__name__, question)
    if name not in _made or "." in name:
        raise AttributeError("module 'cairn' has no attribute %r" % (name,))
    return _made[name]
