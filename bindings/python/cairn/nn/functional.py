"""torch.nn.functional's names. Ops of the table's `nn` namespace come as they are; where torch's form has arguments
that the op has not (inplace=, the old size_average=, return_indices=), a function of the modules below takes them.
"""
from __future__ import annotations

import builtins
from typing import Any

from .. import _C, _forms
from .._names import SPACES

for _name in SPACES["nn"]:
    globals()[_name] = getattr(_C, _name)

from ._activations import *  # noqa: E402,F401,F403
from ._conv import *  # noqa: E402,F401,F403
from ._embedding import *  # noqa: E402,F401,F403
from ._losses import *  # noqa: E402,F401,F403

sigmoid, tanh = _C.sigmoid, _C.tanh


def normalize(input: Any, p: builtins.float = 2.0, dim: builtins.int = 1, eps: builtins.float = 1e-12,
              out: Any = None) -> Any:
    """Divides by the p-norm along a dimension, which counts at least eps."""
    size = _forms.norm(input, p, dim, keepdim=True).clamp_min(eps).expand_as(input)
    return _C.div(input, size, out=out)
