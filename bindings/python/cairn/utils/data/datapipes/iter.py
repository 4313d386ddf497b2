"""Pipes over streams: pipe.map, filter, batch, unbatch, collate, shuffle, zip, concat, sharding_filter."""
from __future__ import annotations

import copy
import itertools
from typing import Any, Callable, Iterable, Iterator, Sized

from ... import data as _data
from .datapipe import IterDataPipe, functional_datapipe

__all__ = ["Batcher", "Collator", "Concater", "Filter", "IterableWrapper", "Mapper", "Sampler", "ShardingFilter",
           "Shuffler", "UnBatcher", "Zipper"]


def _length(pipe: Any) -> int:
    if isinstance(pipe, Sized):
        return len(pipe)
    raise TypeError("%s instance doesn't have valid length" % type(pipe).__name__)


class IterableWrapper(IterDataPipe[Any]):
    """What an iterable gives; a deep copy of it each time, unless deepcopy is False."""

    def __init__(self, iterable: Iterable[Any], deepcopy: bool = True) -> None:
        self.iterable, self.deepcopy = iterable, deepcopy

    def __iter__(self) -> Iterator[Any]:
        source = self.iterable
        if self.deepcopy:
            try:
                source = copy.deepcopy(source)
            except TypeError:
                pass  # what cannot be copied is read as it is
        return iter(source)

    def __len__(self) -> int:
        return _length(self.iterable)


class _Around(IterDataPipe[Any]):
    """A pipe around one other."""

    def __init__(self, datapipe: Any) -> None:
        self.datapipe = datapipe

    def __len__(self) -> int:
        return _length(self.datapipe)


@functional_datapipe("map")
class Mapper(_Around):
    """fn of each sample; of one column of it (a list or tuple's place, a dictionary's key), or several, if input_col
    says so, put back there or at output_col (-1: behind the others)."""

    def __init__(self, datapipe: Any, fn: Callable[..., Any], input_col: Any = None, output_col: Any = None) -> None:
        super().__init__(datapipe)
        if input_col is None and output_col is not None:
            raise ValueError("`output_col` must be None when `input_col` is None.")
        if isinstance(output_col, (list, tuple)):
            if len(output_col) > 1:
                raise ValueError("`output_col` must be a single-element list or tuple")
            output_col = output_col[0]
        self.fn, self.input_col, self.output_col = fn, input_col, output_col

    def _one(self, sample: Any) -> Any:
        if self.input_col is None:
            return self.fn(sample)
        several = isinstance(self.input_col, (list, tuple))
        result = self.fn(*(sample[c] for c in self.input_col)) if several else self.fn(sample[self.input_col])
        row = list(sample) if isinstance(sample, tuple) else copy.copy(sample)
        if self.output_col is None:
            row[self.input_col[0] if several else self.input_col] = result
            for extra in sorted(self.input_col[1:], reverse=True) if several else ():
                del row[extra]
        elif self.output_col == -1:
            row.append(result)
        else:
            row[self.output_col] = result
        return tuple(row) if isinstance(sample, tuple) else row

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            yield self._one(sample)


@functional_datapipe("filter")
class Filter(_Around):
    """The samples of which filter_fn is true, or of whose column input_col."""

    def __init__(self, datapipe: Any, filter_fn: Callable[..., bool], input_col: Any = None) -> None:
        super().__init__(datapipe)
        self.filter_fn, self.input_col = filter_fn, input_col

    def __iter__(self) -> Iterator[Any]:
        for sample in self.datapipe:
            given = ((sample,) if self.input_col is None else [sample[c] for c in self.input_col]
                     if isinstance(self.input_col, (list, tuple)) else (sample[self.input_col],))
            if self.filter_fn(*given):
                yield sample

    def __len__(self) -> int:
        raise TypeError("Filter instance doesn't have valid length")


@functional_datapipe("batch")
class Batcher(_Around):
    """Lists of batch_size samples; wrapper_class makes something else of each list."""

    def __init__(self, datapipe: Any, batch_size: int, drop_last: bool = False,
                 wrapper_class: Callable[[list[Any]], Any] = list) -> None:
        super().__init__(datapipe)
        if batch_size <= 0:
            raise AssertionError("Batch size is required to be larger than 0!")
        self.batch_size, self.drop_last, self.wrapper_class = batch_size, drop_last, wrapper_class

    def __iter__(self) -> Iterator[Any]:
        samples = iter(self.datapipe)
        while batch := list(itertools.islice(samples, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.wrapper_class(batch)

    def __len__(self) -> int:
        count = _length(self.datapipe)
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


@functional_datapipe("unbatch")
class UnBatcher(_Around):
    """What lies in lists, unbatch_level of them inside of one another; -1: all."""

    def __init__(self, datapipe: Any, unbatch_level: int = 1) -> None:
        super().__init__(datapipe)
        if unbatch_level < -1:
            raise ValueError("unbatch_level must be -1 or >= 0")
        self.unbatch_level = unbatch_level

    def _open(self, value: Any, level: int) -> Iterator[Any]:
        if level == 0 or (level < 0 and not isinstance(value, list)):
            yield value
            return
        if not isinstance(value, list):
            raise IndexError("unbatch_level %d exceeds the depth of the DataPipe" % self.unbatch_level)
        for part in value:
            yield from self._open(part, level - 1 if level > 0 else level)

    def __iter__(self) -> Iterator[Any]:
        for value in self.datapipe:
            yield from self._open(value, self.unbatch_level)

    def __len__(self) -> int:
        raise TypeError("UnBatcher instance doesn't have valid length")


@functional_datapipe("collate")
class Collator(Mapper):
    """What collate_fn (default_collate) makes of each sample."""

    def __init__(self, datapipe: Any, conversion: Any = None, collate_fn: Callable[..., Any] | None = None) -> None:
        if conversion is not None and not callable(conversion):
            raise NotImplementedError("collate: a conversion of columns is not supported; give a function")
        super().__init__(datapipe, collate_fn or conversion or _data.default_collate)


@functional_datapipe("shuffle")
class Shuffler(_Around):
    """The samples in random order, drawn from a buffer of buffer_size."""

    def __init__(self, datapipe: Any, *, buffer_size: int = 10000, unbatch_level: int = 0) -> None:
        super().__init__(datapipe if not unbatch_level else UnBatcher(datapipe, unbatch_level))
        if buffer_size <= 0:
            raise ValueError("buffer_size should be larger than 0")
        self.buffer_size, self._on, self._seed = buffer_size, True, None

    def set_shuffle(self, shuffle: bool = True) -> Shuffler:
        """Whether the order is random."""
        self._on = shuffle
        return self

    def set_seed(self, seed: int) -> Shuffler:
        """What the next order is drawn from."""
        setattr(self, "_seed", seed)
        return self

    def __iter__(self) -> Iterator[Any]:
        if not self._on:
            yield from self.datapipe
            return
        from random import Random
        rng = Random(_data.sampler.draw_seed(None) if self._seed is None else self._seed)
        setattr(self, "_seed", None)
        held: list[Any] = []
        for sample in self.datapipe:
            if len(held) < self.buffer_size:
                held.append(sample)
                continue
            at = rng.randrange(self.buffer_size)
            held[at], sample = sample, held[at]
            yield sample
        rng.shuffle(held)
        yield from held


@functional_datapipe("sharding_filter")
class ShardingFilter(_Around):
    """Every n-th sample, for the worker that reads them."""

    def __iter__(self) -> Iterator[Any]:
        worker = _data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker is not None else (0, 1)
        return itertools.islice(self.datapipe, first, None, step)


class _Several(IterDataPipe[Any]):
    """A pipe around several others."""

    def __init__(self, *datapipes: Any) -> None:
        if not datapipes:
            raise ValueError("Expected at least one DataPipe, but got nothing")
        self.datapipes = datapipes


@functional_datapipe("zip")
class Zipper(_Several):
    """Tuples of one sample of each."""

    def __iter__(self) -> Iterator[Any]:
        return zip(*self.datapipes)

    def __len__(self) -> int:
        return min(map(_length, self.datapipes))


@functional_datapipe("concat")
class Concater(_Several):
    """One after the other."""

    def __iter__(self) -> Iterator[Any]:
        return itertools.chain.from_iterable(self.datapipes)

    def __len__(self) -> int:
        return sum(map(_length, self.datapipes))


class Sampler(IterDataPipe[Any]):
    """The numbers that a sampler of a data set gives, or the samples of these numbers' pipe."""

    def __init__(self, datapipe: Any, sampler: Any = None, sampler_args: Any = (), sampler_kwargs: Any = None) -> None:
        self.datapipe = datapipe
        made: Any = _data.SequentialSampler if sampler is None else sampler
        self.sampler = made(*sampler_args, data_source=datapipe, **(sampler_kwargs or {}))

    def __iter__(self) -> Iterator[Any]:
        return iter(self.sampler)

    def __len__(self) -> int:
        return len(self.sampler)
