"""Samplers: in which order a loader takes the samples."""
from __future__ import annotations

import itertools
from typing import Any, Generic, Iterable, Iterator, Sequence, Sized, TypeVar

from ... import _C
from ..._arguments import note_once
from ..._tensor import Tensor

__all__ = ["Sampler", "SequentialSampler", "RandomSampler", "SubsetRandomSampler", "WeightedRandomSampler",
           "BatchSampler"]

_T_co = TypeVar("_T_co", covariant=True)


def draw_seed(generator: _C.Generator | None = None) -> int:
    """A positive number of 63 bits from a generator, or this thread's random numbers."""
    return int(_C.empty((), dtype=_C.int64).random_(generator=generator).item())


class Sampler(Generic[_T_co]):
    """What DataLoader asks for numbers: a subclass has __iter__, and where it can __len__."""

    def __init__(self, data_source: Sized | None = None) -> None:
        if data_source is not None:
            note_once("Sampler: data_source is not kept; a subclass that needs it keeps it itself")

    def __iter__(self) -> Iterator[_T_co]:
        raise NotImplementedError("%s has no __iter__" % type(self).__name__)


class SequentialSampler(Sampler[int]):
    """One after the other."""

    def __init__(self, data_source: Any) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)

    def _order(self) -> Tensor:
        return _C.arange(0, len(self.data_source))


_CHUNK = 4096   # numbers with replacement that are drawn at a time
_WHOLE = 1 << 24  # numbers of an epoch that are made at once, for loaders of the library


class RandomSampler(Sampler[int]):
    """At random: each once, or with `replacement` any number of times; `num_samples` of them."""

    def __init__(self, data_source: Any, replacement: bool = False, num_samples: int | None = None,
                 generator: _C.Generator | None = None) -> None:
        if not isinstance(replacement, bool):
            raise TypeError("replacement is True or False, not %r" % (replacement,))
        if num_samples is not None and (not isinstance(num_samples, int) or num_samples <= 0):
            raise ValueError("num_samples is an int from 1 on, not %r" % (num_samples,))
        self.data_source = data_source
        self.replacement = replacement
        self._num_samples = num_samples
        self.generator = generator

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def _chunks(self) -> Iterator[Tensor]:
        """The numbers, so many at a time that memory does not grow with how many are wanted."""
        n, left = len(self.data_source), self.num_samples
        source = _C.Generator().manual_seed(draw_seed()) if self.generator is None else self.generator
        while n and left > 0:
            most = min(left, _CHUNK if self.replacement else n)
            yield _C.randint(0, n, (most,), generator=source) if self.replacement else \
                _C.randperm(n, generator=source)[:most]
            left -= most

    def _order(self) -> Tensor | None:
        if self.num_samples > _WHOLE:
            return None
        return _C.cat([_C.arange(0, 0), *self._chunks()])

    def __iter__(self) -> Iterator[int]:
        for chunk in self._chunks():
            yield from chunk.tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """The given numbers in random order."""

    def __init__(self, indices: Sequence[int], generator: _C.Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in _C.randperm(len(self.indices), generator=self.generator).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Numbers drawn with probabilities in proportion to the weights."""

    def __init__(self, weights: Sequence[float] | Tensor, num_samples: int, replacement: bool = True,
                 generator: _C.Generator | None = None) -> None:
        if not isinstance(num_samples, int) or isinstance(num_samples, bool) or num_samples <= 0:
            raise ValueError("num_samples is an int from 1 on, not %r" % (num_samples,))
        if not isinstance(replacement, bool):
            raise ValueError("replacement is True or False, not %r" % (replacement,))
        self.weights = _C.as_tensor(weights, dtype=_C.float64)
        if self.weights.ndim != 1:
            raise ValueError("weights are a row of numbers, not of shape %s"
                             % (tuple(self.weights.shape),))
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def _order(self) -> Tensor:
        return _C.multinomial(self.weights, self.num_samples, self.replacement, generator=self.generator)

    def __iter__(self) -> Iterator[int]:
        return iter(self._order().tolist())

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Groups the numbers of another sampler to lists."""

    def __init__(self, sampler: Sampler[Any] | Iterable[Any], batch_size: int, drop_last: bool) -> None:
        if not isinstance(batch_size, int) or isinstance(batch_size, bool) or batch_size <= 0:
            raise ValueError("batch_size is an int from 1 on, not %r" % (batch_size,))
        if not isinstance(drop_last, bool):
            raise ValueError("drop_last is True or False, not %r" % (drop_last,))
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[int]]:
        numbers = iter(self.sampler)
        while batch := list(itertools.islice(numbers, self.batch_size)):
            if self.drop_last and len(batch) < self.batch_size:
                return
            yield batch

    def __len__(self) -> int:
        n = len(self.sampler)  # type: ignore[arg-type]
        return n // self.batch_size if self.drop_last else -(-n // self.batch_size)


_OURS = (SequentialSampler, RandomSampler, SubsetRandomSampler, WeightedRandomSampler)


def whole_order(sampler: Any) -> Tensor | None:
    """The numbers of an epoch as one tensor, for the samplers above and DistributedSampler; None for others, which may
    have no end, and for very many."""
    order = getattr(sampler, "_order", None)
    if order is not None and type(sampler).__iter__ in [kind.__iter__ for kind in (*_OURS, *_MORE)]:
        made: Tensor | None = order()
        return made
    if type(sampler) is SubsetRandomSampler:
        return _C.tensor([int(i) for i in sampler], dtype=_C.int64)
    return None


_MORE: list[Any] = []
