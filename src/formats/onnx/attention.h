/* attention.h: what the operators of attention share: heads, masks, positions, the product itself. Internal.
 *
 * Inside tensors are (batch, heads, length, size). Each function passes a NULL operand through as NULL. */
#ifndef CNI_ONNX_ATTENTION_H
#define CNI_ONNX_ATTENTION_H

#include "call.h"

/* softmax(scale * Q K^T, softcap, bias, seen) V; key and value may have fewer heads, each for a group. */
typedef struct cni_onnx_attention {
  cn_tensor *q, *k, *v;
  cn_tensor *bias;    /* numbers added to the scores, broadcast; NULL: none */
  cn_tensor *seen;    /* bool, broadcast: which keys take part; NULL: all */
  cn_tensor *sink;    /* (heads): one more score for each query, of a key without a value; NULL: none */
  double scale;       /* 0: 1 / sqrt(size) */
  double softcap;     /* 0: none */
  cn_dtype precision; /* the least that the softmax is computed in; CN_DTYPE_NONE: the kernel's own */
  bool wants_stages;
  cn_tensor *stages[4]; /* where asked for: the scores, after the softcap, with bias and mask, the weights */
} cni_onnx_attention;

/* The kernel where it has all that is asked for, else products and a softmax. */
cn_tensor *cni_onnx_attend(cni_onnx_attention *a);

/* (batch, length, heads * size) as (batch, heads, length, size), and back. NULL with the error set. */
cn_tensor *cni_onnx_heads(const cni_onnx_call *call, cn_tensor *x, int64_t heads);
cn_tensor *cni_onnx_unheads(cn_tensor *x);
/* Each head repeated for its group of `heads`. */
cn_tensor *cni_onnx_spread(cn_tensor *x, int64_t heads);
/* The first numbers of each head as pairs, turned by the angles of cos and sin (.., length, pairs), which broadcast. */
cn_tensor *cni_onnx_rotate(cn_tensor *x, cn_tensor *cos, cn_tensor *sin, bool interleaved);

/* Positions of keys less those of queries, (queries, keys): query i is at i + first. With a tensor of firsts, one a
 * sample: (batch, 1, queries, keys). */
cn_tensor *cni_onnx_distances(int64_t queries, int64_t keys, int64_t first, cn_tensor *firsts, cn_device device);
/* (batch, 1, 1, keys): key j is below a sample's length. */
cn_tensor *cni_onnx_below(cn_tensor *lengths, int64_t keys);
/* Both, where both are given. */
cn_tensor *cni_onnx_both(cn_tensor *seen, cn_tensor *other);

#endif
