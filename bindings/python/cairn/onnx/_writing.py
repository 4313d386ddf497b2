"""cairn.onnx.export: what a module or function computes, as an ONNX model, with torch.onnx.export's arguments.

    cairn.onnx.export(net, (images,), "net.onnx", input_names=["images"], dynamic_axes={"images": {0: "batch"}})

Place in the flow: the model is traced (cairn.export), and the library writes the graph (cairn/onnx.h). Invariant:
inputs of the file are the tensors among the arguments, in their order; outputs the tensors among the results, in
theirs.
"""
from __future__ import annotations

import contextlib
import enum
import inspect
import os
import re
import threading
from typing import Any, Callable, Iterator, Sequence

from .. import _C, nn
from .._arguments import only_speed, refused
from .._modes import no_grad
from .._tensor import Tensor
from ..compiler import _is_tensor, _mapped
from ..export import Dim, ExportedProgram, _free_dims, traced

__all__ = ["DEFAULT_OPSET", "ONNXProgram", "OperatorExportTypes", "TrainingMode", "export", "is_in_onnx_export",
           "refused_ops"]

DEFAULT_OPSET = 23
_AUTO, _BESIDE, _INSIDE = range(3)  # where weights go: cn_onnx_external
_exporting = threading.local()


def is_in_onnx_export() -> bool:
    """Is this code run by an export, which traces it?"""
    return getattr(_exporting, "on", False)


class TrainingMode(enum.IntEnum):
    """In which mode a module is exported."""
    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.IntEnum):
    """Which operators may be written: cairn writes ONNX's own."""
    ONNX = 0
    ONNX_ATEN = 1
    ONNX_FALLTHROUGH = 2
    ONNX_ATEN_FALLBACK = 3


class ONNXProgram:
    """A model that was written: in memory until it is saved."""

    def __init__(self, program: ExportedProgram, opset: int, inputs: list[str], outputs: list[str],
                 **how: Any) -> None:
        self.exported_program = program
        self._opset, self._inputs, self._outputs, self._how = opset, inputs, outputs, how
        self._model: Any = None

    def _write(self, path: Any, external: int, **more: Any) -> Any:
        how = dict(self._how, **more)
        return self.exported_program._graph.onnx(
            path, self._opset, self._inputs, self._outputs, external, how["no_weights"], how["weights_as_inputs"],
            how["writes"], how["folding"], how["doc"])

    def save(self, destination: Any, *, include_initializers: bool = True, keep_initializers_as_inputs: bool = False,
             external_data: bool | None = None) -> None:
        """Writes the file. external_data: large weights lie beside it, in destination + '.data'; None: where the model
        would be larger than 2 GB."""
        more = {"no_weights": self._how["no_weights"] or not include_initializers,
                "weights_as_inputs": self._how["weights_as_inputs"] or keep_initializers_as_inputs}
        external = _AUTO if external_data is None else _BESIDE if external_data else _INSIDE
        if hasattr(destination, "write"):
            destination.write(self._write(None, _INSIDE, **more))
        else:
            self._write(os.fspath(destination), external, **more)

    def SerializeToString(self) -> bytes:  # noqa: N802 (a ModelProto's name for it)
        """The file's bytes, with all weights."""
        return bytes(self._write(None, _INSIDE))

    @property
    def model_proto(self) -> Any:
        """It as an onnx.ModelProto, where the onnx package is installed."""
        import onnx  # type: ignore[import-not-found,unused-ignore]
        return onnx.load_from_string(self.SerializeToString())

    def __call__(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """What the model gives, read again by cairn."""
        from . import load_model_from_string
        if self._model is None:
            self._model = load_model_from_string(self.SerializeToString())
        tensors: list[Tensor] = []
        _mapped((args, kwargs), _is_tensor, tensors.append)
        made = self._model(*tensors)
        return made if isinstance(made, tuple) else (made,)

    def __repr__(self) -> str:
        return "ONNXProgram(opset=%d, inputs=%s, outputs=%s)" % (self._opset, self._inputs, self._outputs)


# ---- arguments ----

def _name(text: str) -> str:
    """A name that a size can have."""
    made = re.sub(r"\W", "_", text, flags=re.ASCII)[:31] or "size"
    return "_" + made[:30] if made[0].isdigit() or made in ("min", "max") else made


def _parameters(fn: Any) -> list[str]:
    """The names of a callable's positional parameters."""
    try:
        kinds = inspect.signature(fn.forward if isinstance(fn, nn.Module) else fn).parameters.values()
    except (TypeError, ValueError):
        return []
    return [p.name for p in kinds if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]


def _input_names(fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any], given: Sequence[str] | None) -> list[str]:
    """Of the tensors among the arguments: as the caller says, then as the parameters are called."""
    words = _parameters(fn)
    words += ["input_%d" % place for place in range(len(words), len(args))]
    names: list[str] = []
    for word, value in [*zip(words, args), *kwargs.items()]:
        tensors: list[Tensor] = []
        _mapped(value, _is_tensor, tensors.append)
        names += [word] if isinstance(value, Tensor) else ["%s_%d" % (word, k) for k in range(len(tensors))]
    said = list(given or [])
    if len(said) > len(names):
        raise ValueError("onnx.export: %d input_names for %d inputs" % (len(said), len(names)))
    return said + names[len(said):]


def _axes(dynamic_axes: Any, names: list[str], tensors: list[Tensor],
          outputs: Sequence[str]) -> Iterator[tuple[int, int, str, int, int]]:
    """The open sizes that dynamic_axes names; those of outputs follow from the inputs'."""
    for name, axes in dict(dynamic_axes).items():
        if name not in names:
            if name not in outputs:
                raise ValueError("onnx.export: dynamic_axes: there is no input or output %r" % (name,))
            continue
        input = names.index(name)
        ndim = tensors[input].dim()
        said = axes.items() if isinstance(axes, dict) else \
            [(axis, "%s_dynamic_axes_%d" % (name, k + 1)) for k, axis in enumerate(axes)]
        for axis, symbol in said:
            if not -ndim <= axis < ndim:
                raise ValueError("onnx.export: dynamic_axes: %r has no axis %d" % (name, axis))
            yield input, axis % ndim, _name(str(symbol)), 0, 0


def _shapes(spec: Any) -> Any:
    """dynamic_shapes with names of sizes as Dims: the same name is the same size."""
    known: dict[str, Dim] = {}

    def one(value: Any) -> Any:
        if isinstance(value, str):
            return known.setdefault(_name(value), Dim(_name(value)))
        if isinstance(value, dict):
            return {key: one(part) for key, part in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(one(part) for part in value)
        return value
    return one(spec)


def _free(spec: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
          words: list[str]) -> list[tuple[int, int, str, int, int]]:
    """The open sizes that dynamic_shapes names: for each argument in order, or by parameter."""
    spec = _shapes(spec)
    number = iter(range(1 << 30))
    named: Any = None
    if isinstance(spec, dict):
        unknown = [key for key in spec if key not in words and key not in kwargs]
        if unknown and not set(spec) <= set(words) | set(kwargs):
            raise ValueError("onnx.export: dynamic_shapes: there is no parameter %r" % (unknown[0],))
        named = {key: spec.get(key) for key in kwargs}
        spec = tuple(spec.get(word) for word in words[:len(args)]) + (None,) * (len(args) - len(words))
    elif isinstance(spec, (list, tuple)) and kwargs and len(spec) == len(args) + len(kwargs):
        named = dict(zip(kwargs, spec[len(args):]))
        spec = spec[:len(args)]
    return [*_free_dims(spec, args, number), *_free_dims(named, kwargs, number)]


@contextlib.contextmanager
def _mode(model: Any, training: Any) -> Iterator[None]:
    """The module in that mode; afterwards its parts are as they were."""
    mode = TrainingMode(int(training))
    if not isinstance(model, nn.Module) or mode is TrainingMode.PRESERVE:
        yield
        return
    before = [(part, part.training) for part in model.modules()]
    try:
        model.train(mode is TrainingMode.TRAINING)
        yield
    finally:
        for part, was in before:
            part.training = was


def _program(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any],
             free: list[tuple[int, int, str, int, int]], training: Any) -> ExportedProgram:
    if isinstance(model, ExportedProgram):
        if free:
            raise ValueError("onnx.export: an ExportedProgram has its open sizes already: name them to cairn.export")
        return model
    if not callable(model):
        raise TypeError("onnx.export: expected a module or a function, not %s" % type(model).__name__)
    before, _exporting.on = is_in_onnx_export(), True
    try:
        with _mode(model, training):
            return traced(model, args, kwargs, free)
    finally:
        _exporting.on = before


def _output_names(program: ExportedProgram, given: Sequence[str] | None) -> list[str]:
    said, count = list(given or []), len(program._graph.outputs())
    if len(said) > count:
        raise ValueError("onnx.export: %d output_names for %d outputs" % (len(said), count))
    rest = ["output"] if count == 1 else ["output_%d" % k for k in range(count)]
    return said + rest[len(said):]


def _distinct(inputs: list[str], outputs: list[str]) -> list[str]:
    """Outputs that the caller did not name, under names that no input has."""
    return [name + "_" if name in inputs else name for name in outputs]


def _verify(program: ONNXProgram, model: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any],
            training: Any) -> None:
    """Reads the model again and compares what it gives with the module's own results."""
    want: list[Tensor] = []
    with _mode(model, training), no_grad():
        _mapped(model(*args, **kwargs), _is_tensor, want.append)
    for k, (have, right) in enumerate(zip(program(*args, **kwargs), want)):
        if not bool(_C.allclose(have.double(), right.detach().double(), rtol=1e-3, atol=1e-4, equal_nan=True)):
            raise RuntimeError("onnx.export: verify: output %d of the model differs from the module's" % k)


def export(model: Any, args: Any = (), f: Any = None, *, kwargs: dict[str, Any] | None = None,
           verbose: bool | None = None, input_names: Sequence[str] | None = None,
           output_names: Sequence[str] | None = None, opset_version: int | None = None, dynamo: bool = True,
           external_data: bool | None = None, dynamic_shapes: Any = None, custom_translation_table: Any = None,
           report: bool = False, optimize: bool = True, verify: bool = False, profile: bool = False,
           dump_exported_program: bool = False, artifacts_dir: Any = ".", fallback: bool = False,
           export_params: bool = True, keep_initializers_as_inputs: bool = False, dynamic_axes: Any = None,
           training: Any = TrainingMode.EVAL, operator_export_type: Any = OperatorExportTypes.ONNX,
           do_constant_folding: bool = True, custom_opsets: Any = None, export_modules_as_functions: Any = False,
           autograd_inlining: bool = True) -> ONNXProgram | None:
    """The model as ONNX: a module, a function, an ExportedProgram. f: a path, or a file that takes bytes; without it
    only the program that is returned has it. With dynamo=False the last of args may be a dictionary, of keyword
    arguments, and None is returned, as by torch's older exporter. external_data: True: weights lie in f + '.data';
    False: in the model; None: in the model unless it would be larger than 2 GB. What a module in training mode writes
    to (running statistics) becomes outputs NAME.next."""
    refused("onnx.export", "operators are ONNX's own", None, custom_translation_table=custom_translation_table,
            custom_opsets=custom_opsets)
    refused("onnx.export", "no reports are written", False, report=report, profile=profile,
            dump_exported_program=dump_exported_program)
    refused("onnx.export", "modules are written as their operators", False,
            export_modules_as_functions=export_modules_as_functions)
    refused("onnx.export", "functions with a backward of their own are written as what they compute", True,
            autograd_inlining=autograd_inlining)
    refused("onnx.export", "operators are ONNX's own", 0, operator_export_type=int(operator_export_type))
    refused("onnx.export", "nothing is written there", ".", artifacts_dir=artifacts_dir)
    only_speed("onnx.export", False, fallback=fallback)
    args = args if isinstance(args, tuple) else tuple(args) if isinstance(args, list) else (args,)
    kwargs = dict(kwargs or {})
    if not dynamo and args and isinstance(args[-1], dict):
        args, kwargs = args[:-1], dict(args[-1], **kwargs)
    if dynamic_axes and dynamic_shapes:
        raise ValueError("onnx.export: dynamic_axes and dynamic_shapes say the same: give one of them")
    tensors: list[Tensor] = []
    _mapped((args, kwargs), _is_tensor, tensors.append)
    names = _input_names(model, args, kwargs, input_names)
    free = list(_axes(dynamic_axes, names, tensors, output_names or [])) if dynamic_axes else \
        _free(dynamic_shapes, args, kwargs, _parameters(model)) if dynamic_shapes else []
    program = _program(model, args, kwargs, free, training)
    if isinstance(model, ExportedProgram):
        names = list(input_names or [])
    outputs = _distinct(names, _output_names(program, output_names)) if not output_names else \
        _output_names(program, output_names)
    made = ONNXProgram(program, DEFAULT_OPSET if opset_version is None else int(opset_version), names, outputs,
                       no_weights=not export_params, weights_as_inputs=bool(keep_initializers_as_inputs), writes=True,
                       folding=bool(do_constant_folding) and bool(optimize), doc=None)
    if f is not None:
        made.save(f, external_data=external_data)
    else:
        made.SerializeToString()  # what cannot be written is said here
    if verify:
        _verify(made, model, args, kwargs, training)
    if verbose:
        print(repr(made))
    return made if dynamo else None


def refused_ops() -> dict[str, str]:
    """The ops that cannot be written, and why."""
    return _C._onnx_refused()
