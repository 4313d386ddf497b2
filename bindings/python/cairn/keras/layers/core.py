"""Dense, EinsumDense, Embedding, Masking, functions as layers, and layers around others."""
from __future__ import annotations

from typing import Any, Callable

import cairn
from ... import nn
from ..._arguments import refused
from ...nn import functional as F
from ..._training.batches import mapped
from .. import initializers
from ..backend import dtype_of
from .base import Layer

__all__ = ["Dense", "EinsumDense", "Embedding", "Identity", "InputLayer", "Lambda", "Masking", "ReversibleEmbedding",
           "SpectralNormalization", "TorchModuleWrapper", "Wrapper"]


class InputLayer(Layer):
    """The shape of a Sequential's inputs."""

    _not_options = ("shape", "batch_size", "input_shape", "input_tensor")

    def __init__(self, shape: Any = None, batch_size: int | None = None, dtype: Any = None, sparse: Any = None,
                 ragged: Any = None, batch_shape: Any = None, input_tensor: Any = None, optional: bool = False,
                 name: str | None = None, input_shape: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        if sparse or ragged:
            raise ValueError("inputs are dense: InputLayer(sparse=True) and InputLayer(ragged=True) are not there")
        refused("InputLayer", "a place has a layer already; Input(tensor=...) takes it", input_tensor=input_tensor)
        shape = shape if shape is not None else input_shape
        if shape is None and batch_shape is None:
            raise ValueError("InputLayer needs a shape")
        self.batch_shape = tuple(batch_shape) if batch_shape is not None else (batch_size,) + tuple(shape)
        self.sparse = self.ragged = False
        self.optional, self.built = optional, True

    def get_config(self) -> dict[str, Any]:
        return {"batch_shape": list(self.batch_shape), "dtype": self.dtype, "sparse": False, "ragged": False,
                "name": self.name, "optional": self.optional}

    def call(self, inputs: Any) -> Any:
        return inputs


class Lambda(Layer):
    """A function of the inputs as a layer."""

    def __init__(self, function: Callable[..., Any], output_shape: Any = None, mask: Any = None, arguments: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function, self.arguments, self._mask = function, dict(arguments or {}), mask
        self._shape = output_shape
        self.supports_masking = mask is not None
        self.built = True

    def get_config(self) -> dict[str, Any]:
        return {**self._base_config(), "function": self.function, "arguments": self.arguments,
                **({} if self._shape is None else {"output_shape": self._shape})}

    def call(self, inputs: Any, mask: Any = None, training: Any = None) -> Any:
        import inspect
        try:
            names: Any = inspect.signature(self.function).parameters
        except (TypeError, ValueError):
            names = ()
        more = {k: v for k, v in (("mask", mask), ("training", training)) if k in names and k not in self.arguments}
        return agreed(self, self._shape, inputs, self.function(inputs, **self.arguments, **more))

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return self._mask(inputs, mask) if callable(self._mask) else self._mask


def agreed(layer: Layer, said: Any, inputs: Any, out: Any) -> Any:
    """What a function of a program's own computed, whose shape is the one that the program said (None: any)."""
    if said is None or not isinstance(out, cairn.Tensor):
        return out
    if callable(said):
        shape = tuple(said(mapped(lambda t: tuple(int(n) for n in t.shape), inputs)))
    else:
        shape = (None,) + ((said,) if isinstance(said, int) else tuple(said))
    if len(shape) != out.ndim or any(a is not None and a != int(b) for a, b in zip(shape, out.shape)):
        raise ValueError("%s was made with output_shape for %s and computes %s"
                         % (layer.name, shape, tuple(out.shape)))
    return out


class Identity(Layer):
    supports_masking = True

    def call(self, inputs: Any) -> Any:
        return inputs


class Dense(Layer):
    """activation(inputs @ kernel + bias) over the last dimension."""

    _float_inputs = supports_masking = True

    def __init__(self, units: int, activation: Any = None, use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if not hasattr(units, "__index__") or units <= 0:
            raise ValueError("Dense needs a positive number of units, not %r" % (units,))
        self._options(units=int(units), activation=activation, use_bias=use_bias, kernel_initializer=kernel_initializer,
                      bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer,
                      bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
                      bias_constraint=bias_constraint)
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        self.kernel = self._weight("kernel", (input_shape[-1], self.units))
        if self.use_bias:
            self.bias = self._weight("bias", (self.units,))
        self.built = True

    def call(self, inputs: Any) -> Any:
        if inputs.shape[-1] != self.kernel.shape[0]:
            raise ValueError("%s was built for inputs of %d features; these have shape %s"
                             % (self.name, self.kernel.shape[0], tuple(inputs.shape)))
        return self.activation(F.linear(inputs, self.kernel.t(), self.bias))


class EinsumDense(Layer):
    """activation(einsum(equation, inputs, kernel) + bias)."""

    _float_inputs = True
    _not_options = ("output_shape",)

    def __init__(self, equation: str, output_shape: Any, activation: Any = None, bias_axes: str | None = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, kernel_constraint: Any = None,
                 bias_constraint: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(equation=equation, activation=activation, bias_axes=bias_axes,
                      kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
                      kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
                      kernel_constraint=kernel_constraint, bias_constraint=bias_constraint)
        self.partial_output_shape = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.bias: Any = None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "output_shape": self.partial_output_shape}

    def build(self, input_shape: Any) -> None:
        left, out = self.equation.replace(" ", "").split("->")
        into, kernel = left.split(",")
        size: dict[str, int] = {}

        def note(letters: str, shape: tuple[Any, ...]) -> None:
            """Sizes by letter: those before ... from the front, the others from the back."""
            head, _, tail = letters.partition("...")
            pairs = list(zip(head, shape)) + list(zip(reversed(tail), reversed(shape)))
            size.update({c: int(n) for c, n in pairs if n is not None})
        note(out, (None,) + self.partial_output_shape)
        note(into, tuple(input_shape))
        missing = [c for c in kernel if c not in size]
        if missing:
            raise ValueError("%s: the size of %r in %s follows from neither the inputs nor output_shape=%s"
                             % (self.name, missing[0], self.equation, self.partial_output_shape))
        self.kernel = self._weight("kernel", tuple(size[c] for c in kernel))
        if self.bias_axes:
            letters = out.replace("...", "")
            at = min(letters.index(c) for c in self.bias_axes)
            self.bias = self._weight("bias", tuple(size[c] if c in self.bias_axes else 1 for c in letters[at:]))
        self.built = True

    def call(self, inputs: Any) -> Any:
        out = cairn.einsum(self.equation, inputs, self.kernel)
        return self.activation(out if self.bias is None else out + self.bias)


class Embedding(Layer):  # unused: mask (Keras's signature)
    """Rows of a table by number. mask_zero: places with 0 do not count for the layers behind."""

    _not_options = ("weights", "input_length")

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
                 embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
                 weights: Any = None, input_length: int | None = None, **kwargs: Any) -> None:
        if input_length is not None:
            kwargs.setdefault("input_shape", (input_length,))
        super().__init__(**kwargs)
        self._options(input_dim=int(input_dim), output_dim=int(output_dim), mask_zero=mask_zero,
                      embeddings_initializer=embeddings_initializer, embeddings_regularizer=embeddings_regularizer,
                      embeddings_constraint=embeddings_constraint)
        self.embeddings = self._weight("embeddings", (self.input_dim, self.output_dim))
        if weights is not None:
            self.embeddings.assign(weights[0] if isinstance(weights, (list, tuple)) else weights)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.embedding(inputs.long(), self.embeddings)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return inputs != 0 if self.mask_zero else None


class ReversibleEmbedding(Embedding):
    """An Embedding that also goes back: reverse=True returns a score of each row."""

    def __init__(self, input_dim: int, output_dim: int, tie_weights: bool = True,
                 embeddings_initializer: Any = "uniform", embeddings_regularizer: Any = None,
                 embeddings_constraint: Any = None, mask_zero: bool = False, reverse_dtype: Any = None,
                 logit_soft_cap: float | None = None, **kwargs: Any) -> None:
        super().__init__(input_dim, output_dim, embeddings_initializer, embeddings_regularizer, embeddings_constraint,
                         mask_zero, **kwargs)
        self._options(tie_weights=tie_weights, reverse_dtype=reverse_dtype, logit_soft_cap=logit_soft_cap)
        if not tie_weights:
            self.reverse_embeddings = self._weight("reverse_embeddings", (self.output_dim, self.input_dim),
                                                   "embeddings")

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        if not reverse:
            return super().call(inputs)
        rows = self.embeddings.t() if self.tie_weights else self.reverse_embeddings
        if self.reverse_dtype is not None:
            inputs, rows = (t.to(dtype_of(self.reverse_dtype)) for t in (inputs, rows))
        scores = inputs @ rows
        cap = self.logit_soft_cap
        return scores if cap is None else (scores / cap).tanh() * cap

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None if inputs.dtype.is_floating_point else super().compute_mask(inputs, mask)


class Masking(Layer):  # unused: mask (Keras's signature)
    """Steps whose numbers are all mask_value do not count for the layers behind."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._options(mask_value=mask_value)
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return (inputs != self.mask_value).any(-1)

    def call(self, inputs: Any) -> Any:
        return inputs.masked_fill(~self.compute_mask(inputs).unsqueeze(-1), 0.0)


# ---- layers around others ----
class Wrapper(Layer):
    """A layer around another, for subclasses."""

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(layer, Layer):
            raise TypeError("%s goes around a layer, not %r" % (type(self).__name__, layer))
        self.layer = layer

    def build(self, input_shape: Any = None) -> None:
        if not self.layer.built:
            self.layer.build(input_shape)
            self.layer.built = True
        self.built = True

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return cls(**Wrapper.unpacked(config, custom_objects))

    @staticmethod
    def unpacked(config: dict[str, Any], custom_objects: Any) -> dict[str, Any]:
        """A configuration with layers for theirs."""
        from .._serial import deserialize
        return {k: deserialize(v, custom_objects) if k.endswith("layer") and isinstance(v, dict) else v
                for k, v in config.items()}


class SpectralNormalization(Wrapper):
    """A layer whose kernel is divided by its largest singular value, which each training step estimates anew."""

    def __init__(self, layer: Any, power_iterations: int = 1, **kwargs: Any) -> None:
        super().__init__(layer, **kwargs)
        if power_iterations <= 0:
            raise ValueError("power_iterations is positive, not %r" % (power_iterations,))
        self._options(power_iterations=power_iterations)

    def build(self, input_shape: Any = None) -> None:
        super().build(input_shape)
        name = next((n for n in ("kernel", "embeddings") if getattr(self.layer, n, None) is not None), None)
        if name is None:
            raise ValueError("SpectralNormalization needs a layer with a kernel or embeddings, not %r" % self.layer)
        self.kernel = getattr(self.layer, name)
        self.vector_u = self.add_weight((1, self.kernel.shape[-1]), initializers.TruncatedNormal(stddev=0.02),
                                        trainable=False, name="vector_u")

    def call(self, inputs: Any, training: bool = False) -> Any:
        if training:
            self._normalize()
        return self.layer(inputs)

    def _normalize(self) -> None:
        kernel = self.kernel
        with cairn.no_grad():
            rows, u = kernel.reshape(-1, kernel.shape[-1]), self.vector_u.detach()
            if not rows.any():
                return
            for _ in range(self.power_iterations):
                v = _unit(u @ rows.t())
                u = _unit(v @ rows)
            self.vector_u.copy_(u)
            kernel.copy_(kernel / (v @ rows @ u.t()).reshape(()))


def _unit(x: Any) -> Any:
    return x * (x.square().sum().clamp(min=1e-12)).rsqrt()


class TorchModuleWrapper(Layer):
    """A module of cairn.nn as a layer of a Keras model: its parameters are weights, its modes follow training."""

    _float_inputs = False

    def __init__(self, module: Any, name: str | None = None, output_shape: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, **kwargs)
        if not isinstance(module, nn.Module):
            raise TypeError("TorchModuleWrapper wraps a cairn.nn.Module, not %r" % (module,))
        self.module, self._shape = module, output_shape
        self.built = True

    def call(self, *args: Any, training: bool | None = None, **kwargs: Any) -> Any:
        if training is not None and training != self.module.training:
            self.module.train(bool(training))
        return agreed(self, self._shape, args[0] if args else None, self.module(*args, **kwargs))

    def get_config(self) -> dict[str, Any]:
        raise ValueError("%s wraps a module, which has no configuration; save its weights" % self.name)
