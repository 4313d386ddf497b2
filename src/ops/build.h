/* build.h: builder expressions: MUL(x, y) appends a step to the builder `b` in scope and is the result's register.
 *
 * Used by pointwise.def's gradients (program_grad.c) and by the programs of programs.c. */
#ifndef CNI_OPS_BUILD_H
#define CNI_OPS_BUILD_H

#include "program.h"

#define IN0 0 /* the inputs' registers */
#define IN1 1
#define IN2 2
#define K(x) cni_build_const(b, x)
#define ATTR(param) cni_build_attr(b, param) /* value of the call's attribute */
#define OP1(p, x) cni_build_step(b, CNI_PW_##p, x, -1, -1)
#define OP2(p, x, y) cni_build_step(b, CNI_PW_##p, x, y, -1)
#define OP3(p, x, y, z) cni_build_step(b, CNI_PW_##p, x, y, z)
#define ROUNDED(x) cni_build_rounded(b, x) /* where PyTorch has two ops, and float16 and bfloat16 lie between them */
#define NEG(x) OP1(neg, x)
#define SIGN(x) OP1(sign, x)
#define EXP(x) OP1(exp, x)
#define LOG(x) OP1(log, x)
#define SIN(x) OP1(sin, x)
#define COS(x) OP1(cos, x)
#define SINH(x) OP1(sinh, x)
#define COSH(x) OP1(cosh, x)
#define RSQRT(x) OP1(rsqrt, x)
#define DIGAMMA(x) OP1(digamma, x)
#define EXP2(x) OP1(exp2, x)
#define EXPONENT(x) OP1(exponent, x)
#define BESSEL_I0(x) OP1(i0, x)
#define BESSEL_I0E(x) OP1(i0e, x)
#define BESSEL_I1(x) OP1(i1, x)
#define BESSEL_I1E(x) OP1(i1e, x)
#define ERFCX(x) OP1(erfcx, x)
#define ERFINV(x) OP1(erfinv, x)
#define TRUNC(x) OP1(trunc, x)
#define ISNAN(x) OP1(isnan, x)
#define ADD(x, y) OP2(add, x, y)
#define SUB(x, y) OP2(sub, x, y)
#define MUL(x, y) OP2(mul, x, y)
#define DIV(x, y) OP2(div, x, y)
#define POW(x, y) OP2(pow, x, y)
#define EQ(x, y) OP2(eq, x, y)
#define LT(x, y) OP2(lt, x, y)
#define LE(x, y) OP2(le, x, y)
#define GT(x, y) OP2(gt, x, y)
#define GE(x, y) OP2(ge, x, y)
#define LOGICAL_AND(x, y) OP2(logical_and, x, y)
#define LOGICAL_OR(x, y) OP2(logical_or, x, y)
#define WHERE(c, x, y) cni_build_step(b, CNI_PW_where, c, x, y)
#define ABS(x) OP1(abs, x)
#define EXPM1(x) OP1(expm1, x)
#define LOG1P(x) OP1(log1p, x)
#define TANH(x) OP1(tanh, x)
#define SIGMOID(x) OP1(sigmoid, x)
#define ERF(x) OP1(erf, x)
#define RINT(x) OP1(rint, x)
#define MAXIMUM(x, y) OP2(maximum, x, y)
#define MINIMUM(x, y) OP2(minimum, x, y)
#define FLOOR_DIV(x, y) OP2(floor_div, x, y)
#define TRUNC_DIV(x, y) OP2(trunc_div, x, y)
#define DIV_OR_ZERO(x, y) WHERE(EQ(y, K(0)), K(0), DIV(x, y)) /* 0 where y is */
#define HYPOT(x, y) OP2(hypot, x, y)
#define POLYGAMMA(n, x) OP2(polygamma, n, x)
/* x^(a - 1) e^-x / gamma(a) */
#define GAMMA_DENSITY(a, x) EXP(SUB(SUB(MUL(SUB(a, K(1)), LOG(x)), x), OP1(lgamma, a)))
#define NONZERO(x) WHERE(EQ(x, K(0)), K(1), x) /* 1 where x is 0: a divisor for the branch that is not taken */
/* Second derivatives of the activations, for gradients of gradients. s = sigmoid(u): its derivative is s (1 - s). */
#define BELL(s) MUL(s, SUB(K(1), s))
#define SKEW(s) SUB(K(1), MUL(K(2), s))
#define GELU_CURVE(x) \
  MUL(MUL(K(0.398942280401432677940), EXP(MUL(K(-0.5), MUL(x, x)))), SUB(K(2), MUL(x, x)))
#define SILU_CURVE(x) MUL(BELL(SIGMOID(x)), ADD(K(2), MUL(x, SKEW(SIGMOID(x)))))
/* u = x (p + q x^2), p = 2 sqrt(2 / pi), q = 0.044715 p; then s (1 - s) (2 u' + x u'^2 (1 - 2 s) + x u'') */
#define GELU_U(x) MUL(x, ADD(K(1.59576912160573071176), MUL(K(0.0713548162715978558), MUL(x, x))))
#define GELU_DU(x) ADD(K(1.59576912160573071176), MUL(K(0.2140644488147935674), MUL(x, x)))
#define GELU_TANH_CURVE(x) \
  MUL(BELL(SIGMOID(GELU_U(x))), \
      ADD(MUL(K(2), GELU_DU(x)), \
          MUL(x, ADD(MUL(MUL(GELU_DU(x), GELU_DU(x)), SKEW(SIGMOID(GELU_U(x)))), MUL(K(0.4281288976295871348), x)))))
/* t = tanh(softplus(x)), s = sigmoid(x), r = 1 - t^2: s r (2 + x (1 - s - 2 t s)) */
#define MISH_T(x) TANH(LOG1P(EXP(MINIMUM(x, K(20)))))
#define MISH_CURVE(x) \
  MUL(MUL(SIGMOID(x), SUB(K(1), MUL(MISH_T(x), MISH_T(x)))), \
      ADD(K(2), MUL(x, SUB(SUB(K(1), SIGMOID(x)), MUL(K(2), MUL(MISH_T(x), SIGMOID(x)))))))

/* An op that is one formula of its inputs, with the derived gradient; kind: FLT, NUM, ... */
#define FORMULA(name, kind, nin, formula) \
  static int build_##name(cni_builder *b, int variant) { return (void)variant, (formula); } \
  static cni_pointwise pw_##name = {CNI_##kind, nin, NULL, build_##name, NULL, {0}};

/* The rules of a row whose body is the program pw_NAME; CHECKED: with an infer rule of its own. */
#define CHECKED_PROGRAM(name, rule) \
  .flags = CN_OP_ALIAS_SAFE, .infer = rule, .vjp = cni_pointwise_vjp, .pointwise = &pw_##name
#define PROGRAM(name) CHECKED_PROGRAM(name, cni_pointwise_infer)

#define NO_GRAD (-1)                                         /* in pointwise.def: no gradient flows */

#endif
