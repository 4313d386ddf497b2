"""Limits on what a block may take: time, threads, and until somebody cancels it.

Place in the flow: names of cairn that are loaded when a program asks for them, on the library's limits, which hold for
one thread. Invariant: limits end with their block, whatever happened in it.
"""
from __future__ import annotations

from types import TracebackType

from . import _C
from ._C import Cancelled

__all__ = ["Cancelled", "limits"]


class limits:
    """What this thread may take for what it computes in a block::

        with cairn.limits(timeout=0.5, threads=1) as within:
            y = compiled(x)

    timeout: seconds; what is not done then raises TimeoutError. threads: at most so many, results do not depend on it.
    `within.cancel()`, from another thread, ends the block's work with `cairn.Cancelled`. Both are looked at before each
    op, and between the nodes and steps of compiled functions: a compiled call that is stopped has changed nothing, of
    other code what was done before is done. Inner limits can only be tighter than outer ones."""

    def __init__(self, timeout: float | None = None, threads: int | None = None) -> None:
        if timeout is not None and not timeout > 0:
            raise ValueError("limits: a timeout of %r seconds makes no sense" % (timeout,))
        if threads is not None and threads < 1:
            raise ValueError("limits: %r threads make no sense" % (threads,))
        self._base = _C.LimitsBase(0.0 if timeout is None else float(timeout), 0 if threads is None else threads)

    def cancel(self) -> None:
        """Stops what is computed in the block. From any thread, before it or while it runs."""
        self._base.cancel()

    def __enter__(self) -> limits:
        self._base.begin()
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self._base.end()
