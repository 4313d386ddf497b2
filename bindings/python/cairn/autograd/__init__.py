"""Gradients: backward and grad, custom functions, checks, and derivatives of whole functions."""

from .. import _C
from .._modes import (enable_grad, inference_mode, is_grad_enabled, is_inference_mode_enabled, no_grad,
                      set_grad_enabled)

_Tensor = _C.TensorBase

__all__ = ["Function", "FunctionCtx", "GradientTape", "backward", "detect_anomaly", "enable_grad", "functional", "grad",
           "gradcheck", "gradgradcheck", "inference_mode", "is_grad_enabled", "is_inference_mode_enabled", "no_grad",
           "set_detect_anomaly", "set_grad_enabled"]


def _tensors(value, what):
    """A tensor or a sequence of tensors as a tuple."""
    if isinstance(value, _Tensor):
        return (value,)
    if value is None or isinstance(value, (str, int, float)):
        raise TypeError(f"{what}: expected a Tensor or a sequence of tensors, not {type(value).__name__}")
    return tuple(value)


def _gradients(given, count, what):
    """The gradients to begin with, one (or None) per output."""
    if given is None:
        return (None,) * count
    if isinstance(given, _Tensor):
        given = (given,)
    given = tuple(given)
    if len(given) != count:
        raise RuntimeError(f"{what}: {count} tensors but {len(given)} gradients")
    return given


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, inputs=None):
    """Adds the gradients of the tensors to the .grad of the leaves they were computed from, or of `inputs` only.

    grad_tensors: the gradients to begin with; None stands for 1 where a tensor has one element. create_graph records
    the walk itself, for gradients of gradients; retain_graph (by default what create_graph says) keeps the record for
    another backward."""
    tensors = _tensors(tensors, "backward")
    grads = _gradients(grad_tensors, len(tensors), "backward")
    if inputs is not None:
        inputs = _tensors(inputs, "backward: inputs")
        if not inputs:
            raise RuntimeError("backward: inputs is empty")
    retain = create_graph if retain_graph is None else retain_graph
    _C._backward(tensors, grads, bool(retain), bool(create_graph), inputs)


def _materialized(grads, inputs):
    return tuple(_C.zeros_like(x) if g is None else g for g, x in zip(grads, inputs))


def grad(outputs, inputs, grad_outputs=None, retain_graph=None, create_graph=False, only_inputs=True, allow_unused=None,
         is_grads_batched=False, materialize_grads=False):
    """The gradients of the outputs, added up, with respect to the inputs: a tuple. Leaves' .grad stays as it is.

    An input that was not used is an error, or None with allow_unused, or zeros with materialize_grads. With
    is_grads_batched the first dimension of grad_outputs runs over several walks, and so does that of the results."""
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads needs allow_unused=True or None")
    if not only_inputs:
        raise NotImplementedError("grad: only_inputs=False is not there; use backward")
    allow = bool(materialize_grads if allow_unused is None else allow_unused)
    outputs, inputs = _tensors(outputs, "grad: outputs"), _tensors(inputs, "grad: inputs")
    seeds = _gradients(grad_outputs, len(outputs), "grad")
    retain = bool(create_graph if retain_graph is None else retain_graph)
    if not is_grads_batched:
        answer = _C._grad(outputs, inputs, seeds, retain, bool(create_graph), allow)
        return _materialized(answer, inputs) if materialize_grads else answer
    counts = {len(s) for s in seeds if s is not None}
    if len(counts) != 1:
        raise RuntimeError("grad: is_grads_batched needs grad_outputs of one common first size")
    count, rows = counts.pop(), []
    for i in range(count):
        row = tuple(None if s is None else s[i] for s in seeds)
        rows.append(_C._grad(outputs, inputs, row, retain or i + 1 < count, bool(create_graph), allow))
    answer = tuple(None if column[0] is None else _C.stack(list(column)) for column in zip(*rows))
    return _materialized(answer, inputs) if materialize_grads else answer


class set_detect_anomaly:
    """Switches anomaly detection of this thread on or off: backward then stops at the first op that makes a NaN or
    Inf, with an error that names it. Slow. With `with` it is switched back at the end."""

    def __init__(self, mode, check_nan=True):
        self._before = _C._set_anomaly(bool(mode) and bool(check_nan))

    def __enter__(self):
        pass

    def __exit__(self, kind, value, trace):
        _C._set_anomaly(self._before)
        return False


class detect_anomaly:
    """While inside, backward stops at the first op that makes a NaN or Inf, with an error that names it. Slow."""

    def __init__(self, check_nan=True):
        self._check = bool(check_nan)
        self._before = []

    def __enter__(self):
        self._before.append(_C._set_anomaly(self._check))

    def __exit__(self, kind, value, trace):
        _C._set_anomaly(self._before.pop())
        return False


is_anomaly_enabled = _C.is_anomaly_enabled

from . import functional  # noqa: E402
from .function import Function, FunctionCtx  # noqa: E402
from .gradcheck import gradcheck, gradgradcheck  # noqa: E402
from .tape import GradientTape  # noqa: E402
