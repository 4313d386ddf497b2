"""1,797 hand-written digits of 8 x 8 pixels, float32 in [0, 1], which are part of the library."""
from __future__ import annotations

from typing import Any

import cairn
from ..._training.batches import array
from ._files import Parts

__all__ = ["load_data"]


def load_data() -> Parts:
    return _part(True), _part(False)


def _part(train: bool) -> tuple[Any, Any]:
    from ...utils.data import DataLoader
    batches = list(DataLoader(cairn.datasets.digits(train=train), batch_size=512))
    x, y = cairn.cat([b[0] for b in batches]), cairn.cat([b[1] for b in batches])
    return array(x.squeeze(1)), array(y)
