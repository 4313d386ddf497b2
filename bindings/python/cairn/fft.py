"""Fourier transforms: torch.fft's names. `cairn.fft.rfft` is the op fft_rfft."""
from ._fft_ops import *  # noqa: F401,F403
