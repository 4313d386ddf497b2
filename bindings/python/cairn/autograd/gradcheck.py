"""Gradients checked against finite differences."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

from .. import _C
from .._modes import enable_grad, no_grad
from .._tensor import Tensor
from . import grad as _grad

if TYPE_CHECKING:
    from typing import TypeAlias

    _Function: TypeAlias = Callable[..., Any]
    _Rows: TypeAlias = list[list[float]]

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by gradcheck and gradgradcheck when the derivatives do not agree."""


def _tuple(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, Tensor) else tuple(value)


def _outputs(func: _Function, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
    """The differentiable results of the function."""
    return tuple(o for o in _tuple(func(*inputs)) if isinstance(o, Tensor) and o.is_floating_point())


def _wanted(inputs: Sequence[Any]) -> list[Tensor]:
    return [x for x in inputs if isinstance(x, Tensor) and x.requires_grad]


def _check_inputs(inputs: Sequence[Any]) -> list[Tensor]:
    wanted = _wanted(inputs)
    if not wanted:
        raise ValueError("gradcheck: at least one input must require a gradient")
    for i, x in enumerate(inputs):
        if isinstance(x, Tensor) and x.requires_grad:
            if not x.is_leaf:
                x.retain_grad()
            if any(n > 1 and s == 0 for n, s in zip(x.shape, x.stride())):
                raise RuntimeError(f"gradcheck: elements of input {i} share memory; give it a clone")
    return wanted


def _places(x: Tensor) -> Iterator[tuple[int, ...]]:
    return itertools.product(*(range(n) for n in x.shape))


def _numeric(func: _Function, inputs: Sequence[Any], x: Tensor, eps: float) -> list[_Rows]:
    """Derivatives of every output by x: per output, a list (over x's elements) of flat lists (over its own)."""
    memory = x.detach()
    columns: list[_Rows] = []
    for place in _places(x):
        with no_grad():
            was = memory[place].item()
            memory[place] = was + eps
            up = [o.detach().reshape(-1).clone() for o in _outputs(func, inputs)]
            memory[place] = was - eps
            down = [o.detach().reshape(-1).clone() for o in _outputs(func, inputs)]
            memory[place] = was
            slopes = [((a - b) / (2 * eps)).tolist() for a, b in zip(up, down)]
        columns = columns or [[] for _ in slopes]
        for column, slope in zip(columns, slopes):
            column.append(slope)
    return columns


def _analytic(func: _Function, inputs: Sequence[Any], wanted: list[Tensor]) -> list[list[_Rows]]:
    """The same by backward: [output][input] -> list over the output's elements of flat lists over the input's."""
    answer = []
    with enable_grad():
        for o in _outputs(func, inputs):
            rows: list[_Rows] = [[] for _ in wanted]
            for i in range(o.numel()):
                grads: tuple[Tensor | None, ...] = (None,) * len(wanted)
                if o.requires_grad:
                    seed = _C.zeros_like(o, requires_grad=False).reshape(-1)
                    seed[i] = 1
                    grads = _grad(o, wanted, seed.reshape(o.shape), retain_graph=True, allow_unused=True)
                for row, g, x in zip(rows, grads, wanted):
                    if g is not None and (tuple(g.shape) != tuple(x.shape) or g.dtype != x.dtype):
                        raise GradcheckError("gradcheck: a gradient differs from its input in shape or type")
                    row.append([0.0] * x.numel() if g is None else g.detach().reshape(-1).tolist())
            answer.append(rows)
    return answer


def _close(a: float, b: float, atol: float, rtol: float) -> bool:
    return a == b or abs(a - b) <= atol + rtol * abs(b)  # false for NaN


def _compare(analytic: _Rows, numeric: _Rows, k: int, number: int, atol: float, rtol: float) -> None:
    """analytic: rows over output elements; numeric: rows over input elements."""
    for i, row in enumerate(analytic):
        for j, value in enumerate(row):
            expected = numeric[j][i]
            if not _close(value, expected, atol, rtol):
                raise GradcheckError(f"gradcheck: output {k} element {i} by input {number} element {j}: the gradient "
                                     f"is {value:.10g}, finite differences give {expected:.10g}")


def _check(func: _Function, inputs: Sequence[Any], eps: float, atol: float, rtol: float, nondet_tol: float) -> None:
    wanted = _check_inputs(inputs)
    outputs = _outputs(func, inputs)
    if not outputs:
        raise ValueError("gradcheck: the function returned no floating-point tensor")
    analytic = _analytic(func, inputs, wanted)
    again = _analytic(func, inputs, wanted)
    for rows, repeated in zip(analytic, again):
        for row, other in zip(itertools.chain(*rows), itertools.chain(*repeated)):
            if any(abs(a - b) > nondet_tol for a, b in zip(row, other)):
                raise GradcheckError("gradcheck: backward gives other values when run again")
    for number, x in enumerate(wanted):
        for k, columns in enumerate(_numeric(func, inputs, x, eps)):
            _compare(analytic[k][number], columns, k, number, atol, rtol)


def gradcheck(func: _Function, inputs: Tensor | Sequence[Any], *, eps: float = 1e-6, atol: float = 1e-5,
              rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
              check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None) -> bool:
    """Compares the gradients of func at these inputs (float64, small) with finite differences: True, or an error that
    names the place (False with raise_exception=False). The other arguments are torch's and change nothing."""
    try:
        if check_backward_ad:
            _check(func, _tuple(inputs), eps, atol, rtol, nondet_tol)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(func: _Function, inputs: Tensor | Sequence[Any], grad_outputs: Tensor | Sequence[Any] | None = None,
                  *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
                  gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0,
                  check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
                  check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True, fast_mode: bool = False,
                  masked: bool = False) -> bool:
    """Compares the gradients of func's gradients with finite differences, as gradcheck does."""
    points = _tuple(inputs)
    with enable_grad():
        outputs = _outputs(func, points)
        if grad_outputs is None:
            state = _C.default_generator.get_state()
            starts = tuple(_C.randn_like(o.detach()).requires_grad_() for o in outputs)
            _C.default_generator.set_state(state)
        else:
            starts = _tuple(grad_outputs)

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        given, seeds = args[:len(points)], args[len(points):]
        with enable_grad():
            outs = _outputs(func, given)
            linked = [(o, s) for o, s in zip(outs, seeds) if o.requires_grad]
            wanted = _wanted(given)
            found = _grad([o for o, _ in linked], wanted, [s for _, s in linked], create_graph=True, allow_unused=True)
            return tuple(g for g in found if g is not None)

    return gradcheck(gradients, points + starts, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception,
                     nondet_tol=nondet_tol)
