"""torch.nn.functional's names. Ops of the table's `nn` namespace come as they are; where torch's form has arguments
that the op has not (inplace=, the old size_average=, return_indices=), a function of the modules below takes them.
"""
from __future__ import annotations

from .. import _C, _forms_linalg
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
