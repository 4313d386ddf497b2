"""The threads of a loader: they make numbered batches ahead in this process, and nothing is pickled or copied.

Place in the flow: a Pool (_workers.py) for DataLoader. Invariant: what threads and the consumer both write changes
under `cond`.
"""
from __future__ import annotations

import collections
import os
import threading
import time
from typing import Any, Callable

from ... import _C
from ._workers import JOIN, Fetcher, Pool, WorkerInfo, here, make

__all__ = ["ThreadPool"]


class ThreadPool(Pool):
    """Workers that are threads; numbered tasks go to whichever is free."""

    def __init__(self, fetcher: Fetcher, workers: int, ahead: int, seed: int, init: Callable[[int], Any] | None,
                 timeout: float) -> None:
        self.cond = threading.Condition()
        shared: collections.deque[tuple[int, int, Any]] = collections.deque()
        self.queues = [collections.deque() if fetcher.stream else shared for _ in range(workers)]
        super().__init__(fetcher, workers, ahead, seed, init, timeout)
        dtype = _C.get_default_dtype()
        self.threads = [threading.Thread(target=self._run, args=(i, fetcher.copy(), dtype), daemon=True,
                                         name="cairn-loader-%d" % i) for i in range(workers)]
        for thread in self.threads:
            thread.start()

    def begin(self, seed: int, first: int) -> int:
        with self.cond:
            return super().begin(seed, first)

    def leave(self, loop: int) -> None:
        with self.cond:
            super().leave(loop)

    def forget(self) -> None:
        super().forget()
        for queue in self.queues:
            queue.clear()

    def put(self, worker: int, number: int, indices: Any) -> None:
        with self.cond:
            self.queues[worker].append((self.loop, number, indices))
            self.cond.notify_all()

    def wait(self, number: int, until: float | None) -> bool:
        with self.cond:
            while number not in self.results:
                left = None if until is None else until - time.monotonic()
                if left is not None and left <= 0:
                    return False
                self.cond.wait(left)
            return True

    def _run(self, worker: int, fetcher: Fetcher, dtype: Any) -> None:
        _C._parallel_alone()
        _C.set_default_dtype(dtype)
        seed = (self.seed + worker) % 2 ** 64
        here.info = WorkerInfo(worker, self.workers, seed, fetcher.dataset)
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
            seed = self.seed + worker if self.stream else self.seed
            result = make(fetcher, "thread %d" % worker, seed, number, indices, failure)
            with self.cond:
                if loop == self.loop:
                    self.results[number] = result
                    self.cond.notify_all()
            del result, indices  # a waiting thread keeps no batch alive

    def stop(self) -> None:
        if os.getpid() != self.owner:
            return
        with self.cond:
            self.stopped = True
            self.results.clear()
            self.cond.notify_all()
        until = time.monotonic() + JOIN
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join(max(0.0, until - time.monotonic()))
