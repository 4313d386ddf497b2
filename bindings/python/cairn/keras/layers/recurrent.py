"""Recurrent layers. Whole sequences go through the library's own ops (lstm, gru, rnn_tanh); what those do not cover
(other activations, recurrent dropout, cells of one's own) goes step by step through the cell.

Steps that a mask leaves out are skipped: the others are moved to the front, and outputs back to where they belong.
"""
from __future__ import annotations

from typing import Any

import cairn
from ...nn import functional as F
from .. import activations
from .._batches import flatten
from .base import Layer

__all__ = ["GRU", "LSTM", "RNN", "Bidirectional", "GRUCell", "LSTMCell", "SimpleRNN", "SimpleRNNCell",
           "StackedRNNCells", "TimeDistributed"]


class _Cell(Layer):
    """kernel (in, gates * units), recurrent_kernel (units, gates * units), bias."""

    gates, bias_rows, states = 1, 1, 1
    _float_inputs = True

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, recurrent_regularizer: Any = None, bias_regularizer: Any = None,
                 dropout: float = 0.0, recurrent_dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if units <= 0:
            raise ValueError("%s needs a positive number of units, not %r" % (type(self).__name__, units))
        self.units, self.use_bias, self.dropout, self.recurrent_dropout = units, use_bias, dropout, recurrent_dropout
        self.activation = activations.get(activation)
        self.recurrent_activation = activations.get(recurrent_activation)
        self.how = (kernel_initializer, recurrent_initializer, bias_initializer)
        self.regular = (kernel_regularizer, recurrent_regularizer, bias_regularizer)
        self.bias: Any = None

    @property
    def state_size(self) -> Any:
        return self.units if self.states == 1 else [self.units] * self.states

    @property
    def output_size(self) -> int:
        return self.units

    def build(self, input_shape: Any, states_shape: Any = None) -> None:
        wide = self.gates * self.units
        self.kernel = self.add_weight((input_shape[-1], wide), self.how[0], regularizer=self.regular[0], name="kernel")
        self.recurrent_kernel = self.add_weight((self.units, wide), self.how[1], regularizer=self.regular[1],
                                                name="recurrent_kernel")
        if self.use_bias:
            shape = (wide,) if self.bias_rows == 1 else (self.bias_rows, wide)
            self.bias = self.add_weight(shape, self.how[2], regularizer=self.regular[2], name="bias")
        self.built = True

    def get_initial_state(self, batch_size: Any = None) -> list[Any]:
        return [cairn.zeros(batch_size, self.units) for _ in range(self.states)]

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


class SimpleRNNCell(_Cell):
    def __init__(self, units: int, activation: Any = "tanh", **kwargs: Any) -> None:
        super().__init__(units, activation, **kwargs)

    def _fast(self) -> bool:
        return self.activation in (activations.tanh, activations.relu)

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h = states[0] if isinstance(states, (list, tuple)) else states
        new = F.linear(inputs, self.kernel.t(), self.bias) + h @ self.recurrent_kernel
        new = self.activation(new)
        return new, [new]

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        op = cairn.rnn_tanh if self.activation is activations.tanh else cairn.rnn_relu
        out, h = op(x, states[0].unsqueeze(0), self._weights(), self.bias is not None, 1, 0.0, False, False, True)
        return out, [h[0]]


class LSTMCell(_Cell):
    gates, states = 4, 2

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 unit_forget_bias: bool = True, **kwargs: Any) -> None:
        super().__init__(units, activation, recurrent_activation, **kwargs)
        self.unit_forget_bias = unit_forget_bias

    def build(self, input_shape: Any, states_shape: Any = None) -> None:
        super().build(input_shape)
        if self.bias is not None and self.unit_forget_bias:
            with cairn.no_grad():
                self.bias[self.units:2 * self.units] = 1.0

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h, c = states
        z = F.linear(inputs, self.kernel.t(), self.bias) + h @ self.recurrent_kernel
        i, f, g, o = z.chunk(4, -1)
        c = self.recurrent_activation(f) * c + self.recurrent_activation(i) * self.activation(g)
        h = self.recurrent_activation(o) * self.activation(c)
        return h, [h, c]

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        start = (states[0].unsqueeze(0), states[1].unsqueeze(0))
        out, h, c = cairn.lstm(x, start, self._weights(), self.bias is not None, 1, 0.0, False, False, True)
        return out, [h[0], c[0]]


class GRUCell(_Cell):
    gates = 3

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 reset_after: bool = True, **kwargs: Any) -> None:
        super().__init__(units, activation, recurrent_activation, **kwargs)
        self.reset_after = reset_after
        self.bias_rows = 2 if reset_after else 1

    def _fast(self) -> bool:
        return self.reset_after and super()._fast()

    def _weights(self) -> list[Any]:
        def ordered(w: Any) -> Any:  # ours are z, r, h; the op's are r, z, h
            z, r, h = w.chunk(3, 0)
            return cairn.cat([r, z, h])
        made = [ordered(self.kernel.t()), ordered(self.recurrent_kernel.t())]
        return made + ([] if self.bias is None else [ordered(self.bias[0]), ordered(self.bias[1])])

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        h = states[0] if isinstance(states, (list, tuple)) else states
        outer = None if self.bias is None else self.bias[0] if self.reset_after else self.bias
        xz, xr, xh = F.linear(inputs, self.kernel.t(), outer).chunk(3, -1)
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
        h = z * h + (1.0 - z) * new
        return h, [h]

    def run(self, x: Any, states: list[Any]) -> tuple[Any, list[Any]]:
        out, h = cairn.gru(x, states[0].unsqueeze(0), self._weights(), self.bias is not None, 1, 0.0, False, False,
                           True)
        return out, [h[0]]


class StackedRNNCells(Layer):
    """Cells one on the other as one."""

    def __init__(self, cells: list[Any], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cells = cells

    @property
    def state_size(self) -> Any:
        return [n for c in self.cells for n in _sizes(c)]

    @property
    def output_size(self) -> int:
        return int(_sizes(self.cells[-1])[0])

    def call(self, inputs: Any, states: Any, training: bool = False) -> Any:
        new, at = [], 0
        for cell in self.cells:
            n = len(_sizes(cell))
            inputs, own = cell(inputs, list(states[at:at + n]))
            new += flatten(own)
            at += n
        return inputs, new


def _sizes(cell: Any) -> list[int]:
    return list(cell.state_size) if isinstance(cell.state_size, (list, tuple)) else [cell.state_size]


class RNN(Layer):
    """A cell (a layer whose call(inputs, states) answers output and states) over a sequence (N, T, in)."""

    _float_inputs = True

    def __init__(self, cell: Any, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 zero_output_for_mask: bool = False, time_major: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.cell = StackedRNNCells(list(cell)) if isinstance(cell, (list, tuple)) else cell
        self.return_sequences, self.return_state = return_sequences, return_state
        self.go_backwards, self.stateful = go_backwards, stateful
        self._kept: list[Any] | None = None

    def reset_states(self) -> None:
        self._kept = None

    reset_state = reset_states

    def build(self, sequences_shape: Any) -> None:
        if len(sequences_shape) != 3:
            raise ValueError("%s needs sequences (samples, steps, features), not inputs of shape %s"
                             % (self.name, tuple(sequences_shape)))
        if isinstance(self.cell, _Cell) and not self.cell.built:
            self.cell.build((sequences_shape[0], sequences_shape[-1]))
        self.built = True

    def _first_states(self, x: Any, given: Any) -> list[Any]:
        if given is not None:
            return list(given) if isinstance(given, (list, tuple)) else [given]
        if self.stateful and self._kept is not None:
            return self._kept
        return [cairn.zeros((int(x.shape[0]), n), dtype=x.dtype, device=x.device) for n in _sizes(self.cell)]

    def call(self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False) -> Any:
        x = sequences.flip(1) if self.go_backwards else sequences
        if isinstance(mask, (list, tuple)):
            mask = mask[0]
        if mask is not None and self.go_backwards:
            mask = mask.flip(1)
        states = self._first_states(x, initial_state)
        rate = getattr(self.cell, "dropout", 0.0)
        if rate and training and isinstance(rate, float):  # the same places at all steps
            x = x * F.dropout(cairn.ones_like(x[:, :1]), rate, training=True)
        fast = isinstance(self.cell, _Cell) and self.cell._fast() and not (training and self.cell.recurrent_dropout)
        if fast and (mask is None or not (self.return_state and self.cell.states > 1)):
            out, last, states = self._whole(x, states, mask)
        else:
            out, last, states = self._stepwise(x, states, mask, bool(training))
        if self.stateful:
            self._kept = [s.detach() for s in states]
        answer = out if self.return_sequences else last
        return [answer, *states] if self.return_state else answer

    def _whole(self, x: Any, states: list[Any], mask: Any) -> tuple[Any, Any, list[Any]]:
        if mask is None:
            out, states = self.cell.run(x, states)
            return out, out[:, -1], states
        mask = mask.to(cairn.bool)
        order = cairn.argsort((~mask).to(cairn.int64), dim=1, stable=True)
        x = x.gather(1, order.unsqueeze(-1).expand_as(x))
        out, _ = self.cell.run(x, states)
        before = cairn.cat([cairn.zeros_like(out[:, :1]) if self.cell.states > 1 else states[0].unsqueeze(1), out], 1)
        seen = mask.to(cairn.int64).cumsum(1)  # how many steps count up to here: the place of the output there
        out = before.gather(1, seen.unsqueeze(-1).expand(-1, -1, out.shape[-1]))
        return out, out[:, -1], [out[:, -1]]

    def _stepwise(self, x: Any, states: list[Any], mask: Any, training: bool) -> tuple[Any, Any, list[Any]]:
        rate = getattr(self.cell, "recurrent_dropout", 0.0)
        drop = F.dropout(cairn.ones_like(states[0]), rate, training=True) if rate and training else None
        outs: list[Any] = []
        for t in range(int(x.shape[1])):
            given = states if drop is None else [states[0] * drop] + list(states[1:])
            out, new = self.cell(x[:, t], given)
            new = flatten(new)
            if mask is not None:
                keep = mask[:, t].to(cairn.bool).unsqueeze(-1)
                out = cairn.where(keep, out, outs[-1] if outs else cairn.zeros_like(out))
                new = [cairn.where(keep, a, b) for a, b in zip(new, states)]
            outs.append(out)
            states = new
        return cairn.stack(outs, 1), outs[-1], list(states)

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        mask = mask[0] if isinstance(mask, (list, tuple)) else mask
        if mask is None or not self.return_sequences:
            return None
        return [mask] + [None] * len(_sizes(self.cell)) if self.return_state else mask


_of_layer = ("return_sequences", "return_state", "go_backwards", "stateful", "unroll", "time_major",
             "zero_output_for_mask", "name", "trainable", "dtype", "activity_regularizer", "input_shape")


class _Recurrent(RNN):
    """A cell of the library's over a sequence."""

    kind: type[_Cell] = LSTMCell

    def __init__(self, units: int, *args: Any, **kwargs: Any) -> None:
        own = {k: kwargs.pop(k) for k in _of_layer if k in kwargs}
        for old in ("use_cudnn", "implementation", "seed", "kernel_constraint", "recurrent_constraint",
                    "bias_constraint"):
            kwargs.pop(old, None)
        super().__init__(type(self).kind(units, *args, **kwargs), **own)

    @property
    def units(self) -> int:
        return int(self.cell.units)


class LSTM(_Recurrent):
    pass


class GRU(_Recurrent):
    kind = GRUCell


class SimpleRNN(_Recurrent):
    kind = SimpleRNNCell


class Bidirectional(Layer):
    """A recurrent layer forwards and another backwards, their outputs merged."""

    _float_inputs = True

    def __init__(self, layer: Any, merge_mode: str | None = "concat", backward_layer: Any = None,
                 weights: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if merge_mode not in ("concat", "sum", "mul", "ave", None):
            raise ValueError("merge_mode is concat, sum, mul, ave or None, not %r" % (merge_mode,))
        self.merge_mode = merge_mode
        self.forward_layer = layer
        if backward_layer is None:
            config = dict(layer.get_config())
            config["go_backwards"] = not layer.go_backwards
            config["name"] = "backward_" + layer.name
            args = layer.__dict__["_given"][0]
            backward_layer = type(layer)(*args, **{k: v for k, v in config.items() if k not in _named(layer, args)})
        self.backward_layer = backward_layer

    def call(self, inputs: Any, initial_state: Any = None, mask: Any = None, training: bool = False) -> Any:
        half = None if initial_state is None else len(initial_state) // 2
        ahead = self.forward_layer(inputs, initial_state=None if half is None else initial_state[:half], mask=mask)
        back = self.backward_layer(inputs, initial_state=None if half is None else initial_state[half:], mask=mask)
        states: list[Any] = []
        if self.forward_layer.return_state:
            states = list(ahead[1:]) + list(back[1:])
            ahead, back = ahead[0], back[0]
        if self.forward_layer.return_sequences:
            back = back.flip(1)
        out: Any = [ahead, back]
        if self.merge_mode == "concat":
            out = cairn.cat([ahead, back], -1)
        elif self.merge_mode in ("sum", "ave"):
            out = (ahead + back) if self.merge_mode == "sum" else (ahead + back) / 2.0
        elif self.merge_mode == "mul":
            out = ahead * back
        return [out, *states] if states else out

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return mask if self.forward_layer.return_sequences and not self.forward_layer.return_state else None


def _named(layer: Any, args: Any) -> set[str]:
    """Arguments that were given by place."""
    import inspect
    names = list(inspect.signature(type(layer).__init__).parameters.values())[1:]
    found, rest = set(), len(args)
    for p in names:
        if rest and p.kind is p.POSITIONAL_OR_KEYWORD:
            found.add(p.name)
            rest -= 1
    return found | {"args"}


class TimeDistributed(Layer):
    """A layer on each step of (N, T, ...) by itself."""

    supports_masking = True

    def __init__(self, layer: Any, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.layer = layer

    def call(self, inputs: Any, training: bool = False) -> Any:
        n, t = int(inputs.shape[0]), int(inputs.shape[1])
        out = self.layer(inputs.reshape((n * t,) + tuple(inputs.shape[2:])))
        return out.reshape((n, t) + tuple(out.shape[1:]))
