"""Models in files, as Keras has them: .keras (a zip of config.json, metadata.json and model.weights.h5), .weights.h5
(weights alone) and .h5 (the older whole-model file). Keras opens what is written here, and files of Keras open here.

Nothing in such a file is code: classes are found by name among cairn.keras's and those that the program registered.
"""
from __future__ import annotations

import io
import json
import os
import time
import zipfile
from typing import Any

import cairn
from .._arguments import refused
from . import _hdf5, models, optimizers
from ._serial import (_found, custom_object_scope, deserialize, get_custom_objects, get_registered_name,
                      get_registered_object, register_keras_serializable, serialize)
from ._weights_file import group_of, legacy_group, load_legacy, load_tree

__all__ = ["CustomObjectScope", "custom_object_scope", "deserialize", "deserialize_keras_object", "get_custom_objects",
           "get_registered_name", "get_registered_object", "load_model", "load_weights", "register_keras_serializable",
           "save_model", "save_weights", "serialize", "serialize_keras_object"]

CustomObjectScope = custom_object_scope
serialize_keras_object, deserialize_keras_object = serialize, deserialize
_WEIGHTS = "model.weights.h5"


def _find(name: str) -> Any:
    return _found(name, None, None)


def _checked(path: Any, overwrite: bool) -> str:
    path = os.fspath(path)
    if not overwrite and os.path.exists(path):
        raise FileExistsError("%s exists; overwrite=True replaces it" % path)
    return str(path)


def _write(path: str, data: bytes) -> None:
    """All or nothing."""
    with open(path + ".part", "wb") as file:
        file.write(data)
    os.replace(path + ".part", path)


# ---- weights ----
def save_weights(model: Any, filepath: Any, overwrite: bool = True) -> None:
    """Keras's .weights.h5, whatever the name ends with."""
    path = _checked(filepath, overwrite)
    if not list(model.parameters()):
        raise ValueError("%s has no weights yet: build it, or call it on data, before save_weights" % model.name)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    _write(path, _hdf5.write(group_of(model)))


def load_weights(model: Any, filepath: Any, skip_mismatch: bool = False, by_name: bool = False) -> None:
    """Sets the weights of a built model: of a weights' file, of a whole model's, or of a state dict (cairn.load)."""
    path = os.fspath(filepath)
    with open(path, "rb") as file:
        head = file.read(8)
        if head == _hdf5._MAGIC:
            whole = _hdf5.read(head + file.read())
            old = whole.at("model_weights") if "layer_names" not in whole.attrs else whole
            if old is not None and "layer_names" in old.attrs:
                load_legacy(model, old, by_name, skip_mismatch)
            else:
                load_tree(model, whole, skip_mismatch)
            return
    if _is_model(path):
        with zipfile.ZipFile(path) as archive:
            load_tree(model, _hdf5.read(archive.read(_WEIGHTS)), skip_mismatch)
        return
    state, have = cairn.load(path), model.state_dict()
    if skip_mismatch:
        state = {k: v for k, v in state.items() if k in have and tuple(have[k].shape) == tuple(v.shape)}
    elif set(state) != set(have) and len(state) == len(have):  # layers under other names, in the same order
        state = dict(zip(have, state.values()))
    model.load_state_dict(state, strict=not skip_mismatch)


def _is_model(path: str) -> bool:
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as whole:
        return "config.json" in whole.namelist() and _WEIGHTS in whole.namelist()


# ---- whole models ----
def _moments(optimizer: Any) -> list[Any] | None:
    """Adam's state in Keras's order; None for optimisers whose state Keras keeps otherwise."""
    if not isinstance(optimizer, optimizers.Adam) or optimizer.inner is None or optimizer.amsgrad:
        return None
    made = [cairn.tensor(optimizer.count, dtype=cairn.int32)]
    made += [cairn.tensor(optimizer.rate)] if optimizer.schedule is None else []
    for w in optimizer._weights:
        memory = optimizer.inner.state.get(w)
        if not memory:
            return None
        made += [memory["exp_avg"], memory["exp_avg_sq"]]
    return made


def _take_moments(optimizer: Any, weights: list[Any], held: list[Any]) -> None:
    first = 1 if optimizer.schedule is not None else 2
    if not isinstance(optimizer, optimizers.Adam) or optimizer.amsgrad or len(held) != first + 2 * len(weights):
        return
    if any(tuple(h.shape) != tuple(weights[i // 2].shape) for i, h in enumerate(held[first:])):
        return
    optimizer.build(weights)
    optimizer.count = int(held[0])
    for i, w in enumerate(weights):
        optimizer.inner.state[w] = {"step": cairn.tensor(float(held[0])), "exp_avg": held[first + 2 * i].clone(),
                                    "exp_avg_sq": held[first + 2 * i + 1].clone()}


def save_model(model: Any, filepath: Any, overwrite: bool = True, zipped: bool | None = None,
               include_optimizer: bool = True, save_format: str | None = None) -> None:
    """A name that ends with .h5 or .hdf5 gets the older file, any other the .keras one; the older one keeps how the
    model was compiled and not what the optimizer remembers. include_optimizer=False: neither is kept."""
    refused("save_model", "a model is one file here", zipped=False if zipped is False else None)
    path = _checked(filepath, overwrite)
    if not isinstance(model, models.Model):
        raise TypeError("save_model saves models, not %s" % type(model).__name__)
    old = path.endswith((".h5", ".hdf5"))
    if save_format is not None and save_format not in (("h5",) if old else ("keras",)):
        raise ValueError("the name of a file says its format: %s is not of save_format=%r" % (path, save_format))
    config = serialize(model)
    if not include_optimizer:
        config.pop("compile_config", None)
    if old:
        _write(path, _hdf5.write(_legacy(model, config)))
        return
    whole, own = group_of(model), model.optimizer if include_optimizer else None
    held = _moments(own)
    if held is not None:
        whole.at("optimizer/vars", make=True).items.update({str(i): t for i, t in enumerate(held)})
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        said = {"keras_version": "3.15.0", "date_saved": time.strftime("%Y-%m-%d@%H:%M:%S")}
        archive.writestr("metadata.json", json.dumps(said))
        archive.writestr("config.json", json.dumps(config))
        archive.writestr(_WEIGHTS, _hdf5.write(whole))
        if held is None and isinstance(own, optimizers.Optimizer) and own.built:
            kept = io.BytesIO()
            cairn.save(own.state_dict(), kept)
            archive.writestr("optimizer.pt", kept.getvalue())  # of this library; Keras starts its own anew
    _write(path, file.getvalue())


def _legacy(model: Any, config: dict[str, Any]) -> _hdf5.Group:
    made = _hdf5.Group({"backend": "cairn", "keras_version": "3.0", "model_config": json.dumps(
        {"class_name": config["class_name"], "config": config["config"]})})
    how = config.get("compile_config")
    if how:
        how = {**how, "optimizer_config": {"class_name": how["optimizer"]["class_name"],
                                           "config": how["optimizer"]["config"]}}
        how.pop("optimizer")
        made.attrs["training_config"] = json.dumps(how)
    made.items["model_weights"] = legacy_group(model)
    return made


def _load_legacy(path: str, data: bytes, custom_objects: Any, compile: bool, safe_mode: bool) -> Any:
    whole = _hdf5.read(data)
    said = whole.attrs.get("model_config")
    if said is None:
        raise ValueError("%s has weights but no model: make the model and call load_weights" % path)
    with custom_object_scope(custom_objects):
        model = deserialize(json.loads(said), safe_mode=safe_mode)
        load_legacy(model, whole.items["model_weights"], False, False)
        how = json.loads(whole.attrs.get("training_config") or "null")
        if compile and how:
            how["optimizer"] = how.pop("optimizer_config", "rmsprop")
            model.compile_from_config({k: v for k, v in how.items() if v is not None})
    return model


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, safe_mode: bool = True) -> Any:
    """The model of a file. Code in files is never run: with safe_mode=False, too, a lambda is an error."""
    path = os.fspath(filepath)
    if not os.path.exists(path):
        raise ValueError("there is no file %s" % path)
    if os.path.isdir(path):
        raise ValueError("%s is a folder: models are files here (.keras, .h5)" % path)
    with open(path, "rb") as file:
        if file.read(8) == _hdf5._MAGIC:
            file.seek(0)
            return _load_legacy(path, file.read(), custom_objects, compile, safe_mode)
    if not _is_model(path):
        raise ValueError("%s is not a model's file (.keras or .h5)" % path)
    with zipfile.ZipFile(path) as archive:
        config = json.loads(archive.read("config.json"))
        whole = _hdf5.read(archive.read(_WEIGHTS))
        kept = archive.read("optimizer.pt") if "optimizer.pt" in archive.namelist() else None
    if not compile:
        config.pop("compile_config", None)
    model = deserialize(config, custom_objects, safe_mode)
    load_tree(model, whole, False)
    own = model.optimizer
    if isinstance(own, optimizers.Optimizer):
        held = whole.at("optimizer/vars")
        if kept is not None:
            own.load_state_dict(cairn.load(io.BytesIO(kept)))
        elif held is not None and held.items:
            _take_moments(own, list(model.trainable_variables), [held.items[str(i)] for i in range(len(held.items))])
    return model
