/* activation.c: the family of activations beyond programs.c.
 *
 * Place in the flow: rows of the table like any other. Invariant: an activation costs one pass over memory; those that
 * are composites choose the arguments of one program. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "build.h"
#include "families.h"
#include "pointwise.h"
#include "shorthand.h"

/* FORMULA with its gradient, an expression over G and the input X */
#define ACTIVATION(name, kind, formula, gradient) \
  static int build_##name(cni_builder *b, int variant) { return (void)variant, (formula); } \
  static void grad_##name(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g) \
  { \
    const int X = in[0]; \
    (void)variant, (void)Y, (void)numbers; \
    g[0] = (gradient); \
  } \
  static cni_pointwise pw_##name = {CNI_##kind, 1, NULL, build_##name, grad_##name, {0}};

/* ---- programs ---- */

#define WITHIN(x) LOGICAL_AND(GE(x, NEG(ATTR(1))), LE(x, ATTR(1))) /* +-lambd */
#define BEYOND(x) LOGICAL_OR(LT(x, NEG(ATTR(1))), GT(x, ATTR(1)))
ACTIVATION(hardshrink, FLT, WHERE(WITHIN(IN0), K(0), IN0), WHERE(BEYOND(X), G, K(0)))
ACTIVATION(softshrink, FLT,
           WHERE(GT(IN0, ROUNDED(ATTR(1))), SUB(IN0, ROUNDED(ATTR(1))),
                 WHERE(LT(IN0, NEG(ROUNDED(ATTR(1)))), ADD(IN0, ROUNDED(ATTR(1))), WHERE(ISNAN(IN0), IN0, K(0)))),
           WHERE(BEYOND(X), G, K(0)))
ACTIVATION(threshold, SGN, WHERE(LE(IN0, ATTR(1)), ATTR(2), IN0), WHERE(LE(X, ATTR(1)), K(0), G))
ACTIVATION(softsign, FLT, DIV(IN0, ROUNDED(ADD(K(1), ABS(IN0)))),
           DIV(G, MUL(ADD(K(1), ABS(X)), ADD(K(1), ABS(X)))))
ACTIVATION(tanhshrink, FLT, SUB(IN0, ROUNDED(TANH(IN0))), MUL(G, MUL(TANH(X), TANH(X))))
FORMULA(prelu, FLT, 2, OP2(leaky, IN0, IN1))
FORMULA(glu, FLT, 2, MUL(IN0, SIGMOID(IN1)))

static int softshrink_infer(cn_call *c)
{
  double lambd = cni_arg_float(c->args, 1);
  if (!(lambd >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "lambd must be at least 0, but is %g", lambd);
  return cni_pointwise_infer(c);
}

/* ---- composites ---- */

/* prelu(input, weight): one slope, or one for each channel (dim 1) */
static int prelu_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d;
  int64_t shape[CN_MAX_DIMS];
  if (x->dtype != w->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "weight is %s, but must have input's type %s",
                        cn_dtype_name((cn_dtype)w->dtype), cn_dtype_name((cn_dtype)x->dtype));
  if (w->ndim > 1) return cn_call_fail(c, CN_ERR_SHAPE, "weight must have at most 1 dim, not %d", w->ndim);
  if (w->numel != 1) {
    int64_t channels = x->ndim > 1 ? x->shape[1] : 1;
    if (x->ndim == 0)
      return cn_call_fail(c, CN_ERR_SHAPE, "a 0-d input takes one weight, not %lld", (long long)w->numel);
    if (channels != w->numel)
      return cn_call_fail(c, CN_ERR_SHAPE, "input has %lld channels, but there are %lld weights", (long long)channels,
                          (long long)w->numel);
  }
  for (int d = 0; d < x->ndim; d++) shape[d] = 1;
  if (x->ndim > 1) shape[1] = w->numel;
  c->out[0] = cn_prelu_terms(c->in[0], w->ndim == 0 ? c->in[1] : cn_reshape(c->in[1], shape, (size_t)x->ndim));
  return cn_err();
}

/* glu(input, dim) */
static int glu_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t dim = cni_arg_int(c->args, 1), at = dim < 0 ? dim + x->ndim : dim;
  if (x->ndim == 0) return cn_call_fail(c, CN_ERR_SHAPE, "does not take 0-d tensors, which have nothing to halve");
  if (at < 0 || at >= x->ndim)
    return cn_call_fail(c, CN_ERR_INDEX, "dim %lld is not among %d dims", (long long)dim, x->ndim);
  if (x->shape[at] % 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "the size of dim %lld must be even, but is %lld", (long long)dim,
                        (long long)x->shape[at]);
  int64_t half = x->shape[at] / 2;
  c->out[0] = cn_glu_terms(cn_narrow(c->in[0], at, 0, half), cn_narrow(c->in[0], at, half, half));
  return cn_err();
}

/* celu(input, alpha) */
static int celu_decompose(cn_call *c)
{
  double alpha = cni_arg_float(c->args, 1);
  if (alpha == 0) return cn_call_fail(c, CN_ERR_VALUE, "alpha cannot be 0");
  c->out[0] = cn_elu(c->in[0], .alpha = alpha, .input_scale = 1 / alpha);
  return cn_err();
}
static int selu_decompose(cn_call *c)
{
  c->out[0] = cn_elu(c->in[0], .alpha = 1.6732632423543772848, .scale = 1.0507009873554804934);
  return cn_err();
}

/* rrelu(input, lower, upper, training) */
static int rrelu_decompose(cn_call *c)
{
  double lower = cni_arg_float(c->args, 1), upper = cni_arg_float(c->args, 2);
  if (!(lower <= upper))
    return cn_call_fail(c, CN_ERR_VALUE, "lower must not be above upper, but they are %g and %g", lower, upper);
  if (cni_arg_bool(c->args, 3)) {
    cn_tensor *slope = cn_add(cn_mul(cn_rand_like(cn_detach(c->in[0])), cn_num(upper - lower)), cn_num(lower));
    c->out[0] = cn_prelu_terms(c->in[0], slope);
  } else {
    c->out[0] = cn_leaky_relu(c->in[0], .negative_slope = cni_option_float((lower + upper) / 2));
  }
  return cn_err();
}

/* clang-format off */
const cn_op cni_activation_ops[] = {
  {.sig = "hardshrink(Tensor input, Scalar lambd=0.5) -> Tensor ; method nn inplace",
   .doc = "0 within +-lambd, x elsewhere.",
   PROGRAM(hardshrink)},
  {.sig = "softshrink(Tensor input, float lambd=0.5) -> Tensor ; nn inplace",
   .doc = "x moved towards 0 by lambd, and 0 within +-lambd.",
   CHECKED_PROGRAM(softshrink, softshrink_infer)},
  {.sig = "threshold(Tensor input, Scalar threshold, Scalar value) -> Tensor ; nn inplace",
   .doc = "x where above threshold, value elsewhere.",
   PROGRAM(threshold)},
  {.sig = "softsign(Tensor input) -> Tensor ; nn grad_fn_DivBackward0",
   .doc = "x / (1 + |x|).",
   PROGRAM(softsign)},
  {.sig = "tanhshrink(Tensor input) -> Tensor ; nn",
   .doc = "x - tanh(x).",
   PROGRAM(tanhshrink), .copied = CN_IN(0)},
  {.sig = "prelu_terms(Tensor input, Tensor weight) -> Tensor ; internal grad_fn_PreluKernelBackward0",
   .doc = "x where positive, weight * x elsewhere, broadcast. What prelu runs.",
   PROGRAM(prelu)},
  {.sig = "prelu(Tensor input, Tensor weight) -> Tensor ; method nn amp_low",
   .doc = "x where positive, weight * x elsewhere; weight is one number or one for each channel (dim 1).",
   .flags = CN_OP_COMPOSITE, .decompose = prelu_decompose},
  {.sig = "glu_terms(Tensor input, Tensor gate) -> Tensor ; internal grad_fn_GluBackward0",
   .doc = "input * sigmoid(gate). What glu runs.",
   PROGRAM(glu)},
  {.sig = "glu(Tensor input, int dim=-1) -> Tensor ; nn",
   .doc = "The first half along dim times sigmoid of the second.",
   .flags = CN_OP_COMPOSITE, .decompose = glu_decompose},
  {.sig = "celu(Tensor input, float alpha=1.0) -> Tensor ; nn inplace",
   .doc = "x where positive, alpha (exp(x / alpha) - 1) elsewhere.",
   .flags = CN_OP_COMPOSITE, .decompose = celu_decompose},
  {.sig = "selu(Tensor input) -> Tensor ; nn inplace",
   .doc = "elu with the alpha and scale that keep mean 0 and variance 1.",
   .flags = CN_OP_COMPOSITE, .decompose = selu_decompose},
  {.sig = "rrelu(Tensor input, float lower=0.125, float upper=0.3333333333333333, bool training=False) "
          "-> Tensor ; nn inplace",
   .doc = "x where positive, elsewhere x times a slope drawn from [lower, upper) for each element; outside training "
          "their mean.",
   .flags = CN_OP_COMPOSITE, .decompose = rrelu_decompose},
};
/* clang-format on */
CNI_FAMILY(activation);
