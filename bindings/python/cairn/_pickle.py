"""Pickling and copying of tensors.

A pickled tensor is its elements as bytes, with dtype, shape and memory order; views do not stay views. What is read
back is a leaf: requires_grad is kept, a history is not.
"""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Callable, SupportsIndex

from . import _C

if TYPE_CHECKING:
    from ._tensor import Tensor

__all__: list[str] = []


def _order(t: Tensor) -> tuple[int, ...]:
    """Its dims from the widest stride to the narrowest, where the elements lie without gaps in that order; else as
    they are."""
    dims = tuple(range(t.ndim))
    if t.is_contiguous() or t.numel() == 0:
        return dims
    stride, shape = t.stride(), t.shape
    dims = tuple(sorted(dims, key=lambda i: (-stride[i], -shape[i])))
    step = 1
    for i in reversed(dims):
        if shape[i] != 1 and stride[i] != step:
            return tuple(range(t.ndim))
        step *= shape[i]
    return dims


def _rebuild(cls: type[Tensor], data: bytes, dtype: str, shape: tuple[int, ...], order: tuple[int, ...], device: str,
             requires_grad: bool, state: dict[str, Any] | None) -> Tensor:
    """The tensor that _reduce_ex took apart."""
    t = _C._from_bytes(data, getattr(_C, dtype), tuple(shape[i] for i in order))
    if tuple(order) != tuple(range(len(order))):
        back = [0] * len(order)
        for place, dim in enumerate(order):
            back[dim] = place
        t = t.permute(back)
    if device != "cpu":
        t = t.to(device)
    return _finish(cls, t, requires_grad, state)


def _finish(cls: type[Tensor], t: Tensor, requires_grad: bool, state: dict[str, Any] | None) -> Tensor:
    """t (which requires no gradient) as an object of class cls."""
    if type(t) is not cls:
        t = _C.TensorBase.__new__(cls, t)
    if requires_grad:
        t.requires_grad_(True)
    if state:
        t.__dict__.update(state)
    return t


def _rebuild_sparse(cls: type[Tensor], layout: Any, data: tuple[Any, ...], requires_grad: bool,
                    state: dict[str, Any] | None) -> Tensor:
    from . import _archive

    return _finish(cls, _archive._rebuild_sparse(layout, data), requires_grad, state)


def _reduce_ex(self: Tensor, _protocol: SupportsIndex) -> tuple[Callable[..., Tensor], tuple[Any, ...]]:
    plain = self.detach()
    if plain.layout != _C.strided:
        from . import _archive

        more = (plain.is_coalesced(),) if plain.is_sparse else ()
        data = (*_archive._parts(plain), tuple(plain.shape), *more)
        return _rebuild_sparse, (type(self), plain.layout, data, self.requires_grad,
                                 getattr(self, "__dict__", None) or None)
    order = _order(plain)
    memory = _C._to_bytes(plain.permute(order) if plain.ndim else plain)
    state = getattr(self, "__dict__", None) or None
    return _rebuild, (type(self), memory, str(self.dtype).rpartition(".")[2], tuple(self.shape), order,
                      str(self.device), self.requires_grad, state)


def _copy(self: Tensor) -> Tensor:
    """copy.copy: another tensor over the same memory, a leaf."""
    return _finish(type(self), self.detach(), self.requires_grad, dict(getattr(self, "__dict__", None) or {}))


def _deepcopy(self: Tensor, memo: dict[int, Any]) -> Tensor:
    """copy.deepcopy: a tensor of its own, with its gradient. Results of ops cannot be copied so: their history could
    not be."""
    if not self.is_leaf:
        raise RuntimeError("Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol: "
                           "detach() or clone() this one")
    if id(self) in memo:
        known: Tensor = memo[id(self)]
        return known
    made = _finish(type(self), self.detach().clone(), self.requires_grad, None)
    memo[id(self)] = made
    if self.grad is not None:
        made.grad = copy.deepcopy(self.grad, memo)
    state = getattr(self, "__dict__", None)
    if state:
        made.__dict__.update(copy.deepcopy(state, memo))
    return made
