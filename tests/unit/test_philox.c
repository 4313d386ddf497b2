/* test_philox.c: the random-number core: published answers, independence of how a range is cut, moments. */
#include "test.h"

#include <math.h>

#include "base/philox.h"

static void published_answers(void **state)
{
  (void)state;
  static const struct {
    uint64_t key, low, high;
    uint32_t want[4];
  } cases[] = {/* the known answers of the authors' library */
               {0, 0, 0, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
               {UINT64_MAX, UINT64_MAX, UINT64_MAX, {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
               {UINT64_C(0x299f31d0a4093822), UINT64_C(0x85a308d3243f6a88), UINT64_C(0x0370734413198a2e),
                {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    uint32_t out[4];
    cni_philox(cases[i].key, cases[i].low, cases[i].high, out);
    assert_memory_equal(out, cases[i].want, sizeof out);
  }
}

static void element_i_depends_on_i_alone(void **state)
{
  (void)state;
  enum { N = 1000, PART = 150 };
  uint64_t seed = UINT64_C(0x123456789abcdef0), offset = UINT64_C(0xfffffff0); /* crosses 32 bits */
  uint32_t words[N], w[4];
  float all[N], part[PART];
  double all_f64[N], part_f64[PART];
  cni_random_u32(words, 0, N, seed, offset);
  for (uint32_t i = 0; i < N; i++) {
    cni_philox(seed, offset + i / 4, 0, w);
    assert_int_equal(words[i], w[i % 4]);
  }
  cni_random_normal_f32(all, 0, N, seed, offset);
  cni_random_normal_f64(all_f64, 0, N, seed, offset);
  for (int first = 0; first + PART <= N; first += 7) {
    cni_random_normal_f32(part, first, PART, seed, offset);
    assert_memory_equal(part, all + first, sizeof part);
    cni_random_normal_f64(part_f64, first, PART, seed, offset);
    assert_memory_equal(part_f64, all_f64 + first, sizeof part_f64);
  }
}

static void check_moments(const double *x, int n, double mean, double variance)
{
  double m = 0, v = 0;
  for (int i = 0; i < n; i++) m += x[i];
  m /= n;
  for (int i = 0; i < n; i++) v += (x[i] - m) * (x[i] - m);
  assert_float_equal(m, mean, 5 * sqrt(variance / n));
  assert_float_equal(v / n, variance, 10 * variance / sqrt(n));
}

static void moments(void **state)
{
  (void)state;
  enum { N = 100000 };
  float *f = malloc(N * sizeof *f);
  double *d = malloc(N * sizeof *d);
  assert_true(f && d);
  for (int normal = 0; normal < 2; normal++) {
    double mean = normal ? 0 : 0.5, variance = normal ? 1 : 1.0 / 12;
    if (normal) cni_random_normal_f64(d, 0, N, 1, 2);
    else cni_random_unit_f64(d, 0, N, 1, 2);
    check_moments(d, N, mean, variance);
    for (int i = 0; i < N && !normal; i++) assert_true(d[i] >= 0 && d[i] < 1);
    if (normal) cni_random_normal_f32(f, 0, N, 1, 2);
    else cni_random_unit_f32(f, 0, N, 1, 2);
    for (int i = 0; i < N && !normal; i++) assert_true(f[i] >= 0 && f[i] < 1);
    for (int i = 0; i < N; i++) d[i] = (double)f[i];
    check_moments(d, N, mean, variance);
  }
  free(f);
  free(d);
}

static void extremes_are_finite(void **state)
{
  (void)state;
  float x, y;
  double p, q;
  cni_normal_pair_f32(0, UINT32_MAX, &x, &y);
  assert_true(isfinite(x) && isfinite(y) && fabsf(x) > 6);
  cni_normal_pair_f32(UINT32_MAX, 0, &x, &y);
  assert_true(isfinite(x) && isfinite(y));
  cni_normal_pair_f64(0, UINT64_MAX, &p, &q);
  assert_true(isfinite(p) && isfinite(q) && fabs(p) > 8);
  cni_normal_pair_f64(UINT64_MAX, 0, &p, &q);
  assert_true(isfinite(p) && isfinite(q));
  assert_true(cni_unit_f32(UINT32_MAX, 24) < 1 && cni_unit_f32(UINT32_MAX, 8) < 1);
  assert_true(cni_unit_f32(0, 11) == 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(published_answers), cmocka_unit_test(element_i_depends_on_i_alone),
      cmocka_unit_test(moments), cmocka_unit_test(extremes_are_finite)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
