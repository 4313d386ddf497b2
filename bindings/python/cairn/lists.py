"""cairn.lists: lists of tensors as values that graphs can hold, of any length. See cairn/lists.h.

Place in the flow: a TensorList is a pair of tensors, so that compiled functions, traces and files take it like any
named tuple of tensors. Its length, and the sizes of a member at an index that is computed, may be known to a run alone.
Invariant: data has as many elements as the shapes say.
"""
from __future__ import annotations

from typing import NamedTuple, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["TensorList", "empty", "make", "rows", "split"]


def _index(index: int | Tensor, like: Tensor) -> Tensor:
    return index if isinstance(index, Tensor) else _C.tensor([index], dtype=_C.int64, device=like.device)


class TensorList(NamedTuple):
    """Members of one type and one number of dimensions; methods give new lists."""
    data: Tensor
    shapes: Tensor

    def length(self) -> Tensor:
        """How many members there are, an int64 of no dimensions."""
        return _C._lists("list_length", [self.data, self.shapes], None, None)[0]

    def at(self, index: int | Tensor, shape: Sequence[int] | None = None) -> Tensor:
        """A member; shape: its sizes as far as they are known, -1 where one is not."""
        given: list[Tensor | None] = [self.data, self.shapes, _index(index, self.data)]
        return _C._lists("list_at", given, shape, None)[0]

    def append(self, tensor: Tensor) -> TensorList:
        """With one more member at the end."""
        return TensorList(*_C._lists("list_insert", [self.data, self.shapes, tensor, None], None, None))

    def insert(self, index: int | Tensor, tensor: Tensor) -> TensorList:
        """With one more member at this place."""
        at = _index(index, self.data)
        return TensorList(*_C._lists("list_insert", [self.data, self.shapes, tensor, at], None, None))

    def erase(self, index: int | Tensor | None = None) -> TensorList:
        """Without the member at this place, or the last one."""
        at = None if index is None else _index(index, self.data)
        return TensorList(*_C._lists("list_erase", [self.data, self.shapes, at], None, None))

    def take(self, indices: Tensor) -> TensorList:
        """The members at these places (an int64 vector), in this order."""
        return TensorList(*_C._lists("list_take", [self.data, self.shapes, indices], None, None))

    def concat(self, dim: int = 0, shape: Sequence[int] | None = None) -> Tensor:
        """All members joined along dim; shape: as at's."""
        return _C._lists("list_concat", [self.data, self.shapes], [dim, *(shape or ())], None)[0]

    def stack(self, dim: int = 0, shape: Sequence[int] | None = None) -> Tensor:
        """All members joined along a new dimension; shape: as at's."""
        return _C._lists("list_stack", [self.data, self.shapes], [dim, *(shape or ())], None)[0]


def make(tensors: Sequence[Tensor]) -> TensorList:
    """A list of these tensors, of which there is at least one."""
    return TensorList(*_C._lists("list_make", list(tensors), None, None))


def empty(dtype: _C.dtype, ndim: int) -> TensorList:
    """A list of no members, that is to have members of this type and number of dimensions."""
    return TensorList(*_C._lists("list_empty", [], [ndim], dtype))


def rows(x: Tensor) -> TensorList:
    """x[0], x[1] and so on."""
    return TensorList(*_C._lists("list_rows", [x], None, None))


def split(x: Tensor, sizes: Sequence[int] | Tensor, dim: int = 0, keepdim: bool = True) -> TensorList:
    """x cut along dim into pieces of these sizes; without keepdim the sizes are 1, and the dimension goes."""
    if not isinstance(sizes, Tensor):
        sizes = _C.tensor(list(sizes), dtype=_C.int64, device=x.device)
    return TensorList(*_C._lists("list_split", [x, sizes], [dim, int(keepdim)], None))
