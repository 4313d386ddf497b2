"""torch.nn.attention's choice of kernels for scaled_dot_product_attention, which backends.cuda's switches make, too.

Invariant: what is allowed here is what the library was told in this thread (cn_attention_begin)."""
from __future__ import annotations

import contextlib
import threading
from enum import Enum
from typing import Collection, Iterator, Sequence

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


class _Allowed(threading.local):
    """The backends that this thread's attention may take."""

    def __init__(self) -> None:
        self.backends = frozenset(_WAYS)


_allowed = _Allowed()


def allowed() -> frozenset[SDPBackend]:
    """What allow() was given last in this thread; all of them at first."""
    return _allowed.backends


def allow(backends: Collection[SDPBackend], first: SDPBackend | None = None) -> None:
    """Attention may take these from now on, in this thread; `first` where it can be. Where none of them takes the
    operands it raises."""
    chosen = frozenset(backends)
    ways = 0
    for backend in (SDPBackend.MATH,) if first is SDPBackend.MATH else chosen:  # that one always can
        ways |= _WAYS.get(backend, 0)
    _C._attention_ways(0 if chosen.issuperset(_WAYS) and first is not SDPBackend.MATH else ways or _NONE)
    _allowed.backends = chosen


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
    before, ways = allowed(), _C._attention_ways(0)
    try:
        allow(chosen, chosen[0] if set_priority and chosen else None)
        yield
    finally:
        _allowed.backends = before
        _C._attention_ways(ways)
