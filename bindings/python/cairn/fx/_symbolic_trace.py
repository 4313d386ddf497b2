"""Tracer: runs a module's or function's Python with proxies, and so makes its graph.

Place in the flow: symbolic_trace(module) is Tracer().trace(module) and a GraphModule. While it runs, calls of modules,
reads of their parameters, and functions of the package that are written in Python come here first. Invariant: what is
patched for that is as it was afterwards, whatever the code raises.
"""
from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
import sys
import types
from typing import Any, Callable

from .. import nn
from .._arguments import warn
from .._tensor import Tensor
from .._types import of_package
from .graph import Graph
from .graph_module import GraphModule
from .node import base_types, has_side_effect
from .proxy import ParameterProxy, Proxy, TracerBase, proxy_in as _proxy_in
from .. import _assert  # as proxy.py has left it: what graphs call

__all__ = ["PH", "ProxyableClassMeta", "Tracer", "is_fx_tracing", "symbolic_trace", "wrap"]

_tracing = 0
_wrapped_fns_to_patch: dict[tuple[int, str], dict[str, Any]] = {}  # {(id of a module's names, name): these names}
_wrapped_methods_to_patch: list[tuple[type, str]] = []


def is_fx_tracing() -> bool:
    """Is a graph being made?"""
    return _tracing > 0


is_fx_symbolic_tracing = is_fx_tracing


class _Placeholder:
    """PH in concrete_args: this part stays an argument."""

    def __repr__(self) -> str:
        return "PH"


PH = _Placeholder()


# ---- what is patched meanwhile ----
def _leaf_function(fn: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which is a node where it gets a proxy."""
    @functools.wraps(fn)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_in(args, kwargs)
        if proxy is None:
            return fn(*args, **kwargs)
        return proxy.tracer.create_proxy("call_function", fn, args, kwargs)
    return wrapped


def _leaf_method(cls: type, name: str) -> Callable[..., Any]:
    original: Any = getattr(cls, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_in(args, kwargs)
        if proxy is None:
            return original(*args, **kwargs)
        return proxy.tracer.create_proxy("call_method", name, args, kwargs)
    return wrapped


def _assert_is_none(value: Any, message: str) -> None:
    """A check in graphs whose argument was None."""
    _assert(value is None, message)


has_side_effect(_assert)
has_side_effect(_assert_is_none)


class _Patcher:
    """Puts other values into names, and back."""

    def __init__(self) -> None:
        self.undo: list[Callable[[], None]] = []
        self.seen: set[tuple[int, str]] = set()

    def item(self, space: dict[str, Any], name: str, value: Any) -> None:
        """A name of a module."""
        if (id(space), name) in self.seen:
            return
        self.seen.add((id(space), name))
        there = name in space
        before = space.get(name)
        space[name] = value
        self.undo.append(lambda: space.__setitem__(name, before) if there else space.pop(name))

    def attribute(self, cls: Any, name: str, value: Any) -> None:
        """An attribute of a class, which may have inherited it."""
        there = name in vars(cls)
        before = vars(cls).get(name)
        setattr(cls, name, value)
        self.undo.append(lambda: setattr(cls, name, before) if there else delattr(cls, name))

    def __enter__(self) -> _Patcher:
        return self

    def __exit__(self, *error: Any) -> None:
        while self.undo:
            self.undo.pop()()


def _patch_wrapped(patcher: _Patcher) -> None:
    """What programs gave to wrap()."""
    for (_, name), names in list(_wrapped_fns_to_patch.items()):
        original = names.get(name, getattr(builtins, name, None))
        if original is not None:
            patcher.item(names, name, _leaf_function(original))
    for cls, name in _wrapped_methods_to_patch:
        patcher.attribute(cls, name, _leaf_method(cls, name))


def wrap(fn_or_name: Any) -> Any:
    """Calls of this function of the program are nodes: tracers do not look into it. At module level, or a decorator."""
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError("Unsupported type for global function! Must be either a callable or string name")
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    frame: Any = sys._getframe(1)
    if frame.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    names = frame.f_globals
    _wrapped_fns_to_patch[(id(names), name)] = names
    return fn_or_name


# ---- the tracer ----
class Tracer(TracerBase):
    """Makes graphs of modules and functions. Derive from it to decide which modules are leaves."""

    root: Any

    def __init__(self, autowrap_modules: tuple[Any, ...] = (math,),
                 autowrap_functions: tuple[Callable[..., Any], ...] = (), param_shapes_constant: bool = False) -> None:
        super().__init__()
        self._autowrap_function_ids = {id(value): value for module in autowrap_modules
                                       for name, value in vars(module).items()
                                       if not name.startswith("_") and callable(value)}
        self._autowrap_function_ids.update({id(f): f for f in autowrap_functions})
        self._autowrap_search = list(autowrap_modules)
        self.param_shapes_constant = param_shapes_constant
        self.submodule_paths: dict[Any, str] | None = None
        self._proxies: dict[str, Proxy] = {}
        self.tensor_attrs: dict[int, str] = {}

    # ---- what may be overridden ----
    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:  # unused: module_qualified_name (for others)
        """Is a call of the module one node? Of the library's layers it is, but not of Sequential."""
        return of_package(type(m).__module__, "nn") and not isinstance(m, nn.Sequential)

    def path_of_module(self, mod: Any) -> str:
        """Its dotted name."""
        if self.submodule_paths:
            path = self.submodule_paths.get(mod)
            if path is None:
                raise NameError("module is not installed as a submodule")
            return path
        for name, found in self.root.named_modules():
            if found is mod:
                return str(name)
        raise NameError("module is not installed as a submodule")

    def call_module(self, m: Any, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """What a call of a module is: a node, or its code."""
        path = self.path_of_module(m)
        if self.is_leaf_module(m, path):
            return self.create_proxy("call_module", path, args, kwargs)
        return forward(*args, **kwargs)

    def getattr(self, attr: str, attr_val: Any,
                parameter_proxy_cache: dict[str, Any]) -> Any:  # unused: attr (for classes derived from it)
        """What reading an attribute of a module gives: a node for parameters, and for buffers where asked for."""
        if isinstance(attr_val, nn.Parameter):
            return self._part(attr_val, self.root.named_parameters(), parameter_proxy_cache)
        if self.proxy_buffer_attributes and isinstance(attr_val, Tensor):
            return self._part(attr_val, self.root.named_buffers(), parameter_proxy_cache)
        return attr_val

    def _part(self, value: Any, parts: Any, cache: dict[str, Any]) -> Any:
        for name, part in parts:
            if part is value:
                if name not in cache:
                    made: Any = None
                    if self.param_shapes_constant and isinstance(value, nn.Parameter):
                        def made(node: Any) -> Any:
                            return ParameterProxy(self, node, name, value)
                    cache[name] = self.create_proxy("get_attr", name, (), {}, proxy_factory_fn=made)
                return cache[name]
        return value

    def create_arg(self, a: Any) -> Any:
        """Tensors and modules are named by the attributes that hold them."""
        if isinstance(a, nn.Parameter):
            for name, value in self.root.named_parameters():
                if value is a:
                    return self.create_node("get_attr", name, (), {})
            raise NameError("parameter is not a member of this module")
        if isinstance(a, Tensor):
            return self._held(a, "_tensor_constant")
        if isinstance(a, nn.Module):
            for name, module in self.root.named_modules():
                if module is a:
                    return self.create_node("get_attr", name, (), {})
        return super().create_arg(a)

    def _held(self, value: Any, prefix: str) -> Any:
        name = self.tensor_attrs.get(id(value))
        if name is None:
            number = 0
            while hasattr(self.root, "%s%d" % (prefix, number)):
                number += 1
            name = "%s%d" % (prefix, number)
            self.tensor_attrs[id(value)] = name
            setattr(self.root, name, value)
        return self.create_node("get_attr", name, (), {})

    # ---- tracing ----
    def create_args_for_root(self, root_fn: Any, is_module: bool,
                             concrete_args: dict[str, Any] | tuple[Any, ...] | None = None) -> tuple[Any, list[Any]]:
        """(function, arguments): placeholders for the parameters of the function; concrete_args: values instead."""
        fn = inspect.unwrap(root_fn)
        code = fn.__code__
        count = code.co_argcount + code.co_kwonlyargcount
        names = list(code.co_varnames[:count])
        signature = inspect.signature(fn)
        args: list[Any] = []
        if is_module:
            args.append(self.root)
            names = names[1:]
        concrete = self._concrete(concrete_args, names)
        args += [self._argument(name, signature.parameters[name].default, concrete) for name in names]
        for flag, mark in ((inspect.CO_VARARGS, "*"), (inspect.CO_VARKEYWORDS, "**")):
            if code.co_flags & flag:
                args.append(self.create_proxy("placeholder", mark + code.co_varnames[count], (), {}))
                count += 1
        plain = count == code.co_argcount
        return (root_fn if plain else _positional(fn, count)), args

    @staticmethod
    def _concrete(given: Any, names: list[str]) -> dict[str, Any]:
        if given is None:
            return {}
        if isinstance(given, tuple):
            if len(given) != len(names):
                raise RuntimeError("Tracing expected %d arguments but got %d concrete arguments"
                                   % (len(names), len(given)))
            return dict(zip(names, given))
        return dict(given)

    def _argument(self, name: str, default: Any, concrete: dict[str, Any]) -> Any:
        given = () if default is inspect.Parameter.empty else (default,)
        if name not in concrete:
            return self.create_proxy("placeholder", name, given, {}, type_expr=self._hints.get(name))
        value = concrete[name]
        if value is not PH and _has_placeholder(value):
            raise NotImplementedError("concrete_args: %r holds placeholders inside of a container" % name)
        proxy = self.create_proxy("placeholder", name + "_1", given, {})
        if value is PH:
            return proxy
        self._specialized(proxy, name, value)
        return value

    def _specialized(self, proxy: Proxy, name: str, value: Any) -> None:
        """Notes a check that the argument is what it was in the trace."""
        text = "%s has been specialized to have value %s but got another value" % (name, value)
        if value is None:
            self.create_proxy("call_function", _assert_is_none, (proxy, text), {})
        elif isinstance(value, base_types) and not isinstance(value, Tensor):
            same: Any = operator.eq(proxy, value)
            self.create_proxy("call_function", _assert, (same, text), {})
        else:
            warn("%s: the graph cannot check that this argument is what it was in the trace" % name)

    _hints: dict[str, Any] = {}

    def trace(self, root: Any, concrete_args: Any = None) -> Graph:
        """The graph of a module's forward, or of a function."""
        global _tracing
        is_module = isinstance(root, nn.Module)
        if is_module:
            if not hasattr(type(root), self.traced_func_name):
                raise AssertionError("traced_func_name=%s doesn't exist in %s" % (self.traced_func_name,
                                                                                 type(root).__name__))
            fn: Any = getattr(type(root), self.traced_func_name)
            if "forward" in vars(root) and self.traced_func_name == "forward":
                bound = vars(root)["forward"]
                fn = getattr(bound, "__func__", bound)
            self.root = root
            self.submodule_paths = {module: name for name, module in root.named_modules()}
        else:
            self.root, fn = nn.Module(), root
            self.submodule_paths = None
        self.graph = Graph(tracer_cls=type(self))
        self.tensor_attrs = {}
        self._note_tensors(self.root, "")
        self._hints = dict(getattr(inspect.unwrap(fn), "__annotations__", {}))
        _tracing += 1
        try:
            call, args = self.create_args_for_root(fn, is_module, concrete_args)
            self._run(fn, call, args)
        finally:
            _tracing -= 1
            self.submodule_paths = None
        return self.graph

    def _note_tensors(self, module: Any, prefix: str) -> None:
        """Tensors that are plain attributes can be named, too."""
        for name, value in vars(module).items():
            if isinstance(value, Tensor):
                self.tensor_attrs[id(value)] = prefix + name
        for name, child in module.named_children():
            self._note_tensors(child, prefix + name + ".")

    def _run(self, fn: Any, call: Any, args: list[Any]) -> None:
        cache: dict[str, Any] = {}
        tracer = self

        def module_call(mod: Any, *given: Any, **named: Any) -> Any:
            def forward(*a: Any, **k: Any) -> Any:
                if type(mod).forward is nn.Sequential.forward and "forward" not in vars(mod):
                    return _sequence(mod, *a, **k)
                return mod._call_plain(a, k) if _proxy_in(a, k) is None else mod.forward(*a, **k)
            return tracer.call_module(mod, forward, given, named)

        def read(mod: Any, name: str) -> Any:
            value = object.__getattribute__(mod, name)
            return tracer.getattr(name, value, cache) if isinstance(value, Tensor) else value
        with _Patcher() as patcher:
            patcher.attribute(nn.Module, "__call__", module_call)
            patcher.attribute(nn.Module, "__getattribute__", read)
            _patch_wrapped(patcher)
            self._autowrap(patcher, getattr(inspect.unwrap(fn), "__globals__", {}))
            for module in self._autowrap_search:
                self._autowrap(patcher, vars(module))
            result = call(*args)
            self.create_node("output", "output", (self.create_arg(result),), {},
                             type_expr=self._hints.get("return"))

    def _autowrap(self, patcher: _Patcher, names: dict[str, Any]) -> None:
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in self._autowrap_function_ids:
                patcher.item(names, name, _leaf_function(value))


def _has_placeholder(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(_has_placeholder, value))
    return any(map(_has_placeholder, value.values())) if isinstance(value, dict) else value is PH


def _sequence(modules: Any, x: Any) -> Any:
    """What Sequential computes, one module after the other."""
    for module in modules:
        x = module(x)
    return x


def _positional(fn: Any, count: int) -> Any:
    """The function with so many arguments, all by position: *args and **kwargs are what is given in their place."""
    code = fn.__code__
    flags = code.co_flags & ~(inspect.CO_VARARGS | inspect.CO_VARKEYWORDS)
    code = code.replace(co_flags=flags, co_argcount=count, co_posonlyargcount=0, co_kwonlyargcount=0)
    return types.FunctionType(code, fn.__globals__, fn.__name__, None, fn.__closure__)


class ProxyableClassMeta(type):
    """The class of classes whose objects may be made in traced code: making one is a node."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        proxy = _proxy_in(args, kwargs)
        if proxy is not None:
            return proxy.tracer.create_proxy("call_function", cls, args, kwargs)
        return super().__call__(*args, **kwargs)


def symbolic_trace(root: Any, concrete_args: Any = None) -> GraphModule:
    """A module or function as a GraphModule: its code, run once with proxies. concrete_args: arguments that have
    values in the trace."""
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if isinstance(root, nn.Module) else root.__name__
    return GraphModule(tracer.root, graph, name)
