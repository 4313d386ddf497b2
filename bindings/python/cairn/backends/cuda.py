"""cairn.backends.cuda: which parts of CUDA a program allows.

`matmul.allow_tf32` and `matmul.fp32_precision` let products of float32 round their factors, as
set_float32_matmul_precision does; other permissions to round more are not used: sums of 16-bit products are float32.
The switches of attention choose between the device's fused kernel and plain products. A switch that would change speed
alone warns once.
"""
from __future__ import annotations

import contextlib
import os
import warnings
from typing import TYPE_CHECKING, Any, Iterator, NoReturn

from .._arguments import only_speed
from .._modes import no_grad
from .._settings import get_float32_matmul_precision, set_float32_matmul_precision
from ..nn._sdpa import SDPBackend, allow, allowed, sdpa_kernel

if TYPE_CHECKING:
    from .._tensor import Tensor

__all__ = ["SDPAParams", "allow_fp16_bf16_reduction_math_sdp", "can_use_cudnn_attention",
           "can_use_efficient_attention", "can_use_flash_attention", "cublas_workspace_size",
           "cublaslt_workspace_size", "cudnn_sdp_enabled", "cufft_plan_cache", "enable_cudnn_sdp", "enable_flash_sdp",
           "enable_math_sdp", "enable_mem_efficient_sdp", "flash_sdp_enabled", "fp16_bf16_reduction_math_sdp_allowed",
           "is_built", "is_ck_sdpa_available", "is_flash_attention_available", "math_sdp_enabled", "matmul",
           "mem_efficient_sdp_enabled", "preferred_blas_library", "preferred_linalg_library", "sdp_kernel"]


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

# ---- kernels of attention: what nn.attention.sdpa_kernel chooses for a block, for the rest of the thread ----

def _switch(backend: SDPBackend, enabled: bool) -> None:
    allow(allowed() | {backend} if enabled else allowed() - {backend})


def flash_sdp_enabled() -> bool:
    """What enable_flash_sdp was given last; inside sdpa_kernel, whether that names it."""
    return SDPBackend.FLASH_ATTENTION in allowed()


def enable_flash_sdp(enabled: bool) -> None:
    """May attention take the fused kernel by this name, in this thread?"""
    _switch(SDPBackend.FLASH_ATTENTION, enabled)


def mem_efficient_sdp_enabled() -> bool:
    """What enable_mem_efficient_sdp was given last; inside sdpa_kernel, whether that names it."""
    return SDPBackend.EFFICIENT_ATTENTION in allowed()


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """May attention take the fused kernel by this name, in this thread?"""
    _switch(SDPBackend.EFFICIENT_ATTENTION, enabled)


def math_sdp_enabled() -> bool:
    """What enable_math_sdp was given last; inside sdpa_kernel, whether that names it."""
    return SDPBackend.MATH in allowed()


def enable_math_sdp(enabled: bool) -> None:
    """May attention be made of plain products and a softmax, in this thread?"""
    _switch(SDPBackend.MATH, enabled)


def cudnn_sdp_enabled() -> bool:
    """What enable_cudnn_sdp was given last; inside sdpa_kernel, whether that names it."""
    return SDPBackend.CUDNN_ATTENTION in allowed()


def enable_cudnn_sdp(enabled: bool) -> None:
    """May attention take the fused kernel by this name, in this thread?"""
    _switch(SDPBackend.CUDNN_ATTENTION, enabled)


def allow_fp16_bf16_reduction_math_sdp(enabled: bool) -> None:
    """A permission to add up attention's plain products in 16 bits, which is not used: their sums are float32."""
    only_speed("backends.cuda.allow_fp16_bf16_reduction_math_sdp", False, enabled=bool(enabled))
    _kept["reduction_math_sdp"] = bool(enabled)


def fp16_bf16_reduction_math_sdp_allowed() -> bool:
    """What allow_fp16_bf16_reduction_math_sdp was given last; False at first."""
    return bool(_kept["reduction_math_sdp"])


def is_flash_attention_available() -> bool:
    """False: that library is not used."""
    return False


def is_ck_sdpa_available() -> bool:
    """False: that library is not used."""
    return False


class SDPAParams:
    """A call of scaled_dot_product_attention, for can_use_flash_attention and its kin."""

    def __init__(self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, dropout: float,
                 is_causal: bool, enable_gqa: bool) -> None:
        self.query, self.key, self.value, self.attn_mask = query, key, value, attn_mask
        self.dropout, self.is_causal, self.enable_gqa = dropout, is_causal, enable_gqa


def _can_use(backend: SDPBackend, params: SDPAParams, debug: bool) -> bool:
    """Runs the call where that backend alone is allowed: what it takes is its own decision. Random numbers stay."""
    from ..nn.functional import scaled_dot_product_attention
    from ..random import get_rng_state, set_rng_state
    if not params.query.is_cuda:
        return False
    state = get_rng_state()
    try:
        with no_grad(), sdpa_kernel(backend):
            scaled_dot_product_attention(params.query, params.key, params.value, params.attn_mask, params.dropout,
                                         params.is_causal, enable_gqa=params.enable_gqa)
        return True
    except RuntimeError as error:
        if debug:
            warnings.warn(str(error), stacklevel=3)
        return False
    finally:
        set_rng_state(state)


def can_use_flash_attention(params: SDPAParams, debug: bool = False) -> bool:
    """Does the device's fused kernel take this call? It is run to find out; with debug a warning says why not."""
    return _can_use(SDPBackend.FLASH_ATTENTION, params, debug)


def can_use_efficient_attention(params: SDPAParams, debug: bool = False) -> bool:
    """The same: there is one fused kernel by three names."""
    return _can_use(SDPBackend.EFFICIENT_ATTENTION, params, debug)


def can_use_cudnn_attention(params: SDPAParams, debug: bool = False) -> bool:
    """The same."""
    return _can_use(SDPBackend.CUDNN_ATTENTION, params, debug)


@contextlib.contextmanager
def sdp_kernel(enable_flash: bool = True, enable_math: bool = True, enable_mem_efficient: bool = True,
               enable_cudnn: bool = True) -> Iterator[dict[str, Any]]:
    """nn.attention.sdpa_kernel by an older name: which kernels attention may take inside."""
    given = {SDPBackend.FLASH_ATTENTION: enable_flash, SDPBackend.MATH: enable_math,
             SDPBackend.EFFICIENT_ATTENTION: enable_mem_efficient, SDPBackend.CUDNN_ATTENTION: enable_cudnn}
    with sdpa_kernel([backend for backend, enabled in given.items() if enabled]):
        yield {}


# ---- libraries: which of them computes what is the plugin's choice (docs/CUDA.md) ----

def _prefer(what: str, known: tuple[str, ...], backend: Any) -> str:
    """Keeps a preference among the libraries that torch names; None asks for the last."""
    if backend is not None:
        name = str(backend).rsplit(".", 1)[-1].lower()
        if name not in known:
            raise RuntimeError("backends.cuda.%s: expected one of %s, not %r" % (what, ", ".join(known), backend))
        only_speed("backends.cuda." + what, "default", backend=name)
        _kept[what] = name
    return str(_kept[what])


def preferred_linalg_library(backend: Any = None) -> str:
    """A hint, "cusolver" or "magma": cairn takes cuSOLVER for large matrices and kernels of its own for small ones."""
    return _prefer("preferred_linalg_library", ("default", "cusolver", "magma"), backend)


def preferred_blas_library(backend: Any = None) -> str:
    """A hint, "cublas" or "cublaslt": cairn takes cuBLASLt for large products, a kernel of its own for small ones."""
    return _prefer("preferred_blas_library", ("default", "cublas", "cublaslt"), backend)


def cublas_workspace_size(size: int | None = None) -> int:
    """Raises: a stream's workspace for products has one size, which is neither told nor set."""
    raise NotImplementedError("backends.cuda.cublas_workspace_size(%r): the workspace of a stream has one size, which "
                              "is neither told nor set" % (size,))


def cublaslt_workspace_size(size: int | None = None) -> int:
    """Raises: see cublas_workspace_size."""
    return cublas_workspace_size(size)


class _PlanCache:
    """cufft_plan_cache: plans of FFTs are kept by length and number of lines as long as the process lives, and neither
    counted nor dropped: whatever is asked of them raises."""

    def _refuse(self, *what: Any) -> NoReturn:
        asked = ".%s" % what[0] if isinstance(what[0], str) else "[%r]" % (what[0],)
        raise NotImplementedError("backends.cuda.cufft_plan_cache%s: plans of FFTs are kept as long as the process "
                                  "lives" % asked)

    size = max_size = property(lambda self: self._refuse("size"), lambda self, value: self._refuse("size", value))

    def clear(self) -> None:
        """Raises."""
        self._refuse("clear")

    def __getitem__(self, device: Any) -> NoReturn:
        self._refuse(device)


cufft_plan_cache = _PlanCache()


_kept: dict[str, Any] = {"preferred_linalg_library": "default", "preferred_blas_library": "default",
                         "reduction_math_sdp": False}
