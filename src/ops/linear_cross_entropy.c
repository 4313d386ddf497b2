/* linear_cross_entropy.c: the cross entropy of what a linear layer gives, without all of its scores at once.
 *
 * Place in the flow: linear_cross_entropy hands what has many rows, and classes for targets, to
 * linear_cross_entropy_rows, which makes scores of some thousand rows at a time and, where gradients will be asked for,
 * turns them into those of input, weight and bias at once; backward only scales them. Where each row has a loss of its
 * own, backward knows what a row counts, and makes the scores again. The rest is linear and cross_entropy. Invariant:
 * at no time there are more scores than those of one part and their gradient. */
#include <cairn/autograd.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "infer.h"
#include "loss.h"
#include "shorthand.h"

enum { PART = 4096 }; /* rows: enough to fill a device */
enum { X, W, TARGET, BIAS, WEIGHT, EACH, IGNORE, REDUCTION, SMOOTHING, ROWS, MASK };
enum { LOSS, DX, DW, DB, SHARE };

/* ---- linear_cross_entropy_rows(input, linear_weight, target, linear_bias, weight, each, ignore_index, reduction,
 * label_smoothing, rows, wanted) ---- */

static bool asked_for(const cn_value *args, int i) { return i < args[MASK].n && args[MASK].u.is[i]; }

/* Result i, the gradient of one of the three; empty where it is not asked for. */
static int gradient_result(cn_call *c, int i, int dtype, int ndim, const int64_t *shape)
{
  const int64_t none = 0;
  return asked_for(c->args, i - DX) ? cn_call_result(c, i, dtype, ndim, shape) : cn_call_result(c, i, dtype, 1, &none);
}

/* weight (C): of float64, which autocast leaves as it is; each (N): of floats. */
static int check_factors(const cn_call *c)
{
  const cn_tensor *weight = c->in[WEIGHT], *each = c->in[EACH];
  if (weight && (weight->d.ndim != 1 || weight->d.shape[0] != c->in[W]->d.shape[0]))
    return cn_call_fail(c, CN_ERR_SHAPE, "weight must be a vector of %lld classes", (long long)c->in[W]->d.shape[0]);
  if (each && (each->d.ndim != 1 || each->d.shape[0] != c->in[X]->d.shape[0]))
    return cn_call_fail(c, CN_ERR_SHAPE, "each must be a vector of %lld rows", (long long)c->in[X]->d.shape[0]);
  if ((weight && weight->d.dtype != CN_F64) || (each && !cni_dtype_is_float(each->d.dtype)))
    return cn_call_fail(c, CN_ERR_DTYPE, "weight must be float64, and each floating point");
  if (!(cni_arg_float(c->args, SMOOTHING) >= 0 && cni_arg_float(c->args, SMOOTHING) <= 1))
    return cn_call_fail(c, CN_ERR_VALUE, "label_smoothing must lie between 0 and 1, but is %g",
                        cni_arg_float(c->args, SMOOTHING));
  return CN_OK;
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
  int wide = cni_wide_type(x->dtype), status = check_factors(c);
  if (!status) status = cn_call_result(c, LOSS, wide, cni_arg_is(c->args, REDUCTION, "none"), x->shape);
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

/* What decides on the terms of a loss. The loss of a row is
 *   (1 - smoothing) w[t] (lse - x[t]) + smoothing / classes * sum over c of w[c] (lse - x[c]). */
typedef struct terms {
  cn_tensor *weight; /* (C), in the wide type; NULL: all are 1 */
  cn_tensor *total;  /* the weights' sum */
  cn_dtype wide;
  int64_t ignore;
  double smoothing, even; /* even: of a class that is not the target */
} terms;

static terms terms_of(cn_tensor *w, cn_tensor *weight, const cn_value *args)
{
  int64_t classes = w->d.shape[0];
  terms f = {.wide = (cn_dtype)cni_wide_type(w->d.dtype), .ignore = cni_arg_int(args, IGNORE),
             .smoothing = cni_arg_float(args, SMOOTHING)};
  f.even = classes ? f.smoothing / (double)classes : 0;
  if (weight) f.weight = cn_cast(weight, f.wide);
  f.total = weight ? cn_sum(f.weight)
                   : cn_full(CN_SCALAR_SHAPE, (double)classes, .dtype = f.wide, .device = w->d.device);
  return f;
}

/* Some rows' scores, and of each row what it has: the logarithm of its sum, whether it counts (its class then, 0
 * otherwise), and its class's weight, 0 where it does not count. */
typedef struct part {
  cn_tensor *scores, *t, *lse, *keep, *safe, *w;
} part;

static void look_up(part *p, const terms *f)
{
  p->safe = cni_safe_target(cn_cast(p->t, CN_I64), f->ignore, &p->keep);
  p->w = cni_target_weights(f->weight, p->safe, p->keep, f->wide);
}

/* The loss of each row: nll (N) is that without weights and smoothing. */
static cn_tensor *row_losses(const part *p, const terms *f, cn_tensor *nll)
{
  cn_tensor *loss = cn_mul(nll, p->w);
  if (!(f->smoothing > 0)) return loss;
  cn_scope *s = cn_scope_begin();
  cn_tensor *all = f->weight ? cn_mul(p->scores, f->weight) : p->scores;
  all = cn_scope_return(s, cn_sum(all, .dim = CN_INTS(1), .dtype = f->wide));
  cn_tensor *even = cn_mul(cn_sub(cn_mul(p->lse, f->total), all), cn_num(f->even));
  return cn_add(cn_mul(loss, cn_num(1 - f->smoothing)), cn_where(p->keep, even, cn_int(0)));
}

/* The gradient of their scores, where each row's loss counts so much: (1 - smoothing) w[t] (p - [t]) + even (total p -
 * w), of which what is a multiple of p - [t] comes first. */
static cn_tensor *scores_gradient(const part *p, const terms *f, cn_tensor *each)
{
  cn_dtype low = cn_dtype_of(p->scores);
  cn_tensor *counts = each ? cn_where(p->keep, each, cn_int(0)) : cn_cast(p->keep, f->wide);
  if (!(f->smoothing > 0))
    return cn_cross_entropy_rows_grad(cn_mul(counts, p->w), p->scores, p->t, p->lse, f->ignore, "none");
  cn_tensor *even = cn_mul(counts, cn_mul(f->total, cn_num(f->even)));
  cn_tensor *factor = cn_add(cn_mul(cn_mul(counts, p->w), cn_num(1 - f->smoothing)), even);
  cn_tensor *ds = cn_cross_entropy_rows_grad(factor, p->scores, p->t, p->lse, f->ignore, "none");
  cn_tensor *column = cn_cast(cn_unsqueeze(counts, 1), low);
  cn_scatter_add_(ds, 1, cn_unsqueeze(p->safe, 1), cn_cast(cn_unsqueeze(even, 1), low));
  if (f->weight) return cn_addcmul_(ds, column, cn_cast(f->weight, low), .value = -f->even);
  return cn_sub_(ds, column, .alpha = f->even);
}

/* Has each row that counts the same share of a sum? */
static bool is_plain(const cn_call *c)
{
  bool sums = !cni_arg_is(c->args, REDUCTION, "none");
  return sums && !c->in[WEIGHT] && !c->in[EACH] && cni_arg_float(c->args, SMOOTHING) == 0;
}

/* Rows [first, last): adds their losses up, or writes them where each row has one. Their gradient, if it is wanted. */
static cn_tensor *part_losses(cn_call *c, const terms *f, part *p, cn_tensor *loss, int64_t first, int64_t last,
                              bool wanted)
{
  cn_tensor *some = NULL, *each = NULL;
  if (is_plain(c)) {
    cn_cross_entropy_rows(&some, &p->lse, p->scores, p->t, f->ignore, "sum", .wide = true);
    cn_add_(loss, some);
    if (!wanted) return NULL;
    return cn_cross_entropy_rows_grad(cn_ones_like(some), p->scores, p->t, p->lse, f->ignore, "sum");
  }
  cn_cross_entropy_rows(&some, &p->lse, p->scores, p->t, f->ignore, "none", .wide = true);
  look_up(p, f);
  some = row_losses(p, f, some);
  if (c->in[EACH]) some = cn_mul(some, each = cn_cast(cn_slice(c->in[EACH], 0, first, last), f->wide));
  if (cn_ndim(loss)) cn_copy_(cn_slice(loss, 0, first, last), some);
  else cn_add_(loss, cn_sum(some));
  return wanted ? scores_gradient(p, f, each) : NULL;
}

/* Rows [first, last): their losses, and the gradients of these losses' sum. */
static int add_part(cn_call *c, const terms *f, cn_tensor *loss, cn_tensor *const *g, int64_t first, int64_t last)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_slice(c->in[X], 0, first, last);
  part p = {.scores = cn_linear(x, c->in[W], c->in[BIAS]), .t = cn_slice(c->in[TARGET], 0, first, last)};
  cn_tensor *ds = part_losses(c, f, &p, loss, first, last, g[DX] || g[DW] || g[DB]);
  if (ds) {
    if (g[DX]) cn_copy_(cn_slice(g[DX], 0, first, last), cn_mm(ds, c->in[W]));
    if (g[DW]) add_product(g[DW], ds, x);
    if (g[DB]) cn_add_(g[DB], cn_sum(cn_cast(ds, cn_dtype_of(g[DB])), .dim = CN_INTS(0)));
  }
  cn_scope_end(s);
  return cn_err();
}

/* What 'mean' multiplies a sum by: one over the weights of all targets. *of_gradient: what it multiplies the gradient
 * by, 0 where no row counts: there the loss is NaN, but nothing depends on it. */
static cn_tensor *share_of(cn_call *c, const terms *f, cn_tensor **of_gradient)
{
  if (!cni_arg_is(c->args, REDUCTION, "mean"))
    return *of_gradient = cn_ones(CN_SCALAR_SHAPE, .dtype = f->wide, .device = c->device);
  cn_tensor *keep, *safe = cni_safe_target(c->in[TARGET], f->ignore, &keep);
  cn_tensor *share = cn_reciprocal(cn_sum(cni_target_weights(f->weight, safe, keep, f->wide)));
  *of_gradient = cn_where(cn_any(keep), share, cn_int(0));
  return share;
}

static int part_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[X]->d;
  terms f = terms_of(c->in[W], c->in[WEIGHT], c->args);
  cn_dtype wide = f.wide;
  cn_tensor *g[SHARE] = {NULL}, *nothing = cn_empty(CN_SHAPE(0), .dtype = wide, .device = c->device);
  bool none = cni_arg_is(c->args, REDUCTION, "none");
  cn_tensor *loss = cn_zeros(x->shape, none, .dtype = wide, .device = c->device);
  if (asked_for(c->args, 0)) g[DX] = cn_empty_like(c->in[X]);
  if (asked_for(c->args, 1)) g[DW] = cn_zeros_like(c->in[W], .dtype = wide);
  if (asked_for(c->args, 2)) g[DB] = cn_zeros(c->in[W]->d.shape, 1, .dtype = wide, .device = c->device);
  int64_t rows = cni_arg_int(c->args, ROWS);
  for (int64_t first = 0; first < x->shape[0] && !cn_err(); first += rows)
    add_part(c, &f, loss, g, first, first + rows < x->shape[0] ? first + rows : x->shape[0]);
  cn_tensor *share = share_of(c, &f, &c->out[SHARE]);
  c->out[LOSS] = none ? loss : cn_mul(loss, share);
  c->out[DX] = g[DX] ? g[DX] : cn_empty(CN_SHAPE(0), .dtype = (cn_dtype)x->dtype, .device = c->device);
  c->out[DW] = g[DW] ? g[DW] : nothing;
  c->out[DB] = g[DB] ? g[DB] : cn_clone(nothing);
  return cn_err();
}

/* With plain ops, for gradients of gradients. */
static int plain_vjp(cn_vjp *v)
{
  const terms f = terms_of(v->in[W], v->in[WEIGHT], v->args);
  part p = {.scores = cn_linear(v->in[X], v->in[W], v->in[BIAS]), .t = v->in[TARGET]};
  cn_cross_entropy_rows(NULL, &p.lse, p.scores, p.t, f.ignore, "none", .wide = true);
  look_up(&p, &f);
  cn_tensor *each = v->g[LOSS];
  if (cni_arg_is(v->args, REDUCTION, "mean")) each = cn_mul(each, v->out[SHARE]);
  if (v->in[EACH]) each = cn_mul(each, v->in[EACH]);
  cn_tensor *ds = scores_gradient(&p, &f, cn_expand(each, p.t->d.shape, 1));
  if (v->need[X]) v->gin[X] = cn_mm(ds, v->in[W]);
  if (v->need[W]) v->gin[W] = cn_mm(cn_t(ds), v->in[X]);
  if (v->need[BIAS]) v->gin[BIAS] = cn_sum(ds, .dim = CN_INTS(0));
  return cn_err();
}

/* Each row has a loss: now what it counts is known, and the gradients are those of a sum. */
static int rows_vjp(cn_vjp *v)
{
  const int64_t mask[] = {v->need[X], v->need[W], v->in[BIAS] && v->need[BIAS]};
  cn_tensor *each = v->in[EACH] ? cn_mul(v->g[LOSS], v->in[EACH]) : v->g[LOSS], *g[SHARE] = {NULL};
  cn_linear_cross_entropy_rows(NULL, &g[DX], &g[DW], &g[DB], NULL, v->in[X], v->in[W], v->in[TARGET], v->in[BIAS],
                               v->in[WEIGHT], each, cni_arg_int(v->args, IGNORE), "sum",
                               cni_arg_float(v->args, SMOOTHING), cni_arg_int(v->args, ROWS), mask, 3);
  if (mask[0]) v->gin[X] = g[DX];
  if (mask[1]) v->gin[W] = cn_cast(g[DW], (cn_dtype)v->in[W]->d.dtype);
  if (mask[2]) v->gin[BIAS] = cn_cast(g[DB], (cn_dtype)v->in[BIAS]->d.dtype);
  return cn_err();
}

static int part_vjp(cn_vjp *v)
{
  static const int from[] = {[X] = DX, [W] = DW, [BIAS] = DB};
  if (!v->g[LOSS]) return CN_OK;
  if (cni_recording()) return plain_vjp(v);
  if (cni_arg_is(v->args, REDUCTION, "none")) return rows_vjp(v);
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

/* Scores of (N, C), and classes; more than one part of them. Gradients do not flow to the classes' weights there. */
static bool in_parts(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d, *t = &c->in[2]->d;
  bool known = cni_arg_is(c->args, 5, "mean") || cni_arg_is(c->args, 5, "sum") || cni_arg_is(c->args, 5, "none");
  bool fixed = !c->in[4] || !(cn_grad_enabled() && cn_needs_grad(c->in[4]));
  return known && fixed && cni_dtype_is_int(t->dtype) && x->ndim == 2 && w->ndim == 2 && t->ndim == 1 &&
         x->shape[0] > PART;
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
  bool on = cn_grad_enabled() && !cni_arg_is(c->args, 5, "none");
  int64_t mask[] = {on && cn_needs_grad(c->in[0]), on && cn_needs_grad(c->in[1]), on && bias && cn_needs_grad(bias)};
  cn_tensor *loss = NULL, *weight = c->in[4] ? cn_cast(c->in[4], CN_F64) : NULL;
  cn_linear_cross_entropy_rows(&loss, NULL, NULL, NULL, NULL, c->in[0], c->in[1], c->in[2], bias, weight, NULL, ignore,
                               reduction, cni_arg_float(c->args, 7), PART, mask, 3);
  c->out[0] = loss;
  return cn_err();
}

#define READS (CN_IN(X) | CN_IN(W) | CN_IN(TARGET) | CN_IN(BIAS) | CN_IN(WEIGHT) | CN_IN(EACH))

/* clang-format off */
const cn_op cni_linear_cross_entropy_ops[] = {
  {.sig = "linear_cross_entropy_rows(Tensor input, Tensor linear_weight, Tensor target, Tensor? linear_bias, "
          "Tensor? weight, Tensor? each, int ignore_index, str reduction, float label_smoothing, int rows, "
          "int[] wanted) -> (Tensor loss, Tensor grad_input, Tensor grad_weight, Tensor grad_bias, Tensor share) "
          "; internal tuple amp_low",
   .doc = "linear_cross_entropy of input (N, n) and classes (N), some rows at a time, each row's loss times each (N), "
          "and the gradients of a 'sum' (those whose wanted is 0 come back empty) with what 'mean' multiplies them by. "
          "Classes' weights are float64. Gradients flow through loss only, to input, linear_weight and linear_bias.",
   .version = 2, .cost = cni_cost_linear_cross_entropy, .infer = part_infer, .vjp = part_vjp,
   .decompose = part_decompose,
   .needs = {[X] = READS | CN_OUT(DX) | CN_OUT(SHARE), [W] = READS | CN_OUT(DW) | CN_OUT(SHARE),
             [BIAS] = READS | CN_OUT(DB) | CN_OUT(SHARE)}},
  {.sig = "linear_cross_entropy(Tensor input, Tensor linear_weight, Tensor target, *, Tensor? linear_bias=None, "
          "Tensor? weight=None, str reduction='mean', int ignore_index=-100, float label_smoothing=0.0) -> Tensor "
          "; nn opt_linear_bias opt_weight",
   .doc = "cross_entropy of linear(input, linear_weight, linear_bias) with target. Of more than 4,096 rows whose "
          "targets are classes, scores are made and used up some rows at a time, gradients with them.",
   .flags = CN_OP_COMPOSITE, .decompose = linear_cross_entropy_decompose},
};
/* clang-format on */
CNI_FAMILY(linear_cross_entropy);
