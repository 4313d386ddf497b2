"""cairn.sharding: one program for several devices of a platform: tensors that are split over them.

    mesh = cairn.Mesh({"data": 4, "model": 2})               # eight devices, as a grid with named axes
    mesh.place(net, {"*.up.weight": ("model",)})             # parameters: whole on each device, or split
    for images, labels in loader:
        step(mesh.shard(images, "data"), mesh.shard(labels, "data"))

Place in the flow: a mesh is a device (mesh.device); what runs on it is compiled for all of its devices at once, and the
compiler splits the work as the tensors are split. Invariant: results are those of one device. See docs/TPU.md.
"""
from __future__ import annotations

import fnmatch
import math
from typing import Any, Mapping, Sequence, Union

from . import _C, nn
from ._tensor import Tensor

__all__ = ["Mesh", "of"]

_Dim = Union[str, Sequence[str], None]


def _text(dims: Sequence[_Dim]) -> str:
    """("data", None, ("a", "b")) as the library reads it: "data, *, a+b"."""
    for dim in dims:
        several = isinstance(dim, (tuple, list)) and all(isinstance(axis, str) for axis in dim)
        if not (several or dim is None or isinstance(dim, str)):
            raise TypeError("shard: a dim is split by an axis' name, several names, or None, not %r" % (dim,))
    return ", ".join("*" if not dim else dim if isinstance(dim, str) else "+".join(dim) for dim in dims)


def of(tensor: Tensor) -> tuple[_Dim, ...]:
    """How a tensor on a mesh is split: for each dim an axis, several, or None."""
    parts = [part.strip() for part in _C._sharding(tensor).split(",")]
    dims: list[_Dim] = [None if part in ("", "*") else tuple(part.split("+")) if "+" in part else part
                        for part in parts]
    return tuple((dims + [None] * tensor.ndim)[:tensor.ndim])


class Mesh:
    """Devices as a grid whose axes have names. devices: as many as the grid has places, row by row; by default the
    first ones of the PJRT platform. They are looked for when a tensor goes there: a mesh for exported programs alone
    needs none."""

    def __init__(self, axes: Mapping[str, int], devices: Sequence[Any] | None = None) -> None:
        self.axes = dict(axes)
        self.size = math.prod(self.axes.values())
        self._devices = None if devices is None else list(devices)
        self._device: _C.device | None = None
        if devices is not None and len(devices) != self.size:
            raise ValueError("mesh: its axes have %d places, and there are %d devices" % (self.size, len(devices)))

    @property
    def device(self) -> _C.device:
        """The device that stands for all of them: a tensor that is moved there lies whole on each."""
        if self._device is None:
            devices = self._devices or ["pjrt:%d" % i for i in range(self.size)]
            self._device = _C._mesh_device(list(self.axes.items()), devices)
        return self._device

    def shard(self, tensor: Tensor, *dims: _Dim) -> Tensor:
        """The tensor on the mesh, split: dims names for each dim the axis that splits it, several, or None; what is
        left out is not split. Also inside of compiled functions, where it says how a result is to lie."""
        return _C.shard(tensor if tensor.device == self.device else tensor.to(self.device), _text(dims))

    def place(self, module: nn.Module, splits: Mapping[str, Sequence[_Dim]] | None = None) -> nn.Module:
        """Moves a module there, in place. splits: how parameters and buffers are split whose names fit a pattern
        ("*.weight"), by the first that fits; others lie whole on each device."""
        splits, used = splits or {}, set()
        for name, tensor in [*module.named_parameters(), *module.named_buffers()]:
            pattern = next((p for p in splits if fnmatch.fnmatchcase(name, p)), None)
            used.add(pattern)
            tensor.data = self.shard(tensor.detach(), *(splits[pattern] if pattern is not None else ()))
        unused = [p for p in splits if p not in used]
        if unused:
            raise ValueError("place: no parameter or buffer has a name like %s" % ", ".join(map(repr, unused)))
        return module

    def __repr__(self) -> str:
        return "Mesh(%r)" % (self.axes,)
