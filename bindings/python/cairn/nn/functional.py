"""torch.nn.functional's names. Ops of the table's `nn` namespace come as they are; where torch's form has arguments
that the op has not (inplace=, the old size_average=, return_indices=), a function of the modules below takes them.
"""
from __future__ import annotations

from .. import _C, _forms_linalg
from .._arguments import warn as _warn
from .._tensor import Tensor
from ._activations import *  # noqa: F401,F403
from ._conv import *  # noqa: F401,F403
from ._embedding import *  # noqa: F401,F403
from ._losses import *  # noqa: F401,F403
from ._ops import *  # noqa: F401,F403

sigmoid, tanh = _C.sigmoid, _C.tanh


def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """Divides by the p-norm along a dimension, which counts at least eps."""
    size = _forms_linalg.norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return _C.div(input, size, out=out)


def _canonical_mask(mask: Tensor | None, mask_name: str, other_type: _C.dtype | None, other_name: str,
                    target_type: _C.dtype, check_other: bool = True) -> Tensor | None:
    """A mask of an attention as numbers to add: -inf where a mask of bools is true."""
    if mask is None:
        return None
    if mask.dtype != _C.bool and not mask.is_floating_point():
        raise AssertionError("only bool and floating types of %s are supported" % mask_name)
    if check_other and other_type is not None and mask.dtype != other_type:
        _warn("%s and %s of different types are deprecated: give both the same one" % (mask_name, other_name))
    if mask.is_floating_point():
        return mask
    return _C.zeros_like(mask, dtype=target_type).masked_fill_(mask, float("-inf"))


def _none_or_dtype(input: Tensor | None) -> _C.dtype | None:
    """The type of a tensor; None of None."""
    if input is not None and not isinstance(input, Tensor):
        raise RuntimeError("input to _none_or_dtype() must be None or torch.Tensor")
    return None if input is None else input.dtype
