/* attention.c: what the operators of attention share. See attention.h. */
#include "attention.h"

#include <math.h>

/* ---- heads and positions ---- */

cn_tensor *cni_onnx_heads(const cni_onnx_call *c, cn_tensor *x, int64_t heads)
{
  if (!x) return NULL;
  const int64_t *s = cn_shape(x);
  if (cn_ndim(x) != 3 || heads < 1 || s[2] % heads) {
    cni_onnx_fail(c, CN_ERR_SHAPE, "a tensor of %d dimensions and %lld columns has not %lld heads", cn_ndim(x),
                  (long long)(cn_ndim(x) ? s[cn_ndim(x) - 1] : 1), (long long)heads);
    return NULL;
  }
  return cn_transpose(cn_reshape(x, CN_SHAPE(s[0], s[1], heads, s[2] / heads)), 1, 2);
}

cn_tensor *cni_onnx_unheads(cn_tensor *x)
{
  if (!x) return NULL;
  const int64_t *s = cn_shape(x);
  return cn_reshape(cn_transpose(x, 1, 2), CN_SHAPE(s[0], s[2], s[1] * s[3]));
}

cn_tensor *cni_onnx_spread(cn_tensor *x, int64_t heads)
{
  if (!x || cn_shape(x)[1] == heads) return x;
  const int64_t *s = cn_shape(x);
  if (s[1] < 1 || heads % s[1]) {
    cn_err_set(CN_ERR_SHAPE, "%lld heads of queries cannot share %lld of keys", (long long)heads, (long long)s[1]);
    return NULL;
  }
  cn_tensor *groups = cn_expand(cn_unsqueeze(x, 2), CN_SHAPE(s[0], s[1], heads / s[1], s[2], s[3]));
  return cn_reshape(groups, CN_SHAPE(s[0], heads, s[2], s[3]));
}

cn_tensor *cni_onnx_rotate(cn_tensor *x, cn_tensor *cos, cn_tensor *sin, bool interleaved)
{
  if (!x || !cos || !sin) return NULL;
  int64_t size = cn_shape(x)[3], half = cn_shape(cos)[cn_ndim(cos) - 1];
  cn_tensor *turned = size == 2 * half ? x : cn_narrow(x, 3, 0, 2 * half), *a, *b;
  const int64_t *s = cn_shape(x);
  if (interleaved) {
    cn_tensor *pairs = cn_reshape(turned, CN_SHAPE(s[0], s[1], s[2], half, 2));
    a = cn_select(pairs, 4, 0);
    b = cn_select(pairs, 4, 1);
  } else {
    a = cn_narrow(turned, 3, 0, half);
    b = cn_narrow(turned, 3, half, half);
  }
  cn_tensor *both[2] = {cn_sub(cn_mul(a, cos), cn_mul(b, sin)), cn_add(cn_mul(a, sin), cn_mul(b, cos))};
  turned = interleaved ? cn_reshape(cn_stack(both, 2, .dim = -1), CN_SHAPE(s[0], s[1], s[2], 2 * half))
                       : cn_cat(both, 2, .dim = -1);
  cn_tensor *whole[2] = {turned, NULL};
  if (size == 2 * half) return turned;
  whole[1] = cn_narrow(x, 3, 2 * half, size - 2 * half);
  return cn_cat(whole, 2, .dim = -1);
}

cn_tensor *cni_onnx_distances(int64_t queries, int64_t keys, int64_t first, cn_tensor *firsts, cn_device device)
{
  cn_tensor *i = cn_unsqueeze(cn_arange(0, (double)queries, .dtype = CN_I64, .device = device), 1);
  cn_tensor *j = cn_arange(0, (double)keys, .dtype = CN_I64, .device = device);
  if (!firsts) return cn_sub(j, cn_add(i, cn_int(first)));
  return cn_sub(j, cn_add(i, cn_reshape(cn_cast(firsts, CN_I64), CN_SHAPE(-1, 1, 1, 1))));
}

cn_tensor *cni_onnx_below(cn_tensor *lengths, int64_t keys)
{
  if (!lengths) return NULL;
  cn_tensor *j = cn_arange(0, (double)keys, .dtype = CN_I64, .device = cn_device_of(lengths));
  return cn_lt(j, cn_reshape(cn_cast(lengths, CN_I64), CN_SHAPE(-1, 1, 1, 1)));
}

cn_tensor *cni_onnx_both(cn_tensor *seen, cn_tensor *other)
{
  return seen && other ? cn_logical_and(seen, other) : seen ? seen : other;
}

/* ---- the product ---- */

/* Bias and mask as one number for each score; NULL: neither is there. */
static cn_tensor *numbers(const cni_onnx_attention *a, cn_dtype dtype)
{
  cn_tensor *bias = a->bias && cn_dtype_of(a->bias) != dtype ? cn_cast(a->bias, dtype) : a->bias;
  if (!a->seen) return bias;
  cn_tensor *nothing = cn_full(CN_SCALAR_SHAPE, -INFINITY, .dtype = dtype, .device = cn_device_of(a->q));
  return cn_where(a->seen, bias ? bias : cn_zeros(CN_SCALAR_SHAPE, .dtype = dtype, .device = cn_device_of(a->q)),
                  nothing);
}

/* Weights of scores s; zeros for queries that see no key. */
static cn_tensor *weights(const cni_onnx_attention *a, cn_tensor *s, cn_tensor *added)
{
  cn_tensor *sink = a->sink, *w;
  int64_t keys = s ? cn_shape(s)[3] : 0;
  if (!s) return NULL;
  if (sink) {
    const int64_t *n = cn_shape(s);
    cn_tensor *column = cn_reshape(cn_cast(sink, cn_dtype_of(s)), CN_SHAPE(1, -1, 1, 1));
    cn_tensor *parts[2] = {s, cn_expand(column, CN_SHAPE(n[0], n[1], n[2], 1))};
    return cn_narrow(cn_softmax(cn_cat(parts, 2, .dim = 3), 3), 3, 0, keys);
  }
  w = cn_softmax(s, 3);
  if (!added || !keys) return w;
  cn_tensor *any = cn_gt(cn_amax(added, .dim = CN_INTS(-1), .keepdim = true), cn_num(-INFINITY));
  return cn_where(any, w, cn_int(0));
}

static cn_tensor *by_products(cni_onnx_attention *a)
{
  cn_dtype own = cn_dtype_of(a->q), wide = own == CN_F64 || a->precision == CN_F64 ? CN_F64 : CN_F32;
  int64_t heads = cn_shape(a->q)[1];
  double root = sqrt(a->scale);
  cn_tensor *q = cn_cast(a->q, wide), *k = cn_cast(cni_onnx_spread(a->k, heads), wide);
  cn_tensor *s = a->scale > 0 ? cn_matmul(cn_mul(q, cn_num(root)), cn_transpose(cn_mul(k, cn_num(root)), 2, 3))
                              : cn_mul(cn_matmul(q, cn_transpose(k, 2, 3)), cn_num(a->scale));
  cn_tensor *added = numbers(a, wide);
  a->stages[0] = s;
  if (a->softcap > 0) s = cn_mul(cn_tanh(cn_div(s, cn_num(a->softcap))), cn_num(a->softcap));
  a->stages[1] = s;
  if (added) s = cn_add(s, added);
  a->stages[2] = s;
  cn_tensor *w = weights(a, s, added), *v = cn_cast(cni_onnx_spread(a->v, heads), wide);
  a->stages[3] = w;
  for (int i = 0; a->wants_stages && i < 4; i++) a->stages[i] = a->stages[i] ? cn_cast(a->stages[i], own) : NULL;
  cn_tensor *y = cn_matmul(w, v);
  return y ? cn_cast(y, own) : NULL;
}

cn_tensor *cni_onnx_attend(cni_onnx_attention *a)
{
  if (!a->q || !a->k || !a->v || cn_err()) return NULL;
  cn_dtype own = cn_dtype_of(a->q);
  if (a->scale == 0) a->scale = 1 / sqrt((double)(cn_shape(a->q)[3] ? cn_shape(a->q)[3] : 1));
  if (cn_dtype_of(a->v) != own) a->v = cn_cast(a->v, own);
  if (a->softcap > 0 || a->sink || a->wants_stages || (a->precision == CN_F64 && own != CN_F64))
    return by_products(a);
  cn_tensor *mask = a->bias ? numbers(a, own) : a->seen;
  return cn_scaled_dot_product_attention(a->q, a->k, a->v, .attn_mask = mask, .scale = a->scale,
                                         .enable_gqa = cn_shape(a->q)[1] != cn_shape(a->k)[1]);
}
