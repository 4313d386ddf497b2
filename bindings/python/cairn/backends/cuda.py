"""cairn.backends.cuda: which parts of CUDA a program allows.

`matmul.allow_tf32` and its kin are permissions to round more; cairn does not use them: float32 products are float32.
Attention has one implementation that takes what it is given, so the switches for several are kept and have no effect.
"""
from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator

__all__ = ["enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "cudnn_sdp_enabled",
           "flash_sdp_enabled", "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul",
           "mem_efficient_sdp_enabled", "sdp_kernel"]


def is_built() -> bool:
    """Whether this package has its part for CUDA; a device need not be there."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from .. import cuda
    return os.path.exists(os.path.join(here, "libcairn_cuda.so")) or cuda.is_available()


class _Matmul:
    """Permissions for matrix products; none of them is used."""

    def __init__(self) -> None:
        self.allow_tf32 = False
        self.allow_fp16_reduced_precision_reduction = True
        self.allow_bf16_reduced_precision_reduction = True
        self.allow_fp16_accumulation = False
        self.fp32_precision = "none"


matmul = _Matmul()
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp was given last."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """A hint, kept."""
    _sdp["flash"] = bool(enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp was given last."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """A hint, kept."""
    _sdp["mem_efficient"] = bool(enabled)


def math_sdp_enabled() -> bool:
    """What enable_math_sdp was given last."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """A hint, kept."""
    _sdp["math"] = bool(enabled)


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp was given last."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """A hint, kept."""
    _sdp["cudnn"] = bool(enabled)


def is_flash_attention_available() -> bool:
    """False: that library is not used."""
    return False


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[dict[str, Any]]:
    """The hints as given inside, as before afterwards."""
    before = dict(_sdp)
    _sdp.update(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield dict(_sdp)
    finally:
        _sdp.update(before)
