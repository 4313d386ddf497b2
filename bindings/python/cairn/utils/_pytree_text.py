"""Structures of nested values as JSON, in torch's format, and back.

Place in the flow: treespec_dumps and treespec_loads of _pytree.py. Invariant: a file names classes that were registered
with a name, and nothing in it is run.
"""
from __future__ import annotations

import enum
import json
from typing import Any

from ._pytree import SERIALIZED_TYPE_TO_PYTHON_TYPE, SUPPORTED_SERIALIZED_TYPES, LeafSpec, TreeSpec

_PROTOCOL = 1


def _plain(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return {"__enum__": True, "fqn": "%s:%s" % (type(value).__module__, type(value).__qualname__),
                "name": value.name}
    raise TypeError("treespec_dumps: %r is no plain value" % (value,))


def _schema(spec: TreeSpec) -> dict[str, Any]:
    if spec.is_leaf():
        return {"type": None, "context": None, "children_spec": []}
    written = SUPPORTED_SERIALIZED_TYPES.get(spec.type)
    if written is None or written.name is None:
        raise NotImplementedError("No registered serialization name for %s found. Please update your "
                                  "_register_pytree_node call with a `serialized_type_name` kwarg." % (spec.type,))
    context = (json.dumps(spec.context, default=_plain) if written.to_dumpable is None
               else written.to_dumpable(spec.context))
    return {"type": written.name, "context": context, "children_spec": [_schema(c) for c in spec.children()]}


def dumps(spec: TreeSpec, protocol: int | None) -> str:
    """See treespec_dumps."""
    if not isinstance(spec, TreeSpec):
        raise TypeError("treespec_dumps(treespec, protocol): Expected `treespec` to be instance of PyTreeSpec but got "
                        "item of type %s." % type(spec))
    if protocol not in (None, _PROTOCOL):
        raise ValueError("Unknown protocol %s. Available protocols: [%d]" % (protocol, _PROTOCOL))
    return json.dumps([_PROTOCOL, _schema(spec)], default=_plain)


def _again(schema: dict[str, Any]) -> TreeSpec:
    if schema["type"] is None and schema["context"] is None and not schema["children_spec"]:
        return LeafSpec()
    kind = SERIALIZED_TYPE_TO_PYTHON_TYPE.get(schema["type"])
    if kind is None:
        raise NotImplementedError("Deserializing `%s` in pytree is not registered." % schema["type"])
    again = SUPPORTED_SERIALIZED_TYPES[kind].from_dumpable
    context = json.loads(schema["context"]) if again is None else again(schema["context"])
    return TreeSpec(kind, context, [_again(c) for c in schema["children_spec"]])


def loads(serialized: str) -> TreeSpec:
    """See treespec_loads."""
    protocol, schema = json.loads(serialized)
    if protocol != _PROTOCOL:
        raise ValueError("Unknown protocol %s. Available protocols: [%d]" % (protocol, _PROTOCOL))
    return _again(schema)
