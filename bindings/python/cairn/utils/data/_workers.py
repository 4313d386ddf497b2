"""The threads of a loader: they make numbered batches ahead, and the consumer gets them in order.

A thread knows the pool and never the iterator, so that leaving a loop frees the iterator, which stops the pool. Each
batch has random numbers of its own, counted from the epoch's seed and the batch's number: whichever thread makes it,
and whether there are threads at all, it is the same.
"""
from __future__ import annotations

import atexit
import collections
import copy
import itertools
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
_JOIN = 5.0      # seconds to wait for a thread that is busy with a sample when the loop was left


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


class _Here(threading.local):
    info: WorkerInfo | None = None


_here = _Here()


def get_worker_info() -> WorkerInfo | None:
    """In a worker: which one it is. None elsewhere."""
    return _here.info


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


def named(error: BaseException, worker: int | None, sample: Any) -> BaseException:
    """The exception with the number of the sample in it: as a note, and from a worker in the text of a new one of the
    same class, which holds the worker's traceback."""
    where = "" if sample is None else " at sample %s" % (sample,)
    if worker is None:
        if sample is not None:
            error.add_note("DataLoader: raised%s of the data set" % where)
        return error
    text = "Caught %s in DataLoader worker thread %d%s.\nOriginal %s" % (
        type(error).__name__, worker, where, "".join(traceback.format_exception(error)))
    if not isinstance(error, Exception) or isinstance(error, StopIteration):  # they would end loop or program
        return RuntimeError(text)
    try:
        return type(error)(text)
    except Exception:  # a class that wants other arguments
        return RuntimeError(text)


class Pool:
    """Threads that take tasks and put results by their numbers, for one loop after the other (begin)."""

    def __init__(self, fetcher: Fetcher, workers: int, ahead: int, seed: int, init: Callable[[int], Any] | None,
                 timeout: float) -> None:
        self.cond = threading.Condition()
        self.ahead = workers * ahead
        self.stream = fetcher.stream
        self.timeout = timeout
        self.seed = seed
        self.init = init
        self.stopped = False
        self.results: dict[int, tuple[bool, Any]] = {}
        self.loop = 0   # counts the loops; what belongs to an earlier one is dropped
        self.given = 0  # the number of the next task to give out
        shared: collections.deque[tuple[int, int, Any]] = collections.deque()
        self.queues = [collections.deque() if self.stream else shared for _ in range(workers)]
        self.places: collections.deque[tuple[int, int]] = collections.deque()  # number, worker of tasks under way
        self.live = list(range(workers))  # streams that have not ended
        self.turn = 0
        dtype = _C.get_default_dtype()
        self.threads = [threading.Thread(target=self._run, args=(i, fetcher.copy(), dtype), daemon=True,
                                         name="cairn-loader-%d" % i) for i in range(workers)]
        _pools.add(self)
        for thread in self.threads:
            thread.start()

    def begin(self, seed: int, first: int) -> int:
        """A loop whose tasks are numbered from `first` on; returns its number, which take wants. One before it is over.
        """
        with self.cond:
            self.loop += 1
            self.seed, self.given, self.turn = seed, first, 0
            self._forget()
            self.live = list(range(len(self.queues)))
            return self.loop

    def leave(self, loop: int) -> None:
        """That loop is over; the threads stay for the next."""
        with self.cond:
            if loop == self.loop:
                self.loop += 1
                self._forget()

    def _forget(self) -> None:
        self.results.clear()
        self.places.clear()
        for queue in self.queues:
            queue.clear()

    # ---- in a worker ----

    def _run(self, worker: int, fetcher: Fetcher, dtype: Any) -> None:
        _C._parallel_alone()
        _C.set_default_dtype(dtype)
        seed = (self.seed + worker) % 2 ** 64
        _here.info = WorkerInfo(worker, len(self.queues), seed, fetcher.dataset)
        failure: Exception | None = None
        try:
            _C._rng_swap(seed, 0)
            if self.init is not None:
                self.init(worker)
        except Exception as error:
            failure = error
        queue, current = self.queues[worker], 0
        while True:
            with self.cond:
                while not self.stopped and not queue:
                    self.cond.wait()
                if self.stopped:
                    return
                loop, number, indices = queue.popleft()
            if loop != current:
                current, fetcher.iterator = loop, None  # a stream begins again
            result = self._make(worker, fetcher, number, indices, failure)
            with self.cond:
                if loop == self.loop:
                    self.results[number] = result
                    self.cond.notify_all()
            del result, indices  # a waiting thread keeps no batch alive

    def _make(self, worker: int, fetcher: Fetcher, number: int, indices: Any,
              failure: Exception | None) -> tuple[bool, Any]:
        try:
            if failure is not None:
                raise failure
            _C._rng_swap((self.seed + worker if self.stream else self.seed) % 2 ** 64, number << 32)
            return True, fetcher(indices)
        except BaseException as error:  # whatever ends a thread must not leave the consumer waiting
            return False, named(error, worker, fetcher.sample)
        finally:
            fetcher.sample = None

    # ---- for the consumer ----

    def give(self, tasks: Iterator[Any]) -> None:
        """Keeps the threads busy: gives out tasks until enough are under way."""
        while len(self.places) < self.ahead and self.live:
            indices = next(tasks, OVER)
            if indices is OVER:
                return
            worker = self.live[self.turn % len(self.live)] if self.stream else 0
            self.turn += 1
            with self.cond:
                self.queues[worker].append((self.loop, self.given, indices))
                self.places.append((self.given, worker))
                self.given += 1
                self.cond.notify_all()

    def take(self, tasks: Iterator[Any], loop: int) -> Any:
        """The next batch in order, or OVER."""
        if loop != self.loop:
            raise RuntimeError("DataLoader: with persistent_workers a new loop ends the one before it")
        while True:
            self.give(tasks)
            if not self.places:
                return OVER
            number, worker = self.places.popleft()
            good, value = self._wait(number)
            if not good:
                raise value
            if value is not OVER:
                return value
            self._end_stream(worker)

    def _wait(self, number: int) -> tuple[bool, Any]:
        until = time.monotonic() + self.timeout
        with self.cond:
            while number not in self.results:
                left = until - time.monotonic() if self.timeout > 0 else None
                if left is not None and left <= 0:
                    raise RuntimeError("DataLoader timed out after %s seconds" % self.timeout)
                self.cond.wait(left)
            return self.results.pop(number)

    def _end_stream(self, worker: int) -> None:
        """Its other tasks will return OVER as well, and no more are given to it."""
        if worker in self.live:
            self.turn = self.live.index(worker)
            self.live.remove(worker)

    def stop(self, wait: bool = True) -> None:
        with self.cond:
            self.stopped = True
            self.results.clear()
            self.cond.notify_all()
        until = time.monotonic() + _JOIN
        for thread in self.threads if wait else ():
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))


_pools: weakref.WeakSet[Pool] = weakref.WeakSet()


def _stop_all() -> None:
    """Threads must not run Python any more while the interpreter goes away."""
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
