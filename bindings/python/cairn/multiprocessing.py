"""cairn.multiprocessing: Python's multiprocessing, under the name that torch's programs import.

Place in the flow: loaded when a program names it. Tensors that are sent to another process are copied (pickled), not
shared: what a child writes into one is not seen by its parent, so children send back what they made. A child that was
forked has cairn with one thread; "spawn" starts it afresh.
"""
from __future__ import annotations

import multiprocessing as _python
from multiprocessing import *  # noqa: F401,F403
from typing import Any, Callable

__all__ = [*_python.__all__, "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
           "get_all_sharing_strategies", "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes"]


class ProcessRaisedException(Exception):
    """A process that was started ended with an exception."""


class ProcessExitedException(Exception):
    """A process that was started ended with another status than 0."""


def get_all_sharing_strategies() -> set[str]:
    """How tensors get to other processes: by copying."""
    return {"copy"}


def get_sharing_strategy() -> str:
    """"copy"."""
    return "copy"


def set_sharing_strategy(new_strategy: str) -> None:
    """Torch's strategies are ways to share memory; here tensors are copied whatever is asked for."""
    if new_strategy not in ("copy", "file_descriptor", "file_system"):
        raise ValueError("set_sharing_strategy: unknown strategy %r" % (new_strategy,))


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
    """start_processes with fresh interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, "spawn")
