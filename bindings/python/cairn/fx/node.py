"""A node of a graph: a placeholder, a use of an attribute, a call, or the output.

Place in the flow: graph.py keeps nodes in a ring, in the order of running. Invariant: node.users has exactly the nodes
whose arguments name it.
"""
from __future__ import annotations

import builtins
import operator
import types
from typing import TYPE_CHECKING, Any, Callable

from .. import _alias, _C
from .._tensor import Tensor
from .immutable_collections import immutable_dict, immutable_list

if TYPE_CHECKING:
    from .graph import Graph

__all__ = ["Argument", "Node", "Target", "has_side_effect", "map_aggregate", "map_arg"]

Argument = Any
Target = Any
BaseArgumentTypes = Any
base_types = (str, int, float, bool, complex, _C.dtype, _C.device, _C.layout, _C.memory_format, Tensor)
_legal_ops = frozenset(["placeholder", "call_method", "call_module", "call_function", "get_attr", "output", "root"])
_side_effectful_functions: set[Callable[..., Any]] = set()


def has_side_effect(fn: Any) -> Any:
    """Calls of this function stay in graphs though nobody uses their results; a decorator, too."""
    _side_effectful_functions.add(fn)
    return fn


def _top() -> str:
    """The name of the package as the program has it."""
    return "torch" if _alias._standing else __name__.partition(".")[0]


def _in_program(module: str) -> str:
    """A module's name as the program would write it."""
    own, dot, rest = module.partition(".")
    return _top() + dot + rest if own == __name__.partition(".")[0] else module


_SPACES = ("", ".nn.functional", ".linalg", ".special", ".func", ".fft", ".nn.init", "._C")


def _home(func: Any, name: str) -> str | None:
    """The public module that has a function of the package under its name."""
    import sys
    own = __name__.partition(".")[0]
    for space in _SPACES:
        module = sys.modules.get(own + space)
        if module is not None and getattr(module, name, None) is func:
            return own + space
    return None


def _get_qualified_name(func: Any) -> str:
    """How the function is written in code: torch.cat, operator.add."""
    name: str = getattr(func, "__name__", "")
    if getattr(builtins, name, None) is func:
        return name
    if isinstance(func, (types.MethodDescriptorType, types.WrapperDescriptorType)):
        return "%s.Tensor.%s" % (_top(), name) if issubclass(Tensor, func.__objclass__) else "%s.%s" % (
            func.__objclass__.__name__, name)
    if not name:
        raise RuntimeError("a graph cannot name %r" % (func,))
    module = getattr(func, "__module__", None) or ""
    if module == "_operator" or getattr(operator, name, None) is func:
        return "_operator." + name
    own = __name__.partition(".")[0]
    if not module or module.partition(".")[0] == own:
        module = _home(func, name) or module
    if not module:
        raise RuntimeError("a graph cannot name %r: no module has it" % (func,))
    return "%s.%s" % (_in_program(module), name)


def _type_repr(obj: Any) -> str:
    if isinstance(obj, type) and not isinstance(obj, types.GenericAlias):
        return obj.__qualname__ if obj.__module__ == "builtins" else "%s.%s" % (_in_program(obj.__module__),
                                                                                obj.__qualname__)
    if obj is ...:
        return "..."
    return obj.__name__ if isinstance(obj, types.FunctionType) else repr(obj)


def _format_arg(arg: Any) -> str:
    """An argument as the text of a graph has it: %x for nodes."""
    if isinstance(arg, Node):
        return "%" + arg.name
    if isinstance(arg, list):
        return "[%s]" % ", ".join(map(_format_arg, arg))
    if isinstance(arg, tuple):
        inner = ", ".join(map(_format_arg, arg))
        return "(%s,)" % inner if len(arg) == 1 else "(%s)" % inner
    if isinstance(arg, dict):
        return "{%s}" % ", ".join("%s: %s" % (key, _format_arg(value)) for key, value in arg.items())
    return str(arg)


class Node:
    """op says what it is; target what is called, used or named; args and kwargs with what. users: {node: None}."""

    def __init__(self, graph: Graph, name: str, op: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                 return_type: Any = None) -> None:
        if op not in _legal_ops:
            raise AssertionError("Node: op is one of %s, not %r" % (sorted(_legal_ops), op))
        if op == "call_function" and not callable(target):
            raise ValueError("Node [graph = %s, name = '%s'] target %s has type %s but a Callable is expected"
                             % (graph, name, target, type(target)))
        if op != "call_function" and not isinstance(target, str):
            raise ValueError("Node [graph = %s, name = '%s'] target %s has type %s but a str is expected"
                             % (graph, name, target, type(target)))
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self._input_nodes: dict[Node, None] = {}
        self.users: dict[Node, None] = {}
        self._prev = self._next = self
        self._erased = False
        self._repr_fn: Callable[[Node], str] | None = None
        self.meta: dict[str, Any] = {}
        self._args: tuple[Any, ...] = ()
        self._kwargs: dict[str, Any] = {}
        self._update_args_kwargs(args, kwargs)

    # ---- the ring ----
    @property
    def next(self) -> Node:
        return self._next

    @property
    def prev(self) -> Node:
        return self._prev

    def prepend(self, x: Node) -> None:
        """Moves x before this node."""
        if self.graph is not x.graph:
            raise AssertionError("prepend: both nodes must be of one graph")
        if self is x:
            return
        x._remove_from_list()
        before = self._prev
        before._next, x._prev, x._next, self._prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Moves x behind this node."""
        self._next.prepend(x)

    def _remove_from_list(self) -> None:
        self._prev._next, self._next._prev = self._next, self._prev

    def _order(self) -> int:
        return next(i for i, node in enumerate(self.graph.nodes) if node is self)

    def __lt__(self, other: Node) -> bool:
        return self._order() < other._order()

    # ---- arguments ----
    @property
    def args(self) -> tuple[Any, ...]:
        return self._args

    @args.setter
    def args(self, a: tuple[Any, ...]) -> None:
        self._update_args_kwargs(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Any]) -> None:
        self._update_args_kwargs(self._args, k)

    def _update_args_kwargs(self, args: Any, kwargs: Any) -> None:
        for node in self._input_nodes:
            node.users.pop(self, None)
        self._input_nodes = {}

        def note(value: Any) -> Any:
            if isinstance(value, Node):
                self._input_nodes[value] = None
                value.users[self] = None
            return value
        self._args = map_aggregate(tuple(args), note)
        self._kwargs = map_aggregate(dict(kwargs), note)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that it uses."""
        return list(self._input_nodes)

    def update_arg(self, idx: int, arg: Any) -> None:
        self.args = (*self.args[:idx], arg, *self.args[idx + 1:])

    def insert_arg(self, idx: int, arg: Any) -> None:
        if not 0 <= idx <= len(self.args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self.args[:idx], arg, *self.args[idx:])

    def update_kwarg(self, key: str, arg: Any) -> None:
        self.kwargs = {**self.kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Uses another node wherever it uses this one."""
        def other(node: Node) -> Node:
            return new_input if node is old_input else node
        self._update_args_kwargs(map_arg(self.args, other), map_arg(self.kwargs, other))

    _replace_input_with = replace_input_with

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
                              propagate_meta: bool = False) -> list[Node]:
        """Its users (those that delete_user_cb says yes to) use another node; they are returned."""
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError("Called node.replace_all_uses_with(replace_with, propagate_meta=True), but "
                                     "replace_with already has .meta keys")
            replace_with.meta.update(self.meta)
        process = [user for user in self.users if delete_user_cb(user)]
        for user in process:
            user.replace_input_with(self, replace_with)
        return process

    # ---- looking ----
    @property
    def stack_trace(self) -> str | None:
        """Where the program made it, if the tracer noted that."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Does it do something besides its result?"""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            if getattr(self.target, "_is_inplace", False) or self.target in (setattr, operator.setitem):
                return True
            name = getattr(self.target, "__name__", "")
            random = impure_random and name in _RANDOM and _home(self.target, name) is not None
            return random or self.target in _side_effectful_functions
        if self.op == "call_method":
            return str(self.target).endswith("_") and not str(self.target).endswith("__")
        if self.op == "call_module":
            module = self.graph.owning_module
            if module is None:
                raise AssertionError("self.graph.owning_module not set for purity check")
            target: Any = module.get_submodule(str(self.target))
            return bool(getattr(target, "_is_impure", False))
        return False

    def normalized_arguments(self, root: Any, arg_types: Any = None, kwarg_types: Any = None,
                             normalize_to_only_use_kwargs: bool = False) -> Any:
        """(args, kwargs) by the function's signature; None where it says none."""
        from .operator_schemas import normalize_function, normalize_module
        if self.op == "call_function":
            return normalize_function(self.target, self.args, self.kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs)
        if self.op == "call_module":
            return normalize_module(root, self.target, self.args, self.kwargs, normalize_to_only_use_kwargs)
        return None

    def _pretty_print_target(self, target: Any) -> str:
        if isinstance(target, str):
            return target
        if getattr(target, "__module__", None) == "_operator":
            return "operator.%s" % target.__name__
        name = _get_qualified_name(target)
        return "builtins." + name if "." not in name else name

    def format_node(self, placeholder_names: list[str] | None = None, maybe_return_typename: list[str] | None = None,
                    *, include_tensor_metadata: bool = False) -> str | None:
        """A line of the graph's text."""
        kind = " : %s" % _type_repr(self.type) if self.type else ""
        start = "%%%s :%s [num_users=%d] = " % (self.name, kind[2:], len(self.users))
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(self.target + kind)
                return None
            default = "(default=%s)" % (self.args[0],) if self.args else ""
            return "%splaceholder[target=%s]%s" % (start, self.target, default)
        if self.op == "output":
            if kind and maybe_return_typename is not None:
                maybe_return_typename[0] = " -> " + _type_repr(self.type)
            return "return %s" % (self.args[0],)
        shape = ""
        meta = self.meta.get("tensor_meta")
        if include_tensor_metadata and hasattr(meta, "shape"):
            shape = " # shape=%s" % (tuple(getattr(meta, "shape")),)
        head = "%s%s[target=%s]" % (start, self.op, self._pretty_print_target(self.target))
        if self.op == "get_attr":
            return head + shape
        return "%s(args = %s, kwargs = %s)%s" % (head, _format_arg(self.args), _format_arg(self.kwargs), shape)

    def __repr__(self) -> str:
        return self._repr_fn(self) if self._repr_fn else self.name

    def _rename(self, candidate: str) -> None:
        self.name = self.graph._graph_namespace.create_name(candidate, None)

    def __deepcopy__(self, memo: Any) -> Any:
        raise TypeError("a node is copied with its graph: copy.deepcopy(node.graph)")


_RANDOM = frozenset("rand randn randint randperm bernoulli normal multinomial poisson dropout alpha_dropout "
                    "feature_alpha_dropout rand_like randn_like randint_like".split())


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """fn of each node in a nested argument."""
    if not callable(fn):
        raise AssertionError("map_arg: fn must be callable")
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """fn of each leaf of a nested argument, whose lists and dictionaries become unchangeable ones."""
    if isinstance(a, tuple):
        made = [map_aggregate(x, fn) for x in a]
        return type(a)(*made) if hasattr(a, "_fields") else tuple(made) if type(a) is tuple else type(a)(made)
    if isinstance(a, list):
        return immutable_list(map_aggregate(x, fn) for x in a)
    if isinstance(a, dict):
        return immutable_dict((key, map_aggregate(value, fn)) for key, value in a.items())
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)
