"""Attention: MultiHeadAttention with Keras's weights, and Attention without any."""
from __future__ import annotations

import math
from typing import Any

import cairn
from ...nn import functional as F
from .base import Layer

__all__ = ["AdditiveAttention", "Attention", "MultiHeadAttention"]


class MultiHeadAttention(Layer):
    """softmax(query key' / sqrt(key_dim)) value, in num_heads parts side by side."""

    _float_inputs = supports_masking = True

    def __init__(self, num_heads: int, key_dim: int, value_dim: int | None = None, dropout: float = 0.0,
                 use_bias: bool = True, output_shape: Any = None, attention_axes: Any = None,
                 kernel_initializer: Any = "glorot_uniform", bias_initializer: Any = "zeros",
                 kernel_regularizer: Any = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_heads, self.key_dim, self.value_dim = num_heads, key_dim, value_dim or key_dim
        self.dropout, self.use_bias = dropout, use_bias
        self.out_size = output_shape[0] if isinstance(output_shape, (list, tuple)) else output_shape
        self.how = (kernel_initializer, bias_initializer, kernel_regularizer)

    def _pair(self, name: str, shape: tuple[int, ...], bias: tuple[int, ...]) -> None:
        first, zero, regular = self.how
        setattr(self, name + "_kernel", self.add_weight(shape, first, regularizer=regular, name=name + "_kernel"))
        setattr(self, name + "_bias", self.add_weight(bias, zero, name=name + "_bias") if self.use_bias else None)

    def build(self, query_shape: Any, value_shape: Any = None, key_shape: Any = None) -> None:
        value_shape = value_shape or query_shape
        key_shape = key_shape or value_shape
        h, k, v = self.num_heads, self.key_dim, self.value_dim
        self._pair("query", (query_shape[-1], h, k), (h, k))
        self._pair("key", (key_shape[-1], h, k), (h, k))
        self._pair("value", (value_shape[-1], h, v), (h, v))
        out = self.out_size or query_shape[-1]
        self._pair("output", (h, v, out), (out,))
        self.built = True

    def _heads(self, x: Any, name: str) -> Any:
        """(N, T, in) as (N, heads, T, size)."""
        kernel, bias = getattr(self, name + "_kernel"), getattr(self, name + "_bias")
        h, d = int(kernel.shape[1]), int(kernel.shape[2])
        flat = F.linear(x, kernel.reshape(kernel.shape[0], h * d).t(), None if bias is None else bias.reshape(h * d))
        return flat.reshape(x.shape[0], x.shape[1], h, d).transpose(1, 2)

    def _mask(self, query: Any, value: Any, masks: tuple[Any, Any, Any], given: Any, causal: bool) -> Any:
        """What may be looked at: True, (N, 1, T, S)."""
        found = None

        def also(found: Any, m: Any) -> Any:
            return m if found is None else found & m
        query_mask, value_mask, key_mask = masks
        if query_mask is not None:
            found = also(found, query_mask.to(cairn.bool)[:, None, :, None])
        for m in (value_mask, key_mask):
            if m is not None:
                found = also(found, m.to(cairn.bool)[:, None, None, :])
        if given is not None:
            given = given.to(cairn.bool)
            found = also(found, given if given.ndim == 4 else given[:, None] if given.ndim == 3 else given[None, None])
        if causal:
            t, s = int(query.shape[1]), int(value.shape[1])
            found = also(found, cairn.ones((t, s), device=query.device).tril().to(cairn.bool)[None, None])
        return found

    def call(self, query: Any, value: Any, key: Any = None, query_mask: Any = None, value_mask: Any = None,
             key_mask: Any = None, attention_mask: Any = None, return_attention_scores: bool = False,
             training: bool = False, use_causal_mask: bool = False) -> Any:
        if query.ndim != 3 or value.ndim != 3:
            raise ValueError("%s needs query and value (samples, steps, features), not of shapes %s and %s"
                             % (self.name, tuple(query.shape), tuple(value.shape)))
        key = value if key is None else key
        masks = tuple(m if m is not None else getattr(t, "_keras_mask", None)
                      for m, t in ((query_mask, query), (value_mask, value), (key_mask, key)))
        mask = self._mask(query, value, masks, attention_mask, use_causal_mask)  # type: ignore[arg-type]
        q, k, v = self._heads(query, "query"), self._heads(key, "key"), self._heads(value, "value")
        scores = None
        low = -3e38 if q.dtype != cairn.float16 else -6e4
        if return_attention_scores:
            products = q @ k.transpose(-2, -1) / math.sqrt(self.key_dim)
            if mask is not None:
                products = products.masked_fill(~mask, low)
            scores = F.softmax(products, dim=-1)
            out = F.dropout(scores, self.dropout, training=bool(training)) @ v
        else:
            bias = None
            if mask is not None:  # added, so that a row without anything to look at stays finite
                bias = cairn.zeros_like(mask, dtype=q.dtype).masked_fill(~mask, low)
            out = F.scaled_dot_product_attention(q, k, v, attn_mask=bias,
                                                 dropout_p=self.dropout if training else 0.0)
        out = out.transpose(1, 2).reshape(query.shape[0], query.shape[1], self.num_heads * self.value_dim)
        kernel = self.output_kernel
        out = F.linear(out, kernel.reshape(-1, kernel.shape[-1]).t(), self.output_bias)
        return (out, scores) if return_attention_scores else out


class Attention(Layer):
    """Of [query, value] or [query, value, key]."""

    _float_inputs = True

    def __init__(self, use_scale: bool = False, score_mode: str = "dot", dropout: float = 0.0, seed: Any = None,
                 **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.use_scale, self.score_mode, self.dropout = use_scale, score_mode, dropout

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight((), "ones", name="scale") if self.use_scale else None
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        products = query @ key.transpose(-2, -1)
        return products if self.scale is None else products * self.scale

    def call(self, inputs: Any, mask: Any = None, return_attention_scores: bool = False, training: bool = False,
             use_causal_mask: bool = False) -> Any:
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        scores = self._scores(query, key)
        if mask is not None and mask[1] is not None:
            scores = scores.masked_fill(~mask[1].to(cairn.bool).unsqueeze(-2), -3e38)
        if use_causal_mask:
            scores = scores.masked_fill(~cairn.ones_like(scores).tril().to(cairn.bool), -3e38)
        weights = F.softmax(scores, dim=-1)
        out = F.dropout(weights, self.dropout, training=bool(training)) @ value
        return (out, weights) if return_attention_scores else out


class AdditiveAttention(Attention):
    def __init__(self, use_scale: bool = True, dropout: float = 0.0, **kwargs: Any) -> None:
        super().__init__(use_scale, dropout=dropout, **kwargs)

    def build(self, input_shape: Any) -> None:
        self.scale = self.add_weight((input_shape[0][-1],), "glorot_uniform", name="scale") if self.use_scale else None
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        both = (query.unsqueeze(-2) + key.unsqueeze(-3)).tanh()
        return (both if self.scale is None else both * self.scale).sum(-1)
