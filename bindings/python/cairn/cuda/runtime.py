"""What programs ask of CUDA's runtime library by torch's names: errors, a few of its functions, and what becomes of
calls that have to wait for a device.

Place in the flow: names of cairn.cuda, on the driver, which is opened when one of them needs it: cairn does not use the
runtime library. Invariant: a function that is not there says which are.
"""
from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any, NoReturn

from .. import _C
from . import profiler
from ._devices import _Device, current_device, init
from .memory import mem_get_info

__all__ = ["CudaError", "DeferredCudaCallError", "check_error", "cudaStatus", "cudart", "current_blas_handle",
           "current_solver_handle", "get_sync_debug_mode", "set_sync_debug_mode"]

# Codes of errors as the runtime and the driver count them.
_TEXTS = {0: "no error", 1: "invalid argument", 2: "out of memory", 3: "initialization error",
          4: "driver shutting down", 35: "CUDA driver version is insufficient for CUDA runtime version",
          100: "no CUDA-capable device is detected", 101: "invalid device ordinal",
          200: "device kernel image is invalid", 209: "no kernel image is available for execution on the device",
          600: "device not ready", 700: "an illegal memory access was encountered",
          701: "too many resources requested for launch", 702: "the launch timed out and was terminated",
          712: "part or all of the requested memory range is already mapped",
          713: "pointer does not correspond to a registered memory region", 719: "unspecified launch failure",
          801: "operation not supported", 999: "unknown error"}


class cudaStatus:
    """Codes that torch names."""

    SUCCESS = 0
    ERROR_NOT_READY = 34


class CudaError(RuntimeError):
    """A call of CUDA failed with this code."""

    def __init__(self, code: int) -> None:
        super().__init__("%s (%d)" % (_text(code), code))


class DeferredCudaCallError(Exception):
    """Work that was put off until CUDA was started failed. cairn puts nothing off: it is there to be caught."""


def _text(code: int) -> str:
    return _TEXTS.get(int(code), "unrecognized error code")


def check_error(res: int) -> None:
    """Raises CudaError where a function of cudart() did not return success."""
    if res:
        raise CudaError(res)


class _Error(IntEnum):
    success = 0


class _Runtime:
    """Functions of the runtime library, by the driver's. Codes that they return are 0 for success (check_error)."""

    cudaError = _Error

    def cudaGetErrorString(self, code: int) -> str:
        """What a code stands for."""
        return _text(code)

    def cudaMemGetInfo(self, device: _Device = None) -> tuple[int, int]:
        """(free, total) bytes of a device's memory."""
        return mem_get_info(device)

    def cudaHostRegister(self, ptr: int, size: int, flags: int) -> int:
        """Lets devices read ordinary memory by themselves: copies by other libraries, and kernels, then can. cairn's
        own copies from such memory go as those of memory that is not registered."""
        return _call("cuMemHostRegister_v2", ctypes.c_void_p(ptr), ctypes.c_size_t(size), ctypes.c_uint(flags))

    def cudaHostUnregister(self, ptr: int) -> int:
        """Ends that."""
        return _call("cuMemHostUnregister", ctypes.c_void_p(ptr))

    def cudaProfilerStart(self) -> int:
        """cairn.cuda.profiler.start."""
        profiler.start()
        return 0

    def cudaProfilerStop(self) -> int:
        """cairn.cuda.profiler.stop."""
        profiler.stop()
        return 0

    def __getattr__(self, name: str) -> NoReturn:
        there = sorted(n for n in vars(_Runtime) if n.startswith("cuda"))
        raise AttributeError("cairn.cuda.cudart() has no %s, but %s" % (name, ", ".join(there)))


def _call(name: str, *arguments: Any) -> int:
    init()
    _C._device_stream("cuda:%d" % current_device())  # its context is this thread's now
    return int(getattr(ctypes.CDLL("libcuda.so.1"), name)(*arguments))


_runtime = _Runtime()


def cudart() -> _Runtime:
    """Some functions of CUDA's runtime library."""
    init()
    return _runtime


def current_blas_handle() -> int:
    """Raises: products go by cuBLASLt and kernels of cairn's own, which have no handle of cuBLAS."""
    raise RuntimeError("current_blas_handle: cairn multiplies by cuBLASLt and by kernels of its own, and has no handle "
                       "of cuBLAS: make one, on cairn.cuda.current_stream().cuda_stream")


def current_solver_handle() -> int:
    """Raises: the handle of cuSOLVER is not shared."""
    raise RuntimeError("current_solver_handle: cairn's handle of cuSOLVER is not shared: make one, on "
                       "cairn.cuda.current_stream().cuda_stream")


_MODES = {"default": 0, "warn": 1, "error": 2}


def set_sync_debug_mode(debug_mode: int | str) -> None:
    """What becomes of calls, in any thread, in which the host has to wait for a device: 0 or "default" nothing, 1 or
    "warn" a warning each, 2 or "error" a RuntimeError before they wait. item(), copies to the host, sizes that depend
    on data and Stream.synchronize() are such calls; cairn.cuda.synchronize(), which is what the device's own stream
    does, and Event.synchronize() are not."""
    mode = _MODES.get(debug_mode, -1) if isinstance(debug_mode, str) else debug_mode
    if mode not in _MODES.values():
        raise RuntimeError("invalid value of debug_mode, expected one of `default`, `warn`, `error`, or 0, 1, 2, not %r"
                           % (debug_mode,))
    init()
    _C._wait_mode(mode)


def get_sync_debug_mode() -> int:
    """What set_sync_debug_mode was given last: 0, 1 or 2."""
    return _C._wait_mode()
