"""Model (of inputs and outputs, or a subclass with call) and Sequential."""
from __future__ import annotations

from typing import Any, Iterable

import cairn
from .. import nn
from ..model import Trainer, phase
from ._batches import flatten, mapped, to_tensor
from ._graph import Input, KerasTensor, nodes_between
from .layers.base import Layer
from .layers.core import InputLayer

__all__ = ["Functional", "Model", "Sequential", "clone_model", "load_model"]


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

    def _predictions(self, x: Any, training: bool) -> Any:
        self._clear_losses()
        net: Any = self
        return net(x, training=training)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if phase.training is None:
            self._clear_losses()
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
        """Makes the weights for inputs of this shape (None for the batch)."""
        self.built = True
        plain = isinstance(input_shape, (list, tuple)) and input_shape and input_shape[0] is None
        if plain and not any(True for _ in self.parameters()):
            zeros = cairn.zeros(tuple(1 if n is None else int(n) for n in input_shape))
            with cairn.no_grad():
                self(zeros, training=False)

    def count_params(self) -> int:
        return Layer.count_params(self)

    def zero_grad(self, set_to_none: bool = True) -> None:
        for p in self.parameters():
            p.grad = None

    # ---- files ----
    def save(self, filepath: Any, overwrite: bool = True, **ignored: Any) -> None:
        """The model with its layers and weights in one file; load_model opens it. A name that ends with .weights.h5 or
        the like has the weights alone."""
        from .saving import save_model
        save_model(self, filepath, overwrite)

    def save_weights(self, filepath: Any, overwrite: bool = True) -> None:
        from .saving import save_weights
        save_weights(self, filepath, overwrite)

    def load_weights(self, filepath: Any, skip_mismatch: bool = False) -> None:
        from .saving import load_weights
        load_weights(self, filepath, skip_mismatch)

    def to_json(self, **kwargs: Any) -> str:
        import json
        from .saving import serialize
        return json.dumps(serialize(self), **kwargs)

    def _state_for_restore(self) -> dict[str, Any]:
        return {name: value.detach().clone() for name, value in self.state_dict().items()}


class Functional(Model):
    """The nodes between inputs and outputs."""

    def __init__(self, inputs: Any, outputs: Any, name: str | None = None, **kwargs: Any) -> None:
        Layer.__init__(self, name=name, **kwargs)
        self._inputs, self._outputs = inputs, outputs
        self._places = flatten(inputs)
        for place in self._places:
            if not isinstance(place, KerasTensor):
                raise TypeError("inputs of a Model come from Input(), not %r" % (place,))
        self._order = nodes_between(self._places, flatten(outputs))
        known = set()
        for node in self._order:
            layer = node.layer
            if id(layer) in known:
                continue
            known.add(id(layer))
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
        return value

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        values: dict[int, Any] = {id(p): v for p, v in zip(self._places, self._given_inputs(inputs))}

        def now(t: Any) -> Any:
            return values[id(t)] if isinstance(t, KerasTensor) else t
        for node in self._order:
            out = node.layer(*mapped(now, node.args), **mapped(now, node.kwargs))
            made = [t for t in flatten(out) if isinstance(t, cairn.Tensor)]
            for place, value in zip(node.outputs, made):
                values[id(place)] = value
        return mapped(now, self._outputs)

    def build(self, input_shape: Any = None) -> None:
        self.built = True


class Sequential(Model):
    """Layers one after the other; add() puts one more behind."""

    def __init__(self, layers: Iterable[Any] | None = None, trainable: bool = True, name: str | None = None) -> None:
        Layer.__init__(self, name=name, trainable=trainable)
        self._input: KerasTensor | None = None
        self._output: Any = None
        for layer in layers or ():
            self.add(layer)

    def add(self, layer: Any) -> None:
        if isinstance(layer, KerasTensor):
            self._input = self._output = layer
            return
        if isinstance(layer, InputLayer):
            self._input = self._output = KerasTensor(layer.batch_shape, layer._dtype, layer.name)
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

    def build(self, input_shape: Any = None) -> None:
        if self._input is None and input_shape is not None and not isinstance(input_shape[0], (list, tuple)):
            self._rebuild(KerasTensor((None,) + tuple(input_shape)[1:]))
        self.built = True

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        if not self._modules:
            return inputs
        x = to_tensor(inputs)
        if self._input is not None and x.ndim == len(self._input.shape) - 1 and self._input.shape[-1] == 1:
            x = x.unsqueeze(-1)
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

    def _need(self, place: Any) -> Any:
        if place is None:
            raise AttributeError("%s has no inputs yet: begin with keras.Input(shape) or call build(shape)" % self.name)
        return place


def clone_model(model: Any, **ignored: Any) -> Any:
    """Another model of the same layers with weights of its own."""
    from .saving import deserialize, serialize
    return deserialize(serialize(model))


def load_model(filepath: Any, custom_objects: Any = None, compile: bool = True, **ignored: Any) -> Any:
    from .saving import load_model as load
    return load(filepath, custom_objects, compile)
