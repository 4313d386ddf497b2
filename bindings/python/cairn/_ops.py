"""torch.ops: ops by namespace, name and overload. torch.ops.aten.add.Tensor is cairn's add; torch.ops.mylib.f what a
program has registered by cairn.library.

Place in the flow: cairn.ops (torchvision's names) takes namespaces from here. Invariant: arguments are those of
PyTorch's schema, in its order; a name or overload that it does not have is an AttributeError.
"""
from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, Callable

from . import _absent

__all__ = ["OpOverload", "OpOverloadPacket", "namespace"]

_spaces: dict[str, _Namespace] = {}


class OpOverload:
    """One form of an op."""

    def __init__(self, packet: OpOverloadPacket, overload: str) -> None:
        self._overloadpacket, self._overloadname = packet, overload
        self.overloadpacket, self.__name__ = packet, "%s.%s" % (packet.__name__, overload)
        self.__module__ = packet.__module__
        self.namespace = packet._namespace

    @property
    def op(self) -> Callable[..., Any]:
        call: Callable[..., Any] = self._overloadpacket._forms.get(self._overloadname,
                                                                   (self._overloadpacket._call, None))[0]
        return call

    @property
    def _schema(self) -> Any:
        return self._overloadpacket._forms.get(self._overloadname, (None, self._overloadpacket._schema))[1]

    def name(self) -> str:
        """As PyTorch prints it: aten::add.Tensor"""
        end = "" if self._overloadname == "default" else "." + self._overloadname
        return self._overloadpacket._qualified_op_name + end

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.op(*args, **kwargs)

    def __repr__(self) -> str:
        return "<OpOverload(op='%s.%s', overload='%s')>" % (self.namespace, self._overloadpacket.__name__,
                                                         self._overloadname)

    def __str__(self) -> str:
        return "%s.%s.%s" % (self.namespace, self._overloadpacket.__name__, self._overloadname)

    def __hash__(self) -> int:
        return hash(self.name())


class OpOverloadPacket:
    """An op with all its forms; a call chooses among them by its arguments."""

    def __init__(self, space: str, name: str, overloads: list[str], call: Callable[..., Any],
                 schema: Any = None) -> None:
        self._namespace, self.__name__, self._overloads, self._call = space, name, overloads, call
        self._qualified_op_name = "%s::%s" % (space, name)
        self.__module__ = "cairn.ops." + space
        self._schema = schema
        self._forms: dict[str, tuple[Callable[..., Any], Any]] = {}  # of ops that programs register

    def _add(self, overload: str, call: Callable[..., Any], schema: Any) -> None:
        """One more form, or another one in the place of what had its name."""
        if overload not in self._overloads:
            self._overloads.append(overload)
        self._forms[overload] = call, schema
        self.__dict__.pop(overload, None)

    def overloads(self) -> list[str]:
        """The names of its forms."""
        return list(self._overloads)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("_") or (self._overloads and key not in self._overloads):
            raise AttributeError("The underlying op of '%s.%s' has no overload name '%s'" % (self._namespace,
                                                                                       self.__name__, key))
        made = OpOverload(self, key)
        setattr(self, key, made)
        return made

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __repr__(self) -> str:
        return "<OpOverloadPacket(op='%s.%s')>" % (self._namespace, self.__name__)

    def __str__(self) -> str:
        return "%s.%s" % (self._namespace, self.__name__)


class _Namespace(ModuleType):
    """torch.ops.NAME"""

    def __init__(self, name: str) -> None:
        super().__init__("cairn.ops." + name)
        self._space = name

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        made = _find(self._space, name)
        if made is None:
            raise AttributeError("'_OpNamespace' '%s' object has no attribute '%s'" % (self._space, name))
        if self._space == "aten":
            setattr(self, name, made)
        return made


def namespace(name: str) -> Any:
    """The ops of a library by its name; load_library loads one."""
    if name == "load_library":
        from .utils.cpp_extension import load_library
        return load_library
    return _spaces.setdefault(name, _Namespace(name))


def _find(space: str, name: str) -> OpOverloadPacket | None:
    if space in ("aten", "prims"):
        return _aten(name) if space == "aten" else None
    from .library import registered
    found = registered(space, name)
    extension = sys.modules.get(__name__.partition(".")[0] + ".utils.cpp_extension")  # ops in C that were loaded
    call = extension.registered(space, name) if found is None and extension is not None else None
    return found if call is None else OpOverloadPacket(space, name, ["default"], call)


# ---- aten ----
def _aten(name: str) -> OpOverloadPacket | None:
    from ._aten import OTHERS, OVERLOADS
    call = _call_of(name) if name in OVERLOADS else None
    if call is not None:
        return OpOverloadPacket("aten", name, OVERLOADS[name], call)
    if name not in OTHERS and name not in OVERLOADS:
        return None
    absent = _absent.function("cairn.ops.aten", name, "this op of PyTorch's inside has no counterpart in cairn")
    return OpOverloadPacket("aten", name, [], absent)


def _call_of(name: str) -> Callable[..., Any] | None:
    """What computes it, with the arguments of PyTorch's schema."""
    import cairn
    from . import _aten_forms
    special = _aten_forms.FORMS.get(name)
    if special is not None:
        return special
    spaces: list[tuple[Any, str]] = [(cairn, name), (cairn.Tensor, name), (cairn.nn.functional, name)]
    for prefix, space in (("linalg_", cairn.linalg), ("special_", cairn.special)):
        if name.startswith(prefix):
            spaces.append((space, name.removeprefix(prefix)))
    found = next((getattr(space, inner) for space, inner in spaces if hasattr(space, inner)), None)
    return None if found is None else _by_schema(name, found)


def _by_schema(name: str, function: Any) -> Callable[..., Any]:
    """The function, which takes a tensor as `self` by keyword as PyTorch's do, and a reduction as its number."""
    losses = name.endswith("_loss") or name in ("binary_cross_entropy", "binary_cross_entropy_with_logits", "kl_div")
    kinds = ("none", "mean", "sum")

    def call(*args: Any, **kwargs: Any) -> Any:
        if "self" in kwargs:
            args = (kwargs.pop("self"), *args)
        if losses:
            from ._aten_forms import loss
            return loss(name, function, kinds, args, kwargs)
        for gone in ("layout", "pin_memory"):
            if kwargs.get(gone, True) is None:
                del kwargs[gone]
        return function(*args, **kwargs)
    call.__name__ = name
    return call
