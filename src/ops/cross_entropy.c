/* cross_entropy.c: the family of losses over classes: nll_loss, cross_entropy, and the fused pair that plain cross
 * entropy runs on: cross_entropy_rows and its gradient.
 *
 * Place in the flow: cross_entropy brings its input to rows of classes and calls the fused op; weights, smoothing and
 * probability targets are made of log_softmax and nll_loss. Invariants: an ignored row adds nothing to loss, count or
 * gradient, whatever its values; a class outside the range is an error. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "autocast.h"
#include "cost.h"
#include "families.h"
#include "loss.h"
#include "shorthand.h"

static bool is_reduction(const cn_value *args, int i)
{
  return cni_arg_is(args, i, "mean") || cni_arg_is(args, i, "sum") || cni_arg_is(args, i, "none");
}
static int bad_reduction(const cn_call *c, int i)
{
  return cn_call_fail(c, CN_ERR_VALUE, "reduction must be 'none', 'mean' or 'sum', not '%s'",
                      cni_arg_str(c->args, i));
}

/* ---- cross_entropy_rows(input, target, ignore_index, reduction, wide) ---- */

static int check_rows(const cn_call *c, const cn_desc *x, const cn_desc *target)
{
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (!cni_dtype_is_float(x->dtype) || !cni_dtype_computes(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "input must be floating point, not %s", cn_dtype_name((cn_dtype)x->dtype));
  if (!cni_dtype_is_int(target->dtype) || !cni_dtype_computes(target->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "class targets must be integers, not %s",
                        cn_dtype_name((cn_dtype)target->dtype));
  if (x->ndim != 2 || target->ndim != 1 || target->shape[0] != x->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "target of shape %s does not fit input of shape %s",
                        cni_shape_text(have, sizeof have, target->ndim, target->shape),
                        cni_shape_text(want, sizeof want, x->ndim, x->shape));
  return CN_OK;
}

static int rows_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int status = check_rows(c, x, &c->in[1]->d);
  if (status) return status;
  if (!is_reduction(c->args, 3)) return bad_reduction(c, 3);
  int loss = cni_arg_bool(c->args, 4) ? cni_wide_type(x->dtype) : x->dtype;
  status = cn_call_result(c, 0, loss, cni_arg_is(c->args, 3, "none"), x->shape);
  return status ? status : cn_call_result(c, 1, cni_wide_type(x->dtype), 1, x->shape);
}

/* exp(x - lse): x (N, C), lse (N) */
static cn_tensor *softmax_of(cn_tensor *x, cn_tensor *lse) { return cn_exp(cn_sub(x, cn_unsqueeze(lse, 1))); }

static int rows_vjp(cn_vjp *v)
{
  cn_tensor *x = v->in[0], *lse = v->out[1], *g = NULL;
  if (v->g[0])
    g = cn_cross_entropy_rows_grad(v->g[0], x, v->in[1], lse, cni_arg_int(v->args, 2), cni_arg_str(v->args, 3));
  if (v->g[1]) {
    cn_tensor *more = cn_mul(softmax_of(x, lse), cn_unsqueeze(v->g[1], 1));
    g = g ? cn_add(g, more) : more;
  }
  v->gin[0] = g;
  return cn_err();
}

/* ---- cross_entropy_rows_grad(grad, input, target, lse, ignore_index, reduction) ---- */

static int rows_grad_infer(cn_call *c)
{
  const cn_desc *x = &c->in[1]->d, *g = &c->in[0]->d, *lse = &c->in[3]->d;
  int status = check_rows(c, x, &c->in[2]->d);
  if (status) return status;
  if (!is_reduction(c->args, 5)) return bad_reduction(c, 5);
  bool none = cni_arg_is(c->args, 5, "none");
  if (g->ndim != none || (none && g->shape[0] != x->shape[0]) || lse->ndim != 1 || lse->shape[0] != x->shape[0])
    return cn_call_fail(c, CN_ERR_SHAPE, "grad or lse does not fit the rows of input");
  return cn_call_result(c, 0, x->dtype, 2, x->shape);
}

/* The op is s_i (p_ij - [j = t_i]) with p = exp(x - lse) and s the gradient's share of each row. */
static int rows_grad_vjp(cn_vjp *v)
{
  cn_tensor *g = v->in[0], *x = v->in[1], *target = v->in[2], *lse = v->in[3], *h = v->g[0];
  bool mean = cni_arg_is(v->args, 5, "mean"), none = cni_arg_is(v->args, 5, "none");
  cn_tensor *keep = cn_ne(target, cn_int(cni_arg_int(v->args, 4)));
  cn_tensor *share = cn_cast(keep, cn_dtype_of(lse));
  if (mean) share = cn_true_divide(share, cn_sum(share));
  cn_tensor *hp = cn_mul(h, softmax_of(x, lse)), *rows = cn_sum(hp, .dim = CN_INTS(1));
  cn_tensor *scale = cn_mul(share, g);
  if (v->need[0]) {
    cn_tensor *safe = cn_where(keep, target, cn_int(0));
    cn_tensor *hit = cn_squeeze(cn_gather(h, 1, cn_unsqueeze(safe, 1)), .dim = CN_INTS(1));
    cn_tensor *each = cn_mul(share, cn_sub(rows, hit));
    v->gin[0] = none ? each : cn_sum(each);
  }
  if (v->need[1]) v->gin[1] = cn_mul(hp, cn_unsqueeze(scale, 1));
  if (v->need[3]) v->gin[3] = cn_neg(cn_mul(rows, scale));
  return cn_err();
}

/* ---- nll_loss(input, target, weight, ignore_index, reduction) ---- */

/* w: NULL, or one number per class of input (N, C, ...) or (C). */
static int check_weight(const cn_call *c, const cn_desc *x, const cn_tensor *w)
{
  int64_t classes = x->shape[x->ndim > 1];
  if (!w || (w->d.ndim == 1 && w->d.shape[0] == classes)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "weight must be a vector of %lld classes", (long long)classes);
}

/* Checks input (N, C, ...) or (C) against target (N, ...) or (). */
static int check_classes(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *t = &c->in[1]->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  int class_dim = x->ndim > 1;
  bool fits = x->ndim >= 1 && t->ndim == x->ndim - 1;
  for (int i = 0; fits && i < t->ndim; i++) fits = t->shape[i] == x->shape[i + (i >= class_dim)];
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE, "target of shape %s does not fit input of shape %s",
                        cni_shape_text(have, sizeof have, t->ndim, t->shape),
                        cni_shape_text(want, sizeof want, x->ndim, x->shape));
  if (!cni_dtype_is_int(t->dtype) || !cni_dtype_computes(t->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "class targets must be integers, not %s", cn_dtype_name((cn_dtype)t->dtype));
  return check_weight(c, x, c->in[2]);
}

cn_tensor *cni_safe_target(cn_tensor *target, int64_t ignore, cn_tensor **keep)
{
  *keep = cn_ne(target, cn_int(ignore));
  return cn_where(*keep, target, cn_int(0));
}

cn_tensor *cni_target_weights(cn_tensor *w, cn_tensor *safe, cn_tensor *keep, cn_dtype dtype)
{
  if (!w) return cn_cast(keep, dtype);
  cn_tensor *each = cn_index_select(w, 0, cn_reshape(safe, CN_SHAPE(-1)));
  return cn_where(keep, cn_reshape(each, cn_shape(safe), (size_t)cn_ndim(safe)), cn_int(0));
}

static int nll_loss_decompose(cn_call *c)
{
  int status = check_classes(c);
  if (status) return status;
  if (!is_reduction(c->args, 4)) return bad_reduction(c, 4);
  cn_tensor *x = c->in[0], *keep, *safe = cni_safe_target(c->in[1], cni_arg_int(c->args, 3), &keep);
  int64_t dim = x->d.ndim > 1;
  cn_tensor *picked = cn_squeeze(cn_gather(x, dim, cn_unsqueeze(safe, dim)), .dim = CN_INTS(dim));
  cn_tensor *w = cni_target_weights(c->in[2], safe, keep, (cn_dtype)x->d.dtype);
  cn_tensor *terms = cn_where(keep, cn_neg(c->in[2] ? cn_mul(picked, w) : picked), cn_int(0));
  if (cni_arg_is(c->args, 4, "none")) c->out[0] = terms;
  else if (cni_arg_is(c->args, 4, "sum")) c->out[0] = cn_sum(terms);
  else c->out[0] = cn_true_divide(cn_sum(terms), cn_sum(w));
  return cn_err();
}

/* ---- cross_entropy(input, target, weight, ignore_index, reduction, label_smoothing) ---- */

/* Shape of something with one value per class, so that it broadcasts along dim 1 of x. */
static cn_tensor *along_classes(cn_tensor *w, const cn_desc *x)
{
  int64_t shape[CN_MAX_DIMS];
  if (!w || x->ndim < 2) return w;
  for (int i = 0; i < x->ndim - 1; i++) shape[i] = i ? 1 : w->d.shape[0];
  return cn_reshape(w, shape, (size_t)x->ndim - 1);
}

/* Targets that are probabilities of each class. */
static int soft_targets(cn_call *c, int64_t dim, double smoothing)
{
  cn_tensor *x = c->in[0], *t = c->in[1], *logp = cn_log_softmax(x, dim);
  int64_t classes = x->d.shape[dim];
  if (smoothing > 0) { /* t (1 - s) + s / classes, divided last so that t's type decides the precision */
    t = cn_mul(cn_mul(t, cn_num(1 - smoothing)), cn_int(classes));
    t = cn_true_divide(cn_add(t, cn_num(smoothing)), cn_int(classes));
  }
  cn_tensor *terms = cn_mul(logp, t);
  if (c->in[2]) terms = cn_mul(terms, along_classes(c->in[2], &x->d));
  if (cni_arg_is(c->args, 4, "none")) c->out[0] = cn_neg(cn_sum(terms, .dim = CN_INTS(dim)));
  else if (cni_arg_is(c->args, 4, "sum")) c->out[0] = cn_neg(cn_sum(terms));
  else c->out[0] = cn_neg(cn_true_divide(cn_sum(terms), cn_int(classes ? x->d.numel / classes : 0)));
  return cn_err();
}

/* Class targets with smoothing: (1 - s) of the usual loss, and s spread evenly over all classes. */
static int smoothed(cn_call *c, int64_t dim, double smoothing)
{
  cn_tensor *x = c->in[0], *weight = c->in[2], *logp = cn_log_softmax(x, dim), *keep;
  const char *reduction = cni_arg_str(c->args, 4);
  int64_t ignore = cni_arg_int(c->args, 3), classes = x->d.shape[dim];
  cn_tensor *hard = cn_nll_loss(logp, c->in[1], .weight = weight, .ignore_index = cni_option(ignore),
                                .reduction = reduction);
  cn_tensor *safe = cni_safe_target(c->in[1], ignore, &keep);
  cn_tensor *all = weight ? cn_mul(logp, along_classes(weight, &x->d)) : logp;
  cn_tensor *even = cn_where(keep, cn_neg(cn_sum(all, .dim = CN_INTS(dim))), cn_int(0));
  if (!cni_arg_is(c->args, 4, "none")) even = cn_sum(even);
  if (cni_arg_is(c->args, 4, "mean"))
    even = cn_true_divide(even, cn_sum(cni_target_weights(weight, safe, keep, (cn_dtype)x->d.dtype)));
  c->out[0] = cn_add(cn_mul(hard, cn_num(1 - smoothing)),
                     cn_true_divide(cn_mul(even, cn_num(smoothing)), cn_int(classes)));
  return cn_err();
}

/* Plain class targets: rows of classes through the fused op. Under autocast scores are read as they are, and the loss
 * is float32. */
static int plain(cn_call *c, int64_t dim)
{
  cn_tensor *x = c->in[0], *t = c->in[1], *loss = NULL;
  int64_t classes = x->d.shape[dim];
  const char *reduction = cni_arg_str(c->args, 4);
  if (x->d.ndim > 2) x = cn_movedim(x, CN_SHAPE(1), CN_SHAPE(-1));
  if (c->in[0]->d.ndim != 2) {
    int64_t rows = c->in[1]->d.numel;
    x = cn_reshape(x, CN_SHAPE(rows, classes));
    t = cn_reshape(t, CN_SHAPE(rows));
  }
  cn_cross_entropy_rows(&loss, NULL, x, t, cni_arg_int(c->args, 3), reduction, .wide = cni_autocast_on(c->device));
  if (c->in[0]->d.ndim != 2 && cni_arg_is(c->args, 4, "none"))
    loss = cn_reshape(loss, c->in[1]->d.shape, (size_t)c->in[1]->d.ndim);
  c->out[0] = loss;
  return cn_err();
}

static int cross_entropy_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *t = &c->in[1]->d;
  double smoothing = cni_arg_float(c->args, 5);
  bool soft = x->ndim && cni_same_shape(x->ndim, x->shape, t->ndim, t->shape);
  if (!is_reduction(c->args, 4)) return bad_reduction(c, 4);
  if (!(smoothing >= 0 && smoothing <= 1))
    return cn_call_fail(c, CN_ERR_VALUE, "label_smoothing must lie between 0 and 1, but is %g", smoothing);
  if (soft && !cni_dtype_is_float(t->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "a target of input's shape holds probabilities and must be floating point");
  if (soft && cni_arg_int(c->args, 3) >= 0)
    return cn_call_fail(c, CN_ERR_VALUE, "ignore_index is not for targets that are probabilities");
  int status = soft ? check_weight(c, x, c->in[2]) : check_classes(c);
  if (status) return status;
  if (soft) return soft_targets(c, x->ndim > 1, smoothing);
  if (smoothing > 0) return smoothed(c, x->ndim > 1, smoothing);
  if (!c->in[2]) return plain(c, x->ndim > 1);
  int64_t ignore = cni_arg_int(c->args, 3);
  c->out[0] = cn_nll_loss(cn_log_softmax(c->in[0], x->ndim > 1), c->in[1], .weight = c->in[2],
                          .ignore_index = cni_option(ignore), .reduction = cni_arg_str(c->args, 4));
  return cn_err();
}

/* clang-format off */
const cn_op cni_cross_entropy_ops[] = {
  {.sig = "cross_entropy_rows(Tensor input, Tensor target, int ignore_index, str reduction, bool wide=False) "
          "-> (Tensor loss, Tensor lse) ; internal grad_fn_NllLossBackward0",
   .doc = "Cross entropy of rows of class scores (N, C) with classes (N), and the logarithm of each row's sum of "
          "exponentials, which the gradient reads. What cross_entropy runs. wide: the loss of 16-bit scores is "
          "float32.",
   .cost = cni_cost_softmax, .infer = rows_infer, .vjp = rows_vjp, .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1)},
   .copied = CN_IN(0)},
  {.sig = "cross_entropy_rows_grad(Tensor grad, Tensor input, Tensor target, Tensor lse, int ignore_index, "
          "str reduction) -> Tensor ; internal",
   .doc = "The gradient of cross_entropy_rows with respect to input: (softmax(input) - one_hot(target)) times each "
          "row's share of grad.",
   .infer = rows_grad_infer, .vjp = rows_grad_vjp,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_IN(3), [1] = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_IN(3),
             [3] = CN_IN(0) | CN_IN(1) | CN_IN(2) | CN_IN(3)}},
  {.sig = "nll_loss(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, str reduction='mean') "
          "-> Tensor ; nn opt_weight amp_f32 grad_fn",
   .doc = "The negative of input (N, C, ...) at the class that target (N, ...) names, times its weight. 'mean' "
          "divides by the weights' sum; targets equal to ignore_index do not count.",
   .flags = CN_OP_COMPOSITE, .decompose = nll_loss_decompose},
  {.sig = "cross_entropy(Tensor input, Tensor target, Tensor? weight=None, int ignore_index=-100, "
          "str reduction='mean', float label_smoothing=0.0) -> Tensor ; nn opt_weight amp_f32_host "
          "grad_fn_NllLossBackward0",
   .doc = "nll_loss of log_softmax(input): input (N, C, ...) or (C) are scores; target (N, ...) or () are classes, "
          "or of input's shape probabilities. label_smoothing spreads that much of each target over all classes.",
   .flags = CN_OP_COMPOSITE, .decompose = cross_entropy_decompose},
};
/* clang-format on */
CNI_FAMILY(cross_entropy);
