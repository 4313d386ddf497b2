/* Special functions of one number for maths.h, included by it after the gamma family (see there for conventions):
 * erfcx, the normal distribution and its inverse, modified Bessel functions of order 0 and 1, gelu and its slope.
 *
 * erfcx, ndtr and the Bessel functions are straight lines with selects, fit for vector loops. Invariant: a tail is
 * computed as a tail: no function here loses relative accuracy where its result is small.
 */
#ifndef CAIRN_BASE_MATHS_SPECIAL_H
#define CAIRN_BASE_MATHS_SPECIAL_H

/* e^(x^2) erfc x for x >= 0: p((x - 4) / (x + 4)) / (1 + 2 x). Error 4 ulp. */
CNM_FN double cnm_erfcx_pos(double x)
{
  double a = x > 1e300 ? 1e300 : x, t = (a - 4.0) / (a + 4.0);
  double p = -2.659599690242867e-10;
  p = cnm_h4(p, t, 9.311744978232486e-10, 3.1695881915649194e-09,
             -1.2346866043823481e-08, -2.056064927569946e-08);
  p = cnm_h4(p, t, 1.0633855618594872e-07, 7.746992727017978e-08,
             -8.210939042560567e-07, 2.919733377963009e-07);
  p = cnm_h4(p, t, 5.706604414895733e-06, -1.1221287012353484e-05,
             -2.4397746422436416e-05, 0.0001506214900124047);
  p = cnm_h4(p, t, -0.00019925714661091188, -0.0007577732613730956,
             0.005031970067657489, -0.016197734059799265);
  p = cnm_h4(p, t, 0.03716751552655567, -0.06633036581218697,
             0.0937328349990944, -0.10103906603630056);
  p = cnm_h4(p, t, 0.06809705425466908, 0.015379652102619604,
             -0.1396211168405623, 1.2329951186255526);
  return x > 1e300 ? 0.5641895835477563 / x : p / CNM_MAD(2.0, a, 1.0);
}

/* The scaled complementary error function, e^(x^2) erfc x. Error 4 ulp. */
CNM_FN double cnm_erfcx(double x)
{
  double a = CNM_ABS(x), c = a > 27.0 ? 27.0 : a, l, h = cnm_two_prod(c, c, &l);
  double y = cnm_erfcx_pos(a), e = cnm_exp_core(h, -l, -1.0); /* 2 e^(x^2) */
  return x < 0.0 ? e - y : y;
}

/* The normal distribution function, erfc(-x / sqrt 2) / 2; the rounding of the argument is made good. Error 4 ulp. */
CNM_FN double cnm_ndtr(double x)
{
  double c = x < -40.0 ? -40.0 : x > 40.0 ? 40.0 : x, l, h = cnm_two_prod(-c, 0.7071067811865476, &l);
  l = CNM_MAD(c, 4.833646656726457e-17, l);
  return 0.5 * CNM_MAD(cnm_exp(-h * h), -1.1283791670955126 * l, cnm_erfc(h));
}

/* log of it: near the left end by erfcx, which neither under- nor overflows there. Error 4 ulp. */
CNM_FN double cnm_log_ndtr(double x)
{
  double left = cnm_log(0.5 * cnm_erfcx_pos(CNM_ABS(x) * 0.7071067811865476)) - 0.5 * x * x;
  return x < -1.0 ? left : cnm_log1p(-cnm_ndtr(-x));
}

/* The inverse of ndtr: the middle by erfinv, the tails by Newton's steps on log_ndtr, where they are nearly straight.
 * Error 4 ulp. */
CNM_SLOW_FN double cnm_ndtri(double p)
{
  double q = p > 0.5 ? 1.0 - p : p, s, l, x;
  if (!(p >= 0.0 && p <= 1.0)) return CNM_NAN;
  if (q == 0.0) return p > 0.5 ? CNM_INF : -CNM_INF;
  if (q > 0.1) return 1.4142135623730951 * cnm_erfinv(p - 0.5 + (p - 0.5));
  l = cnm_log(q);
  s = CNM_SQRT(-2.0 * l);
  x = cnm_log(CNM_MAD(s, 2.5066282746310002, 1.0)) / s - s;
  for (int i = 0; i < 4; i++) {
    double r = 0.7978845608028654 / cnm_erfcx_pos(-x * 0.7071067811865476); /* density over distribution */
    x -= (cnm_log_ndtr(x) - l) / r;
  }
  return p > 0.5 ? -x : x;
}

/* I0(x) for 0 <= x <= 8: the power series. */
CNM_FN double cnm_i0_small(double x)
{
  double z = 0.25 * x * x;
  double p = 3.8310002187098785e-40;
  p = cnm_h4(p, z, 1.6894710964510564e-37, 6.757884385804225e-35,
             2.4395962632753253e-32, 7.904291893012054e-30);
  p = cnm_h4(p, z, 2.2843403570804838e-27, 5.8479113141260385e-25,
             1.3157800456783586e-22, 2.5789288895295828e-20);
  p = cnm_h4(p, z, 4.358389823304995e-18, 6.276081345559193e-16,
             7.594058428126623e-14, 7.594058428126624e-12);
  p = cnm_h4(p, z, 6.151187326782565e-10, 3.936759889140842e-08,
             1.9290123456790124e-06, 6.944444444444444e-05);
  p = cnm_h4(p, z, 0.001736111111111111, 0.027777777777777776,
             0.25, 1.0);
  return CNM_MAD(p, z, 1.0);
}

/* I1(x) / x there. */
CNM_FN double cnm_i1_small(double x)
{
  double z = 0.25 * x * x;
  double p = 1.7413637357772174e-41;
  p = cnm_h4(p, z, 8.045100459290744e-39, 3.3789421929021126e-36,
             1.2839980333028028e-33, 4.391273273895586e-31);
  p = cnm_h4(p, z, 1.3437296218120491e-28, 3.654944571328774e-26,
             8.771866971189057e-24, 1.842092063949702e-21);
  p = cnm_h4(p, z, 3.352607556388458e-19, 5.230067787965994e-17,
             6.903689480115112e-15, 7.594058428126623e-13);
  p = cnm_h4(p, z, 6.834652585313961e-11, 4.920949861426052e-09,
             2.755731922398589e-07, 1.1574074074074073e-05);
  p = cnm_h4(p, z, 0.00034722222222222224, 0.006944444444444444,
             0.08333333333333333, 0.5);
  return 0.5 * CNM_MAD(p, z, 1.0);
}

/* e^-x I0(x) for x >= 8: p(16 / x - 1) / sqrt x. */
CNM_FN double cnm_i0e_large(double x)
{
  double t = 16.0 / x - 1.0;
  double p = -6.067631580885288e-11;
  p = cnm_h4(p, t, -2.02606042751059e-11, 4.577087637854123e-10,
             1.527920268774697e-10, -1.6189806852667132e-09);
  p = cnm_h4(p, t, -5.71584386234979e-10, 3.637954638396611e-09,
             1.520081695121249e-09, -5.9535694406715666e-09);
  p = cnm_h4(p, t, -3.5059665306294304e-09, 7.430464651859559e-09,
             7.552583061972735e-09, -5.404771568232832e-09);
  p = cnm_h4(p, t, -1.3408917540029976e-08, -6.7476579559244764e-09,
             7.554691881233512e-09, 2.1548377974759034e-08);
  p = cnm_h4(p, t, 3.932584334553192e-08, 8.872219737904395e-08,
             2.97359858856739e-07, 1.4838475658279247e-06);
  p = cnm_h4(p, t, 1.1143033790932038e-05, 0.0001362160743919305,
             0.0033605519836678614, 0.4021765094450081);
  return p / CNM_SQRT(x);
}

/* e^-x I1(x) there. */
CNM_FN double cnm_i1e_large(double x)
{
  double t = 16.0 / x - 1.0;
  double p = 6.305965207631314e-11;
  p = cnm_h4(p, t, 1.851511881682624e-11, -4.75881884503548e-10,
             -1.4011625172696025e-10, 1.6848984496448498e-09);
  p = cnm_h4(p, t, 5.295625439347881e-10, -3.794670898753405e-09,
             -1.4387250530384841e-09, 6.2427412222414435e-09);
  p = cnm_h4(p, t, 3.426234148762784e-09, -7.88835150942739e-09,
             -7.642394134215705e-09, 5.974437608706591e-09);
  p = cnm_h4(p, t, 1.4034238782008463e-08, 6.734464815114712e-09,
             -8.427766093720135e-09, -2.3373928208109383e-08);
  p = cnm_h4(p, t, -4.312917729178586e-08, -1.0001288294865233e-07,
             -3.4838557610442927e-07, -1.8349101326980946e-06);
  p = cnm_h4(p, t, -1.5038547200567218e-05, -0.00021923576383388928,
             -0.009749577193235737, 0.38939845902587233);
  return p / CNM_SQRT(x);
}

/* Modified Bessel function of order 0. Error 4 ulp. */
CNM_FN double cnm_i0(double x)
{
  double a = CNM_ABS(x), e;
  a = a > 800.0 ? 800.0 : a;
  e = cnm_exp(0.5 * a); /* twice, as I0 is finite beyond the end of exp */
  return a > 8.0 ? e * cnm_i0e_large(a) * e : cnm_i0_small(a > 8.0 ? 8.0 : a);
}

/* e^-|x| I0(x). Error 3 ulp. */
CNM_FN double cnm_i0e(double x)
{
  double a = CNM_ABS(x), c = a > 8.0 ? 8.0 : a;
  return a > 8.0 ? cnm_i0e_large(a) : cnm_i0_small(c) * cnm_exp(-c);
}

/* Modified Bessel function of order 1. Error 4 ulp. */
CNM_FN double cnm_i1(double x)
{
  double a = CNM_ABS(x), e;
  a = a > 800.0 ? 800.0 : a;
  e = cnm_exp(0.5 * a);
  return a > 8.0 ? CNM_SIGN(e * cnm_i1e_large(a) * e, x) : x * cnm_i1_small(a > 8.0 ? 8.0 : a);
}

/* e^-|x| I1(x). Error 4 ulp. */
CNM_FN double cnm_i1e(double x)
{
  double a = CNM_ABS(x), c = a > 8.0 ? 8.0 : a;
  return a > 8.0 ? CNM_SIGN(cnm_i1e_large(a), x) : x * cnm_i1_small(c) * cnm_exp(-c);
}

/* The same in float, through double. Error 0.6 ulp. */
CNM_FN float cnm_erfcxf(float x)
{
  return (float)cnm_erfcx((double)x);
}

CNM_FN float cnm_ndtrf(float x)
{
  return (float)cnm_ndtr((double)x);
}

CNM_FN float cnm_log_ndtrf(float x)
{
  return (float)cnm_log_ndtr((double)x);
}

CNM_SLOW_FN float cnm_ndtrif(float x)
{
  return (float)cnm_ndtri((double)x);
}

CNM_FN float cnm_i0f(float x)
{
  return (float)cnm_i0((double)x);
}

CNM_FN float cnm_i0ef(float x)
{
  return (float)cnm_i0e((double)x);
}

CNM_FN float cnm_i1f(float x)
{
  return (float)cnm_i1((double)x);
}

CNM_FN float cnm_i1ef(float x)
{
  return (float)cnm_i1e((double)x);
}

/* ---- gelu: x Phi(x) = max(x, 0) - |x| Phi(-|x|), and Phi(-a) = e^(-a^2/2) p(a) ---- */

/* e^(-x^2/2); beyond 5 the tail is below 3e-7 and p may stand still, so *a is |x| cut off there and *p = p(*a). */
CNM_FN float cnm_bellf(float x, float *a, float *p)
{
  float z = x * x, s = z > 176.1f ? 176.1f : z, b = CNM_ABSF(x);
  b = b > 5.0f ? 5.0f : b;
  *a = b;
  *p = cnm_h4f(-2.523534e-07f, b, 6.5046756e-06f, -7.508725e-05f, 0.0005206403f, -0.0024741627f);
  *p = cnm_h4f(*p, b, 0.008807728f, -0.025263628f, 0.0617893f, -0.13275613f);
  *p = CNM_MADF(CNM_MADF(CNM_MADF(*p, b, 0.24996339f), b, -0.39893994f), b, 0.5f);
#ifdef CNM_EXP2F /* the machine has one, and says it is good enough here */
  return CNM_EXP2F(s * -0.72134752f);
#else
  float t = CNM_MADF(s, 0.72134752f, CNM_MAGICF), q = CNM_MADF(s, 0.72134752f, -(t - CNM_MAGICF));
  q = CNM_MADF(cnm_h4f(-0.0013276456f, q, 0.009675541f, -0.055507135f, 0.2402212f, -0.69314694f), q, 1.0f);
  return q * cnm_u2f((0x4b400000u + 127u - cnm_f2u(t)) << 23); /* 0 from 2^-127 on */
#endif
}

/* x Phi(x), Phi the normal distribution. Off by at most 1.2e-7 |x|. */
CNM_FN float cnm_geluf(float x)
{
  float a, p, e = cnm_bellf(x, &a, &p);
  return CNM_MADF(-(a * p), e, x > 0.0f ? x : 0.0f);
}

/* Its derivative, Phi(x) + x Phi'(x); NaN for infinities, as the formula says. Off by at most 1.8e-7. */
CNM_FN float cnm_gelu_slopef(float x)
{
  float a, p, e = cnm_bellf(x, &a, &p);
  e = CNM_MADF(e, CNM_MADF(a, -0.3989423f, p), x - x);
  return x > 0.0f ? 1.0f - e : e;
}

CNM_FN double cnm_gelu(double x) { return 0.5 * x * (1.0 + cnm_erf(x * 0.7071067811865476)); }

CNM_FN double cnm_gelu_slope(double x)
{
  return CNM_MAD(0.3989422804014327 * x, cnm_exp(-0.5 * x * x), 0.5 * (1.0 + cnm_erf(x * 0.7071067811865476)));
}

#endif
