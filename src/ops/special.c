/* special.c: the family of special functions: Bessel, gamma and normal distribution functions.
 *
 * Place in the flow: rows of the table like any other; each is one primitive of pointwise.def, whose maths lies in
 * base/maths_*.h. Invariant: a gradient that is not known is an error, never a zero. */
#include <cairn/kw.h>

#include "base/maths.h"
#include "build.h"
#include "families.h"
#include "pointwise.h"
#include "shorthand.h"
#include "table.h"

#define RULED_PROGRAM(name, infer_rule, vjp_rule) \
  .flags = CN_OP_ALIAS_SAFE, .infer = infer_rule, .vjp = vjp_rule, .pointwise = &pw_##name
/* Degrees n are cut to integers; those below 0 give 0. */
#define POLYNOMIAL_ROW(name) \
  RULED_PROGRAM(name, cni_pointwise_infer, first_vjp), .needs = {[0] = CN_IN(0) | CN_IN(1)}
#define BOTH .needs = {[1] = CN_IN(0) | CN_IN(1)}

FORMULA(i0e, FLT, 1, BESSEL_I0E(IN0))
FORMULA(i1, FLT, 1, BESSEL_I1(IN0))
FORMULA(i1e, FLT, 1, BESSEL_I1E(IN0))
FORMULA(erfcx, FLT, 1, ERFCX(IN0))
/* By erf in float16 and bfloat16, where PyTorch's small values come from there. */
static int build_ndtr(cni_builder *b, int variant)
{
  (void)variant;
  if (!b->drop) return OP1(ndtr, IN0);
  return MUL(ROUNDED(ADD(K(1), ROUNDED(ERF(ROUNDED(MUL(IN0, K(0.70710678118654752440))))))), K(0.5));
}
static cni_pointwise pw_ndtr = {CNI_FLT, 1, NULL, build_ndtr, NULL, {0}};
FORMULA(log_ndtr, FLT, 1, OP1(log_ndtr, IN0))
FORMULA(ndtri, FLT, 1, OP1(ndtri, IN0))
FORMULA(zeta, FLT, 2, OP2(zeta, IN0, IN1))
FORMULA(igamma, FLT, 2, OP2(igamma, IN0, IN1))
FORMULA(igammac, FLT, 2, OP2(igammac, IN0, IN1))
FORMULA(bessel_j0, FLT, 1, OP1(bessel_j0, IN0))
FORMULA(bessel_j1, FLT, 1, OP1(bessel_j1, IN0))
FORMULA(bessel_y0, FLT, 1, OP1(bessel_y0, IN0))
FORMULA(bessel_y1, FLT, 1, OP1(bessel_y1, IN0))
FORMULA(bessel_k0, FLT, 1, OP1(bessel_k0, IN0))
FORMULA(bessel_k1, FLT, 1, OP1(bessel_k1, IN0))
FORMULA(bessel_k0e, FLT, 1, OP1(bessel_k0e, IN0))
FORMULA(bessel_k1e, FLT, 1, OP1(bessel_k1e, IN0))
FORMULA(spherical_j0, FLT, 1, OP1(spherical_j0, IN0))
FORMULA(airy_ai, FLT, 1, OP1(airy_ai, IN0))
#define POLYNOMIAL(name, code) FORMULA(name, FLT, 2, OP3(polynomial, IN0, IN1, K(code)))
POLYNOMIAL(chebyshev_t, CNM_CHEBYSHEV_T)
POLYNOMIAL(chebyshev_u, CNM_CHEBYSHEV_U)
POLYNOMIAL(chebyshev_v, CNM_CHEBYSHEV_V)
POLYNOMIAL(chebyshev_w, CNM_CHEBYSHEV_W)
POLYNOMIAL(hermite_h, CNM_HERMITE_H)
POLYNOMIAL(hermite_he, CNM_HERMITE_HE)
POLYNOMIAL(laguerre_l, CNM_LAGUERRE_L)
POLYNOMIAL(legendre_p, CNM_LEGENDRE_P)
POLYNOMIAL(shifted_t, CNM_SHIFTED + CNM_CHEBYSHEV_T)
POLYNOMIAL(shifted_u, CNM_SHIFTED + CNM_CHEBYSHEV_U)
POLYNOMIAL(shifted_v, CNM_SHIFTED + CNM_CHEBYSHEV_V)
POLYNOMIAL(shifted_w, CNM_SHIFTED + CNM_CHEBYSHEV_W)
FORMULA(polygamma, FLT, 1, POLYGAMMA(ATTR(0), IN0)) /* n is the call's first parameter */

/* Of two arguments only the first has a gradient: degrees are integers. */
static int first_vjp(cn_vjp *v)
{
  if (v->need[1])
    return cni_fail(CN_ERR_GRAD, "%s: there is no gradient with respect to n, the degree; detach it",
                    cni_op_info(v->op)->name);
  return cni_pointwise_vjp(v);
}

static int no_vjp(cn_vjp *v)
{
  return cni_fail(CN_ERR_GRAD, "%s: its gradient is not implemented; detach input", cni_op_info(v->op)->name);
}

/* Of two arguments only the second has a known gradient. */
static int second_vjp(cn_vjp *v)
{
  if (v->need[0])
    return cni_fail(CN_ERR_GRAD, "%s: the gradient with respect to input is not implemented; detach it",
                    cni_op_info(v->op)->name);
  return cni_pointwise_vjp(v);
}

/* polygamma(n, input) */
static int polygamma_infer(cn_call *c)
{
  int64_t n = cni_arg_int(c->args, 0);
  if (n < 0) return cn_call_fail(c, CN_ERR_VALUE, "n must not be negative, but is %lld", (long long)n);
  return cni_pointwise_infer(c);
}

/* mvlgamma(input, p): lgamma(x) + lgamma(x - 1/2) + ... + lgamma(x - (p - 1) / 2) + p (p - 1) / 4 log pi */
static int mvlgamma_decompose(cn_call *c)
{
  int64_t p = cni_arg_int(c->args, 1);
  if (p < 1) return cn_call_fail(c, CN_ERR_VALUE, "p must be at least 1, but is %lld", (long long)p);
  int dtype = cni_float_type(c->in[0]->d.dtype);
  cn_tensor *x = cni_in_type(c->in[0], dtype);
  cn_tensor *at = cn_arange(0.5 - 0.5 * (double)p, 0.25, .step = 0.5, .dtype = (cn_dtype)dtype,
                            .device = c->in[0]->d.device);
  cn_tensor *terms = cn_lgamma(cn_add(cn_unsqueeze(x, -1), at));
  c->out[0] = cn_add(cn_sum(terms, .dim = CN_INTS(-1)), cn_num((double)(p * (p - 1)) * 0.286182471462350043535));
  return cn_err();
}

/* clang-format off */
const cn_op cni_special_ops[] = {
  {.sig = "special_i0e(Tensor input) -> Tensor ; special",
   .doc = "exp(-|x|) i0(x).",
   PROGRAM(i0e)},
  {.sig = "special_i1(Tensor input) -> Tensor ; special alias_special_modified_bessel_i1",
   .doc = "Modified Bessel function of the first kind, order 1.",
   PROGRAM(i1)},
  {.sig = "special_i1e(Tensor input) -> Tensor ; special",
   .doc = "exp(-|x|) i1(x).",
   PROGRAM(i1e)},
  {.sig = "special_erfcx(Tensor input) -> Tensor ; special",
   .doc = "exp(x^2) erfc(x), which does not underflow.",
   PROGRAM(erfcx)},
  {.sig = "special_ndtr(Tensor input) -> Tensor ; special",
   .doc = "The standard normal distribution function.",
   PROGRAM(ndtr), .copied = CN_IN(0)},
  {.sig = "special_log_ndtr(Tensor input) -> Tensor ; special",
   .doc = "Logarithm of the standard normal distribution function, exact far to the left too.",
   PROGRAM(log_ndtr)},
  {.sig = "special_ndtri(Tensor input) -> Tensor ; special",
   .doc = "Inverse of the standard normal distribution function; NaN outside [0, 1].",
   PROGRAM(ndtri)},
  {.sig = "special_bessel_j0(Tensor input) -> Tensor ; special",
   .doc = "Bessel function of the first kind, order 0.",
   PROGRAM(bessel_j0)},
  {.sig = "special_bessel_j1(Tensor input) -> Tensor ; special",
   .doc = "Bessel function of the first kind, order 1.",
   PROGRAM(bessel_j1)},
  {.sig = "special_bessel_y0(Tensor input) -> Tensor ; special",
   .doc = "Bessel function of the second kind, order 0; -inf at 0, NaN below.",
   PROGRAM(bessel_y0)},
  {.sig = "special_bessel_y1(Tensor input) -> Tensor ; special",
   .doc = "Bessel function of the second kind, order 1; -inf at 0, NaN below.",
   PROGRAM(bessel_y1)},
  {.sig = "special_modified_bessel_k0(Tensor input) -> Tensor ; special",
   .doc = "Modified Bessel function of the second kind, order 0; inf at 0, NaN below.",
   PROGRAM(bessel_k0)},
  {.sig = "special_modified_bessel_k1(Tensor input) -> Tensor ; special",
   .doc = "Modified Bessel function of the second kind, order 1; inf at 0, NaN below.",
   PROGRAM(bessel_k1)},
  {.sig = "special_scaled_modified_bessel_k0(Tensor x) -> Tensor ; special",
   .doc = "exp(x) modified_bessel_k0(x).",
   PROGRAM(bessel_k0e)},
  {.sig = "special_scaled_modified_bessel_k1(Tensor x) -> Tensor ; special",
   .doc = "exp(x) modified_bessel_k1(x).",
   PROGRAM(bessel_k1e)},
  {.sig = "special_spherical_bessel_j0(Tensor x) -> Tensor ; special",
   .doc = "sin(x) / x: 1 at 0, 0 at infinity.",
   PROGRAM(spherical_j0)},
  {.sig = "special_airy_ai(Tensor x) -> Tensor ; special",
   .doc = "Airy's function Ai; NaN at infinity. It has no gradient.",
   RULED_PROGRAM(airy_ai, cni_pointwise_infer, no_vjp)},
  {.sig = "special_chebyshev_polynomial_t(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Chebyshev's polynomial of the first kind and degree n, cos(n acos(x)). Degrees are cut to integers; "
          "those below 0 give 0.",
   POLYNOMIAL_ROW(chebyshev_t)},
  {.sig = "special_chebyshev_polynomial_u(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Chebyshev's polynomial of the second kind, which begins with 1, 2 x.",
   POLYNOMIAL_ROW(chebyshev_u)},
  {.sig = "special_chebyshev_polynomial_v(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Chebyshev's polynomial of the third kind, which begins with 1, 2 x - 1.",
   POLYNOMIAL_ROW(chebyshev_v)},
  {.sig = "special_chebyshev_polynomial_w(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Chebyshev's polynomial of the fourth kind, which begins with 1, 2 x + 1.",
   POLYNOMIAL_ROW(chebyshev_w)},
  {.sig = "special_hermite_polynomial_h(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Hermite's polynomial, orthogonal by the weight exp(-x^2).",
   POLYNOMIAL_ROW(hermite_h)},
  {.sig = "special_hermite_polynomial_he(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Hermite's polynomial, orthogonal by the weight exp(-x^2 / 2).",
   POLYNOMIAL_ROW(hermite_he)},
  {.sig = "special_laguerre_polynomial_l(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Laguerre's polynomial, orthogonal by the weight exp(-x).",
   POLYNOMIAL_ROW(laguerre_l)},
  {.sig = "special_legendre_polynomial_p(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "Legendre's polynomial, orthogonal on -1 to 1.",
   POLYNOMIAL_ROW(legendre_p)},
  {.sig = "special_shifted_chebyshev_polynomial_t(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "chebyshev_polynomial_t at 2 x - 1.",
   POLYNOMIAL_ROW(shifted_t)},
  {.sig = "special_shifted_chebyshev_polynomial_u(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "chebyshev_polynomial_u at 2 x - 1.",
   POLYNOMIAL_ROW(shifted_u)},
  {.sig = "special_shifted_chebyshev_polynomial_v(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "chebyshev_polynomial_v at 2 x - 1.",
   POLYNOMIAL_ROW(shifted_v)},
  {.sig = "special_shifted_chebyshev_polynomial_w(Tensor|Scalar x, Tensor|Scalar n) -> Tensor ; special",
   .doc = "chebyshev_polynomial_w at 2 x - 1.",
   POLYNOMIAL_ROW(shifted_w)},
  {.sig = "special_zeta(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; special",
   .doc = "Hurwitz's zeta function: the sum of (k + other)^-input over k >= 0. Only other has a gradient.",
   RULED_PROGRAM(zeta, cni_pointwise_infer, second_vjp), BOTH},
  {.sig = "igamma(Tensor input, Tensor other) -> Tensor ; method inplace alias_special_gammainc",
   .doc = "Regularised lower incomplete gamma function of order input at other. Only other has a gradient.",
   RULED_PROGRAM(igamma, cni_pointwise_infer, second_vjp), BOTH},
  {.sig = "igammac(Tensor input, Tensor other) -> Tensor ; method inplace alias_special_gammaincc",
   .doc = "Regularised upper incomplete gamma function, 1 - igamma. Only other has a gradient.",
   RULED_PROGRAM(igammac, cni_pointwise_infer, second_vjp), BOTH},
  {.sig = "polygamma(int n, Tensor input) -> Tensor ; alias_special_polygamma",
   .doc = "The n-th derivative of digamma.",
   RULED_PROGRAM(polygamma, polygamma_infer, cni_pointwise_vjp)},
  {.sig = "mvlgamma(Tensor input, int p) -> Tensor ; method inplace alias_special_multigammaln",
   .doc = "Logarithm of the multivariate gamma function of dimension p.",
   .flags = CN_OP_COMPOSITE, .decompose = mvlgamma_decompose},
};
/* clang-format on */
CNI_FAMILY(special);
