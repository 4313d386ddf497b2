"""Helpers around tensors: the exchange with other libraries (cairn.utils.dlpack)."""
from . import dlpack

__all__ = ["dlpack"]
