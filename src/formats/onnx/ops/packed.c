/* packed.c: com.microsoft's operators on samples without their padding, tokens behind one another, and biases by the
 * distance of tokens. See call.h, attention.h. */
#include <math.h>

#include "formats/onnx/attention.h"

/* ---- tokens ---- */

/* Where tokens (n, ...) lie among all places (batch, length). */
static cn_tensor *places_of(cn_tensor *offset, int64_t n)
{
  return offset ? cn_narrow(cn_reshape(cn_cast(offset, CN_I64), CN_SHAPE(-1)), 0, 0, n) : NULL;
}

/* (n, width) as (batch, length, width), zeros elsewhere. */
static cn_tensor *spread(cn_tensor *x, cn_tensor *offset)
{
  if (!x || !offset || cn_ndim(x) != 2 || cn_ndim(offset) != 2) {
    if (!cn_err()) cn_err_set(CN_ERR_SHAPE, "tokens and their offsets must be matrices");
    return NULL;
  }
  int64_t all = cn_numel(offset), width = cn_shape(x)[1];
  cn_tensor *room = cn_zeros(CN_SHAPE(all, width), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  return cn_reshape(cn_index_copy(room, 0, places_of(offset, cn_shape(x)[0]), x),
                    CN_SHAPE(cn_shape(offset)[0], cn_shape(offset)[1], width));
}

/* Back: (batch, length, width) as (n, width). */
static cn_tensor *gathered(cn_tensor *x, cn_tensor *offset, int64_t n)
{
  if (!x) return NULL;
  return cn_index_select(cn_reshape(x, CN_SHAPE(-1, cn_shape(x)[2])), 0, places_of(offset, n));
}

/* How many tokens there are depends on the samples: their lengths must be known. */
static int remove_padding(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  cni_onnx_ints lengths = cni_onnx_ints_in(c, 1);
  if (!x || cn_err()) return cn_err();
  if (cn_ndim(x) != 3 || (int64_t)lengths.n != cn_shape(x)[0])
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (batch, length, width) and a count for each sample");
  int64_t batch = cn_shape(x)[0], length = cn_shape(x)[1], n = 0, longest = 0;
  int32_t *offset = cni_onnx_room(c, (size_t)(batch * length) + 1, sizeof *offset);
  int32_t *ends = cni_onnx_room(c, (size_t)batch + 1, sizeof *ends);
  if (!offset || !ends || batch * length > INT32_MAX) return cn_err();
  for (int pass = 0; pass < 2; pass++) /* tokens, then padding */
    for (int64_t b = 0; b < batch; b++) {
      int64_t own = lengths.v[b] < 0 ? 0 : lengths.v[b] > length ? length : lengths.v[b];
      for (int64_t i = pass ? own : 0; i < (pass ? length : own); i++) offset[n++] = (int32_t)(b * length + i);
      if (!pass) ends[b + 1] = (int32_t)n;
      longest = own > longest ? own : longest;
    }
  int32_t most = (int32_t)longest;
  cn_tensor *at = cn_to_device(cn_from_data(offset, CN_SHAPE(batch, length), CN_I32), cn_device_of(x));
  if (cni_onnx_out(c, 0, gathered(x, at, ends[batch])) || cni_onnx_out(c, 1, at)) return cn_err();
  if (cni_onnx_out(c, 2, cn_from_data(ends, CN_SHAPE(batch + 1), CN_I32))) return cn_err();
  return cni_onnx_out(c, 3, cn_from_data(&most, CN_SHAPE(1), CN_I32));
}

static int restore_padding(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *offset = cni_onnx_in(c, 1);
  return cn_err() ? cn_err() : cni_onnx_out(c, 0, spread(x, offset));
}

/* ---- attention ---- */

/* Queries, keys and values (n, width) each; inputs `from` .. are offsets, the samples' ends and a bias. */
static int attend(cni_onnx_call *c, cn_tensor *const *parts, size_t from)
{
  cn_tensor *offset = cni_onnx_in(c, from), *ends = cni_onnx_in(c, from + 1), *heads[3];
  int64_t nheads = cni_onnx_int(c, "num_heads", 0);
  if (!offset || !ends || !parts[0] || cn_err()) return cn_err();
  for (int i = 0; i < 3; i++)
    if (!(heads[i] = cni_onnx_heads(c, spread(parts[i], offset), nheads))) return cn_err();
  int64_t batch = cn_shape(offset)[0], length = cn_shape(offset)[1];
  if (cn_numel(ends) != batch + 1) return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes the end of each sample, and 0");
  cn_tensor *lengths = cn_sub(cn_narrow(ends, 0, 1, batch), cn_narrow(ends, 0, 0, batch));
  cni_onnx_attention a = {.q = heads[0], .k = heads[1], .v = heads[2], .scale = cni_onnx_float(c, "scale", 0)};
  a.bias = cni_onnx_maybe(c, from + 2);
  a.seen = cni_onnx_below(lengths, length);
  return cni_onnx_out(c, 0, gathered(cni_onnx_unheads(cni_onnx_attend(&a)), offset, cn_shape(parts[0])[0]));
}

static int packed_attention(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1), *b = cni_onnx_in(c, 2), *parts[3];
  cni_onnx_ints sizes = cni_onnx_ints_of(c, "qkv_hidden_sizes");
  cn_tensor *all = x && w && b ? cn_add(cn_matmul(x, w), b) : NULL;
  if (!all || cn_ndim(all) != 2 || (sizes.v && sizes.n != 3))
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "input, weights or qkv_hidden_sizes do not fit");
  for (int64_t i = 0, at = 0; i < 3; i++) {
    int64_t width = sizes.v ? sizes.v[i] : cn_shape(all)[1] / 3;
    parts[i] = cn_narrow(all, 1, at, width);
    at += width;
  }
  return attend(c, parts, 3);
}

static int packed_multi_head_attention(cni_onnx_call *c)
{
  cn_tensor *parts[3] = {cni_onnx_in(c, 0), cni_onnx_maybe(c, 1), cni_onnx_maybe(c, 2)}, *bias = cni_onnx_maybe(c, 3);
  if (!parts[0] || cn_err()) return cn_err();
  if (cn_ndim(parts[0]) == 4) { /* (n, heads, 3, size) */
    cn_tensor *all = parts[0];
    for (int i = 0; i < 3; i++) parts[i] = cn_flatten(cn_select(all, 2, i), .start_dim = 1);
  }
  for (int64_t i = 0, at = 0; i < 3; i++) {
    if (!parts[i] || cn_ndim(parts[i]) != 2)
      return cni_onnx_fail(c, CN_ERR_SHAPE, "query, key and value must be matrices");
    int64_t width = cn_shape(parts[i])[1];
    if (bias) parts[i] = cn_add(parts[i], cn_narrow(bias, 0, at, width));
    at += width;
  }
  return attend(c, parts, 4);
}

/* ---- biases by distance ---- */

/* Half of the buckets are one distance each, the others grow with its logarithm up to max_distance. */
static int relative_position_bias(cni_onnx_call *c)
{
  cn_tensor *table = cni_onnx_in(c, 0);
  int64_t queries = cni_onnx_int_in(c, 1, 0), keys = cni_onnx_int_in(c, 2, 0),
          most = cni_onnx_int(c, "max_distance", 128);
  bool both = cni_onnx_int(c, "is_bidirectional", 0) != 0;
  if (!table || cn_err()) return cn_err();
  if (cn_ndim(table) != 2) return cni_onnx_fail(c, CN_ERR_SHAPE, "bias_table must be a matrix");
  int64_t buckets = cn_shape(table)[0] / (both ? 2 : 1), near = buckets / 2;
  if (near < 1 || most <= near) return cni_onnx_fail(c, CN_ERR_VALUE, "max_distance does not fit the buckets");
  cn_tensor *ahead = cni_onnx_distances(queries, keys, 0, NULL, cn_device_of(table));
  cn_tensor *side = both ? cn_mul(cn_cast(cn_gt(ahead, cn_int(0)), CN_I64), cn_int(buckets)) : NULL;
  cn_tensor *far = both ? cn_abs(ahead) : cn_neg(cn_clamp(ahead, NULL, cn_int(0)));
  double scale = (double)(buckets - near) / log((double)most / (double)near);
  cn_tensor *log_far = cn_log(cn_div(cn_cast(cn_clamp(far, cn_int(1), NULL), CN_F32), cn_num((double)near)));
  cn_tensor *large = cn_add(cn_cast(cn_mul(log_far, cn_num(scale)), CN_I64), cn_int(near));
  cn_tensor *at = cn_where(cn_lt(far, cn_int(near)), far, cn_clamp(large, NULL, cn_int(buckets - 1)));
  if (side) at = cn_add(at, side);
  cn_tensor *bias = cn_embedding(at, table, CN_NONE); /* (queries, keys, heads) */
  return cni_onnx_out(c, 0, bias ? cn_unsqueeze(cn_movedim(bias, (int64_t[]){2}, 1, (int64_t[]){0}, 1), 0) : NULL);
}

/* A bias that two gates of the query turn up and down. */
static int gated_relative_position_bias(cni_onnx_call *c)
{
  cn_tensor *q = cni_onnx_in(c, 0), *b = cni_onnx_in(c, 1), *rel = cni_onnx_in(c, 2), *w = cni_onnx_in(c, 3);
  cn_tensor *gate_bias = cni_onnx_in(c, 4), *eco = cni_onnx_in(c, 5), *offset = cni_onnx_maybe(c, 6);
  if (!q || !b || !rel || !w || !gate_bias || !eco) return cn_err();
  q = cn_add(q, b);
  if (offset) q = spread(q, offset);
  q = cni_onnx_heads(c, q, cni_onnx_int(c, "num_heads", 0));
  cn_tensor *gates = q ? cn_add(cn_matmul(q, w), gate_bias) : NULL; /* (B, heads, L, D) */
  if (!gates) return cn_err();
  const int64_t *s = cn_shape(gates);
  gates = cn_sigmoid(cn_sum(cn_reshape(gates, CN_SHAPE(s[0], s[1], s[2], 2, s[3] / 2)), .dim = CN_INTS(4)));
  cn_tensor *u = cn_narrow(gates, 3, 0, 1), *r = cn_narrow(gates, 3, 1, 1);
  u = cn_add(cn_mul(u, cn_sub(cn_mul(r, eco), cn_num(1))), cn_num(2));
  return cni_onnx_out(c, 0, cn_mul(u, rel));
}

const cni_onnx_op cni_onnx_packed_ops[] = {
    ONNX_FRESH("RemovePadding", 1, remove_padding),
    ONNX_BUILD("RestorePadding", 1, restore_padding),
    ONNX_BUILD("PackedAttention", 1, packed_attention),
    ONNX_BUILD("PackedMultiHeadAttention", 1, packed_multi_head_attention),
    ONNX_BUILD("RelativePositionBias", 1, relative_position_bias),
    ONNX_BUILD("GatedRelativePositionBias", 1, gated_relative_position_bias),
    {NULL, NULL, NULL, 0, 0},
};
