"""GraphModule: a module whose forward is the code of a graph.

Place in the flow: what symbolic_trace returns. Invariant: forward is what graph said at the last recompile().
"""
from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

from .. import nn
from .._tensor import Tensor
from .graph import Graph, PythonCode

__all__ = ["GraphModule", "reduce_graph_module"]

_count = itertools.count()


def _forward_from(code: PythonCode) -> Any:
    """The function that the source defines; tracebacks show its lines."""
    space = dict(code.globals)
    path = "<graph %d>" % next(_count)
    linecache.cache[path] = (len(code.src), None, code.src.splitlines(keepends=True), path)
    exec(compile(code.src, path, "exec", dont_inherit=True), space)
    return space["forward"]


def _copied_attribute(source: Any, to: Any, target: str) -> None:
    """Gives `to` what `source` has at a dotted name, with plain modules in between."""
    *way, name = target.split(".")
    for item in way:
        below, there = getattr(source, item), getattr(to, item, None)
        if below is there:
            return
        if there is None:
            there = nn.Module()
            setattr(to, item, there)
        source, to = below, there
    value = getattr(source, name)
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        if name not in to._buffers:
            to.register_buffer(name, value, name not in getattr(source, "_non_persistent_buffers_set", ()))
        return
    setattr(to, name, value)


def _assigned(value: Any, to: Any, target: str) -> None:
    """Puts a value at a dotted name."""
    *way, name = target.split(".")
    for item in way:
        if getattr(to, item, None) is None:
            setattr(to, item, nn.Module())
        to = getattr(to, item)
    if isinstance(value, Tensor) and not isinstance(value, nn.Parameter):
        to.register_buffer(name, value)
    else:
        setattr(to, name, value)


class GraphModule(nn.Module):
    """Runs a graph. It has those parts of root (a module, or {dotted name: part}) that the graph uses."""

    graph: Graph

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:  # unused: args, kwargs (__init__ takes them)
        """Each object has a class of its own, since each has another forward."""
        for known in cls.__mro__:
            if "_graph_module_of" in vars(known):
                return super().__new__(cls)
        own = type(cls.__name__ if cls is not GraphModule else "GraphModule", (cls,), {"_graph_module_of": cls})
        return super().__new__(own)

    def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
        super().__init__()
        type(self).__name__ = class_name
        if isinstance(root, nn.Module):
            if hasattr(root, "training"):
                self.training = root.training
            for node in graph.nodes:
                if node.op in ("get_attr", "call_module"):
                    _copied_attribute(root, self, str(node.target))
        elif isinstance(root, dict):
            wanted = [str(n.target) for n in graph.nodes if n.op in ("get_attr", "call_module")]
            for target in wanted:
                if target not in root:
                    raise RuntimeError("Node references target %s but that target was not provided in `root`!" % target)
            for target in sorted(set(wanted), key=lambda t: t.count(".")):
                _assigned(root[target], self, target)
        else:
            raise RuntimeError("Unsupported type %s passed for root!" % (root,))
        self._code = ""
        self.meta: dict[str, Any] = dict(getattr(root, "meta", {}) if isinstance(root, nn.Module) else {})
        self._set_graph(graph)

    def _set_graph(self, graph: Graph) -> None:
        if not isinstance(graph, Graph):
            raise AssertionError("Expected a Graph instance, but got %s" % type(graph))
        object.__setattr__(self, "_graph", graph)
        graph.owning_module = self
        self.recompile()

    def _get_graph(self) -> Graph:
        graph: Graph = self.__dict__["_graph"]
        return graph

    @property
    def code(self) -> str:
        """The source of forward."""
        return self._code

    def recompile(self) -> PythonCode:
        """Makes forward anew after the graph was changed."""
        code = self._get_graph().python_code("self")
        object.__setattr__(self, "_code", code.src)
        setattr(type(self), "forward", _forward_from(code))
        return code

    # ---- parts ----
    def add_submodule(self, target: str, m: nn.Module) -> bool:
        """Puts a module at a dotted name; False where that cannot be."""
        *way, name = target.split(".")
        at: Any = self
        for item in way:
            if not hasattr(at, item):
                setattr(at, item, nn.Module())
            at = getattr(at, item)
            if not isinstance(at, nn.Module):
                return False
        at.add_module(name, m)
        return True

    def delete_submodule(self, target: str) -> bool:
        """Drops the module at a dotted name; False where there is none."""
        *way, name = target.split(".")
        at: Any = self
        for item in way:
            at = getattr(at, item, None)
            if not isinstance(at, nn.Module):
                return False
        if not isinstance(getattr(at, name, None), nn.Module):
            return False
        delattr(at, name)
        return True

    def delete_all_unused_submodules(self) -> None:
        """Drops the modules that no node calls or has a part of."""
        used: set[str] = set()
        for node in self._get_graph().nodes:
            if node.op in ("call_module", "get_attr"):
                path = str(node.target).split(".")
                used.update(".".join(path[:i + 1]) for i in range(len(path)))
                if node.op == "call_module":
                    used.update("%s.%s" % (node.target, name) for name, _ in self.get_submodule(
                        str(node.target)).named_modules() if name)
        for name in [name for name, _ in self.named_modules() if name and name not in used]:
            self.delete_submodule(name)

    # ---- copies, files ----
    def __deepcopy__(self, memo: Any) -> Any:
        rest = nn.Module()
        for part in ("_parameters", "_buffers", "_modules"):
            getattr(rest, part).update({k: copy.deepcopy(v, memo) for k, v in getattr(self, part).items()})
        rest._buffers.transient.update(self._buffers.transient)
        rest.training = self.training
        made = GraphModule(rest, copy.deepcopy(self._get_graph(), memo), type(self).__name__)
        for part in ("_parameters", "_buffers", "_modules"):  # also what the graph does not use
            for name, value in getattr(rest, part).items():
                if name not in getattr(made, part):
                    getattr(made, part)[name] = value
        for name, value in self._rest().items():
            if name not in ("_graph", "_code"):
                object.__setattr__(made, name, copy.deepcopy(value, memo))
        memo[id(self)] = made
        return made

    def __copy__(self) -> Any:
        made = GraphModule(self, copy.copy(self._get_graph()), type(self).__name__)
        made.meta = self.meta
        return made

    def __reduce_ex__(self, protocol: Any) -> Any:
        """The source: reading it traces it, as torch does."""
        state = {name: value for name, value in self.__getstate__().items() if name not in ("_graph", "_code")}
        code = self._get_graph().python_code("self")
        outside = {name: value for name, value in code.globals.items() if not hasattr(value, "__path__")}
        modules = {name: value.__name__ for name, value in code.globals.items() if hasattr(value, "__path__")}
        return reduce_graph_module, (state, code.src, outside, modules, type(self).__name__)

    def to_folder(self, folder: Any, module_name: str = "FxModule") -> None:
        """Writes a Python package: the code as a class, which makes its parts anew, and state_dict.pt, the weights."""
        from ._folder import write
        write(self, self._get_graph().python_code("self"), folder, module_name)

    # ---- looking ----
    def __str__(self) -> str:
        note = "# To see more debug info, please use `graph_module.print_readable()`"
        return "\n".join([super().__repr__(), self._code, note])

    def print_readable(self, print_output: bool = True, include_stride: bool = False, include_device: bool = False,
                       colored: bool = False, **more: Any) -> str:
        """The source as a class, printed and returned."""
        code = self._get_graph().python_code("self", verbose=False, include_stride=include_stride,
                                             include_device=include_device, colored=colored)
        if more:
            raise NotImplementedError("print_readable: %s is not supported" % next(iter(more)))
        body = code.src.strip("\n").replace("\n", "\n    ")
        text = "class %s(torch.nn.Module):\n    %s\n" % (type(self).__name__, body)
        if print_output:
            print(text)
        return text


# A property would go past nn.Module.__setattr__ as the code that assigns to it does not expect.
setattr(GraphModule, "graph", property(GraphModule._get_graph, GraphModule._set_graph,
                                       doc="The graph; assigning one compiles it."))


class _Root(nn.Module):
    """A module with a state and a forward, to be traced once more."""


def reduce_graph_module(state: dict[str, Any], src: str, outside: dict[str, Any], modules: dict[str, str],
                        name: str) -> Any:
    """What GraphModule's pickle reads as."""
    from importlib import import_module
    from ._symbolic_trace import Tracer
    root = type(name, (_Root,), {})()
    state = dict(state)
    root.__setstate__(state)
    space = {**outside, **{key: import_module(value) for key, value in modules.items()}}
    setattr(type(root), "forward", _forward_from(PythonCode(src, space)))

    class Whole(Tracer):
        """All modules are leaves: the source names each that is called."""

        def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:  # unused: m, module_qualified_name (all)
            return True
    graph = Whole().trace(root)
    made = GraphModule(root, graph, name)
    for key, value in state.items():
        if key not in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set", "training"):
            object.__setattr__(made, key, value)
    return made
