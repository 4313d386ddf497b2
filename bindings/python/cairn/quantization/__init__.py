"""torch.quantization: the older name of torch.ao.quantization, whose names raise when they are used."""
from __future__ import annotations

from typing import Any

from ..ao import quantization as _names

__all__ = _names.__all__


def __getattr__(name: str) -> Any:
    return getattr(_names, name)
