"""Recurrent layers. Whole sequences go through the library's own ops (lstm, gru, rnn_tanh); what those do not cover
(other activations, recurrent dropout, cells of one's own) goes step by step through the cell.

Steps that a mask leaves out are skipped: the others are moved to the front, and outputs back to where they belong.
"""
from __future__ import annotations

import inspect
from typing import Any

import cairn
from ..._arguments import only_speed
from ...model import in_phase
from ..._training.batches import flatten, mapped
from .base import Layer, call_takes
from .cells import Cell, GRUCell, LSTMCell, SimpleRNNCell, StackedRNNCells
from .core import Wrapper

__all__ = ["GRU", "LSTM", "RNN", "Bidirectional", "GRUCell", "LSTMCell", "SimpleRNN", "SimpleRNNCell",
           "StackedRNNCells", "TimeDistributed"]


class RNN(Layer):  # unused: initial_state_shape, inputs (Keras's signature)
    """A cell (a layer whose call(inputs, states) returns output and states) over a sequence (N, T, in)."""

    _float_inputs = supports_masking = True
    _not_options: tuple[str, ...] = ("time_major",)

    def __init__(self, cell: Any, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, stateful: bool = False, unroll: bool = False,
                 zero_output_for_mask: bool = False, time_major: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if time_major:
            raise ValueError("sequences are (samples, steps, features): time_major is not there")
        if isinstance(cell, (list, tuple)):
            cell = StackedRNNCells(cell)
        if not hasattr(cell, "call") or not hasattr(cell, "state_size"):
            raise ValueError("a cell has call(inputs, states) and state_size; %r has not" % (cell,))
        only_speed(type(self).__name__, False, unroll=unroll)
        self.cell = cell
        self._options(return_sequences=return_sequences, return_state=return_state, go_backwards=go_backwards,
                      stateful=stateful, unroll=unroll, zero_output_for_mask=zero_output_for_mask)
        self._kept: Any = None

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from .._serial import deserialize
        return cls(**{k: deserialize(v, custom_objects) if k == "cell" and isinstance(v, dict) else v
                      for k, v in config.items()})

    # ---- states ----
    @property
    def state_size(self) -> list[Any]:
        size = self.cell.state_size
        return list(size) if isinstance(size, (list, tuple)) else [size]

    @property
    def states(self) -> Any:
        """Of a stateful layer, after a batch."""
        return self._kept

    def reset_state(self) -> None:
        self._kept = None

    reset_states = reset_state

    def get_initial_state(self, batch_size: int) -> Any:
        if hasattr(self.cell, "get_initial_state"):
            made = self.cell.get_initial_state(batch_size=batch_size)
            return list(made) if isinstance(made, (list, tuple)) else [made]
        return mapped(lambda n: cairn.zeros(int(batch_size), n), self.state_size)

    def _first_states(self, x: Any, given: Any) -> Any:
        if given is not None:
            return list(given) if isinstance(given, (list, tuple)) else [given]
        if self.stateful and self._kept is not None:
            held = flatten(self._kept)[0]
            if held.shape[0] != x.shape[0]:
                raise ValueError("%s is stateful and has states for batches of %d samples, not of %d: give batches of "
                                 "one size, or call reset_state()" % (self.name, held.shape[0], x.shape[0]))
            return self._kept
        return mapped(lambda t: t.to(device=x.device, dtype=x.dtype), self.get_initial_state(int(x.shape[0])))

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        if len(sequences_shape) < 3:
            raise ValueError("%s needs sequences (samples, steps, features), not inputs of shape %s"
                             % (self.name, tuple(sequences_shape)))
        if isinstance(self.cell, Layer) and not self.cell.built:
            self.cell.build((sequences_shape[0],) + tuple(sequences_shape[2:]))
            self.cell.built = True
        self.built = True

    # ---- sequences ----
    def call(self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False) -> Any:
        x = sequences.flip(1) if self.go_backwards else sequences
        mask = flatten(mask)[0]
        if mask is not None:
            mask = (mask.flip(1) if self.go_backwards else mask).to(cairn.bool)
            mask = mask.squeeze(-1) if mask.ndim == 3 else mask
        states = self._first_states(x, initial_state)
        if hasattr(self.cell, "forget_dropped"):
            self.cell.forget_dropped()
        fast = isinstance(self.cell, Cell) and self.cell._fast() and not (training and self.cell.recurrent_dropout)
        if fast and (mask is None or not ((self.return_state or self.stateful) and self.cell.states > 1)):
            if self.cell.dropout and training:  # the same places at all steps
                x = x * self.cell.dropped("inputs", cairn.ones_like(x[:, 0]), True).unsqueeze(1)
            out, last, states = self._whole(x, states, mask)
        else:
            with in_phase(bool(training)):
                out, last, states = self._stepwise(x, states, mask)
        if mask is not None and self.zero_output_for_mask:
            out = out * mask.reshape(tuple(mask.shape) + (1,) * (out.ndim - 2)).to(out.dtype)
            last = out[:, -1]
        if hasattr(self.cell, "forget_dropped"):
            self.cell.forget_dropped()
        if self.stateful:
            self._kept = mapped(lambda t: t.detach(), states)
        result = out if self.return_sequences else last
        return [result, *states] if self.return_state else result

    def _whole(self, x: Any, states: list[Any], mask: Any) -> tuple[Any, Any, list[Any]]:
        if mask is None:
            out, states = self.cell.run(x, states)
            return out, out[:, -1], states
        order = cairn.argsort((~mask).to(cairn.int64), dim=1, stable=True)
        x = x.gather(1, order.unsqueeze(-1).expand_as(x))
        out, _ = self.cell.run(x, states)
        before = cairn.cat([cairn.zeros_like(out[:, :1]), out], 1)
        seen = mask.to(cairn.int64).cumsum(1)  # how many steps count up to here: the place of the output there
        out = before.gather(1, seen.unsqueeze(-1).expand(-1, -1, out.shape[-1]))
        return out, out[:, -1], [cairn.where(seen[:, -1:] > 0, out[:, -1], states[0])]

    def _stepwise(self, x: Any, states: Any, mask: Any) -> tuple[Any, Any, Any]:
        outs: list[Any] = []
        for t in range(int(x.shape[1])):
            out, new = self.cell(x[:, t], states)
            new = list(new) if isinstance(new, (list, tuple)) else [new]
            if mask is not None:
                def keep(a: Any, b: Any, now: Any = mask[:, t]) -> Any:
                    return cairn.where(now.reshape((-1,) + (1,) * (a.ndim - 1)), a, b)
                out = keep(out, outs[-1] if outs else cairn.zeros_like(out))
                olds = iter(flatten(states))
                new = mapped(lambda a: keep(a, next(olds)), new)
            outs.append(out)
            states = new
        return cairn.stack(outs, 1), outs[-1], states

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        mask = flatten(mask)[0]
        mask = mask if self.return_sequences else None
        return [mask] + [None] * len(flatten(self.state_size)) if self.return_state else mask


class _Recurrent(RNN):
    """A cell of the library's over a sequence; its options are those of the layer."""

    kind: type[Cell] = LSTMCell
    _not_options: tuple[str, ...] = ("cell", "time_major", "use_cudnn", "implementation")
    _of_cell: tuple[str, ...] = tuple(
        n for n in inspect.signature(Cell.__init__).parameters if n not in ("self", "kwargs")) + (
        "unit_forget_bias", "reset_after")

    def _made(self, options: dict[str, Any], kwargs: dict[str, Any]) -> None:
        """The cell of these options, and the layer around it."""
        only_speed(type(self).__name__, "auto", use_cudnn=kwargs.pop("use_cudnn", "auto"))
        only_speed(type(self).__name__, 2, implementation=kwargs.pop("implementation", 2))  # Keras 2's
        options.update({k: kwargs.pop(k) for k in self._of_cell if k in kwargs})
        if kwargs.get("dtype") is not None:
            options["dtype"] = kwargs["dtype"]
        RNN.__init__(self, self.kind(**options), **kwargs)

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        from .._serial import custom_object_scope
        with custom_object_scope(custom_objects):
            return cls(**config)


def of_cell(kind: type[RNN], names: tuple[str, ...]) -> None:
    """Makes options of the cell attributes of the layer."""
    def one(name: str) -> property:
        return property(lambda self: getattr(self.cell, name))
    for name in names:
        setattr(kind, name, one(name))


of_cell(_Recurrent, _Recurrent._of_cell)


class LSTM(_Recurrent):
    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 unit_forget_bias: bool = True, kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.0,
                 recurrent_dropout: float = 0.0, seed: int | None = None, **kwargs: Any) -> None:
        self._made({k: v for k, v in locals().items() if k in self._of_cell},
                   {**kwargs, "activity_regularizer": activity_regularizer})


class GRU(_Recurrent):
    kind = GRUCell

    def __init__(self, units: int, activation: Any = "tanh", recurrent_activation: Any = "sigmoid",
                 use_bias: bool = True, kernel_initializer: Any = "glorot_uniform",
                 recurrent_initializer: Any = "orthogonal", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, recurrent_regularizer: Any = None, bias_regularizer: Any = None,
                 activity_regularizer: Any = None, kernel_constraint: Any = None, recurrent_constraint: Any = None,
                 bias_constraint: Any = None, dropout: float = 0.0, recurrent_dropout: float = 0.0,
                 seed: int | None = None, return_sequences: bool = False, return_state: bool = False,
                 go_backwards: bool = False, stateful: bool = False, unroll: bool = False, reset_after: bool = True,
                 **kwargs: Any) -> None:
        of_layer = {k: v for k, v in locals().items() if k in (
            "activity_regularizer", "return_sequences", "return_state", "go_backwards", "stateful", "unroll")}
        self._made({k: v for k, v in locals().items() if k in self._of_cell}, {**kwargs, **of_layer})


class SimpleRNN(_Recurrent):
    kind = SimpleRNNCell
    _not_options = _Recurrent._not_options + ("recurrent_activation",)

    def __init__(self, units: int, activation: Any = "tanh", use_bias: bool = True,
                 kernel_initializer: Any = "glorot_uniform", recurrent_initializer: Any = "orthogonal",
                 bias_initializer: Any = "zeros", kernel_regularizer: Any = None, recurrent_regularizer: Any = None,
                 bias_regularizer: Any = None, activity_regularizer: Any = None, kernel_constraint: Any = None,
                 recurrent_constraint: Any = None, bias_constraint: Any = None, dropout: float = 0.0,
                 recurrent_dropout: float = 0.0, **kwargs: Any) -> None:
        self._made({k: v for k, v in locals().items() if k in self._of_cell},
                   {**kwargs, "activity_regularizer": activity_regularizer})


class Bidirectional(Layer):  # unused: initial_state_shape, inputs (Keras's signature)
    """A recurrent layer forwards and another backwards, their outputs merged. Both are new layers, made with the
    options of the one given."""

    _float_inputs = supports_masking = True
    _not_options = ("weights", "layer", "backward_layer")

    def __init__(self, layer: Any, merge_mode: str | None = "concat", weights: Any = None,
                 backward_layer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if not isinstance(layer, Layer):
            raise ValueError("Bidirectional goes around a recurrent layer, not %r" % (layer,))
        if merge_mode not in ("concat", "sum", "mul", "ave", None):
            raise ValueError("merge_mode is concat, sum, mul, ave or None, not %r" % (merge_mode,))
        self._options(merge_mode=merge_mode)
        config = layer.get_config()
        plain = config["name"].removeprefix("forward_")
        self.forward_layer = type(layer).from_config({**config, "name": "forward_" + plain})
        if backward_layer is None:
            backward_layer = type(layer).from_config({**config, "name": "backward_" + plain,
                                                      "go_backwards": not config["go_backwards"]})
        elif backward_layer.go_backwards == layer.go_backwards:
            raise ValueError("the layers of a Bidirectional go two ways: one of them with go_backwards=True")
        self.backward_layer = backward_layer
        for one in (self.forward_layer, backward_layer):  # steps that are left out are zeros in both ways
            if getattr(one, "zero_output_for_mask", None) is not None:
                one.zero_output_for_mask = one.return_sequences
        for name in ("return_sequences", "return_state", "stateful"):
            setattr(self, name, getattr(self.forward_layer, name))
        self._first_weights = None if weights is None else list(weights)

    def get_config(self) -> dict[str, Any]:
        from .._serial import serialize
        return {**super().get_config(), "layer": serialize(self.forward_layer),
                "backward_layer": serialize(self.backward_layer)}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        return cls(**Wrapper.unpacked(config, custom_objects))

    def build(self, sequences_shape: Any, initial_state_shape: Any = None) -> None:
        for layer in (self.forward_layer, self.backward_layer):
            if not layer.built:
                layer.build(sequences_shape)
                layer.built = True
        if self._first_weights is not None:
            half = len(self._first_weights) // 2
            self.forward_layer.set_weights(self._first_weights[:half])
            self.backward_layer.set_weights(self._first_weights[half:])
            self._first_weights = None
        self.built = True

    def reset_state(self) -> None:
        self.forward_layer.reset_state()
        self.backward_layer.reset_state()

    reset_states = reset_state

    def call(self, sequences: Any, initial_state: Any = None, mask: Any = None, training: bool = False) -> Any:
        half = None if initial_state is None else len(initial_state) // 2
        ahead, back = (layer(sequences, initial_state=state, mask=mask, training=training) for layer, state in (
            (self.forward_layer, None if half is None else initial_state[:half]),
            (self.backward_layer, None if half is None else initial_state[half:])))
        states: list[Any] = []
        if self.return_state:
            states = list(ahead[1:]) + list(back[1:])
            ahead, back = ahead[0], back[0]
        if self.return_sequences:
            back = back.flip(1)
        out: Any = [ahead, back]
        if self.merge_mode == "concat":
            out = cairn.cat([ahead, back], -1)
        elif self.merge_mode in ("sum", "ave"):
            out = (ahead + back) if self.merge_mode == "sum" else (ahead + back) / 2.0
        elif self.merge_mode == "mul":
            out = ahead * back
        if not states:
            return out
        return [*out, *states] if self.merge_mode is None else [out, *states]

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        mask = flatten(mask)[0] if self.return_sequences else None
        masks = [mask] if self.merge_mode is not None else [mask, mask]
        if not self.return_state:
            return masks if self.merge_mode is None else mask
        return masks + [None] * (2 * len(flatten(self.forward_layer.state_size)))


class TimeDistributed(Wrapper):
    """A layer on each step of (N, T, ...) by itself."""

    supports_masking = True

    def build(self, input_shape: Any = None) -> None:
        if len(input_shape) < 3:
            raise ValueError("TimeDistributed needs inputs (samples, steps, ...), not of shape %s"
                             % (tuple(input_shape),))
        super().build((None,) + tuple(input_shape[2:]))

    def call(self, inputs: Any, training: bool = False, mask: Any = None) -> Any:
        n, t = int(inputs.shape[0]), int(inputs.shape[1])
        if mask is not None and tuple(mask.shape[:2]) != (n, t):
            raise ValueError("%s: a mask of shape %s is not of the samples and steps of inputs of shape %s"
                             % (self.name, tuple(mask.shape), tuple(inputs.shape)))
        more = {} if mask is None or not call_takes(self.layer)[1] else {
            "mask": mask.reshape((n * t,) + tuple(mask.shape[2:]))}
        out = self.layer(inputs.reshape((n * t,) + tuple(inputs.shape[2:])), training=training, **more)
        return mapped(lambda o: o.reshape((n, t) + tuple(o.shape[1:])), out)
