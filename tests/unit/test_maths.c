/* Tests src/base/maths.h: every function against libm in a wider format (long double for double, double
 * for float) over all exponents, dense ranges and special values, holding it to the error its comment states;
 * and that a vectorised loop gives what a single call gives. Run with an argument N to sample N times as
 * densely and print the largest error found of each function, in ulp.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "test.h"
#include "../../src/base/maths.h"

enum { BLOCK = 512 };

static int effort = 1, verbose = 0;
static unsigned long long seed;

static unsigned long long rnd(void)
{
  seed ^= seed << 13;
  seed ^= seed >> 7;
  seed ^= seed << 17;
  return seed;
}

/* Uniform in [0, 1). */
static double rnd01(void)
{
  return (double)(rnd() >> 11) * (1.0 / 9007199254740992.0);
}

/* ---- references ---- */

static long double ref_sigmoid(long double x)
{
  return 1.0L / (1.0L + expl(-x));
}

static long double ref_rsqrt(long double x)
{
  return 1.0L / sqrtl(x);
}

static long double ref_erfinv(long double x)
{
  long double a = fabsl(x), w, y, e;
  int i;
  if (!(a < 1.0L)) return a == 1.0L ? copysignl(INFINITY, x) : (long double)NAN;
  if (a < 1e-30L) return x * 0.886226925452758013649L;
  w = sqrtl(-log1pl(-a * a));
  y = a < 0.5L ? a * 0.9L : w * 0.85L;
  for (i = 0; i < 40; i++) {
    e = a < 0.5L ? erfl(y) - a : (1.0L - a) - erfcl(y);
    e *= 0.886226925452758013649L * expl(y * y);
    e /= 1.0L + y * e;
    y -= e;
    if (fabsl(e) < 1e-19L * y) break;
  }
  return copysignl(y, x);
}

static long double ref_digamma(long double x)
{
  long double add = 0.0L, z;
  if (x == 0.0L) return copysignl(INFINITY, -x);
  if (x < 0.0L) {
    long double f = x - rintl(x);
    if (f == 0.0L || isinf(x)) return NAN;
    add = -3.14159265358979323846264L / tanl(3.14159265358979323846264L * f);
    x = 1.0L - x;
  }
  for (; x < 24.0L; x += 1.0L) add -= 1.0L / x;
  z = 1.0L / (x * x);
  z *= 1.0L / 12 - z * (1.0L / 120 - z * (1.0L / 252 - z * (1.0L / 240 - z * (1.0L / 132 -
       z * (691.0L / 32760 - z * (1.0L / 12 - z * 3617.0L / 8160))))));
  return add + (logl(x) - 0.5L / x - z);
}

/* ---- the table ---- */

/* One function in both formats: its loops, its reference, the bounds, and a range sampled densely. */
struct entry {
  const char *name;
  void (*f32)(const float *, const float *, float *, int);
  void (*f64)(const double *, const double *, double *, int);
  long double (*ref1)(long double);
  double (*low1)(double);
  long double (*ref2)(long double, long double);
  double ulp32, ulp64, lo, hi, limit; /* limit: largest |x| for f64, 0 for none */
};

#if defined(__GNUC__)
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE
#endif

#define LOOP1(fn) \
  static NOINLINE void f32_##fn(const float *x, const float *w, float *y, int n) \
  { \
    int i; \
    (void)w; \
    for (i = 0; i < n; i++) y[i] = cnm_##fn##f(x[i]); \
  } \
  static NOINLINE void f64_##fn(const double *x, const double *w, double *y, int n) \
  { \
    int i; \
    (void)w; \
    for (i = 0; i < n; i++) y[i] = cnm_##fn(x[i]); \
  }
#define LOOP2(fn) \
  static NOINLINE void f32_##fn(const float *x, const float *w, float *y, int n) \
  { \
    int i; \
    for (i = 0; i < n; i++) y[i] = cnm_##fn##f(x[i], w[i]); \
  } \
  static NOINLINE void f64_##fn(const double *x, const double *w, double *y, int n) \
  { \
    int i; \
    for (i = 0; i < n; i++) y[i] = cnm_##fn(x[i], w[i]); \
  }
#define LOOP64(fn) \
  static NOINLINE void f64_##fn(const double *x, const double *w, double *y, int n) \
  { \
    int i; \
    (void)w; \
    for (i = 0; i < n; i++) y[i] = cnm_##fn(x[i]); \
  }

LOOP1(exp)
LOOP1(expm1)
LOOP1(exp2)
LOOP1(log)
LOOP1(log2)
LOOP1(log10)
LOOP1(log1p)
LOOP1(sin)
LOOP1(cos)
LOOP1(tan)
LOOP1(asin)
LOOP1(acos)
LOOP1(atan)
LOOP1(sinh)
LOOP1(cosh)
LOOP1(tanh)
LOOP1(asinh)
LOOP1(acosh)
LOOP1(atanh)
LOOP1(sigmoid)
LOOP1(erf)
LOOP1(erfc)
LOOP1(erfinv)
LOOP1(rsqrt)
LOOP1(lgamma)
LOOP1(digamma)
LOOP2(atan2)
LOOP2(pow)
LOOP64(sin_full)
LOOP64(cos_full)
LOOP64(tan_full)

#define E1(fn, ref, low, u32, u64, lo, hi) {#fn, f32_##fn, f64_##fn, ref, low, NULL, u32, u64, lo, hi, 0}
#define ET(fn, u32, u64) {#fn, f32_##fn, f64_##fn, fn##l, fn, NULL, u32, u64, -100, 100, CNM_TRIG_MAX}
#define EF(fn, u64) {#fn "_full", NULL, f64_##fn##_full, fn##l, fn, NULL, 0, u64, -1e9, 1e9, 0}

static const struct entry table[] = {
  E1(exp, expl, exp, 1.2, 1.1, -110, 100),
  E1(expm1, expm1l, expm1, 1.6, 2.1, -3, 3),
  E1(exp2, exp2l, exp2, 1.2, 1.4, -160, 130),
  E1(log, logl, log, 1.1, 1.1, 0.3, 3),
  E1(log2, log2l, log2, 1.9, 1.8, 0.3, 3),
  E1(log10, log10l, log10, 2.2, 1.9, 0.3, 3),
  E1(log1p, log1pl, log1p, 1.7, 1.5, -1, 4),
  ET(sin, 1.8, 0.9),
  ET(cos, 1.8, 1),
  ET(tan, 0.6, 1.1),
  EF(sin, 0.9),
  EF(cos, 1),
  EF(tan, 1.2),
  E1(asin, asinl, asin, 2.5, 2.4, -1, 1),
  E1(acos, acosl, acos, 1.3, 1.3, -1, 1),
  E1(atan, atanl, atan, 2, 2, -3, 3),
  E1(sinh, sinhl, sinh, 2.3, 2.4, -5, 5),
  E1(cosh, coshl, cosh, 1.6, 1.6, -5, 5),
  E1(tanh, tanhl, tanh, 1.6, 1.6, -3, 3),
  E1(asinh, asinhl, asinh, 2, 1.9, -5, 5),
  E1(acosh, acoshl, acosh, 2.6, 2.2, 1, 9),
  E1(atanh, atanhl, atanh, 2.3, 2.1, -1, 1),
  E1(sigmoid, ref_sigmoid, NULL, 2, 2, -20, 20),
  E1(erf, erfl, erf, 1.5, 1.6, -6, 6),
  E1(erfc, erfcl, erfc, 3.4, 3.1, -2, 28),
  E1(erfinv, ref_erfinv, NULL, 1.6, 2.6, -1, 1),
  E1(rsqrt, ref_rsqrt, NULL, 1.7, 1.7, 0.1, 10),
  {"atan2", f32_atan2, f64_atan2, NULL, NULL, atan2l, 2, 1.9, -3, 3, 0},
  {"pow", f32_pow, f64_pow, NULL, NULL, powl, 0.6, 1.4, -3, 3, 0},
};

/* ---- comparing ---- */

/* How far `got` is from `want` in units of the last place of a format with `digits` bits and lowest bit
 * 2^`bottom`; huge where kind or sign differs. `near` is want rounded to that format. */
static double distance(long double got, long double want, long double near, int digits, int bottom)
{
  int e;
  if (isnan(want)) return isnan(got) ? 0.0 : 1e30;
  if (isnan(got)) return 1e30;
  if (got == near) return (got != 0.0L || signbit(got) == signbit(near)) ? 0.0 : 1e30;
  if (isinf(got)) return isinf(near) ? 1e30 : 1e20;
  if (isinf(near) && isinf(want)) return 1e30;
  (void)frexpl(want, &e);
  e -= digits;
  if (want == 0.0L || e < bottom) e = bottom;
  return (double)fabsl(ldexpl(got - want, -e));
}

struct worst {
  double ulp, x, w, got;
};

static void note(struct worst *s, double ulp, double x, double w, double got)
{
  if (!(ulp <= s->ulp)) {
    s->ulp = ulp;
    s->x = x;
    s->w = w;
    s->got = got;
  }
}

static void check32(const struct entry *e, const float *x, const float *w, int n, struct worst *s)
{
  float y[BLOCK], one;
  int i;
  e->f32(x, w, y, n);
  for (i = 0; i < n; i++) {
    long double want = e->ref2 ? e->ref2(x[i], w[i]) : e->low1 ? e->low1(x[i]) : e->ref1(x[i]);
    note(s, distance(y[i], want, (float)want, 24, -149), x[i], w[i], y[i]);
  }
  e->f32(x + n / 2, w + n / 2, &one, 1); /* a lane alone */
  if (memcmp(&one, &y[n / 2], sizeof one) != 0 && !(isnan(one) && isnan(y[n / 2])))
    note(s, 1e25, x[n / 2], w[n / 2], one);
}

static void check64(const struct entry *e, const double *x, const double *w, int n, struct worst *s)
{
  double y[BLOCK], one;
  int i;
  e->f64(x, w, y, n);
  for (i = 0; i < n; i++) {
    long double want = e->ref2 ? e->ref2(x[i], w[i]) : e->ref1(x[i]);
    note(s, distance(y[i], want, (double)want, 53, -1074), x[i], w[i], y[i]);
  }
  e->f64(x + n / 2, w + n / 2, &one, 1);
  if (memcmp(&one, &y[n / 2], sizeof one) != 0 && !(isnan(one) && isnan(y[n / 2])))
    note(s, 1e25, x[n / 2], w[n / 2], one);
}

/* ---- sampling ---- */

static const double specials[] = {
  0.0, 1.0, 2.0, 3.0, 0.5, 0.25, 1.5, 2.5, 0.75, 4.0, 5.0, 10.0, 100.0, 1023.0, 1024.0, 1074.0, 1075.0,
  126.0, 127.0, 128.0, 149.0, 150.0, 88.0, 88.7, 88.73, 89.0, 89.3, 89.41, 89.42, 103.0, 104.0, 709.7,
  709.79, 710.0, 710.4, 710.48, 745.0, 745.2, 746.0, 1e-5, 1e-10, 1e-20, 1e-30, 1e-38, 1e-40, 1e-45,
  1e-300, 1e-310, 5e-324, 1e5, 1e7, 8388607.0, 8388608.0, 8388609.0, 16777215.0, 16777216.0, 16777217.0,
  1e10, 1e20, 1e30, 3.4e38, 3.4028234663852886e38, 1e50, 1e100, 1e300, 1.7976931348623157e308,
  4503599627370495.5, 4503599627370496.0, 4503599627370497.0, 9007199254740991.0, 9007199254740992.0,
  9007199254740994.0, 1.1754943508222875e-38, 2.2250738585072014e-308, 0.99999994039535522,
  0.99999999999999989, 1.0000001192092896, 1.0000000000000002, 1.5707963267948966, 3.1415926535897931,
  1.5707963705062866, 0.78539816339744828, 0.85, 6.0, 28.0, INFINITY, NAN
};
enum { NSPECIAL = (int)(sizeof specials / sizeof specials[0]) };

static double special(int i)
{
  return i < NSPECIAL ? specials[i] : -specials[i - NSPECIAL];
}

/* The i-th sample: specials first, then by turns any exponent, ordinary exponents, the dense range. */
static double sample(const struct entry *e, long i, int wide)
{
  double m = 1.0 + rnd01(), v;
  if (i < 2 * NSPECIAL) return special((int)i);
  switch (i % 4) {
  case 0:
    v = ldexp(m, wide ? (int)(rnd() % 2098) - 1074 : (int)(rnd() % 277) - 149);
    return rnd() & 1 ? v : -v;
  case 1:
    v = ldexp(m, (int)(rnd() % 40) - 32);
    return rnd() & 1 ? v : -v;
  default:
    return e->lo + (e->hi - e->lo) * rnd01();
  }
}

/* The second argument for a pow of x: one that lands the result in range, or an integer, or anything. */
static double partner(const struct entry *e, double x, long i, int wide)
{
  double l = log2(fabs(x)), t;
  if (i < 4L * NSPECIAL * NSPECIAL) return special((int)(i / (2 * NSPECIAL)));
  if (i % 3 == 0 || strcmp(e->name, "pow") != 0) return sample(e, 1000 + i, wide);
  t = (rnd01() * 2.0 - 1.0) * (wide ? 1100.0 : 155.0);
  t = t / (l == 0.0 ? 1.0 : l);
  return i % 3 == 1 ? t : nearbyint(t);
}

static void run32(const struct entry *e, struct worst *s)
{
  long n = (e->ref2 ? 4L * NSPECIAL * NSPECIAL + 60000 : 40000) * effort, i;
  float x[BLOCK], w[BLOCK] = {0};
  int j;
  for (i = 0; i < n; i += BLOCK) {
    for (j = 0; j < BLOCK; j++) {
      long at = e->ref2 && i + j < 4L * NSPECIAL * NSPECIAL ? (i + j) % (2 * NSPECIAL) : i + j;
      x[j] = (float)sample(e, at, 0);
      if (e->ref2) w[j] = (float)partner(e, (double)x[j], i + j, 0);
    }
    check32(e, x, w, BLOCK, s);
  }
}

static void run64(const struct entry *e, struct worst *s)
{
  long n = (e->ref2 ? 4L * NSPECIAL * NSPECIAL + 60000 : 40000) * effort, i;
  double x[BLOCK], w[BLOCK] = {0};
  int j;
  for (i = 0; i < n; i += BLOCK) {
    for (j = 0; j < BLOCK; j++) {
      long at = e->ref2 && i + j < 4L * NSPECIAL * NSPECIAL ? (i + j) % (2 * NSPECIAL) : i + j;
      x[j] = sample(e, at, 1);
      if (e->limit > 0.0 && fabs(x[j]) > e->limit && !isinf(x[j])) x[j] = fmod(x[j], e->limit);
      if (e->ref2) w[j] = partner(e, x[j], i + j, 1);
    }
    check64(e, x, w, BLOCK, s);
  }
}

static int report(const char *name, const char *type, const struct worst *s, double bound)
{
  int bad = !(s->ulp <= bound);
  if (verbose || bad)
    printf("%s %-10s %s %8.3f ulp (bound %g) at %.17g, %.17g: got %.17g\n", bad ? "BAD" : "ok ", name, type,
           s->ulp, bound, s->x, s->w, s->got);
  return bad;
}

static void test_bounds(void **state)
{
  size_t i;
  int bad = 0;
  (void)state;
  for (i = 0; i < sizeof table / sizeof table[0]; i++) {
    const struct entry *e = &table[i];
    struct worst s = {-1, 0, 0, 0}, d = {-1, 0, 0, 0};
    seed = 0x9e3779b97f4a7c15ULL + i;
    if (e->f32) {
      run32(e, &s);
      bad += report(e->name, "f32", &s, e->ulp32);
    }
    run64(e, &d);
    bad += report(e->name, "f64", &d, e->ulp64);
  }
  assert_int_equal(bad, 0);
}

/* lgamma and digamma: 4 ulp on the positive axis; on the negative one an absolute bound beside the terms. */
static void gamma_side(const char *name, void (*f32)(const float *, const float *, float *, int),
                       void (*f64)(const double *, const double *, double *, int),
                       long double (*ref)(long double), int *bad)
{
  struct entry e = {"gamma", NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 12, 0};
  struct worst s = {-1, 0, 0, 0}, d = {-1, 0, 0, 0}, m = {-1, 0, 0, 0};
  int i;
  for (i = 0; i < 30000 * effort; i++) {
    double x = sample(&e, i, 1), y;
    float xf = (float)x, yf;
    long double want;
    if (fabs(x) > 1e305 || fabs(x) < 1e-305) continue;
    f64(&x, &x, &y, 1);
    want = ref(x);
    if (x >= 0.0 || isinf(want) || isnan(want)) {
      double u = distance(y, want, (double)want, 53, -1074);
      if (fabsl(want) < 0.05L && fabsl(want) > 0.0L) /* next to a zero the reference itself is off by 1e-18 */
        u -= 1e-18 / ldexp(1.0, ilogb((double)want) - 52);
      note(&d, u, x, 0, y);
    } else {
      long double size = fabsl(want) + 4.0L + logl(fabsl(x) + 1.0L) * (1.0L + fabsl(x));
      note(&m, (double)(fabsl(y - want) / size / DBL_EPSILON), x, 0, y);
    }
    if (fabsf(xf) > 1e36f) continue;
    f32(&xf, &xf, &yf, 1);
    want = ref(xf);
    if (xf >= 0.0f || isinf(want) || isnan(want))
      note(&s, distance(yf, want, (float)want, 24, -149), xf, 0, yf);
  }
  *bad += report(name, "f32", &s, 0.6);
  *bad += report(name, "f64", &d, 4.0);
  *bad += report(name, "neg", &m, 16.0);
}

static void test_gamma(void **state)
{
  int bad = 0;
  (void)state;
  seed = 12345;
  gamma_side("lgamma", f32_lgamma, f64_lgamma, lgammal, &bad);
  gamma_side("digamma", f32_digamma, f64_digamma, ref_digamma, &bad);
  assert_int_equal(bad, 0);
}

/* Exact results promised by the comments. */
static void test_exact(void **state)
{
  int i;
  (void)state;
  for (i = -149; i <= 127; i++) {
    assert_true(cnm_exp2f((float)i) == (float)ldexp(1.0, i));
    assert_true(cnm_log2f((float)ldexp(1.0, i)) == (float)i);
  }
  for (i = -1074; i <= 1023; i++) {
    assert_true(cnm_exp2((double)i) == ldexp(1.0, i));
    assert_true(cnm_log2(ldexp(1.0, i)) == (double)i);
  }
  assert_true(cnm_pow(3.0, 5.0) == 243.0 && cnm_powf(3.0f, 5.0f) == 243.0f);
  assert_true(cnm_pow(-2.0, 3.0) == -8.0 && cnm_powf(-2.0f, -1.0f) == -0.5f);
  assert_true(cnm_sigmoid(0.0) == 0.5 && cnm_sigmoidf(0.0f) == 0.5f);
  assert_true(cnm_lgamma(1.0) == 0.0 && cnm_lgamma(2.0) == 0.0);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_exact),
    cmocka_unit_test(test_bounds),
    cmocka_unit_test(test_gamma),
  };
  if (argc > 1) {
    effort = atoi(argv[1]);
    effort = effort < 1 ? 1 : effort;
    verbose = 1;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
