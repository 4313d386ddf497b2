"""Helpers around tensors: the exchange with other libraries (cairn.utils.dlpack)."""
from . import checkpoint, data, dlpack

__all__ = ["checkpoint", "data", "dlpack"]
