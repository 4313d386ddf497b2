"""Samples become a batch by their types: collate, and what default_collate does with each type."""
from __future__ import annotations

import collections.abc
import re
from typing import Any, Callable

from .... import _C
from ...._tensor import Tensor
from .._collate import _collate_arrays, _like_mapping, _like_sequence, _stack_scalars, default_collate, default_convert

__all__ = ["collate", "collate_float_fn", "collate_int_fn", "collate_numpy_array_fn", "collate_str_fn",
           "collate_tensor_fn", "default_collate", "default_collate_fn_map", "default_convert",
           "np_str_obj_array_pattern"]

np_str_obj_array_pattern = re.compile(r"[SaUO]")
_Functions = dict[Any, Callable[..., Any]]


def collate_tensor_fn(batch: list[Tensor], *,
                      collate_fn_map: _Functions | None = None) -> Tensor:  # unused: collate_fn_map (the protocol)
    """Tensors stacked."""
    return _C.stack(batch, 0)


def collate_numpy_array_fn(batch: list[Any], *,
                           collate_fn_map: _Functions | None = None) -> Any:  # unused: collate_fn_map (the protocol)
    """Arrays as a tensor."""
    return _collate_arrays(batch)


def collate_float_fn(batch: list[float], *,
                     collate_fn_map: _Functions | None = None) -> Any:  # unused: collate_fn_map (the protocol)
    """Floats as a tensor."""
    return _stack_scalars(batch)


collate_int_fn = collate_float_fn


def collate_str_fn(batch: list[Any], *,
                   collate_fn_map: _Functions | None = None) -> list[Any]:  # unused: collate_fn_map (the protocol)
    """Texts as they are."""
    return batch


default_collate_fn_map: _Functions = {Tensor: collate_tensor_fn, float: collate_float_fn, int: collate_int_fn,
                                      str: collate_str_fn, bytes: collate_str_fn}


def collate(batch: list[Any], *, collate_fn_map: _Functions | None = None) -> Any:
    """Samples as a batch: by the function of their type, or of a class that it derives from; inside of dictionaries and
    sequences likewise."""
    first = batch[0]
    functions = collate_fn_map or {}
    if type(first) in functions:
        return functions[type(first)](batch, collate_fn_map=functions)
    for kind, function in functions.items():
        if isinstance(first, kind):
            return function(batch, collate_fn_map=functions)
    if isinstance(first, collections.abc.Mapping):
        return _like_mapping(first, {key: collate([d[key] for d in batch], collate_fn_map=functions) for key in first})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(collate(list(column), collate_fn_map=functions) for column in zip(*batch)))
    if isinstance(first, collections.abc.Sequence):
        if any(len(one) != len(first) for one in batch):
            raise RuntimeError("each element in list of batch should be of equal size")
        columns = [collate(list(column), collate_fn_map=functions) for column in zip(*batch)]
        return _like_sequence(first, columns) if not isinstance(first, tuple) else columns
    raise TypeError("default_collate: batch must contain tensors, numpy arrays, numbers, dicts or lists; found %s"
                    % type(first))
