/* The gamma family of maths.h, included by it last (see there for conventions): lgamma and digamma.
 *
 * These branch by range and loop over recurrences; they are not for vector loops. Relative accuracy is kept
 * at the zeros on the positive axis; next to the zeros between the poles on the negative axis only the
 * absolute error is bounded, as with every libm. That split is the invariant the tests check.
 */
#ifndef CAIRN_BASE_MATHS_GAMMA_H
#define CAIRN_BASE_MATHS_GAMMA_H

/* x minus its nearest integer. */
CNM_FN double cnm_frac(double x)
{
  double f = CNM_ABS(x) < 4503599627370496.0 ? x - (double)(long long)x : 0.0;
  return f > 0.5 ? f - 1.0 : f < -0.5 ? f + 1.0 : f;
}

/* log gamma(2 + t), t in [-3/4, 1/2]. */
CNM_FN double cnm_lgamma2(double t)
{
  double p = 2.6884786791808242e-08;
  p = CNM_MAD(p, t, 3.6762684534085847e-08);
  p = CNM_MAD(p, t, 1.214129804986466e-08);
  p = CNM_MAD(p, t, -6.901417530765924e-08);
  p = cnm_h4(p, t, 2.3313644342033894e-08, -8.14220484919453e-08,
             2.2953610722981917e-07, -4.522380588701621e-07);
  p = cnm_h4(p, t, 9.491818452898977e-07, -2.0394330848636264e-06,
             4.3760490520746945e-06, -9.439323826274823e-06);
  p = cnm_h4(p, t, 2.0507068301338352e-05, -4.4926265064138813e-05,
             9.945752371036435e-05, -0.00022315475599435806);
  p = cnm_h4(p, t, 0.0005096695242479166, -0.001192753911817109,
             0.0028905103307539344, -0.007385551028671405);
  p = cnm_h4(p, t, 0.0205808084277844, -0.06735230105319812, 0.3224670334241132, 0.42278433509846713);
  return p * t;
}

/* log gamma(x) for x >= 8: Stirling's series. */
CNM_SLOW_FN double cnm_stirling(double x)
{
  double r = 1.0 / x, z = r * r, p;
  p = CNM_MAD(-0.029550653594771242, z, 0.0064102564102564103);
  p = cnm_h4(p, z, -0.0019175269175269175, 0.00084175084175084175, -0.00059523809523809524,
             0.00079365079365079365);
  p = CNM_MAD(CNM_MAD(p, z, -0.0027777777777777778), z, 0.083333333333333333) * r;
  if (x > 1e17) return x * (cnm_log(x) - 1.0);
  return CNM_MAD(x - 0.5, cnm_log(x) - 1.0, 0.41893853320467274 + p);
}

/* log gamma(x) for x > 0. */
CNM_SLOW_FN double cnm_lgamma_pos(double x)
{
  double p = 1.0, s;
  if (x >= 8.0) return cnm_stirling(x);
  if (x < 0.5) return cnm_lgamma2(x) - (cnm_log1p(x) + cnm_log(x));
  if (x < 1.25) {
    s = x - 1.0;
    return cnm_lgamma2(s) - cnm_log1p(s);
  }
  while (x >= 2.5) {
    x -= 1.0;
    p *= x;
  }
  return cnm_log(p) + cnm_lgamma2(x - 2.0);
}

/* log |gamma(x)|; poles give +inf. Error 4 ulp for x > 0. */
CNM_SLOW_FN double cnm_lgamma(double x)
{
  double a = CNM_ABS(x), f;
  if (!(a < CNM_INF)) return a;
  if (x > 0.0) return cnm_lgamma_pos(x);
  f = CNM_ABS(cnm_frac(x)); /* reflect: gamma(x) gamma(1 - x) = pi / sin(pi x) */
  if (f == 0.0) return CNM_INF;
  if (a < 1e-17) return -cnm_log(a);
  return (1.1447298858494002 - cnm_log(cnm_sin(3.141592653589793 * f) * a)) - cnm_lgamma_pos(a);
}

/* The logarithmic derivative of gamma. 0 gives -inf with its sign, negative integers NaN. Error 4 ulp for x
 * > 0. */
CNM_SLOW_FN double cnm_digamma(double x)
{
  double add = 0.0, r, z, p, t;
  if (x == 0.0) return CNM_SIGN(CNM_INF, -x);
  if (x < 0.0) { /* digamma(x) = digamma(1 - x) - pi / tan(pi x) */
    r = cnm_frac(x);
    if (r == 0.0 || x == -CNM_INF) return CNM_NAN;
    if (x > -1e-17) return -1.0 / x;
    add = -3.141592653589793 / cnm_tan(3.141592653589793 * r);
    x = 1.0 - x;
  }
  if (x >= 10.0) {
    r = 1.0 / x;
    z = r * r;
    p = cnm_h4(0.083333333333333333, z, -0.021092796092796093, 0.0075757575757575758, -0.0041666666666666667,
               0.003968253968253968);
    p = CNM_MAD(CNM_MAD(p, z, -0.0083333333333333333), z, 0.083333333333333333);
    return add + (cnm_log(x) - CNM_MAD(p, z, 0.5 * r));
  }
  for (; x > 2.0; add += 1.0 / x) x -= 1.0;
  for (; x < 1.0; x += 1.0) add -= 1.0 / x;
  t = x - 1.5;
  double q = -8.31605122015547e-05;
  q = CNM_MAD(q, t, 0.00012238831838257155);
  q = CNM_MAD(q, t, -5.8829078540655725e-05);
  q = CNM_MAD(q, t, 9.162604517701848e-05);
  q = cnm_h4(q, t, -0.00021931981730199945, 0.00032687071692025075,
             -0.0004594463116490384, 0.0006899503676032708);
  q = cnm_h4(q, t, -0.0010423767916921877, 0.0015635724294042446,
             -0.0023446333148961084, 0.0035180794801799448);
  q = cnm_h4(q, t, -0.005280019419620186, 0.007927024118985175, -0.011908215074729786, 0.017907248193241836);
  q = cnm_h4(q, t, -0.02697579684793284, 0.040760833944711576, -0.06192213327158116, 0.09498872445282865);
  q = cnm_h4(q, t, -0.14840492305391834, 0.24054248424078736, -0.42362742128146047, 0.9510558760318328);
  return CNM_MAD(q, (x - 1.4616321449683622) - 9.549995429965697e-17, add);
}

/* The same in float, through double. Error 0.6 ulp for x > 0. */
CNM_SLOW_FN float cnm_lgammaf(float x)
{
  return (float)cnm_lgamma((double)x);
}

/* Likewise. Error 0.6 ulp for x > 0. */
CNM_SLOW_FN float cnm_digammaf(float x)
{
  return (float)cnm_digamma((double)x);
}

#endif
