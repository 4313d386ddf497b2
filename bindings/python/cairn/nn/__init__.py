"""Neural networks. So far: the functions."""
from . import functional

__all__ = ["functional"]
