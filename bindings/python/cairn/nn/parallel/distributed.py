"""DistributedDataParallel, which needs process groups: there are none (see cairn.distributed)."""
from __future__ import annotations

from ... import _absent

__all__ = ["DistributedDataParallel"]

DistributedDataParallel = _absent.kind(__name__, "DistributedDataParallel",
                                       "cairn has no process groups (torch.distributed); is_available() is False")
