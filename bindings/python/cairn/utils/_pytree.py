"""Nested values as leaves and a structure, and back: torch.utils._pytree. Classes of containers can be registered.

Place in the flow: fx, and programs that walk nested arguments. (The package itself walks them by _trees.py and C code,
which know Python's own containers only.) Invariant: unflatten(*flatten(tree)) is an equal tree, and a TreeSpec holds no
leaf.
"""
from __future__ import annotations

import types
from collections import defaultdict, deque
from typing import Any, Callable, Iterable, Iterator, Sequence

from ._pytree_nodes import (BUILTIN_TYPES as BUILTIN_TYPES, CONSTANT_NODES as CONSTANT_NODES,
                            SERIALIZED_TYPE_TO_PYTHON_TYPE
                            as SERIALIZED_TYPE_TO_PYTHON_TYPE, STANDARD_DICT_TYPES, SUPPORTED_NODES,
                            SUPPORTED_SERIALIZED_TYPES as SUPPORTED_SERIALIZED_TYPES, ConstantNode, GetAttrKey as
                            GetAttrKey, KeyEntry as KeyEntry, KeyPath as KeyPath, MappingKey as MappingKey, NodeDef as
                            NodeDef, SequenceKey as SequenceKey, _deregister_pytree_node as _deregister_pytree_node,
                            _dict_flatten as _dict_flatten, _dict_flatten_with_keys as _dict_flatten_with_keys,
                            _dict_unflatten as _dict_unflatten, _get_node_type, _is_leaf as _is_leaf,
                            _is_namedtuple_instance as _is_namedtuple_instance, _list_flatten as _list_flatten,
                            _private_register_pytree_node as _private_register_pytree_node, _register_namedtuple as
                            _register_namedtuple, _register_pytree_node as _register_pytree_node, _tuple_flatten as
                            _tuple_flatten, is_constant_class as is_constant_class, is_namedtuple, is_namedtuple_class,
                            is_namedtuple_instance, is_structseq, is_structseq_class, is_structseq_instance, key_get,
                            keystr, register_constant as register_constant, register_dataclass as register_dataclass,
                            register_pytree_node, tree_is_leaf)

__all__ = ["PyTree", "Context", "FlattenFunc", "UnflattenFunc", "DumpableContext", "ToDumpableContextFn",
           "FromDumpableContextFn", "TreeSpec", "PyTreeSpec", "LeafSpec", "keystr", "key_get", "register_pytree_node",
           "tree_is_leaf", "tree_flatten", "tree_flatten_with_path", "tree_unflatten", "tree_iter", "tree_leaves",
           "tree_leaves_with_path", "tree_structure", "tree_map", "tree_map_with_path", "tree_map_", "tree_map_only",
           "tree_map_only_", "tree_all", "tree_any", "tree_all_only", "tree_any_only", "treespec_dumps",
           "treespec_loads", "treespec_pprint", "is_namedtuple", "is_namedtuple_class", "is_namedtuple_instance",
           "is_structseq", "is_structseq_class", "is_structseq_instance"]

PyTree = Any
Context = Any
DumpableContext = Any
FlattenFunc = FlattenFn = Callable[[Any], "tuple[list[Any], Any]"]
UnflattenFunc = UnflattenFn = Callable[[Iterable[Any], Any], Any]
FlattenWithKeysFunc = FlattenWithKeysFn = Callable[[Any], "tuple[list[tuple[Any, Any]], Any]"]
ToDumpableContextFn = Callable[[Any], Any]
FromDumpableContextFn = Callable[[Any], Any]
_IsLeaf = Callable[[Any], bool]
_Kinds = Any  # a type, several, or a predicate


# ---- the structure ----
class TreeSpec:
    """The structure of a tree: the class of its root, what that class notes (context), and the structures below."""

    def __init__(self, type: Any, context: Any, children_specs: Sequence[TreeSpec]) -> None:
        self.type, self._context, self._children = type, context, list(children_specs)
        self.num_children = len(self._children)
        leaf = type is None
        self.num_nodes: int = 1 + sum(c.num_nodes for c in self._children)
        self.num_leaves: int = 1 if leaf else sum(c.num_leaves for c in self._children)

    @property
    def context(self) -> Any:
        return self._context

    @property
    def children_specs(self) -> list[TreeSpec]:
        return self._children

    def children(self) -> list[TreeSpec]:
        return self._children.copy()

    def child(self, index: int) -> TreeSpec:
        return self._children[index]

    def is_leaf(self) -> bool:
        return self.num_nodes == 1 and self.num_leaves == 1

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TreeSpec) and (self.type, self._context, self._children) == (
            other.type, other._context, other._children)

    def __hash__(self) -> int:
        context = tuple(self._context) if isinstance(self._context, list) else self._context
        return hash((self.type, str(context), tuple(self._children)))

    def __repr__(self, indent: int = 0) -> str:
        if self.is_leaf():
            return "*"
        inner = [child.__repr__(indent + 2) for child in self._children]
        between = ",\n" + " " * (indent + 2)
        return "TreeSpec(%s, %s, [%s])" % (self.type.__name__, self._context, between.join(inner))

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """The tree with these leaves."""
        given = leaves if isinstance(leaves, (list, tuple)) else list(leaves)
        if len(given) != self.num_leaves:
            raise ValueError("treespec.unflatten(leaves): `leaves` has length %d but the spec refers to a pytree that "
                             "holds %d items (%s)." % (len(given), self.num_leaves, self))
        return self._filled(iter(given))

    def _filled(self, leaves: Iterator[Any]) -> Any:
        if self.is_leaf():
            return next(leaves)
        return SUPPORTED_NODES[self.type].unflatten_fn([c._filled(leaves) for c in self._children], self._context)

    def flatten_up_to(self, tree: Any) -> list[Any]:
        """The parts of another tree that stand where this structure has leaves."""
        found: list[Any] = []
        self._parts(tree, found)
        return found

    def _parts(self, tree: Any, found: list[Any]) -> None:
        if self.is_leaf():
            found.append(tree)
            return
        for child, part in zip(self._children, self._below(tree)):
            child._parts(part, found)

    def _below(self, tree: Any) -> list[Any]:
        """The children of a tree whose root must be like this one."""
        kind = _get_node_type(tree)
        both_dicts = kind in STANDARD_DICT_TYPES and self.type in STANDARD_DICT_TYPES
        if kind is not self.type and not both_dicts:
            raise ValueError("Node type mismatch; expected %r, but got %r." % (self.type, kind))
        if both_dicts:
            keys = self._context[1] if self.type is defaultdict else self._context
            missing, extra = set(keys) - set(tree), set(tree) - set(keys)
            if missing or extra:
                raise ValueError("Node keys mismatch" + ("; missing key(s): %s" % missing if missing else "")
                                 + ("; extra key(s): %s" % extra if extra else "") + ".")
            return [tree[key] for key in keys]
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        children = list(children)
        if len(children) != self.num_children:
            raise ValueError("Node arity mismatch; expected %d, but got %d." % (self.num_children, len(children)))
        if context != self._context and kind is not deque:  # deques of other lengths at most are alike
            raise ValueError("Node context mismatch for node type %r; expected %r, but got %r." % (
                self.type, self._context, context))
        return children


PyTreeSpec = TreeSpec


class LeafSpec(TreeSpec):
    """The structure of a leaf."""

    def __init__(self) -> None:
        super().__init__(None, None, [])

    def __repr__(self, indent: int = 0) -> str:
        return "*"


_LEAF_SPEC = LeafSpec()


def treespec_leaf() -> LeafSpec:
    """The structure of a leaf."""
    return _LEAF_SPEC


def treespec_tuple(iterable: Iterable[TreeSpec] = (), /) -> TreeSpec:
    """The structure of a tuple of such."""
    return TreeSpec(tuple, None, list(iterable))


def treespec_dict(mapping: Any = (), /, **kwargs: TreeSpec) -> TreeSpec:
    """The structure of a dictionary of such."""
    found = dict(mapping, **kwargs)
    return TreeSpec(dict, list(found), list(found.values()))


def _is_constant_holder(spec: TreeSpec) -> bool:
    return isinstance(spec._context, ConstantNode)


def _retrieve_constant(spec: TreeSpec) -> Any:
    return spec._context.value


# ---- flatten, unflatten, map ----
def _take(tree: Any, leaves: list[Any], is_leaf: _IsLeaf | None) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_take(child, leaves, is_leaf) for child in children])


def tree_flatten(tree: Any, is_leaf: _IsLeaf | None = None) -> tuple[list[Any], TreeSpec]:
    """(leaves, structure); None is a leaf. is_leaf: what counts as one besides."""
    leaves: list[Any] = []
    return leaves, _take(tree, leaves, is_leaf)


def tree_unflatten(leaves: Iterable[Any], treespec: TreeSpec) -> Any:
    """The tree of that structure."""
    if not isinstance(treespec, TreeSpec):
        raise TypeError("tree_unflatten(leaves, treespec): Expected `treespec` to be instance of PyTreeSpec but got "
                        "item of type %s." % type(treespec))
    return treespec.unflatten(leaves)


def tree_iter(tree: Any, is_leaf: _IsLeaf | None = None) -> Iterator[Any]:
    """The leaves, one after the other."""
    if tree_is_leaf(tree, is_leaf):
        yield tree
        return
    for child in SUPPORTED_NODES[_get_node_type(tree)].flatten_fn(tree)[0]:
        yield from tree_iter(child, is_leaf)


def tree_leaves(tree: Any, is_leaf: _IsLeaf | None = None) -> list[Any]:
    """The leaves."""
    return list(tree_iter(tree, is_leaf))


def arg_tree_leaves(*args: Any, **kwargs: Any) -> list[Any]:
    """The leaves of all arguments."""
    return tree_leaves((args, kwargs))


def tree_structure(tree: Any, is_leaf: _IsLeaf | None = None) -> TreeSpec:
    """The structure alone."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _IsLeaf | None = None) -> Any:
    """func of each leaf, and of what stands in its place in the other trees, as a tree."""
    leaves, spec = tree_flatten(tree, is_leaf)
    columns = [leaves, *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns)])


def tree_map_(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _IsLeaf | None = None) -> Any:
    """func of each leaf for what it does; the tree itself."""
    leaves, spec = tree_flatten(tree, is_leaf)
    for row in zip(leaves, *(spec.flatten_up_to(rest) for rest in rests)):
        func(*row)
    return tree


def _test(kinds: _Kinds) -> Callable[[Any], bool]:
    if isinstance(kinds, (type, tuple, types.UnionType)):
        return lambda value: isinstance(value, kinds)
    if callable(kinds):
        return lambda value: bool(kinds(value))
    raise TypeError("Argument must be a type, a tuple of types, or a callable.")


def map_only(type_or_types_or_pred: _Kinds, /) -> Callable[[Callable[[Any], Any]], Callable[[Any], Any]]:
    """A decorator: the function for values of these types, others as they are."""
    test = _test(type_or_types_or_pred)

    def around(func: Callable[[Any], Any]) -> Callable[[Any], Any]:
        return lambda value: func(value) if test(value) else value
    return around


def tree_map_only(type_or_types_or_pred: _Kinds, /, func: Callable[[Any], Any], tree: Any,
                  is_leaf: _IsLeaf | None = None) -> Any:
    """tree_map for leaves of these types."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(type_or_types_or_pred: _Kinds, /, func: Callable[[Any], Any], tree: Any,
                   is_leaf: _IsLeaf | None = None) -> Any:
    """tree_map_ for leaves of these types."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[Any], bool], tree: Any, is_leaf: _IsLeaf | None = None) -> bool:
    """Is it so for every leaf?"""
    return all(map(pred, tree_iter(tree, is_leaf)))


def tree_any(pred: Callable[[Any], bool], tree: Any, is_leaf: _IsLeaf | None = None) -> bool:
    """Is it so for a leaf?"""
    return any(map(pred, tree_iter(tree, is_leaf)))


def tree_all_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any,
                  is_leaf: _IsLeaf | None = None) -> bool:
    """Is it so for every leaf of these types?"""
    return all(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def tree_any_only(type_or_types: Any, /, pred: Callable[[Any], bool], tree: Any,
                  is_leaf: _IsLeaf | None = None) -> bool:
    """Is it so for a leaf of these types?"""
    return any(pred(x) for x in tree_iter(tree, is_leaf) if isinstance(x, type_or_types))


def _broadcast_to_and_flatten(tree: Any, treespec: TreeSpec, is_leaf: _IsLeaf | None = None) -> list[Any] | None:
    """The leaves of a tree, each as often as the structure has leaves in its place; None where they do not fit."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    if treespec.is_leaf() or kind is not treespec.type:
        return None
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if len(children) != treespec.num_children or context != treespec._context:
        return None
    found: list[Any] = []
    for child, spec in zip(children, treespec._children):
        part = _broadcast_to_and_flatten(child, spec, is_leaf)
        if part is None:
            return None
        found += part
    return found


# ---- with the way to each leaf ----
def _ways(way: tuple[Any, ...], tree: Any, is_leaf: _IsLeaf | None) -> Iterator[tuple[tuple[Any, ...], Any]]:
    if tree_is_leaf(tree, is_leaf):
        yield way, tree
        return
    node = SUPPORTED_NODES[_get_node_type(tree)]
    if node.flatten_with_keys_fn is None:
        raise ValueError("Did not find a flatten_with_keys_fn for type: %s. Please pass a flatten_with_keys_fn "
                         "argument "
                         "to register_pytree_node." % (node.type,))
    for key, child in node.flatten_with_keys_fn(tree)[0]:
        yield from _ways((*way, key), child, is_leaf)


def tree_leaves_with_path(tree: Any, is_leaf: _IsLeaf | None = None) -> list[tuple[tuple[Any, ...], Any]]:
    """(way, leaf) for each leaf."""
    return list(_ways((), tree, is_leaf))


def tree_flatten_with_path(tree: Any, is_leaf: _IsLeaf | None = None
                           ) -> tuple[list[tuple[tuple[Any, ...], Any]], TreeSpec]:
    """((way, leaf) for each leaf, structure)."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., Any], tree: Any, *rests: Any, is_leaf: _IsLeaf | None = None) -> Any:
    """tree_map with the way before the leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    columns = [[way for way, _ in pairs], [leaf for _, leaf in pairs], *(spec.flatten_up_to(rest) for rest in rests)]
    return spec.unflatten([func(*row) for row in zip(*columns)])


class _Star:
    def __repr__(self) -> str:
        return "*"


def treespec_pprint(treespec: TreeSpec) -> str:
    """The structure as its tree would be printed, with stars for leaves."""
    return repr(treespec.unflatten([_Star()] * treespec.num_leaves))


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """The structure as JSON."""
    from ._pytree_text import dumps
    return dumps(treespec, protocol)


def treespec_loads(serialized: str) -> TreeSpec:
    """What treespec_dumps wrote."""
    from ._pytree_text import loads
    return loads(serialized)
