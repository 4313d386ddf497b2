"""A graph as Python source: CodeGen, and the names that it uses.

Place in the flow: Graph.python_code makes the text that graph_module.py executes. Invariant: a name in the source
stands for one value, and what the source refers to outside is in `globals`.
"""
from __future__ import annotations

import builtins
import dataclasses
import keyword
import math
import re
import sys
import types
from typing import Any

from .. import _C
from . import node as _node
from .node import Node, _get_qualified_name, _type_repr

__all__ = ["CodeGen", "MISSING", "PythonCode"]

MISSING = object()  # where None is a value


@dataclasses.dataclass
class PythonCode:
    """Source, and what it refers to."""
    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None


class _Namespace:
    """Names, each given once."""

    def __init__(self) -> None:
        self._obj_to_name: dict[Any, str] = {}
        self._used_names: set[str] = set()
        self._next: dict[str, int] = {}

    def create_name(self, candidate: str, obj: Any) -> str:
        """A name like the candidate that nobody has, for an object (None: for nobody in particular)."""
        if obj is not None and obj in self._obj_to_name:
            return self._obj_to_name[obj]
        name = re.sub(r"[^0-9a-zA-Z_]+", "_", candidate) or "_"
        if name[0].isdigit():
            name = "_" + name
        found = re.match(r"(.*)_(\d+)$", name)
        base = found.group(1) if found else name
        number = int(found.group(2)) if found else self._next.get(name, 0)
        if found is None and (name in self._used_names or _taken(name, obj)):
            number = max(number, 1)
            name = "%s_%d" % (base, number)
        while name in self._used_names or _taken(name, obj):
            number += 1
            name = "%s_%d" % (base, number)
        self._used_names.add(name)
        self._next[base] = max(self._next.get(base, 0), number)
        if obj is not None:
            self._obj_to_name[obj] = name
        return name

    def associate_name_with_obj(self, name: str, obj: Any) -> None:
        self._obj_to_name[obj] = name

    def _rename_object(self, obj: Any, name: str) -> None:
        self._obj_to_name[obj] = name
        self._used_names.add(name)


def _taken(name: str, obj: Any) -> bool:
    """Does the name mean something in Python, or in every graph's code?"""
    if keyword.iskeyword(name):
        return True
    if name in builtins.__dict__:
        return builtins.__dict__[name] is not obj
    return name in _globals() and _globals()[name] is not obj


def _globals() -> dict[str, Any]:
    """Names that the values of graphs are printed with."""
    package = _module(__name__.partition(".")[0])
    return {"inf": math.inf, "nan": math.nan, "NoneType": type(None), "torch": package, "cairn": package,
            "device": _C.device}


def _path(root: str, target: str) -> str:
    """seq.0.weight below self: getattr(self.seq, "0").weight"""
    text = root
    for atom in target.split("."):
        text = "%s.%s" % (text, atom) if atom.isidentifier() and not keyword.iskeyword(atom) else \
            'getattr(%s, "%s")' % (text, atom)
    return text


_MAGIC = {"eq": "{} == {}", "ne": "{} != {}", "lt": "{} < {}", "gt": "{} > {}", "le": "{} <= {}", "ge": "{} >= {}",
          "pos": "+{}", "neg": "-{}", "invert": "~{}", "add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}",
          "floordiv": "{} // {}", "truediv": "{} / {}", "mod": "{} % {}", "pow": "{} ** {}", "lshift": "{} << {}",
          "rshift": "{} >> {}", "and_": "{} & {}", "or_": "{} | {}", "xor": "{} ^ {}", "getitem": "{}[{}]",
          "matmul": "{} @ {}"}
_INPLACE = {"iadd": "{} += {}", "iand": "{} &= {}", "ifloordiv": "{} //= {}", "ilshift": "{} <<= {}", "imod": "{} %= "
                                                                                                              "{}",
            "imul": "{} *= {}", "imatmul": "{} @= {}", "ior": "{} |= {}", "ipow": "{} **= {}", "irshift": "{} >>= {}",
            "isub": "{} -= {}", "itruediv": "{} /= {}", "ixor": "{} ^= {}", "setitem": "{}[{}] = {}"}


class _Writer:
    """Writes one graph."""

    def __init__(self, gen: CodeGen, root: str, namespace: _Namespace) -> None:
        self.gen, self.root, self.names = gen, root, namespace
        self.globals: dict[str, Any] = {}
        self.free: list[str] = []
        self.body: list[str] = []
        self.returned = ""
        self.last: dict[Node, list[Node]] = {}

    def outside(self, hint: str, obj: Any) -> str:
        """The name of something outside of the graph."""
        if "." in hint and self._reachable(hint, obj):
            top = hint.partition(".")[0]
            self.globals.setdefault(top, _module(top))
            return hint
        name = self.names.create_name(hint.replace(".", "_"), obj)
        if name not in self.globals and builtins.__dict__.get(name) is not obj:
            self.globals[name] = obj
        return name

    @staticmethod
    def _reachable(path: str, obj: Any) -> bool:
        """Does the dotted name lead to the object from its first module?"""
        parts = path.split(".")
        try:
            found: Any = _module(parts[0])
            for part in parts[1:]:
                found = getattr(found, part)
        except (ImportError, AttributeError):
            return False
        return found is obj or found == obj

    def kind(self, annotation: Any) -> str:
        """A type in the code."""
        if annotation is None or annotation is type(None):
            return "None"
        if isinstance(annotation, type) and not isinstance(annotation, types.GenericAlias):
            return self.outside(_type_repr(annotation), annotation)
        return self.outside("_type", annotation)

    def value(self, arg: Any) -> str:
        """An argument in the code."""
        if isinstance(arg, Node):
            return repr(arg)
        if isinstance(arg, tuple):
            if hasattr(arg, "_fields"):
                return "%s(%s)" % (self.outside(type(arg).__name__, type(arg)), ", ".join(map(self.value, arg)))
            inner = ", ".join(map(self.value, arg))
            text = "(%s,)" % inner if len(arg) == 1 else "(%s)" % inner
            return text if type(arg) is tuple else "%s(%s)" % (self.outside(_type_repr(type(arg)), type(arg)), text)
        if isinstance(arg, list):
            return "[%s]" % ", ".join(map(self.value, arg))
        if isinstance(arg, dict):
            return "{%s}" % ", ".join("%r: %s" % (key, self.value(value)) for key, value in arg.items())
        if isinstance(arg, slice):
            return "slice(%s, %s, %s)" % tuple(map(self.value, (arg.start, arg.stop, arg.step)))
        if isinstance(arg, float) and not math.isfinite(arg):
            name = repr(abs(arg))
            self.globals[name] = getattr(math, name)
            return repr(arg)
        if arg is None or isinstance(arg, (bool, int, float, complex, str, bytes)) or arg is ...:
            return "..." if arg is ... else repr(arg)
        if isinstance(arg, (_C.dtype, _C.layout, _C.memory_format)):
            name = repr(arg).rpartition(".")[2]
            return self.outside("%s.%s" % (_node._top(), name), arg)
        if isinstance(arg, _C.device):
            return "%s(%r)" % (self.outside("%s.device" % _node._top(), _C.device), str(arg))
        if callable(arg):
            return self.outside(_get_qualified_name(arg), arg)
        return self.outside("_constant", arg) if getattr(type(arg), "__hash__", None) else repr(arg)

    def arguments(self, args: Any, kwargs: Any) -> str:
        return ", ".join([*map(self.value, args), *("%s = %s" % (k, self.value(v)) for k, v in kwargs.items())])

    def unused_after(self, node: Node) -> str:
        """Drops values whose last use this was."""
        if node.op in ("placeholder", "output"):
            return ""
        gone = list(self.last.get(node, ()))
        if not node.users:
            gone.append(node)
        return ";  %s = None" % " = ".join(map(repr, gone)) if gone else ""

    def note_last_uses(self, nodes: list[Node]) -> None:
        seen: set[Node] = set()
        for node in reversed(nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.last.setdefault(node, []).append(used)

    def statement(self, node: Node) -> str | None:
        """The line of a node; None for one that has none."""
        kind = " : " + self.kind(node.type) if node.type is not None else ""
        if node.op == "placeholder":
            default = " = %s" % self.value(node.args[0]) if node.args else ""
            self.free.append("%s%s%s" % (node.target, kind, default))
            raw = node.target.replace("*", "")
            return None if raw == repr(node) else "%s = %s" % (node, raw)
        if node.op == "call_method":
            return "%s%s = %s.%s(%s)" % (node, kind, self._object(node.args[0]), node.target,
                                         self.arguments(node.args[1:], node.kwargs))
        if node.op == "call_function":
            return self.call(node, kind)
        if node.op == "call_module":
            return "%s%s = %s(%s)" % (node, kind, _path(self.root, str(node.target)), self.arguments(node.args,
                                                                                                     node.kwargs))
        if node.op == "get_attr":
            return "%s%s = %s" % (node, kind, _path(self.root, str(node.target)))
        if node.type is not None:
            self.returned = " -> " + self.kind(node.type)
        return self.gen.generate_output(node.args[0], self.value)

    def _object(self, arg: Any) -> str:
        text = self.value(arg)
        return text if isinstance(arg, Node) else "(%s)" % text

    def call(self, node: Node, kind: str) -> str:
        """A call of a function: an operator where there is one."""
        target: Any = node.target
        name = target.__name__ if getattr(target, "__module__", None) == "_operator" else ""
        if name in _MAGIC and not node.kwargs:
            return "%s%s = %s" % (node, kind, _MAGIC[name].format(*map(self.value, node.args)))
        if name in _INPLACE and not node.kwargs:
            return "%s;  %s%s = %s" % (_INPLACE[name].format(*map(self.value, node.args)), node, kind,
                                       self.value(node.args[0]))
        if target is getattr and len(node.args) == 2 and isinstance(node.args[1], str) \
                and node.args[1].isidentifier() and not keyword.iskeyword(node.args[1]):
            return "%s%s = %s.%s" % (node, kind, self._object(node.args[0]), node.args[1])
        called = self.outside(_get_qualified_name(target), target)
        return "%s%s = %s(%s)" % (node, kind, called, self.arguments(node.args, node.kwargs))


def _module(name: str) -> Any:
    """A module that code may name; the package under whichever name the program has it."""
    if name == "torch" and _node._top() == "torch":
        name = __name__.partition(".")[0]
    if name not in sys.modules:
        raise ImportError(name)
    return sys.modules[name]


class CodeGen:
    """Writes graphs as Python; a class derived from it may take and return other things than placeholders say."""

    def __init__(self) -> None:
        self._body_transformer: Any = None

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str) -> str:
        """The line `def forward(...):`."""
        names = free_vars if free_vars and free_vars[0] == "self" else ["self", *free_vars]
        return "def forward(%s)%s:" % (", ".join(names), maybe_return_annotation)

    def generate_output(self, output_args: Any, repr_fn: Any = repr) -> str:
        return "return %s" % repr_fn(output_args)

    def process_inputs(self, *args: Any) -> Any:
        return args

    def process_outputs(self, outputs: Any) -> Any:
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        return []

    def _gen_python_code(self, nodes: Any, root_module: str, namespace: _Namespace) -> PythonCode:
        """The source of the nodes' graph."""
        listed = list(nodes)
        writer = _Writer(self, root_module, namespace)
        writer.globals.update(self.additional_globals())
        writer.note_last_uses(listed)
        for node in listed:
            line = writer.statement(node)
            if line is not None:
                writer.body.append(line + writer.unused_after(node) + "\n")
        body = writer.body or ["pass\n"]
        if self._body_transformer is not None:
            body = self._body_transformer(body)
        head = self.gen_fn_def(writer.free, writer.returned)
        code = "\n".join("    " + line for line in "".join(body).split("\n"))
        wrapped = "".join('%s("%s")\n' % (_WRAP, name) for name in _wrapped_in(listed))
        if wrapped:
            writer.globals[_WRAP] = _wrap_function()
        return PythonCode("\n%s\n\n%s\n%s" % (wrapped, head, code), writer.globals)


_WRAP = "_fx_wrap"


def _wrap_function() -> Any:
    from ._symbolic_trace import wrap
    return wrap


def _wrapped_in(nodes: list[Node]) -> list[str]:
    """Functions of the program that tracers do not look into: their names, for code that is traced once more."""
    from ._symbolic_trace import _wrapped_fns_to_patch
    known = {name for _, name in _wrapped_fns_to_patch}
    found = {getattr(n.target, "__name__", "") for n in nodes if n.op == "call_function"}
    return sorted(name for name in found & known if name.isidentifier() and getattr(builtins, name, None) is None)
