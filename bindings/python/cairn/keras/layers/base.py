"""Layer: a Module as Keras's users write them: build() makes the weights when the first input shows its shape, call()
computes. Weights keep Keras's shapes, order and names; what call() computes with are cairn's ops.

`training` is what the caller said, or the model around it, as in Keras: a plain call does not train.
"""
from __future__ import annotations

import functools
import inspect
import re
from typing import Any, Callable, Iterable, Sequence

import cairn
from ... import nn
from ..._arguments import refused
from ...model import in_phase, phase
from ..._training.batches import array, flatten, mapped, to_tensor
from ..._training.strings import Strings, is_text, strings_of
from .. import constraints, initializers, regularizers
from .._graph import has_symbol, symbolic_call
from ..backend import dtype_of, open_scopes, unique_name
from .input_spec import InputSpec, check_inputs
from .options import found, given_to, options_of, plain
from .variable import Tracked, Variable, as_output, check_aggregation

__all__ = ["InputSpec", "Layer", "Variable"]


_takes: dict[Any, tuple[bool, bool, Any]] = {}  # class -> whether its call takes training, mask; training's default


def call_takes(layer: Layer) -> tuple[bool, bool, Any]:
    kind = type(layer)
    if kind not in _takes:
        names = inspect.signature(kind.call).parameters
        default = names["training"].default if "training" in names else None
        _takes[kind] = ("training" in names, "mask" in names,
                        None if default is inspect.Parameter.empty else default)
    return _takes[kind]


def snake(name: str) -> str:
    """LSTM: lstm, Conv2DTranspose: conv2d_transpose, ReLU: re_lu."""
    name = re.sub(r"\W", "", name)
    words = re.sub(r"(?<=.)(?=[A-Z][a-z])", "_", name)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", words).lower()


class Layer(nn.Module):  # unused: input_shape (Keras's signature)
    """To subclass with __init__, build(input_shape) where weights depend on sizes, and call(inputs)."""

    supports_masking = False
    _float_inputs = False  # whether integers as inputs become the layer's type

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        made = super().__new__(cls)
        made.__dict__["_given"] = (args, kwargs)
        return made

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """A build() of a program's own need not say that it is done."""
        super().__init_subclass__(**kwargs)
        own = vars(cls).get("build")
        if inspect.isfunction(own):
            @functools.wraps(own)
            def build(self: Any, *args: Any, **more: Any) -> Any:
                made = own(self, *args, **more)
                self.built = True
                return made
            setattr(cls, "build", build)

    def __init__(self, *, activity_regularizer: Any = None, trainable: bool = True, dtype: Any = None,
                 autocast: bool = True, name: str | None = None, **kwargs: Any) -> None:
        super().__init__()
        shape = kwargs.pop("input_shape", None)
        if "input_dim" in kwargs:
            shape = (kwargs.pop("input_dim"),)
        if "batch_input_shape" in kwargs:
            shape = tuple(kwargs.pop("batch_input_shape"))[1:]
        if kwargs:
            raise TypeError("%s has no argument %r" % (type(self).__name__, next(iter(kwargs))))
        self._own_name = name or unique_name(snake(type(self).__name__))
        self._trainable, self._dtype, self._autocast = trainable, getattr(dtype, "name", dtype), bool(autocast)
        self._given_shape = None if shape is None else tuple(shape)
        self.activity_regularizer = regularizers.get(activity_regularizer)
        self.built = False
        self._own_losses: list[Any] = []
        self.input_spec: Any = None
        self._built_for: Any = None

    # ---- attributes ----
    def __setattr__(self, name: str, value: Any) -> None:
        if type(value) is list and not name.startswith("_") and "_parameters" in self.__dict__ | _slots(self):
            value = Tracked(self, name, value)
        elif isinstance(value, dict) and not name.startswith("_"):
            for key, part in value.items():
                if isinstance(part, nn.Module):
                    self.add_module("%s_%s" % (name, key), part)
        elif isinstance(value, Variable) and name not in self._parameters:
            for old in [k for k, v in self._parameters.items() if v is value]:
                del self._parameters[old]
        super().__setattr__(name, value)

    @property
    def name(self) -> str:
        return self._own_name

    @property
    def dtype(self) -> str:
        return str(dtype_of(self._dtype)).rpartition(".")[2]

    variable_dtype = dtype

    @property
    def dtype_policy(self) -> Any:
        """In which type it computes, and in which it keeps weights."""
        from ..dtype_policies import DTypePolicy, dtype_policy
        return dtype_policy() if self._dtype is None else DTypePolicy(self.dtype)

    @property
    def compute_dtype(self) -> str:
        return str(self.dtype_policy.compute_dtype)

    @property
    def trainable(self) -> bool:
        return self._trainable

    @trainable.setter
    def trainable(self, value: bool) -> None:
        for layer in self.modules():
            if isinstance(layer, Layer):
                layer.__dict__["_trainable"] = bool(value)
                for weight in layer._parameters.values():
                    if weight is not None and getattr(weight, "trainable", True):
                        weight.requires_grad_(bool(value))
            else:
                for weight in layer._parameters.values():
                    if weight is not None:
                        weight.requires_grad_(bool(value))

    # ---- weights ----
    def add_weight(self, shape: Any = None, initializer: Any = None, dtype: Any = None, trainable: bool = True,
                   autocast: bool = True, regularizer: Any = None, constraint: Any = None, aggregation: str = "none",
                   overwrite_with_gradient: bool = False, name: Any = None) -> Any:
        """A weight of the layer's. aggregation: how replicas of it are joined; there is one."""
        check_aggregation(aggregation)
        refused("add_weight", "weights change by steps of an optimizer", False,
                overwrite_with_gradient=overwrite_with_gradient)
        if self.dtype_policy.mixed:
            refused("add_weight", "under a mixed policy the type of a product is the op's choice", True,
                    autocast=autocast)
        if isinstance(shape, str):
            shape, name = name, shape
        shape = () if shape is None else (shape,) if isinstance(shape, int) else tuple(shape)
        if any(n is None for n in shape):
            raise ValueError("%s: a weight of shape %s cannot be made: give the input a size there"
                             % (self.name, shape))
        kind = dtype_of(dtype or self._dtype)
        if initializer is None:
            initializer = "glorot_uniform" if kind.is_floating_point else "zeros"
        first = initializers.get(initializer)
        made = Variable(first(shape, kind), dtype=kind, trainable=trainable, name=name)
        made.regularizer, made.constraint = regularizers.get(regularizer), constraints.get(constraint)
        key = name if isinstance(name, str) and name.isidentifier() and not hasattr(self, name) else None
        n = 0
        while key is None or key in self._parameters:
            key, n = "weight_%d" % n, n + 1
        made.path = "/".join([*open_scopes(), self.name, name or key])
        if not self._trainable:
            made.requires_grad_(False)
        self.register_parameter(key, made)
        return made

    def build(self, input_shape: Any) -> None:
        """Makes the weights for inputs of this shape. To override; by default there are none."""
        self.built = True

    def _layers(self) -> Iterable[Any]:
        return (child for child in self.children() if isinstance(child, nn.Module))

    @property
    def trainable_weights(self) -> list[Any]:
        return _unique(w for w in self._ordered() if w.requires_grad)

    @property
    def non_trainable_weights(self) -> list[Any]:
        return _unique(w for w in self._ordered() if not w.requires_grad)

    @property
    def weights(self) -> list[Any]:
        """Trainable ones of each layer first, then the others of it, layer after layer."""
        return _unique(self._ordered())

    def _ordered(self) -> Iterable[Any]:
        own = [w for w in self._parameters.values() if w is not None]
        yield from (w for w in own if getattr(w, "trainable", True))
        yield from (w for w in own if not getattr(w, "trainable", True))
        for child in self._layers():
            if isinstance(child, Layer):
                yield from child._ordered()
            else:
                yield from child.parameters()

    variables = property(lambda self: self.weights)
    trainable_variables = property(lambda self: self.trainable_weights)
    non_trainable_variables = property(lambda self: self.non_trainable_weights)

    def get_weights(self) -> list[Any]:
        """Copies as numpy's arrays (tensors where it is not installed)."""
        return [array(w.clone()) for w in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        own = self.weights
        if len(weights) != len(own):
            raise ValueError("%s has %d weights, not %d%s" % (
                self.name, len(own), len(weights), "" if self.built else " (it is not built: call it on data first)"))
        for mine, value in zip(own, weights):
            value = to_tensor(value)
            if tuple(value.shape) != tuple(mine.shape):
                raise ValueError("%s: a weight of shape %s cannot be set to one of shape %s"
                                 % (self.name, tuple(mine.shape), tuple(value.shape)))
            with cairn.no_grad():
                mine.copy_(value)

    def count_params(self) -> int:
        return sum(int(w.numel()) for w in self.weights)

    # ---- losses of its own ----
    def add_loss(self, loss: Any) -> None:
        """Adds to what the model around it trains on, for this call."""
        self._own_losses.extend(loss if isinstance(loss, (list, tuple)) else [loss])

    def _clear_losses(self) -> None:
        for layer in self.modules():
            if isinstance(layer, Layer) and layer._own_losses:
                layer._own_losses.clear()

    @property
    def losses(self) -> list[Any]:
        """What weights (regularizers) and calls (add_loss) add to the loss."""
        found = []
        for layer in self.modules():
            if isinstance(layer, Layer):
                found += layer._own_losses
                found += [w.regularizer(w) for w in layer._parameters.values()
                          if getattr(w, "regularizer", None) is not None and w.requires_grad]
        return found

    # ---- calls ----
    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        raise NotImplementedError("%s has no method call(inputs)" % type(self).__name__)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.call(*args, **kwargs)

    def _prepared(self, value: Any) -> Any:
        """Tensors of arrays; floats, and for most layers other numbers too, in the layer's type."""
        if not isinstance(value, cairn.Tensor):
            if not hasattr(value, "__array__") or has_symbol(value):
                return value
            value = to_tensor(value)
            if isinstance(value, Strings):
                return value
        want = dtype_of(self._dtype)
        numbers = value.dtype.is_floating_point or self._float_inputs and value.dtype != cairn.bool
        if self._autocast and value.dtype != want and numbers:
            mask = getattr(value, "_keras_mask", None)
            value = value.to(want)
            if mask is not None:
                value._keras_mask = mask
        return value

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if has_symbol((args, kwargs)):
            return symbolic_call(self, args, kwargs)
        outermost = phase.training is None
        if outermost:
            self._clear_losses()
        if args and isinstance(args[0], (str, list, tuple)) and is_text(args[0]):
            args = (strings_of(args[0]),) + args[1:]
        args, kwargs = mapped(self._prepared, args), mapped(self._prepared, kwargs)
        if self.input_spec is not None and args:
            check_inputs(self.input_spec, args[0], self.name)
        takes_training, takes_mask, default = call_takes(self)
        training = kwargs.pop("training", None)
        if training is None:
            training = phase.training if phase.training is not None else bool(default)
        if takes_training:
            kwargs["training"] = bool(training)
        masks = mapped(lambda t: getattr(t, "_keras_mask", None), args[0]) if args else None
        masked = any(m is not None for m in flatten(masks))
        if takes_mask and masked and kwargs.get("mask") is None and len(args) == 1:
            kwargs["mask"] = masks
        if not self.built:
            self._build(args, kwargs)
        with in_phase(bool(training)):
            out = super().__call__(*args, **kwargs)
        shape = getattr(out, "shape", None)
        self.__dict__["_seen_shape"] = None if shape is None else (None,) + tuple(shape)[1:]  # for summary()
        if self.activity_regularizer is not None:
            self._own_losses.append(self.activity_regularizer(out) / out.shape[0])
        if masked or hasattr(type(self), "compute_mask"):
            self._mark(args[0], masks if masked else kwargs.get("mask"), out)
        return mapped(as_output, out) if outermost else out

    def _mark(self, inputs: Any, masks: Any, out: Any) -> None:
        """Says of the output which places count."""
        made = getattr(self, "compute_mask", None)
        if made is not None:
            mask = made(inputs, masks)
        else:
            mask = next((m for m in flatten(masks) if m is not None), None) if self.supports_masking else None
        for t, m in zip(flatten(out), flatten(mask)) if mask is not None else ():
            if isinstance(t, cairn.Tensor) and m is not None:
                setattr(t, "_keras_mask", m)

    def _build(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """build() with the shapes it names: its first argument's, or query_shape and the like."""
        def shape(value: Any) -> Any:
            if isinstance(value, (cairn.Tensor, Strings)):
                return tuple(int(n) for n in value.shape)
            if isinstance(value, dict):
                return {k: shape(v) for k, v in value.items()}
            return [shape(v) for v in value] if isinstance(value, (list, tuple)) else None
        wants = [p for p in inspect.signature(self.build).parameters.values()
                 if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        device = next((t.device for t in flatten(args) if isinstance(t, cairn.Tensor)), None)
        if len(wants) <= 1:
            first = args[0] if args else next(iter(kwargs.values()), None)
            self._built_for = shape(first)
            self.build(*([self._built_for] if wants else []))
        else:
            named = dict(zip(inspect.signature(self.call).parameters, args)) | kwargs
            self.build(**{p.name: shape(named.get(p.name.removesuffix("_shape"))) for p in wants
                          if named.get(p.name.removesuffix("_shape")) is not None})
        self.built = True
        if device is not None and any(p.device != device for p in self.parameters()):
            self.to(device)

    @property
    def output(self) -> Any:
        """The place of its (last) output in a functional model."""
        nodes = self.__dict__.get("_nodes") or []
        if not nodes:
            raise AttributeError("%s has not been called on an Input" % self.name)
        outputs = nodes[0].outputs
        return outputs[0] if len(outputs) == 1 else outputs

    @property
    def input(self) -> Any:
        nodes = self.__dict__.get("_nodes") or []
        if not nodes:
            raise AttributeError("%s has not been called on an Input" % self.name)
        inputs = nodes[0].inputs
        return inputs[0] if len(inputs) == 1 else inputs

    # ---- options ----
    def _options(self, **given: Any) -> None:
        """Keeps arguments as attributes; names of initialisers and the like become those."""
        for name, value in given.items():
            setattr(self, name, found(name, value))

    def _weight(self, name: str, shape: Any, kind: str | None = None, trainable: bool = True) -> Any:
        """A weight with the initialiser, regulariser and constraint that the options have for it (for its kind)."""
        kind = kind or name
        return self.add_weight(shape, getattr(self, kind + "_initializer", None), trainable=trainable, name=name,
                               regularizer=getattr(self, kind + "_regularizer", None),
                               constraint=getattr(self, kind + "_constraint", None))

    def get_config(self) -> dict[str, Any]:
        """What it was made with; from_config makes another."""
        config = self._base_config()
        own = type(self).get_config is Layer.get_config
        args, kwargs = self.__dict__["_given"]
        given = given_to(type(self), args, kwargs) if own else {}
        for name, default in options_of(type(self), own):
            value = given.get(name, default)
            kept = getattr(self, name, value)
            if not (callable(kept) and getattr(kept, "__self__", None) is self) and not isinstance(kept, cairn.Tensor) \
                    and not (isinstance(kept, nn.Module) and not isinstance(value, (nn.Module, dict))):
                value = kept
            config[name] = plain(name, list(value) if isinstance(value, Tracked) else value)
        return config

    def _base_config(self) -> dict[str, Any]:
        """The part that all layers have."""
        config: dict[str, Any] = {"name": self.name, "trainable": self._trainable,
                                  "dtype": self.dtype if self._dtype is None else self._dtype}
        if self.activity_regularizer is not None and "activity_regularizer" not in getattr(self, "_not_options", ()):
            config["activity_regularizer"] = plain("regularizer", self.activity_regularizer)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        return cls(**config)

    def get_build_config(self) -> dict[str, Any] | None:
        return None if self._built_for is None else {"input_shape": self._built_for}

    def build_from_config(self, config: dict[str, Any]) -> None:
        if config and not self.built:
            self.build(config["input_shape"])

    def compute_output_shape(self, input_shape: Any, *more: Any) -> Any:
        """The shape of the output for inputs of this shape, None for open sizes; the layer stays as it is."""
        from .._graph import KerasTensor
        layer = self
        if not self.built:
            try:
                layer = type(self).from_config(self.get_config())
            except (TypeError, ValueError):
                pass
        before = len(layer.__dict__.get("_nodes") or ())
        state = cairn.get_rng_state()
        places = [[KerasTensor(s) for s in given] if given and isinstance(given[0], (list, tuple)) else
                  KerasTensor(given) for given in (input_shape, *more)]
        made = layer(*places)
        cairn.set_rng_state(state)
        del layer.__dict__["_nodes"][before:]
        return mapped(lambda t: t.shape, made)

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        """Places without numbers for what a call on such places returns."""
        return symbolic_call(self, args, kwargs)

    def __repr__(self) -> str:
        return "<%s name=%s, built=%s>" % (type(self).__name__, self.name, self.built)


def _slots(layer: Any) -> dict[str, Any]:
    """Modules keep their dictionaries in __dict__, or as attributes of the object in C."""
    return {"_parameters": True} if getattr(layer, "_parameters", None) is not None else {}


def _unique(values: Iterable[Any]) -> list[Any]:
    seen: set[int] = set()
    return [v for v in values if not (id(v) in seen or seen.add(id(v)))]  # type: ignore[func-returns-value]


Activation = Callable[..., Any]
