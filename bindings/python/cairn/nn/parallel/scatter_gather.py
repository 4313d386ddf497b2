"""Batches in pieces, a piece for each device: scatter, gather.

Place in the flow: programs that split batches by themselves. Invariant: gather(scatter(x)) is x."""
from __future__ import annotations

from typing import Any, Sequence

from ... import _C
from ..._tensor import Tensor
from .data_parallel import _existing

__all__ = ["gather", "is_namedtuple", "scatter", "scatter_kwargs"]


def is_namedtuple(obj: Any) -> bool:
    """Is it a named tuple?"""
    return isinstance(obj, tuple) and hasattr(obj, "_asdict") and hasattr(obj, "_fields")


def _pieces(value: Any, devices: list[Any], dim: int) -> list[Any]:
    if isinstance(value, Tensor):
        return [part.to(device) for part, device in zip(value.chunk(len(devices), dim), devices)]
    if is_namedtuple(value):
        return [type(value)(*row) for row in zip(*(_pieces(v, devices, dim) for v in value))]
    if isinstance(value, (tuple, list)) and value:
        return [type(value)(row) for row in zip(*(_pieces(v, devices, dim) for v in value))]
    if isinstance(value, dict) and value:
        columns = [_pieces(v, devices, dim) for v in value.values()]
        return [type(value)(zip(value, row)) for row in zip(*columns)]
    return [value for _ in devices]


def scatter(inputs: Any, target_gpus: Sequence[Any], dim: int = 0) -> Any:
    """For each device a piece of the tensors in a nested value; what is no tensor goes to all."""
    return _pieces(inputs, [_existing("scatter", d) for d in target_gpus], dim)


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Sequence[Any], dim: int = 0) -> tuple[Any, Any]:
    """The same of arguments and keywords; as many of both."""
    given = list(scatter(inputs, target_gpus, dim)) if inputs else []
    named = list(scatter(kwargs, target_gpus, dim)) if kwargs else []
    given += [()] * (len(named) - len(given))
    named += [{}] * (len(given) - len(named))
    return tuple(given), tuple(named)


def gather(outputs: Any, target_device: Any, dim: int = 0) -> Any:
    """Pieces as one value on a device."""
    first = outputs[0]
    if isinstance(first, Tensor):
        moved = [o.to(_existing("gather", target_device)) for o in outputs]
        return _C.cat([o.unsqueeze(0) if o.ndim == 0 else o for o in moved], dim)
    if first is None:
        return None
    if isinstance(first, dict):
        if any(len(o) != len(first) for o in outputs):
            raise ValueError("All dicts must have the same number of keys")
        return type(first)((k, gather([o[k] for o in outputs], target_device, dim)) for k in first)
    columns = [gather(list(column), target_device, dim) for column in zip(*outputs)]
    return type(first)(*columns) if is_namedtuple(first) else type(first)(columns)
