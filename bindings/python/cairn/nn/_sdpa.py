"""torch.nn.attention's choice of kernels for scaled_dot_product_attention."""
from __future__ import annotations

import contextlib
from enum import Enum
from typing import Iterator, Sequence

from .. import _C

__all__ = ("SDPBackend", "sdpa_kernel")


class SDPBackend(Enum):
    """Ways to compute attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


_PARTS, _CPU, _DEVICE, _NONE = 1, 2, 4, 8  # cn_attention_way; the last: none of them
# Where a device has a fused kernel, it is what each of the three names stands for; on the CPU, as in torch, one does.
_WAYS = {SDPBackend.MATH: _PARTS, SDPBackend.FLASH_ATTENTION: _CPU | _DEVICE,
         SDPBackend.EFFICIENT_ATTENTION: _DEVICE, SDPBackend.CUDNN_ATTENTION: _DEVICE}


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Says which kernels may compute attention inside: MATH is plain products and a softmax, the others are the
    device's fused kernel, which never holds all scores. Where none of them takes the operands, attention raises. With
    set_priority the first one is taken if it can be."""
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                                 f"{backend!r}")
    if set_priority and chosen and chosen[0] is SDPBackend.MATH:
        chosen = chosen[:1]  # it always can
    ways = 0
    for backend in chosen:
        ways |= _WAYS.get(backend, 0)
    saved = _C._attention_ways(ways or _NONE)
    try:
        yield
    finally:
        _C._attention_ways(saved)
