"""Attention: MultiHeadAttention and GroupQueryAttention with Keras's weights, Attention and AdditiveAttention."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from .base import Layer

__all__ = ["AdditiveAttention", "Attention", "GroupQueryAttention", "MultiHeadAttention"]


def _lowest(x: Any) -> float:
    return -3e38 if x.dtype != cairn.float16 else -6e4


def _both(a: Any, b: Any) -> Any:
    return b if a is None else a & b


class _Heads(Layer):
    """softmax(query key' / sqrt(size)) value, in parts side by side; query (N, T, in), value and key (N, S, in)."""

    _float_inputs = supports_masking = True
    query_heads, key_heads, key_size, value_size = 1, 1, 1, 1

    def _keep(self, **options: Any) -> None:
        window = options.get("sliding_window")
        if window is not None and (not isinstance(window, int) or window <= 0):
            raise ValueError("sliding_window is a positive number, not %r" % (window,))
        if options.pop("flash_attention", None):
            raise ValueError("the op chooses how attention is computed: flash_attention is None or False")
        self._options(**options)

    def _pair(self, name: str, shape: tuple[int, ...], bias: tuple[int, ...]) -> None:
        """A kernel and a bias, called kernel and bias as in a layer of their own."""
        setattr(self, name + "_kernel", self._weight("kernel", shape))
        setattr(self, name + "_bias", self._weight("bias", bias) if self.use_bias else None)

    def _projections(self, query_shape: Any, value_shape: Any, key_shape: Any, out: tuple[int, ...]) -> None:
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        q, h, k, v = self.query_heads, self.key_heads, self.key_size, self.value_size
        self._pair("query", (query_shape[-1], q, k), (q, k))
        self._pair("key", (key_shape[-1], h, k), (h, k))
        if self.use_gate:
            self._pair("gate", (query_shape[-1], q, v), (q, v))
        self._pair("value", (value_shape[-1], h, v), (h, v))
        self._pair("output", (q, v) + out, out)
        self.built = True

    def _split(self, x: Any, name: str) -> Any:
        """(N, T, in) as (N, heads, T, size)."""
        kernel, bias = getattr(self, name + "_kernel"), getattr(self, name + "_bias")
        h, d = int(kernel.shape[1]), int(kernel.shape[2])
        flat = F.linear(x, kernel.reshape(kernel.shape[0], h * d).t(), None if bias is None else bias.reshape(h * d))
        return flat.reshape(x.shape[0], x.shape[1], h, d).transpose(1, 2)

    def _mask(self, t: int, s: int, masks: tuple[Any, Any, Any], given: Any, causal: bool, device: Any) -> Any:
        """What may be looked at: True, (N, 1, T, S) or with a dimension of heads."""
        found = None
        query_mask, value_mask, key_mask = masks
        if query_mask is not None:
            found = _both(found, query_mask.to(cairn.bool)[:, None, :, None])
        for m in (value_mask, key_mask):
            if m is not None:
                found = _both(found, m.to(cairn.bool)[:, None, None, :])
        if given is not None:
            given = given.to(cairn.bool)
            found = _both(found, given if given.ndim == 4 else given[:, None] if given.ndim == 3 else given[None, None])
        if causal:
            found = _both(found, cairn.ones((t, s), device=device).tril().to(cairn.bool)[None, None])
        if self.sliding_window is not None:
            rows, columns = cairn.arange(t, device=device)[:, None], cairn.arange(s, device=device)[None]
            found = _both(found, ((rows - columns).abs() < self.sliding_window)[None, None])
        return found

    def _attend(self, query: Any, key: Any, value: Any, mask: Any, want_scores: bool,
                training: bool) -> tuple[Any, Any]:
        """Of sequences (N, T, in): (N, T, *out) and the weights of it (N, heads, T, S), where wanted."""
        q, k, v = self._split(query, "query"), self._split(key, "key"), self._split(value, "value")
        many = self.query_heads // self.key_heads
        if many > 1:
            k, v = k.repeat_interleave(many, 1), v.repeat_interleave(many, 1)
        scores = None
        rate = self.dropout if training else 0.0
        if want_scores:
            products = (q / math.sqrt(self.key_size)) @ k.transpose(-2, -1)
            if mask is not None:
                products = products.masked_fill(~mask, _lowest(q))
            scores = F.softmax(products, dim=-1)
            out = F.dropout(scores, rate, training=bool(rate)) @ v
        else:
            bias = None
            if mask is not None:  # added, so that a row without anything to look at stays finite
                bias = cairn.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, _lowest(q))
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias, dropout_p=rate)
        if self.use_gate:
            out = out * self._split(query, "gate").sigmoid()
        out = out.transpose(1, 2).reshape(query.shape[0], query.shape[1], -1)
        kernel, own = self.output_kernel, self.output_bias
        sizes = tuple(int(n) for n in kernel.shape[2:])
        out = F.linear(out, kernel.reshape(out.shape[-1], -1).t(), None if own is None else own.reshape(-1))
        return out.reshape(tuple(out.shape[:2]) + sizes), scores

    def call(self, query: Any, value: Any, key: Any = None, query_mask: Any = None, value_mask: Any = None,
             key_mask: Any = None, attention_mask: Any = None, return_attention_scores: bool = False,
             training: bool = False, use_causal_mask: bool = False) -> Any:
        key = value if key is None else key
        masks = tuple(m if m is not None else getattr(t, "_keras_mask", None)
                      for m, t in ((query_mask, query), (value_mask, value), (key_mask, key)))
        shape = tuple(int(n) for n in query.shape)
        query, restore = self._sequences(query)
        key, value = self._sequences(key)[0], self._sequences(value)[0]
        mask = self._mask(int(query.shape[1]), int(value.shape[1]), masks, attention_mask,  # type: ignore[arg-type]
                          use_causal_mask, query.device)
        out, scores = self._attend(query, key, value, mask, return_attention_scores, bool(training))
        out = out if restore is None else restore(out, shape)
        return (out, scores) if return_attention_scores else out

    def _sequences(self, x: Any) -> tuple[Any, Any]:
        """As (N, T, in), and what turns a result back; None where it is so already."""
        if x.ndim != 3:
            raise ValueError("%s needs query and value (samples, steps, features), not of shape %s"
                             % (self.name, tuple(x.shape)))
        return x, None


class MultiHeadAttention(_Heads):
    """num_heads parts with keys of key_dim numbers. attention_axes: the dimensions that are looked along, of inputs
    with more than three; all between samples and features by default."""

    _not_options = ("flash_attention", "output_shape")

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0,
                 use_bias: bool = True, output_shape: Any = None, attention_axes: Any = None,
                 sliding_window: int | None = None, flash_attention: Any = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, use_gate: bool = False,
                 seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        axes = None if attention_axes is None else \
            (attention_axes,) if isinstance(attention_axes, int) else tuple(attention_axes)
        self._keep(num_heads=num_heads, key_dim=key_dim, value_dim=value_dim or key_dim, dropout=dropout,
                   use_bias=use_bias, attention_axes=axes, sliding_window=sliding_window,
                   flash_attention=flash_attention, kernel_initializer=kernel_initializer,
                   bias_initializer=bias_initializer, kernel_regularizer=kernel_regularizer,
                   bias_regularizer=bias_regularizer, kernel_constraint=kernel_constraint,
                   bias_constraint=bias_constraint, use_gate=use_gate, seed=seed)
        self._out = None if output_shape is None else \
            (output_shape,) if isinstance(output_shape, int) else tuple(output_shape)
        self.query_heads = self.key_heads = num_heads
        self.key_size, self.value_size = key_dim, self.value_dim

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "output_shape": self._out}

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        self._projections(query_shape, value_shape, key_shape, self._out or (int(query_shape[-1]),))

    def _sequences(self, x: Any) -> tuple[Any, Any]:
        if x.ndim == 3:
            return x, None
        if x.ndim < 3:
            return super()._sequences(x)
        inner = list(range(1, x.ndim - 1))
        along = inner if self.attention_axes is None else sorted(a % x.ndim for a in self.attention_axes)
        free = [d for d in inner if d not in along]
        order = [0] + free + along + [x.ndim - 1]
        moved = x.permute(*order)
        n = math.prod(int(x.shape[d]) for d in [0] + free)
        t = math.prod(int(x.shape[d]) for d in along)

        def restore(out: Any, shape: tuple[int, ...]) -> Any:
            back = out.reshape(tuple(shape[d] for d in order[:-1]) + tuple(out.shape[2:]))
            places = [order.index(d) for d in range(len(order) - 1)]
            return back.permute(*places, *range(len(places), back.ndim))
        return moved.reshape(n, t, int(x.shape[-1])), restore


class GroupQueryAttention(_Heads):
    """Attention in which several heads of queries share one of keys and values."""

    _not_options = ("flash_attention",)

    def __init__(self, head_dim: int, num_query_heads: int, num_key_value_heads: int, dropout: float = 0.0,
                 use_bias: bool = True, sliding_window: int | None = None, flash_attention: Any = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, bias_regularizer: Any = None, activity_regularizer: Any = None,
                 kernel_constraint: Any = None, bias_constraint: Any = None, use_gate: bool = False,
                 seed: int | None = None, **kwargs: Any) -> None:
        super().__init__(activity_regularizer=activity_regularizer, **kwargs)
        if num_query_heads % num_key_value_heads:
            raise ValueError("num_query_heads=%d is not a multiple of num_key_value_heads=%d"
                             % (num_query_heads, num_key_value_heads))
        self._keep(head_dim=head_dim, num_query_heads=num_query_heads, num_key_value_heads=num_key_value_heads,
                   dropout=dropout, use_bias=use_bias, sliding_window=sliding_window, flash_attention=flash_attention,
                   kernel_initializer=kernel_initializer, bias_initializer=bias_initializer,
                   kernel_regularizer=kernel_regularizer, bias_regularizer=bias_regularizer,
                   kernel_constraint=kernel_constraint, bias_constraint=bias_constraint, use_gate=use_gate, seed=seed)
        self.query_heads, self.key_heads = num_query_heads, num_key_value_heads
        self.key_size = self.value_size = head_dim

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        self._projections(query_shape, value_shape, key_shape, (int(query_shape[-1]),))


class Attention(Layer):  # unused: inputs (Keras's signature)
    """Of [query, value] or [query, value, key]."""

    _float_inputs = supports_masking = True

    def __init__(self, use_scale: bool = False, score_mode: str = "dot", dropout: float = 0.0, seed: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if score_mode not in ("dot", "concat"):
            raise ValueError("score_mode is dot or concat, not %r" % (score_mode,))
        self._options(use_scale=use_scale, score_mode=score_mode, dropout=dropout, seed=seed)

    def build(self, input_shape: Any) -> None:
        if not isinstance(input_shape, list) or not 2 <= len(input_shape) <= 3:
            raise ValueError("%s is called on a list [query, value] or [query, value, key]" % type(self).__name__)
        self.scale = self.add_weight((), "ones", name="scale") if self.use_scale else None
        self.concat_score_weight = None
        if self.score_mode == "concat":
            self.concat_score_weight = self.add_weight((), "ones", name="concat_score_weight")
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        if self.concat_score_weight is not None:
            both = query.unsqueeze(-2) + key.unsqueeze(-3)
            return self.concat_score_weight * (both if self.scale is None else both * self.scale).tanh().sum(-1)
        products = query @ key.transpose(-2, -1)
        return products if self.scale is None else products * self.scale

    def call(self, inputs: Any, mask: Any = None, training: bool = False, return_attention_scores: bool = False,
             use_causal_mask: bool = False) -> Any:
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        scores = self._scores(query, key)
        seen = None
        if mask is not None and mask[1] is not None:
            seen = mask[1].to(cairn.bool).unsqueeze(-2)
        if use_causal_mask:
            seen = _both(seen, cairn.ones_like(scores[:1]).tril().to(cairn.bool))
        if seen is not None:
            scores = cairn.where(seen, scores, scores - (1e9 if scores.dtype != cairn.float16 else 65504.0))
        weights = F.softmax(scores, dim=-1)
        out = F.dropout(weights, self.dropout, training=bool(training)) @ value
        if mask is not None and mask[0] is not None:
            out = out * mask[0].unsqueeze(-1).to(out.dtype)
        return (out, weights) if return_attention_scores else out

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        return None if mask is None else mask[0]


class AdditiveAttention(Attention):
    _not_options = ("score_mode",)

    def __init__(self, use_scale: bool = True, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(use_scale, dropout=dropout, **kwargs)

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight((input_shape[0][-1],), "glorot_uniform", name="scale") if self.use_scale else None
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        both = (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh()
        return (both if self.scale is None else both * self.scale).sum(-1)
