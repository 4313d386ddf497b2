"""Schemas of ops that programs add: "(Tensor x, int n=2, *, bool flag=False) -> Tensor", read and made from
annotations.

Place in the flow: library.py binds calls by them. Invariant: a Schema's arguments are in the order of its text.
"""
from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from typing import Any, Callable, NamedTuple, Sequence

from . import _C
from ._tensor import Tensor

__all__ = ["Argument", "Schema", "infer_schema", "parsed"]


class Argument(NamedTuple):
    """An argument: its type as text; mutates: is it written into?"""
    name: str
    type: str
    default: Any
    has_default: bool
    kwarg_only: bool
    mutates: bool


class Schema:
    """What an op takes and returns."""

    def __init__(self, text: str, arguments: list[Argument], returns: list[str], overload: str) -> None:
        self.text, self.arguments, self.returns, self.overload = text, arguments, returns, overload

    def __str__(self) -> str:
        return self.text

    @property
    def mutates(self) -> bool:
        """Does the op write into an argument?"""
        return any(a.mutates for a in self.arguments)

    @property
    def returns_nothing(self) -> bool:
        return not self.returns

    def bound(self, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """(arguments by position, keyword-only ones) with all defaults; TypeError where they do not fit."""
        plain = [a for a in self.arguments if not a.kwarg_only]
        if len(args) > len(plain):
            raise RuntimeError("expected at most %d argument(s) but received %d for schema %s" % (len(plain), len(args),
                                                                                              self.text))
        named = dict(kwargs)
        given = list(args)
        for argument in plain[len(args):]:
            given.append(self._taken(argument, named))
        rest = {a.name: self._taken(a, named) for a in self.arguments if a.kwarg_only}
        if named:
            raise RuntimeError("unknown keyword argument %r for schema %s" % (next(iter(named)), self.text))
        for argument, value in zip(plain, given):
            if argument.type == "Tensor" and not isinstance(value, Tensor):
                raise RuntimeError("expected a Tensor for argument '%s' but got %s for schema %s"
                                   % (argument.name, type(value).__name__, self.text))
        return tuple(given), rest

    def _taken(self, argument: Argument, named: dict[str, Any]) -> Any:
        if argument.name in named:
            return named.pop(argument.name)
        if not argument.has_default:
            raise RuntimeError("missing value for argument '%s' for schema %s" % (argument.name, self.text))
        return argument.default

    def written_among(self, args: Sequence[Any]) -> set[int]:
        """Which of the tensors among the arguments are written into, counted through all of them."""
        found, number = set(), 0
        for argument, value in zip(self.arguments, args):
            several = value if isinstance(value, (list, tuple)) else [value]
            for one in several:
                if isinstance(one, Tensor) or hasattr(one, "index") and not isinstance(one, (str, list, tuple)):
                    if argument.mutates:
                        found.add(number)
                    number += 1
        return found


_CONSTANTS = {"None": None, "True": True, "False": False, "Mean": 1, "Sum": 2,
              "contiguous_format": _C.contiguous_format,
              "strided": _C.strided}


def _value(text: str) -> Any:
    """A default."""
    if text in _CONSTANTS:
        return _CONSTANTS[text]
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        made = getattr(_C, text, None)
        if isinstance(made, _C.dtype):
            return made
        raise ValueError("a schema has a default that is no value: %r" % text) from None


def _pieces(text: str) -> list[str]:
    """Split at commas that stand in no brackets."""
    parts, depth, start = [], 0, 0
    for i, letter in enumerate(text):
        depth += letter in "([" and 1 or -(letter in ")]")
        if letter == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    rest = text[start:].strip()
    return [*parts, rest] if rest else parts


_ARGUMENT = re.compile(r"(?P<type>[A-Za-z_]+(?:\((?P<alias>[^)]*)\)|(?P<written>!))?(?:\[\d*\])?\??(?:\[\])?\??)"
                       r"\s+(?P<name>\w+)(?:\s*=\s*(?P<default>.+))?$")


def parsed(text: str, overload: str = "default") -> Schema:
    """A schema's text, which may have a name in front."""
    found = re.match(r"[^(]*\((.*)\)\s*->\s*(.+)$", text.strip(), re.DOTALL)
    if found is None:
        raise RuntimeError("not a schema: %r" % text)
    arguments: list[Argument] = []
    named = False
    for part in _pieces(found.group(1)):
        if part == "*":
            named = True
            continue
        one = _ARGUMENT.match(part)
        if one is None:
            raise RuntimeError("not an argument of a schema: %r in %r" % (part, text))
        default = one.group("default")
        kind = re.sub(r"\([^)]*\)|!", "", one.group("type"))
        arguments.append(Argument(one.group("name"), kind, None if default is None else _value(default.strip()),
                                  default is not None, named,
                                  "!" in (one.group("alias") or one.group("written") or "")))
    result = found.group(2).strip()
    inner = result[1:-1] if result.startswith("(") and result.endswith(")") else result
    return Schema(text, arguments, _pieces(inner), overload)


# ---- from annotations ----
_PLAIN = {Tensor: "Tensor", int: "SymInt", float: "float", bool: "bool", str: "str", _C.dtype: "ScalarType",
          _C.device: "Device"}


def _kind(annotation: Any, what: str) -> str:
    """The type of an argument in a schema."""
    if annotation in _PLAIN:
        return _PLAIN[annotation]
    origin, args = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Union or isinstance(annotation, types.UnionType):
        rest = [a for a in args if a is not type(None)]
        if set(rest) == {int, float, bool} or set(rest) == {int, float}:
            return "Scalar" + ("?" if len(rest) != len(args) else "")
        if len(rest) == 1 and len(args) == 2:
            return _kind(rest[0], what) + "?"
    if origin in (list, tuple) or getattr(origin, "__name__", "") == "Sequence":
        inner = [a for a in args if a is not ...]
        if len(set(inner)) == 1:
            return _kind(inner[0], what) + "[%s]" % (len(inner) if origin is tuple and ... not in args else "")
    raise ValueError("infer_schema(func): %s has unsupported type %s" % (what, annotation))


def _results(annotation: Any) -> str:
    if annotation in (None, type(None)):
        return "()"
    if typing.get_origin(annotation) is tuple:
        return "(%s)" % ", ".join(_kind(a, "the result") for a in typing.get_args(annotation))
    return _kind(annotation, "the result")


def infer_schema(prototype_function: Callable[..., Any], /, *, mutates_args: Any, op_name: str | None = None) -> str:
    """A schema from the annotations of a function."""
    signature = inspect.signature(prototype_function)
    hints = typing.get_type_hints(prototype_function)
    parts, star = [], False
    if mutates_args not in ("unknown",) and set(mutates_args) - set(signature.parameters):
        raise ValueError("infer_schema(func): mutates_args names what is no argument: %s"
                         % sorted(set(mutates_args) - set(signature.parameters)))
    for i, (name, parameter) in enumerate(signature.parameters.items()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.POSITIONAL_ONLY):
            raise ValueError("infer_schema(func): parameter %s is neither by position or keyword nor by keyword" % name)
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            parts.append("*")
            star = True
        if name not in hints:
            raise ValueError("infer_schema(func): Parameter %s must have a type annotation." % name)
        kind = _kind(hints[name], "parameter " + name)
        if mutates_args == "unknown" or name in mutates_args:
            kind = re.sub("^Tensor", "Tensor(a%d!)" % i, kind)
        default = ""
        if parameter.default is not inspect.Parameter.empty:
            value = parameter.default
            default = "=" + (str(value).rpartition(".")[2] if isinstance(value, _C.dtype) else
                             '"%s"' % value if isinstance(value, (str, _C.device)) else str(value))
        parts.append("%s %s%s" % (kind, name, default))
    if "return" not in hints:
        raise ValueError("infer_schema(func): No return type annotation was provided. Please add one.")
    return "%s(%s) -> %s" % (op_name or "", ", ".join(parts), _results(hints["return"]))
