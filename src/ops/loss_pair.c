/* loss_pair.c: the family of losses made of margins and likelihoods.
 *
 * As in loss.c, a loss is its terms, which are pointwise programs, and a reduction. Place in the flow: rows of the
 * table like any other. Invariant: what a reduction divides by is a count of the data, as PyTorch counts. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "build.h"
#include "families.h"
#include "loss.h"
#include "pointwise.h"
#include "shorthand.h"

/* The part of x above 0; at 0 no gradient passes. */
#define ABOVE(x) WHERE(LE(x, K(0)), K(0), x)

/* ---- terms ---- */

/* poisson_terms(input, target, log_input, full, eps) */
static int poisson_variant(const cn_value *args) { return cni_arg_bool(args, 2) + 2 * cni_arg_bool(args, 3); }
static int build_poisson(cni_builder *b, int variant)
{
  int plain = variant & 1 ? SUB(ROUNDED(EXP(IN0)), ROUNDED(MUL(IN1, IN0)))
                          : SUB(IN0, ROUNDED(MUL(IN1, ROUNDED(LOG(ROUNDED(ADD(IN0, ATTR(4))))))));
  if (!(variant & 2)) return plain;
  int t = IN1; /* Stirling's formula counts above 1 only. The gradient of a target 0 is NaN, as in PyTorch. */
  int root = ROUNDED(MUL(K(0.5), ROUNDED(LOG(ROUNDED(MUL(K(6.28318530717958647693), t))))));
  int stirling = ROUNDED(ADD(ROUNDED(SUB(ROUNDED(MUL(t, ROUNDED(LOG(t)))), t)), root));
  return ADD(ROUNDED(plain), WHERE(GT(IN1, K(1)), stirling, K(0)));
}
static cni_pointwise pw_poisson = {CNI_FLT, 2, poisson_variant, build_poisson, NULL, {0}};

/* gaussian_terms(input, target, var, full, eps). The variance counts at least eps, yet its gradient always flows. */
static int gaussian_variant(const cn_value *args) { return cni_arg_bool(args, 3) ? 1 : 0; }
static int build_gaussian(cni_builder *b, int full)
{
  int d = ROUNDED(SUB(IN0, IN1)), v = ROUNDED(MAXIMUM(IN2, ATTR(4)));
  int half = ROUNDED(MUL(K(0.5), ROUNDED(ADD(ROUNDED(LOG(v)), ROUNDED(DIV(ROUNDED(MUL(d, d)), v))))));
  return full ? ADD(half, K(0.918938533204672741780)) : half;
}
static void grad_gaussian(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int d = SUB(in[0], in[1]), v = MAXIMUM(in[2], ATTR(4)), r = DIV(d, v);
  g[0] = MUL(G, r);
  g[1] = NEG(g[0]);
  g[2] = MUL(G, MUL(K(0.5), SUB(DIV(K(1), v), MUL(r, r))));
}
static cni_pointwise pw_gaussian = {CNI_FLT, 3, gaussian_variant, build_gaussian, grad_gaussian, {0}};

/* hinge_terms(input, target, margin): input where the target is 1, what is left to the margin where it is -1 */
static int build_hinge(cni_builder *b, int variant)
{
  (void)variant;
  int left = ABOVE(ROUNDED(SUB(ROUNDED(ATTR(2)), IN0)));
  return ADD(WHERE(EQ(IN1, K(1)), K(0), left), WHERE(EQ(IN1, K(-1)), K(0), IN0));
}
static cni_pointwise pw_hinge = {CNI_FLT, 2, NULL, build_hinge, NULL, {0}};

/* ranking_terms(input1, input2, target, margin) */
static int build_ranking(cni_builder *b, int variant)
{
  (void)variant;
  int x = ADD(ROUNDED(MUL(NEG(IN2), ROUNDED(SUB(IN0, IN1)))), ATTR(3));
  return ABOVE(x);
}
static cni_pointwise pw_ranking = {CNI_FLT, 3, NULL, build_ranking, NULL, {0}};

/* log(1 + exp(-target * input)), written so that nothing overflows */
static int build_soft_margin(cni_builder *b, int variant)
{
  (void)variant;
  int z = NEG(MUL(IN0, IN1));
  return ADD(MAXIMUM(z, K(0)), LOG1P(EXP(NEG(ABS(z)))));
}
static void grad_soft_margin(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int slope = NEG(MUL(G, SIGMOID(NEG(MUL(in[0], in[1])))));
  g[0] = MUL(slope, in[1]);
  g[1] = MUL(slope, in[0]);
}
static cni_pointwise pw_soft_margin = {CNI_FLT, 2, NULL, build_soft_margin, grad_soft_margin, {0}};

/* margin_terms(input, other, margin): max(0, margin + input - other), the hinge of two scores */
static int build_margin(cni_builder *b, int variant)
{
  (void)variant;
  int x = ADD(ATTR(2), SUB(IN0, IN1));
  return ABOVE(x);
}
static cni_pointwise pw_margin = {CNI_FLT, 2, NULL, build_margin, NULL, {0}};

/* ---- reductions and checks ---- */

/* ---- losses ---- */

/* poisson_nll_loss(input, target, log_input, full, eps, reduction) */
static int poisson_decompose(cn_call *c)
{
  return cni_reduce_terms(c, cn_poisson_terms(c->in[0], c->in[1], cni_arg_bool(c->args, 2), cni_arg_bool(c->args, 3),
                                          cni_arg_float(c->args, 4)), 5);
}

/* Does var, with a 1 at its end or in one dim, stand for a tensor of this shape? */
static bool variance_fits(const cn_desc *x, const cn_desc *v)
{
  int ones = 0, others = 0;
  if (v->ndim != x->ndim) return false;
  for (int d = 0; d < x->ndim; d++)
    if (v->shape[d] != x->shape[d]) v->shape[d] == 1 ? ones++ : others++;
  return others == 0 && ones <= 1;
}
/* gaussian_nll_loss(input, target, var, full, eps, reduction) */
static int gaussian_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *v = &c->in[2]->d;
  double eps = cni_arg_float(c->args, 4);
  cn_tensor *var = c->in[2];
  if (v->ndim == x->ndim - 1 && cni_same_shape(x->ndim - 1, x->shape, v->ndim, v->shape)) var = cn_unsqueeze(var, -1);
  else if (!variance_fits(x, v))
    return cn_call_fail(c, CN_ERR_SHAPE, "var is of incorrect size: it needs input's shape, or 1 for its last size");
  return cni_reduce_terms(c, cn_gaussian_terms(c->in[0], c->in[1], var, cni_arg_bool(c->args, 3), eps), 5);
}

/* hinge_embedding_loss(input, target, margin, reduction) */
static int hinge_decompose(cn_call *c)
{
  return cni_reduce_terms(c, cn_hinge_terms(c->in[0], c->in[1], cni_arg_float(c->args, 2)), 3);
}

/* margin_ranking_loss(input1, input2, target, margin, reduction) */
static int ranking_decompose(cn_call *c)
{
  int n = c->in[0]->d.ndim;
  if (n != c->in[1]->d.ndim || n != c->in[2]->d.ndim)
    return cn_call_fail(c, CN_ERR_SHAPE, "all input tensors should have the same dimension, but have %d, %d and %d", n,
                        c->in[1]->d.ndim, c->in[2]->d.ndim);
  int dtype = cni_result_type(c, c->in, 3);
  double margin = cni_arg_float(c->args, 3);
  if (!dtype) return CN_ERR_DTYPE;
  if (cni_dtype_is_float(dtype)) return cni_reduce_terms(c, cn_ranking_terms(c->in[0], c->in[1], c->in[2], margin), 4);
  cn_tensor *against = cn_mul(cn_neg(c->in[2]), cn_sub(c->in[0], c->in[1])); /* in integers, which may wrap */
  return cni_reduce_terms(c, cn_clamp_min(cn_add(against, cn_num(margin)), cn_int(0)), 4);
}

/* cosine_embedding_loss(input1, input2, target, margin, reduction): target 1 asks for the same direction, -1 for
 * another; any other value counts for nothing */
static int cosine_embedding_decompose(cn_call *c)
{
  cn_tensor *a = c->in[0], *b = c->in[1], *t = c->in[2];
  int n = t->d.ndim;
  if (n > 1) return cn_call_fail(c, CN_ERR_SHAPE, "0D or 1D target tensor expected, multi-target not supported");
  if (a->d.ndim != n + 1 || b->d.ndim != n + 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "a %dD target tensor expects %dD input tensors, but found %dD and %dD", n,
                        n + 1, a->d.ndim, b->d.ndim);
  cn_tensor *dot = cn_sum(cn_mul(a, b), .dim = CN_INTS(n));
  cn_tensor *size1 = cn_add(cn_sum(cn_mul(a, a), .dim = CN_INTS(n)), cn_num(1e-12));
  cn_tensor *size2 = cn_add(cn_sum(cn_mul(b, b), .dim = CN_INTS(n)), cn_num(1e-12));
  cn_tensor *cosine = cn_true_divide(dot, cn_sqrt(cn_mul(size1, size2)));
  cn_tensor *other = cn_clamp_min(cn_sub(cosine, cn_num(cni_arg_float(c->args, 3))), cn_int(0));
  cn_tensor *same = cn_where(cn_eq(t, cn_int(1)), cn_sub(cn_int(1), cosine), cn_int(0));
  return cni_reduce_terms(c, cn_add(same, cn_where(cn_eq(t, cn_int(-1)), other, cn_int(0))), 4);
}

/* triplet_margin_loss(anchor, positive, negative, margin, p, eps, swap, reduction) */
static int triplet_decompose(cn_call *c)
{
  double margin = cni_arg_float(c->args, 3), p = cni_option_float(cni_arg_float(c->args, 4));
  double eps = cni_option_float(cni_arg_float(c->args, 5));
  int n = c->in[0]->d.ndim;
  if (!(margin > 0)) return cn_call_fail(c, CN_ERR_VALUE, "margin must be greater than 0, got %g", margin);
  if (n != c->in[1]->d.ndim || n != c->in[2]->d.ndim)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "the anchor, positive, and negative tensors are expected to have the same number of "
                        "dimensions, but got: anchor %dD, positive %dD, and negative %dD inputs",
                        n, c->in[1]->d.ndim, c->in[2]->d.ndim);
  cn_tensor *near = cn_pairwise_distance(c->in[0], c->in[1], .p = p, .eps = eps);
  cn_tensor *far = cn_pairwise_distance(c->in[0], c->in[2], .p = p, .eps = eps);
  if (cni_arg_bool(c->args, 6)) far = cn_minimum(far, cn_pairwise_distance(c->in[1], c->in[2], .p = p, .eps = eps));
  return cni_reduce_terms(c, cn_margin_terms(near, far, margin), 7);
}

/* terms: (N, C), the classes of each row: their mean is the row's loss, which a vector as input has one of. */
static int reduce_rows(cn_call *c, cn_tensor *terms, int parameter)
{
  if (!terms) return cn_err();
  cn_tensor *rows = cn_true_divide(cn_sum(terms, .dim = CN_INTS(1)), cn_int(terms->d.shape[1]));
  return cni_reduce_terms(c, c->in[0]->d.ndim == 2 ? rows : cn_reshape(rows, NULL, 0), parameter);
}
/* Input of (N, C) or (C), with a target for each row: checks, and gives input and target as (N, C) and (N, 1). */
static int class_rows(const cn_call *c, cn_tensor **x, cn_tensor **target)
{
  const cn_desc *d = &c->in[0]->d, *t = &c->in[1]->d;
  int64_t rows = d->ndim == 2 ? d->shape[0] : 1;
  if (d->ndim > 2 || (d->ndim > 0 && d->shape[d->ndim - 1] == 0))
    return cn_call_fail(c, CN_ERR_SHAPE, "expected non-empty vector or matrix with optional 0-dim batch size");
  if (t->ndim > 1 || t->numel != rows)
    return cn_call_fail(c, CN_ERR_SHAPE, "inconsistent target size, expected %lld but got %lld elements",
                        (long long)rows, (long long)t->numel);
  *x = cn_reshape(c->in[0], CN_SHAPE(rows, d->ndim ? d->shape[d->ndim - 1] : 1));
  *target = cn_reshape(c->in[1], CN_SHAPE(rows, 1));
  return CN_OK;
}
/* multi_margin_loss(input, target, p, margin, weight, reduction): the mean over classes of
 * max(0, margin - x[target] + x[i])^p, without the target itself */
static int multi_margin_decompose(cn_call *c)
{
  cn_tensor *x = NULL, *target = NULL;
  double p = cni_arg_float(c->args, 2);
  if (p != 1 && p != 2) return cn_call_fail(c, CN_ERR_VALUE, "p must be 1 or 2, but is %g", p);
  if (c->in[1]->d.dtype != CN_I64)
    return cn_call_fail(c, CN_ERR_DTYPE, "target must be int64, not %s", cn_dtype_name((cn_dtype)c->in[1]->d.dtype));
  int status = class_rows(c, &x, &target);
  if (status) return status;
  int64_t classes = x ? x->d.shape[1] : 1;
  if (c->in[2] && (c->in[2]->d.ndim != 1 || c->in[2]->d.shape[0] != classes))
    return cn_call_fail(c, CN_ERR_SHAPE, "inconsistent weight size, expected %lld", (long long)classes);
  cn_tensor *terms = cn_margin_terms(x, cn_gather(x, 1, target), cni_arg_float(c->args, 3));
  if (p == 2) terms = cn_mul(terms, terms);
  if (c->in[2]) terms = cn_mul(terms, cn_reshape(cn_index_select(c->in[2], 0, cn_flatten(target)), CN_SHAPE(-1, 1)));
  cn_tensor *classes_of = cn_arange(0, (double)classes, .dtype = CN_I64, .device = c->in[0]->d.device);
  terms = cn_where(cn_eq(classes_of, target), cn_int(0), terms);
  return reduce_rows(c, terms, 5);
}

/* multilabel_margin_loss(input, target, reduction): target lists classes up to the first -1. The mean over classes of
 * max(0, 1 - x[target] + x[i]) for each target and each i that is none. */
static int multilabel_margin_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int status = cni_check_target(c);
  if (status) return status;
  if (c->in[1]->d.dtype != CN_I64)
    return cn_call_fail(c, CN_ERR_DTYPE, "target must be int64, not %s", cn_dtype_name((cn_dtype)c->in[1]->d.dtype));
  if (d->ndim > 2 || (d->ndim > 0 && d->shape[d->ndim - 1] == 0))
    return cn_call_fail(c, CN_ERR_SHAPE, "expected non-empty vector or matrix with optional 0-dim batch size");
  int64_t rows = d->ndim == 2 ? d->shape[0] : 1, classes = d->ndim ? d->shape[d->ndim - 1] : 1;
  cn_tensor *x = cn_reshape(c->in[0], CN_SHAPE(rows, classes)), *t = cn_reshape(c->in[1], CN_SHAPE(rows, classes));
  cn_tensor *counts = cn_cumprod(cn_cast(cn_ge(t, cn_int(0)), CN_I64), 1); /* 1 before the first -1 */
  cn_tensor *at = cn_mul(t, counts);
  cn_tensor *hits = cn_scatter_add(cn_zeros_like(counts), 1, at, counts);
  cn_tensor *wanted = cn_unsqueeze(cn_ne(counts, cn_int(0)), 2), *others = cn_unsqueeze(cn_eq(hits, cn_int(0)), 1);
  cn_tensor *terms = cn_margin_terms(cn_unsqueeze(x, 1), cn_unsqueeze(cn_gather(x, 1, at), 2), 1.0); /* (N, C, C) */
  terms = cn_where(cn_logical_and(wanted, others), terms, cn_int(0));
  return reduce_rows(c, cn_sum(terms, .dim = CN_INTS(1)), 2);
}

/* multilabel_soft_margin_loss(input, target, weight, reduction) */
static int multilabel_soft_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  cn_tensor *x = c->in[0], *t = c->in[1];
  cn_tensor *hit = cn_mul(t, cn_logsigmoid(x)), *miss = cn_mul(cn_sub(cn_int(1), t), cn_logsigmoid(cn_neg(x)));
  cn_tensor *terms = cn_neg(cn_add(hit, miss));
  if (c->in[2]) terms = cn_mul(terms, c->in[2]);
  int64_t classes = d->ndim ? d->shape[d->ndim - 1] : 1;
  return cni_reduce_terms(c, cn_true_divide(cn_sum(terms, .dim = CN_INTS(-1)), cn_int(classes)), 3);
}

/* soft_margin_loss(input, target, reduction) */
static int soft_margin_decompose(cn_call *c)
{
  return cni_reduce_terms(c, cn_soft_margin_terms(c->in[0], c->in[1]), 2);
}

/* clang-format off */
const cn_op cni_loss_pair_ops[] = {
  {.sig = "poisson_terms(Tensor input, Tensor target, bool log_input, bool full, float eps) -> Tensor ; internal",
   .doc = "The terms of poisson_nll_loss.",
   PROGRAM(poisson), .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "poisson_nll_loss(Tensor input, Tensor target, bool log_input=True, bool full=False, float eps=1e-08, "
          "str reduction='mean') -> Tensor ; nn amp_f32",
   .doc = "exp(input) - target input, or input - target log(input + eps) without log_input; full adds Stirling's "
          "approximation of log(target!) for targets above 1.",
   .flags = CN_OP_COMPOSITE, .decompose = poisson_decompose},
  {.sig = "gaussian_terms(Tensor input, Tensor target, Tensor var, bool full, float eps) -> Tensor ; internal",
   .doc = "The terms of gaussian_nll_loss.",
   PROGRAM(gaussian), .copied = CN_IN(0) | CN_IN(1) | CN_IN(2)},
  {.sig = "gaussian_nll_loss(Tensor input, Tensor target, Tensor var, bool full=False, float eps=1e-06, "
          "str reduction='mean') -> Tensor ; nn",
   .doc = "(log var + (input - target)^2 / var) / 2, var at least eps; full adds log(2 pi) / 2.",
   .flags = CN_OP_COMPOSITE, .decompose = gaussian_decompose},
  {.sig = "hinge_terms(Tensor input, Tensor target, float margin) -> Tensor ; internal",
   .doc = "The terms of hinge_embedding_loss.",
   PROGRAM(hinge), .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "hinge_embedding_loss(Tensor input, Tensor target, float margin=1.0, str reduction='mean') -> Tensor "
          "; nn amp_f32",
   .doc = "input where target is 1, max(0, margin - input) where it is -1.",
   .flags = CN_OP_COMPOSITE, .decompose = hinge_decompose},
  {.sig = "ranking_terms(Tensor input1, Tensor input2, Tensor target, float margin) -> Tensor ; internal",
   .doc = "The terms of margin_ranking_loss.",
   PROGRAM(ranking), .copied = CN_IN(0) | CN_IN(1) | CN_IN(2)},
  {.sig = "margin_ranking_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, str reduction='mean') "
          "-> Tensor ; nn amp_f32",
   .doc = "max(0, margin - target (input1 - input2)).",
   .flags = CN_OP_COMPOSITE, .decompose = ranking_decompose},
  {.sig = "cosine_embedding_loss(Tensor input1, Tensor input2, Tensor target, float margin=0.0, "
          "str reduction='mean') -> Tensor ; nn amp_f32",
   .doc = "1 - cos(input1, input2) where target is 1, max(0, cos - margin) where it is -1.",
   .flags = CN_OP_COMPOSITE, .decompose = cosine_embedding_decompose},
  {.sig = "margin_terms(Tensor input, Tensor other, float margin) -> Tensor ; internal",
   .doc = "max(0, margin + input - other).",
   PROGRAM(margin)},
  {.sig = "triplet_margin_loss(Tensor anchor, Tensor positive, Tensor negative, float margin=1.0, float p=2.0, "
          "float eps=1e-06, bool swap=False, str reduction='mean') -> Tensor ; nn amp_f32 complex",
   .doc = "max(0, margin + distance of anchor and positive - distance of anchor and negative); with swap the lesser of "
          "the negative's distances from both counts.",
   .flags = CN_OP_COMPOSITE, .decompose = triplet_decompose},
  {.sig = "multi_margin_loss(Tensor input, Tensor target, Scalar p=1, Scalar margin=1, Tensor? weight=None, "
          "str reduction='mean') -> Tensor ; nn opt_weight amp_f32 grad_fn",
   .doc = "The mean over classes i, the target left out of the sum, of max(0, margin - x[target] + x[i])^p, times the "
          "target's weight.",
   .flags = CN_OP_COMPOSITE, .decompose = multi_margin_decompose},
  {.sig = "multilabel_margin_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor ; nn amp_f32 grad_fn",
   .doc = "The sum over targets t (up to the first -1) and classes i that are none of max(0, 1 - x[t] + x[i]), divided "
          "by the number of classes.",
   .flags = CN_OP_COMPOSITE, .decompose = multilabel_margin_decompose},
  {.sig = "multilabel_soft_margin_loss(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean') "
          "-> Tensor ; nn opt_weight",
   .doc = "binary_cross_entropy_with_logits, averaged over the last dimension first.",
   .flags = CN_OP_COMPOSITE, .decompose = multilabel_soft_decompose},
  {.sig = "soft_margin_terms(Tensor input, Tensor target) -> Tensor ; internal",
   .doc = "The terms of soft_margin_loss.",
   PROGRAM(soft_margin)},
  {.sig = "soft_margin_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor ; nn amp_f32 grad_fn",
   .doc = "log(1 + exp(-target input)).",
   .flags = CN_OP_COMPOSITE, .decompose = soft_margin_decompose},
};
/* clang-format on */
CNI_FAMILY(loss_pair);
