"""cairn.backends: what torch's programs ask and set about the libraries underneath.

Place in the flow: loaded when a program names it. Most of what can be set here is a permission to round or a choice
among libraries that cairn does not use: such a value is kept, and where it is not the one at first a warning says once
that nothing changes.
"""
import sys
from types import ModuleType

from . import cpu as cpu, cuda as cuda, cudnn as cudnn, mkl as mkl, mkldnn as mkldnn, mps as mps, openmp as openmp

__all__ = ["cpu", "cuda", "cudnn", "fp32_precision", "mkl", "mkldnn", "mps", "openmp"]
fp32_precision: str  # see _Settings


class _Settings(ModuleType):
    """This module, so that an assignment to its setting is noticed."""

    @property
    def fp32_precision(self) -> str:
        """Products' (cuda.matmul.fp32_precision); setting it sets convolutions', too."""
        return cuda.matmul.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        cuda.matmul.fp32_precision = value
        cudnn.conv.fp32_precision = value


sys.modules[__name__].__class__ = _Settings
