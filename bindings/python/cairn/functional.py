"""cairn.functional: functions of the top level under the name that torch has them besides."""
from __future__ import annotations

from typing import Any

import cairn

_NAMES = ("atleast_1d atleast_2d atleast_3d broadcast_shapes broadcast_tensors cartesian_prod block_diag cdist "
          "chain_matmul einsum istft lu norm meshgrid pca_lowrank split stft svd_lowrank tensordot unique "
          "unique_consecutive unravel_index align_tensors").split()
__all__ = [name for name in _NAMES if hasattr(cairn, name)]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError("module 'cairn.functional' has no attribute %r" % (name,))
    return getattr(cairn, name)
