"""Functions that make functions: derivatives of Python functions, composable with each other.

`grad(f)` is a function that computes the gradient of f; `grad(grad(f))` that of the gradient. Arguments and results may
be tensors, or tuples, lists and dictionaries of them, nested; derivatives have the same structure. Other arguments pass
through. Forward-mode products walk backward twice, through the gradient as a function of its seed. Functions of
modules (functional_call, stack_module_state) make of a network a function of its parameters.
"""
from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, Iterable, ParamSpec, Sequence, TypeVar

from . import _C, _trees
from ._modes import enable_grad
from ._control import map, scan, while_loop
from ._tensor import Tensor
from ._vmap import vmap
from .autograd import functional as _functional
from .autograd.function import forward_mode

__all__ = ["functional_call", "functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp",
           "linearize", "map", "replace_all_batch_norm_modules_", "scan", "stack_module_state", "vjp", "vmap",
           "while_loop"]

if TYPE_CHECKING:
    from typing import TypeAlias

    from .nn import Module

    _Numbers: TypeAlias = int | Sequence[int]  # argnums: one argument, or several

_P = ParamSpec("_P")
_R = TypeVar("_R")


# ---- levels ----
_state = threading.local()


class _Level:
    """Counts how deep transforms are nested: what an inner one returns must stay differentiable for the outer one."""

    def __enter__(self) -> bool:
        outer = getattr(_state, "depth", 0)
        _state.depth = outer + 1
        self._grad = enable_grad()
        self._grad.__enter__()
        return outer > 0

    def __exit__(self, *error: Any) -> None:
        self._grad.__exit__(*error)
        _state.depth -= 1


def _begin(tree: Any, inner: bool, what: str) -> tuple[tuple[Tensor, ...], bool]:
    """(fresh inputs to differentiate by, whether the result is recorded)."""
    given = _trees.tensors(tree, what)
    for t in given:
        if not t.is_floating_point():
            raise RuntimeError(f"{what}: expected inputs of a floating-point type, not {t.dtype}")
    record = inner or any(t.requires_grad for t in given)
    return _functional._fresh(given, record), record


def _finished(tree: Any, record: bool) -> Any:
    return tree if record else _trees.like(tree, [leaf.detach() if isinstance(leaf, Tensor) else leaf
                                            for leaf in _trees.leaves(tree)])


def _numbers(argnums: _Numbers, count: int) -> tuple[tuple[int, ...], bool]:
    """argnums as places in the argument list, and whether it was a single one."""
    alone = isinstance(argnums, int)
    numbers = (argnums,) if isinstance(argnums, int) else tuple(argnums)
    for n in numbers:
        if not -count <= n < count:
            raise RuntimeError(f"argnums: there is no argument {n} among {count}")
    return tuple(n % count for n in numbers), alone


def _replaced(args: Sequence[Any], numbers: tuple[int, ...], values: Iterable[Any]) -> list[Any]:
    out = list(args)
    for n, value in zip(numbers, values):
        out[n] = value
    return out


def _split(result: Any, has_aux: bool, what: str) -> tuple[Any, Any]:
    if not has_aux:
        return result, None
    if not isinstance(result, tuple) or len(result) != 2:
        raise RuntimeError(f"{what}: with has_aux the function must return a pair (output, aux)")
    return result


# ---- gradients ----
def grad_and_value(func: Callable[_P, Any], argnums: _Numbers = 0, has_aux: bool = False) -> Callable[_P, Any]:
    """A function that returns (gradient, value) of func, a function with a result of one element; with has_aux
    (gradient, (value, aux))."""
    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        numbers, alone = _numbers(argnums, len(args))
        chosen = tuple(args[n] for n in numbers)
        with _Level() as inner:
            fresh, record = _begin(chosen, inner, "grad")
            result = func(*_replaced(args, numbers, _trees.like(chosen, fresh)), **kwargs)
            output, aux = _split(result, has_aux, "grad")
            if not isinstance(output, Tensor) or output.ndim != 0:
                raise RuntimeError("grad: the function must return a tensor of no dimensions")
            found = _functional._derive((output,), fresh, (_C.ones_like(output),), record, False, "grad")
            grads, output, aux = (_finished(t, record) for t in (_trees.like(chosen, found), output, aux))
        return (grads[0] if alone else grads), ((output, aux) if has_aux else output)
    return run


def grad(func: Callable[_P, Any], argnums: _Numbers = 0, has_aux: bool = False) -> Callable[_P, Any]:
    """A function that returns the gradient of func, a function with a result of one element, by the arguments at
    argnums (a tuple of them for a tuple); with has_aux (gradient, aux)."""
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        grads, value = both(*args, **kwargs)
        return (grads, value[1]) if has_aux else grads
    return run


# ---- products ----
def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """(output, function): the function maps gradients of the output to those of primals, a tuple; with has_aux
    (output, function, aux)."""
    with _Level() as inner:
        fresh, record = _begin(primals, inner, "vjp")
        output, aux = _split(func(*_trees.like(primals, fresh)), has_aux, "vjp")
        results = _trees.tensors(output, "vjp: output")

    def back(*cotangents: Any, retain_graph: bool = True,
             create_graph: bool | None = None) -> Any:  # unused: retain_graph (it is kept as long as this function)
        """The gradients of the primals for these of the output."""
        given = _trees.tensors(cotangents[0] if len(cotangents) == 1 else cotangents, "vjp: cotangents")
        seeds = _functional._vector(given, results, "vjp")
        keep = record or getattr(_state, "depth", 0) > 0 or any(t.requires_grad for t in seeds)
        with enable_grad():
            found = _functional._derive(results, fresh, seeds, keep if create_graph is None else create_graph, False,
                                        "vjp")
        return _trees.like(primals, found)

    output, aux = _finished(output, record), _finished(aux, record)
    return (output, back, aux) if has_aux else (output, back)


def jvp(func: Callable[..., Any], primals: tuple[Any, ...], tangents: tuple[Any, ...], *, strict: bool = False,
        has_aux: bool = False) -> Any:
    """(output, its change when primals change by tangents); with has_aux also aux."""
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents are tuples, one item for each argument")
    with _Level() as inner:
        fresh, record = _begin(primals, inner, "jvp")
        moved = _functional._vector(tuple(_trees.tensors(tangents, "jvp: tangents")), fresh, "jvp")
        record = record or any(t.requires_grad for t in moved)
        with forward_mode():
            output, aux = _split(func(*_trees.like(primals, fresh)), has_aux, "jvp")
        results = _trees.tensors(output, "jvp: output")
        found = _functional._twice(results, fresh, moved, record, strict, "jvp")
        result = tuple(_finished(t, record) for t in (output, _trees.like(output, found)))
    return result + (_finished(aux, record),) if has_aux else result


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """(output, function): func near primals as a linear function, which maps changes of primals to those of the output.
    func is called once, however often the function is."""
    with _Level() as inner:
        fresh, record = _begin(primals, inner, "linearize")
        with forward_mode():
            output = func(*_trees.like(primals, fresh))
        results = _trees.tensors(output, "linearize: output")
        seeds = tuple(_C.ones_like(t).requires_grad_() for t in results)
        back = _functional._derive(results, fresh, seeds, True, False, "linearize")

    def forward(*tangents: Any) -> Any:
        """The change of the output when primals change by tangents."""
        moved = _functional._vector(tuple(_trees.tensors(tangents, "linearize: tangents")), fresh, "linearize")
        keep = record or getattr(_state, "depth", 0) > 0 or any(t.requires_grad for t in moved)
        with enable_grad():
            found = _functional._derive(back, seeds, moved, keep, False, "linearize")
        return _finished(_trees.like(output, found), keep)

    return _finished(output, record), forward


# ---- matrices ----
def jacrev(func: Callable[_P, Any], argnums: _Numbers = 0, *, has_aux: bool = False,
           chunk_size: int | None = None) -> Callable[_P, Any]:
    """A function that returns all derivatives of func's results by the arguments at argnums: of shape
    output.shape + input.shape, nested as the output is and, inside, as the arguments are; with has_aux
    (derivatives, aux). One backward walk for all elements of an output together, or for chunk_size of them at a
    time, to bound memory."""
    _check_chunk(chunk_size)

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        numbers, alone = _numbers(argnums, len(args))
        chosen = tuple(args[n] for n in numbers)
        with _Level() as inner:
            fresh, record = _begin(chosen, inner, "jacrev")
            result = func(*_replaced(args, numbers, _trees.like(chosen, fresh)), **kwargs)
            output, aux = _split(result, has_aux, "jacrev")
            rows = []
            for leaf in _trees.tensors(output, "jacrev: output"):
                found = _functional._all_rows(leaf, fresh, record, chunk_size)
                if not record:
                    found = tuple(t.detach() for t in found)
                row = _trees.like(chosen, found)
                rows.append(row[0] if alone else row)
            aux = _finished(aux, record)
        tree = _trees.like(output, rows)
        return (tree, aux) if has_aux else tree
    return run


def jacfwd(func: Callable[_P, Any], argnums: _Numbers = 0, has_aux: bool = False, *, chunk_size: int | None = None,
           randomness: str = "error") -> Callable[_P, Any]:
    """What jacrev computes, column by column: all of them together, or chunk_size at a time. func runs once, so what it
    draws is the "same" for all of them."""
    _check_chunk(chunk_size)
    if randomness not in ("error", "same"):
        raise NotImplementedError("jacfwd: randomness is 'error' or 'same', not %r" % (randomness,))

    @functools.wraps(func)
    def run(*args: Any, **kwargs: Any) -> Any:
        numbers, alone = _numbers(argnums, len(args))
        chosen = tuple(args[n] for n in numbers)
        with _Level() as inner:
            fresh, record = _begin(chosen, inner, "jacfwd")
            before = _C._random_state()
            with forward_mode():
                result = func(*_replaced(args, numbers, _trees.like(chosen, fresh)), **kwargs)
            if randomness == "error" and _C._random_state() != before:
                raise RuntimeError("jacfwd: called random operation in randomness error mode; say "
                                   "randomness='same'")
            output, aux = _split(result, has_aux, "jacfwd")
            rows = []
            for found in _functional._all_columns(_trees.tensors(output, "jacfwd: output"), fresh, record, chunk_size):
                row = _trees.like(chosen, found if record else [t.detach() for t in found])
                rows.append(row[0] if alone else row)
            aux = _finished(aux, record)
        tree = _trees.like(output, rows)
        return (tree, aux) if has_aux else tree
    return run


def _check_chunk(chunk_size: int | None) -> None:
    if chunk_size is not None and chunk_size <= 0:
        raise ValueError("chunk_size should be greater than 0")


def hessian(func: Callable[_P, Any], argnums: _Numbers = 0) -> Callable[_P, Any]:
    """A function that returns the second derivatives of func: the Jacobian of its Jacobian."""
    return jacfwd(jacrev(func, argnums), argnums)


# ---- functions of modules ----
def functional_call(module: Module, parameter_and_buffer_dicts: Any, args: Any = None, kwargs: Any = None, *,
                    tie_weights: bool = True, strict: bool = False) -> Any:
    """module(*args, **kwargs) with these tensors in the place of its parameters and buffers: {name: tensor}, or
    several such dictionaries that have no name in common."""
    from .nn.utils import stateless
    dicts = parameter_and_buffer_dicts
    if isinstance(dicts, (list, tuple)):
        names = [name for part in dicts for name in part]
        if len(set(names)) != len(names):
            raise ValueError(f"functional_call: {sorted({n for n in names if names.count(n) > 1})} appear in more than "
                             "one dictionary")
    return stateless.functional_call(module, dicts, args, kwargs, tie_weights=tie_weights, strict=strict)


def stack_module_state(models: Sequence[Module]) -> tuple[dict[str, Any], dict[str, Any]]:
    """(parameters, buffers) of models of one class, stacked by name; parameters are leaves to train."""
    if not models:
        raise RuntimeError("stack_module_state: expected at least one model, got 0")
    if len({m.training for m in models}) != 1:
        raise RuntimeError("stack_module_state: expected all models to be in the same mode, training or evaluation")
    if len({type(m) for m in models}) != 1:
        raise RuntimeError("stack_module_state: expected all models to be of one class")
    parameters = _stacked([dict(m.named_parameters()) for m in models])
    return parameters, _stacked([dict(m.named_buffers()) for m in models])


def _stacked(states: list[dict[str, Any]]) -> dict[str, Any]:
    """{name: tensors of all states}; detached, with a gradient where they have one."""
    made = {}
    for name, first in states[0].items():
        if any(s[name].requires_grad != first.requires_grad for s in states):
            raise RuntimeError(f"stack_module_state: {name} requires a gradient in some models only")
        made[name] = _C.stack([s[name].detach() for s in states]).requires_grad_(first.requires_grad)
    return made


def replace_all_batch_norm_modules_(root: Module) -> Module:
    """Makes batch norms in a module use the batch's own statistics only, so that they write into no buffer; returns
    the module."""
    from .nn import layer
    for module in root.modules():
        if isinstance(module, layer._BatchNorm):
            for name in ("running_mean", "running_var", "num_batches_tracked"):
                module._buffers[name] = None
            setattr(module, "track_running_stats", False)
    return root


def functionalize(func: Callable[_P, _R], *, remove: str = "mutations") -> Callable[_P, _R]:
    """func with the same results and effects. What it takes out of a trace (ops in place, views) concerns tracers, and
    there is none between Python and the ops here."""
    if remove not in ("mutations", "mutations_and_views"):
        raise RuntimeError(f"functionalize: remove is 'mutations' or 'mutations_and_views', not {remove!r}")

    @functools.wraps(func)
    def run(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        return func(*args, **kwargs)
    return run
