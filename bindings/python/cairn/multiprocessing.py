"""cairn.multiprocessing: Python's multiprocessing, under the name that torch's programs import.

Place in the flow: loaded when a program names it, or shares a tensor. A tensor in shared memory (Tensor.share_memory_,
Module.share_memory) stays the same memory in every process that it is sent to or that is forked: what one writes, all
have. Others are copied (pickled): what a child writes into such a one is not seen by its parent. A child that was
forked has cairn with one thread; "spawn" starts it afresh.
"""
from __future__ import annotations

import multiprocessing as _python
import os
from multiprocessing import *  # noqa: F401,F403
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, Callable

from . import _C
from ._arguments import note_once
from ._pickle import _finish
from ._tensor import Tensor

__all__ = [*_python.__all__, "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
           "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]


class ProcessRaisedException(Exception):
    """A process that was started ended with an exception."""


class ProcessExitedException(Exception):
    """A process that was started ended with another status than 0."""


def get_all_sharing_strategies() -> set[str]:
    """How shared memory gets to other processes: by its file descriptor."""
    return {"file_descriptor"}


def get_sharing_strategy() -> str:
    """"file_descriptor"."""
    return "file_descriptor"


def set_sharing_strategy(new_strategy: str) -> None:
    """There is one strategy; torch's other one ("file_system") shares the same memory by a name."""
    if new_strategy == "file_system":
        note_once("set_sharing_strategy: memory is shared by file descriptor, not by name")
    elif new_strategy != "file_descriptor":
        raise ValueError("set_sharing_strategy: unknown strategy %r" % (new_strategy,))


def _attach(cls: type[Tensor], fd: Any, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], dtype: str,
            requires_grad: bool, state: dict[str, Any] | None) -> Tensor:
    """The tensor that _reduce_shared sent, over the same memory."""
    descriptor = fd.detach()
    try:
        t = _C._from_shared(descriptor, offset, shape, stride, getattr(_C, dtype))
    finally:
        os.close(descriptor)
    share_between_processes(cls)
    return _finish(cls, t, requires_grad, state)


def _reduce_shared(t: Tensor) -> Any:
    """How multiprocessing sends a tensor: shared memory by its descriptor, other tensors as pickle has them."""
    if not t.is_shared():
        return t.__reduce_ex__(4)
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError("only leaves can be sent to another process, because a history cannot: detach() the tensor")
    state = getattr(t, "__dict__", None) or None
    return _attach, (type(t), DupFd(t._shared_fd()), t.storage_offset(), tuple(t.shape), t.stride(),
                     str(t.dtype)[6:], t.requires_grad, state)


def share_between_processes(cls: type[Tensor]) -> None:
    """From now on multiprocessing sends tensors of this class, where they are shared, as shared memory."""
    ForkingPickler.register(cls, _reduce_shared)
    ForkingPickler.register(Tensor, _reduce_shared)  # Parameters are sent as their data


def _run(function: Callable[..., Any], index: int, args: tuple[Any, ...], errors: Any) -> None:
    """In the child: the call, and what it raised as text for the parent."""
    try:
        function(index, *args)
    except KeyboardInterrupt:
        pass
    except Exception:
        import sys
        import traceback
        errors.put((index, traceback.format_exc()))
        errors.close()
        errors.join_thread()
        sys.exit(1)


class SpawnContext:
    """The processes that spawn started."""

    def __init__(self, processes: list[Any], errors: Any) -> None:
        self.processes = processes
        self._errors = errors

    def pids(self) -> list[int | None]:
        """Their numbers."""
        return [p.pid for p in self.processes]

    def join(self, timeout: float | None = None) -> bool:
        """Waits for all of them (or so many seconds); True when all have ended well. The first failure ends the others
        and is raised here."""
        from multiprocessing.connection import wait
        running = [p for p in self.processes if p.exitcode is None]
        ready = wait([p.sentinel for p in running], timeout) if running else []
        for p in running:
            if p.sentinel in ready:
                p.join()
        failed = next((i for i, p in enumerate(self.processes) if p.exitcode), None)
        if failed is None:
            return all(p.exitcode == 0 for p in self.processes)
        code = self.processes[failed].exitcode
        for p in self.processes:
            if p.exitcode is None:
                p.terminate()
                p.join()
        if code == 1 and not self._errors.empty():
            index, text = self._errors.get()
            raise ProcessRaisedException("\n\n-- Process %d terminated with the following error:\n%s" % (index, text))
        raise ProcessExitedException("process %d terminated with exit code %d" % (failed, code))


def start_processes(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
                    daemon: bool = False, start_method: str = "spawn") -> SpawnContext | None:
    """fn(i, *args) in nprocs processes, i from 0 on; waits for them unless join is False."""
    made = _python.get_context(start_method)
    errors = made.Queue()
    processes: list[Any] = []
    for i in range(nprocs):
        process = getattr(made, "Process")(target=_run, args=(fn, i, args, errors), daemon=daemon)
        process.start()
        processes.append(process)
    context = SpawnContext(processes, errors)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True,
          daemon: bool = False, start_method: str = "spawn") -> SpawnContext | None:
    """start_processes, with fresh interpreters unless another start_method is given."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
