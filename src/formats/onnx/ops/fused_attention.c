/* fused_attention.c: com.microsoft's operators of attention. See call.h.
 *
 * Each brings its operands to heads, its masks to numbers or bools, and is attention.h's. Keys of a sample that are
 * padding get mask_filter_value added, as there, so that a query of padding alone still gives an average. */
#include <math.h>
#include <string.h>

#include "formats/onnx/attention.h"
#include "formats/onnx/quant.h"

/* ---- Attention, MultiHeadAttention ---- */

/* Which inputs they are; NONE: there is none. past_value NONE: the past is one tensor of both. length: of the past, in
 * buffers with room for more. */
typedef struct inputs {
  size_t mask, bias, past, past_value, length;
} inputs;
enum { NONE = 99 };

/* (B, 1, L or 1, T) of bools from (B) ends; (2 B) ends and starts; (B, T); (B, L, T); NULL with the error set. */
static cn_tensor *padding_of(cni_onnx_call *c, cn_tensor *mask, int64_t batch, int64_t keys)
{
  int ndim = mask ? cn_ndim(mask) : 0;
  const int64_t *s = mask ? cn_shape(mask) : NULL;
  if (ndim == 1 && (s[0] == batch || s[0] == 2 * batch)) {
    cn_tensor *seen = cni_onnx_below(cn_narrow(mask, 0, 0, batch), keys);
    if (s[0] == batch) return seen;
    return cni_onnx_both(seen, cn_logical_not(cni_onnx_below(cn_narrow(mask, 0, batch, batch), keys)));
  }
  if (ndim == 2) return cn_gt(cn_reshape(mask, CN_SHAPE(s[0], 1, 1, s[1])), cn_int(0));
  if (ndim == 3) return cn_gt(cn_unsqueeze(mask, 1), cn_int(0));
  if (mask && !cn_err()) cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "a mask of this shape");
  return NULL;
}

/* x (B, H, L, size) at place `at` of a buffer, the rest as it was. */
static cn_tensor *placed(const cni_onnx_call *c, cn_tensor *buffer, cn_tensor *x, int64_t at)
{
  if (!buffer || !x) return NULL;
  int64_t behind = cn_shape(buffer)[2] - at - cn_shape(x)[2];
  if (at < 0 || behind < 0)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "past_sequence_length does not fit the buffer"), NULL;
  cn_tensor *parts[3] = {cn_narrow(buffer, 2, 0, at), x, cn_narrow(buffer, 2, at + cn_shape(x)[2], behind)};
  return cn_cat(parts, 3, .dim = 2);
}

/* Keys and values behind those of the past, in a tensor or a buffer of their own. How many there are; negative with the
 * error set. present: what the next call gets. */
static int64_t join_past(cn_tensor *present[2], cni_onnx_attention *a, cni_onnx_call *c, const inputs *at)
{
  cn_tensor *past[2] = {cni_onnx_maybe(c, at->past), NULL}, *new[2] = {a->k, a->v};
  present[0] = a->k;
  present[1] = a->v;
  if (!past[0]) return cn_err();
  if (at->past_value == NONE) {
    past[1] = cn_select(past[0], 0, 1);
    past[0] = cn_select(past[0], 0, 0);
  } else past[1] = cni_onnx_in(c, at->past_value);
  if (!past[0] || !past[1]) return cn_err();
  if (cn_ndim(past[0]) != 4 || cn_ndim(past[1]) != 4)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "past keys and values must be (batch, heads, length, size)");
  bool shared = at->length != NONE && cni_onnx_has(c, at->length) && cni_onnx_int(c, "past_present_share_buffer", 1);
  int64_t length = shared ? cni_onnx_int_in(c, at->length, 0) : cn_shape(past[0])[2];
  for (int i = 0; i < 2; i++) {
    cn_tensor *parts[2] = {past[i], new[i]};
    present[i] = shared ? placed(c, past[i], new[i], length) : cn_cat(parts, 2, .dim = 2);
    if (!present[i]) return cn_err();
  }
  int64_t all = length + cn_shape(a->k)[2];
  a->k = shared ? cn_narrow(present[0], 2, 0, all) : present[0];
  a->v = shared ? cn_narrow(present[1], 2, 0, all) : present[1];
  return cn_err() ? cn_err() : length;
}

/* Masks, then the product; `past` keys came before the queries' own. */
static int attend(cni_onnx_attention *a, cni_onnx_call *c, const inputs *at, int64_t past)
{
  cn_tensor *mask = cni_onnx_maybe(c, at->mask), *added = cni_onnx_maybe(c, at->bias);
  if (cn_err() || !a->q || !a->k || !a->v) return cn_err();
  cn_dtype own = cn_dtype_of(a->q);
  int64_t batch = cn_shape(a->q)[0], queries = cn_shape(a->q)[2], keys = cn_shape(a->k)[2];
  a->scale = cni_onnx_float(c, "scale", 0);
  a->bias = added;
  if (mask) {
    cn_tensor *seen = padding_of(c, mask, batch, keys), *hidden;
    hidden = cn_full(CN_SCALAR_SHAPE, cni_onnx_float(c, "mask_filter_value", -10000), .dtype = own,
                     .device = cn_device_of(a->q));
    cn_tensor *numbers = seen ? cn_where(seen, cn_zeros_like(hidden), hidden) : NULL;
    if (!numbers) return cn_err();
    a->bias = added ? cn_add(numbers, added) : numbers;
  }
  if (cni_onnx_int(c, "unidirectional", 0))
    a->seen = cn_le(cni_onnx_distances(queries, keys, past, NULL, cn_device_of(a->q)), cn_int(0));
  return cni_onnx_out(c, 0, cni_onnx_unheads(cni_onnx_attend(a)));
}

/* Of `all`, queries, keys and values side by side. */
static int attention_of(cni_onnx_call *c, cn_tensor *all, const inputs *at)
{
  cni_onnx_ints sizes = cni_onnx_ints_of(c, "qkv_hidden_sizes");
  int64_t heads = cni_onnx_int(c, "num_heads", 0), from = 0;
  cni_onnx_attention a = {0};
  cn_tensor *parts[3], *present[2];
  if (!all || cn_err()) return cn_err();
  if (cni_onnx_int(c, "do_rotary", 0)) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "do_rotary is not there");
  if (cn_ndim(all) != 3 || (sizes.v && sizes.n != 3))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "input, weights or qkv_hidden_sizes do not fit");
  for (int i = 0; i < 3; i++) {
    int64_t width = sizes.v ? sizes.v[i] : cn_shape(all)[2] / 3;
    parts[i] = cni_onnx_heads(c, cn_narrow(all, 2, from, width), heads);
    from += width;
  }
  a.q = parts[0];
  a.k = parts[1];
  a.v = parts[2];
  if (!a.q || !a.k || !a.v) return cn_err();
  int64_t past = join_past(present, &a, c, at);
  if (past < 0 || (cni_onnx_wants(c, 1) && cni_onnx_out(c, 1, cn_stack(present, 2)))) return cn_err();
  return attend(&a, c, at, past);
}

/* The input's product with the weights of queries, keys and values. */
static int attention(cni_onnx_call *c)
{
  static const inputs at = {3, 5, 4, NONE, 6};
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1), *b = cni_onnx_maybe(c, 2);
  if (!x || !w) return cn_err();
  return attention_of(c, b ? cn_add(cn_matmul(x, w), b) : cn_matmul(x, w), &at);
}

/* One new position. */
static int decoder_self_attention(cni_onnx_call *c)
{
  static const inputs at = {3, 5, 4, NONE, 6};
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1), *b = cni_onnx_in(c, 2);
  if (!x || !w || !b) return cn_err();
  if (cni_onnx_int_in(c, 7, 1) != 1) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "beams are not there");
  return attention_of(c, cn_add(cn_matmul(x, w), b), &at);
}

/* ... of quantised numbers. */
static int quantised_attention(cni_onnx_call *c)
{
  static const inputs at = {5, NONE, 8, NONE, NONE};
  cn_tensor *b = cni_onnx_in(c, 2), *scale = cni_onnx_in(c, 3), *by = cni_onnx_in(c, 4);
  cni_onnx_int8 x, w;
  if (!b || !scale || !by || cni_onnx_int8_in(&x, c, 0, 6, -2) || cni_onnx_int8_in(&w, c, 1, 7, -1)) return cn_err();
  cn_tensor *sums = cni_onnx_int8_product(x, w);
  by = cn_mul(cn_reshape(scale, CN_SCALAR_SHAPE), cn_numel(by) == 1 ? cn_reshape(by, CN_SCALAR_SHAPE) : by);
  return attention_of(c, sums ? cn_add(cn_mul(cn_cast(sums, cn_dtype_of(b)), by), b) : NULL, &at);
}

/* Queries, keys and values, each (B, length, columns), or packed with the others in one more dimension. */
static int read_three(cni_onnx_attention *a, cni_onnx_call *c, cn_tensor *bias)
{
  cn_tensor *t[3] = {cni_onnx_in(c, 0), cni_onnx_maybe(c, 1), cni_onnx_maybe(c, 2)};
  int64_t from = 0, heads = cni_onnx_int(c, "num_heads", 0);
  for (int i = 0; i < 2; i++) /* (B, length, heads, 3 or 2, size) */
    if (t[i] && cn_ndim(t[i]) == 5) {
      cn_tensor *packed = t[i];
      for (int k = i; k < 3; k++) t[k] = cn_flatten(cn_select(packed, 3, k - i), .start_dim = 2);
    }
  for (int i = 0; i < 3; i++) {
    if (!t[i]) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "key or value is missing");
    if (cn_ndim(t[i]) == 4) continue; /* heads already: of another sequence, without a bias */
    if (cn_ndim(t[i]) != 3) return cni_onnx_fail(c, CN_ERR_SHAPE, "query, key and value must have three dimensions");
    int64_t width = cn_shape(t[i])[2];
    if (bias) t[i] = cn_add(t[i], cn_narrow(bias, 0, from, width));
    from += width;
    if (!(t[i] = cni_onnx_heads(c, t[i], heads))) return cn_err();
  }
  a->q = t[0];
  a->k = t[1];
  a->v = t[2];
  return cn_err();
}

static int multi_head_attention(cni_onnx_call *c)
{
  static const inputs at = {4, 5, 6, 7, 8};
  cni_onnx_attention a = {.wants_stages = cni_onnx_wants(c, 3)};
  cn_tensor *present[2];
  if (cni_onnx_has(c, 9)) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "beams (cache_indirection) are not there");
  if (read_three(&a, c, cni_onnx_maybe(c, 3))) return cn_err();
  int64_t past = join_past(present, &a, c, &at);
  if (past < 0 || cni_onnx_out(c, 1, present[0]) || cni_onnx_out(c, 2, present[1])) return cn_err();
  if (attend(&a, c, &at, past)) return cn_err();
  return a.wants_stages ? cni_onnx_out(c, 3, a.stages[2]) : CN_OK;
}

/* One new position, whose keys and values lie behind the past, or in a buffer that has room for more. */
static int decoder_attention(cni_onnx_call *c)
{
  inputs at = {3, 4, 5, 6, cni_onnx_int(c, "past_present_share_buffer", 0) ? 7 : NONE};
  cni_onnx_attention a = {.wants_stages = cni_onnx_wants(c, 3)};
  cn_tensor *present[2];
  if (cni_onnx_int_in(c, 8, 1) != 1) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "beams are not there");
  if (cn_err() || read_three(&a, c, cni_onnx_maybe(c, 10))) return cn_err();
  int64_t past = join_past(present, &a, c, &at);
  if (past < 0 || cni_onnx_out(c, 1, present[0]) || cni_onnx_out(c, 2, present[1])) return cn_err();
  if (attend(&a, c, &at, past)) return cn_err();
  return a.wants_stages ? cni_onnx_out(c, 3, a.stages[2]) : CN_OK;
}

/* ---- GroupQueryAttention ---- */

typedef struct grouped {
  cni_onnx_attention a;
  int64_t heads, groups, total; /* total: the longest sample, with what is new */
  cn_tensor *lengths, *firsts;  /* of samples, with what is new; where what is new begins */
} grouped;

static int check_grouped(const cni_onnx_call *c)
{
  if (cni_onnx_has(c, 12) || cni_onnx_has(c, 13) || cni_onnx_int(c, "kv_cache_bit_width", 0))
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "caches of small numbers are not there");
  if (cni_onnx_int(c, "qk_output", 0) || cni_onnx_wants(c, 3) || cni_onnx_int(c, "sliding_window_cache", 0))
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "qk_output and sliding_window_cache are not there");
  return cn_err();
}

static int read_grouped(grouped *g, cni_onnx_call *c)
{
  cn_tensor *q = cni_onnx_in(c, 0), *k = cni_onnx_maybe(c, 1), *v = cni_onnx_maybe(c, 2), *ends = cni_onnx_in(c, 5);
  g->heads = cni_onnx_int(c, "num_heads", 0);
  g->groups = cni_onnx_int(c, "kv_num_heads", 0);
  g->total = cni_onnx_int_in(c, 6, 0);
  if (!q || !ends || cn_err()) return cn_err();
  if (g->groups < 1 || g->heads < 1 || g->heads % g->groups || cn_ndim(q) != 3)
    return cni_onnx_fail(c, CN_ERR_VALUE, "num_heads must be a multiple of kv_num_heads");
  if (!k || !v) { /* packed behind the queries */
    int64_t size = cn_shape(q)[2] / (g->heads + 2 * g->groups);
    k = cn_narrow(q, 2, g->heads * size, g->groups * size);
    v = cn_narrow(q, 2, (g->heads + g->groups) * size, g->groups * size);
    q = cn_narrow(q, 2, 0, g->heads * size);
  }
  g->a.q = cni_onnx_heads(c, q, g->heads);
  g->a.k = cni_onnx_heads(c, k, g->groups);
  g->a.v = cni_onnx_heads(c, v, g->groups);
  if (!g->a.q || !g->a.k || !g->a.v) return cn_err();
  if (cn_numel(ends) != cn_shape(q)[0])
    return cni_onnx_fail(c, CN_ERR_SHAPE, "seqlens_k must have a number a sample");
  /* the first call brings the whole of each sample, padded behind it */
  int64_t fresh = cn_shape(g->a.q)[2];
  g->lengths = cn_add(cn_cast(cn_reshape(ends, CN_SHAPE(-1)), CN_I64), cn_int(1));
  g->firsts = fresh == g->total ? cn_zeros_like(g->lengths) : cn_sub(g->lengths, cn_int(fresh));
  return cn_err();
}

static cn_tensor *normed(cn_tensor *x, cn_tensor *weight, double eps)
{
  return x && weight ? cn_rms_norm(x, CN_SHAPE(cn_shape(x)[3]), weight, .eps = eps) : x;
}

/* Norms of heads, then positions, of queries and keys. */
static int turn_grouped(grouped *g, cni_onnx_call *c)
{
  double eps = cni_onnx_float(c, "qk_norm_epsilon", 1e-6);
  g->a.q = normed(g->a.q, cni_onnx_maybe(c, 14), eps);
  g->a.k = normed(g->a.k, cni_onnx_maybe(c, 15), eps);
  if (!cni_onnx_int(c, "do_rotary", 0) || cn_err()) return cn_err();
  cn_tensor *cos = cni_onnx_in(c, 7), *sin = cni_onnx_in(c, 8), *at = cni_onnx_maybe(c, 9);
  bool interleaved = cni_onnx_int(c, "rotary_interleaved", 0) != 0;
  int64_t fresh = cn_shape(g->a.q)[2];
  if (!cos || !sin) return cn_err();
  if (!at)
    at = cn_add(cn_unsqueeze(g->firsts, 1),
                cn_arange(0, (double)fresh, .dtype = CN_I64, .device = cn_device_of(g->a.q)));
  cos = cn_unsqueeze(cn_embedding(at, cos, CN_NONE), 1);
  sin = cn_unsqueeze(cn_embedding(at, sin, CN_NONE), 1);
  g->a.q = cni_onnx_rotate(g->a.q, cos, sin, interleaved);
  g->a.k = cni_onnx_rotate(g->a.k, cos, sin, interleaved);
  return cn_err();
}

/* What is new, at its places of the cache. */
static cn_tensor *cached(const grouped *g, cn_tensor *past, cn_tensor *x)
{
  if (!x || cn_err()) return NULL;
  const int64_t *s = cn_shape(x);
  if (past && cn_ndim(past) != 4) {
    cn_err_set(CN_ERR_SHAPE, "past keys and values must be (batch, heads, length, size)");
    return NULL;
  }
  int64_t held = past ? cn_shape(past)[2] : 0, room = held > g->total ? held : g->total;
  if (!held && s[2] == room) return x;
  int64_t shape[4] = {s[0], s[1], room, s[3]}, more[4] = {0, 0, 0, room - held};
  cn_tensor *all = past ? cn_constant_pad_nd(past, more, 4)
                        : cn_zeros(shape, 4, .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  cn_tensor *at = cn_add(cn_reshape(g->firsts, CN_SHAPE(-1, 1, 1, 1)),
                         cn_unsqueeze(cn_arange(0, (double)s[2], .dtype = CN_I64, .device = cn_device_of(x)), 1));
  return cn_scatter(all, 2, cn_expand(at, s, 4), x);
}

static int group_query_attention(cni_onnx_call *c)
{
  grouped g = {.a = {.scale = cni_onnx_float(c, "scale", 0), .softcap = cni_onnx_float(c, "softcap", 0)}};
  int64_t window = cni_onnx_int(c, "local_window_size", -1);
  cn_tensor *keys = cni_onnx_maybe(c, 3), *values = cni_onnx_maybe(c, 4);
  if (check_grouped(c) || read_grouped(&g, c) || turn_grouped(&g, c)) return cn_err();
  g.a.k = cached(&g, keys, g.a.k);
  g.a.v = cached(&g, values, g.a.v);
  if (!g.a.k || !g.a.v || cni_onnx_out(c, 1, g.a.k) || cni_onnx_out(c, 2, g.a.v)) return cn_err();
  if (cn_shape(g.a.k)[2] > g.total) { /* a cache with room behind */
    g.a.k = cn_narrow(g.a.k, 2, 0, g.total);
    g.a.v = cn_narrow(g.a.v, 2, 0, g.total);
  }
  cn_tensor *ahead = cni_onnx_distances(cn_shape(g.a.q)[2], g.total, 0, g.firsts, cn_device_of(g.a.q));
  if (cni_onnx_int(c, "causal", 1)) g.a.seen = cn_le(ahead, cn_int(0));
  else g.a.seen = cni_onnx_below(g.lengths, g.total);
  if (window > 0) g.a.seen = cni_onnx_both(g.a.seen, cn_gt(ahead, cn_int(-window)));
  g.a.bias = cni_onnx_maybe(c, 10);
  g.a.sink = cni_onnx_maybe(c, 11);
  if (!g.a.sink && cni_onnx_int(c, "smooth_softmax", 0) > 0)
    g.a.sink = cn_zeros(CN_SHAPE(g.heads), .dtype = cn_dtype_of(g.a.q), .device = cn_device_of(g.a.q));
  return cni_onnx_out(c, 0, cni_onnx_unheads(cni_onnx_attend(&g.a)));
}

/* ---- RotaryEmbedding ---- */

/* Positions: one number, from which a sample's count on, or one for each. */
static int rotary_embedding(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *at = cni_onnx_in(c, 1), *cos = cni_onnx_in(c, 2), *sin = cni_onnx_in(c, 3);
  int64_t heads = cni_onnx_int(c, "num_heads", 0), part = cni_onnx_int(c, "rotary_embedding_dim", 0);
  if (!x || !at || !cos || !sin) return cn_err();
  bool flat = cn_ndim(x) == 3;
  if (cni_onnx_int(c, "is_packed_batching", 0))
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "is_packed_batching is not there");
  if ((!flat && cn_ndim(x) != 4) || cn_ndim(cos) != 2 || cn_ndim(sin) != 2)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "the input must have three or four dimensions, the tables two");
  if (flat && !heads) heads = part ? 0 : cn_shape(x)[2] / (2 * (cn_shape(cos)[1] ? cn_shape(cos)[1] : 1));
  if (flat && !(x = cni_onnx_heads(c, x, heads))) return cn_err();
  if (2 * cn_shape(cos)[1] > cn_shape(x)[3] || cn_shape(sin)[1] != cn_shape(cos)[1])
    return cni_onnx_fail(c, CN_ERR_SHAPE, "the tables have more columns than heads have pairs");
  if (cn_numel(at) == 1)
    at = cn_add(cn_reshape(at, CN_SHAPE(1, 1)),
                cn_arange(0, (double)cn_shape(x)[2], .dtype = CN_I64, .device = cn_device_of(x)));
  cos = cn_unsqueeze(cn_embedding(at, cos, CN_NONE), 1);
  sin = cn_unsqueeze(cn_embedding(at, sin, CN_NONE), 1);
  cn_tensor *y = cni_onnx_rotate(x, cos, sin, cni_onnx_int(c, "interleaved", 0) != 0);
  return cni_onnx_out(c, 0, flat ? cni_onnx_unheads(y) : y);
}

/* Three positions a token, each for a part of the pairs: side by side, or one after the other in turns. */
static int multimodal_rotary(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *at = cni_onnx_in(c, 1), *tables[2] = {cni_onnx_in(c, 2), cni_onnx_in(c, 3)};
  cni_onnx_ints parts = cni_onnx_ints_of(c, "mrope_section");
  bool turns = cni_onnx_int(c, "mrope_layout", 0) != 0;
  if (!x || !at || cn_err()) return cn_err();
  bool flat = cn_ndim(x) == 3;
  if ((!flat && cn_ndim(x) != 4) || cn_ndim(at) != 3 || cn_shape(at)[0] != 3 || parts.n != 3 ||
      cn_ndim(tables[0]) != 2)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "input, position_ids, tables or mrope_section do not fit");
  int64_t pairs = cn_shape(tables[0])[1], heads = cni_onnx_int(c, "num_heads", 0);
  if (flat && !(x = cni_onnx_heads(c, x, heads ? heads : cn_shape(x)[2] / (2 * (pairs ? pairs : 1)))))
    return cn_err();
  int64_t *of = cni_onnx_room(c, (size_t)pairs + 1, sizeof *of); /* which position each pair takes */
  for (int64_t i = 0; of && i < pairs; i++) {
    if (turns) of[i] = i % 3 && i < parts.v[i % 3] * 3 ? i % 3 : 0;
    else of[i] = i < parts.v[0] ? 0 : i < parts.v[0] + parts.v[1] ? 1 : 2;
  }
  cn_tensor *which = of ? cn_to_device(cn_from_data(of, CN_SHAPE(1, 1, 1, pairs), CN_I64), cn_device_of(x)) : NULL;
  for (int k = 0; which && k < 2; k++) { /* (3, B, L, pairs) down to (B, 1, L, pairs) */
    cn_tensor *all = cn_embedding(at, tables[k], CN_NONE);
    if (!all) return cn_err();
    const int64_t *s = cn_shape(all);
    tables[k] = cn_unsqueeze(cn_select(cn_gather(all, 0, cn_expand(which, CN_SHAPE(1, s[1], s[2], pairs))), 0, 0), 1);
  }
  cn_tensor *y = which ? cni_onnx_rotate(x, tables[0], tables[1], cni_onnx_int(c, "interleaved", 0) != 0) : NULL;
  return cn_err() ? cn_err() : cni_onnx_out(c, 0, flat ? cni_onnx_unheads(y) : y);
}

const cni_onnx_op cni_onnx_fused_attention_ops[] = {
    ONNX_BUILD("Attention", 1, attention),
    ONNX_BUILD("QAttention", 1, quantised_attention),
    ONNX_BUILD("DecoderMaskedSelfAttention", 1, decoder_self_attention),
    ONNX_BUILD("MultiHeadAttention", 1, multi_head_attention),
    ONNX_BUILD("DecoderMaskedMultiHeadAttention", 1, decoder_attention),
    ONNX_BUILD("GroupQueryAttention", 1, group_query_attention),
    ONNX_BUILD("RotaryEmbedding", 1, rotary_embedding),
    ONNX_BUILD("MRotaryEmbedding", 1, multimodal_rotary),
    {NULL, NULL, NULL, 0, 0},
};
