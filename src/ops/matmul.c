/* matmul.c: the family of matrix products: mm and bmm, what adds to them (addmm, baddbmm, linear), and matmul
 * with its vector and broadcast forms as views over those.
 *
 * Place in the flow: backends give kernels for mm, bmm, addmm, baddbmm and linear; the rest is composite.
 * Invariant: the operands have one type, as in PyTorch: products never promote. Kernels take any strides, so
 * a transposed view costs nothing, here or in a gradient. */
#include <cairn/kw.h>
#include <math.h>

#include "cost.h"
#include "apply.h"
#include "families.h"
#include "shorthand.h"

/* ---- checks ---- */

static int check_types(const cn_call *c, int first, int n)
{
  int dtype = c->in[first]->d.dtype;
  for (int i = first + 1; i < first + n; i++)
    if (c->in[i] && c->in[i]->d.dtype != dtype)
      return cn_call_fail(c, CN_ERR_DTYPE,
                          "the operands must have one type, but are %s and %s; cast one with cn_cast",
                          cn_dtype_name((cn_dtype)dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  if ((!cni_dtype_computes(dtype) && !cni_dtype_is_complex(dtype)) || cni_dtype_is_bool(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "not for %s; cast the operands with cn_cast",
                        cn_dtype_name((cn_dtype)dtype));
  return CN_OK;
}

static int cannot_multiply(const cn_call *c, const cn_tensor *a, const cn_tensor *b)
{
  char left[CNI_SHAPE_TEXT], right[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "shapes %s and %s cannot be multiplied",
                      cni_shape_text(left, sizeof left, a->d.ndim, a->d.shape),
                      cni_shape_text(right, sizeof right, b->d.ndim, b->d.shape));
}

static int wants_dims(const cn_call *c, const cn_tensor *t, int ndim)
{
  char text[CNI_SHAPE_TEXT];
  if (t->d.ndim == ndim) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "takes %d-dimensional operands, but one has shape %s; use cn_matmul",
                      ndim, cni_shape_text(text, sizeof text, t->d.ndim, t->d.shape));
}

/* (m, k) x (k, n) at in[first], with a leading batch dim when ndim is 3; the shape of the product goes to
 * `shape`. */
static int product_shape(const cn_call *c, int first, int ndim, int64_t *shape)
{
  const cn_tensor *a = c->in[first], *b = c->in[first + 1];
  int status = wants_dims(c, a, ndim);
  if (!status) status = wants_dims(c, b, ndim);
  if (status) return status;
  if (a->d.shape[ndim - 1] != b->d.shape[ndim - 2] || (ndim == 3 && a->d.shape[0] != b->d.shape[0]))
    return cannot_multiply(c, a, b);
  if (ndim == 3) shape[0] = a->d.shape[0];
  shape[ndim - 2] = a->d.shape[ndim - 2];
  shape[ndim - 1] = b->d.shape[ndim - 1];
  return CN_OK;
}

/* ---- mm, bmm ---- */

static int product_infer(cn_call *c, int ndim)
{
  int64_t shape[3];
  int status = product_shape(c, 0, ndim, shape);
  if (!status) status = check_types(c, 0, 2);
  return status ? status : cn_call_result(c, 0, c->in[0]->d.dtype, ndim, shape);
}
static int mm_infer(cn_call *c) { return product_infer(c, 2); }
static int bmm_infer(cn_call *c) { return product_infer(c, 3); }

static int mm_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_mm(v->g[0], cni_swapped(v->in[1]));
  if (v->need[1]) v->gin[1] = cn_mm(cni_swapped(v->in[0]), v->g[0]);
  return cn_err();
}

static int bmm_vjp(cn_vjp *v)
{
  if (v->need[0]) v->gin[0] = cn_bmm(v->g[0], cni_swapped(v->in[1]));
  if (v->need[1]) v->gin[1] = cn_bmm(cni_swapped(v->in[0]), v->g[0]);
  return cn_err();
}

/* mm(a, b) as one product of a batch, for backends that only have bmm. */
static int mm_decompose(cn_call *c)
{
  c->out[0] = cn_squeeze(cn_bmm(cn_unsqueeze(c->in[0], 0), cn_unsqueeze(c->in[1], 0)), .dim = CN_INTS(0));
  return cn_err();
}

/* ---- mm_dtype, bmm_dtype: a result of a wider type ---- */

/* Is `to` the type that products of `from` are added up in, or `from` itself? */
static bool widens(int from, int to)
{
  if (to == from) return true;
  if (from == CN_F16 || from == CN_BF16) return to == CN_F32;
  return (from == CN_I8 || from == CN_U8) && to == CN_I32;
}

static int wide_infer(cn_call *c, int ndim)
{
  int64_t shape[3];
  int dtype = (int)cni_arg_int(c->args, 2), status = product_shape(c, 0, ndim, shape);
  if (!status) status = check_types(c, 0, 2);
  if (status) return status;
  if (!widens(c->in[0]->d.dtype, dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "the result of a product of %s can be of that type, or int32 of int8 and "
                        "uint8, float32 of float16 and bfloat16, but not %s",
                        cn_dtype_name((cn_dtype)c->in[0]->d.dtype), cn_dtype_name((cn_dtype)dtype));
  return cn_call_result(c, 0, dtype, ndim, shape);
}
static int mm_dtype_infer(cn_call *c) { return wide_infer(c, 2); }
static int bmm_dtype_infer(cn_call *c) { return wide_infer(c, 3); }

/* In the type of the result, to which operands convert exactly. */
static int wide_decompose(cn_call *c)
{
  cn_dtype dtype = (cn_dtype)cni_arg_int(c->args, 2);
  cn_tensor *a = cn_cast(c->in[0], dtype), *b = cn_cast(c->in[1], dtype);
  c->out[0] = c->in[0]->d.ndim == 3 ? cn_bmm(a, b) : cn_mm(a, b);
  return cn_err();
}

static int wide_vjp(cn_vjp *v)
{
  bool batched = v->in_meta[0].ndim == 3;
  for (int i = 0; i < 2; i++) {
    if (!v->need[i]) continue;
    cn_tensor *other = cni_swapped(cn_cast(v->in[1 - i], cn_dtype_of(v->g[0])));
    cn_tensor *left = i ? other : v->g[0], *right = i ? v->g[0] : other;
    v->gin[i] = batched ? cn_bmm(left, right) : cn_mm(left, right);
  }
  return cn_err();
}

static int int_mm_decompose(cn_call *c)
{
  c->out[0] = cn_mm_dtype(c->in[0], c->in[1], CN_I32);
  return cn_err();
}

/* ---- addmm, baddbmm: beta * input + alpha * (a x b) ---- */

enum { BETA = 3, ALPHA = 4 }; /* parameters */

static int added_infer(cn_call *c, int ndim)
{
  int64_t shape[3];
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  int status = product_shape(c, 1, ndim, shape);
  if (!status) status = check_types(c, 0, 3);
  if (status) return status;
  const cn_desc *d = &c->in[0]->d;
  if (!cni_broadcasts_to(d->ndim, d->shape, ndim, shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "input of shape %s does not broadcast to the product's shape %s",
                        cni_shape_text(have, sizeof have, d->ndim, d->shape),
                        cni_shape_text(want, sizeof want, ndim, shape));
  bool whole = cni_is_whole(cni_arg_float(c->args, BETA)) && cni_is_whole(cni_arg_float(c->args, ALPHA));
  if (!cni_dtype_is_float(d->dtype) && !whole && ndim == 2) /* baddbmm cuts the fraction off, as in PyTorch */
    return cn_call_fail(c, CN_ERR_VALUE, "alpha and beta must be whole numbers for integer tensors");
  return cn_call_result(c, 0, d->dtype, ndim, shape);
}
static int addmm_infer(cn_call *c) { return added_infer(c, 2); }
static int baddbmm_infer(cn_call *c) { return added_infer(c, 3); }

/* Whole factors are integers, which leave an integer tensor's type alone. */
static cn_tensor *scaled(cn_tensor *x, double factor)
{
  if (factor == 1) return x;
  return cn_mul(x, cni_is_whole(factor) ? cn_int((int64_t)factor) : cn_num(factor));
}

/* The products of the gradient are those of mm and bmm. */
static int added_vjp(cn_vjp *v, cn_tensor *(*times)(cn_tensor *, cn_tensor *))
{
  double alpha = cni_arg_float(v->args, ALPHA);
  if (v->need[0]) v->gin[0] = scaled(v->g[0], cni_arg_float(v->args, BETA));
  if (v->need[1]) v->gin[1] = scaled(times(v->g[0], cni_swapped(v->in[2])), alpha);
  if (v->need[2]) v->gin[2] = scaled(times(cni_swapped(v->in[1]), v->g[0]), alpha);
  return cn_err();
}
static int addmm_vjp(cn_vjp *v) { return added_vjp(v, cn_mm); }
static int baddbmm_vjp(cn_vjp *v) { return added_vjp(v, cn_bmm); }

/* beta 0 means that input is not looked at, so that its NaNs do not spread. 16-bit floats are rounded once, at the
 * end. */
static int added_decompose(cn_call *c, cn_tensor *(*times)(cn_tensor *, cn_tensor *),
                           cn_tensor *(*times_wide)(cn_tensor *, cn_tensor *, cn_dtype))
{
  const int type = c->in[0]->d.dtype;
  const bool whole = !cni_dtype_is_float(type), half = cni_is_half(type);
  double beta = cni_arg_float(c->args, BETA), alpha = cni_arg_float(c->args, ALPHA);
  if (whole) beta = trunc(beta), alpha = trunc(alpha);
  cn_tensor *product = half ? times_wide(c->in[1], c->in[2], CN_F32) : times(c->in[1], c->in[2]);
  product = scaled(product, alpha);
  if (beta != 0) product = cn_add(scaled(half ? cn_cast(c->in[0], CN_F32) : c->in[0], beta), product);
  c->out[0] = cni_in_type(product, type);
  return cn_err();
}
static int addmm_decompose(cn_call *c) { return added_decompose(c, cn_mm, cn_mm_dtype); }
static int baddbmm_decompose(cn_call *c) { return added_decompose(c, cn_bmm, cn_bmm_dtype); }

/* ---- linear: x W^T + b ---- */

/* linear(input (..., k), weight (n, k) or (k), bias (n) or absent) */
static int linear_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d;
  int64_t shape[CN_MAX_DIMS];
  char text[CNI_SHAPE_TEXT];
  if (x->ndim < 1 || w->ndim < 1 || w->ndim > 2 || x->shape[x->ndim - 1] != w->shape[w->ndim - 1])
    return cannot_multiply(c, c->in[0], c->in[1]);
  int status = check_types(c, 0, 3), n = x->ndim - 1;
  if (status) return status;
  memcpy(shape, x->shape, (size_t)n * sizeof *shape);
  if (w->ndim == 2) shape[n++] = w->shape[0];
  if (c->in[2]) {
    const cn_desc *b = &c->in[2]->d;
    if (b->ndim >= w->ndim || (b->ndim == 1 && b->shape[0] != w->shape[0] && b->shape[0] != 1))
      return cn_call_fail(c, CN_ERR_SHAPE, "a bias of shape %s does not fit %lld outputs",
                          cni_shape_text(text, sizeof text, b->ndim, b->shape),
                          (long long)(w->ndim == 2 ? w->shape[0] : 1));
  }
  return cn_call_result(c, 0, x->dtype, n, shape);
}

static int64_t rows_of(int ndim, const int64_t *shape) { return cni_numel(ndim - 1, shape); }

/* x: (..., k) as (rows, k) */
static cn_tensor *as_rows(cn_tensor *x, int64_t rows, int64_t k)
{
  if (cn_ndim(x) == 2 && cn_size(x, 0) == rows && cn_size(x, 1) == k) return x;
  return cn_reshape(x, CN_SHAPE(rows, k));
}

static int linear_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[0], *w = &v->in_meta[1];
  int64_t rows = rows_of(x->ndim, x->shape), k = x->shape[x->ndim - 1], n = w->ndim == 2 ? w->shape[0] : 1;
  cn_tensor *g = as_rows(v->g[0], rows, n); /* (rows, n) */
  if (v->need[0]) {
    cn_tensor *gx = cn_mm(g, as_rows(v->in[1], n, k));
    v->gin[0] = x->ndim == 2 ? gx : cn_reshape(gx, x->shape, (size_t)x->ndim);
  }
  if (v->need[1]) {
    cn_tensor *gw = cn_mm(cni_swapped(g), as_rows(v->in[0], rows, k));
    v->gin[1] = w->ndim == 2 ? gw : cn_reshape(gw, w->shape, (size_t)w->ndim);
  }
  if (v->nin > 2 && v->need[2]) v->gin[2] = cn_sum(g, .dim = CN_INTS(0));
  return cn_err();
}

static int linear_decompose(cn_call *c)
{
  cn_tensor *w = c->in[1];
  cn_tensor *y = cn_matmul(c->in[0], w->d.ndim == 2 ? cni_swapped(w) : w);
  c->out[0] = c->in[2] ? cn_add(y, c->in[2]) : y;
  return cn_err();
}

/* ---- products with a gelu: what graphs are rewritten to ---- */

/* linear_gelu(input, weight, bias, keep) -> (output, pre) */
static int linear_gelu_infer(cn_call *c)
{
  const int64_t none = 0;
  int status = linear_infer(c);
  const cn_spec *y = &c->spec[0];
  if (!status && !cni_dtype_is_float(y->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  if (status) return status;
  return cni_arg_bool(c->args, 3) ? cn_call_result(c, 1, y->dtype, y->ndim, y->shape)
                                  : cn_call_result(c, 1, y->dtype, 1, &none);
}

static int linear_gelu_decompose(cn_call *c)
{
  cn_tensor *pre = cn_linear(c->in[0], c->in[1], c->in[2]);
  c->out[0] = cn_gelu(pre, .approximate = "tanh");
  c->out[1] = cni_arg_bool(c->args, 3) ? pre : cn_empty(CN_SHAPE(0), .dtype = cn_dtype_of(pre), .device = c->device);
  return cn_err();
}

/* mm_gelu_backward(input (m, k), mat2 (k, n), pre (m, n)) */
static int mm_gelu_backward_infer(cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d, *pre = &c->in[2]->d;
  bool fit = a->ndim == 2 && b->ndim == 2 && a->shape[1] == b->shape[0];
  if (!fit) return cannot_multiply(c, c->in[0], c->in[1]);
  const int64_t shape[2] = {a->shape[0], b->shape[1]};
  int status = check_types(c, 0, 3);
  if (status) return status;
  if (!cni_same_shape(2, shape, pre->ndim, pre->shape) || !cni_dtype_is_float(a->dtype))
    return cn_call_fail(c, CN_ERR_SHAPE, "pre must be floating-point, of the product's shape");
  return cn_call_result(c, 0, a->dtype, 2, shape);
}

static int mm_gelu_backward_decompose(cn_call *c)
{
  cn_tensor *in[] = {cn_mm(c->in[0], c->in[1]), c->in[2]};
  cn_pointwise(c->out, 1, in, 2, "2||gelu_tanh_slope 1;mul 0 2|3", NULL, 0);
  return cn_err();
}

/* ---- vectors ---- */

/* mv(input (m, k), vec (k)) */
static int mv_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *x = c->in[1];
  if (a->d.ndim != 2 || x->d.ndim != 1 || a->d.shape[1] != x->d.shape[0]) return cannot_multiply(c, a, x);
  int status = check_types(c, 0, 2);
  if (status) return status;
  c->out[0] = cn_view(cn_mm(a, cn_unsqueeze(x, 1)), CN_SHAPE(a->d.shape[0]));
  return cn_err();
}

/* dot(input (k), tensor (k)) */
static int dot_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  if (a->d.ndim != 1 || b->d.ndim != 1 || a->d.shape[0] != b->d.shape[0]) return cannot_multiply(c, a, b);
  int status = check_types(c, 0, 2);
  if (status) return status;
  c->out[0] = cn_view(cn_mm(cn_unsqueeze(a, 0), cn_unsqueeze(b, 1)), CN_SCALAR_SHAPE);
  return cn_err();
}

/* outer(input (m), vec2 (n)); promotes, as the product of elements that it is. */
static int outer_decompose(cn_call *c)
{
  if (c->in[0]->d.ndim != 1 || c->in[1]->d.ndim != 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes two vectors, not tensors of %d and %d dimensions",
                        (int)c->in[0]->d.ndim, (int)c->in[1]->d.ndim);
  c->out[0] = cn_mul(cn_unsqueeze(c->in[0], 1), c->in[1]);
  return cn_err();
}

/* ---- matmul ---- */

/* a: (..., k), b: (k, n) or (k): all rows of a in one product. */
static cn_tensor *matmul_folded(cn_tensor *a, cn_tensor *b)
{
  int64_t shape[CN_MAX_DIMS];
  int n = a->d.ndim - 1;
  cn_tensor *rows = as_rows(a, rows_of(a->d.ndim, a->d.shape), a->d.shape[n]);
  cn_tensor *y = b->d.ndim == 1 ? cn_mv(rows, b) : cn_mm(rows, b);
  if (a->d.ndim == 2) return y;
  memcpy(shape, a->d.shape, (size_t)n * sizeof *shape);
  if (b->d.ndim == 2) shape[n++] = b->d.shape[1];
  return cn_view(y, shape, (size_t)n);
}

/* x: (..., r, c) broadcast over `batch` and flattened to (B, r, c). Broadcast dims stay strides of 0 where
 * they can. */
static cn_tensor *as_batch(cn_tensor *x, int nbatch, const int64_t *batch)
{
  int64_t shape[CN_MAX_DIMS];
  int lead = x->d.ndim - 2;
  memcpy(shape, batch, (size_t)nbatch * sizeof *shape);
  shape[nbatch] = x->d.shape[lead];
  shape[nbatch + 1] = x->d.shape[lead + 1];
  if (!cni_same_shape(lead, x->d.shape, nbatch, batch)) x = cn_expand(x, shape, (size_t)nbatch + 2);
  if (nbatch == 1 || !x) return x;
  return cn_reshape(x, CN_SHAPE(cni_numel(nbatch, batch), shape[nbatch], shape[nbatch + 1]));
}

/* a: (..., m, k), b: (..., k, n), at least one of them with a batch. vector: a was (k), so m is left out
 * again. */
static int matmul_batched(cn_call *c, cn_tensor *a, cn_tensor *b, bool vector)
{
  int64_t shape[CN_MAX_DIMS] = {0};
  int nbatch = 0;
  cni_broadcast(&nbatch, shape, a->d.ndim - 2, a->d.shape);
  if (!cni_broadcast(&nbatch, shape, b->d.ndim - 2, b->d.shape))
    return cannot_multiply(c, c->in[0], c->in[1]);
  cn_tensor *y = cn_bmm(as_batch(a, nbatch, shape), as_batch(b, nbatch, shape));
  int n = nbatch;
  if (!vector) shape[n++] = a->d.shape[a->d.ndim - 2];
  shape[n++] = b->d.shape[b->d.ndim - 1];
  c->out[0] = n == 3 && nbatch == 1 ? y : cn_view(y, shape, (size_t)n);
  return cn_err();
}

/* a and b, one of them with more than one dim. */
static int multiply(cn_call *c, cn_tensor *a, cn_tensor *b)
{
  int na = a->d.ndim, nb = b->d.ndim;
  bool vector = na == 1;
  if (vector && !(a = cn_unsqueeze(a, 0))) return cn_err();
  /* One matrix for all of a's rows: also when it comes with leading dims of size 1. */
  if (nb > 2 && nb <= na && cni_numel(nb - 2, b->d.shape) == 1)
    b = cn_reshape(b, CN_SHAPE(b->d.shape[nb - 2], b->d.shape[nb - 1]));
  if (!b) return cn_err();
  if (b->d.ndim > 2) return matmul_batched(c, a, b, vector);
  cn_tensor *y = matmul_folded(a, b);
  c->out[0] = vector ? cn_squeeze(y, .dim = CN_INTS(0)) : y;
  return cn_err();
}

/* Which operands PyTorch rearranges into other matrices, which it keeps instead. */
static uint32_t rearranged(const cn_desc *a, const cn_desc *b)
{
  if (b->ndim < 3) return 0;
  if (a->ndim < 3 || cni_numel(a->ndim - 2, a->shape) == 1) return CN_IN(1); /* a matrix, and several */
  int longest = a->ndim > b->ndim ? a->ndim : b->ndim;
  bool same = cni_same_shape(a->ndim - 2, a->shape, b->ndim - 2, b->shape);
  return longest == 3 || same ? 0 : CN_IN(0) | CN_IN(1);
}

static int matmul_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1];
  int na = a->d.ndim, nb = b->d.ndim;
  if (na < 1 || nb < 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "both operands need at least one dimension, but have %d and %d", na,
                        nb);
  if (a->d.shape[na - 1] != b->d.shape[nb == 1 ? 0 : nb - 2]) return cannot_multiply(c, a, b);
  int status = check_types(c, 0, 2);
  if (status) return status;
  if (na == 1 && nb == 1) {
    c->out[0] = cn_dot(a, b);
    return cn_err();
  }
  cn_state *st = cni_state();
  cni_copying copying = {st->copying, c, rearranged(&a->d, &b->d)};
  st->copying = &copying;
  status = multiply(c, a, b);
  st->copying = copying.around;
  return status;
}

/* clang-format off */
const cn_op cni_matmul_ops[] = {
  {.sig = "mm(Tensor input, Tensor mat2) -> Tensor ; method group_matmul amp_low",
   .doc = "Product of two matrices: (m, k) x (k, n) gives (m, n).",
   .cost = cni_cost_product,
   .infer = mm_infer, .vjp = mm_vjp, .decompose = mm_decompose, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "bmm(Tensor input, Tensor mat2) -> Tensor ; method group_matmul amp_low",
   .doc = "Products of a batch of matrices: (B, m, k) x (B, k, n) gives (B, m, n).",
   .cost = cni_cost_product, .infer = bmm_infer, .vjp = bmm_vjp, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "mm_dtype(Tensor input, Tensor mat2, dtype out_dtype) -> Tensor ; method overload_mm",
   .doc = "mm with sums and result in a wider type: int32 of int8 and uint8, float32 of float16 and bfloat16.",
   .cost = cni_cost_product,
   .infer = mm_dtype_infer, .vjp = wide_vjp, .decompose = wide_decompose, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "bmm_dtype(Tensor input, Tensor mat2, dtype out_dtype) -> Tensor ; method overload_bmm",
   .doc = "bmm with sums and result in a wider type, as mm_dtype has it.",
   .cost = cni_cost_product,
   .infer = bmm_dtype_infer, .vjp = wide_vjp, .decompose = wide_decompose, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "int_mm(Tensor input, Tensor mat2) -> Tensor ; alias__int_mm",
   .doc = "Product of two int8 matrices with sums and result in int32.",
   .flags = CN_OP_COMPOSITE, .decompose = int_mm_decompose},
  {.sig = "addmm(Tensor input, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) "
          "-> Tensor ; method inplace group_matmul amp_low",
   .doc = "beta * input + alpha * (mat1 x mat2); input is broadcast to (m, n). With beta 0 input is not looked at.",
   .cost = cni_cost_addmm,
   .infer = addmm_infer, .vjp = addmm_vjp, .decompose = addmm_decompose, .needs = {[1] = CN_IN(2), [2] = CN_IN(1)}},
  {.sig = "baddbmm(Tensor input, Tensor batch1, Tensor batch2, *, Scalar beta=1, Scalar alpha=1) "
          "-> Tensor ; method inplace group_matmul amp_low",
   .doc = "beta * input + alpha * bmm(batch1, batch2); input is broadcast to (B, m, n). With beta 0 it is not looked "
          "at.",
   .cost = cni_cost_addmm, .infer = baddbmm_infer, .vjp = baddbmm_vjp, .decompose = baddbmm_decompose,
   .needs = {[1] = CN_IN(2), [2] = CN_IN(1)}},
  {.sig = "linear(Tensor input, Tensor weight, Tensor? bias=None) -> Tensor ; nn group_matmul amp_low "
          "grad_fn_AddmmBackward0",
   .doc = "input x weight^T + bias: (..., k) with weight (n, k) and bias (n) gives (..., n).",
   .cost = cni_cost_product, .infer = linear_infer, .vjp = linear_vjp, .decompose = linear_decompose,
   .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "linear_gelu(Tensor input, Tensor weight, Tensor bias, bool keep) -> (Tensor output, Tensor pre) "
          "; internal tuple",
   .doc = "gelu, in its tanh form, of linear, and linear's result, or nothing without keep: graphs are rewritten to it "
          "where a device's product does both.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_product, .infer = linear_gelu_infer, .decompose = linear_gelu_decompose},
  {.sig = "mm_gelu_backward(Tensor input, Tensor mat2, Tensor pre) -> Tensor ; internal",
   .doc = "mm times the slope of gelu, in its tanh form, at pre: what linear_gelu is to gelu's gradient.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_product,
   .infer = mm_gelu_backward_infer, .decompose = mm_gelu_backward_decompose},
  {.sig = "mv(Tensor input, Tensor vec) -> Tensor ; method amp_low_device grad_fn complex",
   .doc = "Product of a matrix and a vector: (m, k) x (k) gives (m).",
   .flags = CN_OP_COMPOSITE, .decompose = mv_decompose},
  {.sig = "dot(Tensor input, Tensor tensor) -> Tensor ; method amp_wide_device grad_fn",
   .doc = "Sum of the products of the elements of two vectors.",
   .flags = CN_OP_COMPOSITE, .decompose = dot_decompose},
  {.sig = "outer(Tensor input, Tensor vec2) -> Tensor ; method alias_ger complex",
   .doc = "All products of two vectors: (m) and (n) give (m, n).",
   .flags = CN_OP_COMPOSITE, .decompose = outer_decompose},
  {.sig = "matmul(Tensor input, Tensor other) -> Tensor ; method amp_low complex",
   .doc = "Matrix product of the last two dimensions; the others are a batch and broadcast. A vector counts as a row "
          "on the left and as a column on the right, and that dimension is left out of the result.",
   .flags = CN_OP_COMPOSITE, .decompose = matmul_decompose},
};
/* clang-format on */
CNI_FAMILY(matmul);
