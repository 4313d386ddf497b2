"""ConvLSTM: an LSTM whose products are convolutions, over sequences of images, volumes or rows."""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .cells import Dropping
from .recurrent import RNN, of_cell
from .windows import Windowed, padded, same_pads, to_first, to_last, tuple_of

__all__ = ["ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D"]


class _ConvCell(Dropping, Windowed):  # unused: states_shape (Keras's signature)
    """One step: kernel (window, in, 4 * filters), recurrent_kernel (window, filters, 4 * filters), bias."""

    states = 2

    def __init__(self, ndim: int, filters: int, kernel_size: Any, strides: Any, padding: str, data_format: str | None,
                 dilation_rate: Any, options: dict[str, Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.ndim = ndim
        self._format(data_format)
        self._padding(padding)
        self.kernel_size = tuple_of(kernel_size, ndim, "kernel_size")
        self.strides = tuple_of(strides, ndim, "strides")
        self.dilation_rate = tuple_of(dilation_rate, ndim, "dilation_rate")
        self._options(filters=int(filters), **options)
        self.bias: Any = None
        self.forget_dropped()

    @property
    def state_size(self) -> Any:
        return [self.filters, self.filters]

    def build(self, input_shape: Any, states_shape: Any = None) -> None:
        n = self.filters
        self.kernel = self._weight("kernel", self.kernel_size + (self._channels(input_shape), 4 * n))
        self.recurrent_kernel = self._weight("recurrent_kernel", self.kernel_size + (n, 4 * n), "recurrent")
        if self.use_bias:
            self.bias = self._weight("bias", (4 * n,))
            if self.unit_forget_bias:
                with cairn.no_grad():
                    self.bias[n:2 * n] = 1.0
        self.built = True

    def _conv(self, x: Any, kernel: Any, bias: Any, strides: Any, padding: str, dilation: Any) -> Any:
        n = self.ndim
        op: Any = (F.conv1d, F.conv2d, F.conv3d)[n - 1]
        if padding == "same":
            x = padded(x, same_pads(x.shape[2:], self.kernel_size, strides, dilation))
        return op(x, kernel.permute(n + 1, n, *range(n)), bias, strides, 0, dilation)

    def _inputs(self, x: Any) -> Any:
        return self._conv(x, self.kernel, self.bias, self.strides, self.padding, self.dilation_rate)

    def zeros_for(self, x: Any) -> list[Any]:
        """First states for one step of inputs."""
        with cairn.no_grad():
            like = self._inputs((x if self.channels_first else to_first(x))[:1])
        shape = (int(x.shape[0]), self.filters) + tuple(int(n) for n in like.shape[2:])
        zero = cairn.zeros(shape, dtype=x.dtype, device=x.device)
        zero = zero if self.channels_first else to_last(zero)
        return [zero, zero]

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h, c = states
        x, h = self.dropped("inputs", inputs, training), self.dropped("states", h, training)
        ones = (1,) * self.ndim
        if not self.channels_first:
            x, h, c = to_first(x), to_first(h), to_first(c)
        z = self._inputs(x) + self._conv(h, self.recurrent_kernel, None, ones, "same", ones)
        i, f, g, o = z.chunk(4, 1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        if not self.channels_first:
            h, c = to_last(h), to_last(c)
        return h, [h, c]


class ConvLSTM2D(RNN):  # unused: initial_state_shape (Keras's signature)
    ndim = 2
    _not_options = ("cell", "time_major")
    _of_cell: tuple[str, ...] = (
        "filters", "kernel_size", "strides", "padding", "data_format", "dilation_rate", "activation",
        "recurrent_activation", "use_bias", "kernel_initializer", "recurrent_initializer", "bias_initializer",
        "unit_forget_bias", "kernel_regularizer", "recurrent_regularizer", "bias_regularizer", "kernel_constraint",
        "recurrent_constraint", "bias_constraint", "dropout", "recurrent_dropout", "seed")

    def __init__(self, filters: int, kernel_size: Any, strides: Any = 1, padding: str = "valid",
                 data_format: str | None = None, dilation_rate: Any = 1, activation: Any = "tanh",
                 recurrent_activation: Any = "sigmoid", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", unit_forget_bias: bool = True, kernel_regularizer: Any = None,
                 recurrent_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 dropout: float = 0.0, recurrent_dropout: float = 0.0, seed: int | None = None, **kwargs: Any) -> None:
        windows = self._of_cell[:6]
        options = {k: v for k, v in locals().items() if k in self._of_cell and k not in windows}
        cell = _ConvCell(self.ndim, filters, kernel_size, strides, padding, data_format, dilation_rate, options)
        super().__init__(cell, activity_regularizer=activity_regularizer, **kwargs)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from .._serial import custom_object_scope
        with custom_object_scope(custom_objects):
            return cls(**config)

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        if len(sequences_shape) != self.ndim + 3:
            raise ValueError("%s needs sequences of %d dimensions (samples, steps, ...), not of shape %s"
                             % (self.name, self.ndim + 3, tuple(sequences_shape)))
        super().build(sequences_shape)

    def _first_states(self, x: Any, given: Any) -> Any:
        if given is None and not (self.stateful and self._kept is not None):
            return self.cell.zeros_for(x[:, 0])
        return super()._first_states(x, given)


of_cell(ConvLSTM2D, ConvLSTM2D._of_cell)


class ConvLSTM1D(ConvLSTM2D):
    ndim = 1


class ConvLSTM3D(ConvLSTM2D):
    ndim = 3
