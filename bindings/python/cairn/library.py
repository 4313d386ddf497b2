"""cairn.library: ops that a program adds: torch.library. They are called by torch.ops.NAMESPACE.NAME.

Place in the flow: custom_op and Library register functions here; _ops.py finds them. A call chooses a function by the
tensors' device; gradients are those that register_autograd gave, or of the function's own ops where it was registered
for "CompositeImplicitAutograd". Invariant: without a gradient an op's results can be computed with, and going backward
through them raises.
"""
from __future__ import annotations

from typing import Any, Callable, Iterable, Sequence

from . import _absent, _C
from ._library_schema import Schema, infer_schema, parsed
from ._modes import is_grad_enabled, no_grad
from ._ops import OpOverload, OpOverloadPacket
from ._tensor import Tensor

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "fallthrough_kernel", "get_ctx", "impl", "impl_abstract",
           "infer_schema", "opcheck", "register_autograd", "register_autocast", "register_fake", "register_kernel",
           "register_torch_dispatch", "register_vmap", "triton_op", "wrap_triton"]

_COMPOSITE = "CompositeImplicitAutograd"
_KEYS = {"cpu": "CPU", "cuda": "CUDA", "meta": "Meta"}
_ops: dict[str, _Op] = {}  # by name, "space::name" or "space::name.overload"
_packets: dict[str, OpOverloadPacket] = {}  # ... without the overload
_NO_TRITON = "there is no Triton; kernels are written by cuda.compile_kernel"
triton_op = _absent.function(__name__, "triton_op", _NO_TRITON)
wrap_triton = _absent.function(__name__, "wrap_triton", _NO_TRITON)
register_torch_dispatch = _absent.function(__name__, "register_torch_dispatch",
                                           "there is no dispatch below autograd in Python")


def fallthrough_kernel(*args: Any, **kwargs: Any) -> Any:
    """A mark for Library.impl: this key has nothing to say. It is not to be called."""
    raise NotImplementedError("fallthrough_kernel() should never be called.")


def _chosen(base: str) -> Callable[..., Any]:
    """What a call without an overload's name calls: the first overload, in order of definition, that it fits."""
    def call(*args: Any, **kwargs: Any) -> Any:
        forms = list(_packets[base]._forms.values())
        for function, schema in forms[:-1]:
            try:
                schema.bound(args, kwargs)
            except (RuntimeError, TypeError):
                continue
            return function(*args, **kwargs)
        return forms[-1][0](*args, **kwargs)
    return call


class _Op:
    """One overload of an op: its schema, and what computes it."""

    def __init__(self, name: str, schema: Schema) -> None:
        self.name, self.schema = name, schema
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.fake: Callable[..., Any] | None = None
        self.backward: Callable[..., Any] | None = None
        self.setup: Callable[..., Any] | None = None
        self.vmap: Callable[..., Any] | None = None
        self.autocast: dict[str, Any] = {}
        base = name.removesuffix("." + schema.overload)
        self.packet = _packets.get(base)
        if self.packet is None:
            space, _, own = base.partition("::")
            self.packet = _packets[base] = OpOverloadPacket(space, own, [], _chosen(base), schema)
        self.packet._add(schema.overload, self.call, schema)

    # ---- a call ----
    def call(self, *args: Any, **kwargs: Any) -> Any:
        """What torch.ops calls."""
        args, kwargs = self.schema.bound(args, kwargs)
        tensors = list(_tensors((args, kwargs)))
        if _C._vmap_depth():
            from .autograd import _function_vmap
            level = _function_vmap.innermost(tuple(tensors))
            if level is not None:
                return _function_vmap.call(self.call, self.vmap, args, kwargs, level)
        args, kwargs = self._cast(tensors, args, kwargs)
        tensors = list(_tensors((args, kwargs)))
        for key in ("Autograd" + _KEYS.get(_device(tensors), ""), "Autograd"):
            if key in self.kernels and not _below_autograd:
                return self.kernels[key](*args, **kwargs)
        if _COMPOSITE in self.kernels and self._kernel_key(tensors) is None:
            return self.kernels[_COMPOSITE](*args, **kwargs)
        needs = is_grad_enabled() and any(t.requires_grad for t in tensors)
        if not needs:
            return self._compute(tensors, args, kwargs)
        return _differentiable(self, args, kwargs)

    def _cast(self, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """Tensors in the type that autocast asks for."""
        device = _device(tensors)
        dtype = self.autocast.get(device)
        if dtype is None or _C._autocast_dtype(device == "cuda") is None:
            return args, kwargs

        def cast(value: Any) -> Any:
            if isinstance(value, Tensor):
                return value.to(dtype) if value.is_floating_point() and value.dtype != _C.float64 else value
            return [cast(v) for v in value] if isinstance(value, list) else value
        return tuple(map(cast, args)), {k: cast(v) for k, v in kwargs.items()}

    def _kernel_key(self, tensors: list[Tensor]) -> str | None:
        """Which function computes on the tensors' device."""
        key = _KEYS.get(_device(tensors), "")
        for known in (key, "CompositeExplicitAutograd", "BackendSelect" if not tensors else key):
            if known in self.kernels and self.kernels[known] is not fallthrough_kernel:
                return known
        return None

    def _compute(self, tensors: list[Tensor], args: Any, kwargs: Any) -> Any:
        """The result, without a record."""
        if _device(tensors) == "meta" and self.fake is not None:
            return self.fake(*args, **kwargs)
        key = self._kernel_key(tensors)
        if key is None:
            raise NotImplementedError("Could not run '%s' with arguments from the '%s' backend: no function was "
                                      "registered for it; there are %s" % (self.name, _device(tensors),
                                                                           sorted(self.kernels) or "none"))
        with no_grad():
            result = self.kernels[key](*args, **kwargs)
        if self.schema.returns_nothing and result is not None:
            raise RuntimeError("%s: its schema says that it returns nothing, but it returned %s"
                               % (self.name, type(result).__name__))
        return result


_below_autograd: list[bool] = []


def _tensors(tree: Any) -> Iterable[Tensor]:
    if isinstance(tree, Tensor):
        yield tree
    elif isinstance(tree, (tuple, list)):
        for value in tree:
            yield from _tensors(value)
    elif isinstance(tree, dict):
        yield from _tensors(list(tree.values()))


def _device(tensors: Sequence[Tensor]) -> str:
    """The kind of device that a call runs on."""
    kinds = {t.device.type for t in tensors}
    return next((k for k in ("meta", "cuda") if k in kinds), next(iter(kinds), "cpu"))


def _differentiable(op: _Op, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call as a node: its backward is what register_autograd gave."""
    from .autograd import Function
    flat: list[Tensor] = []

    def place(value: Any) -> Any:
        if isinstance(value, Tensor):
            flat.append(value)
            return _Place(len(flat) - 1)
        if isinstance(value, (list, tuple)):
            return type(value)(map(place, value))
        return value
    shape = tuple(map(place, args)), {k: place(v) for k, v in kwargs.items()}
    single: list[Any] = []

    class Call(Function):
        @staticmethod
        def forward(ctx: Any, *tensors: Tensor) -> Any:
            given, named = _filled(shape, tensors)
            result = op._compute(list(tensors), given, named)
            single.append(result)
            ctx.set_materialize_grads(True)
            if op.setup is not None:
                keywords = {"keyword_only_inputs": named} if named else {}
                op.setup(ctx=ctx, inputs=given, output=result, **keywords)
            written = [t for i, t in enumerate(tensors) if i in op.schema.written_among(shape[0])]
            if written:
                ctx.mark_dirty(*written)
            several = result if isinstance(result, tuple) else tuple(result) if isinstance(result, list) else (result,)
            ctx._given = len(several)
            return (*several, *(w for w in written if not any(w is r for r in several)))

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            if op.backward is None:
                raise RuntimeError("Trying to backward through %s but no autograd formula was registered. If you need "
                                   "your custom op to support autograd, please do: %s.register_autograd(...)"
                                   % (op.name, op.name))
            given: Any = grads[:ctx._given]
            if isinstance(single[0], list):
                given = (list(given),)
            back = op.backward(ctx, *given)
            return tuple(_by_place(shape[0], back if isinstance(back, tuple) else (back,), len(flat)))
    Call.__name__ = op.name.replace("::", "_")
    results = Call.apply(*flat)
    count = len(single[0]) if isinstance(single[0], (tuple, list)) else 1
    if isinstance(single[0], (tuple, list)):
        return type(single[0])(results[:count])
    return results[0] if single[0] is not None else None


class _Place:
    """Where a tensor was among the arguments."""

    def __init__(self, index: int) -> None:
        self.index = index


def _filled(shape: Any, tensors: Sequence[Tensor]) -> Any:
    def fill(value: Any) -> Any:
        if isinstance(value, _Place):
            return tensors[value.index]
        return type(value)(map(fill, value)) if isinstance(value, (list, tuple)) else value
    return tuple(map(fill, shape[0])), {k: fill(v) for k, v in shape[1].items()}


def _by_place(shape: Any, grads: Any, count: int) -> list[Any]:
    """Gradients of the arguments as those of the tensors."""
    found: list[Any] = [None] * count

    def walk(value: Any, grad: Any) -> None:
        if isinstance(value, _Place):
            found[value.index] = grad
        elif isinstance(value, (list, tuple)) and grad is not None:
            for v, g in zip(value, grad):
                walk(v, g)
    if len(grads) != len(shape):
        raise RuntimeError("expected %d gradients, one for each argument, but backward returned %d" % (len(shape),
                                                                                                     len(grads)))
    for value, grad in zip(shape, grads):
        walk(value, grad)
    return found


# ---- registering ----
def registered(space: str, name: str) -> OpOverloadPacket | None:
    """The op of that name, for torch.ops."""
    packet = _packets.get("%s::%s" % (space, name))
    return packet if packet is not None and packet._forms else None


def _known(op: Any) -> _Op:
    """An op by name, by its object of torch.ops, or by what custom_op returned."""
    if isinstance(op, CustomOpDef):
        return op._op
    name = op.name() if isinstance(op, OpOverload) else op._qualified_op_name if isinstance(op, OpOverloadPacket) else \
        str(op).removesuffix(".default")
    forms = [] if name not in _packets else list(_packets[name]._forms)
    if name not in _ops and len(forms) == 1:
        name += "." + forms[0]
    if name not in _ops:
        raise RuntimeError("operator %s does not exist" % name)
    return _ops[name]


class CustomOpDef:
    """What custom_op returns: it can be called, and given more functions."""

    def __init__(self, op: _Op, function: Callable[..., Any]) -> None:
        self._op, self._init_fn = op, function
        self._qualname = op.name
        self._namespace, self._name = op.name.split("::")
        self._opoverload = getattr(op.packet, op.schema.overload)
        self.__name__ = self._name
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._op.call(*args, **kwargs)

    def __repr__(self) -> str:
        return "<CustomOpDef(%s)>" % self._qualname

    def register_kernel(self, device_types: Any, fn: Any = None, /) -> Any:
        """fn computes it on a kind of device."""
        return register_kernel(self, device_types, fn)

    def register_fake(self, fn: Callable[..., Any], /) -> Callable[..., Any]:
        """fn gives results without values, for tensors on the device "meta"."""
        self._op.fake = fn
        return fn

    def register_autograd(self, backward: Callable[..., Any], /, *, setup_context: Any = None) -> None:
        """Its gradient: see register_autograd."""
        self._op.backward, self._op.setup = backward, setup_context

    def register_vmap(self, func: Any = None, /) -> Any:
        """What vmap calls: see register_vmap."""
        return register_vmap(self, func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """The type that autocast brings its arguments to."""
        self._op.autocast[device_type] = cast_inputs


def custom_op(name: str, fn: Any = None, /, *, mutates_args: Any, device_types: Any = None, schema: str | None = None,
              tags: Any = None) -> Any:  # unused: tags (of a compiler)
    """A decorator: the function is the op "space::name". mutates_args: the names of arguments that it writes into."""
    def around(function: Callable[..., Any]) -> CustomOpDef:
        text = schema if schema is not None else infer_schema(function, mutates_args=mutates_args)
        op = _ops[name] = _Op(name, parsed(text))
        kinds = [device_types] if isinstance(device_types, str) else device_types
        for kind in kinds or ():
            op.kernels[_KEYS.get(kind, kind.upper())] = function
        if kinds is None:
            op.kernels["CompositeExplicitAutograd"] = function
        return CustomOpDef(op, function)
    if "::" not in name:
        raise ValueError("custom_op: a name is \"space::name\", not %r" % name)
    return around if fn is None else around(fn)


def register_kernel(op: Any, device_types: Any, func: Any = None, /, *,
                    lib: Any = None) -> Any:  # unused: lib (there is one)
    """func computes the op on these kinds of devices; None: on all."""
    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        kinds = [device_types] if isinstance(device_types, str) else device_types
        for key in ["CompositeExplicitAutograd"] if kinds is None else [_KEYS.get(k, k.upper()) for k in kinds]:
            _known(op).kernels[key] = function
        return function
    return around if func is None else around(func)


def register_fake(op: Any, func: Any = None, /, *, lib: Any = None, _stacklevel: int = 1,
                  allow_override: bool = False) -> Any:  # unused: lib, allow_override (the last one counts)
    """func gives results without values, for tensors on the device "meta"."""
    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        _known(op).fake = function
        return function
    return around if func is None else around(func)


impl_abstract = register_fake


def register_autograd(op: Any, backward: Callable[..., Any], /, *, setup_context: Any = None,
                      lib: Any = None) -> None:  # unused: lib (there is one)
    """The op's gradient: backward(ctx, *gradients of results) gives one for each argument, None where there is none;
    setup_context(ctx, inputs, output) keeps for it what it needs."""
    known = _known(op)
    if known.schema.mutates:
        raise RuntimeError("Cannot register autograd formula for non-functional operator %s with schema %s" % (
            known.name, known.schema.text))
    known.backward, known.setup = backward, setup_context


def register_autocast(op: Any, device_type: str, cast_inputs: Any, /, *,
                      lib: Any = None) -> None:  # unused: lib (there is one)
    """The type that autocast brings the op's arguments to."""
    _known(op).autocast[device_type] = cast_inputs


def register_vmap(op: Any, func: Any = None, /, *, lib: Any = None) -> Any:  # unused: lib (there is one)
    """func(info, in_dims, *arguments) is what vmap calls, with whole batches; it returns (results, where they have the
    batch). Without one the op is called for each example."""
    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        _known(op).vmap = function
        return function
    return around if func is None else around(func)


class _FakeContext:
    """What get_ctx returns inside of a function for "meta"."""

    def new_dynamic_size(self, *, min: int = 0, max: int | None = None) -> int:
        raise NotImplementedError("new_dynamic_size: sizes that depend on values have no tensor without values")

    create_unbacked_symint = new_dynamic_size


def get_ctx() -> _FakeContext:
    """For functions given to register_fake."""
    return _FakeContext()


class Library:
    """Ops of a namespace: kind "DEF" defines them, "IMPL" and "FRAGMENT" add to those that are there."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("DEF", "IMPL", "FRAGMENT"):
            raise ValueError("Unsupported kind: %s" % kind)
        if ns == "prim":
            raise ValueError("prim is a reserved namespace")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key
        self._own: list[str] = []

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:  # unused: tags (of a compiler)
        """Defines "name(Tensor x, ...) -> Tensor"; its name."""
        if alias_analysis not in ("", "FROM_SCHEMA", "CONSERVATIVE"):
            raise RuntimeError("Invalid alias_analysis type %s" % alias_analysis)
        if self.kind == "IMPL":
            raise RuntimeError("define: a Library of kind \"IMPL\" defines nothing")
        name, _, rest = schema.partition("(")
        base, _, overload = name.strip().partition(".")
        full = "%s::%s" % (self.ns, base if overload in ("", "default") else name.strip())
        _ops[full] = _Op(full, parsed("(" + rest, overload or "default"))
        self._own.append(full)
        return name.strip()

    def impl(self, op_name: Any, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False,
             allow_override: bool = False) -> None:  # unused: allow_override (the last one counts)
        """fn computes an op for a key: "CPU", "CUDA", "Meta", "Autograd", "CompositeImplicitAutograd", ..."""
        if not callable(fn):
            raise TypeError("Input function is required to be a callable but found type %s" % type(fn))
        if with_keyset:
            raise NotImplementedError("impl: with_keyset: there are no sets of dispatch keys")
        name = op_name if isinstance(op_name, str) else _known(op_name).name
        full = name if "::" in name else "%s::%s" % (self.ns, name)
        key = dispatch_key or self.dispatch_key or _COMPOSITE
        if full.startswith("aten::"):
            raise NotImplementedError("impl: the library's own ops cannot be given another kernel (%s)" % full)
        op = _known(full)
        if key == "Meta":
            op.fake = fn
        op.kernels[key] = fn

    def fallback(self, fn: Any, dispatch_key: str = "", *, with_keyset: bool = False) -> None:
        """Not there."""
        raise NotImplementedError("Library.fallback: there are no fallbacks for all ops of a key")

    def _register_fake(self, op_name: str, fn: Any, _stacklevel: int = 1, *,
                       allow_override: bool = False) -> None:  # unused: allow_override (the last one counts)
        _known(op_name if "::" in op_name else "%s::%s" % (self.ns, op_name)).fake = fn

    def _destroy(self) -> None:
        """Its ops go."""
        for name in self._own:
            op = _ops.pop(name, None)
            if op is not None and op.packet is not None:
                op.packet._forms.pop(op.schema.overload, None)


def define(qualname: str, schema: str, *, lib: Library | None = None,
           tags: Any = ()) -> None:  # unused: lib, tags (of a compiler)
    """Defines an op by its name and schema: define("space::name", "(Tensor x) -> Tensor")."""
    if "::" not in qualname:
        raise ValueError("define: a name is \"space::name\", not %r" % qualname)
    space, name = qualname.split("::")
    Library(space, "FRAGMENT").define(name + schema)


def impl(qualname: Any, types: Any, func: Any = None, *,
         lib: Library | None = None) -> Any:  # unused: lib (there is one)
    """func computes the op on these kinds of devices ("cpu", "cuda", "default" for all)."""
    def around(function: Callable[..., Any]) -> Callable[..., Any]:
        for kind in [types] if isinstance(types, str) else types:
            key = "CompositeExplicitAutograd" if kind == "default" else _KEYS.get(kind, kind)
            _known(qualname).kernels[key] = function
        return function
    return around if func is None else around(func)


def opcheck(op: Any, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None, *, test_utils: Any = (
        "test_schema", "test_autograd_registration", "test_faketensor"), raise_exception: bool = True,
            atol: float | None = None,
            rtol: float | None = None) -> dict[str, Any]:  # unused: atol, rtol (nothing is compared)
    """Checks an op with these arguments: that it writes into what its schema says alone, has a gradient where one is
    asked for, and gives without values the shapes that it gives with them. {check: "SUCCESS" or the exception}."""
    known, named = _known(op), kwargs or {}
    checks = {"test_schema": _check_schema, "test_autograd_registration": _check_autograd,
              "test_faketensor": _check_fake}
    found: dict[str, Any] = {}
    for name in [test_utils] if isinstance(test_utils, str) else test_utils:
        if name not in checks:
            raise NotImplementedError("opcheck: there is no check %r" % name)
        try:
            checks[name](known, args, named)
            found[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise
            found[name] = error
    return found


def _check_schema(op: _Op, args: Any, kwargs: Any) -> None:
    given = [t.detach().clone() for t in _tensors(args)]
    now = list(_tensors(args))
    with no_grad():
        op.call(*args, **kwargs)
    written = op.schema.written_among(args)
    for i, (a, b) in enumerate(zip(given, now)):
        if i not in written and not a.equal(b):
            raise RuntimeError("%s: argument %d is not defined as mutable but was mutated" % (op.name, i))


def _check_autograd(op: _Op, args: Any, kwargs: Any) -> None:
    if any(t.requires_grad for t in _tensors((args, kwargs))) and op.backward is None and _COMPOSITE not in op.kernels \
            and not any(k.startswith("Autograd") for k in op.kernels):
        raise RuntimeError("%s: there is no gradient (register_autograd) but an argument requires one" % op.name)


def _check_fake(op: _Op, args: Any, kwargs: Any) -> None:
    def meta(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value.detach().to("meta")
        return type(value)(map(meta, value)) if isinstance(value, (list, tuple)) else value
    want = [(t.shape, t.dtype) for t in _tensors(op.call(*args, **kwargs))]
    without = op.call(*meta(tuple(args)), **{k: meta(v) for k, v in kwargs.items()})
    have = [(t.shape, t.dtype) for t in _tensors(without)]
    if want != have:
        raise RuntimeError("%s: without values it gives %s, with them %s" % (op.name, have, want))
