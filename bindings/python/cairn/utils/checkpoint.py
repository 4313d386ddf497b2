"""Checkpointing: memory for time. The inside of a function is not kept for backward but computed again there.

What its ops would keep is packed into numbers (autograd.graph.saved_tensors_hooks); when backward asks for the first of
them, the function is run again and what its ops keep then, in the same order, is handed out. So gradients of anything
that the function used arrive as without a checkpoint, also by autograd.grad, also gradients of gradients.
"""
from __future__ import annotations

import contextlib
import weakref
from typing import Any, Callable, ContextManager, Iterable, Iterator, TypeVar

from .. import _C
from .._arguments import warn
from .._modes import enable_grad, is_grad_enabled
from .._tensor import Tensor
from ..autograd.graph import saved_tensors_hooks
from ..random import fork_rng

__all__ = ["CheckpointError", "CheckpointFunction", "check_backward_validity", "checkpoint", "checkpoint_sequential",
           "detach_variable", "get_device_states", "noop_context_fn", "set_checkpoint_debug_enabled",
           "set_checkpoint_early_stop", "set_device_states"]

_T = TypeVar("_T")
_Contexts = Callable[[], tuple[ContextManager[Any], ContextManager[Any]]]
_debug: bool | None = None  # what set_checkpoint_debug_enabled says
_early: bool | None = None


class CheckpointError(RuntimeError):
    """The function did something else when it was run again."""


class _Enough(Exception):
    """All that was asked for has been computed again."""


class _Place:
    """Stands in the record for the value of that number."""

    __slots__ = ("number", "__weakref__")

    def __init__(self, number: int) -> None:
        self.number = number


class _Frame:
    """One checkpointed call."""

    def __init__(self, run: Callable[[], Any], backward_context: ContextManager[Any], determinism: str, debug: bool,
                 early_stop: bool, preserve: bool) -> None:
        self.run, self.backward_context = run, backward_context
        self.determinism, self.debug, self.early_stop = determinism, debug, early_stop
        self.state = _C._random_state() if preserve else None
        self.autocast = (_C._autocast_dtype(True), _C._autocast_dtype(False))
        self.places: list[Any] = []  # weak references, in the order of the first run
        self.metas: list[tuple[Any, Any, Any]] = []
        self.values: weakref.WeakKeyDictionary[_Place, Tensor] = weakref.WeakKeyDictionary()

    # ---- the first run ----
    def pack(self, t: Tensor) -> _Place:
        place = _Place(len(self.places))
        self.places.append(weakref.ref(place))
        self.metas.append((t.shape, t.dtype, t.device))
        return place

    def unpack(self, place: _Place) -> Tensor:
        if place not in self.values:
            self.again()
        if place not in self.values:
            raise CheckpointError("checkpoint: a value that was kept in the first run was not computed when the "
                                  "function was run again; it must do the same both times")
        return self.values.pop(place) if not is_grad_enabled() else self.values[place]

    # ---- the second ----
    def _told(self, counted: list[int], t: Tensor) -> Tensor:
        number = counted[0]
        counted[0] += 1
        if number >= len(self.places):
            raise CheckpointError(f"checkpoint: the function kept more values when it was run again than the "
                                  f"{len(self.places)} of the first run")
        meta = (t.shape, t.dtype, t.device)
        if self.determinism != "none" and meta != self.metas[number]:
            raise CheckpointError(f"checkpoint: value {number} was {self.metas[number]} in the first run and is "
                                  f"{meta} when the function is run again")
        place = self.places[number]()
        if place is not None:
            self.values[place] = t.detach()
        if self.early_stop and counted[0] == len(self.places):
            raise _Enough
        return t

    def again(self) -> None:
        """Runs the function once more and takes what its ops keep."""
        counted = [0]
        scope = _C._recompute_begin()
        low = (_C._autocast_begin(True, self.autocast[0]), _C._autocast_begin(False, self.autocast[1]))
        try:
            with enable_grad(), contextlib.ExitStack() as stack:
                if self.state is not None:
                    stack.enter_context(fork_rng())
                    _C._random_set_state(*self.state)
                stack.enter_context(self.backward_context)
                with saved_tensors_hooks(lambda t: self._told(counted, t), lambda t: t):
                    self.run()
        except _Enough:
            pass
        finally:
            _C._autocast_end(low[1])
            _C._autocast_end(low[0])
            _C._trace_scope_end(scope)


def _no_contexts() -> tuple[ContextManager[Any], ContextManager[Any]]:
    return contextlib.nullcontext(), contextlib.nullcontext()


noop_context_fn = _no_contexts


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """(numbers of the CUDA devices that tensors among the arguments lie on, the states of their generators)."""
    from ..cuda.random import get_rng_state
    from ._pytree import tree_leaves
    numbers = sorted({a.get_device() for a in tree_leaves(args) if isinstance(a, Tensor) and a.is_cuda})
    return numbers, [get_rng_state(number) for number in numbers]


def set_device_states(devices: Any, states: Any, *, device_type: str | None = None) -> None:
    """Puts the states back."""
    from ..cuda.random import set_rng_state
    if device_type not in (None, "cuda") and devices:
        raise NotImplementedError("set_device_states: device_type=%r" % device_type)
    for number, state in zip(devices, states):
        set_rng_state(state, number)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The tensors of a tuple without their history; they require gradients as before."""
    if not isinstance(inputs, tuple):
        raise RuntimeError("Only tuple of tensors is supported. Got Unsupported input type: %s" % type(inputs).__name__)
    return tuple(a.detach().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in inputs)


def check_backward_validity(inputs: Iterable[Any]) -> None:
    """Warns where nothing requires a gradient."""
    if not any(a.requires_grad for a in inputs if isinstance(a, Tensor)):
        warn("None of the inputs have requires_grad=True. Gradients will be None")


def checkpoint(function: Callable[..., _T], *args: Any, use_reentrant: bool | None = None,
               context_fn: _Contexts = _no_contexts, determinism_check: str = "default", debug: bool = False,
               early_stop: bool = True, preserve_rng_state: bool = True, **kwargs: Any) -> _T:
    """function(*args, **kwargs), whose inside is not kept for backward but computed again there.

    Random numbers repeat (unless preserve_rng_state is False), autocast is as it was. early_stop: only as much is
    computed again as backward needs. determinism_check: "default" compares shapes and types of both runs, "none" does
    not. context_fn returns two context managers, for the first run and the second. use_reentrant chooses between two
    ways of torch to do it; here they are one, and no argument need require a gradient."""
    if use_reentrant and kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if use_reentrant and (context_fn is not _no_contexts or debug):
        raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    forward, again = context_fn()
    if not is_grad_enabled() or _C._vmap_depth():  # under vmap backward may come when its examples are gone
        with forward:
            return function(*args, **kwargs)
    frame = _Frame(lambda: function(*args, **kwargs), again, determinism_check, debug if _debug is None else _debug,
                   early_stop if _early is None else _early, preserve_rng_state)
    with forward, saved_tensors_hooks(frame.pack, frame.unpack):
        return function(*args, **kwargs)


def checkpoint_sequential(functions: Any, segments: int, input: Any, use_reentrant: bool | None = None,
                          **kwargs: Any) -> Any:
    """Runs a sequence of functions in so many checkpointed segments; the last one is run plainly."""
    preserve = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    steps: list[Callable[[Any], Any]] = list(functions.children() if hasattr(functions, "children") else functions)

    def run(first: int, last: int) -> Callable[[Any], Any]:
        def forward(value: Any) -> Any:
            for function in steps[first:last]:
                value = function(value)
            return value

        return forward

    size, start = len(steps) // segments, 0
    for _ in range(segments - 1):
        input = checkpoint(run(start, start + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve)
        start += size
    return run(start, len(steps))(input)


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Inside, checkpoints are made with this `debug`; None: with their own. What differs between the two runs is told
    in either case."""
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Inside, checkpoints compute again only what is needed, or (False) all of their function."""
    global _early
    before, _early = _early, enable
    try:
        yield
    finally:
        _early = before


class CheckpointFunction:
    """The older form: CheckpointFunction.apply(function, preserve_rng_state, *args)."""

    @staticmethod
    def apply(run_function: Callable[..., Any], preserve_rng_state: bool, *args: Any) -> Any:
        return checkpoint(run_function, *args, use_reentrant=True, preserve_rng_state=preserve_rng_state)
