"""Gradients: backward and grad, custom functions, checks, and derivatives of whole functions."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING, Iterable, Literal, Sequence, overload

from .. import _C
from .._modes import (enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
                      set_grad_enabled)
from .._tensor import Tensor

if TYPE_CHECKING:
    from typing import TypeAlias

    _Tensors: TypeAlias = Tensor | Sequence[Tensor]
    _Seeds: TypeAlias = Tensor | Sequence[Tensor | None] | None

__all__ = ["Function", "FunctionCtx", "GradientTape", "Variable", "backward", "detect_anomaly", "enable_grad",
           "functional", "grad", "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled",
           "is_inference_mode_enabled", "no_grad", "set_detect_anomaly", "set_grad_enabled"]


def _tensors(value: Tensor | Iterable[Tensor], what: str) -> tuple[Tensor, ...]:
    """A tensor or a sequence of tensors as a tuple."""
    if isinstance(value, Tensor):
        return (value,)
    if value is None or isinstance(value, (str, int, float)):
        raise TypeError(f"{what}: expected a Tensor or a sequence of tensors, not {type(value).__name__}")
    return tuple(value)


def _gradients(given: _Seeds, count: int, what: str) -> tuple[Tensor | None, ...]:
    """The gradients to begin with, one (or None) per output."""
    if given is None:
        return (None,) * count
    if isinstance(given, Tensor):
        given = (given,)
    grads = tuple(given)
    if len(grads) != count:
        raise RuntimeError(f"{what}: {count} tensors but {len(grads)} gradients")
    return grads


def backward(tensors: _Tensors, grad_tensors: _Seeds = None, retain_graph: bool | None = None,
             create_graph: bool = False, inputs: _Tensors | None = None) -> None:
    """Adds the gradients of the tensors to the .grad of the leaves they were computed from, or of `inputs` only.

    grad_tensors: the gradients to begin with; None stands for 1 where a tensor has one element. create_graph records
    the walk itself, for gradients of gradients; retain_graph (by default what create_graph says) keeps the record for
    another backward."""
    outputs = _tensors(tensors, "backward")
    grads = _gradients(grad_tensors, len(outputs), "backward")
    chosen = None if inputs is None else _tensors(inputs, "backward: inputs")
    if chosen == ():
        raise RuntimeError("backward: inputs is empty")
    retain = create_graph if retain_graph is None else retain_graph
    _C._backward(outputs, grads, bool(retain), bool(create_graph), chosen)


def _materialized(grads: Iterable[Tensor | None], inputs: Iterable[Tensor]) -> tuple[Tensor, ...]:
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(grads, inputs))


@overload
def grad(outputs: _Tensors, inputs: _Tensors, grad_outputs: _Seeds = ..., retain_graph: bool | None = ...,
         create_graph: bool = ..., only_inputs: bool = ..., allow_unused: Literal[False] | None = ...,
         is_grads_batched: bool = ..., materialize_grads: bool = ...) -> tuple[Tensor, ...]: ...
@overload
def grad(outputs: _Tensors, inputs: _Tensors, grad_outputs: _Seeds = ..., retain_graph: bool | None = ...,
         create_graph: bool = ..., only_inputs: bool = ..., allow_unused: bool | None = ...,
         is_grads_batched: bool = ..., *, materialize_grads: Literal[True]) -> tuple[Tensor, ...]: ...
@overload
def grad(outputs: _Tensors, inputs: _Tensors, grad_outputs: _Seeds = ..., retain_graph: bool | None = ...,
         create_graph: bool = ..., only_inputs: bool = ..., allow_unused: bool | None = ...,
         is_grads_batched: bool = ..., materialize_grads: bool = ...) -> tuple[Tensor | None, ...]: ...


def grad(outputs: _Tensors, inputs: _Tensors, grad_outputs: _Seeds = None, retain_graph: bool | None = None,
         create_graph: bool = False, only_inputs: bool = True, allow_unused: bool | None = None,
         is_grads_batched: bool = False, materialize_grads: bool = False) -> tuple[Tensor | None, ...]:
    """The gradients of the outputs, added up, with respect to the inputs: a tuple. Leaves' .grad stays as it is.

    An input that was not used is an error, or None with allow_unused, or zeros with materialize_grads. With
    is_grads_batched the first dimension of grad_outputs runs over several walks, and so does that of the results."""
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads needs allow_unused=True or None")
    if not only_inputs:
        raise NotImplementedError("grad: only_inputs=False is not there; use backward")
    allow = bool(materialize_grads if allow_unused is None else allow_unused)
    outs, ins = _tensors(outputs, "grad: outputs"), _tensors(inputs, "grad: inputs")
    seeds = _gradients(grad_outputs, len(outs), "grad")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    if not is_grads_batched:
        result = _C._grad(outs, ins, seeds, retain, bool(create_graph), allow)
        return _materialized(result, ins) if materialize_grads else result
    counts = {len(s) for s in seeds if s is not None}
    if len(counts) != 1:
        raise RuntimeError("grad: is_grads_batched needs grad_outputs of one common first size")
    count, rows = counts.pop(), []
    for i in range(count):
        row = tuple(None if s is None else s[i] for s in seeds)
        rows.append(_C._grad(outs, ins, row, retain or i + 1 < count, bool(create_graph), allow))
    result = tuple(_stacked(column) for column in zip(*rows))
    return _materialized(result, ins) if materialize_grads else result


def _stacked(column: Iterable[Tensor | None]) -> Tensor | None:
    """The gradients of one input by several walks; None where it takes no part, which no walk changes."""
    rows = [g for g in column if g is not None]
    return _C.stack(rows) if rows else None


class set_detect_anomaly:
    """Switches anomaly detection of this thread on or off: backward then stops at the first op that makes a NaN or
    Inf, with an error that names it. Slow. With `with` it is switched back at the end."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self._before = _C._set_anomaly(bool(mode) and bool(check_nan))

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _C._set_anomaly(self._before)


class detect_anomaly:
    """While inside, backward stops at the first op that makes a NaN or Inf, with an error that names it. Slow."""

    def __init__(self, check_nan: bool = True) -> None:
        self._check = bool(check_nan)
        self._before: list[bool] = []

    def __enter__(self) -> None:
        self._before.append(_C._set_anomaly(self._check))

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        _C._set_anomaly(self._before.pop())


is_anomaly_enabled = _C.is_anomaly_enabled


def __getattr__(name: str) -> object:
    if name not in ("forward_ad", "profiler"):  # loaded by those who use them
        raise AttributeError("module 'cairn.autograd' has no attribute %r" % (name,))
    import importlib
    return importlib.import_module(__name__ + "." + name)


from . import functional, graph  # noqa: E402
from .function import Function, FunctionCtx  # noqa: E402
from .gradcheck import gradcheck, gradgradcheck  # noqa: E402
from .tape import GradientTape  # noqa: E402
from .variable import Variable  # noqa: E402
from .. import _homes  # noqa: E402

_homes.homes(__name__, {"anomaly_mode": "detect_anomaly set_detect_anomaly"})


def _profiler_enabled() -> bool:
    """Is torch's own recorder of ops running? There is none: see cairn.profiler."""
    return False
