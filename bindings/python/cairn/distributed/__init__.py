"""cairn.distributed: a program on one machine. There are no process groups: is_available() is False, and what needs one
raises when it is used.

Place in the flow: programs and packages import these names whether they run on one machine or on many, and ask
is_available() or is_initialized() before they use them. Invariant: nothing here answers as if there were a group.
"""
from __future__ import annotations

import datetime
import enum
import os
from typing import Any

from .. import _absent
from . import _names

__all__ = [*(n for n in _names.TOP.split() if not n.startswith("_")), "ReduceOp", "group", "is_available",
           "is_initialized"]

_WHY = "cairn has no process groups (torch.distributed); is_available() is False"


class ReduceOp(enum.Enum):
    """How values of several processes become one."""
    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8


reduce_op = ReduceOp


class GroupMember:
    """Stands for groups in default arguments: there is none."""
    WORLD: Any = None
    NON_GROUP_MEMBER: Any = None


group = GroupMember


class DistError(RuntimeError):
    """Something went wrong between processes."""


class DistBackendError(DistError):
    """In what carries messages."""


class DistNetworkError(DistError):
    """On the network."""


class DistStoreError(DistError):
    """In what processes share."""


def is_available() -> bool:
    """Are there process groups? No."""
    return False


is_initialized = is_nccl_available = is_gloo_available = is_mpi_available = is_ucc_available = is_xccl_available = (
    is_available)


def is_backend_available(backend: str) -> bool:
    """Is there a library of that name that carries messages? No, of none."""
    if not isinstance(backend, str):
        raise TypeError("is_backend_available: expected a name, not %s" % type(backend).__name__)
    return False


def is_torchelastic_launched() -> bool:
    """Was the process started by torch's launcher?"""
    return "TORCHELASTIC_RUN_ID" in os.environ


def _record(fn: Any, error_handler: Any = None) -> Any:
    """A decorator of main functions: the function itself. (torch's writes errors into a file that its launcher
    reads.)"""
    if error_handler is not None:
        raise _absent.Absent("record: error_handler: " + _WHY)
    return fn


def _require_initialized(func: Any) -> Any:
    """A decorator of functions that need remote calls: it raises when it is called."""
    return _absent.function("cairn.distributed.rpc", getattr(func, "__name__", "function"), _WHY)


default_pg_timeout = datetime.timedelta(minutes=30)
_made = _absent.spaces(__name__, _names.BELOW, _WHY)
_own: dict[str, dict[str, Any]] = {
        "constants": {"default_pg_timeout": default_pg_timeout, "default_pg_nccl_timeout": None},
        "rpc": {"is_available": is_available, "_is_current_rpc_agent_set": is_available},
        "rpc.api": {"_require_initialized": _require_initialized},
        "elastic.multiprocessing.errors": {"record": _record},
        "distributed_c10d": {name: globals()[name] for name in (
            "ReduceOp", "GroupMember", "group", "default_pg_timeout", "is_initialized", "is_nccl_available",
            "is_gloo_available", "is_mpi_available", "is_ucc_available", "is_xccl_available",
            "is_backend_available", "is_torchelastic_launched")},
        "_functional_collectives": {"ReduceOp": ReduceOp}, "nn.functional": {"ReduceOp": ReduceOp, "group": group},
}
for _inner, _values in _own.items():
    for _name, _value in _values.items():
        setattr(_made[_inner], _name, _value)
del _own, _inner, _values, _name, _value


def __getattr__(name: str) -> Any:
    if name not in _TOP:
        raise AttributeError("module 'cairn.distributed' has no attribute %r: %s" % (name, _WHY))
    made = globals()[name] = _absent._made(__name__, name, _WHY)
    return made


_TOP = frozenset(_names.TOP.split())
