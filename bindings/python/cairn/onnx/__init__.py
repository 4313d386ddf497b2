"""cairn.onnx: models in ONNX's files: what they compute, with cairn's ops; and modules as such files. See cairn/onnx.h
and docs/ONNX.md.

    model = cairn.onnx.load("model.onnx")
    logits, = model.run({"image": image})
    logits = model(image)
    cairn.onnx.export(net, (image,), "net.onnx")

Place in the flow: the library reads and runs models; here values of users become tensors and back. A model is a
callable of tensors, so that cairn.compile and cairn.func take it like any function. Invariant: results of run are
tensors, cairn.strings.Strings, lists of such, dictionaries, or None, as the model says.
"""
from __future__ import annotations

import os
from typing import Any, NamedTuple, Sequence

from .. import _C, nn
from .._tensor import Tensor
from ..export import ExportedProgram
from ..strings import Strings
from ..strings import array as _strings
from ._writing import ONNXProgram, OperatorExportTypes, TrainingMode, export, is_in_onnx_export, refused_ops

__all__ = ["Info", "Model", "Module", "ONNXProgram", "OperatorExportTypes", "TrainingMode", "export",
           "is_in_onnx_export", "load", "load_model_from_string", "operators", "refused_ops"]


class Info(NamedTuple):
    """An input or output: shape has numbers, names of sizes, and None; it is None where it is not known."""
    name: str
    kind: str
    dtype: _C.dtype | None
    shape: tuple[int | str | None, ...] | None
    optional: bool


def _is_text(value: Any) -> bool:
    if isinstance(value, (str, bytes)):
        return True
    if hasattr(value, "dtype") and not isinstance(value, Tensor):
        return value.dtype.kind in "OSU"
    return isinstance(value, (list, tuple)) and bool(value) and _is_text(value[0])


def _plain(value: Any) -> Any:
    """Texts as str, in nested lists."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [_plain(part) for part in value]
    return value.decode() if isinstance(value, bytes) else value


def _text(value: Any) -> Strings:
    if hasattr(value, "shape") and 0 in value.shape:
        return Strings(_C.zeros([0], dtype=_C.uint8), _C.zeros(list(value.shape), dtype=_C.int64))
    return _strings(_plain(value))


def _tensor(value: Any, dtype: _C.dtype | None) -> Tensor:
    if isinstance(value, Tensor):
        return value
    return _C.tensor(value) if hasattr(value, "dtype") else _C.tensor(value, dtype=dtype)


def _given(value: Any, kind: str, dtype: _C.dtype | None) -> Any:
    """A user's value as the library takes it."""
    if value is None or isinstance(value, (Tensor, Strings)):
        return value
    if hasattr(value, "SerializeToString"):
        return _C._onnx_tensor(value.SerializeToString())
    if isinstance(value, dict):
        keys, values = list(value), list(value.values())
        return None, _given(keys, "tensor", None), _given(values, "tensor", None)
    if kind == "sequence" or (isinstance(value, (list, tuple)) and value and hasattr(value[0], "shape")):
        return [_given(part, "tensor", dtype) for part in value]
    return _text(value) if kind == "strings" or _is_text(value) else _tensor(value, dtype)


def _made(value: Any) -> Any:
    if isinstance(value, list):
        return [_made(part) for part in value]
    if not isinstance(value, tuple):
        return value
    if len(value) == 2:
        return Strings(*value)
    keys, values = (_made(part) for part in value[1:])
    return dict(zip(keys.tolist(), values.tolist()))


class Model:
    """A loaded model. It never changes; threads may run it at once."""

    def __init__(self, source: _C.Onnx) -> None:
        self._held = source
        self.inputs = [Info(*row) for row in source.inputs()]
        self.outputs = [Info(*row) for row in source.outputs()]

    @property
    def input_names(self) -> list[str]:
        """Of the inputs that a run needs, in order."""
        return [info.name for info in self.inputs]

    @property
    def output_names(self) -> list[str]:
        return [info.name for info in self.outputs]

    def opset(self, domain: str = "") -> int:
        """The version of a domain's operators that the model was written for; 0: it uses none."""
        return self._held.opset(domain)

    def metadata(self, key: str) -> str | None:
        return self._held.metadata(key)

    def run(self, values: dict[str, Any], names: Sequence[str] | None = None) -> list[Any]:
        """The outputs of these names (any value of the graph may be asked for), or all, for inputs by name: tensors,
        arrays, numbers, nested lists, texts, lists for sequences, dictionaries for maps."""
        said = {info.name: info for info in self.inputs}
        given = {}
        for name, value in values.items():
            info = said.get(name)
            given[name] = _given(value, info.kind if info else "tensor", info.dtype if info else None)
        return [_made(value) for value in self._held.run(given, None if names is None else list(names))]

    def __call__(self, *values: Any) -> Any:
        """The output, or a tuple of all, for inputs in order."""
        if len(values) > len(self.inputs):
            raise TypeError("onnx: the model takes %d inputs, %d were given" % (len(self.inputs), len(values)))
        made = self.run(dict(zip(self.input_names, values)))
        return made[0] if len(made) == 1 else tuple(made)

    def module(self) -> Module:
        """It as a module with weights of its own, to be trained further."""
        return Module(self)

    def export(self, *values: Any) -> ExportedProgram:
        """It as a program for all sizes that the model leaves open, which needs no ONNX any more. values: one for each
        input, of which type and sizes count; the sizes must be some for which the model works."""
        given = [_given(value, info.kind, info.dtype) for value, info in zip(values, self.inputs)]
        if len(values) != len(self.inputs):
            raise TypeError("onnx: the model takes %d inputs, %d were given" % (len(self.inputs), len(values)))
        graph = self._held.graph(given)
        graph.optimise()
        return ExportedProgram(graph)

    def __deepcopy__(self, memo: dict[int, Any]) -> Model:
        return self  # it never changes

    def __repr__(self) -> str:
        return "cairn.onnx.Model(%s -> %s)" % (", ".join(self.input_names), ", ".join(self.output_names))


class _Part(nn.Module):
    """What lies between dots in the names of a model's weights."""


class Module(nn.Module):
    """A module that computes a model. Copies of the model's weights are its parameters, those of running statistics its
    buffers, under their names. What the file says of training or inference stays, whatever the module's mode."""

    def __init__(self, model: Model) -> None:
        super().__init__()
        self._model = model
        self._places = [(name, *self._place(path, tensor.clone(), trained))
                        for name, path, tensor, trained in model._held.weights()]

    def _place(self, path: str, tensor: Tensor, trained: bool) -> tuple[str, str]:
        """Registers a weight under its path; the path of the module that has it, and its name there."""
        *above, name = path.split(".")
        owner: nn.Module = self
        for part in above:
            if part not in owner._modules:
                owner.add_module(part, _Part())
            owner = owner.get_submodule(part)
        if trained:
            owner.register_parameter(name, nn.Parameter(tensor))
        else:
            owner.register_buffer(name, tensor)
        return ".".join(above), name

    def forward(self, *values: Any) -> Any:
        given = dict(zip(self._model.input_names, values))
        if len(values) > len(self._model.inputs):
            raise TypeError("onnx: the model takes %d inputs, %d were given" % (len(self._model.inputs), len(values)))
        for name, owner, slot in self._places:
            given[name] = getattr(self.get_submodule(owner), slot)
        made = self._model.run(given)
        return made[0] if len(made) == 1 else tuple(made)


def load(path: str | os.PathLike[str], device: _C.device | str | None = None) -> Model:
    """The model of a file. Tensors that lie in other files are found in its folder."""
    return Model(_C.Onnx(os.fspath(path), device, None))


def load_model_from_string(data: bytes, device: _C.device | str | None = None, folder: str | None = None) -> Model:
    """The model in these bytes; folder: where tensors that lie in files are found."""
    return Model(_C.Onnx(bytes(data), device, folder))


def operators() -> list[tuple[str, str, int]]:
    """Domain, name and first opset of each meaning of an operator that cairn runs."""
    return _C._onnx_operators()
