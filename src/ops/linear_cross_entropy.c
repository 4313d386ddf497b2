/* linear_cross_entropy.c: the cross entropy of what a linear layer gives, without all of its scores at once.
 *
 * Place in the flow: linear_cross_entropy hands what has many rows and plain classes to linear_cross_entropy_rows,
 * which makes scores of some thousand rows at a time and, where gradients will be asked for, turns them into those of
 * input, weight and bias at once; backward only scales them. The rest is linear and cross_entropy. Invariant: at no
 * time there are more scores than those of one part and their gradient. */
#include <cairn/autograd.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "infer.h"
#include "shorthand.h"

enum { PART = 4096 }; /* rows: enough to fill a device */
enum { X, W, TARGET, BIAS, IGNORE, REDUCTION, ROWS, MASK };
enum { LOSS, DX, DW, DB, SHARE };

/* ---- linear_cross_entropy_rows(input, linear_weight, target, linear_bias, ignore_index, reduction, rows, wanted) */

static bool asked_for(const cn_value *args, int i) { return i < args[MASK].n && args[MASK].u.is[i]; }

/* Result i, the gradient of one of the three; empty where it is not asked for. */
static int gradient_result(cn_call *c, int i, int dtype, int ndim, const int64_t *shape)
{
  const int64_t none = 0;
  return asked_for(c->args, i - DX) ? cn_call_result(c, i, dtype, ndim, shape) : cn_call_result(c, i, dtype, 1, &none);
}

static int part_infer(cn_call *c)
{
  const cn_desc *x = &c->in[X]->d, *w = &c->in[W]->d, *t = &c->in[TARGET]->d;
  const cn_tensor *bias = c->in[BIAS];
  if (!cni_dtype_is_float(x->dtype) || !cni_dtype_computes(x->dtype) || x->dtype != w->dtype ||
      (bias && bias->d.dtype != x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "input, linear_weight and linear_bias must be floating point of one type");
  if (!cni_dtype_is_int(t->dtype) || !cni_dtype_computes(t->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "class targets must be integers, not %s", cn_dtype_name((cn_dtype)t->dtype));
  if (x->ndim != 2 || w->ndim != 2 || t->ndim != 1 || w->shape[1] != x->shape[1] || t->shape[0] != x->shape[0] ||
      (bias && (bias->d.ndim != 1 || bias->d.shape[0] != w->shape[0])))
    return cn_call_fail(c, CN_ERR_SHAPE, "input (N, n), linear_weight (C, n), target (N), linear_bias (C) do not fit");
  if (cni_arg_int(c->args, ROWS) < 1) return cn_call_fail(c, CN_ERR_VALUE, "rows must be positive");
  int wide = cni_wide_type(x->dtype);
  int status = cn_call_result(c, LOSS, wide, 0, NULL);
  if (!status) status = gradient_result(c, DX, x->dtype, 2, x->shape);
  if (!status) status = gradient_result(c, DW, wide, 2, w->shape);
  if (!status) status = gradient_result(c, DB, wide, 1, w->shape);
  return status ? status : cn_call_result(c, SHARE, wide, 0, NULL);
}

/* of += ds^T x in of's type, which holds the sums of all parts */
static int add_product(cn_tensor *of, cn_tensor *ds, cn_tensor *x)
{
  cn_tensor *left = cn_t(ds);
  bool same = cn_dtype_of(of) == cn_dtype_of(x);
  cn_add_(of, same ? cn_mm(left, x) : cn_mm_dtype(left, x, cn_dtype_of(of)));
  return cn_err();
}

/* Rows [first, last): their loss is added up, and so are the gradients of a loss that is a sum. */
static int add_part(cn_call *c, cn_tensor *loss, cn_tensor *const *g, int64_t first, int64_t last)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_slice(c->in[X], 0, first, last), *t = cn_slice(c->in[TARGET], 0, first, last);
  cn_tensor *scores = cn_linear(x, c->in[W], c->in[BIAS]), *sum = NULL, *lse = NULL;
  int64_t ignore = cni_arg_int(c->args, IGNORE);
  cn_cross_entropy_rows(&sum, &lse, scores, t, ignore, "sum", .wide = true);
  cn_add_(loss, sum);
  if (g[DX] || g[DW] || g[DB]) {
    cn_tensor *ds = cn_cross_entropy_rows_grad(cn_ones_like(sum), scores, t, lse, ignore, "sum");
    if (g[DX]) cn_copy_(cn_slice(g[DX], 0, first, last), cn_mm(ds, c->in[W]));
    if (g[DW]) add_product(g[DW], ds, x);
    if (g[DB]) cn_add_(g[DB], cn_sum(cn_cast(ds, cn_dtype_of(g[DB])), .dim = CN_INTS(0)));
  }
  cn_scope_end(s);
  return cn_err();
}

static int part_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[X]->d;
  cn_dtype wide = (cn_dtype)cni_wide_type(x->dtype);
  cn_tensor *g[SHARE] = {NULL}, *nothing = cn_empty(CN_SHAPE(0), .dtype = wide, .device = c->device);
  cn_tensor *loss = cn_zeros(CN_SCALAR_SHAPE, .dtype = wide, .device = c->device);
  if (asked_for(c->args, 0)) g[DX] = cn_empty_like(c->in[X]);
  if (asked_for(c->args, 1)) g[DW] = cn_zeros_like(c->in[W], .dtype = wide);
  if (asked_for(c->args, 2)) g[DB] = cn_zeros(c->in[W]->d.shape, 1, .dtype = wide, .device = c->device);
  int64_t rows = cni_arg_int(c->args, ROWS);
  for (int64_t first = 0; first < x->shape[0] && !cn_err(); first += rows)
    add_part(c, loss, g, first, first + rows < x->shape[0] ? first + rows : x->shape[0]);
  cn_tensor *share = cn_ones_like(loss);
  if (cni_arg_is(c->args, REDUCTION, "mean")) {
    cn_tensor *counts = cn_cast(cn_ne(c->in[TARGET], cn_int(cni_arg_int(c->args, IGNORE))), wide);
    share = cn_reciprocal(cn_sum(counts));
  }
  c->out[LOSS] = cn_mul(loss, share);
  c->out[DX] = g[DX] ? g[DX] : cn_empty(CN_SHAPE(0), .dtype = (cn_dtype)x->dtype, .device = c->device);
  c->out[DW] = g[DW] ? g[DW] : nothing;
  c->out[DB] = g[DB] ? g[DB] : cn_clone(nothing);
  c->out[SHARE] = share;
  return cn_err();
}

/* With plain ops, for gradients of gradients. */
static int plain_vjp(cn_vjp *v)
{
  cn_tensor *scores = cn_linear(v->in[X], v->in[W], v->in[BIAS]), *loss = NULL, *lse = NULL;
  int64_t ignore = cni_arg_int(v->args, IGNORE);
  cn_cross_entropy_rows(&loss, &lse, scores, v->in[TARGET], ignore, cni_arg_str(v->args, REDUCTION), .wide = true);
  cn_tensor *ds =
      cn_cross_entropy_rows_grad(v->g[LOSS], scores, v->in[TARGET], lse, ignore, cni_arg_str(v->args, REDUCTION));
  if (v->need[X]) v->gin[X] = cn_mm(ds, v->in[W]);
  if (v->need[W]) v->gin[W] = cn_mm(cn_t(ds), v->in[X]);
  if (v->need[BIAS]) v->gin[BIAS] = cn_sum(ds, .dim = CN_INTS(0));
  return cn_err();
}

static int part_vjp(cn_vjp *v)
{
  static const int from[] = {[X] = DX, [W] = DW, [BIAS] = DB};
  if (!v->g[LOSS]) return CN_OK;
  if (cni_recording()) return plain_vjp(v);
  cn_tensor *factor = cn_mul(v->g[LOSS], v->out[SHARE]);
  for (int i = 0; i < 4; i++) {
    if (i == TARGET || !v->in[i] || !v->need[i]) continue;
    cn_tensor *g = v->out[from[i]];
    if (g->d.ndim != v->in[i]->d.ndim || g->d.numel != v->in[i]->d.numel) return plain_vjp(v);
    v->gin[i] = cn_cast(cn_mul(cn_cast(g, cn_dtype_of(factor)), factor), (cn_dtype)v->in[i]->d.dtype);
  }
  return cn_err();
}

/* ---- linear_cross_entropy(input, linear_weight, target, linear_bias, weight, reduction, ignore_index, smoothing) */

/* Scores of (N, C), and classes; more than one part of them. */
static bool in_parts(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d, *t = &c->in[2]->d;
  bool plain = !c->in[4] && cni_arg_float(c->args, 7) == 0 && cni_dtype_is_int(t->dtype);
  bool reduced = cni_arg_is(c->args, 5, "mean") || cni_arg_is(c->args, 5, "sum");
  return plain && reduced && x->ndim == 2 && w->ndim == 2 && t->ndim == 1 && x->shape[0] > PART;
}

static int linear_cross_entropy_decompose(cn_call *c)
{
  cn_tensor *bias = c->in[3];
  int64_t ignore = cni_arg_int(c->args, 6);
  const char *reduction = cni_arg_str(c->args, 5);
  if (!in_parts(c)) {
    c->out[0] = cn_cross_entropy(cn_linear(c->in[0], c->in[1], bias), c->in[2], .weight = c->in[4],
                                 .ignore_index = cni_option(ignore), .reduction = reduction,
                                 .label_smoothing = cni_option_float(cni_arg_float(c->args, 7)));
    return cn_err();
  }
  bool on = cn_grad_enabled();
  int64_t mask[] = {on && cn_needs_grad(c->in[0]), on && cn_needs_grad(c->in[1]), on && bias && cn_needs_grad(bias)};
  cn_tensor *loss = NULL;
  cn_linear_cross_entropy_rows(&loss, NULL, NULL, NULL, NULL, c->in[0], c->in[1], c->in[2], bias, ignore, reduction,
                               PART, mask, 3);
  c->out[0] = loss;
  return cn_err();
}

/* clang-format off */
const cn_op cni_linear_cross_entropy_ops[] = {
  {.sig = "linear_cross_entropy_rows(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, "
          "int ignore_index, str reduction, int rows, int[] wanted) -> (Tensor loss, Tensor grad_input, "
          "Tensor grad_weight, Tensor grad_bias, Tensor share) ; internal tuple amp_low",
   .doc = "linear_cross_entropy of input (N, n) and classes (N) with 'mean' or 'sum', some rows at a time, and the "
          "gradients of a 'sum' (those whose wanted is 0 come back empty) with what 'mean' multiplies them by. "
          "Gradients flow through loss only.",
   .infer = part_infer, .vjp = part_vjp, .decompose = part_decompose,
   .needs = {[X] = CN_IN(X) | CN_IN(W) | CN_IN(TARGET) | CN_IN(BIAS) | CN_OUT(DX) | CN_OUT(SHARE),
             [W] = CN_IN(X) | CN_IN(W) | CN_IN(TARGET) | CN_IN(BIAS) | CN_OUT(DW) | CN_OUT(SHARE),
             [BIAS] = CN_IN(X) | CN_IN(W) | CN_IN(TARGET) | CN_IN(BIAS) | CN_OUT(DB) | CN_OUT(SHARE)}},
  {.sig = "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? linear_bias=None, "
          "Tensor? weight=None, str reduction='mean', int ignore_index=-100, float label_smoothing=0.0) -> Tensor "
          "; nn opt_linear_bias opt_weight",
   .doc = "cross_entropy of linear(input, linear_weight, linear_bias) with target. Of more than 4,096 rows with plain "
          "classes, reduced, scores are made and used up some rows at a time, gradients with them.",
   .flags = CN_OP_COMPOSITE, .decompose = linear_cross_entropy_decompose},
};
/* clang-format on */
CNI_FAMILY(linear_cross_entropy);
