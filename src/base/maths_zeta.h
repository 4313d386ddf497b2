/* Special functions of two numbers for maths.h, included by it (see there for conventions): the zeta function of
 * Hurwitz, the polygamma functions, the incomplete gamma functions.
 *
 * These branch and loop, though never without end: the number of turns is bounded for every argument, which is the
 * invariant here. They are not for vector loops.
 */
#ifndef CAIRN_BASE_MATHS_ZETA_H
#define CAIRN_BASE_MATHS_ZETA_H

/* Sum of (q + k)^-s over k >= 0 for s > 1, q > 0: ten terms, then Euler and Maclaurin's. */
CNM_SLOW_FN double cnm_zeta_pos(double s, double q)
{
  /* (2k)! / B(2k) */
  static const double over[] = {12.0, -720.0, 30240.0, -1209600.0, 47900160.0, -1892437580.3183792,
                                74724249600.0, -2950130727918.164, 116467828143500.67, -4597978722407473.0,
                                1.8152105401943546e+17, -7.166165256175666e+18};
  double sum = 0.0, a = q, b, f, t;
  for (int i = 0; i < 10; i++, a += 1.0) {
    b = cnm_pow(a, -s);
    sum += b;
    if (b <= sum * 1e-17) return sum;
  }
  b = cnm_pow(a, -s);
  sum += b * a / (s - 1.0);
  sum += 0.5 * b;
  f = s * b / a;
  for (int k = 0; k < 12; k++) {
    t = f / over[k];
    sum += t;
    if (CNM_ABS(t) <= sum * 1e-17) break;
    f *= (s + 2.0 * k + 1.0) * (s + 2.0 * k + 2.0) / (a * a);
  }
  return sum;
}

/* Hurwitz's zeta function of order s at q. 1 gives inf, orders below it NaN; so do negative q unless the order is an
 * integer; poles (q an integer not above 0) give inf. Error 12 ulp for q > 0. */
CNM_SLOW_FN double cnm_zeta(double s, double q)
{
  double f, far;
  if (s == 1.0) return CNM_INF;
  if (!(s > 1.0) || q != q) return CNM_NAN;
  if (q > 0.0 && s == CNM_INF) return q > 1.0 ? 0.0 : q < 1.0 ? CNM_INF : 1.0;
  if (q > 0.0) return q == CNM_INF ? 0.0 : cnm_zeta_pos(s, q);
  if (!(q > -CNM_INF)) return CNM_NAN;
  f = cnm_frac(q);
  if (f == 0.0) return CNM_INF;
  if (s > 9007199254740992.0 || cnm_frac(s) != 0.0) return CNM_NAN;
  f = f < 0.0 ? f + 1.0 : f;
  far = cnm_zeta_pos(s, 1.0 - f) - cnm_zeta_pos(s, 1.0 - q); /* the terms left of 0, by their absolute values */
  return cnm_frac(0.5 * s) != 0.0 ? cnm_zeta_pos(s, f) - far : cnm_zeta_pos(s, f) + far;
}

/* n! for an integer n >= 0. */
CNM_SLOW_FN double cnm_factorial(double n)
{
  double p = 1.0;
  if (n > 170.0) return CNM_INF;
  for (; n > 1.0; n -= 1.0) p *= n;
  return p;
}

/* The n-th derivative of digamma, n an integer >= 0. Error 10 ulp for x > 0. At its poles the first derivative is
 * the large number that PyTorch gives, pi^2 / sin^2 of a rounded pi x, the others are infinite. */
CNM_SLOW_FN double cnm_polygamma(double n, double x)
{
  double y, f;
  if (n == 0.0) return cnm_digamma(x);
  if (n == 1.0 && x < 0.0 && x > -1e9 && cnm_frac(x) == 0.0) {
    y = 3.141592653589793 / cnm_sin(3.141592653589793 * x);
    return y * y;
  }
  y = cnm_zeta(n + 1.0, x);
  f = cnm_factorial(n);
  if (f == CNM_INF) y = cnm_exp(cnm_lgamma_pos(n + 1.0) + cnm_log(y));
  else y *= f;
  return cnm_frac(0.5 * n) != 0.0 ? y : -y;
}

/* x - log(1 + x) for |x| <= 1/2, with s = x / (2 + x): x s - 2 (s^3 / 3 + s^5 / 5 + ...). */
CNM_FN double cnm_log1p_gap(double x)
{
  double s = x / (2.0 + x), z = s * s, p = 0.034482758620689655;
  p = CNM_MAD(p, z, 0.037037037037037035);
  p = cnm_h4(p, z, 0.04, 0.043478260869565216, 0.047619047619047616, 0.05263157894736842);
  p = cnm_h4(p, z, 0.058823529411764705, 0.06666666666666667, 0.07692307692307693, 0.09090909090909091);
  p = cnm_h4(p, z, 0.1111111111111111, 0.14285714285714285, 0.2, 0.3333333333333333);
  return x * s - 2.0 * s * z * p;
}

/* x^a e^-x / gamma(a + 1) for positive a and x. */
CNM_SLOW_FN double cnm_igamma_front(double a, double x)
{
  double m = (x - a) / a, g = a + 1.0, p = 1.0, r, c;
  if (a < 10.0) {
    for (; g >= 2.5; p *= g) g -= 1.0;
    p *= g < 1.25 ? cnm_exp(cnm_lgamma2(g - 1.0)) / g : cnm_exp(cnm_lgamma2(g - 2.0));
    return x > 750.0 ? 0.0 : cnm_pow(x, a) * cnm_exp(-x) / p;
  }
  r = 1.0 / (a * a); /* gamma(a + 1) = sqrt(2 pi a) (a / e)^a e^c */
  c = cnm_h4(-0.0019175269175269175, r, 0.00084175084175084175, -0.00059523809523809524, 0.00079365079365079365,
             -0.0027777777777777778);
  c = CNM_MAD(c, r, 0.083333333333333333) / a;
  g = CNM_ABS(m) <= 0.5 ? a * cnm_log1p_gap(m) : (x - a) - a * cnm_log(x / a);
  return cnm_exp(-g - c) * 0.3989422804014327 / CNM_SQRT(a);
}

/* The lower function by its series, for x up to about a. */
CNM_SLOW_FN double cnm_igamma_series(double a, double x)
{
  double t = 1.0, sum = 1.0, n = a;
  for (int i = 0; i < 4000 && t > sum * 1e-17; i++) {
    n += 1.0;
    t *= x / n;
    sum += t;
  }
  return sum * cnm_igamma_front(a, x);
}

/* The upper function by its continued fraction, for x above a and 1. */
CNM_SLOW_FN double cnm_igammac_fraction(double a, double x)
{
  double b = x + 1.0 - a, c = 1e300, d = 1.0 / b, h = d, t;
  for (int i = 1; i < 4000; i++) {
    t = -(double)i * ((double)i - a);
    b += 2.0;
    d = CNM_MAD(t, d, b);
    c = b + t / c;
    d = 1.0 / (CNM_ABS(d) < 1e-300 ? 1e-300 : d);
    c = CNM_ABS(c) < 1e-300 ? 1e-300 : c;
    h *= d * c;
    if (CNM_ABS(d * c - 1.0) < 2e-16) break;
  }
  return h * a * cnm_igamma_front(a, x);
}

/* The upper function for x up to about 1, where 1 minus the lower one would cancel. */
CNM_SLOW_FN double cnm_igammac_small(double a, double x)
{
  double t = 1.0, sum = 0.0, k, e = a > 0.5 ? cnm_lgamma_pos(1.0 + a) : cnm_lgamma2(a) - cnm_log1p(a);
  e = a * cnm_log(x) - e;
  for (int n = 1; n < 60; n++) {
    t *= -x / (double)n;
    k = t / (a + (double)n);
    sum += k;
    if (CNM_ABS(k) <= CNM_ABS(sum) * 1e-17) break;
  }
  return -cnm_expm1(e) - cnm_exp(e) * a * sum;
}

/* Both for large a and x near it, as Temme expands them; upper: the upper one. |x - a| < 0.3 a, a > 200. */
CNM_SLOW_FN double cnm_igamma_temme(double a, double x, int upper)
{
  double m = (x - a) / a, h = cnm_log1p_gap(m), e = CNM_SIGN(CNM_SQRT(2.0 * h), m), r = 1.0 / a, s;
  double c0 = -5.830772132550426e-11;
  c0 = cnm_h4(c0, e, -2.5514193994946248e-11, 9.14769958223679e-10,
              -4.382036018453353e-09, 1.0261809784240309e-08);
  c0 = cnm_h4(c0, e, 6.707853543401498e-09, -1.7665952736826078e-07,
              8.296711340953087e-07, -1.85406221071516e-06);
  c0 = cnm_h4(c0, e, -2.185448510679992e-06, 3.919263178522438e-05,
              -0.0001787551440329218, 0.0003527336860670194);
  c0 = cnm_h4(c0, e, 0.0011574074074074073, -0.014814814814814815,
              0.08333333333333333, -0.3333333333333333);
  double c1 = -1.0091543710600413e-09;
  c1 = CNM_MAD(c1, e, -1.7543241719747647e-11);
  c1 = CNM_MAD(c1, e, 1.1951628599778148e-08);
  c1 = cnm_h4(c1, e, -5.752545603517705e-08, 1.378633446915721e-07,
              4.647127802807434e-09, -1.6120900894563446e-06);
  c1 = cnm_h4(c1, e, 7.64916091608111e-06, -1.8098550334489977e-05,
              -4.018775720164609e-07, 0.00020576131687242798);
  c1 = cnm_h4(c1, e, -0.0009902263374485596, 0.0026455026455026454,
              -0.003472222222222222, -0.001851851851851852);
  double c2 = 1.4280614206064242e-07;
  c2 = CNM_MAD(c2, e, -6.298992138380055e-07);
  c2 = CNM_MAD(c2, e, 1.3721957309062934e-06);
  c2 = cnm_h4(c2, e, 3.423578734096138e-08, -1.2760635188618728e-05,
              5.2923448829120125e-05, -0.0001073665322636516);
  c2 = cnm_h4(c2, e, 2.0093878600823047e-06, 0.0007716049382716049,
              -0.0026813271604938273, 0.004133597883597883);
  double c3 = 1.4230900732435883e-06;
  c3 = cnm_h4(c3, e, -5.6749528269915965e-06, 1.1082654115347302e-05,
              -2.396505113867297e-07, -7.561801671883977e-05);
  c3 = cnm_h4(c3, e, 0.00026772063206283885, -0.0004691894943952557,
              0.00022947209362139917, 0.0006494341563786008);
  double c4 = 1.1375726970678419e-05;
  c4 = CNM_MAD(c4, e, -3.968365047179435e-05);
  c4 = CNM_MAD(c4, e, 6.641498215465122e-05);
  c4 = cnm_h4(c4, e, -1.4638452578843418e-06, -0.0002990724803031902,
              0.0007840392217200666, -0.0008618882909167117);
  double c5 = 6.797780477937208e-05;
  c5 = cnm_h4(c5, e, -0.00019932570516188847, 0.0002772753244959392,
              -6.972813758365857e-05, -0.00033679855336635813);
  double c6 = -0.0005921664373536939;
  c6 = CNM_MAD(c6, e, 0.0005313079364639922);
  s = cnm_h4(CNM_MAD(CNM_MAD(c6, r, c5), r, c4), r, c3, c2, c1, c0);
  s *= cnm_exp(-a * h) * 0.3989422804014327 / CNM_SQRT(a);
  h = e * CNM_SQRT(0.5 * a);
  return upper ? CNM_MAD(0.5, cnm_erfc(h), s) : CNM_MAD(0.5, cnm_erfc(-h), -s);
}

/* The regularised lower incomplete gamma function P(a, x): NaN for negative arguments. Error 50 ulp, and about
 * 3 |log P| in the far tails. */
CNM_SLOW_FN double cnm_igamma(double a, double x)
{
  if (!(a >= 0.0 && x >= 0.0)) return CNM_NAN;
  if (a == 0.0) return x > 0.0 ? 1.0 : CNM_NAN;
  if (x == 0.0) return 0.0;
  if (a == CNM_INF) return x == CNM_INF ? CNM_NAN : 0.0;
  if (x == CNM_INF) return 1.0;
  if (a > 200.0 && CNM_ABS(x - a) < 0.3 * a) return cnm_igamma_temme(a, x, 0);
  if (x <= 1.0 || x <= a) return cnm_igamma_series(a, x);
  return 1.0 - cnm_igammac_fraction(a, x);
}

/* The upper one, Q(a, x) = 1 - P(a, x), exact where it is small. */
CNM_SLOW_FN double cnm_igammac(double a, double x)
{
  if (!(a >= 0.0 && x >= 0.0)) return CNM_NAN;
  if (a == 0.0) return x > 0.0 ? 0.0 : CNM_NAN;
  if (x == 0.0) return 1.0;
  if (a == CNM_INF) return x == CNM_INF ? CNM_NAN : 1.0;
  if (x == CNM_INF) return 0.0;
  if (a > 200.0 && CNM_ABS(x - a) < 0.3 * a) return cnm_igamma_temme(a, x, 1);
  if (x <= 1.1) {
    double limit = x <= 0.5 ? -0.4 / cnm_log(x) : 1.1 * x;
    return a > limit ? 1.0 - cnm_igamma_series(a, x) : cnm_igammac_small(a, x);
  }
  return x <= a ? 1.0 - cnm_igamma_series(a, x) : cnm_igammac_fraction(a, x);
}

/* The same in float, through double. */
CNM_SLOW_FN float cnm_zetaf(float s, float q)
{
  return (float)cnm_zeta((double)s, (double)q);
}

CNM_SLOW_FN float cnm_polygammaf(float n, float x)
{
  double y;
  if (n == 1.0f && x < 0.0f && x > -1e6f && cnm_frac((double)x) == 0.0) {
    y = 3.1415927410125732 / cnm_sin((double)(3.1415927410125732f * x));
    return (float)(y * y);
  }
  return (float)cnm_polygamma((double)n, (double)x);
}

CNM_SLOW_FN float cnm_igammaf(float a, float x)
{
  return (float)cnm_igamma((double)a, (double)x);
}

CNM_SLOW_FN float cnm_igammacf(float a, float x)
{
  return (float)cnm_igammac((double)a, (double)x);
}

#endif
