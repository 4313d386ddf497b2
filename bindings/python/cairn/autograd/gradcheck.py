"""Gradients checked against finite differences. Complex numbers are checked as pairs of real ones, in both directions:
the gradient of a complex input holds the derivatives by its real and imaginary parts.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any, Callable, Iterator, Sequence

from .. import _C
from .._modes import enable_grad, no_grad
from .._arguments import only_speed, refused
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
    """The differentiable results of the function, complex ones as pairs."""
    return tuple(_pairs(o) for o in _tuple(func(*inputs))
                 if isinstance(o, Tensor) and (o.is_floating_point() or o.is_complex()))


def _pairs(x: Tensor) -> Tensor:
    """Real numbers in the same memory: complex ones as pairs."""
    return _C.view_as_real(x) if x.is_complex() else x


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
    memory = _pairs(x.detach())
    columns: list[_Rows] = []
    for place in _places(memory):
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


def _analytic(func: _Function, inputs: Sequence[Any], wanted: list[Tensor], dtypes: bool) -> list[list[_Rows]]:
    """The same by backward: [output][input] -> list over the output's elements of flat lists over the input's."""
    result = []
    with enable_grad():
        outputs = _outputs(func, inputs)
        roots = [o for o in outputs if o.requires_grad]
        zeros = [_C.zeros_like(o, requires_grad=False) for o in roots]  # what is undefined is _check_undefined's matter
        for o in outputs:
            rows: list[_Rows] = [[] for _ in wanted]
            for seed in _seeds(o):
                grads: tuple[Tensor | None, ...] = (None,) * len(wanted)
                if o.requires_grad:
                    seeds = [seed if root is o else zero for root, zero in zip(roots, zeros)]
                    grads = _grad(roots, wanted, seeds, retain_graph=True, allow_unused=True)
                for row, g, x in zip(rows, grads, wanted):
                    if g is not None and tuple(g.shape) != tuple(x.shape):
                        raise GradcheckError("gradcheck: a gradient differs from its input in shape")
                    if g is not None and dtypes and g.dtype != x.dtype:
                        raise GradcheckError("gradcheck: a gradient differs from its input in type")
                    g = _C.zeros_like(x, requires_grad=False) if g is None else g.detach()
                    row.append(_pairs(g).reshape(-1).tolist())
            result.append(rows)
    return result


def _seeds(o: Tensor) -> Iterator[Tensor]:
    """For each element of o: ones there and zeros elsewhere."""
    for i in range(o.numel()):
        seed = _C.zeros_like(o, requires_grad=False).reshape(-1)
        seed[i] = 1
        yield seed.reshape(o.shape)


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


def _check_backward(func: _Function, inputs: Sequence[Any], wanted: list[Tensor], numeric: list[list[_Rows]],
                    atol: float, rtol: float, nondet_tol: float, dtypes: bool) -> None:
    """The Jacobian by backward against finite differences, and against itself when run again."""
    analytic = _analytic(func, inputs, wanted, dtypes)
    again = _analytic(func, inputs, wanted, dtypes)
    for rows, repeated in zip(analytic, again):
        for row, other in zip(itertools.chain(*rows), itertools.chain(*repeated)):
            if any(abs(a - b) > nondet_tol for a, b in zip(row, other)):
                raise GradcheckError("gradcheck: backward gives other values when run again")
    for number, columns in enumerate(numeric):
        for k, column in enumerate(columns):
            _compare(analytic[k][number], column, k, number, atol, rtol)


def _check_forward(func: _Function, inputs: Sequence[Any], wanted: list[Tensor], numeric: list[list[_Rows]],
                   atol: float, rtol: float) -> None:
    """The Jacobian column by column, by products with tangents, against finite differences."""
    from ..func import jvp
    places = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]

    def of_wanted(*given: Tensor) -> tuple[Tensor, ...]:
        args = list(inputs)
        for i, x in zip(places, given):
            args[i] = x
        return _outputs(func, args)

    points = tuple(x.detach() for x in wanted)
    for number, x in enumerate(points):
        for at, seed in enumerate(_seeds(_pairs(x))):
            seed = _C.view_as_complex(seed) if x.is_complex() else seed
            tangents = tuple(seed if i == number else _C.zeros_like(p) for i, p in enumerate(points))
            _, changes = jvp(of_wanted, points, tangents)
            for k, change in enumerate(changes):
                for i, value in enumerate(change.detach().reshape(-1).tolist()):
                    expected = numeric[number][k][at][i]
                    if not _close(value, expected, atol, rtol):
                        raise GradcheckError(f"gradcheck: output {k} element {i} by input {number} element {at}: "
                                             f"forward mode gives {value:.10g}, finite differences {expected:.10g}")


def _check_batched(func: _Function, inputs: Sequence[Any], wanted: list[Tensor]) -> None:
    """Many walks at once against one after the other."""
    from .._forms_pointwise import allclose
    with enable_grad():
        for k, o in enumerate(_outputs(func, inputs)):
            if not o.requires_grad or not o.numel():
                continue
            seeds = list(_seeds(o))
            batch = _grad(o, wanted, _C.stack(seeds), retain_graph=True, allow_unused=True, is_grads_batched=True)
            single = [_grad(o, wanted, s, retain_graph=True, allow_unused=True) for s in seeds]
            for number, found in enumerate(batch):
                rows = [g for g in (walk[number] for walk in single) if g is not None]
                same = not rows if found is None else bool(rows) and allclose(found, _C.stack(rows))
                if not same:
                    raise GradcheckError(f"gradcheck: gradients of output {k} by input {number} differ when they are "
                                         "computed in a batch")


def _check_undefined(func: _Function, inputs: Sequence[Any], wanted: list[Tensor]) -> None:
    """An output that no gradient arrives at counts as one whose gradient is zero."""
    with enable_grad():
        outputs = [o for o in _outputs(func, inputs) if o.requires_grad]
        for left in range(len(outputs)) if len(outputs) > 1 else ():
            others = [o for i, o in enumerate(outputs) if i != left]
            try:
                found = _grad(others, wanted, [_C.zeros_like(o) for o in others], retain_graph=True, allow_unused=True)
            except Exception as error:
                raise GradcheckError("gradcheck: backward does not treat the undefined gradient of output "
                                     f"{left} as zeros: {error}") from error
            if any(g is not None and bool((g != 0).any()) for g in found):
                raise GradcheckError(f"gradcheck: backward does not treat the undefined gradient of output {left} as "
                                     "zeros")


def gradcheck(func: _Function, inputs: Tensor | Sequence[Any], *, eps: float = 1e-6, atol: float = 1e-5,
              rtol: float = 1e-3, raise_exception: bool = True, nondet_tol: float = 0.0,
              check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
              check_batched_forward_grad: bool = False, check_forward_ad: bool = False,
              check_backward_ad: bool = True, fast_mode: bool = False, masked: bool | None = None) -> bool:
    """Compares the gradients of func at these inputs (float64 or complex128, small) with finite differences: True, or
    an error that names the place (False with raise_exception=False). check_forward_ad compares products with tangents
    as well, check_batched_grad many walks at once with single ones, check_undefined_grad what backward makes of
    outputs without a gradient, check_grad_dtypes the types. Every element is looked at, also with fast_mode."""
    if not check_forward_ad and not check_backward_ad:
        raise ValueError("gradcheck: check_backward_ad or check_forward_ad must be True")
    if check_batched_grad and not check_backward_ad:
        raise ValueError("gradcheck: check_batched_grad needs check_backward_ad")
    refused("gradcheck", "forward derivatives are not batched", False,
            check_batched_forward_grad=check_batched_forward_grad)
    refused("gradcheck", "tensors are dense", False, masked=bool(masked))
    only_speed("gradcheck", False, fast_mode=fast_mode)
    given = _tuple(inputs)
    try:
        wanted = _check_inputs(given)
        if not _outputs(func, given):
            raise ValueError("gradcheck: the function returned no floating-point or complex tensor")
        numeric = [_numeric(func, given, x, eps) for x in wanted]
        if check_backward_ad:
            _check_backward(func, given, wanted, numeric, atol, rtol, nondet_tol, check_grad_dtypes)
        if check_forward_ad:
            _check_forward(func, given, wanted, numeric, atol, rtol)
        if check_batched_grad:
            _check_batched(func, given, wanted)
        if check_backward_ad and check_undefined_grad:
            _check_undefined(func, given, wanted)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def _spread(t: Tensor) -> Tensor:
    """The same elements with gaps between them."""
    return _C.stack((t, t), -1)[..., 0] if t.ndim else t


def gradgradcheck(func: _Function, inputs: Tensor | Sequence[Any], grad_outputs: Tensor | Sequence[Any] | None = None,
                  *, eps: float = 1e-6, atol: float = 1e-5, rtol: float = 1e-3,
                  gen_non_contig_grad_outputs: bool = False, raise_exception: bool = True, nondet_tol: float = 0.0,
                  check_undefined_grad: bool = True, check_grad_dtypes: bool = False, check_batched_grad: bool = False,
                  check_fwd_over_rev: bool = False, check_rev_over_rev: bool = True, fast_mode: bool = False,
                  masked: bool = False) -> bool:
    """Compares the gradients of func's gradients with finite differences, as gradcheck does: by backward
    (check_rev_over_rev), and by products with tangents (check_fwd_over_rev)."""
    points = _tuple(inputs)
    with enable_grad():
        outputs = _outputs(func, points)
        if grad_outputs is None:
            state = _C.default_generator.get_state()
            drawn = tuple(_C.randn_like(o.detach()) for o in outputs)
            starts = tuple((_spread(d) if gen_non_contig_grad_outputs else d).requires_grad_() for d in drawn)
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
                     nondet_tol=nondet_tol, check_undefined_grad=check_undefined_grad,
                     check_grad_dtypes=check_grad_dtypes, check_batched_grad=check_batched_grad,
                     check_forward_ad=check_fwd_over_rev, check_backward_ad=check_rev_over_rev, fast_mode=fast_mode,
                     masked=masked)
