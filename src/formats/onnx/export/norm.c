/* norm.c: normalisation, softmax, attention. See row.h. Attributes of ONNX are of float32: what has a small number or a
 * scale among them is left to what it is made of where it computes in float64. */
#include <string.h>

#include "row.h"

static bool is_double(const cni_oxcall *c) { return c->out[0].dtype == CN_F64; }

/* softmax, log_softmax(input, dim, dtype) */
static bool softmax(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  cni_oxval v = cni_ox_cast(x, c->in[0], type), one = cni_ox_whole(1);
  bool flat = !v.ndim;
  if (flat) v = cni_ox_reshape(x, v, 1, &one);
  cni_ox_int(x, "axis", cni_oxarg_dim(c, 1, v.ndim));
  v = CNI_OX_EMIT(x, c->text, v);
  cni_ox_give(c, 0, flat ? cni_ox_reshape(x, v, 0, NULL) : v);
  return true;
}

/* ---- over the last dims: (input, normalized_shape, weight, bias, eps) ---- */

/* A weight that is left out is ones. */
static cni_oxval weight_of(cni_oxcall *c, int in, int type, double otherwise)
{
  cni_oxval sizes[CN_MAX_DIMS];
  int n = cni_oxarg_count(c, 1);
  if (cni_ox_there(&c->in[in])) return cni_ox_cast(c->x, c->in[in], type);
  for (int k = 0; k < n; k++) sizes[k] = cni_oxarg_size(c, 1, k);
  return cni_ox_full(c->x, type, n, sizes, otherwise);
}

/* layer_norm, and with what its gradient needs: mean, 1 / deviation */
static bool layer_norm(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype), n = cni_oxarg_count(c, 1);
  if (is_double(c)) return false;
  cni_oxval in[3] = {cni_ox_cast(x, c->in[0], type), weight_of(c, 1, type, 1), cni_ox_absent()}, out[3];
  if (cni_ox_there(&c->in[2])) in[2] = cni_ox_cast(x, c->in[2], type);
  cni_ox_int(x, "axis", -n);
  cni_ox_float(x, "epsilon", cni_oxarg_float(c, 4));
  out[0] = in[0];
  for (int k = 1; k < c->nout && k < 3; k++) {
    out[k] = c->out[k];
    out[k].dtype = CN_F32;
  }
  cni_ox_node(x, "LayerNormalization", 3, in, c->nout, out);
  for (int k = 0; k < c->nout; k++) cni_ox_give(c, k, k ? cni_ox_reshape_like(x, out[k], c->out[k]) : out[k]);
  return true;
}

/* rms_norm(input, normalized_shape, weight, eps), and with 1 / deviation */
static bool rms_norm(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype), n = cni_oxarg_count(c, 1);
  double eps = cni_oxarg_none(c, 3) ? 1.1920928955078125e-7 : cni_oxarg_float(c, 3);
  if (c->nout > 1 || is_double(c) || (cni_oxarg_none(c, 3) && type != c->in[0].dtype)) return false;
  cni_ox_int(x, "axis", -n);
  cni_ox_float(x, "epsilon", eps);
  cni_oxval v = cni_ox_cast(x, c->in[0], type), w = weight_of(c, 1, type, 1);
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "RMSNormalization", v, w));
  return true;
}

/* ---- over channels ---- */

static cni_oxval channel(cni_oxcall *c, int in, int type, double otherwise)
{
  cni_oxval size = cni_ox_size(c->x, c->in[0], 1);
  return cni_ox_there(&c->in[in]) ? cni_ox_cast(c->x, c->in[in], type) : cni_ox_full(c->x, type, 1, &size, otherwise);
}

/* group_norm(input, num_groups, weight, bias, eps) */
static bool group_norm(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  if (c->in[0].ndim < 3 || is_double(c)) return false;
  cni_oxval v = cni_ox_cast(x, c->in[0], type), w = channel(c, 1, type, 1), b = channel(c, 2, type, 0);
  cni_ox_int(x, "num_groups", cni_oxarg_int(c, 1));
  cni_ox_float(x, "epsilon", cni_oxarg_float(c, 4));
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "GroupNormalization", v, w, b));
  return true;
}

/* instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps) */
static bool instance_norm(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  if (is_double(c) || c->in[0].ndim < 3 || !cni_oxarg_int(c, 5) || cni_ox_there(&c->in[1])) return false;
  cni_oxval v = cni_ox_cast(x, c->in[0], type), w = channel(c, 3, type, 1), b = channel(c, 4, type, 0);
  cni_ox_float(x, "epsilon", cni_oxarg_float(c, 7));
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "InstanceNormalization", v, w, b));
  return true;
}

/* A vector over channels as (C, 1, ..., 1). */
static cni_oxval upright(cni_oxcall *c, cni_oxval v)
{
  for (int k = 2; k < c->in[0].ndim; k++) v = cni_ox_unsqueeze(c->x, v, v.ndim);
  return v;
}

/* batch_norm_apply(input, weight, bias, mean, var, residual, eps, inverted, relu) */
static bool batch_norm_apply(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  cni_oxval v = cni_ox_cast(x, c->in[0], type), w = channel(c, 1, type, 1), b = channel(c, 2, type, 0), y;
  cni_oxval mean = cni_ox_cast(x, c->in[3], type), var = cni_ox_cast(x, c->in[4], type);
  if (cni_oxarg_int(c, 7) || is_double(c)) {
    if (!cni_oxarg_int(c, 7))
      var = CNI_OX_EXPR(x, "1 / Sqrt(a + b)", type, var, cni_ox_const(x, cni_ox_num(cni_oxarg_float(c, 6)), type));
    y = CNI_OX_EXPR(x, "(a - b) * (c * d) + e", type, v, upright(c, mean), upright(c, var), upright(c, w),
                    upright(c, b));
  } else {
    cni_ox_float(x, "epsilon", cni_oxarg_float(c, 6));
    y = CNI_OX_EMIT(x, "BatchNormalization", v, w, b, mean, var);
  }
  if (cni_ox_there(&c->in[5])) y = cni_ox_binary(x, "Add", y, cni_ox_cast(x, c->in[5], type));
  if (cni_oxarg_int(c, 8)) y = CNI_OX_EMIT(x, "Relu", y);
  cni_ox_give(c, 0, y);
  return true;
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, eps): by running statistics */
static bool batch_norm(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  cni_oxval none = cni_ox_whole(0);
  if (cni_oxarg_int(c, 5) || is_double(c) || !cni_ox_there(&c->in[3]) || c->in[0].ndim < 2) return false;
  cni_oxval v = cni_ox_cast(x, c->in[0], type), w = channel(c, 1, type, 1), b = channel(c, 2, type, 0);
  cni_oxval mean = cni_ox_cast(x, c->in[3], type), var = cni_ox_cast(x, c->in[4], type);
  cni_ox_float(x, "epsilon", cni_oxarg_float(c, 6));
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "BatchNormalization", v, w, b, mean, var));
  for (int k = 1; k < c->nout; k++) {
    cni_oxval eps = cni_ox_const(x, cni_ox_num(cni_oxarg_float(c, 6)), type);
    cni_oxval y = k == 1 ? mean : k == 2 ? CNI_OX_EXPR(x, "1 / Sqrt(a + b)", type, var, eps) : var;
    if (c->out[k].shape[0] != c->in[3].shape[0] || c->out[k].ndim != 1) y = cni_ox_full(x, type, 1, &none, 0);
    cni_ox_give(c, k, y);
  }
  return true;
}

/* ---- attention ---- */

static double scale_of(const cni_oxcall *c)
{
  int i = cni_oxarg_find(c, "scale");
  if (!cni_oxarg_none(c, i)) return cni_oxarg_float(c, i);
  double d = (double)c->in[0].shape[c->in[0].ndim - 1];
  return d > 0 ? 1 / __builtin_sqrt(d) : 1;
}

/* scaled_dot_product_attention(query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa) */
static bool attention(cni_oxcall *c)
{
  cni_ox *x = c->x;
  int type = cni_ox_wide(c->out[0].dtype);
  const cni_oxval *q = &c->in[0], *k = &c->in[1], *mask = &c->in[3];
  bool causal = cni_oxarg_int(c, 5), square = q->shape[2] == k->shape[2] && (q->open >> 2 & 1) == (k->open >> 2 & 1);
  if (q->ndim != 4 || k->ndim != 4 || c->in[2].ndim != 4 || cni_oxarg_float(c, 4) != 0) return false;
  if (is_double(c) || q->open >> 3 & 1 || (causal && !square)) return false;
  if (q->shape[0] != k->shape[0] || (q->shape[1] != k->shape[1] && !cni_oxarg_int(c, 7))) return false;
  if (!q->shape[1] || k->shape[1] == 0 || !q->shape[2] || !k->shape[2]) return false;
  cni_oxval in[4] = {cni_ox_cast(x, *q, type), cni_ox_cast(x, *k, type), cni_ox_cast(x, c->in[2], type), *mask};
  if (mask->id >= 0 && mask->dtype != CN_BOOL) in[3] = cni_ox_cast(x, *mask, type);
  if (mask->id >= 0 && (mask->ndim < 2 || mask->ndim > 4 || causal)) return false;
  if (mask->id >= 0 && mask->shape[mask->ndim - 2] == 1 && q->shape[2] != 1) { /* a row of it for each query */
    cni_oxval sizes[CN_MAX_DIMS];
    int row = mask->ndim - 2;
    for (int d = 0; d < mask->ndim; d++) sizes[d] = cni_ox_size(x, d == row ? *q : in[3], d == row ? 2 : d);
    in[3] = cni_ox_expand(x, in[3], mask->ndim, sizes);
  }
  cni_ox_float(x, "scale", scale_of(c));
  if (causal) cni_ox_int(x, "is_causal", 1);
  cni_ox_give(c, 0, CNI_OX_EMIT(x, "Attention", in[0], in[1], in[2], in[3]));
  return true;
}

const cni_oxrow cni_ox_norm_rows[] = {
    BUILD_AS("softmax", 13, softmax, "Softmax"),
    BUILD_AS("log_softmax", 13, softmax, "LogSoftmax"),
    BUILD("layer_norm", 17, layer_norm),
    BUILD("native_layer_norm", 17, layer_norm),
    BUILD("rms_norm", 23, rms_norm),
    BUILD("group_norm", 21, group_norm),
    BUILD("instance_norm", 13, instance_norm),
    BUILD("batch_norm_apply", 15, batch_norm_apply),
    BUILD("native_batch_norm", 15, batch_norm),
    BUILD("scaled_dot_product_attention", 23, attention),
    {NULL, NULL, NULL, 0},
};
