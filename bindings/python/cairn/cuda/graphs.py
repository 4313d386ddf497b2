"""cairn.cuda.graphs: CUDA graphs by hand: work that is captured once and replayed as one launch.

Place in the flow: names of cairn.cuda, on the library's recordings (cairn/recording.h). cairn.compile makes such graphs
of functions by itself; these are for programs that say what is captured and when. Invariant: what replays read and
write is the memory that the captured work named; random numbers, and rates and step counts of optimisers, are those of
each replay.
"""
from __future__ import annotations

import gc
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Iterable, Sequence

from .. import _C
from .._arguments import only_speed, refused
from ._devices import synchronize
from .streams import Stream, _device

if TYPE_CHECKING:
    from .._tensor import Tensor

__all__ = ["CUDAGraph", "graph", "graph_pool_handle", "is_current_stream_capturing", "make_graphed_callables"]

_ERROR_MODES = ("global", "thread_local", "relaxed")


class _Pool:
    """Memory that graphs share; taken on the device where the first of them is captured."""

    def __init__(self) -> None:
        self._made: Any = None

    def _on(self, device: _C.device) -> Any:
        if self._made is None:
            self._made = _C._recording_pool(device)
        return self._made


def graph_pool_handle() -> _Pool:
    """A handle for memory that several graphs share: pool= of their captures."""
    return _Pool()


def is_current_stream_capturing() -> bool:
    """Whether this thread captures a graph on the current device."""
    return _C._device_count("cuda") > 0 and _C._recording_now(_device(None))


class CUDAGraph:
    """Work of a device, captured between capture_begin() and capture_end(); replay() queues all of it.

    Inside a capture nothing runs, and nothing may be read from the device: `.item()`, sizes that depend on data and
    waits raise. Tensors made inside keep their memory as long as the graph or one of them lives: a replay writes it.
    """

    def __init__(self, keep_graph: bool = False) -> None:
        refused("CUDAGraph", "the driver's own graph is not shown", False, keep_graph=keep_graph)
        self._pool: _Pool | None = None
        self._work: Any = None
        self._captured = False

    def capture_begin(self, pool: _Pool | None = None, capture_error_mode: str = "global") -> None:
        """From now on this thread's work on the current device is captured. pool: memory that graphs share
        (graph_pool_handle(), another graph's pool()). capture_error_mode is torch's; here nothing that other threads do
        can harm a capture, so that all three modes are the same."""
        if capture_error_mode not in _ERROR_MODES:
            raise RuntimeError("capture_begin: capture_error_mode is one of %s, not %r"
                               % (", ".join(_ERROR_MODES), capture_error_mode))
        if pool is not None and not isinstance(pool, _Pool):
            raise TypeError("capture_begin: pool is a handle of graph_pool_handle() or CUDAGraph.pool(), not %r"
                            % (pool,))
        if self._work is not None:
            raise RuntimeError("capture_begin: the graph holds captured work already: reset() it, or make another")
        pool = _Pool() if pool is None else pool
        self._work = _C._recording_begin(pool._on(_device(None)))
        self._pool = pool

    def capture_end(self) -> None:
        """Ends the capture; an error where something in it could not be captured."""
        if self._work is None or self._captured:
            raise RuntimeError("capture_end: no capture was begun")
        try:
            _C._recording_end(self._work)
        except BaseException:
            self.reset()
            raise
        self._captured = True

    def replay(self) -> None:
        """Queues the captured work on the current stream."""
        if not self._captured:
            raise RuntimeError("replay: nothing was captured")
        _C._recording_replay(self._work)

    def reset(self) -> None:
        """Drops the captured work; its memory goes when the tensors in it have gone."""
        self._work, self._pool, self._captured = None, None, False

    def pool(self) -> _Pool:
        """The handle of its memory, for other captures."""
        if self._pool is None:
            raise RuntimeError("pool: nothing was captured")
        return self._pool

    def enable_debug_mode(self) -> None:
        """For debug_dump(), which there is none of."""
        refused("CUDAGraph", "the driver's own graph is not shown", debug_mode=True)

    def debug_dump(self, debug_path: str) -> None:
        """Refused: the driver's own graph is not shown."""
        refused("CUDAGraph.debug_dump", "the driver's own graph is not shown", debug_path=debug_path)


class graph:
    """`with cairn.cuda.graph(g):` captures what is inside into g, on a stream of its own or the one that is given."""

    default_capture_stream: Stream | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: _Pool | None = None, stream: Stream | None = None,
                 capture_error_mode: str = "global") -> None:
        if stream is None:
            if graph.default_capture_stream is None or graph.default_capture_stream.device != _device(None):
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.cuda_graph, self.pool, self.capture_stream = cuda_graph, pool, stream
        self.capture_error_mode = capture_error_mode

    def __enter__(self) -> None:
        synchronize()
        gc.collect()  # what nobody can reach any more is no part of the graph
        self.capture_stream.__enter__()
        try:
            self.cuda_graph.capture_begin(self.pool, self.capture_error_mode)
        except BaseException:
            self.capture_stream.__exit__(None, None, None)
            raise

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        try:
            if kind is None:
                self.cuda_graph.capture_end()
            else:
                self.cuda_graph.reset()
        finally:
            self.capture_stream.__exit__(kind, value, trace)


# ---- callables ----

def _tensors_of(args: Any) -> list[Tensor]:
    """The tensors of a callable's arguments, which may hold nothing else."""
    from .._tensor import Tensor
    if isinstance(args, Tensor):
        return [args]
    if isinstance(args, (list, tuple)):
        return [t for each in args for t in _tensors_of(each)]
    if isinstance(args, dict):
        return [t for each in args.values() for t in _tensors_of(each)]
    raise TypeError("make_graphed_callables: arguments are tensors, or nested lists, tuples and dicts of tensors, not "
                    "%s" % type(args).__name__)


def _check_module(module: Any) -> None:
    hooks = ("_backward_hooks", "_forward_hooks", "_forward_pre_hooks")
    if any(getattr(each, name, None) for each in module.modules() for name in hooks):
        raise RuntimeError("make_graphed_callables: modules must have no hooks when they are given; register them on "
                           "what is returned")
    if any(b.requires_grad for b in module.buffers()):
        raise RuntimeError("make_graphed_callables: buffers of modules must not require gradients")


def _warm_up(function: Callable[..., Any], args: tuple[Any, ...], parameters: Sequence[Tensor], times: int,
             allow_unused: bool) -> None:
    """Forward and backward passes whose results nobody sees; a few more than asked for make the programs."""
    from .. import autograd, ones_like
    inputs = [t for t in [*_tensors_of(args), *parameters] if t.requires_grad]
    for _ in range(times):
        outputs = [t for t in _tensors_of(function(*args)) if t.requires_grad]
        if outputs and inputs:
            autograd.grad(outputs, inputs, [ones_like(t) for t in outputs], allow_unused=allow_unused)


def _same_kind(given: Iterable[Tensor], sample: list[tuple[Any, ...]]) -> None:
    kinds = [_kind(t) for t in given]
    if kinds != sample:
        raise RuntimeError("a callable of make_graphed_callables was called with other tensors than its sample "
                           "arguments: shape, type, device and requires_grad must be those: %s, not %s"
                           % (sample, kinds))


def _kind(t: Tensor) -> tuple[Any, ...]:
    return tuple(t.shape), t.dtype, str(t.device), t.requires_grad


def _graphed(callable: Any, args: tuple[Any, ...], times: int, allow_unused: bool) -> Any:
    from .. import compile, nn
    module = callable if isinstance(callable, nn.Module) else None
    if module is not None:
        _check_module(module)
    sample = [_kind(t) for t in _tensors_of(args)]
    plain = module.forward if module is not None else callable
    program = compile(plain)
    parameters = list(module.parameters()) if module is not None else []
    _warm_up(plain, args, parameters, times, allow_unused)
    _warm_up(program, args, parameters, 2, allow_unused)  # captured, then recorded as a launch

    def graphed(*given: Any) -> Any:
        _same_kind(_tensors_of(given), sample)
        return program(*given)

    if module is None:
        return graphed
    training = module.training

    def forward(*given: Any, **named: Any) -> Any:
        return graphed(*given) if module.training == training and not named else plain(*given, **named)

    module.forward = forward
    return module


def make_graphed_callables(callables: Any, sample_args: Any, num_warmup_iters: int = 3,
                           allow_unused_input: bool = False, pool: _Pool | None = None) -> Any:
    """Versions of functions or modules whose forward and backward passes are one launch each.

    callables: one, or a tuple; sample_args: its arguments (a tuple of tensors), or a tuple of such. What is returned is
    called with tensors of the samples' shape and type. Modules are changed in place: their forward is graphed while
    they are in the mode, training or not, that they were in here. The programs are those of cairn.compile: results are
    fresh tensors, which a later call does not write over, and casts of autocast are made in each call.
    """
    only_speed("make_graphed_callables", None, pool=pool)  # programs have memory of their own
    one = not isinstance(callables, tuple)
    several, samples = ((callables,), (sample_args,)) if one else (callables, sample_args)
    if len(several) != len(samples):
        raise ValueError("make_graphed_callables: %d callables, but sample arguments of %d"
                         % (len(several), len(samples)))
    made = tuple(_graphed(c, a if isinstance(a, tuple) else (a,), num_warmup_iters, allow_unused_input)
                 for c, a in zip(several, samples))
    return made[0] if one else made
