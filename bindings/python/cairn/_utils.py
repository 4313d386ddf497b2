"""Helpers that programs take out of torch._utils: exceptions from workers, and tensors in one piece of memory."""
from __future__ import annotations

import sys
import traceback
from typing import Any, Callable, Iterable, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["ExceptionWrapper", "KeyErrorMessage", "classproperty", "is_compiling"]


class KeyErrorMessage(str):
    """The text of a KeyError, which shows its lines as lines."""

    def __repr__(self) -> str:
        return str(self)


class ExceptionWrapper:
    """An exception and where it was raised, to be raised again in another thread or process."""

    def __init__(self, exc_info: Any = None, where: str = "in background") -> None:
        kind, value, trace = exc_info if exc_info is not None else sys.exc_info()
        self.exc_type: Any = kind
        self.where = where
        self.exc_msg = "".join(traceback.format_exception(kind, value, trace))

    def reraise(self) -> None:
        """Raises an exception of the same class with the text of the first."""
        text = "Caught %s %s.\nOriginal %s" % (self.exc_type.__name__, self.where, self.exc_msg)
        if self.exc_type is KeyError:
            text = KeyErrorMessage(text)
        elif getattr(self.exc_type, "message", None):
            raise self.exc_type(message=text)
        try:
            error = self.exc_type(text)
        except Exception:  # its class takes other arguments
            raise RuntimeError(text) from None
        raise error


class classproperty:
    """A property of a class."""

    def __init__(self, func: Callable[[Any], Any]) -> None:
        self.func = func

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self.func(owner)


def is_compiling() -> bool:
    """Is the code that asks being captured?"""
    return _C._tracing()


def _get_device_index(device: Any, optional: bool = False, allow_cpu: bool = False) -> int:
    """The number of a device: -1 for the CPU where that is allowed."""
    if isinstance(device, int):
        return device
    if device is None:
        if not optional:
            raise ValueError("Expected a cairn.device with a specified index or an integer, but got: None")
        return 0
    place = _C.device(device)
    if place.type == "cpu":
        if allow_cpu:
            return -1
        raise ValueError("Expected a non cpu device, but got: %s" % (device,))
    if place.index is None and not optional:
        raise ValueError("Expected a cairn.device with a specified index or an integer, but got: %s" % (device,))
    return place.index or 0


def _get_available_device_type() -> str | None:
    return "cuda" if _C._device_count("cuda") else None


def _flatten_dense_tensors(tensors: Sequence[Tensor]) -> Tensor:
    """The elements of tensors of one type, one after the other."""
    return _C.cat([t.contiguous().view(-1) for t in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Pieces of a flat tensor, of the shapes of others."""
    parts = flat.split([t.numel() for t in tensors])
    return tuple(part.view(t.shape) for part, t in zip(parts, tensors))


def _take_tensors(tensors: Iterable[Tensor], size_limit: int) -> Iterable[list[Tensor]]:
    """Groups of tensors of one type, each of about so many bytes."""
    groups: dict[str, tuple[list[Tensor], int]] = {}
    for t in tensors:
        kind = str(t.type())
        group, size = groups.get(kind, ([], 0))
        own = t.numel() * t.element_size()
        if group and size + own > size_limit:
            yield group
            group, size = [], 0
        groups[kind] = ([*group, t], size + own)
    for group, _ in groups.values():
        if group:
            yield group


def _rebuild_tensor(storage: Any, storage_offset: int, size: Any, stride: Any) -> Tensor:
    """A tensor over a storage."""
    t = _C.empty((0,), dtype=storage._typed.dtype, device=storage.device)
    made: Tensor = t.set_(storage, storage_offset, size, stride)
    return made


def _rebuild_tensor_v2(storage: Any, storage_offset: int, size: Any, stride: Any, requires_grad: bool,
                       backward_hooks: Any, metadata: Any = None) -> Tensor:
    """The same with its flag."""
    if backward_hooks or metadata:
        raise NotImplementedError("_rebuild_tensor_v2: hooks and metadata are not read")
    return _rebuild_tensor(storage, storage_offset, size, stride).requires_grad_(requires_grad)


def _rebuild_parameter(data: Tensor, requires_grad: bool, backward_hooks: Any) -> Any:
    """A parameter of these values."""
    from .nn import Parameter
    if backward_hooks:
        raise NotImplementedError("_rebuild_parameter: hooks are not read")
    return Parameter(data, requires_grad)


def _element_size(dtype: _C.dtype) -> int:
    """Bytes of one element."""
    return dtype.itemsize


def _get_device_module(device_type: str) -> Any:
    """cairn.cuda, say, for "cuda"."""
    from importlib import import_module
    if device_type not in ("cpu", "cuda", "mps", "xpu"):
        raise RuntimeError("Device '%s' does not have a corresponding module registered as 'torch.%s'."
                           % (device_type, device_type))
    return import_module("." + device_type, __package__)
