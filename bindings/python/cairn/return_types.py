"""torch.return_types: the classes of results that have names, torch.return_types.max say.

Place in the flow: C makes such a class when an op first returns one (call.c); asking for it here calls the op once.
Invariant: a class is the very one that results of that op have; torch.return_types.max((values, indices)) makes one."""
from __future__ import annotations

from typing import Any, Callable

from . import _C

__all__ = ["aminmax", "cummax", "cummin", "frexp", "kthvalue", "linalg_eigh", "linalg_qr", "linalg_slogdet",
           "linalg_svd", "lu_unpack", "max", "median", "min", "mode", "nanmedian", "slogdet", "sort", "svd", "topk",
           "triangular_solve"]

_SQUARE = ("linalg_cholesky_ex", "linalg_eig", "linalg_eigh", "linalg_inv_ex", "linalg_lu", "linalg_lu_factor",
           "linalg_qr", "linalg_slogdet", "linalg_svd", "qr", "slogdet", "svd")
_ALONG = ("cummax", "cummin", "max", "median", "min", "mode", "nanmedian", "sort")


def _example(name: str) -> Callable[[], Any] | None:
    """A call that returns an object of the class."""
    import cairn
    op: Any = getattr(cairn, name, None) or getattr(cairn.linalg, name.removeprefix("linalg_"), None)
    if name in _SQUARE:
        return lambda: op(_C.eye(1))
    if name in _ALONG:
        return lambda: op(_C.zeros(1), 0)
    return {"aminmax": lambda: op(_C.zeros(1)), "frexp": lambda: op(_C.zeros(1)),
            "kthvalue": lambda: op(_C.zeros(1), 1), "topk": lambda: op(_C.zeros(1), 1),
            "lu_unpack": lambda: op(_C.eye(1), _C.ones(1, dtype=_C.int32)),
            "linalg_lstsq": lambda: op(_C.eye(1), _C.eye(1)),
            "triangular_solve": lambda: op(_C.eye(1), _C.eye(1))}.get(name)


def __getattr__(name: str) -> Any:
    call = None if name.startswith("_") else _example(name)
    if call is None:
        raise AttributeError("module %r has no attribute %r" % (__name__, name))
    made = globals()[name] = type(call())
    return made
