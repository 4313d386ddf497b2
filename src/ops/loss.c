/* loss.c: the family of losses.
 *
 * A loss is its terms, one per element, and a reduction. The terms are pointwise programs, so that they cost one pass
 * over memory; class-index cross entropy without weights is one fused op with a fused gradient. Place in the flow:
 * rows of the table like any other. Invariant: what a reduction divides by is a count of the data, as PyTorch counts.
 */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "build.h"
#include "families.h"
#include "infer.h"
#include "loss.h"
#include "pointwise.h"

/* ---- terms ---- */

static int build_squared(cni_builder *b, int variant)
{
  (void)variant;
  int d = ROUNDED(SUB(IN0, IN1));
  return MUL(d, d);
}
static void grad_squared(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  g[0] = MUL(G, MUL(K(2), SUB(in[0], in[1])));
  g[1] = NEG(g[0]);
}
static cni_pointwise pw_squared = {CNI_FLT, 2, NULL, build_squared, grad_squared, {0}};

static int build_absolute(cni_builder *b, int variant) { return (void)variant, ABS(SUB(IN0, IN1)); }
static cni_pointwise pw_absolute = {CNI_FLT, 2, NULL, build_absolute, NULL, {0}};

/* d * d / (2 beta) up to beta, |d| - beta / 2 beyond */
static int build_smooth_l1(cni_builder *b, int variant)
{
  (void)variant;
  int d = SUB(IN0, IN1), z = ABS(d), half = MUL(K(0.5), ATTR(2));
  if (b->drop == 13) { /* PyTorch stores each step in float16, though not in bfloat16 */
    int beta = ROUNDED(ATTR(2)), near = ROUNDED(MUL(K(0.5), z = ROUNDED(z)));
    return WHERE(LT(z, beta), DIV(ROUNDED(MUL(near, z)), beta), SUB(z, ROUNDED(MUL(K(0.5), beta))));
  }
  return WHERE(LT(z, ATTR(2)), DIV(MUL(K(0.5), MUL(d, d)), ATTR(2)), SUB(z, half));
}
static void grad_smooth_l1(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int d = SUB(in[0], in[1]);
  g[0] = MUL(G, WHERE(LT(ABS(d), ATTR(2)), DIV(d, ATTR(2)), SIGN(d)));
  g[1] = NEG(g[0]);
}
static cni_pointwise pw_smooth_l1 = {CNI_FLT, 2, NULL, build_smooth_l1, grad_smooth_l1, {0}};

/* d * d / 2 up to delta, delta * (|d| - delta / 2) beyond */
static int build_huber(cni_builder *b, int variant)
{
  (void)variant;
  int d = SUB(IN0, IN1), z = ABS(d), half = MUL(K(0.5), ATTR(2));
  return WHERE(LE(z, ATTR(2)), MUL(K(0.5), MUL(d, d)), MUL(ATTR(2), SUB(z, half)));
}
static void grad_huber(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int d = SUB(in[0], in[1]);
  g[0] = MUL(G, MINIMUM(MAXIMUM(d, NEG(ATTR(2))), ATTR(2)));
  g[1] = NEG(g[0]);
}
static cni_pointwise pw_huber = {CNI_FLT, 2, NULL, build_huber, grad_huber, {0}};

/* -(t log x + (1 - t) log(1 - x)), each logarithm at least -100, so that a sure miss costs 100 and not infinity. */
static int build_bce(cni_builder *b, int variant)
{
  (void)variant;
  int hit = MAXIMUM(ROUNDED(LOG(IN0)), K(-100)), miss = MAXIMUM(ROUNDED(LOG1P(NEG(IN0))), K(-100));
  return SUB(ROUNDED(MUL(ROUNDED(SUB(IN1, K(1))), miss)), ROUNDED(MUL(IN1, hit)));
}
static void grad_bce(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int spread = MAXIMUM(MUL(SUB(K(1), in[0]), in[0]), K(1e-12));
  g[0] = MUL(G, DIV(SUB(in[0], in[1]), spread));
  g[1] = MUL(G, SUB(MAXIMUM(LOG1P(NEG(in[0])), K(-100)), MAXIMUM(LOG(in[0]), K(-100))));
}
static cni_pointwise pw_bce = {CNI_FLT, 2, NULL, build_bce, grad_bce, {0}};

/* (1 - t) x + log(1 + exp(-x)), written so that nothing overflows. */
static int build_bce_logits(cni_builder *b, int variant)
{
  (void)variant;
  int softplus = ROUNDED(ADD(LOG1P(EXP(NEG(ABS(IN0)))), MAXIMUM(NEG(IN0), K(0))));
  return ADD(ROUNDED(MUL(ROUNDED(SUB(K(1), IN1)), IN0)), softplus);
}
static void grad_bce_logits(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  g[0] = MUL(G, SUB(SIGMOID(in[0]), in[1]));
  g[1] = NEG(MUL(G, in[0]));
}
static cni_pointwise pw_bce_logits = {CNI_FLT, 2, NULL, build_bce_logits, grad_bce_logits, {0}};

/* With a weight w of the positive class: (1 - t) x + (1 + (w - 1) t) log(1 + exp(-x)). */
static int build_bce_weighted(cni_builder *b, int variant)
{
  (void)variant;
  int softplus = ROUNDED(ADD(LOG1P(EXP(NEG(ABS(IN0)))), MAXIMUM(NEG(IN0), K(0))));
  int factor = ROUNDED(ADD(K(1), ROUNDED(MUL(ROUNDED(SUB(IN2, K(1))), IN1))));
  return ADD(ROUNDED(MUL(ROUNDED(SUB(K(1), IN1)), IN0)), ROUNDED(MUL(factor, softplus)));
}
static void grad_bce_weighted(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int softplus = ADD(LOG1P(EXP(NEG(ABS(in[0])))), MAXIMUM(NEG(in[0]), K(0)));
  int factor = ADD(K(1), MUL(SUB(in[2], K(1)), in[1]));
  g[0] = MUL(G, SUB(SUB(K(1), in[1]), MUL(factor, SIGMOID(NEG(in[0])))));
  g[1] = MUL(G, SUB(MUL(SUB(in[2], K(1)), softplus), in[0]));
  g[2] = MUL(G, MUL(in[1], softplus));
}
static cni_pointwise pw_bce_weighted = {CNI_FLT, 3, NULL, build_bce_weighted, grad_bce_weighted, {0}};

/* t (log t - x), 0 where t is; with log_target t is a logarithm already: exp(t) (t - x). */
static int kl_variant(const cn_value *args) { return cni_arg_bool(args, 2) ? 1 : 0; }
static int build_kl(cni_builder *b, int log_target)
{
  if (log_target) return MUL(ROUNDED(EXP(IN1)), ROUNDED(SUB(IN1, IN0)));
  return SUB(WHERE(EQ(IN1, K(0)), K(0), ROUNDED(MUL(IN1, LOG(IN1)))), ROUNDED(MUL(IN1, IN0)));
}
static void grad_kl(cni_builder *b, int log_target, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)Y, (void)numbers;
  int p = log_target ? EXP(in[1]) : in[1];
  g[0] = NEG(MUL(G, p));
  if (log_target) g[1] = MUL(G, MUL(p, ADD(SUB(in[1], in[0]), K(1))));
  else g[1] = MUL(G, SUB(WHERE(EQ(p, K(0)), K(0), ADD(LOG(p), K(1))), in[0]));
}
static cni_pointwise pw_kl = {CNI_FLT, 2, kl_variant, build_kl, grad_kl, {0}};

/* ---- reductions ---- */

int cni_reduce_terms(cn_call *c, cn_tensor *terms, int parameter)
{
  if (cni_arg_is(c->args, parameter, "none")) c->out[0] = terms;
  else if (cni_arg_is(c->args, parameter, "mean")) c->out[0] = cn_mean(terms);
  else if (cni_arg_is(c->args, parameter, "sum")) c->out[0] = cn_sum(terms);
  else
    return cn_call_fail(c, CN_ERR_VALUE, "reduction must be 'none', 'mean' or 'sum', not '%s'",
                        cni_arg_str(c->args, parameter));
  return cn_err();
}

static int mse_loss_decompose(cn_call *c) { return cni_reduce_terms(c, cn_squared_difference(c->in[0], c->in[1]), 2); }
static int l1_loss_decompose(cn_call *c) { return cni_reduce_terms(c, cn_absolute_difference(c->in[0], c->in[1]), 2); }

/* smooth_l1_loss(input, target, reduction, beta) */
static int smooth_l1_loss_decompose(cn_call *c)
{
  double beta = cni_arg_float(c->args, 3);
  if (!(beta >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "beta must not be negative, but is %g", beta);
  cn_tensor *terms =
      beta > 0 ? cn_smooth_l1_terms(c->in[0], c->in[1], beta) : cn_absolute_difference(c->in[0], c->in[1]);
  return cni_reduce_terms(c, terms, 2);
}
/* huber_loss(input, target, reduction, delta) */
static int huber_loss_decompose(cn_call *c)
{
  double delta = cni_arg_float(c->args, 3);
  if (!(delta > 0)) return cn_call_fail(c, CN_ERR_VALUE, "delta must be positive, but is %g", delta);
  return cni_reduce_terms(c, cn_huber_terms(c->in[0], c->in[1], delta), 2);
}

int cni_check_target(const cn_call *c)
{
  const cn_desc *a = &c->in[0]->d, *b = &c->in[1]->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (cni_same_shape(a->ndim, a->shape, b->ndim, b->shape)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "target of shape %s must have input's shape %s",
                      cni_shape_text(have, sizeof have, b->ndim, b->shape),
                      cni_shape_text(want, sizeof want, a->ndim, a->shape));
}
/* binary_cross_entropy(input, target, weight, reduction) */
static int bce_decompose(cn_call *c)
{
  int status = cni_check_target(c);
  if (status) return status;
  cn_check_within(cn_detach(c->in[0]), 0, 1,
                  "binary_cross_entropy: input must be probabilities, between 0 and 1; other numbers are for "
                  "binary_cross_entropy_with_logits");
  cn_tensor *terms = cn_bce_terms(c->in[0], c->in[1]);
  if (c->in[2]) terms = cn_mul(terms, c->in[2]);
  return cni_reduce_terms(c, terms, 3);
}
/* binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight) */
static int bce_logits_decompose(cn_call *c)
{
  int status = cni_check_target(c);
  if (status) return status;
  cn_tensor *terms = c->in[3] ? cn_bce_logits_weighted_terms(c->in[0], c->in[1], c->in[3])
                              : cn_bce_logits_terms(c->in[0], c->in[1]);
  if (c->in[2]) terms = cn_mul(terms, c->in[2]);
  return cni_reduce_terms(c, terms, 3);
}
/* kl_div(input, target, reduction, log_target) */
static int kl_div_decompose(cn_call *c)
{
  cn_tensor *terms = cn_kl_terms(c->in[0], c->in[1], cni_arg_bool(c->args, 3));
  if (!cni_arg_is(c->args, 2, "batchmean")) return cni_reduce_terms(c, terms, 2);
  c->out[0] = cn_true_divide(cn_sum(terms), cn_int(c->in[0]->d.ndim ? c->in[0]->d.shape[0] : 1));
  return cn_err();
}

/* clang-format off */
const cn_op cni_loss_ops[] = {
  {.sig = "squared_difference(Tensor input, Tensor target) -> Tensor ; internal",
   .doc = "(input - target) squared: the terms of mse_loss.",
   PROGRAM(squared)},
  {.sig = "absolute_difference(Tensor input, Tensor target) -> Tensor ; internal",
   .doc = "|input - target|: the terms of l1_loss.",
   PROGRAM(absolute), .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "smooth_l1_terms(Tensor input, Tensor target, float beta) -> Tensor ; internal",
   .doc = "The terms of smooth_l1_loss; beta is positive.",
   PROGRAM(smooth_l1)},
  {.sig = "huber_terms(Tensor input, Tensor target, float delta) -> Tensor ; internal",
   .doc = "The terms of huber_loss.",
   PROGRAM(huber)},
  {.sig = "bce_terms(Tensor input, Tensor target) -> Tensor ; internal",
   .doc = "The terms of binary_cross_entropy.",
   PROGRAM(bce)},
  {.sig = "bce_logits_terms(Tensor input, Tensor target) -> Tensor ; internal",
   .doc = "The terms of binary_cross_entropy_with_logits.",
   PROGRAM(bce_logits)},
  {.sig = "bce_logits_weighted_terms(Tensor input, Tensor target, Tensor pos_weight) -> Tensor ; internal",
   .doc = "The terms of binary_cross_entropy_with_logits with a weight for the positive class.",
   PROGRAM(bce_weighted)},
  {.sig = "kl_terms(Tensor input, Tensor target, bool log_target) -> Tensor ; internal",
   .doc = "The terms of kl_div.",
   PROGRAM(kl), .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "mse_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor ; nn amp_f32 grad_fn",
   .doc = "Squared differences, averaged ('mean'), added up ('sum') or as they are ('none').",
   .flags = CN_OP_COMPOSITE, .decompose = mse_loss_decompose},
  {.sig = "l1_loss(Tensor input, Tensor target, str reduction='mean') -> Tensor ; nn amp_f32 complex",
   .doc = "Absolute differences, averaged ('mean'), added up ('sum') or as they are ('none').",
   .flags = CN_OP_COMPOSITE, .decompose = l1_loss_decompose},
  {.sig = "smooth_l1_loss(Tensor input, Tensor target, str reduction='mean', float beta=1.0) -> Tensor ; nn amp_f32 "
          "grad_fn",
   .doc = "Squared differences over 2 beta below beta, absolute ones less beta / 2 above; beta 0 is l1_loss.",
   .flags = CN_OP_COMPOSITE, .decompose = smooth_l1_loss_decompose},
  {.sig = "huber_loss(Tensor input, Tensor target, str reduction='mean', float delta=1.0) -> Tensor ; nn amp_f32 "
          "grad_fn",
   .doc = "Half the squared differences up to delta, delta times the absolute ones less delta / 2 beyond.",
   .flags = CN_OP_COMPOSITE, .decompose = huber_loss_decompose},
  {.sig = "binary_cross_entropy(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean') "
          "-> Tensor ; nn opt_weight amp_f32 grad_fn",
   .doc = "-(t log x + (1 - t) log(1 - x)) of probabilities x, each logarithm at least -100; weight multiplies the "
          "terms.",
   .flags = CN_OP_COMPOSITE, .decompose = bce_decompose},
  {.sig = "binary_cross_entropy_with_logits(Tensor input, Tensor target, Tensor? weight=None, str reduction='mean', "
          "Tensor? pos_weight=None) -> Tensor ; nn opt_weight opt_pos_weight amp_f32 grad_fn",
   .doc = "binary_cross_entropy of sigmoid(input), exact for large inputs; pos_weight multiplies the positive terms.",
   .flags = CN_OP_COMPOSITE, .decompose = bce_logits_decompose},
  {.sig = "kl_div(Tensor input, Tensor target, str reduction='mean', bool log_target=False) -> Tensor ; nn amp_f32",
   .doc = "target (log target - input) for log-probabilities input, or exp(target) (target - input) with log_target. "
          "'batchmean' divides the sum by the first size.",
   .flags = CN_OP_COMPOSITE, .decompose = kl_div_decompose},
};
/* clang-format on */
CNI_FAMILY(loss);
