"""Model (of inputs and outputs, or a subclass with call) and Sequential."""
from __future__ import annotations

from typing import Any, Iterable

import cairn
from .. import nn
from .._arguments import only_speed
from ..model import Trainer, in_phase, phase
from .._training.batches import by_key, flatten, mapped, to_tensor
from .._training.strings import Strings
from .._training.compiled import Compiled
from ._graph import Input, KerasTensor, layers_by_depth, marked, nodes_between, place_of
from .backend import dtype_of, unique_name
from .dtype_policies import computing
from .layers.base import Layer
from .layers.core import InputLayer

__all__ = ["Functional", "Model", "Sequential", "clone_model", "load_model", "model_from_json", "save_model"]


class Model(Trainer, Layer):
    """Model(inputs, outputs) of calls on Input(), or a subclass with call(inputs)."""

    _target_first = True
    _numpy_results = True

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Model and (len(args) >= 2 or "outputs" in kwargs):
            return super().__new__(Functional, *args, **kwargs)
        return super().__new__(cls, *args, **kwargs)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if args or "inputs" in kwargs:
            if type(self) is not Model:  # a subclass that gives inputs and outputs to super().__init__
                self.__class__ = type(type(self).__name__, (type(self), Functional), {})
                Functional.__init__(self, *args, **kwargs)  # type: ignore[arg-type]
                return
            raise TypeError("Model takes inputs and outputs; for layers one after the other use Sequential")
        super().__init__(**kwargs)

    def _compiled_kind(self) -> type[Compiled]:
        from ._compile import KerasCompiled
        return KerasCompiled

    def _predictions(self, x: Any, training: bool) -> Any:
        self._clear_losses()
        net: Any = self
        return net(x, training=training)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        first = next((t for t in flatten(args) if isinstance(t, cairn.Tensor)), None)
        with computing("cpu" if first is None else first.device):
            return super().__call__(*args, **kwargs)

    # ---- looking ----
    @property
    def layers(self) -> list[Any]:
        return [child for child in self.children() if isinstance(child, nn.Module)]

    def get_layer(self, name: str | None = None, index: int | None = None) -> Any:
        if index is not None:
            return self.layers[index]
        for layer in self.layers:
            if getattr(layer, "name", None) == name:
                return layer
        raise ValueError("there is no layer %r; there are %s"
                         % (name, ", ".join(str(getattr(k, "name", k)) for k in self.layers)))

    def build(self, input_shape: Any = None) -> None:
        """Makes the weights for inputs of this shape (None for the batch), by a call on zeros."""
        self.built = True
        inside = [layer for layer in self.modules() if layer is not self]
        if not input_shape or inside and all(getattr(layer, "built", True) for layer in inside):
            return
        self._built_for = input_shape
        with cairn.no_grad():
            self(_zeros(input_shape), training=False)

    def _build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if type(self).build is not Model.build:
            super()._build(args, kwargs)
            return
        self._built_for = _shapes_of(args[0]) if args else None
        self.built = True

    def count_params(self) -> int:
        return Layer.count_params(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.parameters():
            if set_to_none or p.grad is None:
                p.grad = None
            else:
                p.grad = cairn.zeros_like(p.grad)

    # ---- files ----
    def save(self, filepath: Any, overwrite: bool = True, zipped: bool | None = None, include_optimizer: bool = True,
             save_format: str | None = None) -> None:
        """The model with its layers and weights in one file, .keras or (the older) .h5; load_model opens it. With
        include_optimizer=False it is a model that was not compiled."""
        from .saving import save_model
        save_model(self, filepath, overwrite, zipped, include_optimizer, save_format)

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        from .saving import save_weights
        save_weights(self, filepath, overwrite)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False, by_name: bool = False) -> None:
        from .saving import load_weights
        load_weights(self, filepath, skip_mismatch, by_name)

    def to_json(self, **kwargs: Any) -> str:
        """The layers as text; model_from_json makes another model of it."""
        import json
        from ._serial import serialize
        return json.dumps(serialize(self), **kwargs)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        if cls is Model and "layers" in config:
            return Functional.from_config(config, custom_objects)
        return cls(**config)

    def get_compile_config(self) -> dict[str, Any] | None:
        """What compile() was given, where it can be saved."""
        from ._serial import serialize
        own = self._compiled
        if own is None:
            return None
        try:
            return {"optimizer": serialize(own.optimizer), "loss": serialize(own.loss_given),
                    "loss_weights": serialize(own.weights_given), "metrics": serialize(own.metrics_given),
                    "weighted_metrics": serialize(own.weighted_given)}
        except (TypeError, ValueError):
            return None

    def compile_from_config(self, config: dict[str, Any]) -> None:
        from ._serial import deserialize
        known = ("optimizer", "loss", "loss_weights", "metrics", "weighted_metrics")
        if type(self).compile is not Trainer.compile:
            return  # a program's own compile() takes what the program knows
        self.compile(**{k: deserialize(config[k]) for k in known if k in config})

    def _state_for_restore(self) -> dict[str, Any]:
        return {name: value.detach().clone() for name, value in self.state_dict().items()}


def _zeros(shape: Any) -> Any:
    """Of nested shapes."""
    if isinstance(shape, dict):
        return {k: _zeros(v) for k, v in shape.items()}
    if any(isinstance(n, (list, tuple, dict)) for n in shape):
        return [_zeros(s) for s in shape]
    return cairn.zeros(tuple(1 if n is None else int(n) for n in shape))


def _shapes_of(value: Any) -> Any:
    """None for the batch, whose size says nothing of the model."""
    return mapped(lambda t: [None] + [int(n) for n in t.shape[1:]] if getattr(t, "ndim", 0) else None, value)


class Functional(Model):  # unused: input_shape (Keras's signature)
    """The nodes between inputs and outputs."""

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        Layer.__init__(self, name=name, **kwargs)
        self._inputs, self._outputs = inputs, outputs
        self._places = flatten(inputs)
        for place in self._places:
            if not isinstance(place, KerasTensor):
                raise TypeError("inputs of a Model come from Input(), not %r" % (place,))
        self._order = nodes_between(self._places, flatten(outputs))
        in_order = layers_by_depth(self._places, by_key(outputs))
        self._input_layers = _starts(self._places, in_order)
        for layer in in_order:
            name, n = str(getattr(layer, "name", "layer")).replace(".", "_"), 0
            while name in self._modules or hasattr(self, name):
                n += 1
                name = "%s_%d" % (getattr(layer, "name", "layer"), n)
            self.add_module(name, layer)
        self.built = True

    inputs = property(lambda self: self._places)
    outputs = property(lambda self: flatten(self._outputs))

    @property
    def input(self) -> Any:
        return self._inputs

    @property
    def output(self) -> Any:
        return self._outputs

    input_shape = property(lambda self: mapped(lambda t: t.shape, self._inputs))
    output_shape = property(lambda self: mapped(lambda t: t.shape, self._outputs))

    @property
    def output_names(self) -> list[str]:
        return [t.name if t.node is None else t.node.layer.name for t in flatten(self._outputs)]

    @property
    def input_names(self) -> list[str]:
        return [t.name for t in self._places]

    def _given_inputs(self, inputs: Any) -> list[Any]:
        """One tensor for each place; dictionaries by the names of the inputs."""
        if isinstance(inputs, dict) and not isinstance(self._inputs, dict):
            missing = [n for n in self.input_names if n not in inputs]
            if missing:
                raise ValueError("%s: there is no input %r among %s" % (self.name, missing[0], ", ".join(inputs)))
            values = [inputs[n] for n in self.input_names]
        elif isinstance(inputs, dict):
            values = [inputs[k] for k in self._inputs]
        else:
            values = flatten(inputs)
        if len(values) != len(self._places):
            raise ValueError("%s has %d inputs, not %d" % (self.name, len(self._places), len(values)))
        return [self._fitted(to_tensor(v), p) for v, p in zip(values, self._places)]

    def _fitted(self, value: Any, place: KerasTensor) -> Any:
        if value.ndim == len(place.shape) - 1 and place.shape[-1] == 1:
            value = value.unsqueeze(-1)
        if value.ndim != len(place.shape) or any(n is not None and n != int(m) for n, m in
                                                 zip(place.shape[1:], value.shape[1:])):
            raise ValueError("%s: the input %s has shape %s; this is %s"
                             % (self.name, place.name, place.shape, tuple(value.shape)))
        return _typed(value, place)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        given = self._given_inputs(marked(inputs, mask))
        values: dict[int, Any] = {id(p): v for p, v in zip(self._places, given)}

        def now(t: Any) -> Any:
            return values[id(t)] if isinstance(t, KerasTensor) else t
        for node in self._order:
            with in_phase(phase.training if training is None else training):
                out = node.layer(*mapped(now, node.args), **mapped(now, node.kwargs))
            made = [t for t in flatten(out) if isinstance(t, (cairn.Tensor, Strings))]
            for place, value in zip(node.outputs, made):
                values[id(place)] = value
        return mapped(now, self._outputs)

    def build(self, input_shape: Any = None) -> None:
        self.built = True


    def get_config(self) -> dict[str, Any]:
        if type(self).__init__ is not Functional.__init__ and not _takes_ends(type(self)):
            return Layer.get_config(self)
        from ._model_config import functional_config
        return functional_config(self)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from ._model_config import functional_of
        return functional_of(cls, config, custom_objects) if "layers" in config else cls(**config)


def _typed(value: Any, place: KerasTensor) -> Any:
    """In the type of the input; a mask stays with it."""
    kind = dtype_of(place.dtype)
    if not isinstance(value, cairn.Tensor) or not isinstance(kind, cairn.dtype) or value.dtype == kind:
        return value
    made, mask = value.to(kind), getattr(value, "_keras_mask", None)
    if mask is not None:
        setattr(made, "_keras_mask", mask)
    return made


def _starts(places: list[KerasTensor], layers: list[Any]) -> list[Any]:
    """The InputLayer of each input; those of places inside another model come last in `layers`, in their order."""
    own = [p.node.layer for p in places if p.node is not None and p.is_input]
    fresh = iter([k for k in layers if isinstance(k, InputLayer) and not any(k is o for o in own)])
    return [p.node.layer if p.node is not None and p.is_input else next(fresh) for p in places]


def _takes_ends(kind: type) -> bool:
    """Whether a class is made of inputs and outputs, as Functional is."""
    import inspect
    names = list(inspect.signature(kind.__init__).parameters)[1:]  # type: ignore[misc]
    return names[:2] == ["inputs", "outputs"]


class Sequential(Model):  # unused: args, kwargs (Layer's signature)
    """Layers one after the other; add() puts one more behind."""

    def __init__(self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None) -> None:
        Layer.__init__(self, name=name, trainable=trainable)
        self._input: KerasTensor | None = None
        self._output: Any = None
        for layer in layers or ():
            self._add(layer)
        self._note_built()

    def _note_built(self) -> None:
        """Names as Keras gives them, whose Sequential makes a functional model each time it is built."""
        if self._output is not None and self._modules:
            unique_name("functional")

    def add(self, layer: Any, rebuild: bool = True) -> None:
        only_speed("Sequential.add", True, rebuild=rebuild)
        self._add(layer)
        self._note_built()

    def _add(self, layer: Any) -> None:
        if isinstance(layer, KerasTensor):
            self._input = self._output = layer
            return
        if isinstance(layer, InputLayer):
            self._input = self._output = place_of(layer)
            return
        if not isinstance(layer, nn.Module):
            if not callable(layer):
                raise TypeError("Sequential is made of layers, not of %r" % (layer,))
            from .layers.core import Lambda
            layer = Lambda(layer)
        name, n = str(getattr(layer, "name", type(layer).__name__.lower())).replace(".", "_"), 0
        while name in self._modules or hasattr(self, name):
            if self._modules.get(name) is layer or isinstance(layer, Layer) and name in self._modules:
                raise ValueError("a Sequential has each name once; %r is there already" % (name,))
            n += 1
            name = "%s_%d" % (type(layer).__name__.lower(), n)
        given = getattr(layer, "_given_shape", None)
        if self._input is None and given is not None and not self._modules:
            self._input = self._output = Input(given)
        self.add_module(name, layer)
        if self._output is not None:
            self._output = self._stepped(layer, self._output)
            self.built = True

    def _stepped(self, layer: Any, place: Any) -> Any:
        if isinstance(layer, Layer):
            return layer(place)
        from ._graph import symbolic_call
        return symbolic_call(layer, (place,), {})

    def pop(self, rebuild: bool = True) -> Any:
        only_speed("Sequential.pop", True, rebuild=rebuild)
        layer = self.layers[-1]
        del self._modules[list(self._modules)[-1]]
        if self._input is not None:
            self._rebuild(self._input)
        return layer

    def _rebuild(self, place: KerasTensor) -> None:
        self._input = self._output = place
        for layer in self.layers:
            self._output = self._stepped(layer, self._output)
        self.built = True
        self._note_built()

    def build(self, input_shape: Any = None) -> None:
        if self._input is None and input_shape is not None and not isinstance(input_shape[0], (list, tuple)):
            self._rebuild(Input(batch_shape=(None,) + tuple(input_shape)[1:]))
        self.built = True

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        if not self._modules:
            return inputs
        x = marked(to_tensor(inputs), mask)
        if self._input is not None and x.ndim == len(self._input.shape) - 1 and self._input.shape[-1] == 1:
            x = x.unsqueeze(-1)
        if self._input is not None:
            x = _typed(x, self._input)
        with in_phase(phase.training if training is None else training):
            for layer in self.layers:
                x = layer(x)
        return x

    def _build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.built = True

    inputs = property(lambda self: [self._need(self._input)])
    outputs = property(lambda self: [self._need(self._output)])
    input = property(lambda self: self._need(self._input))
    output = property(lambda self: self._need(self._output))
    input_shape = property(lambda self: self._need(self._input).shape)
    output_shape = property(lambda self: self._need(self._output).shape)

    def get_config(self) -> dict[str, Any]:
        from ._model_config import sequential_config
        return sequential_config(self)

    @classmethod
    def from_config(cls, config: Any, custom_objects: Any = None) -> Any:
        from ._model_config import sequential_of
        from ._serial import custom_object_scope
        with custom_object_scope(custom_objects):
            return sequential_of(cls, config if isinstance(config, dict) else {"layers": config})

    def _need(self, place: Any) -> Any:
        if place is None:
            raise AttributeError("%s has no inputs yet: begin with keras.Input(shape) or call build(shape)" % self.name)
        return place


def clone_model(model: Any, input_tensors: Any = None, clone_function: Any = None, call_function: Any = None,
                recursive: bool = False) -> Any:
    """Another model of the same layers with weights of its own. clone_function: returns a layer for a layer."""
    if call_function is not None or recursive:
        raise NotImplementedError("clone_model: call_function and recursive are not there; give a clone_function")
    if not isinstance(model, (Sequential, Functional)):
        return type(model).from_config(model.get_config())
    if isinstance(model, Sequential):
        if clone_function is None and input_tensors is None:
            return type(model).from_config(model.get_config())
        made = Sequential(name=model.name)
        first = input_tensors if input_tensors is not None else model._input
        if first is not None:
            made.add(first if isinstance(first, KerasTensor) else Input(tensor=flatten(first)[0]))
        for layer in model.layers:
            made.add(clone_function(layer) if clone_function else type(layer).from_config(layer.get_config()))
        return made
    from ._model_config import functional_config, functional_of
    by_name = {layer.name: layer for layer in model.layers}
    clone = None if clone_function is None else lambda name: clone_function(by_name[name])
    kind: Any = Functional if type(model).get_config is not Functional.get_config else type(model)
    copy = functional_of(kind, functional_config(model), None, clone)
    return copy if input_tensors is None else Functional(input_tensors, copy(input_tensors), name=model.name)


def model_from_json(json_string: str, custom_objects: Any = None) -> Any:
    """The model, without weights, that to_json() said."""
    import json
    from ._serial import deserialize
    return deserialize(json.loads(json_string), custom_objects)


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, safe_mode: bool = True) -> Any:
    from .saving import load_model as load
    return load(filepath, custom_objects, compile, safe_mode)


def save_model(model: Any, filepath: Any, overwrite: bool = True, zipped: bool | None = None,
               include_optimizer: bool = True, save_format: str | None = None) -> None:
    from .saving import save_model as save
    save(model, filepath, overwrite, zipped, include_optimizer, save_format)
