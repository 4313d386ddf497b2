"""Which classes are nodes of nested values, and how they are taken apart and made; the keys on the way to a leaf.

Place in the flow: _pytree.py, whose names these are too. Invariant: SUPPORTED_NODES says all of it; Python's containers
are registered like any other class.
"""
from __future__ import annotations

import dataclasses
from collections import OrderedDict, defaultdict, deque, namedtuple
from typing import Any, Callable, Iterable, Mapping, NamedTuple

from .._types import Size, of_package

_IsLeaf = Callable[[Any], bool]


# ---- keys: the way from a tree to a leaf ----
@dataclasses.dataclass(frozen=True)
class SequenceKey:
    """An element of a list or a tuple."""
    idx: int

    def __str__(self) -> str:
        return "[%r]" % self.idx

    def get(self, obj: Any) -> Any:
        return obj[self.idx]


@dataclasses.dataclass(frozen=True)
class MappingKey:
    """A value of a dictionary."""
    key: Any

    def __str__(self) -> str:
        return "[%r]" % (self.key,)

    def get(self, obj: Any) -> Any:
        return obj[self.key]


@dataclasses.dataclass(frozen=True)
class GetAttrKey:
    """An attribute, of a named tuple say."""
    name: str

    def __str__(self) -> str:
        return "." + self.name

    def get(self, obj: Any) -> Any:
        return getattr(obj, self.name)


KeyEntry = Any
KeyPath = tuple[Any, ...]  # of KeyEntry


def keystr(kp: Iterable[Any]) -> str:
    """A way as text: [0]['a'].x"""
    return "".join(str(key) for key in kp)


def key_get(obj: Any, kp: Iterable[Any]) -> Any:
    """What lies at the end of a way."""
    for key in kp:
        obj = key.get(obj)
    return obj


# ---- kinds of nodes ----
class NodeDef(NamedTuple):
    """How containers of one class are taken apart and made."""
    type: Any
    flatten_fn: Any
    unflatten_fn: Any
    flatten_with_keys_fn: Any


class _Written(NamedTuple):
    """How a class is written in a file."""
    name: str | None
    to_dumpable: Any
    from_dumpable: Any


SUPPORTED_NODES: dict[Any, NodeDef] = {}
SUPPORTED_SERIALIZED_TYPES: dict[Any, _Written] = {}
SERIALIZED_TYPE_TO_PYTHON_TYPE: dict[str, Any] = {}
BUILTIN_TYPES: frozenset[Any] = frozenset({tuple, list, dict, namedtuple, OrderedDict, defaultdict, deque})
CONSTANT_NODES: set[type] = set()


def register_pytree_node(cls: Any, flatten_fn: Any, unflatten_fn: Any, *, serialized_type_name: str | None = None,
                         to_dumpable_context: Any = None, from_dumpable_context: Any = None,
                         flatten_with_keys_fn: Any = None) -> None:
    """Objects of a class are nodes from now on: flatten_fn(object) is (children, context), unflatten_fn(children,
    context) an object; flatten_with_keys_fn gives (key, child) pairs. The rest is for treespec_dumps."""
    if cls in SUPPORTED_NODES:
        raise ValueError("%r is already registered as pytree node." % (cls,))
    if (to_dumpable_context is None) != (from_dumpable_context is None):
        raise ValueError("Both to_dumpable_context and from_dumpable_context for %r must be None or registered."
                         % (cls,))
    SUPPORTED_NODES[cls] = NodeDef(cls, flatten_fn, unflatten_fn, flatten_with_keys_fn)
    SUPPORTED_SERIALIZED_TYPES[cls] = _Written(serialized_type_name, to_dumpable_context, from_dumpable_context)
    if serialized_type_name is not None:
        SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


_register_pytree_node = _private_register_pytree_node = register_pytree_node


def _deregister_pytree_node(cls: Any) -> None:
    """Objects of the class are leaves again."""
    del SUPPORTED_NODES[cls]
    name = SUPPORTED_SERIALIZED_TYPES.pop(cls).name
    SERIALIZED_TYPE_TO_PYTHON_TYPE.pop(name or "", None)
    CONSTANT_NODES.discard(cls)


def _register_namedtuple(cls: Any, *, serialized_type_name: str) -> None:
    """Gives a class of named tuples, which are nodes anyway, a name in files."""
    SUPPORTED_SERIALIZED_TYPES[cls] = _Written(serialized_type_name, lambda context: None, lambda context: cls)
    SERIALIZED_TYPE_TO_PYTHON_TYPE[serialized_type_name] = cls


def register_dataclass(cls: Any, *, field_names: list[str] | None = None, drop_field_names: list[str] | None = None,
                       serialized_type_name: str | None = None) -> None:
    """Objects of a dataclass are nodes: fields that are None are part of the structure, drop_field_names are left out,
    and have their defaults in what is made again."""
    drop = list(drop_field_names or ())
    if field_names is None:
        if not dataclasses.is_dataclass(cls):
            raise ValueError("field_names must be given for %r, which is no dataclass" % (cls,))
        field_names = [f.name for f in dataclasses.fields(cls) if f.init and f.name not in drop]
    elif dataclasses.is_dataclass(cls):
        known = {f.name for f in dataclasses.fields(cls) if f.init}
        wrong = (known - set(drop)) ^ set(field_names)
        if wrong:
            raise ValueError("register_dataclass: field_names and drop_field_names do not agree with the fields of %r "
                             "about %s" % (cls, sorted(wrong)))

    def pairs(obj: Any) -> tuple[list[Any], Any]:
        names = [n for n in field_names if getattr(obj, n) is not None]
        missing = [n for n in field_names if getattr(obj, n) is None]
        return [(GetAttrKey(n), getattr(obj, n)) for n in names], [names, missing]

    def flat(obj: Any) -> tuple[list[Any], Any]:
        found, context = pairs(obj)
        return [value for _, value in found], context

    def made(values: Iterable[Any], context: Any) -> Any:
        names, missing = context
        return cls(**dict(zip(names, values)), **dict.fromkeys(missing))
    register_pytree_node(cls, flat, made, serialized_type_name=serialized_type_name, flatten_with_keys_fn=pairs)


class ConstantNode(NamedTuple):
    """The context of a constant."""
    value: Any


def register_constant(cls: Any) -> None:
    """Objects of a class are structure and no leaves; they must have equality and a hash of their own."""
    if getattr(cls, "__eq__") is object.__eq__:
        raise TypeError("register_constant: %r needs an __eq__ of its own" % (cls,))
    if getattr(cls, "__hash__") is None:
        raise TypeError("register_constant: %r needs a __hash__" % (cls,))
    register_pytree_node(cls, lambda value: ([], ConstantNode(value)), lambda values, context: context.value,
                         flatten_with_keys_fn=lambda value: ([], ConstantNode(value)))
    CONSTANT_NODES.add(cls)


def is_constant_class(cls: Any) -> bool:
    """Was it given to register_constant?"""
    return isinstance(cls, type) and cls in CONSTANT_NODES


# ---- Python's containers ----
def _indexed(values: Iterable[Any]) -> list[tuple[Any, Any]]:
    return [(SequenceKey(i), value) for i, value in enumerate(values)]


def _dict_flatten(d: Mapping[Any, Any]) -> tuple[list[Any], Any]:
    return list(d.values()), list(d)


def _dict_flatten_with_keys(d: Mapping[Any, Any]) -> tuple[list[Any], Any]:
    return [(MappingKey(key), value) for key, value in d.items()], list(d)


def _dict_unflatten(values: Iterable[Any], context: Any) -> dict[Any, Any]:
    return dict(zip(context, values))


def _list_flatten(d: list[Any]) -> tuple[list[Any], Any]:
    return d, None


def _tuple_flatten(d: tuple[Any, ...]) -> tuple[list[Any], Any]:
    return list(d), None


def _namedtuple_pairs(d: Any) -> tuple[list[Any], Any]:
    return [(GetAttrKey(name), getattr(d, name)) for name in d._fields], type(d)


def _namedtuple_name(context: Any) -> str:
    name = SUPPORTED_SERIALIZED_TYPES[context].name if context in SUPPORTED_SERIALIZED_TYPES else None
    if name is None:
        raise NotImplementedError("Can't serialize TreeSpec of namedtuple class %r because we didn't register a "
                                  "serialized_type_name. Please register using `_register_namedtuple`." % (context,))
    return name


def _factory(context: Any) -> dict[str, Any]:
    factory = context[0]
    return {"default_factory_module": factory.__module__, "default_factory_name": factory.__qualname__,
            "dict_context": context[1]}


def _factory_again(saved: Any) -> Any:
    from importlib import import_module
    factory: Any = import_module(saved["default_factory_module"])
    for part in saved["default_factory_name"].split("."):
        factory = getattr(factory, part)
    return [factory, saved["dict_context"]]


def _sequence(cls: Any, name: str | None) -> None:
    register_pytree_node(cls, _tuple_flatten, lambda values, context: cls(values), serialized_type_name=name,
                         flatten_with_keys_fn=lambda d: (_indexed(d), None))


_sequence(tuple, "builtins.tuple")
register_pytree_node(list, _list_flatten, lambda values, context: list(values), serialized_type_name="builtins.list",
                     flatten_with_keys_fn=lambda d: (_indexed(d), None))
register_pytree_node(dict, _dict_flatten, _dict_unflatten, serialized_type_name="builtins.dict",
                     flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(namedtuple, lambda d: (list(d), type(d)), lambda values, context: context(*values),
                     serialized_type_name="collections.namedtuple", to_dumpable_context=_namedtuple_name,
                     from_dumpable_context=lambda name: SERIALIZED_TYPE_TO_PYTHON_TYPE[name],
                     flatten_with_keys_fn=_namedtuple_pairs)
register_pytree_node(OrderedDict, _dict_flatten, lambda values, context: OrderedDict(zip(context, values)),
                     serialized_type_name="collections.OrderedDict", flatten_with_keys_fn=_dict_flatten_with_keys)
register_pytree_node(defaultdict, lambda d: (list(d.values()), [d.default_factory, list(d)]),
                     lambda values, context: defaultdict(context[0], zip(context[1], values)),
                     serialized_type_name="collections.defaultdict", to_dumpable_context=_factory,
                     from_dumpable_context=_factory_again, flatten_with_keys_fn=lambda d: (
                         _dict_flatten_with_keys(d)[0], [d.default_factory, list(d)]))
register_pytree_node(deque, lambda d: (list(d), d.maxlen), lambda values, context: deque(values, maxlen=context),
                     serialized_type_name="collections.deque",
                     flatten_with_keys_fn=lambda d: (_indexed(d), d.maxlen))
_sequence(Size, "torch.Size")
STANDARD_DICT_TYPES: frozenset[type] = frozenset({dict, OrderedDict, defaultdict})


def is_namedtuple_class(cls: Any) -> bool:
    """Is it a class of named tuples?"""
    fields = getattr(cls, "_fields", None) if isinstance(cls, type) and issubclass(cls, tuple) else None
    return (isinstance(fields, tuple) and all(isinstance(f, str) for f in fields)
            and callable(getattr(cls, "_make", None)) and callable(getattr(cls, "_asdict", None)))


def is_namedtuple_instance(obj: object) -> bool:
    """Is it a named tuple?"""
    return is_namedtuple_class(type(obj))


_is_namedtuple_instance = is_namedtuple_instance


def is_namedtuple(obj: Any) -> bool:
    """Either of the two."""
    return is_namedtuple_class(obj if isinstance(obj, type) else type(obj))


def is_structseq_class(cls: Any) -> bool:
    """Is it a class of results with names, cairn's or Python's own?"""
    return (isinstance(cls, type) and issubclass(cls, tuple)
            and all(isinstance(getattr(cls, n, None), int)
                    for n in ("n_fields", "n_sequence_fields", "n_unnamed_fields")))


def is_structseq_instance(obj: object) -> bool:
    """Is it such a result?"""
    return is_structseq_class(type(obj))


def is_structseq(obj: Any) -> bool:
    """Either of the two."""
    return is_structseq_class(obj if isinstance(obj, type) else type(obj))


def _get_node_type(tree: Any) -> Any:
    """The key of SUPPORTED_NODES for an object; its class where it is a leaf."""
    cls = type(tree)
    if cls in SUPPORTED_NODES:
        return cls
    if is_namedtuple_class(cls):
        return namedtuple
    if is_structseq_class(cls) and of_package(cls.__module__):
        _sequence(cls, "torch.return_types." + cls.__name__)
    return cls


def tree_is_leaf(tree: Any, is_leaf: _IsLeaf | None = None) -> bool:
    """Is it no node, or one that is_leaf takes for a leaf?"""
    return (is_leaf is not None and is_leaf(tree)) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf
