"""Parts of torch.cuda that cairn has nothing of: programs import them, and learn what is missing when they use it.

Place in the flow: modules of cairn.cuda that are made here from names. Invariant: what asks whether one is there is
answered with no; all else raises.
"""
from __future__ import annotations

from typing import Any

from .. import _absent

__all__ = ["GreenContext", "gds", "green_contexts", "nccl", "sparse"]

_PACKAGE = __name__.rpartition(".")[0]
_made = _absent.spaces(_PACKAGE, {
    "nccl": "all_gather all_reduce broadcast init_rank reduce reduce_scatter unique_id version version_suffix",
    "gds": "GdsFile gds_deregister_buffer gds_register_buffer",
    "green_contexts": "GreenContext SMPartition get_num_locality_domains",
    "sparse": "BFloat16Tensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
              "ShortTensor",
}, "this part of torch.cuda has no counterpart in cairn")
nccl, gds, green_contexts, sparse = (_made[name] for name in ("nccl", "gds", "green_contexts", "sparse"))
GreenContext = green_contexts.GreenContext


def _no(*args: Any) -> bool:  # unused: args (whatever is asked about is not there)
    """Is it there? No."""
    return False


for _space, _name in ((nccl, "is_available"), (gds, "is_available"), (green_contexts, "is_localization_supported")):
    setattr(_space, _name, _no)
