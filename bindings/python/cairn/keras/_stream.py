"""Batches: a data set that makes its elements anew for each pass, as data sets of directories and series are.

It knows what programs do with such sets on the way to fit(): map, take, skip, shuffle, batch, cache, prefetch, ... An
element is a tensor, or a tuple of them; a function that map() gets is called with the parts of a tuple.
"""
from __future__ import annotations

import itertools
from typing import Any, Callable, Iterator

import cairn
from .._arguments import only_speed, refused
from .._training.batches import array, mapped
from .._training.strings import Strings, strings_of

__all__ = ["Batches", "stacked"]


class Batches:
    def __init__(self, make: Callable[[], Iterator[Any]], length: int | None = None) -> None:
        self._make, self._length = make, length
        self.class_names: Any = None
        self.file_paths: Any = None

    def __iter__(self) -> Iterator[Any]:
        return self._make()

    def __len__(self) -> int:
        if self._length is None:
            raise TypeError("nobody knows how many elements this data set has")
        return self._length

    def cardinality(self) -> int:
        """How many elements; -1: nobody knows."""
        return -1 if self._length is None else self._length

    def _derived(self, make: Callable[[], Iterator[Any]], length: int | None) -> Batches:
        made = Batches(make, length)
        made.class_names, made.file_paths = self.class_names, self.file_paths
        return made

    def map(self, map_func: Callable[..., Any], num_parallel_calls: Any = None,
            deterministic: Any = None) -> Batches:
        only_speed("map", num_parallel_calls=num_parallel_calls, deterministic=deterministic)

        def made() -> Iterator[Any]:
            for element in self:
                yield map_func(*element) if isinstance(element, tuple) else map_func(element)
        return self._derived(made, self._length)

    def filter(self, predicate: Callable[..., Any]) -> Batches:
        def made() -> Iterator[Any]:
            for element in self:
                if bool(predicate(*element) if isinstance(element, tuple) else predicate(element)):
                    yield element
        return self._derived(made, None)

    def take(self, count: int) -> Batches:
        n = self._length
        return self._derived(lambda: itertools.islice(iter(self), count if count >= 0 else None),
                             n if count < 0 else None if n is None else min(n, count))

    def skip(self, count: int) -> Batches:
        return self._derived(lambda: itertools.islice(iter(self), count, None),
                             None if self._length is None else max(self._length - count, 0))

    def repeat(self, count: int | None = None) -> Batches:
        def made() -> Iterator[Any]:
            for _ in itertools.count() if count is None or count < 0 else range(count):
                yield from self
        endless = count is None or count < 0 or self._length is None
        return self._derived(made, None if endless else self._length * int(count or 0))  # type: ignore[operator]

    def shuffle(self, buffer_size: int, seed: int | None = None, reshuffle_each_iteration: bool = True) -> Batches:
        """Elements in an order that is drawn for each pass, from the next buffer_size of them."""
        numbers = None if seed is None else cairn.Generator().manual_seed(int(seed))

        def made() -> Iterator[Any]:
            if numbers is not None and not reshuffle_each_iteration:
                numbers.manual_seed(int(seed or 0))
            kept: list[Any] = []
            for element in self:
                kept.append(element)
                if len(kept) >= buffer_size:
                    yield kept.pop(int(cairn.randint(0, len(kept), (1,), generator=numbers).item()))
            for i in cairn.randperm(len(kept), generator=numbers).tolist() if kept else ():
                yield kept[i]
        return self._derived(made, self._length)

    def batch(self, batch_size: int, drop_remainder: bool = False, num_parallel_calls: Any = None,
              deterministic: Any = None) -> Batches:
        only_speed("batch", num_parallel_calls=num_parallel_calls, deterministic=deterministic)

        def made() -> Iterator[Any]:
            source = iter(self)
            while rows := list(itertools.islice(source, batch_size)):
                if len(rows) == batch_size or not drop_remainder:
                    yield stacked(rows)
        n = self._length
        return self._derived(made, None if n is None else n // batch_size if drop_remainder else -(-n // batch_size))

    def unbatch(self) -> Batches:
        def made() -> Iterator[Any]:
            for element in self:
                parts = element if isinstance(element, tuple) else (element,)
                for i in range(len(parts[0])):
                    yield tuple(p[i] for p in parts) if isinstance(element, tuple) else element[i]
        return self._derived(made, None)

    def cache(self, filename: str = "") -> Batches:
        """Elements are kept in memory once all of them were seen."""
        refused("cache", "elements are kept in memory", "", filename=filename)
        kept: list[Any] = []
        whole: list[bool] = []

        def made() -> Iterator[Any]:
            if whole:
                yield from kept
                return
            own = []
            for element in self:
                own.append(element)
                yield element
            if not whole:
                kept.extend(own)
                whole.append(True)
        return self._derived(made, self._length)

    def prefetch(self, buffer_size: Any = None) -> Batches:
        """Elements are made when they are asked for: the same data set."""
        only_speed("prefetch", buffer_size=buffer_size)
        return self

    def with_options(self, options: Any) -> Batches:
        """The same data set, whose elements come as fast as before."""
        only_speed("with_options", options=options)
        return self

    def concatenate(self, dataset: Any) -> Batches:
        def made() -> Iterator[Any]:
            yield from self
            yield from dataset
        try:
            length = None if self._length is None else self._length + len(dataset)
        except TypeError:
            length = None
        return self._derived(made, length)

    def enumerate(self, start: int = 0) -> Batches:
        return self._derived(lambda: ((i, e) for i, e in zip(itertools.count(start), self)), self._length)

    def shard(self, num_shards: int, index: int) -> Batches:
        n = self._length
        return self._derived(lambda: itertools.islice(iter(self), index, None, num_shards),
                             None if n is None else len(range(index, n, num_shards)))

    def as_numpy_iterator(self) -> Iterator[Any]:
        return (mapped(lambda t: array(t) if isinstance(t, cairn.Tensor) else t.numpy() if isinstance(t, Strings)
                       else t, element) for element in self)


def stacked(rows: list[Any]) -> Any:
    """Elements as one batch."""
    first = rows[0]
    if isinstance(first, dict):
        return {k: stacked([r[k] for r in rows]) for k in first}
    if isinstance(first, (list, tuple)):
        return type(first)(stacked([r[i] for r in rows]) for i in range(len(first)))
    if isinstance(first, (str, Strings)):
        return strings_of([r.tolist() if isinstance(r, Strings) else r for r in rows])
    return cairn.stack([r if isinstance(r, cairn.Tensor) else cairn.as_tensor(r) for r in rows])
