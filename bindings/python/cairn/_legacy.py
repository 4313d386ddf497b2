"""cairn.FloatTensor and its kin: a type of elements and a kind of device as a class, from before dtypes.

Place in the flow: names of cairn and cairn.cuda that are loaded when a program asks for them. Called with sizes they
make an empty tensor, called with data a tensor of it; isinstance(t, cairn.FloatTensor) looks at t. What they make is a
plain cairn.Tensor.
"""
from __future__ import annotations

from typing import Any

from . import _C
from ._tensor import Tensor, _type_names
from ._types import Size

__all__ = ["TensorType", "by_name"]


class TensorType(type):
    """The class of these classes."""

    dtype: _C.dtype
    is_cuda: bool
    layout = _C.strided

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Tensor) and instance.dtype == cls.dtype and instance.is_cuda == cls.is_cuda

    def __call__(cls, *args: Any, device: Any = None) -> Any:
        """T(sizes...), T(size), T(data), T(tensor), T()."""
        place = device if device is not None else "cuda" if cls.is_cuda else "cpu"
        if not args:
            return _C.empty((0,), dtype=cls.dtype, device=place)
        first = args[0]
        if len(args) == 1 and isinstance(first, Tensor):
            if not isinstance(first, cls):
                raise TypeError("expected %s (got %s)" % (name_of(first), "%s.%s" % (cls.__module__, cls.__name__)))
            return first.detach()
        if len(args) == 1 and not isinstance(first, (int, Size)):
            if hasattr(first, "untyped") or not hasattr(first, "__len__") and not hasattr(first, "__iter__"):
                raise TypeError("%s() takes sizes or a sequence, not %s" % (cls.__name__, type(first).__name__))
            data = first if hasattr(first, "__array__") else list(first)
            return _C.tensor(data, dtype=cls.dtype, device=place)
        size = tuple(first) if isinstance(first, Size) else args
        return _C.empty(size, dtype=cls.dtype, device=place)


def _made(kind: str, dtype: _C.dtype, space: str) -> TensorType:
    return TensorType(kind + "Tensor", (), {"__module__": space, "dtype": dtype, "is_cuda": space == "cairn.cuda",
                                            "__doc__": "Tensors of type %s." % dtype})


_TYPES = {"%s.%sTensor" % (space, kind): _made(kind, dtype, space)
          for space in ("cairn", "cairn.cuda") for dtype, kind in _type_names.items()
          if not kind.startswith(("UInt", "Complex"))}

BFloat16Tensor, BoolTensor, ByteTensor = (_TYPES["cairn." + k] for k in ("BFloat16Tensor", "BoolTensor", "ByteTensor"))
CharTensor, DoubleTensor, FloatTensor = (_TYPES["cairn." + k] for k in ("CharTensor", "DoubleTensor", "FloatTensor"))
HalfTensor, IntTensor, LongTensor = (_TYPES["cairn." + k] for k in ("HalfTensor", "IntTensor", "LongTensor"))
ShortTensor = _TYPES["cairn.ShortTensor"]


class StorageType(type):
    """The class of cairn.cuda.FloatStorage and its kin: isinstance looks at a TypedStorage. None is made by a call: a
    storage is a tensor's (Tensor.storage)."""

    dtype: _C.dtype
    is_cuda: bool

    def __instancecheck__(cls, instance: object) -> bool:
        from .storage import TypedStorage
        return isinstance(instance, TypedStorage) and instance.dtype == cls.dtype and instance.is_cuda == cls.is_cuda

    def __call__(cls, *args: Any, **options: Any) -> Any:
        raise NotImplementedError("%s.%s: make a tensor and take its storage()" % (cls.__module__, cls.__name__))


def _storage(kind: str, dtype: _C.dtype, space: str) -> StorageType:
    return StorageType(kind + "Storage", (), {"__module__": space, "dtype": dtype, "is_cuda": space == "cairn.cuda",
                                              "__doc__": "Storages of type %s." % dtype})


_STORAGES = {"%s.%sStorage" % (space, kind): _storage(kind, dtype, space)
             for space in ("cairn", "cairn.cuda") for dtype, kind in _type_names.items()}
BFloat16Storage, BoolStorage, ByteStorage = (_STORAGES["cairn." + k] for k in ("BFloat16Storage", "BoolStorage",
                                                                              "ByteStorage"))
CharStorage, DoubleStorage, FloatStorage = (_STORAGES["cairn." + k] for k in ("CharStorage", "DoubleStorage",
                                                                             "FloatStorage"))
HalfStorage, IntStorage, LongStorage = (_STORAGES["cairn." + k] for k in ("HalfStorage", "IntStorage", "LongStorage"))
ShortStorage = _STORAGES["cairn.ShortStorage"]


def storage_by_name(name: str) -> StorageType:
    """The class of that name: "cuda.FloatStorage"."""
    found = _STORAGES.get("cairn." + name)
    if found is None:
        raise AttributeError("module 'cairn.cuda' has no attribute %r" % name.rpartition(".")[2])
    return found


def by_name(name: str) -> TensorType:
    """The class of that name: "cairn.FloatTensor", "torch.cuda.LongTensor", "FloatTensor"."""
    parts = name.split(".")
    space = "cairn.cuda" if "cuda" in parts[:-1] else "cairn"
    known = _TYPES.get("%s.%s" % (space, parts[-1]))
    if known is None:
        raise ValueError("invalid type: %r" % (name,))
    return known


def name_of(t: Tensor) -> str:
    """What t.type() returns."""
    return "%s.%s%sTensor" % (Tensor.__module__, "cuda." if t.is_cuda else "", _type_names[t.dtype])
