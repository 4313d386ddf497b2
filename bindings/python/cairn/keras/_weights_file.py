"""Weights of a model as a tree of HDF5 groups, where Keras keeps them: layers/dense_1/vars/0.

Names along a path are attributes; of a list, and of a model's layers, the classes of its members with a number.
"""
from __future__ import annotations

from typing import Any, Iterator

import cairn
from .. import nn
from ._hdf5 import Group
from .layers.base import Layer, snake

__all__ = ["legacy_group", "load_legacy", "load_tree", "tree_of"]

_kept = {"GroupQueryAttention": "GroupedQueryAttention"}  # classes that are called otherwise inside Keras


def _kind(layer: Any) -> str:
    name = getattr(layer, "class_name", None) or type(layer).__name__
    return snake(_kept.get(name, name))


def _own(layer: Any) -> list[Any]:
    """The weights of a layer itself: those that train first."""
    own = [w for w in layer._parameters.values() if w is not None]
    return [w for w in own if getattr(w, "trainable", True)] + [w for w in own if not getattr(w, "trainable", True)]


def _heads(layer: Any, prefix: str) -> list[tuple[str, list[Any]]]:
    """Attention: Keras keeps its four projections as layers."""
    parts = []
    for part in ("key", "output", "query", "value"):
        held = [layer._parameters.get("%s_%s" % (part, w)) for w in ("kernel", "bias")]
        parts.append(("/%s%s_dense" % (prefix, part), [w for w in held if w is not None]))
    return parts


def _children(layer: Any) -> Iterator[tuple[str, Any]]:
    """Attributes that are layers, or lists or dictionaries of them, in the order of their names."""
    if not isinstance(layer, Layer):
        yield from layer.named_children()
        return
    if hasattr(layer, "_order") or hasattr(layer, "_stepped"):  # the models that are made of layers
        yield "layers", layer.layers
    listed = {k: list(v.values()) if isinstance(v, dict) else list(v) for k, v in vars(layer).items()
              if isinstance(v, (list, tuple, dict)) and not k.startswith("_")
              and any(isinstance(m, nn.Module) for m in (v.values() if isinstance(v, dict) else v))}
    inside = {id(m) for members in listed.values() for m in members}
    found: dict[str, Any] = dict(listed)
    found.update({k: m for k, m in layer._modules.items() if m is not None and id(m) not in inside})
    yield from sorted(found.items())


def tree_of(root: Any) -> list[tuple[str, str, list[Any]]]:
    """(path, name, weights) of each layer in a model, each once."""
    made: list[tuple[str, str, list[Any]]] = []
    seen: set[int] = set()

    def visit(layer: Any, path: str) -> None:
        if id(layer) in seen:
            return
        seen.add(id(layer))
        name = str(getattr(layer, "name", type(layer).__name__))
        kind = type(layer).__name__
        if kind in ("MultiHeadAttention", "GroupQueryAttention") and "query_kernel" in layer._parameters:
            made.append((path, name, []))
            made.extend((path + where, where[1:], held)
                        for where, held in _heads(layer, "" if kind == "MultiHeadAttention" else "_"))
            return
        own = _own(layer)
        made.append((path, name, own))
        if kind == "SpectralNormalization" and "kernel" in layer._parameters:
            made.append((path + "/layer", layer.layer.name, [layer.kernel, *_own(layer.layer)]))
            return
        for attribute, child in _children(layer):
            where = path + ("/" if path else "") + attribute
            if isinstance(child, nn.Module):
                visit(child, where)
                continue
            counts: dict[str, int] = {}
            for member in child:
                if isinstance(member, nn.Module):
                    base = _kind(member)
                    n = counts[base] = counts.get(base, -1) + 1
                    visit(member, "%s/%s" % (where, base if n == 0 else "%s_%d" % (base, n)))
    visit(root, "")
    return made


def group_of(root: Any) -> Group:
    """All of it, to be written."""
    whole = Group()
    for path, name, weights in tree_of(root):
        held = whole.at((path + "/" if path else "") + "vars", make=True)
        held.attrs["name"] = name
        held.items.update({str(i): w for i, w in enumerate(weights)})
    return whole


def _assign(path: str, weights: list[Any], held: list[Any], wrong: list[str]) -> None:
    if len(weights) != len(held):
        wrong.append("%s: %d weights, and %d in the file" % (path or "the model", len(weights), len(held)))
        return
    for mine, value in zip(weights, held):
        if tuple(mine.shape) != tuple(value.shape):
            wrong.append("%s: shape %s, and %s in the file" % (path, tuple(mine.shape), tuple(value.shape)))
            return
    with cairn.no_grad():
        for mine, value in zip(weights, held):
            mine.copy_(value.to(mine.dtype))


def load_tree(root: Any, whole: Group, skip_mismatch: bool) -> None:
    """Sets the weights of a built model."""
    wrong: list[str] = []
    tree = tree_of(root)
    if not any(weights for _, _, weights in tree):
        if any(True for _ in whole.walk()):
            raise ValueError("%s has no weights yet: build it, or call it on data, before load_weights" % root.name)
        return
    for path, _, weights in tree:
        group = whole.at((path + "/" if path else "") + "vars")
        items = group.items if isinstance(group, Group) else {}
        held = [items[str(i)] for i in range(len(items)) if str(i) in items]
        if weights or held:
            _assign(path, weights, held, wrong)
    for layer in root.modules():
        after = getattr(layer, "finalize_state", None)
        if callable(after):
            after()
    _report(wrong, skip_mismatch)


def _report(wrong: list[str], skip: bool) -> None:
    if not wrong:
        return
    if not skip:
        raise ValueError("the weights do not fit the model:\n  " + "\n  ".join(wrong))
    import warnings
    warnings.warn("weights that do not fit were left out: " + "; ".join(wrong), stacklevel=4)


# ---- the layout of Keras 2 ----
def _flat(layer: Any) -> list[Any]:
    own = list(layer.weights) if isinstance(layer, Layer) else list(layer.parameters())
    return [w for w in own if w.requires_grad] + [w for w in own if not w.requires_grad]


def legacy_group(model: Any) -> Group:
    """A group for each layer, its weights in a list."""
    made = Group({"layer_names": [layer.name for layer in model.layers], "backend": "cairn", "keras_version": "3.0"})
    for layer in model.layers:
        group = made.at(layer.name, make=True)
        names = []
        for i, w in enumerate(_flat(layer)):
            name = "%s/%s" % (layer.name, str(getattr(w, "name", None) or "weight").rpartition("/")[2])
            name = name if name not in names else "%s_%d" % (name, i)
            names.append(name)
            group.at(name.rpartition("/")[0], make=True).items[name.rpartition("/")[2]] = w
        group.attrs["weight_names"] = names
    made.at("top_level_model_weights", make=True).attrs["weight_names"] = []
    return made


def load_legacy(model: Any, group: Group, by_name: bool, skip_mismatch: bool) -> None:
    held = []
    for name in group.attrs["layer_names"]:
        part = group.items[name]
        values = [part.at(w) for w in part.attrs.get("weight_names") or ()]
        if values:
            held.append((name, values))
    mine = [(layer.name, _flat(layer)) for layer in model.layers if _flat(layer)]
    wrong: list[str] = []
    if by_name:
        known = dict(held)
        pairs = [(name, weights, known[name]) for name, weights in mine if name in known]
    else:
        if len(mine) != len(held):
            raise ValueError("%s has %d layers with weights, and the file %d" % (model.name, len(mine), len(held)))
        pairs = [(name, weights, values) for (name, weights), (_, values) in zip(mine, held)]
    for name, weights, values in pairs:
        _assign(name, weights, values, wrong)
    _report(wrong, skip_mismatch)
