"""DataParallel: a module on the device that its parameters are on. torch splits batches over several devices; here
there is one, so a list that names more is refused, and so is one that names a device that is not there.
"""
from __future__ import annotations

from typing import Any, Sequence

from ... import _C
from ..._tensor import Tensor
from ..module import Module

__all__ = ["DataParallel", "data_parallel"]


def _the_device(where: str, device_ids: Sequence[Any] | None, output_device: Any) -> _C.device | None:
    """The device that is meant; None: the module's own, wherever that is."""
    named = [] if device_ids is None else list(device_ids)
    if len(named) > 1:
        raise NotImplementedError("%s: device_ids=%r: one device is supported, not %d" % (where, named, len(named)))
    if output_device is not None:
        named.append(output_device)
    places = {str(_existing(where, place)) for place in named}
    if len(places) > 1:
        raise NotImplementedError("%s: the module's device and output_device differ: %s" % (where, sorted(places)))
    return _C.device(places.pop()) if places else None


def _existing(where: str, place: Any) -> _C.device:
    """A device by name, number (of CUDA) or object."""
    if isinstance(place, int):
        place = "cuda:%d" % place
    device = _C.device(place)
    if device.type == "cuda" and not 0 <= (device.index or 0) < _C._device_count("cuda"):
        raise RuntimeError("%s: there is no device %s here; there are %d CUDA devices" % (
            where, device, _C._device_count("cuda")))
    return _C.device("cuda:%d" % (device.index or 0)) if device.type == "cuda" else device


def _moved(value: Any, device: _C.device) -> Any:
    """Tensors in it on that device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(_moved(v, device) for v in value)
    return {k: _moved(v, device) for k, v in value.items()} if isinstance(value, dict) else value


class DataParallel(Module):
    """The module on one device: inputs are moved there where device_ids names it, and calls go through."""

    def __init__(self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                 dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.dim = dim
        self.src_device_obj = _the_device("DataParallel", device_ids, output_device)
        self.device_ids = [] if device_ids is None else list(device_ids)
        if self.src_device_obj is not None:
            module.to(self.src_device_obj)

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        if self.src_device_obj is not None:
            inputs, kwargs = _moved(inputs, self.src_device_obj), _moved(kwargs, self.src_device_obj)
        return self.module(*inputs, **kwargs)


def data_parallel(module: Module, inputs: Any, device_ids: Sequence[Any] | None = None, output_device: Any = None,
                  dim: int = 0, module_kwargs: Any = None) -> Any:
    """module(*inputs) on one device."""
    given = inputs if isinstance(inputs, tuple) else (inputs,)
    return DataParallel(module, device_ids, output_device, dim)(*given, **(module_kwargs or {}))
