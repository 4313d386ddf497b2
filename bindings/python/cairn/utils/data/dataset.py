"""Data sets: by number (Dataset) or as a stream (IterableDataset), and those made of others."""
from __future__ import annotations

import bisect
import itertools
import math
import warnings
from typing import Any, Generic, Iterable, Iterator, Sequence, TypeVar

from ... import _C
from ..._tensor import Tensor

__all__ = ["Dataset", "IterableDataset", "TensorDataset", "StackDataset", "ConcatDataset", "ChainDataset", "Subset",
           "random_split"]

_T = TypeVar("_T")
_T_co = TypeVar("_T_co", covariant=True)


class Dataset(Generic[_T_co]):
    """Samples by number: a subclass has __getitem__, and most also __len__. `a + b` puts two behind each other."""

    def __getitem__(self, index: Any) -> _T_co:
        raise NotImplementedError("%s has no __getitem__" % type(self).__name__)

    def __add__(self, other: Dataset[_T_co]) -> ConcatDataset[_T_co]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[_T_co], Iterable[_T_co]):
    """Samples as a stream: a subclass has __iter__. With workers each iterates by itself; get_worker_info() tells them
    apart, so that each can take its part."""

    def __add__(self, other: Dataset[_T_co]) -> ChainDataset[_T_co]:  # type: ignore[override]
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Tensor, ...]]):
    """Sample i is row i of each tensor."""

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        if any(t.shape[0] != tensors[0].shape[0] for t in tensors):
            raise AssertionError("TensorDataset: the tensors have %s rows"
                                 % ", ".join(str(t.shape[0]) for t in tensors))
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Tensor, ...]:
        return tuple(t[index] for t in self.tensors)

    def __len__(self) -> int:
        return self.tensors[0].shape[0]

    def _native(self) -> _C.NativeDataset | None:
        """In memory of the host, in one piece, without history: then the library takes whole batches."""
        for t in self.tensors:
            if not t.is_cpu or t.requires_grad or not t.is_contiguous() or t.ndim > 7:
                return None
        return _C._dataset_tensors(self.tensors) if 0 < len(self.tensors) <= 8 else None


class StackDataset(Dataset[Any]):
    """Several data sets side by side: sample i is a tuple (or, given by name, a dictionary) of theirs."""

    datasets: tuple[Any, ...] | dict[str, Any]

    def __init__(self, *args: Dataset[Any], **kwargs: Dataset[Any]) -> None:
        if args and kwargs:
            raise ValueError("data sets are given either by position or by name, not both")
        if not args and not kwargs:
            raise ValueError("StackDataset: of no data sets")
        self.datasets = args or kwargs
        parts: list[Any] = list(args or kwargs.values())
        self._length = len(parts[0])
        if any(len(p) != self._length for p in parts):
            raise ValueError("StackDataset: the data sets have %s samples"
                             % ", ".join(str(len(p)) for p in parts))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: d[index] for name, d in self.datasets.items()}
        return tuple(d[index] for d in self.datasets)

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[_T_co]):
    """Data sets one behind the other."""

    datasets: list[Dataset[_T_co]]
    cumulative_sizes: list[int]

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise AssertionError("ConcatDataset: of no data sets")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise AssertionError("ConcatDataset takes samples by number; ChainDataset is for streams")
        self.cumulative_sizes = self.cumsum(self.datasets)

    @staticmethod
    def cumsum(sequence: Sequence[Any]) -> list[int]:
        """How many samples there are up to and with each."""
        return list(itertools.accumulate(len(d) for d in sequence))

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]

    def __getitem__(self, index: int) -> _T_co:
        if index < 0:
            if -index > len(self):
                raise ValueError("there is no sample %d among %d" % (index, len(self)))
            index += len(self)
        part = bisect.bisect_right(self.cumulative_sizes, index)
        if part == len(self.datasets):
            raise IndexError("there is no sample %d among %d" % (index, len(self)))
        return self.datasets[part][index - (self.cumulative_sizes[part - 1] if part else 0)]

    def _native(self) -> _C.NativeDataset | None:
        parts = [native_of(d) for d in self.datasets]
        return None if None in parts else _C._dataset_concat(tuple(parts))


class ChainDataset(IterableDataset[_T_co]):
    """Streams one behind the other."""

    def __init__(self, datasets: Iterable[Dataset[Any]]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[_T_co]:
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset is for streams (IterableDataset)")
            yield from d

    def __len__(self) -> int:
        total = 0
        for d in self.datasets:
            if not isinstance(d, IterableDataset):
                raise AssertionError("ChainDataset is for streams (IterableDataset)")
            total += len(d)  # type: ignore[arg-type]
        return total


class Subset(Dataset[_T_co]):
    """The samples of a data set that a list of numbers names."""

    dataset: Dataset[_T_co]
    indices: Sequence[int]

    def __init__(self, dataset: Dataset[_T_co], indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, idx: Any) -> _T_co:
        if isinstance(idx, list):
            return self.dataset[[self.indices[i] for i in idx]]
        return self.dataset[self.indices[idx]]

    def __getitems__(self, indices: list[int]) -> list[_T_co]:
        """Many at once, where the data set below can."""
        below = [self.indices[i] for i in indices]
        many = getattr(self.dataset, "__getitems__", None)
        return list(many(below)) if callable(many) else [self.dataset[i] for i in below]

    def __len__(self) -> int:
        return len(self.indices)

    def _native(self) -> _C.NativeDataset | None:
        below = native_of(self.dataset)
        if below is None:
            return None
        row = _C.tensor([int(i) for i in self.indices], dtype=_C.int64)
        return below.subset(_C.where(row < 0, row + len(below), row))


def native_of(dataset: Any) -> _C.NativeDataset | None:
    """The data set as one of the library, where it is one as a whole: a subclass that changes __getitem__ is not."""
    for kind in type(dataset).__mro__:
        if "__getitem__" in vars(kind) or "__getitems__" in vars(kind):
            native = vars(kind).get("_native")
            return None if native is None else native(dataset)
    return None


def _sizes(lengths: Sequence[int | float], n: int) -> list[int]:
    """Fractions as counts: each rounded down, and what is left goes to the first ones, one each."""
    if not (math.isclose(sum(lengths), 1) and sum(lengths) <= 1):
        return [int(k) for k in lengths]
    for i, part in enumerate(lengths):
        if part < 0 or part > 1:
            raise ValueError("random_split: fraction %d lies outside [0, 1]" % i)
    sizes = [math.floor(n * part) for part in lengths]
    for i in range(n - sum(sizes)):
        sizes[i % len(sizes)] += 1
    for i, size in enumerate(sizes):
        if size == 0:
            warnings.warn("random_split: part %d gets no samples" % i)
    return sizes


def random_split(dataset: Dataset[_T], lengths: Sequence[int | float],
                 generator: _C.Generator | None = _C.default_generator) -> list[Subset[_T]]:
    """Splits at random into parts of these lengths, or fractions that add up to 1, without overlap."""
    n = len(dataset)  # type: ignore[arg-type]
    sizes = _sizes(lengths, n)
    if sum(sizes) != n:
        raise ValueError("random_split: the lengths %s do not add up to %d" % (list(lengths), n))
    order = _C.randperm(n, generator=generator).tolist()
    ends = list(itertools.accumulate(sizes))
    return [Subset(dataset, order[end - size:end]) for end, size in zip(ends, sizes)]
