"""What a loader's workers have in common, be they threads (_threads.py) or processes (_processes.py): how batches are
made, and how numbered tasks go out and results come back in order.

A worker knows the pool and never the iterator, so that leaving a loop frees the iterator, which stops the pool. Each
batch has random numbers of its own, counted from the epoch's seed and the batch's number: whichever worker makes it,
and whether there are workers at all, it is the same.
"""
from __future__ import annotations

import atexit
import collections
import copy
import itertools
import os
import threading
import time
import traceback
import weakref
from typing import Any, Callable, Iterator

from ... import _C
from ._collate import pinned
from .dataset import Subset, TensorDataset

__all__ = ["WorkerInfo", "get_worker_info", "Fetcher", "Pool", "OVER"]

OVER = object()  # what a stream that has ended returns instead of a batch
JOIN = 5.0       # seconds to wait for a worker that is busy with a sample when the loop was left


class WorkerInfo:
    """A worker's number, how many there are, its seed, and the data set as it has it."""

    def __init__(self, id: int, num_workers: int, seed: int, dataset: Any) -> None:
        self.id = id
        self.num_workers = num_workers
        self.seed = seed
        self.dataset = dataset

    def __repr__(self) -> str:
        return "WorkerInfo(id=%d, num_workers=%d, seed=%d, dataset=%r)" % (self.id, self.num_workers, self.seed,
                                                                           self.dataset)


class Here(threading.local):
    """What this thread is; a process that is a worker sets it for all its threads, in the class."""

    info: WorkerInfo | None = None


here = Here()


def get_worker_info() -> WorkerInfo | None:
    """In a worker: which one it is. None elsewhere."""
    return here.info


class Fetcher:
    """Makes batches of a data set: by numbers, or the next ones of a stream."""

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], stream: bool, batched: bool, size: int | None,
                 drop_last: bool, whole: bool, pin: str | None) -> None:
        self.dataset = dataset
        self.collate = collate
        self.stream = stream
        self.batched = batched
        self.size = size
        self.drop_last = drop_last
        self.whole = whole  # rows of tensors by index, with the default collate
        self.pin = pin  # the device that reads the memory by itself
        self.iterator: Iterator[Any] | None = None
        self.sample: Any = None  # the number of the sample that is being made

    def copy(self) -> Fetcher:
        """For a worker: with a data set of its own, as far as attributes go."""
        mine = copy.copy(self)
        try:
            mine.dataset = copy.copy(self.dataset)
        except Exception:  # what cannot be copied is shared
            pass
        return mine

    def __call__(self, indices: Any) -> Any:
        made = self._from_stream() if self.stream else self._by_number(indices)
        return pinned(made, self.pin) if self.pin else made

    def _by_number(self, indices: Any) -> Any:
        if not self.batched:
            return self.collate(self._sample(indices))
        if self.whole:
            row = _C.tensor(indices, dtype=_C.int64, device=self.dataset.tensors[0].device)
            return [t[row] for t in self.dataset.tensors]
        if _takes_lists(self.dataset):
            return self.collate(self.dataset.__getitems__(indices))
        return self.collate([self._sample(i) for i in indices])

    def _sample(self, index: Any) -> Any:
        self.sample = index
        made = self.dataset[index]
        self.sample = None
        return made

    def _from_stream(self) -> Any:
        if self.iterator is None:
            self.iterator = iter(self.dataset)
        if not self.batched:
            sample = next(self.iterator, OVER)
            return OVER if sample is OVER else self.collate(sample)
        samples = list(itertools.islice(self.iterator, self.size))
        if not samples or (self.drop_last and len(samples) < (self.size or 0)):
            return OVER
        return self.collate(samples)


def _takes_lists(dataset: Any) -> bool:
    """Whether it makes many samples at once; a part of a data set does when that does."""
    below = dataset.dataset if type(dataset) is Subset else dataset
    return callable(getattr(below, "__getitems__", None))


def whole_batches(dataset: Any, default: bool) -> bool:
    return default and type(dataset) is TensorDataset


class _Text(str):
    """A KeyError shows its text as repr does: this one with the lines that it has."""

    def __repr__(self) -> str:
        return str(self)


def named(error: BaseException, sample: Any) -> BaseException:
    """The exception with the number of the sample in it, as a note."""
    if sample is not None:
        error.add_note("DataLoader: raised at sample %s of the data set" % (sample,))
    return error


def caught(error: BaseException, worker: str, sample: Any) -> tuple[type, str]:
    """What is told of an exception in a worker: its class, and a text with the worker's traceback."""
    kind: type = type(error)
    if not isinstance(error, Exception) or isinstance(error, StopIteration):  # they would end loop or program
        kind = RuntimeError
    return kind, "Caught %s in DataLoader worker %s%s.\nOriginal %s" % (
        type(error).__name__, worker, "" if sample is None else " at sample %s" % (sample,),
        "".join(traceback.format_exception(error)))


def again(kind: type, text: str) -> BaseException:
    """A new exception of that class with that text."""
    try:
        error: BaseException = kind(_Text(text) if kind is KeyError else text)
        return error
    except Exception:  # a class that wants other arguments
        return RuntimeError(text)


def make(fetcher: Fetcher, worker: str, seed: int, number: int, indices: Any,
         failure: BaseException | None) -> tuple[bool, Any]:
    """In a worker: True and the batch, or False and what was caught."""
    try:
        if failure is not None:
            raise failure
        _C._rng_swap(seed % 2 ** 64, number << 32)
        return True, fetcher(indices)
    except BaseException as error:  # whatever ends a worker must not leave the consumer waiting
        return False, caught(error, worker, fetcher.sample)
    finally:
        fetcher.sample = None


class Pool:
    """Workers that take tasks and put results by their numbers, for one loop after the other (begin)."""

    def __init__(self, fetcher: Fetcher, workers: int, ahead: int, seed: int, init: Callable[[int], Any] | None,
                 timeout: float) -> None:
        self.workers = workers
        self.ahead = workers * ahead
        self.stream = fetcher.stream
        self.timeout = timeout
        self.seed = seed
        self.init = init
        self.owner = os.getpid()  # a forked child has none of the workers
        self.stopped = False
        self.results: dict[int, tuple[bool, Any]] = {}
        self.loop = 0   # counts the loops; what belongs to an earlier one is dropped
        self.given = 0  # the number of the next task to give out
        self.places: collections.deque[tuple[int, int]] = collections.deque()  # number, worker of tasks under way
        self.live = list(range(workers))  # streams that have not ended
        self.turn = 0
        _pools.add(self)

    def begin(self, seed: int, first: int) -> int:
        """A loop whose tasks are numbered from `first` on; returns its number, which take wants. One before it is over.
        """
        self.loop += 1
        self.seed, self.given, self.turn = seed, first, 0
        self.forget()
        self.live = list(range(self.workers))
        return self.loop

    def leave(self, loop: int) -> None:
        """That loop is over; the workers stay for the next."""
        if loop == self.loop:
            self.loop += 1
            self.forget()

    def forget(self) -> None:
        """Drops what was given out and made."""
        self.results.clear()
        self.places.clear()

    def put(self, worker: int, number: int, indices: Any) -> None:
        """Gives a task to a worker."""
        raise NotImplementedError

    def next_worker(self) -> int:
        """Who gets the next task of a data set with numbers."""
        return 0

    def wait(self, number: int, until: float | None) -> bool:
        """Waits for that result; False: it was not there in time."""
        raise NotImplementedError

    def give(self, tasks: Iterator[Any]) -> None:
        """Keeps the workers busy: gives out tasks until enough are under way."""
        while len(self.places) < self.ahead and self.live:
            indices = next(tasks, OVER)
            if indices is OVER:
                return
            worker = self.live[self.turn % len(self.live)] if self.stream else self.next_worker()
            self.turn += 1
            self.places.append((self.given, worker))
            self.put(worker, self.given, indices)
            self.given += 1

    def take(self, tasks: Iterator[Any], loop: int) -> Any:
        """The next batch in order, or OVER."""
        if loop != self.loop:
            raise RuntimeError("DataLoader: with persistent_workers a new loop ends the one before it")
        while True:
            self.give(tasks)
            if not self.places:
                return OVER
            number, worker = self.places.popleft()
            if not self.wait(number, time.monotonic() + self.timeout if self.timeout > 0 else None):
                raise RuntimeError("DataLoader timed out after %s seconds" % self.timeout)
            good, value = self.results.pop(number)
            if not good:
                raise again(*value)
            if value is not OVER:
                return value
            self._end_stream(worker)

    def _end_stream(self, worker: int) -> None:
        """Its other tasks will return OVER as well, and no more are given to it."""
        if worker in self.live:
            self.turn = self.live.index(worker)
            self.live.remove(worker)

    def stop(self) -> None:
        """Ends the workers; those that are busy have JOIN seconds."""
        raise NotImplementedError


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _stop_all() -> None:
    """Workers must not run any more while the interpreter goes away."""
    for pool in list(_pools):
        pool.stop()


atexit.register(_stop_all)


def numbers(sampler: Any, skip: int) -> Iterator[Any]:
    """The tasks of an epoch after the first `skip`. The first one is drawn at once, so that the order is made when the
    loop begins, whatever draws between then and the first batch."""
    tasks = iter(sampler)
    for task in tasks:
        if skip == 0:
            return itertools.chain([task], tasks)
        skip -= 1
    return iter(())
