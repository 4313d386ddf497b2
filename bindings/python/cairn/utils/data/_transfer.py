"""How a batch gets from a worker's process to the loader's: its tensors lie in one block of shared memory, whose
descriptor goes along with the pickled rest.

Place in the flow: below _processes.py. Invariant: the block has no name, and neither side keeps its descriptor: it is
gone with the last tensor over it, however the processes end.
"""
from __future__ import annotations

import io
import math
import os
import threading
from multiprocessing import reduction
from multiprocessing.connection import Connection
from typing import Any

from ... import _C
from ..._pickle import _finish, _order
from ..._tensor import Tensor

__all__ = ["receive", "send"]

_ALIGN = 64


class _Incoming(threading.local):
    block = -1  # the descriptor that belongs to what is being unpickled


_incoming = _Incoming()


def _place(cls: type[Tensor], start: int, dtype: str, shape: tuple[int, ...], strides: tuple[int, ...],
           requires_grad: bool, state: dict[str, Any] | None) -> Tensor:
    """The tensor at byte `start` of the block."""
    kind = getattr(_C, dtype)
    t = _C._take_shared(_incoming.block, start // kind.itemsize, shape, strides, kind)
    return _finish(cls, t, requires_grad, state)


def _dense(t: Tensor) -> tuple[int, ...]:
    """Strides of the same elements without gaps, in the memory order that they have."""
    strides, step = [0] * t.ndim, 1
    for dim in reversed(_order(t)):
        strides[dim] = step
        step *= max(t.shape[dim], 1)
    return tuple(strides)


class _Packer(reduction.ForkingPickler):
    """Pickles a batch; its tensors on the CPU get places in a block that is made when all are known."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, 5)
        self.tensors: list[tuple[Tensor, int, tuple[int, ...]]] = []
        self.size = 0

    def reducer_override(self, obj: Any) -> Any:
        if not isinstance(obj, Tensor) or not obj.is_cpu:
            return NotImplemented
        if obj.requires_grad and not obj.is_leaf:
            raise RuntimeError("only leaves can be sent to another process, because a history cannot: detach() the "
                               "tensor")
        plain, start = obj.detach(), self.size
        strides = _dense(plain)
        self.tensors.append((plain, start, strides))
        self.size = start + math.ceil(max(plain.numel() * plain.itemsize, 1) / _ALIGN) * _ALIGN
        return _place, (type(obj), start, str(plain.dtype)[6:], tuple(plain.shape), strides, obj.requires_grad,
                        getattr(obj, "__dict__", None) or None)

    def block(self) -> Tensor | None:
        """The elements of all of them, in shared memory."""
        if not self.tensors:
            return None
        made = _C._zeros_shared((self.size,), _C.uint8)
        for t, start, strides in self.tensors:
            place = _C._from_shared(made._shared_fd(), start // t.itemsize, tuple(t.shape), strides, t.dtype)
            place.copy_(t)
        return made


def send(to: Connection, value: Any, pid: int) -> None:
    """Sends a value with tensors to the process with that number. What cannot be pickled is raised before anything is
    sent."""
    file = io.BytesIO()
    packer = _Packer(file)
    file.write(b" ")
    packer.dump(value)
    block = packer.block()
    data = file.getbuffer()
    data[0] = block is not None
    to.send_bytes(data)
    if block is not None:
        reduction.send_handle(to, block._shared_fd(), pid)


def receive(from_: Connection) -> Any:
    """What was sent."""
    data = from_.recv_bytes()
    if not data[0]:
        return reduction.ForkingPickler.loads(memoryview(data)[1:])
    block = reduction.recv_handle(from_)
    before, _incoming.block = _incoming.block, block
    try:
        return reduction.ForkingPickler.loads(memoryview(data)[1:])
    finally:
        _incoming.block = before
        os.close(block)
