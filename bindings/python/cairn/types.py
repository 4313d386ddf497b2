"""cairn.types: names for annotations: a number, a size, a device."""
from __future__ import annotations

import builtins
from typing import Any, List, Sequence, Tuple, Union

from . import _C
from ._tensor import Tensor
from ._types import Size

__all__ = ["Device", "Number", "Size", "Storage", "Tensor"]

Number = Union[builtins.int, builtins.float, builtins.bool]
Device = Union[_C.device, str, builtins.int, None]

_TensorOrTensors = Union[Tensor, Sequence[Tensor]]
_dtype = _C.dtype
_device = _C.device
_layout = _C.layout
_size = Union[Size, List[builtins.int], Tuple[builtins.int, ...]]
_int, _float, _bool = builtins.int, builtins.float, builtins.bool


def __getattr__(name: str) -> Any:
    if name == "Storage":
        from .storage import UntypedStorage
        return UntypedStorage
    raise AttributeError("module 'cairn.types' has no attribute %r" % (name,))
