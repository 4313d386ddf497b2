/* Tests src/base/maths_bessel.h and maths_polynomial.h: Bessel functions against libm and integrals in long double,
 * Airy's against numbers computed in forty digits, polynomials against angles and against what they are to each other;
 * poles, ends and arguments that make no sense by their values.
 */
#define _GNU_SOURCE /* j0l */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include "test.h"
#include "../../src/base/maths.h"

static unsigned long long seed = 88172645463325252ULL;

/* Uniform in [a, b). */
static double between(double a, double b)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return a + (b - a) * ((double)(seed >> 11) * (1.0 / 9007199254740992.0));
}

/* The distance in units of the last place of a number of that size. */
static double ulps(double y, long double want, long double size)
{
  return (double)(fabsl(y - want) / ldexpl(1.0L, ilogbl(size) - 52));
}

/* ---- J and Y: the error is measured against the swing sqrt(J^2 + Y^2), which has no zeros ---- */

static void one_swing(const char *name, double x, double y, long double want, long double other, double bound)
{
  long double swing = x < 0.5 ? fabsl(want) : sqrtl(want * want + other * other);
  double off = ulps(y, want, swing);
  if (!(off <= bound)) fail_msg("%s(%.17g) is off by %g ulp", name, x, off);
}

static void test_swings(void **state)
{
  (void)state;
  for (int i = 0; i < 6000; i++) {
    double x = i % 3 == 0 ? between(0, 9) : i % 3 == 1 ? between(0, 60) : exp(between(-20, 12));
    long double j0 = j0l(x), j1 = j1l(x), y0 = y0l(x), y1 = y1l(x);
    one_swing("j0", x, cnm_bessel_j0(x), j0, y0, 10);
    one_swing("j1", x, cnm_bessel_j1(x), j1, y1, 10);
    one_swing("y0", x, cnm_bessel_y0(x), y0, j0, 10);
    one_swing("y1", x, cnm_bessel_y1(x), y1, j1, 10);
    assert_true(cnm_bessel_j0(-x) == cnm_bessel_j0(x) && cnm_bessel_j1(-x) == -cnm_bessel_j1(x));
  }
}

/* ---- K: the integral of exp(-x (cosh t - 1)) cosh(order t), by a sum that converges faster than any power ---- */

static long double ref_scaled_k(int order, long double x)
{
  long double h = 1 / (32 + 8 * sqrtl(x)), sum = 0.5L;
  for (int k = 1; k < 4000; k++) {
    long double t = k * h, s = sinhl(t / 2), term = expl(-2 * x * s * s) * coshl(order * t);
    sum += term;
    if (term < sum * 1e-22L) break;
  }
  return sum * h;
}

static void test_k(void **state)
{
  (void)state;
  for (int i = 0; i < 2000; i++) {
    double x = i % 2 ? between(0.001, 5) : exp(between(-6, 6.5));
    long double k0 = ref_scaled_k(0, x), k1 = ref_scaled_k(1, x), e = expl(-x);
    if (!(ulps(cnm_bessel_k0e(x), k0, k0) <= 8)) fail_msg("k0e(%.17g): %g ulp", x, ulps(cnm_bessel_k0e(x), k0, k0));
    if (!(ulps(cnm_bessel_k1e(x), k1, k1) <= 8)) fail_msg("k1e(%.17g): %g ulp", x, ulps(cnm_bessel_k1e(x), k1, k1));
    if (!(ulps(cnm_bessel_k0(x), k0 * e, k0 * e) <= 8)) fail_msg("k0(%.17g)", x);
    if (!(ulps(cnm_bessel_k1(x), k1 * e, k1 * e) <= 8)) fail_msg("k1(%.17g)", x);
  }
}

/* ---- Airy: x, Ai(x), and the swing around it (sqrt(Ai^2 + Bi^2) left of 0) ---- */

static const struct {
  double x;
  long double ai, swing;
} airy[] = {
    {-9000.5, 0.05787897002668668945600674L, 0.057923981L},
    {-100.0, 0.1767533932395528780908311L, 0.1784124L},
    {-31.25, -0.2017867773464380815080978L, 0.23862253L},
    {-10.0, 0.04024123848644319068943031L, 0.31724242L},
    {-7.5, 0.3217757163806478752673285L, 0.34086309L},
    {-5.5, 0.01778154127657497560302015L, 0.36824302L},
    {-5.0625, 0.3269443300658495783273135L, 0.37590567L},
    {-4.5, 0.2921527810559594668815689L, 0.38704596L},
    {-3.0, -0.3788142936776580743472439L, 0.42757344L},
    {-2.5625, -0.1541309008567090621707044L, 0.44414329L},
    {-1.5, 0.4642565777488694064742734L, 0.50231027L},
    {-0.25, 0.4187246142754529242283812L, 0.65324738L},
    {0.0, 0.3550280538878172392600632L, 0.35502805L},
    {0.5, 0.2316936064808334897691253L, 0.23169361L},
    {1.75, 0.05056988080579487164484524L, 0.050569881L},
    {2.5, 0.01572592338047048999526605L, 0.015725923L},
    {5.0, 0.000108344428136074417349865L, 0.00010834443L},
    {10.0, 1.104753255289868593355021e-10L, 1.1047533e-10L},
    {50.0, 4.58494172407482847834755e-104L, 4.5849417e-104L},
    {103.0, 1.956232022933922380729903e-304L, 1.956232e-304L},
};

static void test_airy(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof airy / sizeof *airy; i++) {
    double off = ulps(cnm_airy_ai(airy[i].x), airy[i].ai, airy[i].swing);
    if (!(off <= 6)) fail_msg("airy_ai(%g) is off by %g ulp", airy[i].x, off);
  }
  for (int i = 0; i < 4; i++) { /* where one expansion ends and the next begins */
    static const double ends[] = {-5, -2.5, 0, 2};
    double before = cnm_airy_ai(nextafter(ends[i], -9)), after = cnm_airy_ai(nextafter(ends[i], 9));
    assert_true(fabs(before - after) <= 4e-15);
  }
}

static void test_ends(void **state)
{
  (void)state;
  assert_true(cnm_bessel_j0(0.0) == 1.0 && cnm_bessel_j1(0.0) == 0.0 && isnan(cnm_bessel_j0(CNM_INF)));
  assert_true(cnm_bessel_y0(0.0) == -CNM_INF && cnm_bessel_y1(0.0) == -CNM_INF);
  assert_true(isnan(cnm_bessel_y0(-1.0)) && isnan(cnm_bessel_y1(-1.0)) && isnan(cnm_bessel_y0(CNM_NAN)));
  assert_true(cnm_bessel_k0(0.0) == CNM_INF && cnm_bessel_k1(0.0) == CNM_INF && cnm_bessel_k0e(CNM_INF) == 0.0);
  assert_true(cnm_bessel_k0(CNM_INF) == 0.0 && isnan(cnm_bessel_k0(-1.0)) && isnan(cnm_bessel_k1e(CNM_NAN)));
  assert_true(cnm_spherical_j0(0.0) == 1.0 && cnm_spherical_j0(-CNM_INF) == 0.0 && isnan(cnm_spherical_j0(CNM_NAN)));
  assert_true(isnan(cnm_airy_ai(CNM_INF)) && isnan(cnm_airy_ai(CNM_NAN)) && cnm_airy_ai(1e9) == 0.0);
}

/* ---- polynomials ---- */

static void near(const char *what, double n, double x, double y, double want, double size)
{
  if (!(fabs(y - want) <= 1e-13 * (size + fabs(want))))
    fail_msg("%s, n = %g, x = %.17g: %.17g, not %.17g", what, n, x, y, want);
}

static void test_chebyshev(void **state)
{
  (void)state;
  for (int i = 0; i < 4000; i++) {
    double n = floor(between(0, 40)), angle = between(0.05, 3.09), x = cos(angle);
    double size = (n + 1) * (n + 1) * 40; /* how much the angle's rounding moves them near the ends */
    near("T", n, x, cnm_polynomial(x, n, CNM_CHEBYSHEV_T), cos(n * angle), size);
    near("U", n, x, cnm_polynomial(x, n, CNM_CHEBYSHEV_U), sin((n + 1) * angle) / sin(angle), size);
    near("V", n, x, cnm_polynomial(x, n, CNM_CHEBYSHEV_V), cos((n + 0.5) * angle) / cos(0.5 * angle), size);
    near("W", n, x, cnm_polynomial(x, n, CNM_CHEBYSHEV_W), sin((n + 0.5) * angle) / sin(0.5 * angle), size);
    near("shifted", n, x, cnm_polynomial(0.5 * (x + 1), n, CNM_SHIFTED + CNM_CHEBYSHEV_U),
         cnm_polynomial(x, n, CNM_CHEBYSHEV_U), size);
    near("of high degree", n, x, cnm_polynomial(x, 2000 + n, CNM_CHEBYSHEV_T), cos((2000 + n) * angle), 4e6);
  }
}

/* What their slopes are by other polynomials. */
static void test_slopes(void **state)
{
  (void)state;
  for (int i = 0; i < 2000; i++) {
    double n = floor(between(1, 12)), x = between(-1.5, 1.5), sum = 0;
    near("T'", n, x, cnm_polynomial(x, n, CNM_SLOPE + CNM_CHEBYSHEV_T), n * cnm_polynomial(x, n - 1, CNM_CHEBYSHEV_U),
         n);
    near("H'", n, x, cnm_polynomial(x, n, CNM_SLOPE + CNM_HERMITE_H), 2 * n * cnm_polynomial(x, n - 1, CNM_HERMITE_H),
         1e7);
    near("H''", n, x, cnm_polynomial(x, n, 2 * CNM_SLOPE + CNM_HERMITE_H),
         4 * n * (n - 1) * cnm_polynomial(x, n - 2, CNM_HERMITE_H), 1e9);
    near("He'", n, x, cnm_polynomial(x, n, CNM_SLOPE + CNM_HERMITE_HE), n * cnm_polynomial(x, n - 1, CNM_HERMITE_HE),
         1e5);
    for (double k = 0; k < n; k++) sum -= cnm_polynomial(x, k, CNM_LAGUERRE_L);
    near("L'", n, x, cnm_polynomial(x, n, CNM_SLOPE + CNM_LAGUERRE_L), sum, 100);
    near("P'", n, x, (x * x - 1) * cnm_polynomial(x, n, CNM_SLOPE + CNM_LEGENDRE_P),
         n * (x * cnm_polynomial(x, n, CNM_LEGENDRE_P) - cnm_polynomial(x, n - 1, CNM_LEGENDRE_P)), 100);
  }
}

static void test_degrees(void **state)
{
  (void)state;
  assert_true(cnm_polynomial(0.3, -1.0, CNM_LEGENDRE_P) == 0.0 &&
              cnm_polynomial(0.3, CNM_NAN, CNM_LEGENDRE_P) == 0.0);
  assert_true(cnm_polynomial(0.3, 0.0, CNM_HERMITE_H) == 1.0 && cnm_polynomial(0.3, 1.9, CNM_HERMITE_H) == 0.6);
  assert_true(cnm_polynomial(0.3, 1.0, CNM_SLOPE + CNM_HERMITE_H) == 2.0);
  assert_true(cnm_polynomial(0.3, 2.0, 3 * CNM_SLOPE + CNM_HERMITE_H) == 0.0);
  assert_true(isnan(cnm_polynomial(0.3, 9.0, 4 * CNM_SLOPE + CNM_HERMITE_H)) && isnan(cnm_polynomial(0.3, 9.0, 12.0)));
  assert_true(isnan(cnm_polynomial(0.3, 9.0, -1.0)) && isnan(cnm_polynomial(0.3, 9.0, CNM_NAN)));
  assert_true(isnan(cnm_polynomialf(0.3f, 129.0f, CNM_HERMITE_H)));
  assert_true(cnm_polynomialf(0.5f, 2.0f, CNM_HERMITE_H) == -1.0f);
  assert_true(isnan(cnm_polynomial(0.3, 513.0, CNM_HERMITE_HE)) && isnan(cnm_polynomial(2.0, 2e7, CNM_LEGENDRE_P)));
  assert_true(isnan(cnm_polynomial(CNM_NAN, 3.0, CNM_LAGUERRE_L)));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_swings),  cmocka_unit_test(test_k),         cmocka_unit_test(test_airy),
      cmocka_unit_test(test_ends),    cmocka_unit_test(test_chebyshev), cmocka_unit_test(test_slopes),
      cmocka_unit_test(test_degrees),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
