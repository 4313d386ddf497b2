/* arith.c: the family of pointwise arithmetic beyond programs.c: logarithms of sums and odds, comparisons with
 * tolerance, replacing what is not finite, parts and neighbours of floating-point numbers, divisors of integers.
 *
 * Place in the flow: rows of the table like any other; most are programs, run in one pass over memory, the others
 * choose among programs by type. Invariant: an attribute that stands for "by the type" is filled in here, so that a
 * program never asks for a type. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <float.h>

#include "build.h"
#include "families.h"
#include "hot.h"
#include "pointwise.h"
#include "shorthand.h"

#define FIXED_PROGRAM(name, rule) /* no gradient flows */ \
  .flags = CN_OP_ALIAS_SAFE | CN_OP_NO_GRAD, .infer = rule, .vjp = cni_pointwise_vjp, .pointwise = &pw_##name

/* ---- rules ---- */

/* Floats only: PyTorch has no kernel for integers here. */
static int floats_infer(cn_call *c)
{
  int status = cni_pointwise_infer(c);
  for (int i = 0; i < c->nin && !status; i++)
    if (!c->in[i]->d.weak && !cni_dtype_is_float(c->in[i]->d.dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point tensors, not %s; cast it",
                          cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  return status;
}

/* Integers without bool. */
static int integers_infer(cn_call *c)
{
  int status = cni_pointwise_infer(c);
  if (status || c->compute != CN_BOOL) return status;
  return cn_call_fail(c, CN_ERR_DTYPE, "takes integers, not bool");
}

static int same_types(const cn_call *c)
{
  int a = c->in[0]->d.dtype, b = c->in[1]->d.dtype;
  if (a == b) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "both tensors must have one type, not %s and %s", cn_dtype_name((cn_dtype)a),
                      cn_dtype_name((cn_dtype)b));
}

/* ---- scales, sums of exponentials, odds ---- */

FORMULA(deg2rad, FLT, 1, MUL(IN0, K(0.0174532925199432957692)))
static int build_ldexp(cni_builder *b, int variant) { return (void)variant, MUL(IN0, EXP2(IN1)); }
/* By the result, so that input may be written to, as in PyTorch. */
static void grad_ldexp(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)numbers;
  g[0] = MUL(G, EXP2(in[1]));
  g[1] = MUL(G, MUL(Y, K(0.693147180559945309417)));
}
static cni_pointwise pw_ldexp = {CNI_FLT, 2, NULL, build_ldexp, grad_ldexp, {0}};
FORMULA(angle, FLT, 1, WHERE(ISNAN(IN0), IN0, WHERE(LT(IN0, K(0)), K(3.14159265358979323846), K(0))))
FORMULA(rad2deg, FLT, 1, MUL(IN0, K(57.2957795130823208768)))

/* The larger plus log(1 + e^-distance); equal infinities have no distance. */
static int build_logaddexp(cni_builder *b, int variant)
{
  (void)variant;
  int tail = LOG1P(EXP(NEG(ABS(SUB(IN0, IN1)))));
  return WHERE(LOGICAL_AND(EQ(IN0, IN1), OP1(isinf, IN0)), IN0, ADD(MAXIMUM(IN0, IN1), tail));
}
static void grad_logaddexp(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int slope = WHERE(EQ(in[0], in[1]), K(0.5), SIGMOID(SUB(in[0], in[1])));
  g[0] = MUL(G, slope);
  g[1] = MUL(G, WHERE(EQ(in[0], in[1]), K(0.5), SIGMOID(SUB(in[1], in[0]))));
}
static cni_pointwise pw_logaddexp = {CNI_FLT, 2, NULL, build_logaddexp, grad_logaddexp, {0}};

static int build_logaddexp2(cni_builder *b, int variant)
{
  (void)variant;
  int tail = MUL(LOG1P(EXP2(NEG(ABS(SUB(IN0, IN1))))), K(1.44269504088896340736));
  return WHERE(LOGICAL_AND(EQ(IN0, IN1), OP1(isinf, IN0)), IN0, ADD(MAXIMUM(IN0, IN1), tail));
}
static void grad_logaddexp2(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int d = MUL(SUB(in[0], in[1]), K(0.693147180559945309417));
  g[0] = MUL(G, WHERE(EQ(in[0], in[1]), K(0.5), SIGMOID(d)));
  g[1] = MUL(G, WHERE(EQ(in[0], in[1]), K(0.5), SIGMOID(NEG(d))));
}
static cni_pointwise pw_logaddexp2 = {CNI_FLT, 2, NULL, build_logaddexp2, grad_logaddexp2, {0}};

/* logit(input, eps): with eps the input is cut to [eps, 1 - eps]. */
static int logit_variant(const cn_value *args) { return !cni_arg_none(args, 1); }
static int build_logit(cni_builder *b, int cut)
{
  int x = IN0;
  if (cut) {
    int low = ROUNDED(ATTR(1)), high = ROUNDED(SUB(K(1), low));
    x = WHERE(LT(x, low), low, WHERE(GT(x, high), high, x));
  }
  return LOG(ROUNDED(DIV(x, ROUNDED(SUB(K(1), x)))));
}
static void grad_logit(cni_builder *b, int cut, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)Y, (void)numbers;
  int x = in[0], slope = DIV(G, MUL(x, SUB(K(1), x)));
  if (cut) g[0] = WHERE(LOGICAL_OR(LT(x, ATTR(1)), GT(x, SUB(K(1), ATTR(1)))), K(0), slope);
  else g[0] = WHERE(LOGICAL_OR(LT(x, K(0)), GT(x, K(1))), DIV(K(0), K(0)), slope);
}
static cni_pointwise pw_logit = {CNI_FLT, 1, logit_variant, build_logit, grad_logit, {0}};

static int build_sinc(cni_builder *b, int variant)
{
  (void)variant;
  int p = MUL(IN0, K(3.14159265358979323846));
  return WHERE(EQ(IN0, K(0)), K(1), DIV(SIN(p), p));
}
/* (cos p - sin p / p) / x; near 0, where that cancels, the power series. */
static void grad_sinc(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int pi = K(3.14159265358979323846), p = MUL(in[0], pi), z = MUL(p, p), s;
  s = SUB(K(1.0 / 3991680), MUL(z, K(1.0 / 518918400)));
  s = SUB(K(1.0 / 45360), MUL(z, s));
  s = SUB(K(1.0 / 840), MUL(z, s));
  s = SUB(K(1.0 / 30), MUL(z, s));
  s = SUB(K(1.0 / 3), MUL(z, s));
  int near = LT(ABS(p), K(0.25)), safe = WHERE(near, pi, p);
  int far = DIV(SUB(COS(safe), DIV(SIN(safe), safe)), safe);
  g[0] = MUL(G, MUL(pi, WHERE(near, NEG(MUL(p, s)), far)));
}
static cni_pointwise pw_sinc = {CNI_FLT, 1, NULL, build_sinc, grad_sinc, {0}};

/* ---- products with a logarithm: 0 where the factor is 0 ---- */

static int build_xlogy(cni_builder *b, int variant)
{
  (void)variant;
  return WHERE(ISNAN(IN1), IN1, WHERE(EQ(IN0, K(0)), K(0), MUL(IN0, ROUNDED(LOG(IN1)))));
}
static void grad_xlogy(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int out = LOGICAL_AND(LOGICAL_OR(EQ(in[0], K(0)), EQ(G, K(0))), LE(in[1], K(0))); /* 0 times no number is 0 */
  g[0] = WHERE(out, K(0), MUL(G, LOG(WHERE(out, K(1), in[1]))));
  g[1] = DIV(MUL(G, in[0]), in[1]);
}
static cni_pointwise pw_xlogy = {CNI_FLT, 2, NULL, build_xlogy, grad_xlogy, {0}};

static int build_xlog1py(cni_builder *b, int variant)
{
  (void)variant;
  return WHERE(ISNAN(IN1), IN1, WHERE(EQ(IN0, K(0)), K(0), MUL(IN0, ROUNDED(LOG1P(IN1)))));
}
static void grad_xlog1py(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  int out = LOGICAL_AND(LOGICAL_OR(EQ(in[0], K(0)), EQ(G, K(0))), LE(in[1], K(-1)));
  g[0] = WHERE(out, K(0), MUL(G, LOG1P(WHERE(out, K(1), in[1]))));
  g[1] = DIV(MUL(G, in[0]), ADD(in[1], K(1)));
}
static cni_pointwise pw_xlog1py = {CNI_FLT, 2, NULL, build_xlog1py, grad_xlog1py, {0}};

static int build_entr(cni_builder *b, int variant)
{
  (void)variant;
  int below = LOG(K(0)); /* -infinity */
  return WHERE(GT(IN0, K(0)), NEG(MUL(IN0, LOG(IN0))), WHERE(EQ(IN0, K(0)), K(0), WHERE(ISNAN(IN0), IN0, below)));
}
static void grad_entr(cni_builder *b, int variant, int G, const int *in, int Y, unsigned numbers, int *g)
{
  (void)variant, (void)Y, (void)numbers;
  g[0] = MUL(G, SUB(K(-1), LOG(in[0])));
}
static cni_pointwise pw_entr = {CNI_FLT, 1, NULL, build_entr, grad_entr, {0}};

/* ---- steps, tolerance ---- */

FORMULA(heaviside, NUM, 2, WHERE(EQ(IN0, K(0)), IN1, GT(IN0, K(0))))

static int heaviside_infer(cn_call *c)
{
  int status = c->in[1]->d.weak ? CN_OK : same_types(c);
  return status ? status : cni_pointwise_infer(c);
}

/* isclose_terms(input, other, rtol, atol, equal_nan) */
static int isclose_variant(const cn_value *args) { return cni_arg_bool(args, 4) ? 1 : 0; }
static int build_isclose(cni_builder *b, int equal_nan)
{
  int gap = ABS(SUB(IN0, IN1)), allowed = ADD(ATTR(3), ABS(MUL(ATTR(2), IN1)));
  int close = LOGICAL_OR(EQ(IN0, IN1), LOGICAL_AND(OP1(isfinite, gap), LE(gap, allowed)));
  return equal_nan ? LOGICAL_OR(close, LOGICAL_AND(ISNAN(IN0), ISNAN(IN1))) : close;
}
static cni_pointwise pw_isclose = {CNI_CMP, 2, isclose_variant, build_isclose, NULL, {0}};

/* isclose(input, other, rtol, atol, equal_nan) */
static int isclose_decompose(cn_call *c)
{
  double rtol = cni_arg_float(c->args, 2), atol = cni_arg_float(c->args, 3);
  int status = c->in[1]->d.weak ? CN_OK : same_types(c);
  if (status) return status;
  if (!(rtol >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "rtol must not be negative, but is %g", rtol);
  if (!(atol >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "atol must not be negative, but is %g", atol);
  int dtype = cni_float_type(c->in[0]->d.dtype);
  bool exact = !cni_dtype_is_float(c->in[0]->d.dtype);
  cn_tensor *a = cni_in_type(c->in[0], dtype), *b = cni_in_type(c->in[1], dtype);
  cn_tensor *close = cn_isclose_terms(a, b, rtol, atol, cni_arg_bool(c->args, 4));
  c->out[0] = exact ? cn_logical_or(cn_eq(c->in[0], c->in[1]), close) : close;
  return cn_err();
}
static int allclose_decompose(cn_call *c)
{
  c->out[0] = cn_all(cn_isclose(c->in[0], c->in[1], .rtol = cni_option_float(cni_arg_float(c->args, 2)),
                                .atol = cni_option_float(cni_arg_float(c->args, 3)),
                                .equal_nan = cni_arg_bool(c->args, 4)));
  return cn_err();
}

/* ---- what is not finite ---- */

/* replace_nonfinite(input, nan, posinf, neginf) */
FORMULA(replace_nonfinite, FLT, 1,
        WHERE(ISNAN(IN0), ATTR(1), WHERE(OP1(isposinf, IN0), ATTR(2), WHERE(OP1(isneginf, IN0), ATTR(3), IN0))))

static double largest_of(int dtype)
{
  return dtype == CN_F64 ? DBL_MAX : dtype == CN_F16 ? 65504.0 : dtype == CN_BF16 ? 0x1.fep127 : (double)FLT_MAX;
}
/* nan_to_num(input, nan, posinf, neginf) */
static int nan_to_num_decompose(cn_call *c)
{
  int dtype = c->in[0]->d.dtype;
  double most = largest_of(dtype), value[3];
  for (int i = 0; i < 3; i++)
    value[i] = cni_arg_none(c->args, i + 1) ? (double[]){0, most, -most}[i] : cni_arg_float(c->args, i + 1);
  c->out[0] = cni_dtype_is_float(dtype) ? cn_replace_nonfinite(c->in[0], value[0], value[1], value[2])
                                        : cn_clone(c->in[0]);
  return cn_err();
}

/* ---- other orders and types of arithmetic that exists ---- */

static int positive_decompose(cn_call *c)
{
  if (c->in[0]->d.dtype == CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "does not take bool tensors");
  c->out[0] = c->in[0];
  return CN_OK;
}
/* rsub(input, other, alpha) */
static int rsub_decompose(cn_call *c)
{
  c->out[0] = cn_sub(c->in[1], c->in[0], .alpha = cni_option_float(cni_arg_float(c->args, 2)));
  return cn_err();
}
static int float_power_decompose(cn_call *c)
{
  c->out[0] = cn_pow(cni_in_type(c->in[0], CN_F64), cni_in_type(c->in[1], CN_F64));
  return cn_err();
}

/* ---- parts and neighbours of numbers ---- */

FORMULA(frexp_mantissa, FLT, 1, OP1(mantissa, IN0))
FORMULA(frexp_exponent, FLT, 1, EXPONENT(IN0))
static int frexp_decompose(cn_call *c)
{
  c->out[0] = cn_frexp_mantissa(c->in[0]);
  c->out[1] = cn_cast(cn_frexp_exponent(c->in[0]), CN_I32);
  return cn_err();
}

/* nextafter_step(input, other, drop) */
FORMULA(nextafter_step, FLT, 2, cni_build_step(b, CNI_PW_nextafter, IN0, IN1, ATTR(2)))
static int nextafter_decompose(cn_call *c)
{
  int dtype = cni_result_type(c, c->in, 2);
  if (!dtype) return CN_ERR_DTYPE;
  c->out[0] = cn_nextafter_step(c->in[0], c->in[1], dtype == CN_F16 ? 13 : dtype == CN_BF16 ? 16 : 0);
  return cn_err();
}

FORMULA(gcd, BIT, 2, OP2(gcd, IN0, IN1))
FORMULA(lcm, BIT, 2, OP2(lcm, IN0, IN1))

/* clang-format off */
const cn_op cni_arith_ops[] = {
  {.sig = "positive(Tensor input) -> Tensor ; method complex",
   .doc = "input itself; not for bool.",
   .flags = CN_OP_COMPOSITE, .decompose = positive_decompose},
  {.sig = "rsub(Tensor input, Tensor|Scalar other, *, Scalar alpha=1) -> Tensor ; grad_fn_RsubBackward1 complex",
   .doc = "other - alpha * input, broadcast.",
   .flags = CN_OP_COMPOSITE, .decompose = rsub_decompose},
  {.sig = "float_power(Tensor|Scalar input, Tensor|Scalar exponent) -> Tensor ; method inplace complex",
   .doc = "input to the power of exponent, in float64 whatever the types.",
   .flags = CN_OP_COMPOSITE, .decompose = float_power_decompose},
  {.sig = "ldexp(Tensor input, Tensor other) -> Tensor ; method inplace",
   .doc = "input * 2 to the power of other.",
   PROGRAM(ldexp)},
  {.sig = "deg2rad(Tensor input) -> Tensor ; method inplace",
   .doc = "Degrees as radians: x * pi / 180.",
   PROGRAM(deg2rad)},
  {.sig = "rad2deg(Tensor input) -> Tensor ; method inplace",
   .doc = "Radians as degrees: x * 180 / pi.",
   PROGRAM(rad2deg)},
  {.sig = "angle(Tensor input) -> Tensor ; method",
   .doc = "The angle of each number in the complex plane; of real numbers pi below 0, else 0.",
   PROGRAM(angle)},
  {.sig = "logaddexp(Tensor input, Tensor other) -> Tensor ; method",
   .doc = "log(exp(input) + exp(other)) without overflow.",
   CHECKED_PROGRAM(logaddexp, floats_infer)},
  {.sig = "logaddexp2(Tensor input, Tensor other) -> Tensor ; method",
   .doc = "log2(2^input + 2^other) without overflow.",
   CHECKED_PROGRAM(logaddexp2, floats_infer)},
  {.sig = "logit(Tensor input, float? eps=None) -> Tensor ; method inplace alias_special_logit",
   .doc = "log(x / (1 - x)), the inverse of sigmoid; NaN outside [0, 1], or x cut to [eps, 1 - eps] first.",
   PROGRAM(logit)},
  {.sig = "sinc(Tensor input) -> Tensor ; method inplace alias_special_sinc",
   .doc = "sin(pi x) / (pi x), and 1 at 0.",
   PROGRAM(sinc)},
  {.sig = "heaviside(Tensor input, Tensor values) -> Tensor ; method inplace",
   .doc = "0 where input is negative or NaN, values where it is 0, else 1; both of one type.",
   FIXED_PROGRAM(heaviside, heaviside_infer)},
  {.sig = "xlogy(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; method inplace alias_special_xlogy",
   .doc = "input * log(other); 0 where input is 0, NaN where other is.",
   PROGRAM(xlogy)},
  {.sig = "special_xlog1py(Tensor|Scalar input, Tensor|Scalar other) -> Tensor ; special",
   .doc = "input * log(1 + other); 0 where input is 0, NaN where other is.",
   PROGRAM(xlog1py)},
  {.sig = "special_entr(Tensor input) -> Tensor ; special",
   .doc = "-x log(x); 0 at 0, -infinity below.",
   PROGRAM(entr)},
  {.sig = "isclose_terms(Tensor input, Tensor other, float rtol, float atol, bool equal_nan) -> Tensor ; internal",
   .doc = "What isclose runs on floating-point tensors.",
   FIXED_PROGRAM(isclose, cni_pointwise_infer)},
  {.sig = "isclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
          "-> Tensor ; method",
   .doc = "True where |input - other| <= atol + rtol |other|, where both are equal, and with equal_nan both NaN.",
   .flags = CN_OP_COMPOSITE, .decompose = isclose_decompose},
  {.sig = "allclose(Tensor input, Tensor other, float rtol=1e-05, float atol=1e-08, bool equal_nan=False) "
          "-> Tensor ; method complex",
   .doc = "Is isclose true everywhere? A 0-d bool tensor.",
   .flags = CN_OP_COMPOSITE, .decompose = allclose_decompose},
  {.sig = "replace_nonfinite(Tensor input, float nan, float posinf, float neginf) -> Tensor ; internal "
          "grad_fn_NanToNumBackward0",
   .doc = "input with these numbers for NaN and the infinities. What nan_to_num runs.",
   PROGRAM(replace_nonfinite)},
  {.sig = "nan_to_num(Tensor input, float? nan=None, float? posinf=None, float? neginf=None) "
          "-> Tensor ; method inplace complex_parts",
   .doc = "input with 0 (or nan) for NaN, and the largest and smallest number of the type (or posinf, neginf) for the "
          "infinities.",
   .flags = CN_OP_COMPOSITE, .decompose = nan_to_num_decompose},
  {.sig = "frexp_mantissa(Tensor input) -> Tensor ; internal",
   .doc = "The first result of frexp.",
   CHECKED_PROGRAM(frexp_mantissa, floats_infer), .copied = CN_IN(0)},
  {.sig = "frexp_exponent(Tensor input) -> Tensor ; internal",
   .doc = "The second result of frexp, as floats.",
   FIXED_PROGRAM(frexp_exponent, floats_infer)},
  {.sig = "frexp(Tensor input) -> (Tensor mantissa, Tensor exponent) ; method",
   .doc = "input as mantissa * 2^exponent, the mantissa in [1/2, 1) or 0, the exponent an int32.",
   .flags = CN_OP_COMPOSITE, .decompose = frexp_decompose},
  {.sig = "nextafter_step(Tensor input, Tensor other, int drop) -> Tensor ; internal",
   .doc = "What nextafter runs; drop: how many bits the type's fraction is shorter than the one computed in.",
   CHECKED_PROGRAM(nextafter_step, floats_infer)},
  {.sig = "nextafter(Tensor input, Tensor other) -> Tensor ; method inplace",
   .doc = "The floating-point number next to input towards other. The gradient goes to input.",
   .flags = CN_OP_COMPOSITE, .decompose = nextafter_decompose},
  {.sig = "gcd(Tensor input, Tensor other) -> Tensor ; method inplace",
   .doc = "Greatest common divisor of integers; not negative, 0 of two zeros.",
   FIXED_PROGRAM(gcd, integers_infer)},
  {.sig = "lcm(Tensor input, Tensor other) -> Tensor ; method inplace",
   .doc = "Least common multiple of integers; not negative, 0 if one is.",
   FIXED_PROGRAM(lcm, integers_infer)},
};
/* clang-format on */
CNI_FAMILY(arith);
