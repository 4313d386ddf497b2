"""cairn.multiprocessing: Python's multiprocessing, under the name that torch's programs import.

Place in the flow: loaded when a program names it, shares a tensor, or has a DataLoader with processes. A tensor that is
sent to another process is moved into shared memory, and is the same memory there: what one writes, all have. A tensor
in whose memory others lie (views) cannot be moved: it arrives as a copy, unless it was shared before they were made
(Tensor.share_memory_, Module.share_memory). Children that are forked have shared tensors as such and others as they
were then; "spawn" starts afresh.

Invariant: a tensor is moved only in the thread that sends it: the main thread, or one in Queue.put. Others, in which
Python's own queues pickle, may run beside an op on it, so that they copy.
"""
from __future__ import annotations

import multiprocessing as _python
import multiprocessing.context as _contexts
import multiprocessing.queues as _queues
import os
import pickle
import threading
from multiprocessing import *  # noqa: F401,F403
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any, Callable

from . import _C
from ._arguments import note_once
from ._pickle import _finish
from ._tensor import Tensor
from .nn.parameter import Parameter

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
    try:
        descriptor = fd.detach()
    except (ConnectionError, FileNotFoundError, EOFError) as error:
        raise RuntimeError("the process that sent a tensor has ended before it was received: it has to wait") from error
    try:
        t = _C._from_shared(descriptor, offset, shape, stride, getattr(_C, dtype))
    finally:
        os.close(descriptor)
    share_between_processes(cls)
    return _finish(cls, t, requires_grad, state)


class _Sending(threading.local):
    here = False  # is this thread in Queue.put?


_sending = _Sending()


def _shared(t: Tensor) -> Tensor:
    """t in shared memory: itself, moved where that can be, or else a copy."""
    if t.is_shared():
        return t
    if _sending.here or threading.current_thread() is threading.main_thread():
        try:
            return t.share_memory_()
        except RuntimeError:  # other tensors lie in its memory
            pass
    made = _C._zeros_shared(tuple(t.shape), t.dtype)
    made.copy_(t.detach())
    return made


def _reduce_shared(t: Tensor) -> Any:
    """How multiprocessing sends a tensor: as shared memory, by its descriptor; from a device as pickle has it."""
    if t.requires_grad and not t.is_leaf:
        raise RuntimeError("only leaves can be sent to another process, because a history cannot: detach() the tensor")
    if not t.is_cpu:
        return t.__reduce_ex__(4)
    state, there = getattr(t, "__dict__", None) or None, _shared(t)
    popen = _contexts.get_spawning_popen()
    if popen is not None:  # it takes the descriptor only when the child starts
        popen.__dict__.setdefault("_tensors", []).append(there)
    return _attach, (type(t), DupFd(there._shared_fd()), there.storage_offset(), tuple(there.shape), there.stride(),
                     str(t.dtype).rpartition(".")[2], t.requires_grad, state)


def share_between_processes(cls: type[Tensor]) -> None:
    """From now on multiprocessing sends tensors of this class as shared memory."""
    ForkingPickler.register(cls, _reduce_shared)


share_between_processes(Tensor)
share_between_processes(Parameter)


class _Pickled:
    """An object that was pickled when it was put."""

    def __init__(self, obj: Any) -> None:
        _sending.here = True
        try:
            self.data = bytes(ForkingPickler.dumps(obj))
        finally:
            _sending.here = False

    def __reduce__(self) -> Any:
        return pickle.loads, (self.data,)


class _Put:
    """For queues: what is put is pickled at once, so that it may be changed afterwards, but for its tensors."""

    def put(self, obj: Any, block: bool = True, timeout: float | None = None) -> None:
        super().put(_Pickled(obj), block, timeout)  # type: ignore[misc]


class _Queue(_Put, _queues.Queue):  # type: ignore[type-arg]
    pass


class _JoinableQueue(_Put, _queues.JoinableQueue):  # type: ignore[type-arg]
    pass


class _Queues:
    """For contexts: their queues move tensors into shared memory."""

    def Queue(self, maxsize: int = 0) -> Any:
        return _Queue(maxsize, ctx=self)

    def JoinableQueue(self, maxsize: int = 0) -> Any:
        return _JoinableQueue(maxsize, ctx=self)


_made: dict[str, Any] = {}


def get_context(method: str | None = None) -> Any:  # type: ignore[no-redef]
    """multiprocessing.get_context; tensors in its queues are moved into shared memory."""
    theirs = _python.get_context(method)
    name = theirs.get_start_method()
    if name not in _made:
        kind = type(_python.get_context(name))
        _made[name] = type(kind.__name__, (_Queues, kind), {})()
    return _made[name]


def Queue(maxsize: int = 0) -> Any:  # type: ignore[no-redef]
    """A queue between processes. Tensors in it are moved into shared memory, not copied."""
    return get_context().Queue(maxsize)


def JoinableQueue(maxsize: int = 0) -> Any:  # type: ignore[no-redef]
    """A Queue that knows when what was put has been dealt with."""
    return get_context().JoinableQueue(maxsize)


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
    made = get_context(start_method)
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
