"""Samples put together to a batch: numbers and arrays become tensors, tensors are stacked, containers keep their
form."""
from __future__ import annotations

import collections.abc
import copy
from typing import Any, Callable

from ... import _C
from ..._tensor import Tensor

__all__ = ["default_collate", "default_convert", "pinned"]


def pinned(data: Any, device: str = "") -> Any:
    """The same in memory that a device (the first CUDA device) reads by itself: tensors, containers of them, and what
    has a pin_memory()."""
    if isinstance(data, (str, bytes)):
        return data
    if hasattr(data, "pin_memory"):
        return data.pin_memory(device) if device and isinstance(data, Tensor) else data.pin_memory()
    if isinstance(data, collections.abc.Mapping):
        return _like_mapping(data, {key: pinned(value, device) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(pinned(value, device) for value in data))
    if isinstance(data, (tuple, collections.abc.Sequence)):
        return _like_sequence(data, [pinned(value, device) for value in data])
    return data


def _numpy_kind(value: Any) -> str:
    """"array" or "scalar" of numpy, "" for everything else; does not import numpy."""
    kind = type(value)
    if not kind.__module__.startswith("numpy") or kind.__name__ in ("str_", "bytes_", "string_"):
        return ""
    return "array" if kind.__name__ in ("ndarray", "memmap") else "scalar" if hasattr(value, "dtype") else ""


def _has_text(array: Any) -> bool:
    return array.dtype.kind in "SUO"


def _like_mapping(model: Any, made: dict[Any, Any]) -> Any:
    try:
        if isinstance(model, collections.abc.MutableMapping) and type(model) is not dict:
            filled = copy.copy(model)
            filled.update(made)
            return filled
        return type(model)(made)
    except TypeError:
        return made


def _like_sequence(model: Any, made: list[Any]) -> Any:
    try:
        if isinstance(model, collections.abc.MutableSequence) and type(model) is not list:
            filled = copy.copy(model)
            for i, value in enumerate(made):
                filled[i] = value
            return filled
        return type(model)(made)
    except TypeError:
        return made


def default_convert(data: Any) -> Any:
    """numpy's arrays and numbers as tensors, in containers as well; everything else as it is."""
    if isinstance(data, (Tensor, str, bytes)):
        return data
    kind = _numpy_kind(data)
    if kind:
        return data if kind == "array" and _has_text(data) else _C.as_tensor(data)
    if isinstance(data, collections.abc.Mapping):
        return _like_mapping(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, tuple) and hasattr(data, "_fields"):
        return type(data)(*(default_convert(value) for value in data))
    if isinstance(data, tuple):
        return [default_convert(value) for value in data]
    if isinstance(data, collections.abc.Sequence):
        return _like_sequence(data, [default_convert(value) for value in data])
    return data


def _collate_arrays(batch: list[Any]) -> Any:
    if _has_text(batch[0]):
        raise TypeError("default_collate: cannot put %s together; give DataLoader a collate_fn"
                        % batch[0].dtype)
    return default_collate([_C.as_tensor(value) for value in batch])


def _columns(batch: list[Any]) -> Any:
    """The samples' first elements, their second ones, ..."""
    size = len(batch[0])
    if any(len(sample) != size for sample in batch):
        raise RuntimeError("default_collate: the samples are lists of different lengths")
    return zip(*batch)


_SIMPLE: list[tuple[type | tuple[type, ...], Callable[[list[Any]], Any]]] = [
    (Tensor, lambda batch: _C.stack(batch, 0)),
    (float, lambda batch: _C.tensor(batch, dtype=_C.float64)),
    (int, lambda batch: _C.tensor(batch)),
]


def default_collate(batch: Any) -> Any:
    """A batch of samples: tensors are stacked along a new first dimension, numbers become tensors (floats float64, ints
    int64), texts stay as they are, and dictionaries, named tuples, tuples and lists are collated by field."""
    model = batch[0]
    if isinstance(model, (str, bytes)):
        return batch
    for kinds, collate in _SIMPLE:
        if isinstance(model, kinds):
            return collate(list(batch))
    numpy = _numpy_kind(model)
    if numpy:
        return _collate_arrays(batch) if numpy == "array" else _C.as_tensor(_stack_scalars(batch))
    if isinstance(model, collections.abc.Mapping):
        return _like_mapping(model, {key: default_collate([sample[key] for sample in batch]) for key in model})
    if isinstance(model, tuple) and hasattr(model, "_fields"):
        return type(model)(*(default_collate(column) for column in zip(*batch)))
    if isinstance(model, tuple):
        return [default_collate(column) for column in _columns(batch)]
    if isinstance(model, collections.abc.Sequence):
        return _like_sequence(model, [default_collate(column) for column in _columns(batch)])
    raise TypeError("default_collate: cannot put %s together; give DataLoader a collate_fn"
                    % type(model))


def _stack_scalars(batch: list[Any]) -> Any:
    """numpy's scalars as one array of their type."""
    import numpy
    return numpy.stack(batch)
