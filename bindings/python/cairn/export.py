"""cairn.export: what a module computes as a graph by itself, kept in one file, run without the code that made it.

Place in the flow: export traces a module's forward with its parameters as states; sizes that vary are named with Dim.
The file is safetensors with the graph's text in its metadata: every language that has the library runs it.
"""
from __future__ import annotations

import re
from typing import Any, Iterator

from . import _C, nn
from ._modes import enable_grad
from ._tensor import Tensor
from .compiler import _called, _is_slot, _is_tensor, _mapped

__all__ = ["Dim", "ExportedProgram", "dims", "export", "load", "save"]


class Dim:
    """A size that may vary, by name: the same Dim is the same size. Dim.DYNAMIC and Dim.AUTO stand for one of its own;
    Dim.STATIC, and an int, for the size that the example has."""
    DYNAMIC: Dim
    AUTO: Dim
    STATIC: Dim

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise ValueError("Dim: a name like that of a variable is needed, not %r" % (name,))
        self.__name__, self.min, self.max = name, min, max

    def __repr__(self) -> str:
        return "Dim(%r, min=%s, max=%s)" % (self.__name__, self.min, self.max)


Dim.DYNAMIC, Dim.AUTO, Dim.STATIC = Dim("DYNAMIC"), Dim("AUTO"), Dim("STATIC")


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)


def _free_dims(shapes: Any, args: Any, number: Iterator[int]) -> Iterator[tuple[int, int, str, int, int]]:
    """The sizes that vary: walks the specification beside the arguments, which have a number each."""
    if isinstance(args, Tensor):
        input = next(number)
        given = dict(enumerate(shapes)) if isinstance(shapes, (tuple, list)) else shapes or {}
        for place, dim in given.items():
            if dim is None or dim is Dim.STATIC or isinstance(dim, int):
                continue
            if not isinstance(dim, Dim):
                raise TypeError("dynamic_shapes: expected a Dim, an int or None, not %r" % (dim,))
            own = dim is Dim.DYNAMIC or dim is Dim.AUTO
            name = "d%d_%d" % (input, place) if own else dim.__name__
            yield input, int(place), name, dim.min or 0, dim.max or 0
    elif isinstance(args, dict):
        for key, value in args.items():
            yield from _free_dims((shapes or {}).get(key), value, number)
    elif isinstance(args, (tuple, list)):
        several = list(shapes.values()) if isinstance(shapes, dict) else shapes or [None] * len(args)
        if len(several) != len(args):
            raise ValueError("dynamic_shapes: there are %d arguments and %d entries" % (len(args), len(several)))
        for shape, value in zip(several, args):
            yield from _free_dims(shape, value, number)


class ExportedProgram:
    """A graph with its states."""

    def __init__(self, graph: _C.GraphBase, note: Any = None) -> None:
        self._graph, self._note = graph, note

    @property
    def graph(self) -> str:
        """The graph as text."""
        return self._graph.text()

    @property
    def state_dict(self) -> dict[str, Tensor]:
        """Its states by name."""
        return self._graph.states()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._computed(args, kwargs, list(self.state_dict.values()))

    def _computed(self, args: Any, kwargs: Any, states: list[Tensor]) -> Any:
        """Its results with these tensors as states: by a run, or replayed where gradients are recorded."""
        tensors: list[Tensor] = []
        _mapped((args, kwargs), _is_tensor, tensors.append)
        results = self._graph.call(tensors, states)
        if self._note is not None:
            return _mapped(self._note, _is_slot, lambda slot: results[slot.index])
        return results[0] if len(results) == 1 else tuple(results)

    def module(self, check_guards: bool = True) -> nn.Module:  # unused: check_guards (sizes are checked by every run)
        """It as a module, which can be trained."""
        return GraphModule(self)

    def save(self, path: Any) -> None:
        """Writes it as a file. What is no tensor among the results is not kept: a loaded one gives a tensor, or a
        tuple of them."""
        self._graph.save(path)

    def __repr__(self) -> str:
        return "ExportedProgram:\n" + self.graph


class _Part(nn.Module):
    """What lies between dots in the names of a graph's parameters."""


_BY_MODE = ("Dropout", "BatchNorm", "InstanceNorm", "RReLU")  # classes that compute something else while they train


class GraphModule(nn.Module):
    """A module that computes a graph. The states of the graph that require gradients are parameters, others buffers,
    under their names, so that it trains, moves and is saved like the module that was traced. What the trace was made
    for stays: sizes, and the mode (training or evaluation)."""

    def __init__(self, program: ExportedProgram) -> None:
        super().__init__()
        object.__setattr__(self, "_program", program)
        object.__setattr__(self, "_owners", [self._place(*state) for state in
                                               enumerate(program.state_dict.items())])
        text = program.graph
        trains = re.search(r"^(draw|update) ", text, re.M) is not None
        kinds = re.findall(r"^scope \d+ (?:in \d+ )?'(.*)' '(.*)'$", text, re.M)
        by_mode = [(name, kind) for name, kind in kinds if any(part in kind for part in _BY_MODE)]
        object.__setattr__(self, "_by_mode", by_mode[0] if by_mode else None)
        self.training = trains or not by_mode

    def _place(self, i: int, state: tuple[str, Tensor]) -> tuple[nn.Module, str]:
        """Registers state i under its name; the module that has it, and the last part of the name."""
        path, tensor = state
        *above, name = path.split(".")
        owner: nn.Module = self
        for part in above:
            if part not in owner._modules:
                owner.add_module(part, _Part())
            owner = getattr(owner, part)
        if tensor.requires_grad and tensor.is_leaf:
            parameter = nn.Parameter(tensor)
            owner.register_parameter(name, parameter)
            self._program._graph.bind(i, parameter)
        else:
            owner.register_buffer(name, tensor)
        return owner, name

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self._program._computed(args, kwargs, [getattr(owner, name) for owner, name in self._owners])

    def train(self, mode: bool = True) -> GraphModule:
        """What was traced in one mode has no other: an error where a layer of it computes by the mode."""
        if self._by_mode is not None and bool(mode) != self.training:
            raise RuntimeError("the graph was traced in %s mode, and %s '%s' in it computes something else in the "
                               "other: export the module in that mode"
                               % ("training" if self.training else "evaluation", self._by_mode[1], self._by_mode[0]))
        return super().train(mode)

    @property
    def graph(self) -> str:
        return str(self._program.graph)

    def save(self, path: Any) -> None:
        """Writes the graph with the parameters and buffers that the module has now."""
        for i, (owner, name) in enumerate(self._owners):
            self._program._graph.bind(i, getattr(owner, name))
        self._program.save(path)


def traced(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
           free: list[tuple[int, int, str, int, int]]) -> ExportedProgram:
    """What fn computes of these arguments. Internal: export and jit.trace."""
    tensors: list[Tensor] = []
    _mapped((args, kwargs), _is_tensor, tensors.append)
    notes: list[Any] = []

    def compute(given: list[Tensor]) -> list[Tensor]:
        made, note = _called(fn, args, kwargs, given)
        notes.append(note)
        return made
    with enable_grad():  # so that the graph knows what the program cuts off by no_grad
        graph = _C.GraphBase(compute, tensors, free)
    if isinstance(fn, nn.Module):
        graph.name_states(fn)
    graph.optimise()
    return ExportedProgram(graph, notes[-1])


def export(mod: nn.Module, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None, *,
           dynamic_shapes: Any = None, strict: bool = False) -> ExportedProgram:  # unused: strict (there is one way)
    """What the module computes of these arguments, as a program by itself. dynamic_shapes: for each argument, which of
    its sizes may vary: {0: Dim("batch")}, a tuple with a Dim, an int or None for each, or None."""
    if not isinstance(mod, nn.Module):
        raise TypeError("export: expected a module, not %s" % type(mod).__name__)
    if not isinstance(args, tuple):
        raise TypeError("export: args must be a tuple, not %s" % type(args).__name__)
    kwargs = kwargs or {}
    number = iter(range(1 << 30))
    positional, named = dynamic_shapes, None
    if isinstance(dynamic_shapes, dict):
        named = {key: dynamic_shapes.get(key) for key in kwargs}
        rest = [value for key, value in dynamic_shapes.items() if key not in kwargs]
        positional = rest if rest else None
    free = list(_free_dims(positional, args, number)) + list(_free_dims(named, kwargs, number))
    return traced(mod, args, kwargs, free)


def save(ep: ExportedProgram, f: Any) -> None:
    """Writes the program as a file."""
    if not isinstance(ep, ExportedProgram):
        raise TypeError("export.save: expected an ExportedProgram, not %s" % type(ep).__name__)
    ep.save(f)


def load(f: Any) -> ExportedProgram:
    """A program from its file."""
    return ExportedProgram(_C._graph_load(f))
