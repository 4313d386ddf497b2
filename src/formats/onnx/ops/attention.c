/* attention.c: attention, and the positions that go into it. See call.h. */
#include "formats/onnx/attention.h"

#include <math.h>

enum { Q, K, V, MASK, PAST_KEY, PAST_VALUE, LENGTHS }; /* Attention's inputs */

/* A mask that ends before the keys do hides the others. */
static cn_tensor *whole_mask(cn_tensor *mask, int64_t keys)
{
  int ndim = mask ? cn_ndim(mask) : 0;
  if (!ndim || cn_shape(mask)[ndim - 1] >= keys) return mask;
  bool seen = cn_dtype_of(mask) == CN_BOOL;
  int64_t pad[2] = {0, keys - cn_shape(mask)[ndim - 1]};
  return cn_constant_pad_nd(mask, pad, 2, .value = seen ? 0 : -INFINITY);
}

/* Which keys a query sees by its place: is_causal, the windows, and samples' own lengths. The queries come behind what
 * is past, or are the last of a sample's keys. */
static cn_tensor *seen_by_place(cni_onnx_call *c, const cni_onnx_attention *a, int64_t past, cn_tensor *lengths)
{
  int64_t queries = cn_shape(a->q)[2], keys = cn_shape(a->k)[2];
  int64_t left = cni_onnx_int(c, "left_window_size", -1), right = cni_onnx_int(c, "right_window_size", -1);
  cn_tensor *seen = lengths ? cni_onnx_below(lengths, keys) : NULL, *ahead;
  if (left < -1 || right < -1) {
    cni_onnx_fail(c, CN_ERR_VALUE, "window sizes must be -1 or more");
    return NULL;
  }
  if (cni_onnx_int(c, "is_causal", 0)) right = 0;
  if (left < 0 && right < 0) return seen;
  ahead =
      cni_onnx_distances(queries, keys, past, lengths ? cn_sub(lengths, cn_int(queries)) : NULL, cn_device_of(a->q));
  if (right >= 0) seen = cni_onnx_both(seen, cn_le(ahead, cn_int(right)));
  return left >= 0 ? cni_onnx_both(seen, cn_ge(ahead, cn_int(-left))) : seen;
}

static int read_operands(cni_onnx_attention *a, cni_onnx_call *c)
{
  int64_t heads = cni_onnx_int(c, "q_num_heads", 0), groups = cni_onnx_int(c, "kv_num_heads", 0);
  a->q = cni_onnx_in(c, Q);
  a->k = cni_onnx_in(c, K);
  a->v = cni_onnx_in(c, V);
  if (!a->q || !a->k || !a->v) return cn_err();
  if (cn_ndim(a->q) == 3) {
    a->q = cni_onnx_heads(c, a->q, heads);
    a->k = cni_onnx_heads(c, a->k, groups);
    a->v = cni_onnx_heads(c, a->v, groups);
  } else if (cn_ndim(a->q) != 4 || cn_ndim(a->k) != 4 || cn_ndim(a->v) != 4)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "Q, K and V must all have three dimensions, or four");
  return cn_err();
}

/* Keys and values behind those of the past; *past: how many those are. */
static int join_past(cni_onnx_attention *a, int64_t *past, cni_onnx_call *c)
{
  cn_tensor *keys[2] = {cni_onnx_maybe(c, PAST_KEY), a->k}, *values[2] = {cni_onnx_maybe(c, PAST_VALUE), a->v};
  *past = 0;
  if (!keys[0] != !values[0]) return cni_onnx_fail(c, CN_ERR_VALUE, "past_key and past_value must be given together");
  if (!keys[0]) return cn_err();
  if (cn_ndim(keys[0]) != 4) return cni_onnx_fail(c, CN_ERR_SHAPE, "past_key must have four dimensions");
  if (cni_onnx_has(c, LENGTHS))
    return cni_onnx_fail(c, CN_ERR_VALUE, "nonpad_kv_seqlen must not be given together with past_key");
  *past = cn_shape(keys[0])[2];
  a->k = cn_cat(keys, 2, .dim = 2);
  a->v = cn_cat(values, 2, .dim = 2);
  return cn_err();
}

static int attention(cni_onnx_call *c)
{
  cni_onnx_attention a = {.scale = cni_onnx_float(c, "scale", 0),
                          .softcap = cni_onnx_float(c, "softcap", 0),
                          .precision = cni_onnx_dtype_of(c, "softmax_precision", CN_DTYPE_NONE),
                          .wants_stages = cni_onnx_wants(c, 3)};
  cn_tensor *mask = cni_onnx_maybe(c, MASK), *lengths = cni_onnx_maybe(c, LENGTHS);
  int64_t past, stage = cni_onnx_int(c, "qk_matmul_output_mode", 0);
  if (read_operands(&a, c) || join_past(&a, &past, c)) return cn_err();
  bool flat = cn_ndim(cni_onnx_in(c, Q)) == 3;
  if (stage < 0 || stage > 3)
    return cni_onnx_fail(c, CN_ERR_VALUE, "qk_matmul_output_mode is %lld", (long long)stage);
  if (cni_onnx_out(c, 1, a.k) || cni_onnx_out(c, 2, a.v)) return cn_err();
  mask = whole_mask(mask, cn_shape(a.k)[2]);
  a.seen = seen_by_place(c, &a, past, lengths);
  if (mask && cn_dtype_of(mask) == CN_BOOL) a.seen = cni_onnx_both(mask, a.seen);
  else a.bias = mask;
  cn_tensor *y = cni_onnx_attend(&a);
  if (cni_onnx_out(c, 0, flat ? cni_onnx_unheads(y) : y)) return cn_err();
  return a.wants_stages ? cni_onnx_out(c, 3, a.stages[stage]) : CN_OK;
}

/* Positions of pairs of numbers, as angles from tables: of each position, or, without positions, of each place. */
static int rotary_embedding(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *cos = cni_onnx_in(c, 1), *sin = cni_onnx_in(c, 2), *at = cni_onnx_maybe(c, 3);
  int64_t part = cni_onnx_int(c, "rotary_embedding_dim", 0);
  if (!x || !cos || !sin) return cn_err();
  bool flat = cn_ndim(x) == 3;
  if (flat && !(x = cni_onnx_heads(c, x, cni_onnx_int(c, "num_heads", 0)))) return cn_err();
  if (cn_ndim(x) != 4) return cni_onnx_fail(c, CN_ERR_SHAPE, "the input must have three dimensions, or four");
  if (at) {
    cos = cn_embedding(at, cos, CN_NONE);
    sin = cn_embedding(at, sin, CN_NONE);
  }
  if (!cos || !sin) return cn_err();
  int64_t half = (part ? part : cn_shape(x)[3]) / 2;
  if (cn_ndim(cos) != 3 || cn_shape(cos)[2] != half || cn_ndim(sin) != 3 || cn_shape(sin)[2] != half || half < 1 ||
      2 * half > cn_shape(x)[3])
    return cni_onnx_fail(c, CN_ERR_SHAPE, "the tables must have %lld columns", (long long)half);
  cn_tensor *y =
      cni_onnx_rotate(x, cn_unsqueeze(cos, 1), cn_unsqueeze(sin, 1), cni_onnx_int(c, "interleaved", 0) != 0);
  return cni_onnx_out(c, 0, flat ? cni_onnx_unheads(y) : y);
}

const cni_onnx_op cni_onnx_attention_ops[] = {
    ONNX_BUILD("Attention", 23, attention),
    ONNX_BUILD("RotaryEmbedding", 23, rotary_embedding),
    {NULL, NULL, NULL, 0, 0},
};
