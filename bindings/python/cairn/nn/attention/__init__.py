"""Attention and transformers. Their parts are children, which a program may replace; what is computed with them is in
C, except for activations that are functions of the program's own."""
from __future__ import annotations

import copy
from typing import Any, Callable

from ... import _C
from ..._tensor import Tensor
from .. import functional as F
from .._sdpa import SDPBackend as SDPBackend, sdpa_kernel as sdpa_kernel
from ..containers import ModuleList
from ..layer import _home, _Layer, _register
from ..module import Module

__all__ = ["MultiheadAttention", "Transformer", "TransformerDecoder", "TransformerDecoderLayer", "TransformerEncoder",
           "TransformerEncoderLayer"]

_Activation = str | Callable[[Tensor], Tensor]


def _check_heads(embed_dim: int, num_heads: int) -> None:
    """torch asserts this; what is not above zero C refuses."""
    if embed_dim > 0 and num_heads > 0 and embed_dim % num_heads:
        raise AssertionError("embed_dim must be divisible by num_heads: %d is not, by %d" % (embed_dim, num_heads))


class MultiheadAttention(_Layer):
    """Attention of queries to keys and values with several heads: inputs (L, B, E), (B, L, E) with batch_first, or
    (L, E). Gives the output, and the weights of the keys where need_weights says so."""

    _own_forward = False
    _native = _Layer.forward

    def __init__(self, embed_dim: int, num_heads: int, dropout: float = 0.0, bias: bool = True,
                 add_bias_kv: bool = False, add_zero_attn: bool = False, kdim: int | None = None,
                 vdim: int | None = None, batch_first: bool = False, device: Any = None, dtype: Any = None) -> None:
        _check_heads(embed_dim, num_heads)
        self._build("MultiheadAttention", embed_dim, num_heads, dropout, bool(bias), bool(add_bias_kv),
                    bool(add_zero_attn), kdim, vdim, bool(batch_first), device, dtype)
        if type(self)._reset_parameters is not MultiheadAttention._reset_parameters:
            self._reset_parameters()

    def _settled(self) -> None:
        rest = self.__dict__
        for name in ("kdim", "vdim"):
            if rest.get(name) is None:
                rest[name] = self.embed_dim
        rest["head_dim"] = self.embed_dim // self.num_heads
        for name in ("bias", "add_bias_kv"):
            rest.pop(name, None)
        rest["_qkv_same_embed_dim"] = self.kdim == self.embed_dim and self.vdim == self.embed_dim

    def _reset_parameters(self) -> None:
        fresh = Module.__new__(_Layer)
        fresh._make("MultiheadAttention", **self._arguments())
        self.load_state_dict(fresh.state_dict())

    def forward(self, query: Tensor, key: Tensor, value: Tensor,
                key_padding_mask: Tensor | None = None, need_weights: bool = True, attn_mask: Tensor | None = None,
                average_attn_weights: bool = True, is_causal: bool = False) -> tuple[Tensor, Tensor | None]:
        made = self._native(query, key, value, key_padding_mask, bool(need_weights), attn_mask,
                            bool(average_attn_weights), bool(is_causal))
        return made if isinstance(made, tuple) else (made, None)

    def merge_masks(self, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                    query: Tensor) -> tuple[Tensor | None, int | None]:  # unused: query (torch's signature)
        """Both masks as one, and which there were: 0 attention, 1 padding, 2 both."""
        if key_padding_mask is None:
            return (attn_mask, 0) if attn_mask is not None else (None, None)
        if attn_mask is None:
            return key_padding_mask, 1
        batch, length = key_padding_mask.shape
        mask = attn_mask.view(batch, -1, length, length) if attn_mask.ndim == 3 else \
            attn_mask.view(1, 1, length, length).expand(batch, self.num_heads, -1, -1)
        return mask + key_padding_mask.view(batch, 1, 1, length).expand(-1, self.num_heads, -1, -1), 2


def _activation_name(activation: _Activation) -> str | None:
    """The name that C knows it by; None for a function of the program's own."""
    if isinstance(activation, str):
        if activation not in ("relu", "gelu"):
            raise RuntimeError("activation should be relu/gelu, not %s" % activation)
        return activation
    if activation in (F.relu, _C.relu):
        return "relu"
    if activation in (F.gelu, _C.gelu):
        return "gelu"
    module = getattr(activation, "_class_name", None)
    if module == "ReLU" or (module == "GELU" and getattr(activation, "approximate", "") == "none"):
        return str(module).lower()
    return None


class _TransformerLayer(_Layer):
    """What encoder and decoder layers share."""

    _own_forward = False
    _native = _Layer.forward
    _kind = ""

    def __init__(self, d_model: int, nhead: int, dim_feedforward: int = 2048, dropout: float = 0.1,
                 activation: _Activation = F.relu, layer_norm_eps: float = 1e-5, batch_first: bool = False,
                 norm_first: bool = False, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        name = _activation_name(activation)
        _check_heads(d_model, nhead)
        self._build(type(self)._kind, d_model, nhead, dim_feedforward, float(dropout), name or "relu", layer_norm_eps,
                    bool(batch_first), bool(norm_first), bool(bias), device, dtype)
        if not isinstance(activation, str):
            self.activation = activation
        if self._by_parts():
            self._set_patched(True)

    def _settled(self) -> None:
        rest = self.__dict__
        name = rest.get("activation")
        for key in ("d_model", "nhead", "dim_feedforward", "layer_norm_eps", "batch_first", "bias"):
            rest.pop(key, None)
        if isinstance(rest.get("dropout"), float):
            del rest["dropout"]
        if isinstance(name, str):
            rest["activation"] = F.gelu if name == "gelu" else F.relu

    def _by_parts(self) -> bool:
        """Is its activation one that C does not know, or a block a class's own? Then the parts are called from here."""
        home, own = _home(type(self)), type(self)
        return _activation_name(self.activation) is None or any(
            getattr(own, block, None) is not getattr(home, block, None) for block in ("_sa_block", "_mha_block",
                                                                                      "_ff_block"))

    def _sa_block(self, x: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                  is_causal: bool = False) -> Tensor:
        made = self.self_attn(x, x, x, attn_mask=attn_mask, key_padding_mask=key_padding_mask, need_weights=False,
                              is_causal=is_causal)[0]
        dropped: Tensor = self.dropout1(made)
        return dropped

    def _feed_forward(self, x: Tensor, last: Module) -> Tensor:
        made: Tensor = last(self.linear2(self.dropout(self.activation(self.linear1(x)))))
        return made

    def _revived(self) -> None:
        super()._revived()
        if self._by_parts():
            self._set_patched(True)


class TransformerEncoderLayer(_TransformerLayer):
    """Attention of a sequence to itself, then two linear layers, each around a shortcut with a norm."""

    _own_forward = False
    _kind = "TransformerEncoderLayer"

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._feed_forward(x, self.dropout2)

    def forward(self, src: Tensor, src_mask: Tensor | None = None,
                src_key_padding_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        if not self._by_parts():
            made: Tensor = self._native(src, src_mask, src_key_padding_mask, bool(is_causal))
            return made
        x = src
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), src_mask, src_key_padding_mask, is_causal)
            return x + self._ff_block(self.norm2(x))
        x = self.norm1(x + self._sa_block(x, src_mask, src_key_padding_mask, is_causal))
        last: Tensor = self.norm2(x + self._ff_block(x))
        return last


class TransformerDecoderLayer(_TransformerLayer):
    """Attention of a sequence to itself and to an encoder's memory, then two linear layers, each around a shortcut with
    a norm."""

    _own_forward = False
    _kind = "TransformerDecoderLayer"

    def _mha_block(self, x: Tensor, mem: Tensor, attn_mask: Tensor | None, key_padding_mask: Tensor | None,
                   is_causal: bool = False) -> Tensor:
        made = self.multihead_attn(x, mem, mem, attn_mask=attn_mask, key_padding_mask=key_padding_mask,
                                   need_weights=False, is_causal=is_causal)[0]
        dropped: Tensor = self.dropout2(made)
        return dropped

    def _ff_block(self, x: Tensor) -> Tensor:
        return self._feed_forward(x, self.dropout3)

    def forward(self, tgt: Tensor, memory: Tensor, tgt_mask: Tensor | None = None,
                memory_mask: Tensor | None = None, tgt_key_padding_mask: Tensor | None = None,
                memory_key_padding_mask: Tensor | None = None, tgt_is_causal: bool = False,
                memory_is_causal: bool = False) -> Tensor:
        if not self._by_parts():
            made: Tensor = self._native(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask,
                                        memory_key_padding_mask, bool(tgt_is_causal), bool(memory_is_causal))
            return made
        x = tgt
        if self.norm_first:
            x = x + self._sa_block(self.norm1(x), tgt_mask, tgt_key_padding_mask, tgt_is_causal)
            x = x + self._mha_block(self.norm2(x), memory, memory_mask, memory_key_padding_mask, memory_is_causal)
            return x + self._ff_block(self.norm3(x))
        x = self.norm1(x + self._sa_block(x, tgt_mask, tgt_key_padding_mask, tgt_is_causal))
        x = self.norm2(x + self._mha_block(x, memory, memory_mask, memory_key_padding_mask, memory_is_causal))
        last: Tensor = self.norm3(x + self._ff_block(x))
        return last


class _Stack(_Layer):
    """Copies of a layer, and a norm behind them."""

    def _stack(self, name: str, layer: Module, num_layers: int, norm: Module | None, *rest: Any) -> None:
        self._make_bare(name, layer, num_layers, norm, *rest)
        self.layers = ModuleList([copy.deepcopy(layer) for _ in range(num_layers)])
        self.norm = norm
        self._settled()

    def _settled(self) -> None:
        self.__dict__.setdefault("norm", None)
        if "layers" in self._modules:
            self.__dict__["num_layers"] = len(self.layers)

    def _recipe(self) -> tuple[str | None, dict[str, Any]]:
        """The layer itself is among the children, which come with the state."""
        name, arguments = super()._recipe()
        return name, {k: v for k, v in arguments.items() if k != "norm"} | {"num_layers": 0}

    def __reduce_ex__(self, protocol: Any) -> Any:
        return _restack, (type(self), *self._recipe()), self.__getstate__()


def _restack(cls: type[_Stack], name: str, arguments: dict[str, Any]) -> _Stack:
    """A stack as pickle had it, before its layers are put in."""
    made = cls.__new__(cls)
    first = next(k for k in arguments if k.endswith("_layer"))
    made._make_bare(name, **{**arguments, first: ModuleList()})
    return made


class TransformerEncoder(_Stack):
    """num_layers copies of a layer, and a norm behind them."""

    def __init__(self, encoder_layer: Module, num_layers: int, norm: Module | None = None,
                 enable_nested_tensor: bool = True, mask_check: bool = True) -> None:
        self._stack("TransformerEncoder", encoder_layer, num_layers, norm, bool(enable_nested_tensor),
                    bool(mask_check))


class TransformerDecoder(_Stack):
    """num_layers copies of a layer, and a norm behind them."""

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        self._stack("TransformerDecoder", decoder_layer, num_layers, norm)


class Transformer(_Layer):
    """An encoder of src and a decoder from tgt and the encoder's memory."""

    def __init__(self, d_model: int = 512, nhead: int = 8, num_encoder_layers: int = 6, num_decoder_layers: int = 6,
                 dim_feedforward: int = 2048, dropout: float = 0.1, activation: _Activation = F.relu,
                 custom_encoder: Module | None = None, custom_decoder: Module | None = None,
                 layer_norm_eps: float = 1e-5, batch_first: bool = False, norm_first: bool = False, bias: bool = True,
                 device: Any = None, dtype: Any = None) -> None:
        name = _activation_name(activation)
        if name is None:  # stacks of layers with a function of the program's own
            common = (d_model, nhead, dim_feedforward, dropout, activation, layer_norm_eps, batch_first, norm_first,
                      bias, device, dtype)
            norms = [LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype) for _ in range(2)]
            if custom_encoder is None:
                custom_encoder = TransformerEncoder(TransformerEncoderLayer(*common), num_encoder_layers, norms[0])
            if custom_decoder is None:
                custom_decoder = TransformerDecoder(TransformerDecoderLayer(*common), num_decoder_layers, norms[1])
        self._build("Transformer", d_model, nhead, num_encoder_layers, num_decoder_layers, dim_feedforward,
                    float(dropout), name or "relu", custom_encoder, custom_decoder, layer_norm_eps, bool(batch_first),
                    bool(norm_first), bool(bias), device, dtype)

    def _settled(self) -> None:
        keep = {"d_model", "nhead", "batch_first"}
        for name in list(self._arguments()):
            if name not in keep and name not in self._modules:
                self.__dict__.pop(name, None)

    def _recipe(self) -> tuple[str | None, dict[str, Any]]:
        name, arguments = super()._recipe()
        return name, {**arguments, "num_encoder_layers": 0, "num_decoder_layers": 0}

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: Any = None, dtype: Any = None) -> Tensor:
        """(sz, sz): 0 on and below the diagonal, -inf above it."""
        return _C._square_subsequent_mask(sz, dtype, device)


from .._layers import LayerNorm  # noqa: E402

_register(globals(), __all__)
