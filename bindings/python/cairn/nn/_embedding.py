"""torch.nn.functional's embeddings with all their options, and multi-head attention."""
from __future__ import annotations

import builtins

from .. import _C
from .._modes import no_grad
from .._tensor import Tensor

__all__ = ["embedding", "embedding_bag", "multi_head_attention_forward"]


def _renormed(weight: Tensor, indices: Tensor, max_norm: builtins.float | None, norm_type: builtins.float) -> None:
    """Scales rows of weight, in place, to at most that norm."""
    if max_norm is not None and indices.numel():
        with no_grad():
            weight.embedding_renorm_(indices, builtins.float(max_norm), builtins.float(norm_type))


def embedding(input: Tensor, weight: Tensor, padding_idx: builtins.int | None = None,
              max_norm: builtins.float | None = None, norm_type: builtins.float = 2.0,
              scale_grad_by_freq: builtins.bool = False, sparse: builtins.bool = False) -> Tensor:
    """Rows of weight by number. max_norm scales the rows used down to that norm, in place; scale_grad_by_freq divides
    gradients by how often a row is used; sparse makes the weight's gradient a sparse tensor of the rows used."""
    if weight.ndim != 2:
        raise RuntimeError("'weight' must be 2-D")
    _renormed(weight, input, max_norm, norm_type)
    if sparse and scale_grad_by_freq:
        raise RuntimeError("embedding: scale_grad_by_freq is not supported with sparse gradients")
    rows = (_C._embedding_sparse if sparse else _C.embedding)(input, weight, padding_idx)
    if scale_grad_by_freq and input.numel():
        flat = input.reshape(-1)
        ones = _C.ones((flat.numel(),), dtype=weight.dtype, device=weight.device)
        seen = _C.zeros((weight.shape[0],), dtype=weight.dtype, device=weight.device).index_add(0, flat, ones)
        rows = _C._grad_scaled(rows, seen.index_select(0, flat).reciprocal().reshape(*input.shape, 1))
    return rows


def embedding_bag(input: Tensor, weight: Tensor, offsets: Tensor | None = None, max_norm: builtins.float | None = None,
                  norm_type: builtins.float = 2, scale_grad_by_freq: builtins.bool = False, mode: str = "mean",
                  sparse: builtins.bool = False, per_sample_weights: Tensor | None = None,
                  include_last_offset: builtins.bool = False, padding_idx: builtins.int | None = None) -> Tensor:
    """Sums, means or maxima of the rows that each bag of input names."""
    if weight.dtype == _C.int64 and input.is_floating_point():  # torch's old order of the two
        input, weight = weight, input
    if padding_idx is not None and not -weight.shape[0] <= padding_idx < weight.shape[0]:
        raise RuntimeError("padding_idx must be within the number of embeddings")
    return _C.embedding_bag(input, weight, offsets, max_norm, builtins.float(norm_type), scale_grad_by_freq, mode,
                            sparse, per_sample_weights, include_last_offset, padding_idx)


# ---- attention ----

def multi_head_attention_forward(
        query: Tensor, key: Tensor, value: Tensor, embed_dim_to_check: builtins.int, num_heads: builtins.int,
        in_proj_weight: Tensor | None, in_proj_bias: Tensor | None, bias_k: Tensor | None, bias_v: Tensor | None,
        add_zero_attn: builtins.bool, dropout_p: builtins.float, out_proj_weight: Tensor, out_proj_bias: Tensor | None,
        training: builtins.bool = True, key_padding_mask: Tensor | None = None, need_weights: builtins.bool = True,
        attn_mask: Tensor | None = None, use_separate_proj_weight: builtins.bool = False,
        q_proj_weight: Tensor | None = None, k_proj_weight: Tensor | None = None, v_proj_weight: Tensor | None = None,
        static_k: Tensor | None = None, static_v: Tensor | None = None, average_attn_weights: builtins.bool = True,
        is_causal: builtins.bool = False) -> tuple[Tensor, Tensor | None]:
    """Attention with several heads between inputs of shape (length, batch, width) or (length, width): the output, and
    the weights (of each head, or their mean) where need_weights says so."""
    if query.shape[-1] != embed_dim_to_check:
        raise AssertionError("was expecting embedding dimension of %d, but got %d"
                             % (embed_dim_to_check, query.shape[-1]))
    if static_k is not None or static_v is not None:
        raise NotImplementedError("multi_head_attention_forward(): static_k and static_v are not there")
    if is_causal and attn_mask is None:
        raise RuntimeError("Need attn_mask if specifying the is_causal hint.")
    causal = is_causal and key_padding_mask is None and not need_weights
    given = (q_proj_weight, k_proj_weight, v_proj_weight) if use_separate_proj_weight else (in_proj_weight,)
    matrices = [m for m in given if m is not None]
    out, weights = _C.multi_head_attention(
        query, key, value, num_heads, matrices, out_proj_weight, in_proj_bias=in_proj_bias,
        out_proj_bias=out_proj_bias, bias_k=bias_k, bias_v=bias_v, add_zero_attn=add_zero_attn,
        dropout_p=dropout_p if training else 0.0, key_padding_mask=key_padding_mask,
        attn_mask=None if causal else attn_mask, is_causal=causal,
        weights="none" if not need_weights else "mean" if average_attn_weights else "each")
    return out, weights
