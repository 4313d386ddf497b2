/* Tests src/base/maths_special.h and maths_zeta.h: each function against sums and libm in long double, held to the
 * error its comment states; poles, ends and arguments that make no sense by their values.
 */
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

static double ulps(double y, long double want)
{
  if (fabsl(want) < DBL_MIN || fabsl(want) > DBL_MAX) return 0;
  return (double)(fabsl(y - want) / ldexpl(1.0L, ilogbl(want) - 52));
}

/* ---- references ---- */

static long double ref_erfcx(long double x) { return expl(x * x) * erfcl(x); }
static long double ref_ndtr(long double x) { return 0.5L * erfcl(-x * 0.707106781186547524400844362104849L); }
static long double ref_log_ndtr(long double x) { return x > 0 ? log1pl(-ref_ndtr(-x)) : logl(ref_ndtr(x)); }

static long double ref_bessel(int order, long double x)
{
  long double term = order ? 0.5L * x : 1, sum = term;
  for (int k = 1; k < 4000 && fabsl(term) > fabsl(sum) * 1e-22L; k++) {
    term *= 0.25L * x * x / ((long double)k * (k + order));
    sum += term;
  }
  return sum;
}
static long double ref_i0(long double x) { return ref_bessel(0, x); }
static long double ref_i1(long double x) { return ref_bessel(1, x); }
static long double ref_i0e(long double x) { return ref_bessel(0, x) * expl(-fabsl(x)); }
static long double ref_i1e(long double x) { return ref_bessel(1, x) * expl(-fabsl(x)); }

static long double ref_zeta(long double s, long double q)
{
  long double sum = 0, a, t, f;
  static const long double b[] = {1 / 12.0L, -1 / 720.0L, 1 / 30240.0L, -1 / 1209600.0L};
  for (int k = 0; k < 400; k++) sum += powl(q + k, -s);
  a = q + 400;
  t = powl(a, -s);
  sum += t * a / (s - 1) + 0.5L * t;
  f = s * t / a;
  for (int k = 0; k < 4; k++, f *= (s + 2 * k - 1) * (s + 2 * k) / (a * a)) sum += f * b[k];
  return sum;
}

static long double ref_igamma(long double a, long double x)
{
  long double term = 1, sum = 1;
  for (int n = 1; n < 5000 && term > sum * 1e-22L; n++) sum += term *= x / (a + n);
  return sum * expl(a * logl(x) - x - lgammal(a + 1));
}

/* ---- one argument ---- */

static void one(const char *name, double (*f)(double), long double (*ref)(long double), double low, double high,
                double bound)
{
  double worst = 0, at = 0;
  for (int i = 0; i < 4000; i++) {
    double x = between(low, high), u = ulps(f(x), ref(x));
    if (!(u <= worst)) worst = u, at = x;
  }
  if (!(worst <= bound)) fail_msg("%s(%.17g) is off by %g ulp", name, at, worst);
}

#define WRAP(name) \
  static double do_##name(double x) { return cnm_##name(x); }
WRAP(erfcx) WRAP(ndtr) WRAP(log_ndtr) WRAP(i0) WRAP(i0e) WRAP(i1) WRAP(i1e)

static void test_one_argument(void **state)
{
  (void)state;
  one("erfcx", do_erfcx, ref_erfcx, -26, 3, 5);
  one("erfcx", do_erfcx, ref_erfcx, 0, 60, 5);
  one("ndtr", do_ndtr, ref_ndtr, -37, 9, 5);
  one("log_ndtr", do_log_ndtr, ref_log_ndtr, -100, 30, 5);
  one("log_ndtr", do_log_ndtr, ref_log_ndtr, -3, 3, 5);
  one("i0", do_i0, ref_i0, -12, 12, 5);
  one("i0", do_i0, ref_i0, 8, 700, 5);
  one("i0e", do_i0e, ref_i0e, -12, 700, 5);
  one("i1", do_i1, ref_i1, -12, 12, 5);
  one("i1", do_i1, ref_i1, 8, 700, 5);
  one("i1e", do_i1e, ref_i1e, -12, 700, 5);
}

/* The inverse is checked through ndtr: a step of the argument moves it by the density. */
static void test_ndtri(void **state)
{
  (void)state;
  for (int i = 0; i < 4000; i++) {
    double p = i % 2 ? between(0, 1) : pow(10, between(-300, -1)), x = cnm_ndtri(p);
    long double density = expl(-0.5L * x * x) * 0.398942280401432677939946059934382L;
    long double off = (ref_ndtr(x) - p) / density;
    if (!(fabsl(off) <= 5 * DBL_EPSILON * fabsl(x) + 1e-18L)) fail_msg("ndtri(%.17g) is off by %Lg", p, off);
  }
  assert_true(cnm_ndtri(0.0) == -CNM_INF && cnm_ndtri(1.0) == CNM_INF && cnm_ndtri(0.5) == 0.0);
  assert_true(isnan(cnm_ndtri(-0.1)) && isnan(cnm_ndtri(1.1)));
}

/* ---- two arguments ---- */

static void test_two_arguments(void **state)
{
  (void)state;
  for (int i = 0; i < 3000; i++) {
    double s = i % 2 ? between(1.01, 30) : floor(between(2, 30)), q = i % 3 ? between(0, 4) : between(0, 90), u;
    if ((u = ulps(cnm_zeta(s, q), ref_zeta(s, q))) > 14) fail_msg("zeta(%.17g, %.17g) is off by %g ulp", s, q, u);
    double n = floor(between(1, 9)), y = fabs(cnm_polygamma(n, q));
    if ((u = ulps(y, tgammal(n + 1) * ref_zeta(n + 1, q))) > 14) fail_msg("polygamma(%g, %.17g): %g ulp", n, q, u);
    double a = i % 2 ? between(0, 30) : between(30, 600), x = a * between(0.3, 2);
    long double p = ref_igamma(a, x);
    double off = (double)(60 - 4 * logl(p)) + 0.5 * a; /* the reference's own exponent is off by a / 4 ulp */
    if ((u = ulps(cnm_igamma(a, x), p)) > off) fail_msg("igamma(%.17g, %.17g) is off by %g ulp", a, x, u);
    if (p < 0.999L && (u = ulps(cnm_igammac(a, x), 1 - p)) > 1000 * off) fail_msg("igammac(%.17g, %.17g): %g", a, x, u);
  }
}

static void test_ends(void **state)
{
  (void)state;
  assert_true(cnm_erfcx(0.0) == 1.0 && cnm_erfcx(CNM_INF) == 0.0 && cnm_erfcx(-CNM_INF) == CNM_INF);
  assert_true(cnm_ndtr(CNM_INF) == 1.0 && cnm_ndtr(-CNM_INF) == 0.0 && cnm_ndtr(0.0) == 0.5);
  assert_true(cnm_log_ndtr(CNM_INF) == 0.0 && cnm_log_ndtr(-CNM_INF) == -CNM_INF);
  assert_true(cnm_i0(0.0) == 1.0 && cnm_i0(-CNM_INF) == CNM_INF && cnm_i0e(CNM_INF) == 0.0);
  assert_true(cnm_i1(0.0) == 0.0 && cnm_i1(-CNM_INF) == -CNM_INF && cnm_i1e(CNM_INF) == 0.0);
  assert_true(isnan(cnm_i0(CNM_NAN)) && isnan(cnm_i1e(CNM_NAN)) && isnan(cnm_erfcx(CNM_NAN)));
  assert_true(cnm_zeta(1.0, 2.0) == CNM_INF && isnan(cnm_zeta(0.5, 2.0)) && cnm_zeta(2.0, -3.0) == CNM_INF);
  assert_true(isnan(cnm_zeta(2.5, -0.5)) && fabs(cnm_zeta(2.0, -0.5) - 8.9348022005446793) < 1e-13);
  assert_true(isfinite(cnm_zeta(3.0, -1e15 - 0.5)));
  assert_true(cnm_igamma(0.0, 1.0) == 1.0 && cnm_igammac(0.0, 1.0) == 0.0 && cnm_igamma(2.0, 0.0) == 0.0);
  assert_true(isnan(cnm_igamma(-1.0, 1.0)) && isnan(cnm_igammac(1.0, -1.0)) && cnm_igamma(2.0, CNM_INF) == 1.0);
  assert_true(fabs(cnm_igamma(1e12, 1e12) - 0.5) < 1e-6 && cnm_igamma(1e12, 2e12) == 1.0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_one_argument),
    cmocka_unit_test(test_ndtri),
    cmocka_unit_test(test_two_arguments),
    cmocka_unit_test(test_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
