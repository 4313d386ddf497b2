"""cairn.cuda.amp: the older names of cairn.amp, which mean CUDA devices."""
from __future__ import annotations

from typing import Any, Callable

from .. import _C, _homes
from .. import amp as _amp

__all__ = ["GradScaler", "amp_definitely_not_available", "autocast", "custom_bwd", "custom_fwd"]


def amp_definitely_not_available() -> bool:
    """Is there no device for it?"""
    return _C._device_count("cuda") == 0


class autocast(_amp.autocast):
    """cairn.amp.autocast("cuda", ...)."""

    def __init__(self, enabled: bool = True, dtype: _C.dtype | None = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", _C.float16 if dtype is None else dtype, enabled, cache_enabled)


class GradScaler(_amp.GradScaler):
    """cairn.amp.GradScaler("cuda", ...)."""

    def __init__(self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
                 growth_interval: int = 2000, enabled: bool = True) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Callable[..., Any] | None = None, *, cast_inputs: _C.dtype | None = None) -> Any:
    """cairn.amp.custom_fwd for CUDA."""
    return _amp.custom_fwd(fwd, device_type="cuda", cast_inputs=cast_inputs)


def custom_bwd(bwd: Callable[..., Any] | None = None) -> Any:
    """cairn.amp.custom_bwd for CUDA."""
    return _amp.custom_bwd(bwd, device_type="cuda")


_homes.homes(__name__, {"autocast_mode": "autocast custom_bwd custom_fwd", "grad_scaler": "GradScaler"})
