"""Functions that take Python's complex numbers where signatures of ops have real ones.

Place in the flow: like the other _forms files. Invariant: what is not complex goes to the op as it is.
"""
from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any, Sequence

from . import _C
from ._forms import _public
from ._tensor import Tensor

if TYPE_CHECKING:
    from ._C import _Device, _Dtype, _Number

__all__ = ["full", "full_like"]


def _complex_type(dtype: Any) -> Any:
    return dtype or _C.promote_types(_C.complex32, _C.get_default_dtype())


def full(size: Sequence[builtins.int] | builtins.int, fill_value: _Number | builtins.complex | Tensor, *,
         out: Tensor | None = None, dtype: _Dtype | None = None, device: _Device | None = None, layout: Any = None,
         requires_grad: builtins.bool = False, pin_memory: builtins.bool = False) -> Tensor:
    """A tensor with every element set to fill_value."""
    given = {"out": out, "device": device, "layout": layout, "requires_grad": requires_grad, "pin_memory": pin_memory}
    more: builtins.dict[str, Any] = {k: v for k, v in given.items() if v is not None and v is not False}
    value: Any = fill_value.item() if isinstance(fill_value, Tensor) else fill_value
    if not isinstance(value, builtins.complex):
        return _C.full(size, value, dtype=dtype, **more)
    made = _C.full(size, 0, dtype=_complex_type(dtype), **more)
    made.detach().fill_(_C.tensor(value, dtype=made.dtype))
    return made


def full_like(input: Tensor, fill_value: _Number | builtins.complex, *, dtype: _Dtype | None = None,
              device: _Device | None = None, layout: Any = None, requires_grad: builtins.bool = False,
              memory_format: Any = None, pin_memory: builtins.bool = False) -> Tensor:
    """A tensor like input with every element set to fill_value."""
    given = {"dtype": dtype, "device": device, "layout": layout, "requires_grad": requires_grad,
             "memory_format": memory_format, "pin_memory": pin_memory}
    more: builtins.dict[str, Any] = {k: v for k, v in given.items() if v is not None and v is not False}
    value: Any = fill_value
    if not isinstance(value, builtins.complex):
        return _C.full_like(input, value, **more)
    made = _C.full_like(input, 0, **more)
    made.detach().fill_(_C.tensor(value, dtype=made.dtype))
    return made


_public(globals())
