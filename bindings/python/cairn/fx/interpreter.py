"""Interpreter: runs a graph node by node. Transformer: makes another graph of it on the way.

Place in the flow: passes and programs derive from them. Invariant: env has the values of the nodes that have run and
are still to be used.
"""
from __future__ import annotations

from typing import Any, Iterator

from .. import nn
from .graph import Graph
from .graph_module import GraphModule
from ._symbolic_trace import Tracer
from .node import Node, map_aggregate, map_arg
from .proxy import Proxy

__all__ = ["Interpreter", "Transformer"]


class Interpreter:
    """run(*args) computes what the module does; methods by the kinds of nodes may be overridden."""

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(self.module.named_modules())
        self.graph: Graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.args_iter: Iterator[Any] = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            seen: set[Node] = set()
            for node in reversed(list(self.graph.nodes)):
                for used in node.all_input_nodes:
                    if used not in seen:
                        seen.add(used)
                        self.user_to_last_uses.setdefault(node, []).append(used)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """What the graph returns for these arguments. initial_env: values of nodes that are not to run."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(self.graph.process_inputs(*args) if enable_io_processing else args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                if self.extra_traceback and error.args and isinstance(error.args[0], str):
                    error.args = ("%s\n\nWhile executing %s" % (error.args[0], node.format_node()), *error.args[1:])
                raise
            if self.garbage_collect_values:
                for last in self.user_to_last_uses.get(node, ()):
                    del self.env[last]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Any]) -> Any:
        """run with arguments that are taken out of the list."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def run_node(self, n: Node) -> Any:
        """The value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("run_node: args must be a tuple and kwargs a dict")
        return getattr(self, n.op)(n.target, args, kwargs)

    # ---- the kinds of nodes ----
    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The next argument, or its default."""
        if kwargs:
            raise AssertionError("placeholder: there are no keywords")
        if str(target).startswith("*"):
            return list(self.args_iter)
        for value in self.args_iter:
            return value
        if args:
            return args[0]
        raise RuntimeError("Expected positional argument for parameter %s, but one was not passed in!" % target)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if args or kwargs:
            raise AssertionError("get_attr: there are no arguments")
        return self.fetch_attr(str(target))

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if isinstance(target, str):
            raise AssertionError("call_function: the target is a function")
        return target(*args, **kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, str):
            raise AssertionError("call_method: the target is a name")
        return getattr(args[0], target)(*args[1:], **kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not isinstance(target, str):
            raise AssertionError("call_module: the target is a name")
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if target != "output" or kwargs:
            raise AssertionError("output: there is one value and no keywords")
        return args[0]

    # ---- help for those ----
    def fetch_attr(self, target: str) -> Any:
        """What the module has at a dotted name."""
        found: Any = self.module
        for i, atom in enumerate(target.split(".")):
            if not hasattr(found, atom):
                raise RuntimeError("Node referenced nonexistent target %s" % ".".join(target.split(".")[:i + 1]))
            found = getattr(found, atom)
        return found

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a node as values."""
        args = self.map_nodes_to_values(n.args, n)
        kwargs = self.map_nodes_to_values(n.kwargs, n)
        return args, dict(kwargs)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Values in the place of nodes."""
        def value(used: Node) -> Any:
            if used not in self.env:
                raise RuntimeError("Node %s referenced nonexistent value %s! Run Graph.lint() to diagnose such issues"
                                   % (n, used))
            return self.env[used]
        return _plain(map_arg(args, value))


def _plain(value: Any) -> Any:
    """Lists and dictionaries that may be changed."""
    if isinstance(value, list):
        return [_plain(v) for v in value]
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if type(value) is tuple:
        return tuple(_plain(v) for v in value)
    return value


class Transformer(Interpreter):
    """transform() makes another GraphModule: each method returns what stands in the place of its node."""

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        root = self.module

        class Adding(Tracer):
            """Adds to the new graph, and calls no module's code."""

            def __init__(self, graph: Graph) -> None:
                super().__init__()
                self.graph, self.root = graph, root
                self.tensor_attrs = {}

            def is_leaf_module(self, m: Any,
                               module_qualified_name: str) -> bool:  # unused: m, module_qualified_name (all)
                return True
        self.tracer = Adding(self.new_graph)

    def placeholder(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        if kwargs:
            raise AssertionError("placeholder: there are no keywords")
        default = (args[0],) if args else ()
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Proxy:
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> GraphModule:
        """The other module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            self.new_graph.output(map_aggregate(result, lambda v: v.node if isinstance(v, Proxy) else v))
        return _made(self.module, self.new_graph)


def _made(module: nn.Module, graph: Graph) -> GraphModule:
    return GraphModule(module, graph, type(module).__name__)
