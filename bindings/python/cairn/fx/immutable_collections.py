"""Lists and dictionaries in the arguments of nodes: they do not change in place, so that nodes know whom they use.

Place in the flow: node.py makes arguments of them. Invariant: what would change one raises."""
from __future__ import annotations

from typing import Any, Callable, Iterator

from ..utils import _pytree

__all__ = ["immutable_dict", "immutable_list"]


def _refusal(kind: str, name: str) -> Callable[..., Any]:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> Any:
        raise TypeError("%r object does not support mutation. If you are attempting to modify the kwargs or args of a "
                        "cairn.fx.Node object, instead create a new copy of it and assign the copy to the node: "
                        "new_args = ...; node.args = new_args" % kind)
    refuse.__name__ = name
    return refuse


class immutable_list(list[Any]):
    """A list that stays as it is."""

    def __reduce__(self) -> Any:
        return immutable_list, (tuple(iter(self)),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(tuple(self))


class immutable_dict(dict[str, Any]):
    """A dictionary that stays as it is."""

    def __reduce__(self) -> Any:
        return immutable_dict, (tuple(self.items()),)

    def __hash__(self) -> int:  # type: ignore[override]
        return hash(frozenset(self.items()))


def _closed(cls: type, names: str) -> Iterator[None]:
    for name in names.split():
        setattr(cls, name, _refusal(cls.__name__, name))
        yield


list(_closed(immutable_list, "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse "
                             "sort"))
list(_closed(immutable_dict, "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update"))
_pytree.register_pytree_node(
    immutable_list, lambda d: (d, None), lambda values, context: immutable_list(values),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
    flatten_with_keys_fn=lambda d: ([(_pytree.SequenceKey(i), v) for i, v in enumerate(d)], None))
_pytree.register_pytree_node(
    immutable_dict, _pytree._dict_flatten, lambda values, context: immutable_dict(zip(context, values)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
    flatten_with_keys_fn=_pytree._dict_flatten_with_keys)
