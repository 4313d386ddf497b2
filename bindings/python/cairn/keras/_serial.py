"""Objects as what JSON can hold, in Keras's form: {"module", "class_name", "config", "registered_name"}.

Nothing in a configuration is code: classes and functions are found by name among cairn.keras's, those that the program
registered, and those that it gives as custom_objects.
"""
from __future__ import annotations

import importlib
import re
import sys
from typing import Any, Callable

import cairn
from ._graph import KerasTensor

__all__ = ["custom_object_scope", "deserialize", "get_custom_objects", "get_registered_name", "get_registered_object",
           "register_keras_serializable", "serialize"]

_custom: dict[str, Any] = {}
_names: dict[Any, str] = {}  # what was registered, and its name with the package
_spaces = ("layers", "models", "initializers", "regularizers", "constraints", "losses", "metrics", "optimizers",
           "optimizers.schedules", "dtype_policies", "random", "callbacks")


def get_custom_objects() -> dict[str, Any]:
    return _custom


def register_keras_serializable(package: str = "Custom", name: str | None = None) -> Callable[[Any], Any]:
    """A decorator: the class or function can be in saved models."""
    def keep(thing: Any) -> Any:
        own = name or thing.__name__
        if isinstance(thing, type) and not hasattr(thing, "get_config"):
            raise ValueError("%s cannot be registered: it has no get_config()" % own)
        _custom["%s>%s" % (package, own)] = _custom[own] = thing
        _names[thing] = "%s>%s" % (package, own)
        return thing
    return keep


def get_registered_name(obj: Any) -> Any:
    return _names.get(obj, getattr(obj, "__name__", obj))


def get_registered_object(name: str, custom_objects: Any = None, module_objects: Any = None) -> Any:
    for known in (_custom, custom_objects or {}, module_objects or {}):
        if name in known:
            return known[name]
    return None


class custom_object_scope:
    """with custom_object_scope({"MyLayer": MyLayer}): models with it can be loaded."""

    def __init__(self, objects: dict[str, Any] | None) -> None:
        self.objects = objects or {}

    def __enter__(self) -> Any:
        self.before = dict(_custom)
        _custom.update(self.objects)
        return self

    def __exit__(self, *ignored: object) -> None:
        _custom.clear()
        _custom.update(self.before)


def _home(kind: type) -> str | None:
    """The module of Keras's that has this class; None for classes of the program's."""
    if not kind.__module__.startswith("cairn.keras"):
        return None
    if kind.__name__ == "Functional":
        return "keras.src.models.functional"
    if kind.__name__ in ("Sequential", "Model", "DTypePolicy", "Variable"):
        return "keras"
    for space in _spaces:
        try:
            home = importlib.import_module("cairn.keras." + space)
        except ImportError:
            continue
        if getattr(home, kind.__name__, None) is kind:
            return "keras." + space
    return None


def _found(name: str, registered: Any, module: Any) -> Any:
    for key in (registered, name):
        if isinstance(key, str) and key in _custom:
            return _custom[key]
    if isinstance(module, str) and module.startswith("keras.src.ops"):
        from ._function import Function
        return Function.of(name)
    spaces = list(_spaces)
    if isinstance(module, str) and module.startswith("keras."):
        spaces.insert(0, module.removeprefix("keras."))
    for space in spaces:
        try:
            thing = getattr(importlib.import_module("cairn.keras." + space), name, None)
        except ImportError:
            continue
        if thing is not None:
            return thing
    if isinstance(module, str) and module in sys.modules and not module.startswith("keras"):
        thing = getattr(sys.modules[module], name, None)  # a class of the program that runs
        if isinstance(thing, type) and hasattr(thing, "get_config"):
            return thing
    raise ValueError("the configuration has a %s, which is not known here: give custom_objects={%r: ...}, or register "
                     "it with keras.saving.register_keras_serializable" % (name, name))


def _function(f: Any) -> dict[str, Any]:
    from . import activations, losses, metrics
    name = f.__name__
    if name == "<lambda>":
        raise ValueError("a lambda cannot be saved: make it a function and register it with "
                         "keras.saving.register_keras_serializable")
    module = getattr(f, "__module__", "builtins")
    for home in (activations, losses, metrics):
        if getattr(home, name, None) is f:
            module = "keras." + home.__name__.rpartition(".")[2]
    return {"module": module, "class_name": "function", "config": name, "registered_name": get_registered_name(f)}


def serialize(obj: Any) -> Any:
    """A layer, model or other object, and what is in it, as what JSON can hold."""
    if obj is None or isinstance(obj, (bool, str)):
        return obj
    if isinstance(obj, (int, float)):
        return int(obj) if isinstance(obj, int) else float(obj)
    if isinstance(obj, dict):
        return {k: serialize(v) for k, v in obj.items()}
    if isinstance(obj, tuple) and hasattr(obj, "_fields") or isinstance(obj, (list, tuple)):
        return [serialize(v) for v in obj]
    if isinstance(obj, KerasTensor):
        where = obj.node
        place = [obj.name, 0, 0] if where is None else [
            where.layer.name, where.layer.__dict__["_nodes"].index(where), obj.index]
        return {"class_name": "__keras_tensor__",
                "config": {"shape": list(obj.shape), "dtype": obj.dtype, "keras_history": place}}
    if isinstance(obj, cairn.Tensor):
        return {"class_name": "__tensor__", "config": {"value": obj.tolist(),
                                                       "dtype": str(obj.dtype).rpartition(".")[2]}}
    if isinstance(obj, cairn.dtype):
        return str(obj).rpartition(".")[2]
    if obj is Ellipsis:
        return {"class_name": "__ellipsis__", "config": {}}
    if isinstance(obj, slice):
        return {"class_name": "__slice__", "config": {k: serialize(getattr(obj, k)) for k in ("start", "stop", "step")}}
    if isinstance(obj, bytes):
        return {"class_name": "__bytes__", "config": {"value": obj.decode("utf-8")}}
    if hasattr(obj, "tolist"):  # numpy's
        value = obj.tolist()
        return value if not isinstance(value, list) else {
            "class_name": "__numpy__", "config": {"value": value, "dtype": str(obj.dtype)}}
    if not hasattr(obj, "get_config") or isinstance(obj, type):
        if callable(obj) and hasattr(obj, "__name__"):
            return _function(obj)
        raise ValueError("a %s cannot be saved: it has no get_config" % type(obj).__name__)
    return _object(obj)


def _object(obj: Any) -> dict[str, Any]:
    kind = type(obj)
    if hasattr(obj, "op_module"):  # a function of cairn.keras.ops in a model
        return {"module": obj.op_module, "class_name": obj.class_name, "config": serialize(obj.get_config()),
                "registered_name": obj.class_name}
    home = _home(kind)
    known = get_registered_name(kind)
    made = {"module": home or kind.__module__, "class_name": kind.__name__, "config": serialize(obj.get_config()),
            "registered_name": None if home else known}
    for part in ("build", "compile"):
        get = getattr(obj, "get_%s_config" % part, None)
        found = None if get is None else get()
        if found is not None:
            made[part + "_config"] = serialize(found)
    return made


def deserialize(config: Any, custom_objects: Any = None, safe_mode: bool = True) -> Any:
    """The object of what serialize returned."""
    if not safe_mode and _has_code(config):
        raise ValueError("safe_mode=False asks for code in the configuration to be run, which is not done: give the "
                         "layer's class or function as custom_objects")
    with custom_object_scope(custom_objects):
        return _made(config)


def _has_code(config: Any) -> bool:
    if isinstance(config, dict):
        return config.get("class_name") == "__lambda__" or any(_has_code(v) for v in config.values())
    return isinstance(config, (list, tuple)) and any(_has_code(v) for v in config)


def _made(config: Any) -> Any:
    if isinstance(config, (list, tuple)):
        return [_made(v) for v in config]
    if isinstance(config, str) and config in _custom:
        return _custom[config]
    if not isinstance(config, dict):
        return config
    if "class_name" not in config or "config" not in config:
        return {k: _made(v) for k, v in config.items()}
    name, inner = config["class_name"], config["config"]
    if name == "function":
        return _found(inner, config.get("registered_name"), config.get("module"))
    if name in ("__tensor__", "__numpy__"):
        made = cairn.tensor(inner["value"], dtype=getattr(cairn, inner["dtype"]))
        return made.numpy() if name == "__numpy__" else made
    if name == "__keras_tensor__":
        return KerasTensor(inner["shape"], inner["dtype"])
    if name == "__slice__":
        return slice(_made(inner["start"]), _made(inner["stop"]), _made(inner["step"]))
    if name == "__ellipsis__":
        return Ellipsis
    if name == "__bytes__":
        return inner["value"].encode("utf-8")
    if name == "__lambda__":
        raise ValueError("the file has a lambda, which is code and is not run: give the layer's class or function as "
                         "custom_objects")
    return _of_class(config, name, inner)


def _is_op(name: str, inner: dict[str, Any]) -> bool:
    from . import ops
    from .layers.base import snake
    return callable(getattr(ops, snake(name), None)) and "dtype" not in inner


def _of_class(config: dict[str, Any], name: str, inner: Any) -> Any:
    module = config.get("module")
    if module is None and isinstance(inner, dict) and "name" in inner and "trainable" not in inner \
            and name not in ("InputLayer", "Sequential", "Functional", "Model") and _is_op(name, inner):
        module = "keras.src.ops"  # Keras 2's files do not say
    kind = _found(name, config.get("registered_name"), module)
    if not isinstance(kind, type) and not hasattr(kind, "from_config"):
        return kind
    given = dict(inner)
    if isinstance(given.get("dtype"), dict):
        given["dtype"] = given["dtype"]["config"]["name"]
    made = _with_known(kind, given) if config.get("module") is None or str(config["module"]).startswith("keras") \
        else kind.from_config(given) if hasattr(kind, "from_config") else kind(**given)
    build = config.get("build_config")
    if build and build.get("input_shape") and hasattr(made, "build_from_config") and not getattr(made, "built", True):
        made.build_from_config(build)
    how = config.get("compile_config")
    if how and hasattr(made, "compile_from_config"):
        made.compile_from_config(how)
    return made


_idle = ("renorm_momentum", "renorm_clipping", "input_axes", "output_axes")


def _with_known(kind: Any, given: dict[str, Any]) -> Any:
    """An object of Keras's configuration. What a class here does not have is left out where it changes nothing."""
    while True:
        try:
            return kind.from_config(dict(given)) if hasattr(kind, "from_config") else kind(**given)
        except (TypeError, ValueError) as error:
            named = re.search(r"argument '(\w+)'", str(error))
            extra = named.group(1) if named else None
            if extra not in given or not (extra in _idle or given[extra] in (None, False)):
                raise
            del given[extra]
