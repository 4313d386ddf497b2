"""autocast: ops inside compute in a smaller type where that is safe; a context manager and a decorator.

The CPU and the other devices, which are one here, are switched apart, in each thread; without CUDA "cuda" leaves
autocast off, as in torch. What casts are kept (of parameters, while a region lasts) is the library's affair.
"""
from __future__ import annotations

import functools
import threading
import warnings
from types import TracebackType
from typing import Any, Callable

import cairn

from .. import _C
from .._arguments import only_speed
from .._modes import _Mode
from .._tensor import Tensor

__all__ = ["autocast", "custom_bwd", "custom_fwd", "get_autocast_cpu_dtype", "get_autocast_dtype",
           "get_autocast_gpu_dtype", "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_cpu_enabled",
           "is_autocast_enabled", "set_autocast_cache_enabled", "set_autocast_dtype", "set_autocast_enabled"]


class _Here(threading.local):
    """The types to be used by default in this thread, and the older setting of casts that are kept."""

    def __init__(self) -> None:
        self.types: dict[str, _C.dtype] = {"cpu": _C.bfloat16, "cuda": _C.float16, "pjrt": _C.bfloat16,
                                           "tpu": _C.bfloat16}
        self.cache = True


_here = _Here()
_ELSEWHERE = ("hpu", "ipu", "maia", "mps", "mtia", "xla", "xpu")  # torch's other types of devices


def is_autocast_available(device_type: str) -> bool:
    """Can autocast be used for devices of this type?"""
    if not isinstance(device_type, str):
        raise ValueError(f"Expected `device_type` of type `str`, got: `{type(device_type)}`")
    return device_type in _here.types


def _known(device_type: str) -> str:
    if device_type not in _here.types:
        raise RuntimeError(f"autocast: unsupported device type {device_type!r}")
    return device_type


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """Is autocast on in this thread, for devices of this type? Never for those that there are none of."""
    if device_type in _ELSEWHERE:
        return False
    return _C._autocast_dtype(_known(device_type) == "cpu") is not None


def get_autocast_dtype(device_type: str) -> _C.dtype:
    """The type that autocast computes in, or would."""
    now = _C._autocast_dtype(_known(device_type) == "cpu")
    return _here.types[device_type] if now is None else now


def set_autocast_dtype(device_type: str, dtype: _C.dtype) -> None:
    """The type that autocast computes in when it is not told."""
    _here.types[_known(device_type)] = dtype


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switches autocast on or off from now on."""
    older = isinstance(device_type, bool)  # set_autocast_enabled(True) means CUDA
    device = "cuda" if isinstance(device_type, bool) else _known(device_type)
    _C._autocast_begin(device == "cpu", _here.types[device] if (device_type if older else enabled) else None)


def is_autocast_cpu_enabled() -> bool:
    """Is autocast on for the CPU? By its older name."""
    return is_autocast_enabled("cpu")


def get_autocast_cpu_dtype() -> _C.dtype:
    return get_autocast_dtype("cpu")


def get_autocast_gpu_dtype() -> _C.dtype:
    return get_autocast_dtype("cuda")


def is_autocast_cache_enabled() -> bool:
    """What set_autocast_cache_enabled has set."""
    return _here.cache


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Kept, but of no effect: a cast that is kept is made anew when its parameter has changed, so that it cannot be
    stale."""
    only_speed("set_autocast_cache_enabled", True, enabled=bool(enabled))
    _here.cache = bool(enabled)


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
        only_speed("autocast", True, cache_enabled=cache_enabled is not False)
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
        on = self._enabled and self.fast_dtype != _C.float32
        return _C._autocast_begin(self.device == "cpu", self.fast_dtype if on else None)

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
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
