"""Configurations of models in Keras's form, and models of them."""
from __future__ import annotations

from typing import Any, Callable

from .._training.batches import flatten, mapped
from ._graph import KerasTensor, place_of
from ._serial import custom_object_scope, deserialize, serialize

__all__ = ["functional_config", "functional_of", "sequential_config", "sequential_of"]


def sequential_config(model: Any) -> dict[str, Any]:
    layers = []
    if model._input is not None and model._input.node is not None:
        layers.append(serialize(model._input.node.layer))
    shape = None if model._input is None else list(model._input.shape)
    return {"name": model.name, "trainable": model._trainable, "dtype": model.dtype,
            "layers": layers + [serialize(k) for k in model.layers], "build_input_shape": shape}


def sequential_of(kind: Any, config: dict[str, Any]) -> Any:
    made = kind(name=config.get("name"))
    for layer in config["layers"]:
        made.add(_layer(layer))
    shape = config.get("build_input_shape")
    if made._input is None and shape:
        made.build(tuple(shape))
    return made


def _layer(config: dict[str, Any]) -> Any:
    """Of Keras 2's files too, which say less."""
    if config.get("class_name") == "InputLayer" and "batch_input_shape" in config["config"]:
        given = config["config"]
        config = {**config, "config": {"batch_shape": given["batch_input_shape"], "dtype": given.get("dtype"),
                                       "name": given.get("name")}}
    return deserialize(config)


def functional_config(model: Any) -> dict[str, Any]:
    """Layers by name, each with its calls in this model; places are (layer, call, output)."""
    where: dict[int, list[Any]] = {}
    calls: dict[int, list[Any]] = {}
    inputs = {id(p): layer for p, layer in zip(model._places, model._input_layers)}
    for place in model._places:
        where[id(place)] = [inputs[id(place)].name, 0, 0]
    for node in model._order:
        own = calls.setdefault(id(node.layer), [])
        for i, t in enumerate(node.outputs):
            where.setdefault(id(t), [node.layer.name, len(own), i])
        own.append(node)

    def at(value: Any) -> Any:
        if isinstance(value, KerasTensor):
            return {"class_name": "__keras_tensor__", "config": {
                "shape": list(value.shape), "dtype": value.dtype, "keras_history": where[id(value)]}}
        if isinstance(value, dict):
            return {k: at(v) for k, v in value.items()}
        return [at(v) for v in value] if isinstance(value, (list, tuple)) else serialize(value)
    layers = []
    for layer in model.layers:
        entry = {**serialize(layer), "name": layer.name, "inbound_nodes": [
            {"args": [at(a) for a in n.args], "kwargs": at(n.kwargs)} for n in calls.get(id(layer), ())]}
        layers.append(entry)
    ends = [mapped(lambda t: where[id(t)], side) for side in (model._inputs, model._outputs)]
    return {"name": model.name, "trainable": model._trainable, "layers": layers, "input_layers": ends[0],
            "output_layers": ends[1]}


def functional_of(kind: Any, config: dict[str, Any], custom_objects: Any = None,
                  clone: Callable[[Any], Any] | None = None) -> Any:
    """clone: returns a layer for one that the configuration is of, by its name."""
    with custom_object_scope(custom_objects):
        made = {entry["name"]: _layer(entry) if clone is None or entry["class_name"] == "InputLayer"
                else clone(entry["name"]) for entry in config["layers"]}
    waiting = [(entry["name"], k, _call(node)) for entry in config["layers"]
               for k, node in enumerate(entry.get("inbound_nodes", ()))]
    places: dict[tuple[str, int, int], Any] = {}
    for entry in config["layers"]:
        if entry["class_name"] == "InputLayer":
            places[entry["name"], 0, 0] = place_of(made[entry["name"]])
    done: dict[str, int] = {}
    while waiting:
        later = []
        for name, number, (args, kwargs) in waiting:
            needs = [t for t in flatten([args, kwargs]) if isinstance(t, _Place)]
            if done.get(name, 0) != number or any(t.key not in places for t in needs):
                later.append((name, number, (args, kwargs)))
                continue
            now = mapped(lambda t: places[t.key] if isinstance(t, _Place) else t, (args, kwargs))
            out = made[name](*now[0], **now[1])
            done[name] = number + 1
            places.update({(name, number, i): t for i, t in enumerate(flatten(out))})
        if len(later) == len(waiting):
            raise ValueError("the configuration of %s has calls whose inputs do not exist" % config.get("name"))
        waiting = later

    def end(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: end(v) for k, v in value.items()}
        if len(value) == 3 and isinstance(value[0], str):
            return places[value[0], value[1], value[2]]
        return [end(v) for v in value]
    ends = [end(side) for side in (config["input_layers"], config["output_layers"])]
    for i in (0, 1):  # one input or output may be in a list, as Keras 2 writes it
        if isinstance(ends[i], list) and len(ends[i]) == 1:
            ends[i] = ends[i][0]
    return kind(ends[0], ends[1], name=config.get("name"))


class _Place:
    def __init__(self, key: tuple[str, int, int]) -> None:
        self.key = key


def _call(node: Any) -> tuple[list[Any], dict[str, Any]]:
    """What a call was given; Keras 2 has a list of [layer, call, output, kwargs]."""
    def at(value: Any) -> Any:
        if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
            name, number, index = value["config"]["keras_history"]
            return _Place((name, number, index))
        if isinstance(value, dict) and "class_name" in value:
            return deserialize(value)
        if isinstance(value, dict):
            return {k: at(v) for k, v in value.items()}
        return [at(v) for v in value] if isinstance(value, list) else value
    if isinstance(node, list):
        parts: list[Any] = [_Place((p[0], p[1], p[2])) for p in node]
        return [parts[0] if len(parts) == 1 else parts], {}
    kwargs = {k: at(v) for k, v in node["kwargs"].items() if v is not None}
    return [at(a) for a in node["args"]], kwargs
