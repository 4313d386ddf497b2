"""Pipes over samples by key: pipe.map, batch, zip, concat."""
from __future__ import annotations

import copy
from typing import Any, Callable, Iterator, Sequence

from .datapipe import MapDataPipe, functional_datapipe

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Zipper"]


class SequenceWrapper(MapDataPipe[Any]):
    """The samples of a list or dictionary; of a deep copy, unless deepcopy is False."""

    def __init__(self, sequence: Any, deepcopy: bool = True) -> None:
        self.sequence = copy.deepcopy(sequence) if deepcopy else sequence

    def __getitem__(self, index: Any) -> Any:
        return self.sequence[index]

    def __len__(self) -> int:
        return len(self.sequence)


@functional_datapipe("map")
class Mapper(MapDataPipe[Any]):
    """fn of each sample."""

    def __init__(self, datapipe: Any, fn: Callable[[Any], Any]) -> None:
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index: Any) -> Any:
        return self.fn(self.datapipe[index])

    def __len__(self) -> int:
        return len(self.datapipe)


@functional_datapipe("batch")
class Batcher(MapDataPipe[Any]):
    """Lists of batch_size samples, those of keys 0 to batch_size - 1 first."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False,
                 wrapper_class: Callable[[list[Any]], Any] = list) -> None:
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.datapipe, self.batch_size = datapipe, batch_size
        self.drop_last, self.wrapper_class = drop_last, wrapper_class

    def __getitem__(self, index: int) -> Any:
        keys = range(index * self.batch_size, min((index + 1) * self.batch_size, len(self.datapipe)))
        if not keys or (self.drop_last and len(keys) < self.batch_size):
            raise IndexError("Index %d is out of bound." % index)
        return self.wrapper_class([self.datapipe[k] for k in keys])

    def __len__(self) -> int:
        count = len(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


class _Several(MapDataPipe[Any]):
    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes: Sequence[Any] = datapipes


@functional_datapipe("zip")
class Zipper(_Several):
    """Tuples of the samples of a key."""

    def __getitem__(self, index: Any) -> Any:
        return tuple(pipe[index] for pipe in self.datapipes)

    def __len__(self) -> int:
        return min(map(len, self.datapipes))


@functional_datapipe("concat")
class Concater(_Several):
    """The keys of one after those of the other."""

    def __getitem__(self, index: int) -> Any:
        at = index
        for pipe in self.datapipes:
            if at < len(pipe):
                return pipe[at]
            at -= len(pipe)
        raise IndexError("Index %d is out of range." % index)

    def __len__(self) -> int:
        return sum(map(len, self.datapipes))

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))
