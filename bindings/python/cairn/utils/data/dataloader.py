"""DataLoader: batches of a data set, epoch after epoch.

Place in the flow: samplers say which samples, and one of four ways makes them: the library's own threads (data sets
of the library), threads of Python (_threads.py), processes (_processes.py), or the thread that asks. All give the same
batches.
"""
from __future__ import annotations

import itertools
import math
from typing import Any, Callable, Generic, Iterable, Iterator, TypeVar

from ... import _C
from ..._arguments import note_once, only_speed
from ..._tensor import Tensor
from ._collate import default_collate, default_convert, pinned
from ._threads import ThreadPool
from ._workers import OVER, Fetcher, Pool, named, numbers, whole_batches
from ._workers import get_worker_info as get_worker_info
from .dataset import Dataset, IterableDataset, native_of
from .sampler import BatchSampler, RandomSampler, Sampler, SequentialSampler, draw_seed, whole_order

__all__ = ["DataLoader", "default_collate", "default_convert", "get_worker_info"]

_collate_fn_t = Callable[[list[Any]], Any]  # for annotations
_worker_init_fn_t = Callable[[int], None]
_T_co = TypeVar("_T_co", covariant=True)


class _DatasetKind:
    """How samples are asked for: by key, or one after the other."""
    Map = 0
    Iterable = 1


class _Endless(Sampler[None]):
    """For streams: they say themselves when they end."""

    def __iter__(self) -> Iterator[None]:
        return itertools.repeat(None)


class _Epoch:
    """Where an epoch stands: what its order and draws were made from, and how many batches were handed out."""

    def __init__(self, states: dict[str, Any], seed: int | None = None, batches: int = 0) -> None:
        self.states = states
        self.seed = seed
        self.batches = batches


class DataLoader(Generic[_T_co]):
    """Batches of `dataset`, in the order of a sampler.

    `num_workers` threads make batches ahead, `prefetch_factor` each (2); 0 makes them when they are asked for. With
    multiprocessing_context ("fork", "spawn", "forkserver", or a context of cairn.multiprocessing) the workers are
    processes: for data sets that spend their time in Python, which one thread runs at a time. Their batches come
    through shared memory. Leaving the loop ends them, too, and one that dies is an error that says how. The
    batches never depend on the number of workers: random numbers that a data set draws with cairn are counted for each
    batch from the epoch's seed, which comes from `generator` or this thread's random numbers. An exception of a worker
    arrives with the number of its sample. Leaving the loop ends the threads.

    `state_dict()` says where the loader stands, also in the middle of an epoch; after `load_state_dict` the next loop
    yields the batches that would have come. pin_memory puts batches into memory that the device reads by itself, where
    there is one. persistent_workers keeps the workers, and each one's copy of the data set, from one loop to
    the next; worker_init_fn then runs once. Batches always come in order.
    """

    dataset: Dataset[_T_co]
    batch_size: int | None
    sampler: Sampler[Any] | Iterable[Any]

    def __init__(self, dataset: Dataset[_T_co], batch_size: int | None = 1, shuffle: bool | None = None,
                 sampler: Sampler[Any] | Iterable[Any] | None = None,
                 batch_sampler: Sampler[list[Any]] | Iterable[list[Any]] | None = None, num_workers: int = 0,
                 collate_fn: Callable[[Any], Any] | None = None, pin_memory: bool = False, drop_last: bool = False,
                 timeout: float = 0, worker_init_fn: Callable[[int], Any] | None = None,
                 multiprocessing_context: Any = None, generator: _C.Generator | None = None, *,
                 prefetch_factor: int | None = None, persistent_workers: bool = False, pin_memory_device: str = "",
                 in_order: bool = True) -> None:
        _check_workers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_places(pin_memory, pin_memory_device, in_order)
        self._stream = isinstance(dataset, IterableDataset)
        shuffle = bool(shuffle)
        if self._stream:
            _check_stream(shuffle, sampler, batch_sampler)
        if sampler is not None and shuffle:
            raise ValueError("DataLoader: either a sampler or shuffle, not both")
        if batch_sampler is not None:
            if batch_size != 1 or shuffle or sampler is not None or drop_last:
                raise ValueError("DataLoader: a batch_sampler leaves nothing for batch_size, shuffle, sampler or "
                                 "drop_last to say")
            batch_size, drop_last = None, False
        elif batch_size is None and drop_last:
            raise ValueError("DataLoader: without batches (batch_size=None) there is no last one to drop")
        if sampler is None:
            sampler = (_Endless() if self._stream else RandomSampler(dataset, generator=generator) if shuffle
                       else SequentialSampler(dataset))
        if batch_size is not None and batch_sampler is None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.dataset = dataset
        self.batch_size = batch_size
        self.drop_last = drop_last
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.num_workers = num_workers
        self.prefetch_factor = prefetch_factor if prefetch_factor is not None or not num_workers else 2
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.multiprocessing_context = multiprocessing_context
        self.generator = generator
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.collate_fn = collate_fn or (default_convert if batch_sampler is None else default_collate)
        self._epoch: _Epoch | None = None
        self._resume: _Epoch | None = None
        self._workers: Pool | None = None  # kept between loops: persistent_workers
        self._ready = True

    _FIXED = frozenset({"batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"})

    def __setattr__(self, name: str, value: Any) -> None:
        if name in self._FIXED and getattr(self, "_ready", False):
            raise ValueError("DataLoader: %s is fixed once it is made; make another loader" % name)
        super().__setattr__(name, value)

    @property
    def multiprocessing_context(self) -> Any:
        """How processes that are workers start; None: workers are threads."""
        return self._context

    @multiprocessing_context.setter
    def multiprocessing_context(self, context: Any) -> None:
        if context is not None and not self.num_workers:
            raise ValueError("DataLoader: multiprocessing_context needs workers (num_workers > 0)")
        self._context = None if context is None else _context_of(context)

    @property
    def _index_sampler(self) -> Any:
        return self.sampler if self.batch_sampler is None else self.batch_sampler

    def __len__(self) -> int:
        if not self._stream:
            return len(self._index_sampler)
        n = len(self.dataset)  # type: ignore[arg-type]
        if self.batch_size is None:
            return n
        return n // self.batch_size if self.drop_last else math.ceil(n / self.batch_size)

    def __iter__(self) -> Iterator[Any]:
        return _Batches(self)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_workers": None}

    def __del__(self) -> None:
        workers: Pool | None = getattr(self, "_workers", None)
        if workers is not None:
            workers.stop()

    # ---- going on in mid-epoch ----

    def _generators(self) -> dict[str, _C.Generator]:
        """The generators that order and draws come from, by where they are."""
        inner = getattr(self.batch_sampler, "sampler", None)
        found = {"loader": self.generator, "sampler": getattr(self.sampler, "generator", None),
                 "batch_sampler": getattr(inner, "generator", None)}
        found = {k: g for k, g in found.items() if isinstance(g, _C.Generator) and g is not _C.default_generator}
        return {"default": _C.default_generator, **{k: g for k, g in found.items() if g is not None}}

    def _states(self) -> dict[str, Any]:
        states: dict[str, Any] = {k: g.get_state() for k, g in self._generators().items()}
        for name, source in self._keepers():
            states[name] = source.state_dict()
        return states

    def _keepers(self) -> Iterator[tuple[str, Any]]:
        """Samplers that know by themselves where they stand."""
        for name, source in (("sampler_state", self.sampler), ("batch_sampler_state", self.batch_sampler)):
            if hasattr(source, "state_dict") and hasattr(source, "load_state_dict"):
                yield name, source

    def _set_states(self, states: dict[str, Any]) -> None:
        for k, generator in self._generators().items():
            if k in states and k != "default":
                generator.set_state(states[k])
        for name, source in self._keepers():
            if name in states:
                source.load_state_dict(states[name])

    def state_dict(self) -> dict[str, Any]:
        """Where the loader stands, for cairn.save or pickle: batches handed out in this epoch, and the random numbers
        that its order was made from. Those of the thread itself (cairn.get_rng_state) are the program's to keep."""
        epoch = self._resume or self._epoch
        if epoch is None:
            return {"batches": 0, "seed": None, "states": self._states()}
        return {"batches": epoch.batches, "seed": epoch.seed, "states": dict(epoch.states)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """The next loop goes on behind the batches that were handed out when state_dict was called."""
        self._resume = _Epoch(dict(state_dict["states"]), state_dict["seed"], int(state_dict["batches"]))
        if not self._resume.batches:
            self._set_states(self._resume.states)
            self._resume = None
        self._epoch = None

    def _begin(self) -> tuple[int, int, Iterator[Any] | Tensor]:
        """Begins an epoch, or the rest of one: its seed, the batches to leave out, and the tasks (the whole order,
        where the library runs it)."""
        resumed, self._resume = self._resume, None
        if resumed is None:
            self._epoch = _Epoch(self._states())
            self._epoch.seed = draw_seed(self.generator)
            return self._epoch.seed, 0, self._tasks(0)
        here = _C.default_generator.get_state()
        self._set_states(resumed.states)
        _C.default_generator.set_state(resumed.states["default"])
        try:
            draw_seed(self.generator)  # as the first time, so that the generator goes on from the same place
            tasks = self._tasks(resumed.batches)
        finally:
            _C.default_generator.set_state(here)
        self._epoch = resumed
        return resumed.seed or 0, resumed.batches, tasks

    def _tasks(self, skip: int) -> Iterator[Any] | Tensor:
        native = self._runs_natively()
        order = whole_order(self.batch_sampler.sampler) if native else None  # type: ignore[union-attr]
        if order is not None:
            return order
        return iter(self._index_sampler) if self._stream else numbers(self._index_sampler, skip)

    def _runs_natively(self) -> bool:
        """Whether the library's loader can do it: plain batches of samples that it can make, put together by stacking.
        """
        plain = self.collate_fn is default_collate and type(self.batch_sampler) is BatchSampler
        if not plain or self._stream or self.worker_init_fn is not None or self.timeout > 0 or self._context:
            return False
        self._native = native_of(self.dataset)
        return self._native is not None

    _native: _C.NativeDataset | None = None


def _check_workers(workers: Any, timeout: float, prefetch: int | None, persistent: bool) -> None:
    if workers < 0:
        raise ValueError("DataLoader: num_workers is 0 or more, not %r" % (workers,))
    if timeout < 0:
        raise ValueError("DataLoader: timeout is 0 or more seconds, not %r" % (timeout,))
    if workers == 0 and prefetch is not None:
        raise ValueError("DataLoader: prefetch_factor needs workers (num_workers > 0)")
    if prefetch is not None and prefetch <= 0:
        raise ValueError("DataLoader: prefetch_factor is 1 or more, not %r" % (prefetch,))
    if persistent and workers == 0:
        raise ValueError("DataLoader: persistent_workers needs workers (num_workers > 0)")


def _context_of(context: Any) -> Any:
    from ... import multiprocessing
    from multiprocessing.context import BaseContext
    if isinstance(context, str):
        if context not in multiprocessing.get_all_start_methods():
            raise ValueError("DataLoader: multiprocessing_context is one of %s, not %r"
                             % (", ".join(multiprocessing.get_all_start_methods()), context))
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError("DataLoader: multiprocessing_context is a context or the name of a start method, not %r"
                        % (context,))
    return context


def _check_places(pin: bool, device: str, in_order: bool) -> None:
    if pin and not _C._device_count("cuda"):
        note_once("DataLoader: pin_memory has no effect where there is no CUDA device")
    if device and _C.device(device).type != "cuda":
        raise ValueError("DataLoader: pin_memory_device is a CUDA device, not %r" % device)
    only_speed("DataLoader", True, in_order=in_order)


def _check_stream(shuffle: bool, sampler: Any, batch_sampler: Any) -> None:
    given = [name for name, value in (("shuffle", shuffle or None), ("sampler", sampler),
                                      ("batch_sampler", batch_sampler)) if value is not None]
    if given:
        raise ValueError("DataLoader: an IterableDataset has its own order and takes no %s" % given[0])


def _pool_of(loader: DataLoader[Any], fetcher: Fetcher, seed: int) -> Pool:
    how = (fetcher, loader.num_workers, loader.prefetch_factor or 2, seed, loader.worker_init_fn, loader.timeout)
    if loader.multiprocessing_context is None:
        return ThreadPool(*how)
    from ._processes import ProcessPool
    return ProcessPool(*how, loader.multiprocessing_context)


class _Batches:
    """One loop over a loader."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self._loader = loader
        self._pool: Pool | None = None
        self._loop = 0  # which of the pool's
        self._native: _C.NativeLoader | None = None
        self._over = False
        self._pin = loader.pin_memory and _C._device_count("cuda") > 0
        self._seed, self._skip, tasks = loader._begin()
        self._epoch = loader._epoch
        self._number = self._skip
        if isinstance(tasks, Tensor):
            self._open_native(loader, tasks)
        else:
            self._tasks = tasks
            self._open(loader)

    def _open_native(self, loader: DataLoader[Any], order: Tensor) -> None:
        batches: Any = loader.batch_sampler
        assert loader._native is not None
        self._native = _C.NativeLoader(loader._native, order, batches.batch_size, batches.drop_last,
                                       loader.num_workers, loader.prefetch_factor or 2, self._seed, self._skip)

    def _open(self, loader: DataLoader[Any]) -> None:
        default = loader.collate_fn is default_collate
        self._fetcher = Fetcher(loader.dataset, loader.collate_fn, loader._stream, loader._index_sampler
                                is loader.batch_sampler, loader.batch_size, loader.drop_last,
                                whole_batches(loader.dataset, default),
                                (loader.pin_memory_device or "cuda") if self._pin else None)
        first = 0 if loader._stream else self._skip
        if loader.num_workers:
            kept = loader._workers
            self._pool = kept if kept and not kept.stopped else _pool_of(loader, self._fetcher, self._seed)
            self._loop = self._pool.begin(self._seed, first)
            if loader.persistent_workers:
                loader._workers = self._pool
        self._number = first
        for _ in range(self._skip if loader._stream else 0):  # a stream is run through again
            if self._make() is OVER:
                break

    def __iter__(self) -> _Batches:
        return self

    def __len__(self) -> int:
        return len(self._loader)

    def __next__(self) -> Any:
        if self._over:
            raise StopIteration
        batch = self._make()
        if batch is OVER:
            self._finish()
            raise StopIteration
        if self._epoch is not None:
            self._epoch.batches += 1
        return batch

    def _make(self) -> Any:
        if self._native is not None:
            batch = next(self._native, OVER)
            return pinned(batch, self._loader.pin_memory_device) if self._pin else batch
        if self._pool is not None:
            return self._pool.take(self._tasks, self._loop)
        indices = next(self._tasks, OVER)
        if indices is OVER:
            return OVER
        before = _C._rng_swap(self._seed, self._number << 32)
        self._number += 1
        try:
            return self._fetcher(indices)
        except Exception as error:
            raise named(error, self._fetcher.sample)
        finally:
            self._fetcher.sample = None
            _C._rng_swap(*before)

    def _finish(self) -> None:
        self._over = True
        self._close()
        if self._loader._epoch is self._epoch:
            self._loader._epoch = None  # the next state is that of an epoch that has not begun

    def _close(self) -> None:
        pool, self._pool = self._pool, None
        if pool is not None and pool is self._loader._workers:
            pool.leave(self._loop)
        elif pool is not None:
            pool.stop()
        native, self._native = self._native, None
        if native is not None:
            native.close()

    def __del__(self) -> None:
        if getattr(self, "_pool", None) is not None or getattr(self, "_native", None) is not None:
            self._close()


def __getattr__(name: str) -> Any:
    """torch's classes of iterators, which nothing is an object of: loops over a DataLoader are generators."""
    if name not in ("_BaseDataLoaderIter", "_MultiProcessingDataLoaderIter", "_SingleProcessDataLoaderIter"):
        raise AttributeError("module 'cairn.utils.data.dataloader' has no attribute %r" % (name,))
    from ... import _absent
    made = globals()[name] = _absent.kind(__name__, name, "loops over a DataLoader are generators")
    return made
