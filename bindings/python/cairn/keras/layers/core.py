"""Dense, Embedding, activations, dropout, shapes, merging: the layers without a window."""
from __future__ import annotations

import math
from typing import Any, Callable

import cairn
from ...nn import functional as F
from .. import activations
from .base import Layer

__all__ = ["ELU", "Activation", "ActivityRegularization", "Add", "AlphaDropout", "Average", "Concatenate", "Dense",
           "Dot", "Dropout", "EinsumDense", "Embedding", "Flatten", "GaussianDropout", "GaussianNoise", "Identity",
           "InputLayer", "Lambda", "LeakyReLU", "Masking", "Maximum", "Minimum", "Multiply", "PReLU", "Permute", "ReLU",
           "RepeatVector", "Reshape", "Softmax", "SpatialDropout1D", "SpatialDropout2D", "Subtract", "add", "average",
           "concatenate", "dot", "maximum", "minimum", "multiply", "subtract"]


class InputLayer(Layer):
    """The shape of a Sequential's inputs."""

    def __init__(self, shape: Any = None, batch_size: int | None = None, dtype: Any = None, batch_shape: Any = None,
                 name: str | None = None, input_shape: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        shape = shape if shape is not None else input_shape
        self.batch_shape = tuple(batch_shape) if batch_shape is not None else (batch_size,) + tuple(shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs


class Function(Layer):
    """A function as a layer: what operators and cairn.keras.ops become while a model is built."""

    def __init__(self, function: Callable[..., Any] | None = None, name: str | None = None,
                 op: str | None = None) -> None:
        super().__init__(name=name)
        if function is None:
            from .._graph import operators
            from .. import ops
            function = operators.get(op or "") or getattr(ops, op or "")
        self.function, self.op = function, op
        self.built = True

    def get_config(self) -> dict[str, Any]:
        if self.op is None:
            raise ValueError("%s is a function without a name and cannot be saved; make it a layer" % self.name)
        return {"name": self.name, "op": self.op}

    def call(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)


class Lambda(Layer):
    """A function of the inputs as a layer."""

    def __init__(self, function: Callable[..., Any], output_shape: Any = None, mask: Any = None, arguments: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.function, self.arguments = function, arguments or {}
        self.built = True

    def call(self, inputs: Any) -> Any:
        return self.function(inputs, **self.arguments)


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
        if not isinstance(units, int) or units <= 0:
            raise ValueError("Dense needs a positive number of units, not %r" % (units,))
        self.units, self.use_bias, self.activation = units, use_bias, activations.get(activation)
        self.how = (kernel_initializer, kernel_regularizer, kernel_constraint)
        self.how_bias = (bias_initializer, bias_regularizer, bias_constraint)
        self.bias: Any = None

    def build(self, input_shape: Any) -> None:
        first, regular, keep = self.how
        self.kernel = self.add_weight((input_shape[-1], self.units), first, regularizer=regular, constraint=keep,
                                      name="kernel")
        if self.use_bias:
            first, regular, keep = self.how_bias
            self.bias = self.add_weight((self.units,), first, regularizer=regular, constraint=keep, name="bias")
        self.built = True

    def call(self, inputs: Any) -> Any:
        if inputs.shape[-1] != self.kernel.shape[0]:
            raise ValueError("%s was built for inputs of %d features; these have shape %s"
                             % (self.name, self.kernel.shape[0], tuple(inputs.shape)))
        return self.activation(F.linear(inputs, self.kernel.t(), self.bias))


class EinsumDense(Layer):
    """activation(einsum(equation, inputs, kernel) + bias)."""

    _float_inputs = True

    def __init__(self, equation: str, output_shape: Any, activation: Any = None, bias_axes: str | None = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.equation, self.activation, self.bias_axes = equation, activations.get(activation), bias_axes
        self.sizes = (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.how, self.bias = (kernel_initializer, bias_initializer), None

    def build(self, input_shape: Any) -> None:
        left, out = self.equation.replace(" ", "").split("->")
        into, kernel = left.split(",")
        size: dict[str, int] = {}
        for letters, shape in ((into, input_shape), (out, (input_shape[0],) + self.sizes)):
            letters = letters.replace("...", "")
            for letter, n in zip(reversed(letters), reversed(shape)):
                if n is not None:
                    size[letter] = int(n)
        self.kernel = self.add_weight(tuple(size[c] for c in kernel), self.how[0], name="kernel")
        if self.bias_axes:
            letters = out.replace("...", "")
            at = min(letters.index(c) for c in self.bias_axes)
            self.bias = self.add_weight(tuple(size[c] if c in self.bias_axes else 1 for c in letters[at:]), self.how[1],
                                        name="bias")
        self.built = True

    def call(self, inputs: Any) -> Any:
        out = cairn.einsum(self.equation, inputs, self.kernel)
        return self.activation(out if self.bias is None else out + self.bias)


class Embedding(Layer):
    """Rows of a table by number. mask_zero: places with 0 do not count for the layers behind."""

    def __init__(self, input_dim: int, output_dim: int, embeddings_initializer: Any = "uniform",
                 embeddings_regularizer: Any = None, embeddings_constraint: Any = None, mask_zero: bool = False,
                 weights: Any = None, input_length: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.input_dim, self.output_dim, self.mask_zero = input_dim, output_dim, mask_zero
        self.embeddings = self.add_weight((input_dim, output_dim), embeddings_initializer, name="embeddings",
                                          regularizer=embeddings_regularizer, constraint=embeddings_constraint)
        if weights is not None:
            self.embeddings.assign(weights[0] if isinstance(weights, (list, tuple)) else weights)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.embedding(inputs.long(), self.embeddings)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return inputs != 0 if self.mask_zero else None


class Masking(Layer):
    """Steps whose numbers are all mask_value do not count for the layers behind."""

    def __init__(self, mask_value: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.mask_value = mask_value

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return (inputs != self.mask_value).any(-1)

    def call(self, inputs: Any) -> Any:
        return inputs * self.compute_mask(inputs).unsqueeze(-1).to(inputs.dtype)


# ---- activations ----
class Activation(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, activation: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.activation = activations.get(activation)

    def call(self, inputs: Any) -> Any:
        return self.activation(inputs)


class ReLU(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, max_value: float | None = None, negative_slope: float = 0.0, threshold: float = 0.0,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_value, self.negative_slope, self.threshold = max_value, negative_slope, threshold

    def call(self, inputs: Any) -> Any:
        return activations.relu(inputs, self.negative_slope, self.max_value, self.threshold)


class LeakyReLU(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, negative_slope: float = 0.3, alpha: float | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.negative_slope = negative_slope if alpha is None else alpha

    def call(self, inputs: Any) -> Any:
        return F.leaky_relu(inputs, self.negative_slope)


class ELU(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, alpha: float = 1.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.alpha = alpha

    def call(self, inputs: Any) -> Any:
        return F.elu(inputs, self.alpha)


class PReLU(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, alpha_initializer: Any = "zeros", alpha_regularizer: Any = None, shared_axes: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.how = (alpha_initializer, alpha_regularizer)
        self.shared = () if shared_axes is None else tuple(shared_axes if isinstance(shared_axes, (list, tuple))
                                                          else [shared_axes])

    def build(self, input_shape: Any) -> None:
        shape = tuple(1 if i in self.shared else n for i, n in enumerate(input_shape) if i)
        self.alpha = self.add_weight(shape, self.how[0], regularizer=self.how[1], name="alpha")
        self.built = True

    def call(self, inputs: Any) -> Any:
        return F.relu(inputs) - self.alpha * F.relu(-inputs)


class Softmax(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any, mask: Any = None) -> Any:
        if mask is not None:
            inputs = inputs.masked_fill(~mask.to(cairn.bool), -3e38 if inputs.dtype != cairn.float16 else -3e4)
        return F.softmax(inputs, dim=self.axis)


class ActivityRegularization(Layer):
    supports_masking = True

    def __init__(self, l1: float = 0.0, l2: float = 0.0, **kwargs: Any) -> None:
        from ..regularizers import L1L2
        super().__init__(activity_regularizer=L1L2(l1, l2), **kwargs)

    def call(self, inputs: Any) -> Any:
        return inputs


# ---- noise ----
class Dropout(Layer):
    """Zeros for a part of the numbers while training."""

    _float_inputs = supports_masking = True

    def __init__(self, rate: float, noise_shape: Any = None, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not 0 <= rate <= 1:
            raise ValueError("the rate of %s is between 0 and 1, not %r" % (type(self).__name__, rate))
        self.rate, self.noise_shape, self.seed = rate, noise_shape, seed
        self.built = True

    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or not self.rate:
            return inputs
        if self.noise_shape is None:
            return F.dropout(inputs, self.rate, training=True)
        shape = tuple(int(inputs.shape[i]) if n is None else n for i, n in enumerate(self.noise_shape))
        return inputs * F.dropout(cairn.ones(shape, dtype=inputs.dtype, device=inputs.device), self.rate, training=True)


class SpatialDropout1D(Dropout):
    def __init__(self, rate: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(rate, (None, 1, None), seed, **kwargs)


class SpatialDropout2D(Dropout):
    def __init__(self, rate: float, data_format: str | None = None, seed: int | None = None, **kwargs: Any) -> None:
        first = data_format == "channels_first"
        super().__init__(rate, (None, None, 1, 1) if first else (None, 1, 1, None), seed, **kwargs)


class AlphaDropout(Dropout):
    def call(self, inputs: Any, training: bool = False) -> Any:
        return F.alpha_dropout(inputs, self.rate, training=bool(training))


class GaussianNoise(Layer):
    _float_inputs = supports_masking = True

    def __init__(self, stddev: float, seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.stddev = stddev

    def call(self, inputs: Any, training: bool = False) -> Any:
        return inputs + cairn.randn_like(inputs) * self.stddev if training else inputs


class GaussianDropout(Dropout):
    def call(self, inputs: Any, training: bool = False) -> Any:
        if not training or not self.rate:
            return inputs
        return inputs * (1.0 + cairn.randn_like(inputs) * math.sqrt(self.rate / (1.0 - self.rate)))


# ---- shapes ----
class Flatten(Layer):
    def __init__(self, data_format: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.reshape(inputs.shape[0], -1)


class Reshape(Layer):
    def __init__(self, target_shape: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target_shape = tuple(target_shape)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.reshape((inputs.shape[0],) + self.target_shape)


class Permute(Layer):
    def __init__(self, dims: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if sorted(dims) != list(range(1, len(dims) + 1)):
            raise ValueError("Permute needs the dimensions 1 to n in another order, not %r" % (dims,))
        self.dims = tuple(dims)
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.permute(0, *self.dims)


class RepeatVector(Layer):
    def __init__(self, n: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.n = n
        self.built = True

    def call(self, inputs: Any) -> Any:
        return inputs.unsqueeze(1).expand(-1, self.n, -1)


# ---- merging ----
class _Merge(Layer):
    supports_masking = True

    def build(self, input_shape: Any) -> None:
        if not isinstance(input_shape, list) or len(input_shape) < 2:
            raise ValueError("%s needs a list of two or more inputs" % type(self).__name__)
        self.built = True

    def combine(self, a: Any, b: Any) -> Any:
        raise NotImplementedError

    def call(self, inputs: Any) -> Any:
        total = inputs[0]
        for other in inputs[1:]:
            total = self.combine(total, other)
        return total


class Add(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return a + b


class Subtract(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return a - b


class Multiply(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return a * b


class Average(Add):
    def call(self, inputs: Any) -> Any:
        return super().call(inputs) / len(inputs)


class Maximum(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return cairn.maximum(a, b)


class Minimum(_Merge):
    def combine(self, a: Any, b: Any) -> Any:
        return cairn.minimum(a, b)


class Concatenate(_Merge):
    def __init__(self, axis: int = -1, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        return cairn.cat(list(inputs), dim=self.axis)


class Dot(_Merge):
    """Products of two inputs, summed over one dimension of each."""

    def __init__(self, axes: Any, normalize: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.axes = (axes, axes) if isinstance(axes, int) else tuple(axes)
        self.normalize = normalize

    def call(self, inputs: Any) -> Any:
        a, b = inputs
        i, j = self.axes[0] % a.ndim, self.axes[1] % b.ndim
        if self.normalize:
            a, b = F.normalize(a, dim=i), F.normalize(b, dim=j)
        rows, columns = a.movedim(i, -1), b.movedim(j, -1)
        n = rows.shape[0]
        out = rows.reshape(n, -1, rows.shape[-1]) @ columns.reshape(n, -1, columns.shape[-1]).transpose(1, 2)
        shape = tuple(rows.shape[:-1]) + tuple(columns.shape[1:-1])
        return out.reshape(shape if len(shape) > 1 else (n, 1))


def _as_function(kind: type[Layer]) -> Callable[..., Any]:
    def merged(inputs: Any, **kwargs: Any) -> Any:
        return kind(**kwargs)(inputs)
    return merged


add, subtract, multiply, average = (_as_function(k) for k in (Add, Subtract, Multiply, Average))
maximum, minimum = _as_function(Maximum), _as_function(Minimum)


def concatenate(inputs: Any, axis: int = -1, **kwargs: Any) -> Any:
    return Concatenate(axis, **kwargs)(inputs)


def dot(inputs: Any, axes: Any = -1, **kwargs: Any) -> Any:
    return Dot(axes, **kwargs)(inputs)
