"""cairn.nn.parallel: several devices. DataParallel works on one; processes of their own are not there."""
from __future__ import annotations

from typing import Any

from ..lazy import DataParallel as DataParallel
from ..module import Module

__all__ = ["DataParallel", "data_parallel"]


def data_parallel(module: Module, inputs: Any, device_ids: Any = None, output_device: Any = None, dim: int = 0,
                  module_kwargs: Any = None) -> Any:
    """module(*inputs) on one device."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*given, **(module_kwargs or {}))
