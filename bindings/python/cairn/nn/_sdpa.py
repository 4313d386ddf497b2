"""torch.nn.attention's choice of kernels for scaled_dot_product_attention."""
from __future__ import annotations

import contextlib
from enum import Enum
from typing import Iterator, Sequence

from .._arguments import only_speed

__all__ = ("SDPBackend", "sdpa_kernel")


class SDPBackend(Enum):
    """Ways to compute attention."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextlib.contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Says which kernels may compute attention inside. The library has one for each device and takes that, with a
    warning; results of torch's kernels differ by rounding only."""
    for backend in [backends] if isinstance(backends, SDPBackend) else backends:
        if not isinstance(backend, SDPBackend):
            raise AssertionError(f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
                                 f"{backend!r}")
    only_speed("sdpa_kernel", backends=backends)
    only_speed("sdpa_kernel", False, set_priority=set_priority)
    yield
