/* lower_reduce.c: ops that reduce, as nests: sums and their kin, products of matrices, convolution, pooling. See
 * lower.c, which names these in its table.
 *
 * Invariant: a nest gives the op's result, but for the rounding of additions in another order. */
#include <stdio.h>
#include <string.h>

#include "lower.h"
#include "ops/infer.h"
#include "tensor/tensor.h"

static void refuse(cni_lowering *w)
{
  if (!w->status) w->status = CN_REFUSED;
}

/* ---- over dims ---- */

/* One number for all, or a list. Reads the input over the dims of a mask; those that stay are the results' axes. */
static int64_t reduce_dims(cni_lowering *w, uint32_t mask)
{
  const cn_desc *x = cni_lw_in(w, 0);
  bool keeps = w->y->ndim == x->ndim;
  int64_t count = 1;
  cni_lw_results(w);
  cni_load *l = cni_lw_load(w, 0, false);
  l->class = cni_compute_class(w->y->dtype);
  int axis[CN_MAX_DIMS], at = 0;
  for (int k = 0; k < x->ndim; k++) {
    bool gone = mask >> k & 1;
    axis[k] = gone ? cni_lw_reduced(w, x->shape[k]) : keeps ? k : at;
    if (gone) count *= x->shape[k];
    if (!gone) at++;
  }
  for (int k = 0; k < x->ndim; k++) cni_lw_index(w, l, cni_lw_axis(w, axis[k]));
  return count;
}

static uint32_t mask_of(cni_lowering *w)
{
  uint32_t mask = 0;
  const cn_desc *x = cni_lw_in(w, 0);
  w->status = cni_dims_mask(w->c, &w->c->args[1], x->ndim, &mask);
  if (!x->ndim) refuse(w);
  return mask;
}

/* Reduces by a fold; then: what is made of it, or NULL. */
static void reduce(cni_lowering *w, uint32_t mask, enum cni_fold fold, double from, const char *then)
{
  char text[80];
  if (w->status) return;
  reduce_dims(w, mask);
  if (w->n->naxes == w->n->nfor) cni_lw_reduced(w, 1); /* over no dim: one of one element */
  snprintf(text, sizeof text, "%s:%%C|||0:%%T", cn_dtype_name((cn_dtype)cni_lw_in(w, 0)->dtype));
  cni_lw_do(w, text);
  cni_lw_fold(w, 0, fold, from);
  cni_lw_then(w, then ? then : "%T:%C|||0:%T");
}

static bool is_float(const cni_lowering *w) { return cni_dtype_is_float(w->y->dtype); }

void cni_lower_sum(cni_lowering *w) { reduce(w, mask_of(w), CNI_FOLD_SUM, 0, NULL); }

void cni_lower_mean(cni_lowering *w)
{
  char text[120];
  uint32_t mask = mask_of(w);
  int64_t count = 1;
  for (int k = 0; k < cni_lw_in(w, 0)->ndim; k++)
    if (mask >> k & 1) count *= cni_lw_in(w, 0)->shape[k];
  if (!count) refuse(w);
  snprintf(text, sizeof text, "%%T:%%C|%lld:%%C|div:%%C 0 1|2:%%T", (long long)count);
  reduce(w, mask, CNI_FOLD_SUM, 0, text);
}

void cni_lower_prod(cni_lowering *w)
{
  int ndim = cni_lw_in(w, 0)->ndim;
  if (!ndim) refuse(w);
  reduce(w, (1u << ndim) - 1, CNI_FOLD_PROD, 1, NULL);
}

/* The smallest and largest numbers: of integers what a double has of them. */
static double extreme(const cni_lowering *w, bool low)
{
  if (is_float(w)) return low ? -__builtin_inf() : __builtin_inf();
  if (w->y->dtype == CN_U64) return low ? 0 : 18446744073709549568.0;
  return low ? -9223372036854775808.0 : 9223372036854774784.0;
}

void cni_lower_amax(cni_lowering *w) { reduce(w, mask_of(w), CNI_FOLD_MAX, extreme(w, true), NULL); }
void cni_lower_amin(cni_lowering *w) { reduce(w, mask_of(w), CNI_FOLD_MIN, extreme(w, false), NULL); }

/* ---- products ---- */

static void multiply_and_add(cni_lowering *w)
{
  cni_lw_do(w, "%T:%C,%T:%C||mul:%C 0 1|2:%T");
  cni_lw_fold(w, 0, CNI_FOLD_SUM, 0);
}

static bool one_type(cni_lowering *w)
{
  for (int i = 0; i < w->c->nin; i++)
    if (w->c->in[i] && cni_lw_in(w, i)->dtype != w->y->dtype) return false;
  return true;
}

/* mm: (i, k) by (k, j); bmm has one more dim in front. */
void cni_lower_product(cni_lowering *w)
{
  const cn_desc *a = cni_lw_in(w, 0);
  int batch = a->ndim - 2;
  if (!one_type(w)) refuse(w);
  cni_lw_results(w);
  int k = cni_lw_reduced(w, a->shape[a->ndim - 1]);
  for (int i = 0; i < 2; i++) {
    cni_load *l = cni_lw_load(w, i, false);
    if (batch) cni_lw_index(w, l, cni_lw_axis(w, 0));
    cni_lw_index(w, l, i ? cni_lw_axis(w, k) : cni_lw_axis(w, batch));
    cni_lw_index(w, l, i ? cni_lw_axis(w, batch + 1) : cni_lw_axis(w, k));
  }
  multiply_and_add(w);
  cni_lw_then(w, "%T:%C|||0:%T");
}

/* The sum, and a bias along an axis of the results, if there is one. */
static void add_bias(cni_lowering *w, int bias, int axis)
{
  if (!w->c->in[bias]) {
    cni_lw_then(w, "%T:%C|||0:%T");
    return;
  }
  cni_load *l = cni_lw_load(w, bias, true);
  cni_lw_index(w, l, cni_lw_axis(w, axis));
  cni_lw_then(w, "%T:%C,%T:%C||add:%C 0 1|2:%T");
}

/* linear(input, weight, bias): input (..., k), weight (o, k). */
void cni_lower_linear(cni_lowering *w)
{
  const cn_desc *x = cni_lw_in(w, 0), *weight = cni_lw_in(w, 1);
  if (!one_type(w) || weight->ndim != 2 || (w->c->in[2] && cni_lw_in(w, 2)->ndim != 1)) refuse(w);
  if (w->status) return;
  cni_lw_results(w);
  int k = cni_lw_reduced(w, weight->shape[1]);
  cni_load *l = cni_lw_load(w, 0, false);
  for (int i = 0; i < x->ndim - 1; i++) cni_lw_index(w, l, cni_lw_axis(w, i));
  cni_lw_index(w, l, cni_lw_axis(w, k));
  l = cni_lw_load(w, 1, false);
  cni_lw_index(w, l, cni_lw_axis(w, w->y->ndim - 1));
  cni_lw_index(w, l, cni_lw_axis(w, k));
  multiply_and_add(w);
  add_bias(w, 2, w->y->ndim - 1);
}

/* ---- windows over images ---- */

/* Numbers of a window along one side of an image; axis: of the results. */
typedef struct window {
  int axis;
  int64_t stride, padding, dilation, size, image;
} window;

/* Position in the image: axis * stride + k * dilation - padding. */
static int position(cni_lowering *w, const window *v, int k, bool padded)
{
  int e = cni_lw_make(w, CNI_EXPR_ADD, cni_lw_affine(w, v->axis, v->stride, 0), cni_lw_affine(w, k, v->dilation, 0));
  if (!v->padding || padded) return e;
  return cni_lw_make(w, CNI_EXPR_SUB, e, cni_lw_const(w, v->padding));
}

static int64_t number(const cn_value *v, int i) { return v->tag == CN_V_INTS ? v->u.is[v->n > i ? i : 0] : v->u.i; }

/* conv2d(input, weight, bias, stride, padding, dilation, groups) */
void cni_lower_conv2d(cni_lowering *w)
{
  const cn_desc *x = cni_lw_in(w, 0), *f = cni_lw_in(w, 1);
  const cn_value *a = w->c->args;
  int lead = x->ndim - 3;
  if (!one_type(w) || a[4].tag == CN_V_STR || lead < 0 || lead > 1) refuse(w);
  if (w->status) return;
  cni_lw_results(w);
  int c = cni_lw_reduced(w, f->shape[1]), k[2];
  window v[2];
  for (int i = 0; i < 2; i++) {
    k[i] = cni_lw_reduced(w, f->shape[2 + i]);
    v[i] = (window){lead + 1 + i, number(&a[3], i), number(&a[4], i), number(&a[5], i), 0, x->shape[lead + 1 + i]};
  }
  int64_t groups = a[6].u.i, each = f->shape[0] / groups;
  int group = cni_lw_make(w, CNI_EXPR_DIV, cni_lw_axis(w, lead), cni_lw_const(w, each));
  int channel = cni_lw_make(w, CNI_EXPR_ADD, cni_lw_make(w, CNI_EXPR_MUL, group, cni_lw_const(w, f->shape[1])),
                            cni_lw_axis(w, c));
  cni_load *l = cni_lw_load(w, 0, false);
  if (lead) cni_lw_index(w, l, cni_lw_axis(w, 0));
  cni_lw_index(w, l, groups == 1 ? cni_lw_axis(w, c) : channel);
  for (int i = 0; i < 2; i++) {
    int e = position(w, &v[i], k[i], false);
    cni_lw_index(w, l, e);
    cni_lw_guard(w, l, e, v[i].image);
  }
  l = cni_lw_load(w, 1, false);
  cni_lw_index(w, l, cni_lw_axis(w, lead));
  cni_lw_index(w, l, cni_lw_axis(w, c));
  for (int i = 0; i < 2; i++) cni_lw_index(w, l, cni_lw_axis(w, k[i]));
  multiply_and_add(w);
  add_bias(w, 2, lead);
}

/* The windows of a pool: its kernel is argument 1, stride 2 (the kernel where absent), padding 3. */
static void pool_windows(cni_lowering *w, window *v, const cn_value *dilation)
{
  const cn_desc *x = cni_lw_in(w, 0);
  const cn_value *a = w->c->args;
  for (int i = 0; i < 2; i++) {
    bool given = a[2].tag != CN_V_NONE && !(a[2].tag == CN_V_INTS && a[2].n == 0);
    v[i] = (window){x->ndim - 2 + i, number(&a[given ? 2 : 1], i), number(&a[3], i), dilation ? number(dilation, i) : 1,
                    number(&a[1], i), x->shape[x->ndim - 2 + i]};
  }
}

/* The image under the windows; `otherwise` beside it. */
static void pool_load(cni_lowering *w, const window *v, const int *k, double otherwise)
{
  const cn_desc *x = cni_lw_in(w, 0);
  cni_load *l = cni_lw_load(w, 0, false);
  for (int i = 0; i < x->ndim - 2; i++) cni_lw_index(w, l, cni_lw_axis(w, i));
  for (int i = 0; i < 2; i++) {
    int e = position(w, &v[i], k[i], false);
    cni_lw_index(w, l, e);
    cni_lw_guard(w, l, e, v[i].image);
  }
  l->otherwise = otherwise;
}

/* max_pool2d(input, kernel_size, stride, padding, dilation, ceil_mode) */
void cni_lower_max_pool2d(cni_lowering *w)
{
  window v[2];
  int k[2];
  if (cni_lw_in(w, 0)->ndim < 3) refuse(w);
  if (w->status) return;
  pool_windows(w, v, &w->c->args[4]);
  cni_lw_results(w);
  for (int i = 0; i < 2; i++) k[i] = cni_lw_reduced(w, v[i].size);
  pool_load(w, v, k, extreme(w, true));
  cni_lw_do(w, "%T:%C|||0:%T");
  cni_lw_fold(w, 0, CNI_FOLD_MAX, extreme(w, true));
  cni_lw_then(w, "%T:%C|||0:%T");
}

/* avg_pool2d(input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
void cni_lower_avg_pool2d(cni_lowering *w)
{
  const cn_value *a = w->c->args;
  window v[2];
  int k[2];
  bool padded = cni_arg_bool(a, 5);
  if (cni_lw_in(w, 0)->ndim < 3 || a[6].tag != CN_V_NONE || !is_float(w)) refuse(w);
  if (w->status) return;
  pool_windows(w, v, NULL);
  cni_lw_results(w);
  for (int i = 0; i < 2; i++) k[i] = cni_lw_reduced(w, v[i].size);
  pool_load(w, v, k, 0);
  cni_load *one = w->status ? NULL : cni_nest_load(w->n, -1, CNI_C_I64, false); /* 1 where the window counts */
  if (!one) w->status = w->status ? w->status : CN_ERR_MEMORY;
  if (w->status) return;
  cni_lw_index(w, one, cni_lw_const(w, 1));
  for (int i = 0; i < 2; i++)
    cni_lw_guard(w, one, position(w, &v[i], k[i], padded), v[i].image + (padded ? 2 * v[i].padding : 0));
  cni_lw_do(w, "%T:%C,int64:i64||to:%C 1|0:%T,2:%T");
  cni_lw_fold(w, 0, CNI_FOLD_SUM, 0);
  cni_lw_fold(w, 1, CNI_FOLD_SUM, 0);
  cni_lw_then(w, "%T:%C,%T:%C||div:%C 0 1|2:%T");
}
