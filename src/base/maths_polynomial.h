/* Orthogonal polynomials for maths.h, included by it last (see there for conventions), by their recurrences.
 *
 * One function for all families, as they differ in a few numbers: p(k+1) = ((a x + b) p(k) - c p(k-1)) / d. Derivatives
 * go up the same ladder. Invariant: the number of turns is bounded, by ten million. They are not for vector loops.
 */
#ifndef CAIRN_BASE_MATHS_POLYNOMIAL_H
#define CAIRN_BASE_MATHS_POLYNOMIAL_H

/* Families: Chebyshev's of four kinds, Hermite's, Hermite's of the normal distribution, Laguerre's, Legendre's; and 8
 * more than one of the first four: the same at 2 x - 1. */
enum {
  CNM_CHEBYSHEV_T, CNM_CHEBYSHEV_U, CNM_CHEBYSHEV_V, CNM_CHEBYSHEV_W, CNM_HERMITE_H, CNM_HERMITE_HE, CNM_LAGUERRE_L,
  CNM_LEGENDRE_P, CNM_SHIFTED = 8, CNM_SLOPE = 16, CNM_SLOPES = 4
};

/* Chebyshev's polynomials between -1 and 1 by angles, where the ladder would be long. */
CNM_SLOW_FN double cnm_chebyshev_angle(int family, double x, double n)
{
  double angle = cnm_acos(x), half = 0.5 * angle;
  if (family == CNM_CHEBYSHEV_T) return cnm_cos_full(n * angle);
  if (family == CNM_CHEBYSHEV_U) return cnm_sin_full((n + 1.0) * angle) / cnm_sin_full(angle);
  if (family == CNM_CHEBYSHEV_V) return cnm_cos_full((n + 0.5) * angle) / cnm_cos_full(half);
  return cnm_sin_full((n + 0.5) * angle) / cnm_sin_full(half);
}

/* The derivative of order slope of the polynomial of degree n > 0, not beyond CNM_SLOPES - 1. */
CNM_SLOW_FN double cnm_polynomial_ladder(int family, int slope, double x, double n)
{
  /* degree 1 as a factor of x and a constant, then a of the recurrence */
  static const double first[8][3] = {{1.0, 0.0, 2.0}, {2.0, 0.0, 2.0}, {2.0, -1.0, 2.0}, {2.0, 1.0, 2.0},
                                     {2.0, 0.0, 2.0}, {1.0, 0.0, 1.0}, {-1.0, 1.0, -1.0}, {1.0, 0.0, 1.0}};
  double before[CNM_SLOPES] = {1.0, 0.0, 0.0, 0.0}, now[CNM_SLOPES] = {0.0, 0.0, 0.0, 0.0}, a, b, c, d, next;
  now[0] = CNM_MAD(first[family][0], x, first[family][1]);
  now[1] = first[family][0];
  for (double k = 1.0; k < n; k += 1.0) {
    a = first[family][2];
    b = 0.0;
    c = d = 1.0;
    if (family == CNM_HERMITE_H) c = 2.0 * k;
    if (family == CNM_HERMITE_HE) c = k;
    if (family >= CNM_LAGUERRE_L) {
      c = k;
      d = k + 1.0;
      if (family == CNM_LAGUERRE_L) b = k + d;
      else a = k + d;
    }
    for (int j = slope; j >= 0; j--) {
      next = CNM_MAD(a, x, b) * now[j] - c * before[j];
      if (j > 0) next += (double)j * a * now[j - 1];
      before[j] = now[j];
      now[j] = next / d;
    }
    if (now[slope] != now[slope]) break;
  }
  return now[slope];
}

/* The polynomial of degree n, cut to an integer, at x: 0 for degrees below 0 and what is no number. code is the family,
 * CNM_SLOPE added once for each derivative, of which there are three: NaN from the fourth on, for degrees above ten
 * million, and above `most` of Hermite's, which overflow. */
CNM_SLOW_FN double cnm_polynomial_most(double x, double n, double code, double most)
{
  int slope, family;
  double scale = 1.0;
  if (!(code >= 0.0 && code < CNM_SLOPE * CNM_SLOPES)) return CNM_NAN;
  slope = (int)code / CNM_SLOPE;
  family = (int)code % CNM_SLOPE;
  if (family > CNM_SHIFTED + CNM_CHEBYSHEV_W) return CNM_NAN;
  if (!(n > -1.0 && n < 9e18)) return 0.0;
  n = (double)(long long)n;
  if (n < (double)slope) return 0.0;
  if (n == 0.0) return 1.0;
  if (family >= CNM_SHIFTED) {
    family -= CNM_SHIFTED;
    x = CNM_MAD(2.0, x, -1.0);
    for (int j = 0; j < slope; j++) scale *= 2.0;
  }
  if (family <= CNM_CHEBYSHEV_W && slope == 0 && n > 1000.0 && CNM_ABS(x) < 1.0)
    return cnm_chebyshev_angle(family, x, n);
  if (n > 1e7 || (n > most && (family == CNM_HERMITE_H || family == CNM_HERMITE_HE))) return CNM_NAN;
  return scale * cnm_polynomial_ladder(family, slope, x, n);
}

CNM_SLOW_FN double cnm_polynomial(double x, double n, double code)
{
  return cnm_polynomial_most(x, n, code, 512.0);
}

CNM_SLOW_FN float cnm_polynomialf(float x, float n, float code)
{
  return (float)cnm_polynomial_most((double)x, (double)n, (double)code, 128.0);
}

#endif
