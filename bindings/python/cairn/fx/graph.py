"""Graph: nodes in the order of running, and ways to add, move and drop them.

Place in the flow: tracers fill it, GraphModule runs its code, Interpreter its nodes. Invariant: nodes stand behind all
nodes that they use, which lint() checks.
"""
from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any, Callable, Iterator

from .. import nn
from . import _code
from ._code import CodeGen, PythonCode, _Namespace
from .node import Node, map_arg

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ["CodeGen", "Graph", "PythonCode"]


class _InsertPoint:
    """While inside, or until the next one, nodes go elsewhere."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self.graph, self.before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.graph._insert = self.before


class _NodeList:
    """The nodes of a graph as they stand now."""

    def __init__(self, graph: Graph, direction: str = "_next") -> None:
        self.graph, self.direction = graph, direction

    def __len__(self) -> int:
        return self.graph._len

    def __iter__(self) -> Iterator[Node]:
        root = self.graph._root
        node = getattr(root, self.direction)
        while node is not root:
            if not node._erased:
                yield node
            node = getattr(node, self.direction)

    def __reversed__(self) -> _NodeList:
        return _NodeList(self.graph, "_prev" if self.direction == "_next" else "_next")


class Graph:
    """Nodes, and where the next one goes."""

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None,
                 tracer_extras: dict[str, Any] | None = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._used_names: dict[str, int] = {}
        self._insert: Callable[[Node], None] = self._root.prepend
        self._len = 0
        self._graph_namespace = _Namespace()
        self._owning_module, self._owners = owning_module, 0
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._codegen = CodeGen()

    @property
    def owning_module(self) -> Any:
        """The module whose attributes it uses."""
        return self._owning_module

    @owning_module.setter
    def owning_module(self, mod: Any) -> None:
        self._owning_module = mod

    @property
    def nodes(self) -> _NodeList:
        return _NodeList(self)

    def output_node(self) -> Node:
        """The last node, which returns."""
        node = next(iter(reversed(self.nodes)))
        if node.op != "output":
            raise AssertionError("the last node is no output")
        return node

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of that kind, of that target where one is named; they are in order whether that is asked for or
        not (sort)."""
        found = [n for n in self.nodes if n.op == op and (target is None or n.target == target)]
        return found if sort else list(found)

    # ---- making nodes ----
    def create_node(self, op: str, target: Any, args: tuple[Any, ...] | None = None,
                    kwargs: dict[str, Any] | None = None, name: str | None = None, type_expr: Any = None) -> Node:
        """A node where insertions go; its name is like `name`, or like what it calls."""
        args, kwargs = () if args is None else args, {} if kwargs is None else kwargs
        if not isinstance(args, tuple) or not isinstance(kwargs, dict):
            raise AssertionError("args must be a tuple and kwargs a dict")
        candidate = name if name is not None else self._target_to_str(target)
        node = Node(self, self._graph_namespace.create_name(candidate, None), op, target, args, kwargs, type_expr)
        self._graph_namespace.associate_name_with_obj(node.name, node)
        self._insert(node)
        self._len += 1
        return node

    @staticmethod
    def _target_to_str(target: Any) -> str:
        if callable(target):
            name: str = getattr(target, "__name__", type(target).__name__)
        else:
            name = target[2:-2] if target.startswith("__") and target.endswith("__") else target
        return _snake(name.replace("*", "").lstrip("."))

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = _code.MISSING) -> Node:
        """An argument."""
        args = () if default_value is _code.MISSING else (default_value,)
        return self.create_node("placeholder", name, args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """An attribute of the module: a parameter, say."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(self, module_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(self, method_name: str, args: Any = None, kwargs: Any = None, type_expr: Any = None) -> Node:
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(self, the_function: Callable[..., Any], args: Any = None, kwargs: Any = None,
                      type_expr: Any = None, name: str | None = None) -> Node:
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A node of another graph here; arg_transform: this graph's node for each that it uses."""
        args, kwargs = map_arg(node.args, arg_transform), map_arg(node.kwargs, arg_transform)
        made = self.create_node(node.op, node.target, tuple(args), dict(kwargs), node.name, node.type)
        made.meta = copy.copy(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Any], return_output_node: bool = False) -> Any:
        """All nodes of another graph here; what it returned, or None. val_map: nodes that are here already, and gets
        the others."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], lambda n: val_map[n])
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def __deepcopy__(self, memo: Any = None) -> Graph:
        memo = {} if memo is None else memo
        made = Graph(tracer_cls=self._tracer_cls)
        values: dict[Node, Any] = {}
        result = made.graph_copy(self, values, return_output_node=True)
        made._codegen = copy.deepcopy(self._codegen)
        if result is not None:
            output = made.output(result[0], type_expr=getattr(result[1], "type", None))
            output.meta = copy.copy(result[1].meta)
        memo[id(self)] = made
        return made

    # ---- changing ----
    def erase_node(self, to_erase: Node) -> None:
        """Drops a node that nobody uses."""
        if to_erase.users:
            raise RuntimeError("Tried to erase Node %s but it still had %d users in the graph: %s!"
                               % (to_erase, len(to_erase.users), to_erase.users))
        if to_erase.graph is not self:
            raise RuntimeError("Attempting to remove %s from wrong graph!" % to_erase)
        if to_erase._erased:
            return
        to_erase._remove_from_list()
        to_erase._erased = True
        self._len -= 1
        to_erase._update_args_kwargs((), {})

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go before n, or to the front."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """New nodes go behind n, or to the end; each behind the one before."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        place = [n]

        def insert(node: Node) -> None:
            place[0].append(node)
        return _InsertPoint(self, insert)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Drops nodes whose results nobody uses; did it drop any?"""
        impure = is_impure_node or (lambda node: node.is_impure())
        changed = False
        for node in list(reversed(self.nodes)):
            if not node.users and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    # ---- looking ----
    def python_code(self, root_module: str, *, verbose: bool = False, include_stride: bool = False,
                    include_device: bool = False, colored: bool = False) -> PythonCode:
        """Its source. root_module: what the module is called there."""
        if verbose or include_stride or include_device or colored:
            raise NotImplementedError("python_code: the source is printed without notes about tensors and colours")
        names = _Namespace()
        before = {node: node._repr_fn for node in self.nodes}

        def name_of(n: Node) -> str:
            return names.create_name(n.name, n)
        for node in before:
            node._repr_fn = name_of
        try:
            return self._codegen._gen_python_code(self.nodes, root_module, names)
        finally:
            for node, shown in before.items():
                node._repr_fn = shown

    def __str__(self) -> str:
        free: list[str] = []
        returned = [""]
        lines = [node.format_node(None, returned) for node in self.nodes]
        return "graph(%s)%s:%s" % (", ".join(free), returned[0], "".join("\n    " + line for line in lines if line))

    def print_tabular(self) -> None:
        """Prints the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, str(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        for i, row in enumerate(rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
            if i == 0:
                print("  ".join("-" * width for width in widths))

    def lint(self) -> None:
        """Raises where the graph is not whole: a node that is used before it runs, a name twice, a missing
        attribute."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.op not in ("placeholder", "call_method", "call_module", "call_function", "get_attr", "output"):
                raise RuntimeError("Node %s had unknown opcode %s!" % (node, node.op))
            if node.graph is not self:
                raise RuntimeError("Node '%s' does not belong to this Graph!" % (node,))
            for used in node.all_input_nodes:
                if used.graph is not self:
                    raise RuntimeError("Argument '%s' of Node '%s' does not belong to this Graph, but was used as an "
                                       "argument!" % (used, node))
                if used not in seen:
                    raise RuntimeError("Argument '%s' of Node '%s' was used before it has been defined! Please check "
                                       "that Nodes in the graph are topologically ordered\n%s" % (used, node, self))
            if node.name in names:
                raise RuntimeError("Node redefined name %s!" % node.name)
            seen.add(node)
            names.add(node.name)
        if self.owning_module is not None:
            for node in self.nodes:
                if node.op in ("get_attr", "call_module"):
                    self._check_target(node)

    def _check_target(self, node: Node) -> None:
        found = self.owning_module
        for atom in str(node.target).split("."):
            if not hasattr(found, atom):
                raise RuntimeError("Node %s target %s references nonexistent attribute %s of %s"
                                   % (node, node.target, atom, type(found).__name__))
            found = getattr(found, atom)
        if node.op == "call_module" and not isinstance(found, nn.Module):
            raise RuntimeError("Node %s target %s targets %s, which is no module" % (node, node.target, found))

    # ---- other ways to write it ----
    def set_codegen(self, codegen: CodeGen) -> None:
        self._codegen = codegen

    def process_inputs(self, *args: Any) -> Any:
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Any) -> Any:
        return self._codegen.process_outputs(out)

    def on_generate_code(self, make_transformer: Callable[[Any], Any]) -> Any:
        """make_transformer(the one before) changes the lines of the body before they run; `with` takes it back."""
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)
        graph = self

        class Back:
            def __enter__(self) -> None:
                pass

            def __exit__(self, *error: Any) -> None:
                graph._codegen._body_transformer = before
        return Back()


def _snake(name: str) -> str:
    """conv2D as conv2_d: names of nodes are in lower case."""
    made = []
    for i, letter in enumerate(name):
        if letter.isupper() and i and not name[i - 1].isupper() and name[i - 1] != "_":
            made.append("_")
        made.append(letter.lower())
    return "".join(made)
