"""cairn.backends: what torch's programs ask and set about the libraries underneath.

Place in the flow: loaded when a program names it. Most of what can be set here is a permission or a choice among
libraries that cairn does not use; such a value is kept and has no effect, as each module says.
"""
from . import cpu as cpu, cuda as cuda, cudnn as cudnn, mkl as mkl, mkldnn as mkldnn, mps as mps, openmp as openmp

__all__ = ["cpu", "cuda", "cudnn", "mkl", "mkldnn", "mps", "openmp"]
