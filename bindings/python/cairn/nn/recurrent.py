"""Recurrent layers: their states are tuples as torch has them, and packed sequences go in and out."""
from __future__ import annotations

from typing import Any

from .. import _C
from .._tensor import Tensor
from .layer import RNNCellBase, _Parametric, _register
from .parameter import Parameter
from .utils.rnn import PackedSequence

__all__ = ["GRU", "LSTM", "LSTMCell", "RNN"]


def _arranged(state: Tensor | None, order: Tensor | None) -> Tensor | None:
    """A state (layers, batch, n) with the batch in another order."""
    return state if state is None or order is None else state.index_select(1, order)


class RNNBase(_Parametric):
    """What RNN, LSTM and GRU share."""

    _own_forward = False
    _native = _Parametric.forward
    mode: str

    def _settled(self) -> None:
        rest = self.__dict__
        rest["mode"] = type(self)._mode(self)
        rest.setdefault("proj_size", 0)
        rest["bias"] = self._arguments()["bias"]

    def _mode(self) -> str:
        return str(self._class_name)

    def flatten_parameters(self) -> None:
        """Has no effect: parameters need not lie side by side."""

    @property
    def all_weights(self) -> list[list[Parameter]]:
        """The parameters of each layer and direction."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        weights = list(self._parameters.values())
        per = len(weights) // count
        return [weights[i * per:(i + 1) * per] for i in range(count)]

    @property
    def _all_weights(self) -> list[list[str]]:
        """The parameters' names, of each layer and direction."""
        count = self.num_layers * (2 if self.bidirectional else 1)
        names = list(self._parameters)
        per = len(names) // count
        return [names[i * per:(i + 1) * per] for i in range(count)]

    @property
    def _flat_weights(self) -> list[Parameter]:
        return list(self._parameters.values())

    @property
    def _flat_weights_names(self) -> list[str]:
        return list(self._parameters)

    def _states(self, hx: Any, more: tuple[Any, ...]) -> tuple[list[Any], Any]:
        """The states that were given, and the batch sizes, when C calls."""
        if more:
            return [hx, *more[:-1]], more[-1]
        return [hx], None

    def _checked(self, data: Tensor, packed: bool) -> None:
        """torch has these two as ValueErrors."""
        if not packed and data.ndim not in (2, 3):
            raise ValueError("%s: Expected input to be 2D or 3D, got %dD instead" % (self._class_name, data.ndim))
        weight = self._parameters.get("weight_ih_l0")
        if weight is not None and data.dtype != weight.dtype and _C._autocast_dtype(data.is_cpu) is None:
            raise ValueError("%s: the input's dtype, %s, is not the weights', %s: convert one of them with .to()"
                             % (self._class_name, data.dtype, weight.dtype))

    def forward(self, input: Any, hx: Any = None, *more: Any) -> Any:
        states, sizes = self._states(hx, more)
        if isinstance(input, PackedSequence):
            data, sizes, forth, back = input
            self._checked(data, True)
            states = [_arranged(s, forth) for s in states]
            out, *last = self._native(data, *states, batch_sizes=sizes)
            result: Any = PackedSequence(out, sizes, forth, back)
            last = [_arranged(s, back) for s in last]
        else:
            self._checked(input, sizes is not None)
            result, *last = self._native(input, *states, batch_sizes=sizes)
        return result, tuple(last) if len(last) > 1 else last[0]


class RNN(RNNBase):
    """Layers of h = tanh(W x + b + U h + c), or with relu, over sequences (T, B, n), (B, T, n) with batch_first,
    (T, n), or packed ones. Gives all outputs and the last state of each layer."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, nonlinearity: str = "tanh",
                 bias: bool = True, batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False,
                 device: Any = None, dtype: Any = None) -> None:
        self._build("RNN", input_size, hidden_size, num_layers, nonlinearity, bool(bias), bool(batch_first), dropout,
                    bool(bidirectional), device, dtype)

    def _mode(self) -> str:
        return "RNN_" + str(self.nonlinearity).upper()


class LSTM(RNNBase):
    """Layers of long short-term memory over sequences; the state is a pair (h, c)."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0,
                 device: Any = None, dtype: Any = None) -> None:
        self._build("LSTM", input_size, hidden_size, num_layers, bool(bias), bool(batch_first), dropout,
                    bool(bidirectional), proj_size, device, dtype)

    def _states(self, hx: Any, more: tuple[Any, ...]) -> tuple[list[Any], Any]:
        if more or isinstance(hx, Tensor):
            given = [hx, *more, None, None][:3]
            return given[:2], given[2]
        return list(hx) if hx is not None else [None, None], None


class GRU(RNNBase):
    """Layers of gated recurrent units over sequences."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, device: Any = None,
                 dtype: Any = None) -> None:
        self._build("GRU", input_size, hidden_size, num_layers, bool(bias), bool(batch_first), dropout,
                    bool(bidirectional), device, dtype)


class LSTMCell(RNNCellBase):
    """One step of long short-term memory: (h, c) from an input and (h, c)."""

    _own_forward = False
    _native = RNNCellBase.forward

    def __init__(self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None,
                 dtype: Any = None) -> None:
        self._build("LSTMCell", input_size, hidden_size, bool(bias), device, dtype)

    def forward(self, input: Tensor, hx: Any = None, c_0: Any = None) -> Any:
        states = (hx, c_0) if hx is None or isinstance(hx, Tensor) else hx
        return self._native(input, *states)


_register(globals(), __all__)
