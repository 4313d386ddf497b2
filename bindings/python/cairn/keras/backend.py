"""keras.backend: the settings that programs ask for, and by their old names functions of keras.ops: K.mean, K.cast."""
from __future__ import annotations

from typing import Any

import cairn
from .._training.settings import epsilon as epsilon, set_epsilon as set_epsilon

__all__ = ["backend", "cast_to_floatx", "clear_session", "dtype_of", "epsilon", "floatx", "get_uid", "get_value",
           "image_data_format", "is_float_dtype", "is_int_dtype", "is_keras_tensor", "result_type", "set_epsilon",
           "set_floatx", "set_image_data_format", "set_value", "standardize_dtype"]

_counts: dict[str, int] = {}  # how many names of a kind were given
_settings: dict[str, Any] = {"image_data_format": "channels_last"}


def backend() -> str:
    return "cairn"


def floatx() -> str:
    return str(cairn.get_default_dtype()).rpartition(".")[2]


def set_floatx(value: str) -> None:
    if value not in ("float16", "bfloat16", "float32", "float64"):
        raise ValueError("floatx is float16, bfloat16, float32 or float64, not %r" % (value,))
    cairn.set_default_dtype(getattr(cairn, value))


def image_data_format() -> str:
    return str(_settings["image_data_format"])


def set_image_data_format(data_format: str) -> None:
    """What layers take that are not told where the channels are."""
    if data_format not in ("channels_last", "channels_first"):
        raise ValueError("data_format is channels_last or channels_first, not %r" % (data_format,))
    _settings["image_data_format"] = data_format


def clear_session(free_memory: bool = True) -> None:
    """Names of layers begin again."""
    _counts.clear()
    if free_memory:
        import gc
        gc.collect()


def dtype_of(value: Any) -> Any:
    """A dtype of its name; None: the default."""
    if value is None:
        return cairn.get_default_dtype()
    if value == "string":  # texts are not tensors: _strings.py
        return value
    return getattr(cairn, value) if isinstance(value, str) else value


def unique_name(base: str) -> str:
    """dense, dense_1, dense_2, ..."""
    n = _counts.get(base, 0)
    _counts[base] = n + 1
    return base if n == 0 else "%s_%d" % (base, n)


def get_value(x: Any) -> Any:
    return x.numpy() if hasattr(x, "numpy") else x


def set_value(x: Any, value: Any) -> None:
    x.assign(value)


def is_keras_tensor(x: Any) -> bool:
    from ._graph import KerasTensor
    return isinstance(x, KerasTensor)


_scopes: list[str] = []


class name_scope:
    """with name_scope("encoder"): paths of weights made inside begin with it; names of layers do not change."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __enter__(self) -> Any:
        _scopes.append(self.name)
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        _scopes.pop()


def open_scopes() -> list[str]:
    """The names of the scopes around a call, the outermost first."""
    return list(_scopes)


def get_uid(prefix: str = "") -> int:
    """1, 2, ... for each prefix."""
    _counts["uid " + prefix] = _counts.get("uid " + prefix, 0) + 1
    return _counts["uid " + prefix]


def standardize_dtype(dtype: Any) -> str:
    """The name of a type, however it was said."""
    if dtype is None:
        return floatx()
    kinds: dict[Any, str] = {bool: "bool", int: "int64", float: "float32", str: "string"}
    name = kinds.get(dtype) if isinstance(dtype, type) else None
    name = name or str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or dtype).rpartition(".")[2]
    if name != "string" and not isinstance(getattr(cairn, name, None), cairn.dtype):
        raise ValueError("unknown dtype %r" % (dtype,))
    return name


def is_float_dtype(dtype: Any) -> bool:
    return standardize_dtype(dtype).startswith(("float", "bfloat"))


def is_int_dtype(dtype: Any) -> bool:
    return standardize_dtype(dtype).startswith(("int", "uint"))


def result_type(*dtypes: Any) -> str:
    """The type that an operation on these has."""
    if not dtypes:
        return floatx()
    made = dtype_of(standardize_dtype(dtypes[0]))
    for d in dtypes[1:]:
        made = cairn.promote_types(made, dtype_of(standardize_dtype(d)))
    return str(made).rpartition(".")[2]


def cast_to_floatx(x: Any) -> Any:
    from .._training.batches import to_tensor
    if isinstance(x, cairn.Tensor):
        return x.to(cairn.get_default_dtype())
    return x.astype(floatx()) if hasattr(x, "astype") else to_tensor(x).to(cairn.get_default_dtype())


# ---- names of Keras 2 ----
_old = {"pow": "power", "int_shape": "shape", "flatten": "ravel", "permute_dimensions": "transpose",
        "constant": "convert_to_tensor", "stop_gradient": "stop_gradient", "repeat_elements": "repeat",
        "eval": "convert_to_numpy", "switch": "where", "in_top_k": "in_top_k"}


def _l2_normalize(x: Any, axis: Any = None) -> Any:
    from . import ops
    return x / ops.sqrt(ops.maximum(ops.sum(ops.square(x), axis=axis, keepdims=True), 1e-12))


def _batch_flatten(x: Any) -> Any:
    from . import ops
    return ops.reshape(x, (x.shape[0] if x.shape[0] is not None else -1, -1))


def _random(name: str) -> Any:
    def made(shape: Any, *args: Any, dtype: Any = None, seed: Any = None, **kwargs: Any) -> Any:
        from . import random
        return getattr(random, name)(shape, *args, dtype=dtype, seed=seed, **kwargs)
    return made


def _gather(reference: Any, indices: Any) -> Any:
    from . import ops
    return ops.take(reference, indices, axis=0)


def _variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    from . import constraints
    from .layers.base import Variable
    made = Variable(value, dtype=dtype, name=name)
    made.constraint = constraints.get(constraint)
    return made


def __getattr__(name: str) -> Any:
    own = {"l2_normalize": _l2_normalize, "batch_flatten": _batch_flatten, "gather": _gather, "variable": _variable,
           "random_normal": _random("normal"), "random_uniform": _random("uniform"), "normal": _random("normal"),
           "truncated_normal": _random("truncated_normal")}
    if name in own:
        return own[name]
    if name.startswith("__"):
        raise AttributeError(name)
    from . import ops
    found = getattr(ops, _old.get(name, name), None)
    if found is None:
        raise AttributeError("module 'cairn.keras.backend' has no attribute %r" % (name,))
    return found
