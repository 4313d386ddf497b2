"""autocast: ops inside compute in a smaller type where that is safe; a context manager and a decorator.

The library switches for all devices of a thread at once; device_type says which default type is meant, and a device
that is not there leaves autocast off, as in torch.
"""
from __future__ import annotations

import functools
import threading
import warnings
from types import TracebackType
from typing import Any, Callable

import cairn

from .. import _C
from .._modes import _Mode
from .._tensor import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "get_autocast_dtype", "is_autocast_available",
           "is_autocast_enabled", "set_autocast_dtype", "set_autocast_enabled"]


class _Here(threading.local):
    """What this thread is in: the device type of the innermost region, and the types to be used by default."""

    def __init__(self) -> None:
        self.devices: list[str] = []
        self.types: dict[str, _C.dtype] = {"cpu": _C.bfloat16, "cuda": _C.float16}


_here = _Here()


def is_autocast_available(device_type: str) -> bool:
    """Can autocast be used for devices of this type?"""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type in ("cpu", "cuda")


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Is autocast on in this thread (for devices of this type)?"""
    on = _C._autocast_dtype() is not None
    return on and (device_type is None or not _here.devices or _here.devices[-1] == device_type)


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """The type that autocast computes in, or would."""
    now = _C._autocast_dtype()
    if now is not None and _here.devices and _here.devices[-1] == device_type:
        return now
    if device_type not in _here.types:
        raise RuntimeError(f"autocast: unsupported device type {device_type!r}")
    return _here.types[device_type]


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """The type that autocast computes in when it is not told."""
    _here.types[device_type] = dtype


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switches autocast on or off from now on."""
    older = isinstance(device_type, bool)  # set_autocast_enabled(True) means CUDA
    device = "cuda" if isinstance(device_type, bool) else device_type
    _here.devices[-1:] = [device]
    _C._autocast_begin(_here.types[device] if (device_type if older else enabled) else None)


class autocast(_Mode):
    """autocast("cuda", dtype=cairn.bfloat16): products of matrices and convolutions inside compute in the type, losses
    and sums in float32."""

    def __init__(self, device_type: str, dtype: _C.dtype | None = None, enabled: bool = True,
                 cache_enabled: bool | None = None) -> None:
        super().__init__()
        if not isinstance(device_type, str):
            raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
        if not is_autocast_available(device_type):
            raise RuntimeError(f"User specified an unsupported autocast device_type '{device_type}'")
        self.device, self.cache_enabled = device_type, cache_enabled is not False
        self.fast_dtype = get_autocast_dtype(device_type) if dtype is None else dtype
        if enabled and device_type == "cuda" and not cairn.cuda.is_available():
            warnings.warn("autocast: device_type is 'cuda', but CUDA is not available. Disabling", stacklevel=2)
            enabled = False
        if enabled and self.fast_dtype not in (_C.bfloat16, _C.float16, _C.float32):
            warnings.warn(f"autocast: {self.fast_dtype} is not a type to compute in; use bfloat16 or float16. "
                          "Disabling", stacklevel=2)
            enabled = False
        self._enabled = bool(enabled)

    def _begin(self) -> int:
        saved = _C._autocast_begin(self.fast_dtype if self._enabled and self.fast_dtype != _C.float32 else None)
        _here.devices.append(self.device)
        return saved

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _here.devices.pop()
        _C._autocast_end(self._saved.pop())

    def clone(self) -> _Mode:
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, _saved=[])
        return made


# ---- for functions with gradients of their own ----

def _cast(value: Any, dtype: _C.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() and value.dtype != _C.float64 else value
    if isinstance(value, dict):
        return {k: _cast(v, dtype) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_cast(v, dtype) for v in value)
    return value


def custom_fwd(fwd: Callable[..., Any] | None = None, *, device_type: str, cast_inputs: _C.dtype | None = None) -> Any:
    """Decorates forward() of an autograd.Function: with cast_inputs it runs without autocast, on that type."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    forward: Callable[..., Any] = fwd

    @functools.wraps(forward)
    def wrapped(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        on = is_autocast_enabled(device_type)
        ctx._dtype, ctx._fwd_used_autocast = get_autocast_dtype(device_type), on and cast_inputs is None
        if not on or cast_inputs is None:
            return forward(ctx, *args, **kwargs)
        with autocast(device_type, enabled=False):
            return forward(ctx, *_cast(args, cast_inputs), **_cast(kwargs, cast_inputs))

    return wrapped


def custom_bwd(bwd: Callable[..., Any] | None = None, *, device_type: str) -> Any:
    """Decorates backward(): it runs as forward() did, with or without autocast."""
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    backward: Callable[..., Any] = bwd

    @functools.wraps(backward)
    def wrapped(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with autocast(device_type, dtype=ctx._dtype, enabled=ctx._fwd_used_autocast):
            return backward(ctx, *args, **kwargs)

    return wrapped
