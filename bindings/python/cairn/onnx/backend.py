"""cairn.onnx.backend: the form in which onnx's own test runner, and programs written for it, ask for a model's results.

    import onnx.backend.test
    runner = onnx.backend.test.BackendTest(cairn.onnx.backend, __name__)

Place in the flow: above cairn.onnx; needs nothing of the onnx package itself: a model is anything with
SerializeToString, or bytes, or a path. Invariant: results are numpy arrays, lists of them, or None.
"""
from __future__ import annotations

from typing import Any, Sequence

from ..strings import Strings
from . import Model, load, load_model_from_string

__all__ = ["BackendRep", "is_compatible", "prepare", "run_model", "supports_device"]


def _device(name: str) -> str:
    kind, _, index = name.lower().partition(":")
    return kind if not index or kind == "cpu" else "%s:%s" % (kind, index)


def supports_device(device: str) -> bool:
    """Whether models can be prepared for "CPU", "CUDA", "CUDA:1"."""
    if _device(device) == "cpu":
        return True
    from .. import cuda
    return _device(device).startswith("cuda") and cuda.is_available()


def _numpy(value: Any) -> Any:
    if isinstance(value, list):
        return [_numpy(part) for part in value]
    if isinstance(value, Strings):
        return value.numpy().astype(object)
    return value.detach().cpu().numpy() if hasattr(value, "detach") else value


class BackendRep:
    """A model that is ready to run."""

    def __init__(self, model: Model) -> None:
        self.model = model

    def run(self, inputs: Any, **kwargs: Any) -> tuple[Any, ...]:
        """inputs: in order, or by name."""
        if kwargs:
            raise TypeError("onnx: run takes no option %s" % ", ".join(kwargs))
        if not isinstance(inputs, dict):
            inputs = dict(zip(self.model.input_names, inputs))
        return tuple(_numpy(value) for value in self.model.run(inputs))


def is_compatible(model: Any, device: str = "CPU", **kwargs: Any) -> bool:
    """Whether cairn can run it."""
    try:
        prepare(model, device, **kwargs)
    except RuntimeError:
        return False
    return True


def prepare(model: Any, device: str = "CPU", **kwargs: Any) -> BackendRep:
    """The model, loaded for a device."""
    if kwargs:
        raise TypeError("onnx: prepare takes no option %s" % ", ".join(kwargs))
    if isinstance(model, str):
        return BackendRep(load(model, _device(device)))
    data = model if isinstance(model, bytes) else model.SerializeToString()
    return BackendRep(load_model_from_string(data, _device(device)))


def run_model(model: Any, inputs: Sequence[Any], device: str = "CPU", **kwargs: Any) -> tuple[Any, ...]:
    """prepare, and run once."""
    return prepare(model, device, **kwargs).run(inputs)
