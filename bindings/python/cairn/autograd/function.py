"""Functions with a forward and a backward of their own."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, ClassVar, Iterator, Sequence

from .. import _C
from .._modes import enable_grad, is_grad_enabled, no_grad
from .._tensor import Tensor

if TYPE_CHECKING:
    from typing import ParamSpec, Protocol, TypeAlias, TypeVar, overload

    from .._C import _device, _dtype
    from .._types import Size

    _P = ParamSpec("_P")
    _R = TypeVar("_R", covariant=True)
    _Gradients: TypeAlias = tuple[Tensor | None, ...]

    class _WithContext(Protocol[_P, _R]):
        """A Function whose forward begins with ctx."""
        @staticmethod
        def forward(ctx: Any, /, *args: _P.args, **kwargs: _P.kwargs) -> _R: ...

    class _WithSetup(Protocol[_P, _R]):
        """A Function whose forward has no ctx, but a function after it."""
        @staticmethod
        def forward(*args: _P.args, **kwargs: _P.kwargs) -> _R: ...
        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any, /) -> None: ...

    class _Apply:
        """The type of apply: it takes what forward takes besides ctx, and returns what forward returns."""
        @overload
        def __get__(self, instance: object, owner: type[_WithSetup[_P, _R]]) -> Callable[_P, _R]: ...
        @overload
        def __get__(self, instance: object, owner: type[_WithContext[_P, _R]]) -> Callable[_P, _R]: ...
        def __get__(self, instance: object, owner: Any) -> Any: ...

__all__ = ["Function", "FunctionCtx", "InplaceFunction", "once_differentiable"]


class FunctionCtx(_C.ContextBase):
    """What forward leaves for backward. Any attribute may be set on it; tensors that went in or came out belong into
    save_for_backward, which notices when they are changed later and keeps no cycle."""

    needs_input_grad: tuple[bool, ...]
    _function: type[Function]
    _in_tensors: tuple[bool, ...]
    _out_places: tuple[int, ...]
    _out_count: int
    _out_metas: tuple[tuple[Size, _dtype, _device], ...]
    _in_metas: tuple[tuple[Size, _dtype, _device] | None, ...]
    _noutputs: int

    def __init__(self) -> None:
        self._to_save: tuple[Tensor | None, ...] = ()
        self._for_forward: tuple[Tensor | None, ...] = ()
        self._forward_rule = False
        self._dirty: tuple[Tensor, ...] = ()
        self._constant: tuple[Tensor, ...] = ()
        self._materialize = True
        self._very: tuple[Tensor | None, ...] | None = ()

    @property
    def saved_tensors(self) -> tuple[Tensor, ...]:
        """The tensors given to save_for_backward: the very objects, but for results of forward, of which these are
        others with the same memory and history. An error where one was changed in place since."""
        checked = super().saved_tensors
        return tuple(c if t is None else t for t, c in zip(self._very or checked, checked))

    if TYPE_CHECKING:
        def __getattr__(self, name: str) -> Any: ...
        def __setattr__(self, name: str, value: Any) -> None: ...

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors (or None) for backward, which finds them in saved_tensors. One call only: the last counts."""
        self._to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keeps tensors (or None) for jvp, which finds them in saved_tensors."""
        self._for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Says which inputs forward wrote into. They must be among the results."""
        self._dirty = args

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Says which results carry no gradient."""
        self._constant = args

    def set_materialize_grads(self, value: bool) -> None:
        """False: gradients that are zero arrive in backward as None instead of tensors of zeros."""
        self._materialize = bool(value)

    def _run_backward(self, grads: Sequence[Tensor | None]) -> _Gradients:
        """Called by the engine with the gradients of the tensor results; returns those of the tensor inputs."""
        function, places = self._function, self._out_places
        full: list[Tensor | None] = [None] * self._out_count
        for place, grad, meta in zip(places, grads, self._out_metas):
            if grad is None and self._materialize:
                grad = _C.zeros(meta[0], dtype=meta[1], device=meta[2])
            full[place] = grad
        result = _transposed(self, full) if self._forward_rule else function._backward_rule()(self, *full)
        if isinstance(result, list):
            result = tuple(result)
        elif not isinstance(result, tuple):
            result = (result,)
        return _check_gradients(function, result, self._in_tensors)


# ---- forward mode ----
_state = threading.local()


class forward_mode:  # noqa: N801
    """While it is on, a Function that has a jvp is differentiated by it, in place of its backward."""

    def __enter__(self) -> None:
        _state.forward = getattr(_state, "forward", 0) + 1

    def __exit__(self, *error: object) -> None:
        _state.forward -= 1


def _transposed(ctx: FunctionCtx, grads: Sequence[Tensor | None]) -> tuple[Any, ...]:
    """The gradients of all arguments by jvp: it is linear in the tangents, and its own gradient by them is the
    gradient. Forward-mode derivatives are derivatives of this by grads: jvp itself."""
    with enable_grad():
        tangents = [None if m is None else _C.ones(m[0], dtype=m[1], device=m[2]).requires_grad_()
                    for m in ctx._in_metas]
        moved: Any = ctx._function.jvp(ctx, *tangents)
        several = moved if isinstance(moved, tuple) else (moved,)
        pairs = [(t, g) for t, g in zip(several, grads)
                 if isinstance(t, Tensor) and isinstance(g, Tensor) and t.requires_grad]
        leaves = [t for t in tangents if t is not None]
        found: Iterator[Any] = iter(())
        if pairs and leaves:
            found = iter(_C._grad(tuple(t for t, _ in pairs), tuple(leaves), tuple(g for _, g in pairs), True,
                                  any(g.requires_grad for _, g in pairs), True))
        return tuple(None if t is None else next(found, None) for t in tangents)


def _check_gradients(function: type[Function], result: tuple[Any, ...], in_tensors: tuple[bool, ...]) -> _Gradients:
    """Those of the tensor inputs, after torch's checks: one per argument of forward, None where it was no tensor."""
    n = len(in_tensors)
    if len(result) > n and all(g is None for g in result[n:]):
        result = result[:n]
    name = function.__name__ + "Backward"
    if len(result) != n:
        raise RuntimeError(f"{name}: returned {len(result)} gradients, but forward had {n} arguments")
    kept: list[Tensor | None] = []
    for i, (grad, tensor) in enumerate(zip(result, in_tensors)):
        if not tensor:
            if grad is not None:
                raise RuntimeError(f"{name}: returned a gradient at position {i}, where forward had no tensor; return "
                                   "None there")
            continue
        if grad is not None and not isinstance(grad, Tensor):
            raise TypeError(f"{name}: expected a Tensor or None as gradient {i}, not {type(grad).__name__}")
        kept.append(grad)
    return tuple(kept)


class Function:
    """A function of tensors whose gradient is written by hand.

    Derive from it with two static methods and call `apply`::

        class Exp(Function):
            @staticmethod
            def forward(ctx, x):
                y = x.exp()
                ctx.save_for_backward(y)
                return y

            @staticmethod
            def backward(ctx, grad):
                y, = ctx.saved_tensors
                return grad * y

        y = Exp.apply(x)

    forward runs with recording off and may take arguments of any kind; backward gets one gradient per result and
    returns one per argument, None where there is none. It is recorded when gradients of gradients are asked for. Or
    leave ctx out of forward and add `setup_context(ctx, inputs, output)`, which is called after it.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError(f"{type(self).__name__}: a Function is not made but applied: use its static method apply")

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("a Function needs a static method forward")

    @staticmethod
    def backward(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("this Function needs a static method backward (or vjp) to be gone through backward")

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        """How the results change when the arguments change by tangents: one for each of them, None where it is no
        tensor. Forward mode (func.jvp, forward_ad) takes it where there is one, in place of backward."""
        raise NotImplementedError("this Function has no jvp of its own")

    generate_vmap_rule: ClassVar[bool] = False

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """(results, where they have the batch) of whole batches: args have theirs at in_dims (None: one for all
        examples); info.batch_size and info.randomness are those of the vmap."""
        raise NotImplementedError("this Function needs a static method vmap, or generate_vmap_rule = True, for vmap")

    if not TYPE_CHECKING:
        @staticmethod
        def setup_context(ctx, inputs, output):
            raise NotImplementedError("setup_context is not defined")

    @classmethod
    def _backward_rule(cls) -> Callable[..., Any]:
        if cls.backward is not Function.backward:
            if cls.vjp is not Function.vjp:
                raise RuntimeError(f"{cls.__name__}: has both backward and vjp; one is enough")
            return cls.backward
        return cls.vjp

    @classmethod
    def _run_forward(cls, ctx: FunctionCtx, args: tuple[Any, ...]) -> Any:
        setup: Any = getattr(cls, "setup_context")
        with no_grad():
            if setup is getattr(Function, "setup_context"):
                return cls.forward(ctx, *args)
            output = cls.forward(*args)
            setup(ctx, args, output)
            return output

    @classmethod
    def _apply(cls, *args: Any) -> Any:
        """Runs forward and records it; returns what forward returned."""
        if _C._vmap_depth():
            from . import _function_vmap
            level = _function_vmap.innermost(args)
            if level is not None:
                return _function_vmap.apply(cls, args, level)
        ctx = FunctionCtx()
        ctx._function = cls
        ctx._in_tensors = tuple(isinstance(a, Tensor) for a in args)
        ctx.needs_input_grad = tuple(isinstance(a, Tensor) and a.requires_grad for a in args)
        output = cls._run_forward(ctx, args)
        outputs = output if isinstance(output, tuple) else (output,)
        places = tuple(i for i, o in enumerate(outputs) if isinstance(o, Tensor))
        tensors = tuple(outputs[i] for i in places)
        for t in ctx._dirty:
            if not any(t is o for o in tensors):
                raise RuntimeError(f"{cls.__name__}: an input that was marked dirty must be returned, too")
        ctx._out_places = places
        ctx._out_count = len(outputs)
        ctx._noutputs = len(places)
        ctx._out_metas = tuple((o.shape, o.dtype, o.device) for o in tensors)
        saved, dirty, constant = ctx._to_save, ctx._dirty, ctx._constant
        ctx._forward_rule = getattr(_state, "forward", 0) > 0 and cls.jvp is not Function.jvp
        if ctx._forward_rule:
            saved = ctx._for_forward or saved
            ctx._in_metas = tuple((a.shape, a.dtype, a.device) if isinstance(a, Tensor) and
                                  (a.is_floating_point() or a.is_complex()) else None for a in args)
        ctx._to_save = ctx._for_forward = ctx._dirty = ctx._constant = ()
        ctx._very = tuple(None if any(t is o for o in tensors) else t for t in saved)  # results would refer to ctx
        inputs = tuple(a for a in args if isinstance(a, Tensor))
        results = _C._function_apply(ctx, cls.__name__ + "Backward", inputs, tensors, tuple(saved), tuple(dirty),
                                     tuple(constant))
        if not isinstance(output, tuple):
            return results[0] if places else output
        merged = list(outputs)
        for place, result in zip(places, results):
            merged[place] = result
        return tuple(merged)

    if TYPE_CHECKING:
        apply: ClassVar[_Apply]
    else:
        apply = _apply


class InplaceFunction(Function):
    """A Function that says whether it writes into its input; for programs that derive from torch's."""

    def __init__(self, inplace: bool = False) -> None:
        self.inplace = inplace


class _Refuse(Function):
    """Hands values on, but cannot be gone through backward."""

    @staticmethod
    def forward(_ctx: FunctionCtx, count: int, *tensors: Tensor) -> tuple[Tensor, ...]:
        return tuple(t.detach() for t in tensors[:count])

    @staticmethod
    def backward(ctx: FunctionCtx, *grads: Tensor) -> None:
        raise RuntimeError("backward: this gradient comes from a backward marked @once_differentiable, which cannot be "
                           "differentiated again")


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates backward: it runs with recording off, and gradients of its gradients are an error."""

    @functools.wraps(fn)
    def wrapped(ctx: FunctionCtx, *args: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args)
        if not is_grad_enabled():
            return outputs
        linked = tuple(a for a in args if isinstance(a, Tensor) and a.requires_grad)
        if not linked and any(ctx.needs_input_grad):
            with enable_grad():
                linked = tuple(t for t in ctx.saved_tensors if t is not None and t.requires_grad)
        if not linked:
            return outputs
        several = outputs if isinstance(outputs, (tuple, list)) else (outputs,)
        tensors = [o for o in several if isinstance(o, Tensor)]
        refused = iter(_Refuse.apply(len(tensors), *tensors, *linked))
        merged = tuple(next(refused) if isinstance(o, Tensor) else o for o in several)
        return merged if isinstance(outputs, (tuple, list)) else merged[0]

    return wrapped
