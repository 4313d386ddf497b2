"""Proxies: values that note what is done with them as nodes of a graph.

Place in the flow: _symbolic_trace.py runs a module with them; ops that meet one ask it by __torch_function__
(cairn/overrides.py). Invariant: a proxy has no value, and what asks for one raises TraceError.
"""
from __future__ import annotations

import dataclasses
import dis
import enum
import functools
import inspect
import operator
import sys
from types import FunctionType
from typing import Any, Callable, Iterator

from .. import overrides
from .._tensor import Tensor
from .graph import Graph
from .node import Node, base_types, map_aggregate

__all__ = ["Attribute", "GraphAppendingTracer", "ParameterProxy", "Proxy", "TraceError", "TracerBase"]


class TraceError(ValueError):
    """The code asks for something that a trace does not know."""


class TracerBase:
    """What makes nodes of calls on proxies."""

    graph: Graph
    record_stack_traces: bool = False
    check_mutable_operations: bool = False
    trace_asserts: bool = False
    proxy_buffer_attributes: bool = False
    traced_func_name: str = "forward"

    def create_node(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                    name: str | None = None, type_expr: Any = None) -> Node:
        """A node in the graph."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def proxy(self, node: Node) -> Proxy:
        return Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
                     name: str | None = None, type_expr: Any = None,
                     proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Proxy:
        """A node from arguments that may hold proxies, as a proxy."""
        given, named = self.create_arg(args), self.create_arg(kwargs)
        if not isinstance(given, tuple) or not isinstance(named, dict):
            raise AssertionError("create_proxy: args must be a tuple and kwargs a dict")
        node = self.create_node(kind, target, given, named, name, type_expr)
        if self.record_stack_traces:
            node.stack_trace = _where()
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes have it: nodes for proxies, plain values as they are."""
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            several = [self.create_arg(x) for x in a]
            return type(a)(*several) if hasattr(a, "_fields") else tuple(several)
        if isinstance(a, list):
            return [self.create_arg(x) for x in a]
        if isinstance(a, dict):
            return {self._key(key): self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(a.start, a.stop, a.step)
        if a is None or a is ... or isinstance(a, (*base_types, enum.Enum)):
            return a
        if dataclasses.is_dataclass(a) and not isinstance(a, type):
            fields = {f.name: self.create_arg(getattr(a, f.name)) for f in dataclasses.fields(a)}
            return self.create_node("call_function", type(a), (), fields)
        if callable(a):
            return a
        raise NotImplementedError("argument of type: %s" % type(a))

    def _key(self, key: Any) -> Any:
        made = self.create_arg(key)
        map_aggregate(made, _no_node)
        return made

    def to_bool(self, obj: Proxy) -> bool:
        """Called where code asks whether a proxy is true."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Any]:
        """Called where code walks over a proxy."""
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
                         "as a "
                         "*args or **kwargs function argument.")

    def keys(self, obj: Proxy) -> Any:
        """Called for **proxy."""
        return Attribute(obj, "keys")()


def _no_node(value: Any) -> Any:
    if isinstance(value, Node):
        raise RuntimeError("Keys for dictionaries used as an argument cannot contain a Node. Got key: %s" % value)
    return value


def _where() -> str:
    """The program's innermost line."""
    own = __name__.partition(".")[0]
    frame: Any = sys._getframe(1)
    while frame is not None and str(frame.f_globals.get("__name__", "")).partition(".")[0] == own:
        frame = frame.f_back
    return "" if frame is None else 'File "%s", line %d, in %s' % (frame.f_code.co_filename, frame.f_lineno,
                                                                 frame.f_code.co_name)


class GraphAppendingTracer(TracerBase):
    """Adds to a graph that is there."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """The result of a node while code is traced. Ops on it, its methods and attributes are nodes."""

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        self.tracer = GraphAppendingTracer(node.graph) if tracer is None else tracer
        self.node = node

    def __repr__(self) -> str:
        return "Proxy(%s)" % self.node.name

    def __getattr__(self, k: str) -> Any:
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__ = state

    def __deepcopy__(self, memo: Any) -> Proxy:
        raise TraceError("a proxy cannot be copied")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = inspect.currentframe()
        calling = frame.f_back if frame is not None else None
        if calling is not None:  # a, b = proxy: as many as the code takes
            found = list(dis.get_instructions(calling.f_code))
            now = next((i for i in found if i.offset == calling.f_lasti), None)
            if now is not None and now.opname == "UNPACK_SEQUENCE":
                whole: Any = self
                return iter([whole[i] for i in range(int(now.argval))])
        return self.tracer.iter(self)

    def __abs__(self) -> Any:
        return self.tracer.create_proxy("call_function", operator.abs, (self,), {})

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts:
            made = _assertion(self)
            if made:
                return True
        return self.tracer.to_bool(self)

    def keys(self) -> Any:
        return self.tracer.keys(self)

    def __len__(self) -> int:
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be "
                           "recorded, please call cairn.fx.wrap('len') at module scope")

    @classmethod
    def __torch_function__(cls, orig_method: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        found: dict[int, TracerBase] = {}

        def note(value: Any) -> Any:
            if isinstance(value, Proxy):
                found[id(value.tracer)] = value.tracer
            return value
        map_aggregate(args, note)
        map_aggregate(kwargs, note)
        if len(found) != 1:
            raise RuntimeError("Found multiple different tracers while trying to trace operations %s" % (orig_method,)
                               if found else "no proxy among the arguments of %s" % (orig_method,))
        tracer = next(iter(found.values()))
        name: str = getattr(orig_method, "__name__", "")
        if getattr(Tensor, name, None) is orig_method:
            return tracer.create_proxy("call_method", name, tuple(args), kwargs)
        return tracer.create_proxy("call_function", orig_method, tuple(args), kwargs,
                                   name=tracer.graph._target_to_str(name))


def _assertion(proxy: Proxy) -> bool:
    """In `assert proxy`: notes a node that asserts."""
    frame: Any = sys._getframe(2)
    found = list(dis.get_instructions(frame.f_code))
    at = next(i for i, one in enumerate(found) if one.offset == frame.f_lasti)
    behind = [one.opname for one in found[at + 1:at + 3]]
    if "LOAD_ASSERTION_ERROR" not in behind and found[at].opname.startswith("POP_JUMP"):
        behind = [found[at + 1].opname]
    if "LOAD_ASSERTION_ERROR" not in behind:
        return False
    from .. import _assert
    proxy.tracer.create_proxy("call_function", _assert, (proxy, "assertion"), {})
    return True


class Attribute(Proxy):
    """An attribute of a proxy, or, when it is called, its method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """Made when it is asked for: most attributes are methods, which have none."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A parameter whose sizes the code may ask for."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Any) -> None:
        super().__init__(node, tracer)
        self.param, self.name = param, name

    def __repr__(self) -> str:
        return "ParameterProxy(%s)" % self.name

    @property
    def shape(self) -> Any:
        return self.param.shape

    def size(self, *dim: int) -> Any:
        return self.param.size(*dim)

    def dim(self) -> int:
        return int(self.param.dim())

    @property
    def ndim(self) -> int:
        return int(self.param.ndim)

    def numel(self) -> int:
        return int(self.param.numel())

    def nelement(self) -> int:
        return int(self.param.nelement())


def _as_call(target: Any) -> Callable[..., Any]:
    def method(*args: Any, **kwargs: Any) -> Any:
        proxy = next(a for a in args if isinstance(a, Proxy))
        return proxy.tracer.create_proxy("call_function", target, args, kwargs)
    method.__name__ = target.__name__
    return method


def _reflected(target: Any) -> Callable[..., Any]:
    def method(self: Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", target, (other, self), {})
    method.__name__ = target.__name__
    return method


for _name in ("add sub mul floordiv truediv mod pow lshift rshift matmul eq ne lt gt le ge pos neg invert getitem "
              "iadd iand "
              "ifloordiv ilshift imod imul imatmul ior ipow irshift isub itruediv ixor and_ or_ xor").split():
    setattr(Proxy, "__%s__" % _name.strip("_"), _as_call(getattr(operator, _name)))
for _name in "add sub mul floordiv truediv mod pow lshift rshift and_ or_ xor matmul".split():
    setattr(Proxy, "__r%s__" % _name.strip("_"), _reflected(getattr(operator, _name)))
setattr(Proxy, "__setitem__", _as_call(operator.setitem))
setattr(Proxy, "__hash__", object.__hash__)
del _name


def proxy_in(args: Any, kwargs: Any) -> Proxy | None:
    """A proxy among arguments, also in lists, tuples and dictionaries."""
    for value in (*args, *kwargs.values()):
        if isinstance(value, Proxy):
            return value
        if isinstance(value, (list, tuple)):
            inner = proxy_in(value, {})
            if inner is not None:
                return inner
        elif isinstance(value, dict):
            inner = proxy_in((), value)
            if inner is not None:
                return inner
        elif isinstance(value, slice):
            inner = proxy_in((value.start, value.stop, value.step), {})
            if inner is not None:
                return inner
    return None


# ---- the package's own functions ----
_PLAIN = frozenset("as_torch compile load save is_tensor is_storage manual_seed seed set_default_dtype typename "
                   "is_grad_enabled no_grad enable_grad".split())
_SPACES = ("", ".nn.functional", ".linalg", ".special", ".fft", ".nn.attention.flex_attention")


def _noting(fn: Callable[..., Any], method: bool) -> Callable[..., Any]:
    """The function, which is a node where it gets a proxy."""
    form = getattr(fn, "_in_graphs", None)

    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = proxy_in(args, kwargs)
        if proxy is None:
            return fn(*args, **kwargs)
        args = args if form is None else form(*args, **kwargs)
        kind, target = ("call_method", fn.__name__) if method else ("call_function", wrapped)
        return proxy.tracer.create_proxy(kind, target, args, kwargs)
    return wrapped


def watch_package() -> None:
    """Public functions of the package that are written in Python ask for proxies from now on; ops of C do by
    themselves. Only programs that use graphs pay for it."""
    own = __name__.partition(".")[0]
    for space in _SPACES:
        names = vars(sys.modules.get(own + space, sys.modules[own]))
        for name, value in list(names.items()):
            mine = isinstance(value, FunctionType) and (value.__module__ or "").partition(".")[0] == own
            shown = (name[0] != "_" or name == "_assert") and name not in _PLAIN
            if mine and shown and not hasattr(value, "__wrapped__"):
                names[name] = _noting(value, False)
    for name, value in list(vars(Tensor).items()):
        if isinstance(value, FunctionType) and not name.startswith("_"):
            setattr(Tensor, name, _noting(value, True))


overrides.watch()
watch_package()
