"""cairn.backends: what torch's programs ask and set about the libraries underneath.

Place in the flow: loaded when a program names it. Most of what can be set here is a permission to round or a choice
among libraries that cairn does not use: such a value is kept, and where it is not the one at first a warning says once
that nothing changes.
"""
from . import cpu as cpu, cuda as cuda, cudnn as cudnn, mkl as mkl, mkldnn as mkldnn, mps as mps, openmp as openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
