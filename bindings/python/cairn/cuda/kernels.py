"""cairn.cuda.kernels: kernels of a program's own, in CUDA C++, on tensors.

Place in the flow: names of cairn.cuda, on the library's code (cairn/code.h); NVRTC compiles a text once, and the
machine code is kept on disk. Invariant: launches are in order with the other work of the stream in use.
"""
from __future__ import annotations

import ctypes
from typing import Any, Iterable

from .. import _C
from ._devices import _Device
from .streams import Stream, StreamContext, _device

__all__ = ["Kernel", "compile_kernel"]


def _packed(value: Any, device: _C.device) -> bytes:
    """The bytes of an argument as the kernel declares it."""
    if isinstance(value, _C.TensorBase):
        if value.device != device:
            raise ValueError("a kernel on %s was given a tensor on %s" % (device, value.device))
        return bytes(ctypes.c_void_p(value.data_ptr()))
    if isinstance(value, (bool, int)):
        return bytes(ctypes.c_int(value)) if -2**31 <= value < 2**31 else bytes(ctypes.c_longlong(value))
    if isinstance(value, float):
        return bytes(ctypes.c_float(value))
    if isinstance(value, (ctypes._SimpleCData, ctypes.Structure, ctypes.Array)):
        return bytes(value)
    raise TypeError("a kernel's arguments are tensors, ints (int), floats (float) and values of ctypes, not %s"
                    % type(value).__name__)


class Kernel:
    """A compiled kernel: kernel(grid, block, args) launches it."""

    def __init__(self, code: Any, name: str, device: _C.device) -> None:
        self._code, self.name, self.device = code, name, device

    def __call__(self, grid: Iterable[int] = (1, 1, 1), block: Iterable[int] = (1, 1, 1), args: Iterable[Any] = (),
                 shared_mem: int = 0, stream: Stream | None = None) -> None:
        """Queues a launch of grid blocks of block threads. args: tensors (their memory), ints (C's int), floats (C's
        float), and values of ctypes for every other type, structs among them. Tensors are taken as they lie in memory:
        see Tensor.contiguous()."""
        values = [_packed(a, self.device) for a in args]
        with StreamContext(stream):
            _C._code_run(self._code, _three(grid), _three(block), shared_mem, values)

    def __repr__(self) -> str:
        return "<cairn.cuda.Kernel %s on %s>" % (self.name, self.device)


def _three(sizes: Iterable[int]) -> tuple[int, int, int]:
    one, two, three = ([*sizes] + [1, 1, 1])[:3]
    return one, two, three


def compile_kernel(kernel_source: str, kernel_name: str, options: Iterable[str] = (), device: _Device = None) -> Kernel:
    """The kernel of this name, declared `extern "C" __global__`, in a text of CUDA C++. options: NVRTC's own."""
    place = _device(device)
    words = list(options)
    if any(" " in word for word in words):
        raise ValueError("compile_kernel: an option has no spaces")
    return Kernel(_C._code_new(place, kernel_source, kernel_name, " ".join(words)), kernel_name, place)
