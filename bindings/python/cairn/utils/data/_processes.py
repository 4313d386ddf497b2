"""The processes of a loader: they make numbered batches ahead, each with a data set and an interpreter of its own.

Place in the flow: a Pool (_workers.py) for DataLoader, where it was given a multiprocessing_context; batches come
through shared memory (_transfer.py). A thread of each worker reads what the loader says, so that neither side waits
for the other to read. Invariant: a worker ends when the loader closes its connection or is gone.
"""
from __future__ import annotations

import os
import queue
import random
import signal
import sys
import threading
import time
from multiprocessing import parent_process
from multiprocessing.connection import Connection, wait
from typing import Any, Callable, Iterator

from ... import _C
from ... import multiprocessing as _sharing  # sends the data set's tensors as shared memory
from ._collate import pinned
from ._transfer import receive, send
from ._workers import JOIN, OVER, Fetcher, Here, Pool, WorkerInfo, caught, make

__all__ = ["ProcessPool"]

_GOOD, _BAD, _OVER, _LATE = range(4)  # a batch, an exception, the end of a stream, a task of a loop that was left
_REASONS = {signal.SIGKILL: " (out of memory?)", signal.SIGBUS: " (is the memory for sharing full?)"}
_LOOK = 5.0  # seconds between looks whether the parent is still there


class _Worker:
    """What a worker is told when it starts."""

    def __init__(self, fetcher: Fetcher, number: int, workers: int, seed: int,
                 init: Callable[[int], Any] | None) -> None:
        self.fetcher = fetcher
        self.number = number
        self.workers = workers
        self.seed = (seed + number) % 2 ** 64
        self.init = init
        self.dtype = str(_C.get_default_dtype())[6:]

    def set_up(self) -> None:
        _C._parallel_alone()
        _C.set_default_dtype(getattr(_C, self.dtype))
        Here.info = WorkerInfo(self.number, self.workers, self.seed, self.fetcher.dataset)
        _C._rng_swap(self.seed, 0)
        random.seed(self.seed)
        if "numpy" in sys.modules:
            sys.modules["numpy"].random.seed([self.seed & 0xffffffff, self.seed >> 32])
        if self.init is not None:
            self.init(self.number)


class _Inbox:
    """What the loader has sent, as a thread reads it."""

    def __init__(self, connection: Connection) -> None:
        self.tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self.loop = 0  # the present one
        self.connection = connection
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                loop, task = self.connection.recv()
                self.loop = loop
                if task is not None:
                    self.tasks.put((loop, *task))
        except (EOFError, OSError):
            self.tasks.put(None)
        while _there(parent_process()):
            time.sleep(_LOOK)
        os._exit(1)  # nobody is left to end a worker that hangs


def _there(parent: Any) -> bool:
    try:
        os.kill(parent.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _serve(connection: Connection, inherited: list[Connection], worker: _Worker) -> None:
    """In the child: batches, until the loader closes the connection."""
    for other in inherited:
        other.close()
    inbox, failure = _Inbox(connection), None
    try:
        worker.set_up()
    except Exception as error:
        failure = error
    current, fetcher = 0, worker.fetcher
    try:
        while (task := inbox.tasks.get()) is not None:
            loop, number, seed, indices = task
            if loop != current:
                current, fetcher.iterator = loop, None  # a stream begins again
            if loop != inbox.loop:
                kind, value = _LATE, None
            else:
                kind, value = _batch(worker, seed, number, indices, failure)
            _answer(connection, worker, loop, number, kind, value)
            del value, indices
    except (KeyboardInterrupt, BrokenPipeError, ConnectionResetError):  # the program ends, or does not listen any more
        pass


def _batch(worker: _Worker, seed: int, number: int, indices: Any, failure: Exception | None) -> tuple[int, Any]:
    good, value = make(worker.fetcher, "process %d" % worker.number, seed, number, indices, failure)
    return (_BAD, value) if not good else (_OVER, None) if value is OVER else (_GOOD, value)


def _answer(connection: Connection, worker: _Worker, loop: int, number: int, kind: int, value: Any) -> None:
    parent = parent_process()
    pid = (parent.pid if parent else None) or 0
    try:
        send(connection, (loop, number, kind, value), pid)
    except (BrokenPipeError, ConnectionResetError):
        raise
    except Exception as error:  # what cannot be pickled: a batch, or the class of an exception
        value = (RuntimeError, value[1]) if kind == _BAD else caught(error, "process %d" % worker.number, None)
        send(connection, (loop, number, _BAD, value), pid)


class ProcessPool(Pool):
    """Workers that are processes; numbered tasks go to the one with the fewest."""

    def __init__(self, fetcher: Fetcher, workers: int, ahead: int, seed: int, init: Callable[[int], Any] | None,
                 timeout: float, context: Any) -> None:
        super().__init__(fetcher, workers, ahead, seed, init, timeout)
        mine = fetcher.copy()
        self.pin, mine.pin = fetcher.pin, None  # a worker has no device
        self.connections: list[Connection] = []
        self.processes: list[Any] = []
        self.load = [0] * workers  # tasks that a worker has
        self.failure: str | None = None
        try:
            for i in range(workers):
                self._start(context, _Worker(mine, i, workers, seed, init))
        except BaseException:
            self.stop()
            raise

    def _start(self, context: Any, worker: _Worker) -> None:
        here, there = context.Pipe()
        self.connections.append(here)
        inherited = list(self.connections) if context.get_start_method() == "fork" else []
        process = context.Process(target=_serve, args=(there, inherited, worker), daemon=True,
                                  name="cairn-loader-%d" % worker.number)
        try:
            process.start()
        finally:
            there.close()
        self.processes.append(process)

    def begin(self, seed: int, first: int) -> int:
        loop = super().begin(seed, first)
        self._tell_all()
        return loop

    def leave(self, loop: int) -> None:
        super().leave(loop)
        self._tell_all()

    def _tell_all(self) -> None:
        """What is under way is of no use any more."""
        for worker in range(self.workers) if not self.stopped else ():
            self._tell(worker, None)

    def _tell(self, worker: int, task: Any) -> None:
        try:
            self.connections[worker].send((self.loop, task))
        except (BrokenPipeError, ConnectionResetError):
            self._dead(worker)

    def next_worker(self) -> int:
        return self.load.index(min(self.load))

    def put(self, worker: int, number: int, indices: Any) -> None:
        self.load[worker] += 1
        self._tell(worker, (number, self.seed + worker if self.stream else self.seed, indices))

    def take(self, tasks: Iterator[Any], loop: int) -> Any:
        if self.failure:
            raise RuntimeError(self.failure)
        batch = super().take(tasks, loop)
        return pinned(batch, self.pin) if self.pin and batch is not OVER else batch

    def wait(self, number: int, until: float | None) -> bool:
        while number not in self.results:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = wait([c for c, n in zip(self.connections, self.load) if n], left)
            if not ready:
                return False
            for connection in ready:
                self._receive(self.connections.index(connection))  # type: ignore[arg-type]
        return True

    def _receive(self, worker: int) -> None:
        try:
            loop, number, kind, value = receive(self.connections[worker])
        except (EOFError, ConnectionError):
            self._dead(worker)
        self.load[worker] -= 1
        if loop == self.loop and kind != _LATE:
            self.results[number] = kind != _BAD, OVER if kind == _OVER else value

    def _dead(self, worker: int) -> None:
        """Says how a worker ended, and ends the others."""
        process = self.processes[worker]
        process.join(JOIN)
        code = process.exitcode
        how = "does not answer any more" if code is None else "exited unexpectedly with status %d" % code
        if code is not None and code < 0:
            how = "was killed by signal %d: %s%s" % (-code, signal.strsignal(-code), _REASONS.get(-code, ""))
        self.failure = "DataLoader worker process %d (pid %s) %s" % (worker, process.pid, how)
        self.stop()
        raise RuntimeError(self.failure)

    def stop(self) -> None:
        for connection in self.connections:
            connection.close()
        if self.stopped or os.getpid() != self.owner:
            return
        self.stopped = True
        self.results.clear()
        until = time.monotonic() + JOIN
        for process in self.processes:
            process.join(max(0.0, until - time.monotonic()))
            for end in (process.terminate, process.kill):
                if process.exitcode is None:
                    end()
                    process.join(1)
