"""cairn.backends.cuda: which parts of CUDA a program allows.

`matmul.allow_tf32` and `matmul.fp32_precision` let products of float32 round their factors, as
set_float32_matmul_precision does; other permissions to round more are not used: sums of 16-bit products are float32.
Attention has one implementation that takes what it is given. A switch that would change speed alone warns once.
"""
from __future__ import annotations

import contextlib
import os
from typing import Any, Iterator

from .._arguments import only_speed
from .._settings import get_float32_matmul_precision, set_float32_matmul_precision

__all__ = ["enable_cudnn_sdp", "enable_flash_sdp", "enable_math_sdp", "enable_mem_efficient_sdp", "cudnn_sdp_enabled",
           "flash_sdp_enabled", "is_built", "is_flash_attention_available", "math_sdp_enabled", "matmul",
           "mem_efficient_sdp_enabled", "sdp_kernel"]


def is_built() -> bool:
    """Whether this package has its part for CUDA; a device need not be there."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from .. import cuda
    return os.path.exists(os.path.join(here, "libcairn_cuda.so")) or cuda.is_available()


class _Matmul:
    """Permissions for matrix products. One that is not used and taken away is kept to as well."""

    allow_fp16_reduced_precision_reduction = True
    allow_bf16_reduced_precision_reduction = True
    allow_fp16_accumulation = False

    @property
    def allow_tf32(self) -> bool:
        """May factors be rounded to TF32?"""
        return get_float32_matmul_precision() != "highest"

    @allow_tf32.setter
    def allow_tf32(self, value: bool) -> None:
        set_float32_matmul_precision("high" if value else "highest")

    @property
    def fp32_precision(self) -> str:
        """The same by name: "ieee" or "tf32"."""
        return "tf32" if self.allow_tf32 else "ieee"

    @fp32_precision.setter
    def fp32_precision(self, value: str) -> None:
        if value not in ("ieee", "tf32", "none"):
            raise RuntimeError("backends.cuda.matmul.fp32_precision: expected 'ieee' or 'tf32', not %r" % (value,))
        self.allow_tf32 = value == "tf32"

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(_Matmul, name):
            raise AttributeError("backends.cuda.matmul has no setting %r" % name)
        if value is True and name != "allow_tf32":
            only_speed("backends.cuda.matmul", getattr(_Matmul, name), **{name: value})
        super().__setattr__(name, value)


matmul = _Matmul()
_sdp = {"flash": True, "mem_efficient": True, "math": True, "cudnn": True}


def _choose(**enabled: bool) -> None:
    """Keeps which kernels of attention may be taken; there is one."""
    for name, on in enabled.items():
        only_speed("backends.cuda", True, **{"enable_%s_sdp" % name: bool(on)})
        _sdp[name] = bool(on)


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp was given last."""
    return _sdp["flash"]


def enable_flash_sdp(enabled: bool) -> None:
    """Kept; there is one implementation."""
    _choose(flash=enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp was given last."""
    return _sdp["mem_efficient"]


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Kept; there is one implementation."""
    _choose(mem_efficient=enabled)


def math_sdp_enabled() -> bool:
    """What enable_math_sdp was given last."""
    return _sdp["math"]


def enable_math_sdp(enabled: bool) -> None:
    """Kept; there is one implementation."""
    _choose(math=enabled)


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp was given last."""
    return _sdp["cudnn"]


def enable_cudnn_sdp(enabled: bool) -> None:
    """Kept; there is one implementation."""
    _choose(cudnn=enabled)


def is_flash_attention_available() -> bool:
    """False: that library is not used."""
    return False


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[dict[str, Any]]:
    """The hints as given inside, as before afterwards."""
    before = dict(_sdp)
    _choose(flash=enable_flash, math=enable_math, mem_efficient=enable_mem_efficient, cudnn=enable_cudnn)
    try:
        yield dict(_sdp)
    finally:
        _sdp.update(before)
