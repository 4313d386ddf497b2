/* stream.c: operators that hand a state of their own from call to call. See call.h. */
#include <math.h>
#include <string.h>

#include "formats/onnx/call.h"

/* ---- CausalConvWithState ---- */

/* Each channel by itself; the state is the end of what was seen before. */
static int causal_conv(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1), *b = cni_onnx_maybe(c, 2), *past = cni_onnx_maybe(c, 3);
  const char *activation = cni_onnx_text(c, "activation", "none");
  bool silu = !strcmp(activation, "silu") || !strcmp(activation, "swish");
  if (!x || !w) return cn_err();
  if (!silu && strcmp(activation, "none") != 0)
    return cni_onnx_fail(c, CN_ERR_VALUE, "activation is '%s'", activation);
  if (cn_ndim(x) != 3 || cn_ndim(w) != 3 || cn_shape(w)[0] != cn_shape(x)[1] || cn_shape(w)[1] != 1 ||
      cn_shape(w)[2] < 1)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "the weights must have shape (channels, 1, k), for inputs of three dims");
  int64_t channels = cn_shape(x)[1], before = cn_shape(w)[2] - 1;
  int64_t state[3] = {cn_shape(x)[0], channels, before};
  if (past && (cn_ndim(past) != 3 || memcmp(cn_shape(past), state, sizeof state) != 0))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "past_state must have shape (batch, channels, %lld)", (long long)before);
  cn_tensor *parts[2] = {past ? past : cn_zeros(state, 3, .dtype = cn_dtype_of(x), .device = cn_device_of(x)), x};
  cn_tensor *all = cn_cat(parts, 2, .dim = 2), *y = cn_conv1d(all, w, b, .groups = channels);
  if (cni_onnx_out(c, 0, silu ? cn_silu(y) : y)) return cn_err();
  return cni_onnx_out(c, 1, cn_narrow(all, 2, cn_shape(x)[2], before));
}

/* ---- LinearAttention ---- */

/* Operands in float32, steps first: q (T, B, G, heads a group, dk), k (T, B, G, dk), v (T, B, G, dv). */
typedef struct linear {
  cn_tensor *q, *k, *v, *state; /* state: (B, G, dk, dv) */
  cn_tensor *decay, *beta;      /* (T, B, G, dk or 1, 1), (T, B, G or 1, 1); NULL: the rule has none */
  int64_t steps, batch, groups, heads, dk, dv;
  double scale;
} linear;

/* (B, T, columns) as (T, B, ...) in float32. */
static cn_tensor *steps_first(cn_tensor *x, const int64_t *shape, size_t n)
{
  return x ? cn_cast(cn_transpose(cn_reshape(x, shape, n), 0, 1), CN_F32) : NULL;
}

static int read_rule(linear *l, cni_onnx_call *c)
{
  const char *rule = cni_onnx_text(c, "update_rule", "gated_delta");
  cn_tensor *decay = cni_onnx_maybe(c, 4), *beta = cni_onnx_maybe(c, 5);
  bool delta = cn_string_ends(rule, "delta"), gated = cn_string_starts(rule, "gated");
  if (strcmp(rule, "linear") != 0 && strcmp(rule, "gated") != 0 && strcmp(rule, "delta") != 0 &&
      strcmp(rule, "gated_delta") != 0)
    return cni_onnx_fail(c, CN_ERR_VALUE, "update_rule is '%s'", rule);
  if (gated != (decay != NULL) || delta != (beta != NULL))
    return cni_onnx_fail(c, CN_ERR_VALUE, "update_rule '%s' %s decay, and %s beta", rule,
                         gated ? "takes" : "takes no", delta ? "takes" : "takes no");
  int64_t rows = l->batch * l->steps, many = l->groups * l->dk;
  int64_t dn = decay && rows ? cn_numel(decay) / rows : 0, bn = beta && rows ? cn_numel(beta) / rows : 0;
  if ((decay && rows && dn != l->groups && dn != many) || (beta && rows && bn != l->groups && bn != 1))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "decay or beta has another number of columns than heads");
  if (!rows) return cn_err();
  l->decay = steps_first(decay, CN_SHAPE(l->batch, l->steps, l->groups, dn / l->groups, 1));
  if (l->decay) l->decay = cn_exp(l->decay);
  l->beta = steps_first(beta, CN_SHAPE(l->batch, l->steps, bn, 1));
  return cn_err();
}

static int read_linear(linear *l, cni_onnx_call *c)
{
  cn_tensor *q = cni_onnx_in(c, 0), *k = cni_onnx_in(c, 1), *v = cni_onnx_in(c, 2), *past = cni_onnx_maybe(c, 3);
  int64_t heads = cni_onnx_int(c, "q_num_heads", 0), groups = cni_onnx_int(c, "kv_num_heads", 0);
  if (!q || !k || !v) return cn_err();
  if (heads < 1 || groups < 1 || heads % groups)
    return cni_onnx_fail(c, CN_ERR_VALUE, "q_num_heads must be a multiple of kv_num_heads");
  if (cn_ndim(q) != 3 || cn_ndim(k) != 3 || cn_ndim(v) != 3 || cn_shape(q)[2] % heads || cn_shape(v)[2] % groups ||
      cn_shape(q)[2] / heads * groups != cn_shape(k)[2])
    return cni_onnx_fail(c, CN_ERR_SHAPE,
                         "query, key and value must have three dimensions, with columns for %lld and "
                         "%lld heads",
                         (long long)heads, (long long)groups);
  l->batch = cn_shape(q)[0];
  l->steps = cn_shape(q)[1];
  l->groups = groups;
  l->heads = heads / groups;
  l->dk = cn_shape(q)[2] / heads;
  l->dv = cn_shape(v)[2] / groups;
  l->scale = cni_onnx_float(c, "scale", 0);
  if (l->scale == 0) l->scale = 1 / sqrt((double)(l->dk ? l->dk : 1));
  int64_t state[4] = {l->batch, groups, l->dk, l->dv};
  if (past && (cn_ndim(past) != 4 || memcmp(cn_shape(past), state, sizeof state) != 0))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "past_state must have shape (batch, heads, %lld, %lld)", (long long)l->dk,
                         (long long)l->dv);
  l->q = steps_first(q, CN_SHAPE(l->batch, l->steps, groups, l->heads, l->dk));
  l->k = steps_first(k, CN_SHAPE(l->batch, l->steps, groups, l->dk));
  l->v = steps_first(v, CN_SHAPE(l->batch, l->steps, groups, l->dv));
  l->state = past ? cn_cast(past, CN_F32) : cn_zeros(state, 4, .dtype = CN_F32, .device = cn_device_of(q));
  return read_rule(l, c);
}

/* S <- decay S + k (v - k^T S), and what the queries read of it: (B, G, heads a group, dv). */
static int linear_step(cn_tensor **y, linear *l, int64_t t)
{
  cn_scope *scope = cn_scope_begin();
  if (!scope) return cn_err();
  cn_tensor *k = cn_select(l->k, 0, t), *v = cn_select(l->v, 0, t), *s = l->state;
  if (l->decay) s = cn_mul(s, cn_select(l->decay, 0, t));
  if (l->beta) {
    cn_tensor *held = cn_squeeze(cn_matmul(cn_unsqueeze(k, 2), s), .dim = CN_INTS(2));
    v = cn_mul(cn_sub(v, held), cn_select(l->beta, 0, t));
  }
  s = cn_add(s, cn_mul(cn_unsqueeze(k, 3), cn_unsqueeze(v, 2)));
  cn_tensor *read = cn_keep(cn_matmul(cn_select(l->q, 0, t), s));
  s = cn_keep(s);
  cn_scope_end(scope);
  *y = read ? cn_scope_give(read) : NULL;
  l->state = s ? cn_scope_give(s) : NULL;
  return cn_err();
}

static int linear_attention(cni_onnx_call *c)
{
  linear l = {NULL};
  if (read_linear(&l, c)) return cn_err();
  cn_dtype own = cn_dtype_of(cni_onnx_in(c, 0)), kept = cni_onnx_has(c, 3) ? cn_dtype_of(cni_onnx_in(c, 3)) : own;
  cn_tensor **ys = cni_onnx_room(c, (size_t)l.steps + 1, sizeof(cn_tensor *)), *y;
  int64_t shape[3] = {l.batch, l.steps, l.groups * l.heads * l.dv};
  if (!ys) return cn_err();
  for (int64_t t = 0; t < l.steps; t++)
    if (cn_limits_check() || linear_step(&ys[t], &l, t)) return cn_err();
  if (l.steps) y = cn_reshape(cn_mul(cn_stack(ys, (size_t)l.steps, .dim = 1), cn_num(l.scale)), shape, 3);
  else y = cn_zeros(shape, 3, .dtype = CN_F32, .device = cn_device_of(l.state));
  if (cni_onnx_out(c, 0, y ? cn_cast(y, own) : NULL)) return cn_err();
  return cni_onnx_out(c, 1, cn_cast(l.state, kept));
}

const cni_onnx_op cni_onnx_stream_ops[] = {
    ONNX_BUILD("CausalConvWithState", 27, causal_conv),
    ONNX_BUILD("LinearAttention", 27, linear_attention),
    {NULL, NULL, NULL, 0, 0},
};
