"""Cells: one step of a recurrent layer. A cell is a layer with state_size whose call(inputs, states) returns an output
and new states; what drops out of inputs and states stays the same until the layer around it begins a new sequence."""
from __future__ import annotations

from typing import Any

import cairn
from ...model import in_phase
from ...nn import functional as F
from .. import activations
from .base import Layer

__all__ = ["Cell", "Dropping", "GRUCell", "LSTMCell", "SimpleRNNCell", "StackedRNNCells"]


class Dropping(Layer):
    """A cell that drops a part of its inputs and states while training."""

    dropout = recurrent_dropout = 0.0

    def forget_dropped(self) -> None:
        self.__dict__["_dropped"] = {}

    def dropped(self, what: str, x: Any, training: bool) -> Any:
        """x with a part of it zero while training, the same part until forget_dropped()."""
        rate = self.dropout if what == "inputs" else self.recurrent_dropout
        if not training or not rate:
            return x
        kept = self.__dict__["_dropped"]
        if what not in kept or kept[what].shape != x.shape:
            kept[what] = F.dropout(cairn.ones_like(x), rate, training=True)
        return x * kept[what]


class Cell(Dropping):  # unused: states_shape (Keras's signature)
    """kernel (in, gates * units), recurrent_kernel (units, gates * units), bias."""

    gates, bias_rows, states = 1, 1, 1
    _float_inputs = True

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, recurrent_regularizer: Any = None, bias_regularizer: Any = None,
                 kernel_constraint: Any = None, recurrent_constraint: Any = None, bias_constraint: Any = None,
                 dropout: float = 0.0, recurrent_dropout: float = 0.0, seed: int | None = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units <= 0:
            raise ValueError("%s needs a positive number of units, not %r" % (type(self).__name__, units))
        self._options(units=int(units), activation=activation, recurrent_activation=recurrent_activation,
                      use_bias=use_bias, kernel_initializer=kernel_initializer,
                      recurrent_initializer=recurrent_initializer, bias_initializer=bias_initializer,
                      kernel_regularizer=kernel_regularizer, recurrent_regularizer=recurrent_regularizer,
                      bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
                      recurrent_constraint=recurrent_constraint, bias_constraint=bias_constraint,
                      dropout=min(1.0, max(0.0, dropout)), recurrent_dropout=min(1.0, max(0.0, recurrent_dropout)),
                      seed=seed)
        self.bias: Any = None
        self.forget_dropped()

    @property
    def state_size(self) -> Any:
        return self.units if self.states == 1 else [self.units] * self.states

    @property
    def output_size(self) -> int:
        return int(self.units)

    def build(self, input_shape: Any, states_shape: Any = None) -> None:
        wide = self.gates * self.units
        self.kernel = self._weight("kernel", (input_shape[-1], wide))
        self.recurrent_kernel = self._weight("recurrent_kernel", (self.units, wide), "recurrent")
        if self.use_bias:
            self.bias = self._weight("bias", (wide,) if self.bias_rows == 1 else (self.bias_rows, wide))
        self.built = True

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        like = next(iter(self.parameters()), None)
        device = None if like is None else like.device
        return [cairn.zeros(int(batch_size), self.units, device=device) for _ in range(self.states)]

    # ---- whole sequences ----
    def _fast(self) -> bool:
        """Whether the op of whole sequences computes what the cell does."""
        return self.activation is activations.tanh and self.recurrent_activation is activations.sigmoid

    def _weights(self) -> list[Any]:
        """In the order of the op: gates times units first."""
        made = [self.kernel.t().contiguous(), self.recurrent_kernel.t().contiguous()]
        if self.bias is not None:
            made += [self.bias, cairn.zeros_like(self.bias)]
        return made

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        """A whole sequence (N, T, in): outputs and the last states."""
        raise NotImplementedError


class SimpleRNNCell(Cell):
    _not_options = ("recurrent_activation",)

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, activation, "sigmoid", use_bias, *args, **kwargs)

    def _fast(self) -> bool:
        return self.activation in (activations.tanh, activations.relu)

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h = states[0] if isinstance(states, (list, tuple)) else states
        x, h = self.dropped("inputs", inputs, training), self.dropped("states", h, training)
        new = self.activation(F.linear(x, self.kernel.t(), self.bias) + h @ self.recurrent_kernel)
        return new, [new] if isinstance(states, (list, tuple)) else new

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        op = cairn.rnn_tanh if self.activation is activations.tanh else cairn.rnn_relu
        out, h = op(x, states[0].unsqueeze(0), self._weights(), self.bias is not None, 1, 0.0, False, False, True)
        return out, [h[0]]


class LSTMCell(Cell):  # unused: states_shape (Keras's signature)
    gates, states = 4, 2

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 unit_forget_bias: bool = True, *args: Any, **kwargs: Any) -> None:
        super().__init__(units, activation, recurrent_activation, use_bias, kernel_initializer, recurrent_initializer,
                         bias_initializer, *args, **kwargs)
        self._options(unit_forget_bias=unit_forget_bias)

    def build(self, input_shape: Any, states_shape: Any = None) -> None:
        super().build(input_shape)
        if self.bias is not None and self.unit_forget_bias:
            with cairn.no_grad():
                self.bias[self.units:2 * self.units] = 1.0

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h, c = states
        x, h = self.dropped("inputs", inputs, training), self.dropped("states", h, training)
        z = F.linear(x, self.kernel.t(), self.bias) + h @ self.recurrent_kernel
        i, f, g, o = z.chunk(4, -1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        start = (states[0].unsqueeze(0), states[1].unsqueeze(0))
        out, h, c = cairn.lstm(x, start, self._weights(), self.bias is not None, 1, 0.0, False, False, True)
        return out, [h[0], c[0]]


class GRUCell(Cell):
    gates = 3

    def __init__(self, units: int, *args: Any, reset_after: bool = True, **kwargs: Any) -> None:
        super().__init__(units, *args, **kwargs)
        self._options(reset_after=reset_after)
        self.bias_rows = 2 if reset_after else 1

    def _fast(self) -> bool:
        return bool(self.reset_after) and super()._fast()

    def _weights(self) -> list[Any]:
        def ordered(w: Any) -> Any:  # ours are z, r, h; the op's are r, z, h
            z, r, h = w.chunk(3, 0)
            return cairn.cat([r, z, h])
        made = [ordered(self.kernel.t()), ordered(self.recurrent_kernel.t())]
        return made + ([] if self.bias is None else [ordered(self.bias[0]), ordered(self.bias[1])])

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        before = states[0] if isinstance(states, (list, tuple)) else states
        x, h = self.dropped("inputs", inputs, training), self.dropped("states", before, training)
        outer = None if self.bias is None else self.bias[0] if self.reset_after else self.bias
        xz, xr, xh = F.linear(x, self.kernel.t(), outer).chunk(3, -1)
        if self.reset_after:
            inner = F.linear(h, self.recurrent_kernel.t(), None if self.bias is None else self.bias[1])
            hz, hr, hh = inner.chunk(3, -1)
            r = self.recurrent_activation(xr + hr)
            new = self.activation(xh + r * hh)
        else:
            wz, wr, wh = self.recurrent_kernel.chunk(3, -1)
            hz, r = h @ wz, self.recurrent_activation(xr + h @ wr)
            new = self.activation(xh + (r * h) @ wh)
        z = self.recurrent_activation(xz + hz)
        out = z * before + (1.0 - z) * new
        return out, [out] if isinstance(states, (list, tuple)) else out

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        out, h = cairn.gru(x, states[0].unsqueeze(0), self._weights(), self.bias is not None, 1, 0.0, False, False,
                           True)
        return out, [h[0]]


class StackedRNNCells(Layer):
    """Cells one on the other as one; its states are those of each cell."""

    _float_inputs = True

    def __init__(self, cells: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        for cell in cells:
            if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
                raise ValueError("a cell has call(inputs, states) and state_size; %r has not" % (cell,))
        self.cells = list(cells)

    @property
    def state_size(self) -> Any:
        return [c.state_size for c in self.cells]

    @property
    def output_size(self) -> int:
        last = self.cells[-1]
        size = getattr(last, "output_size", None)
        if size is not None:
            return int(size)
        return int(last.state_size[0] if isinstance(last.state_size, (list, tuple)) else last.state_size)

    def get_config(self) -> dict[str, Any]:
        from .._serial import serialize
        return {**self._base_config(), "cells": [serialize(c) for c in self.cells]}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from .._serial import deserialize
        cells = [deserialize(c, custom_objects) if isinstance(c, dict) else c for c in config["cells"]]
        return cls(**{**config, "cells": cells})

    def build(self, input_shape: Any) -> None:
        for cell in self.cells:
            if isinstance(cell, Layer) and not cell.built:
                cell.build(input_shape)
                cell.built = True
            size = getattr(cell, "output_size", None) or cell.state_size
            input_shape = (input_shape[0], size[0] if isinstance(size, (list, tuple)) else size)
        self.built = True

    def forget_dropped(self) -> None:
        for cell in self.cells:
            if isinstance(cell, Cell):
                cell.forget_dropped()

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        new = []
        for cell, own in zip(self.cells, states):
            with in_phase(bool(training)):
                inputs, own = cell(inputs, own if isinstance(own, (list, tuple)) else [own])
            new.append(own if isinstance(cell.state_size, (list, tuple)) else
                       own[0] if isinstance(own, (list, tuple)) else own)
        return inputs, new
