"""cairn.storage: the memory that a tensor lies in, which its views share.

Place in the flow: t.untyped_storage() and t.storage() make these. A storage is a flat view of that memory: bytes, or
elements of the tensor's type. Invariant: it keeps the memory alive, and writing through it writes the tensor.
"""
from __future__ import annotations

from typing import Any, Iterator

from . import _C
from ._tensor import Tensor

__all__ = ["TypedStorage", "UntypedStorage"]


def _flat(t: Tensor) -> Tensor:
    """All whole elements of the memory that t lies in."""
    count = t._storage_nbytes() // t.itemsize if t.numel() else 0
    return t.detach().as_strided((count,), (1,), 0)


class _Storage:
    """What both kinds have."""

    def __init__(self, t: Tensor) -> None:
        self._typed = _flat(t)
        self._bytes = t._storage_nbytes() if t.numel() else 0

    @property
    def _all(self) -> Tensor:
        return self._typed

    @property
    def device(self) -> _C.device:
        return self._typed.device

    @property
    def is_cuda(self) -> bool:
        return self._typed.is_cuda

    def data_ptr(self) -> int:
        """The address of its first byte."""
        return self._typed.data_ptr()

    def nbytes(self) -> int:
        """Bytes that it has."""
        return self._bytes

    def tolist(self) -> list[Any]:
        """Its elements."""
        values: list[Any] = self._all.tolist()
        return values

    def fill_(self, value: float) -> Any:
        """Sets every element."""
        self._all.fill_(value)
        return self

    def __getitem__(self, index: Any) -> Any:
        part = self._all[index]
        return part.item() if part.ndim == 0 else part.tolist()

    def __setitem__(self, index: Any, value: Any) -> None:
        self._all[index] = value

    def __iter__(self) -> Iterator[Any]:
        return iter(self.tolist())

    def is_shared(self) -> bool:
        """Is it memory that other processes see (share_memory_)?"""
        return self._typed.is_shared()

    def is_pinned(self) -> bool:
        return self._typed.is_pinned()


class UntypedStorage(_Storage):
    """The memory as bytes."""

    @property
    def _all(self) -> Tensor:
        if self._typed.device.type != "cpu":
            raise NotImplementedError("the bytes of a storage can be looked at on the CPU only: move the tensor there")
        if not self._bytes:
            return _C.empty((0,), dtype=_C.uint8)
        same = {1: _C.uint8, 2: _C.int16, 4: _C.int32, 8: _C.int64}[self._typed.itemsize]
        return _C.frombuffer(memoryview(_C._bitcast(self._typed, same)).cast("B"), dtype=_C.uint8)

    @staticmethod
    def from_file(filename: Any, shared: bool = False, size: int = 0) -> UntypedStorage:
        """The bytes of a file: of its own; shared: the file's, which is made or grows to `size`, and gets what is
        written."""
        import mmap
        import os
        path = os.fspath(filename)
        if shared:
            with open(path, "r+b" if os.path.exists(path) else "w+b") as file:
                if os.path.getsize(path) < size:
                    file.truncate(size)
                mapped = mmap.mmap(file.fileno(), size or os.path.getsize(path))
            return UntypedStorage(_C.frombuffer(mapped, dtype=_C.uint8))
        have = os.path.getsize(path)
        if size > have:
            raise RuntimeError("from_file: %s has %d bytes, fewer than %d" % (path, have, size))
        with open(path, "rb") as file:
            data = bytearray(file.read(size or have))
        return UntypedStorage(_C.frombuffer(data, dtype=_C.uint8) if data else _C.empty((0,), dtype=_C.uint8))

    def size(self) -> int:
        """The number of bytes."""
        return self._bytes

    __len__ = size

    def element_size(self) -> int:
        return 1

    def __repr__(self) -> str:
        return "[cairn.storage.UntypedStorage(device=%s) of size %d]" % (self.device, self._bytes)


class TypedStorage(_Storage):
    """The memory as elements of the tensor's type."""

    def __init__(self, t: Tensor) -> None:
        super().__init__(t)
        self._tensor = t

    @property
    def dtype(self) -> _C.dtype:
        return self._all.dtype

    def size(self) -> int:
        """The number of elements."""
        return self._all.numel()

    __len__ = size

    def element_size(self) -> int:
        return self._all.itemsize

    def untyped(self) -> UntypedStorage:
        """The same memory as bytes."""
        return UntypedStorage(self._tensor)

    def __repr__(self) -> str:
        return "%s\n[cairn.storage.TypedStorage(dtype=%s, device=%s) of size %d]" % (
            "\n".join(" %s" % v for v in self.tolist()), self.dtype, self.device, self.size())
