"""cairn.futures: values that are there later, from other threads: torch.futures.

Place in the flow: programs and packages that hand results between threads. Invariant: a future gets a value or an
exception once, and its callbacks run once, in the order in which they were added.
"""
from __future__ import annotations

import threading
from typing import Any, Callable, Generic, TypeVar

__all__ = ["Future", "collect_all", "wait_all"]

T = TypeVar("T")
S = TypeVar("S")


class Future(Generic[T]):
    """A value that set_result or set_exception brings."""

    def __init__(self, *, devices: Any = None) -> None:
        if devices:
            raise NotImplementedError("Future: devices: values are handed on as they are, and streams waited for by "
                                      "those who use them")
        self._lock = threading.Condition()
        self._done = False
        self._value: Any = None
        self._error: BaseException | None = None
        self._callbacks: list[Callable[[Future[T]], None]] = []

    def done(self) -> bool:
        """Is there a value or an exception?"""
        return self._done

    def wait(self) -> T:
        """The value, as soon as it is there; raises the exception."""
        with self._lock:
            self._lock.wait_for(lambda: self._done)
        return self.value()

    def value(self) -> T:
        """The value, which must be there."""
        if not self._done:
            raise RuntimeError("Future.value: the future is not done")
        if self._error is not None:
            raise self._error
        value: T = self._value
        return value

    def _finish(self, value: Any, error: BaseException | None) -> None:
        with self._lock:
            if self._done:
                raise RuntimeError("Future can only be marked completed once")
            self._value, self._error, self._done = value, error, True
            waiting, self._callbacks = self._callbacks, []
            self._lock.notify_all()
        for callback in waiting:
            callback(self)

    def set_result(self, result: T) -> None:
        """Brings the value."""
        self._finish(result, None)

    def set_exception(self, result: BaseException) -> None:
        """Brings an exception, which wait() and value() raise."""
        if not isinstance(result, Exception):
            raise AssertionError("%r is of type %s, not an Exception." % (result, type(result)))
        self._finish(None, result)

    def add_done_callback(self, callback: Callable[[Future[T]], None]) -> None:
        """callback(self) once it is done; what it raises is nobody's."""
        def quiet(future: Future[T]) -> None:
            try:
                callback(future)
            except Exception as error:
                from ._arguments import warn
                warn("a callback of a Future raised %r" % (error,))
        self._when_done(quiet)

    def _when_done(self, callback: Callable[[Future[T]], None]) -> None:
        with self._lock:
            if not self._done:
                self._callbacks.append(callback)
                return
        callback(self)

    def then(self, callback: Callable[[Future[T]], S]) -> Future[S]:
        """A future of what callback(self) returns."""
        made: Future[S] = Future()

        def finish(future: Future[T]) -> None:
            try:
                value = callback(future)
            except Exception as error:
                made.set_exception(error)
            else:
                made.set_result(value)
        self._when_done(finish)
        return made


def collect_all(futures: list[Future[Any]]) -> Future[list[Future[Any]]]:
    """A future that is done when all are; its value is their list."""
    made: Future[list[Future[Any]]] = Future()
    lock, left = threading.Lock(), [len(futures)]

    def one(_future: Future[Any]) -> None:
        with lock:
            left[0] -= 1
            last = not left[0]
        if last:
            made.set_result(futures)
    for future in futures:
        future._when_done(one)
    if not futures:
        made.set_result(futures)
    return made


def wait_all(futures: list[Future[Any]]) -> list[Any]:
    """The values of all; raises the first exception."""
    return [future.wait() for future in collect_all(futures).wait()]
