"""Models in files: a zip of the layers (config.json) and their weights (weights.pt, a state dict for cairn.load).

Nothing in such a file is code: classes are found by name among cairn.keras's and those that the program registered.
"""
from __future__ import annotations

import json
import os
import tempfile
import zipfile
from typing import Any, Callable

import cairn
from . import activations, constraints, initializers, layers, losses, metrics, models, optimizers, regularizers, \
    schedules
from ._batches import flatten
from ._graph import KerasTensor
from .layers import core

__all__ = ["custom_object_scope", "deserialize", "get_custom_objects", "load_model", "load_weights",
           "register_keras_serializable", "save_model", "save_weights", "serialize"]

_custom: dict[str, Any] = {}
_homes = (layers, models, initializers, regularizers, constraints, losses, metrics, optimizers, schedules)


def get_custom_objects() -> dict[str, Any]:
    return _custom


def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[Any], Any]:
    """A decorator: the class or function can be in saved models."""
    def keep(thing: Any) -> Any:
        _custom[name or thing.__name__] = thing
        return thing
    return keep


class custom_object_scope:
    """with custom_object_scope({"MyLayer": MyLayer}): models with it can be loaded."""

    def __init__(self, objects: dict[str, Any]) -> None:
        self.objects = objects

    def __enter__(self) -> None:
        self.before = dict(_custom)
        _custom.update(self.objects)

    def __exit__(self, *ignored: object) -> None:
        _custom.clear()
        _custom.update(self.before)


CustomObjectScope = custom_object_scope


def _find(name: str) -> Any:
    if name in _custom:
        return _custom[name]
    for home in _homes:
        found = getattr(home, name, None)
        if isinstance(found, type):
            return found
    if name == "Function":
        return core.Function
    raise ValueError("the model has a %s, which is not known here: give custom_objects={%r: the class}, or "
                     "register it with keras.saving.register_keras_serializable" % (name, name))


# ---- objects as JSON ----
def _packed(value: Any) -> Any:
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, dict):
        return {"dict": [[_packed(k), _packed(v)] for k, v in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_packed(v) for v in value]}
    if isinstance(value, list):
        return [_packed(v) for v in value]
    if isinstance(value, cairn.dtype):
        return str(value).rpartition(".")[2]
    if hasattr(value, "tolist"):
        return _packed(value.tolist())
    if hasattr(value, "get_config"):
        return {"object": serialize(value)}
    name = getattr(value, "__name__", None)
    if callable(value) and name is not None and (getattr(activations, name, None) is value or name in _custom):
        return {"function": name}
    raise ValueError("%r cannot be saved: register it with keras.saving.register_keras_serializable, or give the layer "
                     "a get_config" % (value,))


def _unpacked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unpacked(v) for v in value]
    if not isinstance(value, dict):
        return value
    if "dict" in value:
        return {_unpacked(k): _unpacked(v) for k, v in value["dict"]}
    if "tuple" in value:
        return tuple(_unpacked(v) for v in value["tuple"])
    if "object" in value:
        return deserialize(value["object"])
    return _custom.get(value["function"]) or getattr(activations, value["function"])


def serialize(thing: Any) -> dict[str, Any]:
    """A layer, model or other object as what JSON can hold."""
    if isinstance(thing, models.Sequential):
        first = thing._input
        return {"class_name": "Sequential", "name": thing.name, "layers": [serialize(k) for k in thing.layers],
                "input": None if first is None else {"shape": first.shape, "dtype": first.dtype}}
    if isinstance(thing, models.Functional):
        return _functional(thing)
    if not hasattr(thing, "get_config"):
        raise ValueError("a %s cannot be saved: it has no get_config" % type(thing).__name__)
    kind = type(thing)
    return {"class_name": kind.__name__, "config": {k: _packed(v) for k, v in thing.get_config().items()}}


def _functional(model: Any) -> dict[str, Any]:
    places: dict[int, tuple[int, int]] = {id(p): (-1, i) for i, p in enumerate(model._places)}
    known: dict[int, int] = {}
    kept: list[Any] = []
    nodes: list[Any] = []

    def at(value: Any) -> Any:
        if isinstance(value, KerasTensor):
            return {"place": places[id(value)]}
        if isinstance(value, dict):
            return {"dict": [[k, at(v)] for k, v in value.items()]}
        if isinstance(value, tuple):
            return {"tuple": [at(v) for v in value]}
        return [at(v) for v in value] if isinstance(value, list) else _packed(value)
    for i, node in enumerate(model._order):
        if id(node.layer) not in known:
            known[id(node.layer)] = len(kept)
            kept.append(serialize(node.layer))
        nodes.append({"layer": known[id(node.layer)], "args": at(node.args), "kwargs": at(node.kwargs)})
        places.update({id(t): (i, k) for k, t in enumerate(node.outputs)})
    inputs = [{"shape": p.shape, "dtype": p.dtype, "name": p.name} for p in model._places]
    return {"class_name": "Functional", "name": model.name, "layers": kept, "nodes": nodes, "places": inputs,
            "inputs": at(model._inputs), "outputs": at(model._outputs)}


def _remade(config: dict[str, Any]) -> Any:
    kept = [deserialize(k) for k in config["layers"]]
    places: dict[tuple[int, int], Any] = {
        (-1, i): KerasTensor(p["shape"], p["dtype"], p["name"]) for i, p in enumerate(config["places"])}

    def at(value: Any) -> Any:
        if isinstance(value, dict) and "place" in value:
            return places[value["place"][0], value["place"][1]]
        if isinstance(value, dict) and "dict" in value:
            return {k: at(v) for k, v in value["dict"]}
        if isinstance(value, dict) and "tuple" in value:
            return tuple(at(v) for v in value["tuple"])
        return [at(v) for v in value] if isinstance(value, list) else _unpacked(value)
    for i, node in enumerate(config["nodes"]):
        out = kept[node["layer"]](*at(node["args"]), **at(node["kwargs"]))
        places.update({(i, k): t for k, t in enumerate(flatten(out))})
    return models.Functional(at(config["inputs"]), at(config["outputs"]), name=config["name"])


def deserialize(config: dict[str, Any], custom_objects: Any = None) -> Any:
    """The object of what serialize answered."""
    with custom_object_scope(custom_objects or {}):
        if config["class_name"] == "Sequential":
            made = models.Sequential(name=config["name"])
            if config["input"] is not None:
                made.add(KerasTensor(config["input"]["shape"], config["input"]["dtype"]))
            for layer in config["layers"]:
                made.add(deserialize(layer))
            return made
        if config["class_name"] == "Functional":
            return _remade(config)
        kind = _find(config["class_name"])
        given = {k: _unpacked(v) for k, v in config["config"].items()}
        return kind.from_config(given) if hasattr(kind, "from_config") else kind(**given)


# ---- files ----
def _checked(path: Any, overwrite: bool) -> str:
    path = os.fspath(path)
    if not overwrite and os.path.exists(path):
        raise FileExistsError("%s exists; overwrite=True replaces it" % path)
    return str(path)


def save_weights(model: Any, filepath: Any, overwrite: bool = True) -> None:
    cairn.save(model.state_dict(), _checked(filepath, overwrite))


def load_weights(model: Any, filepath: Any, skip_mismatch: bool = False) -> None:
    """Sets the weights of a built model; of a whole model's file too."""
    path = os.fspath(filepath)
    if _is_model(path):
        with zipfile.ZipFile(path) as whole, tempfile.TemporaryDirectory() as folder:
            state = cairn.load(whole.extract("weights.pt", folder))
    else:
        state = cairn.load(path)
    have = model.state_dict()
    if state and not have:
        raise ValueError("%s has no weights yet: build it, or call it on data, before load_weights" % model.name)
    if skip_mismatch:
        state = {k: v for k, v in state.items() if k in have and tuple(have[k].shape) == tuple(v.shape)}
    elif set(state) != set(have) and len(state) == len(have):  # layers under other names, in the same order
        state = dict(zip(have, state.values()))
    model.load_state_dict(state, strict=not skip_mismatch)


def _is_model(path: str) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as whole:
        return "config.json" in whole.namelist() and "weights.pt" in whole.namelist()


def save_model(model: Any, filepath: Any, overwrite: bool = True, **ignored: Any) -> None:
    path = _checked(filepath, overwrite)
    if not isinstance(model, models.Model):
        raise TypeError("save_model saves models, not %s" % type(model).__name__)
    config: dict[str, Any] = {"format": "cairn.keras 1", "model": serialize(model), "compile": None}
    own = model._compiled
    if own is not None and isinstance(own.optimizer, optimizers.Optimizer):
        try:
            config["compile"] = {"optimizer": optimizers.serialize(own.optimizer), "loss": _packed(own.loss_given),
                                 "metrics": _packed(own.metrics_given)}
            json.dumps(config["compile"])
        except (TypeError, ValueError):
            config["compile"] = None
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "weights.pt")
        cairn.save(model.state_dict(), weights)
        made = path + ".part"
        with zipfile.ZipFile(made, "w") as whole:
            whole.writestr("config.json", json.dumps(config))
            whole.write(weights, "weights.pt")
    os.replace(made, path)


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, **ignored: Any) -> Any:
    path = os.fspath(filepath)
    if not os.path.exists(path):
        raise FileNotFoundError("there is no file %s" % path)
    if not _is_model(path):
        raise ValueError("%s is not a model that cairn.keras saved" % path)
    with zipfile.ZipFile(path) as whole:
        config = json.loads(whole.read("config.json"))
    with custom_object_scope(custom_objects or {}):
        model = deserialize(config["model"])
        load_weights(model, path)
        how = config.get("compile")
        if compile and how is not None:
            model.compile(optimizers.deserialize(how["optimizer"]), _unpacked(how["loss"]), _unpacked(how["metrics"]))
    return model
