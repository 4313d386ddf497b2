/* test_quick_loops.c: loops that stand in for their like: remainders equal the C library's to the bit, a power of one
 * exponent is what the same exponent gives among others, activations by whole vectors are those of few elements. With
 * every instruction set that the machine has. */
#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/isa.h"
#include "test.h"

enum { COUNT = 4099 };

static double inputs[2][COUNT];

/* Numbers of all sizes, among them quotients that are integers or nearly, zeros, infinities and NaN. */
static void fill(void)
{
  static const double special[] = {0.0, -0.0, 1, -3, 0.1, INFINITY, -INFINITY, NAN, 1e30, 1e-30, 4194304, 0.5};
  uint64_t state = 42;
  for (int i = 0; i < COUNT; i++)
    for (int k = 0; k < 2; k++) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      double unit = (double)(int64_t)(state >> 11) / 9007199254740992.0 - 0.5;
      int kind = (int)(state >> 5 & 7);
      inputs[k][i] = kind == 0   ? special[(state >> 20) % (sizeof special / sizeof *special)]
                     : kind == 1 ? floor(unit * 100)
                     : kind == 2 ? ldexp(unit, (int)(state >> 40 & 63) - 32)
                                 : unit * 8;
    }
}

static cn_tensor *input(int k, int from, int n, cn_dtype dtype)
{
  return cn_cast(cn_from_data(inputs[k] + from, CN_SHAPE(n), CN_F64), dtype);
}

static bool same(double a, double b) { return (a != a && b != b) || (a == b && signbit(a) == signbit(b)); }

static void check_fmod(cn_dtype dtype, int from, int n)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = input(0, from, n, dtype), *b = input(1, from, n, dtype);
  cn_tensor *y = cn_cast(cn_fmod(a, b), CN_F64), *r = cn_cast(cn_remainder(a, b), CN_F64);
  const double *got = cn_data(y), *rest = cn_data(r);
  const double *u = cn_data(cn_cast(a, CN_F64)), *v = cn_data(cn_cast(b, CN_F64));
  for (int i = 0; i < n; i++) {
    double want = fmod(u[i], v[i]), floored = want != 0 && (want < 0) != (v[i] < 0) ? want + v[i] : want;
    if (dtype == CN_F32) floored = (float)floored;
    if (!same(got[i], want)) fail_msg("fmod(%a, %a) is %a, not %a", u[i], v[i], got[i], want);
    if (!same(rest[i], floored)) fail_msg("remainder(%a, %a) is %a, not %a", u[i], v[i], rest[i], floored);
  }
  cn_scope_end(s);
}

static void remainders(void **state)
{
  (void)state;
  for (int level = CNI_ISA_BASE; level <= CNI_ISA_BEST; level++) {
    cni_cpu_isa_cap(level);
    for (int k = 0; k < 2; k++) {
      check_fmod(k ? CN_F64 : CN_F32, 0, COUNT);
      check_fmod(k ? CN_F64 : CN_F32, 5, 1);
      for (int i = 0; i < COUNT - 37; i += 37) check_fmod(k ? CN_F64 : CN_F32, i, 37); /* some have no odd ones */
    }
  }
  cni_cpu_isa_cap(-1);
}

static void powers(void **state)
{
  (void)state;
  static const double exponents[] = {1, 2, 3, -1, -2, -3, 0.5, -0.5, 0, 1.5};
  enum { KINDS = sizeof exponents / sizeof *exponents };
  for (int level = CNI_ISA_BASE; level <= CNI_ISA_BEST; level++) {
    cni_cpu_isa_cap(level);
    for (int k = 0; k < 2; k++) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *x = input(0, 0, COUNT, k ? CN_F64 : CN_F32);
      cn_tensor *list = cn_cast(cn_from_data(exponents, CN_SHAPE(KINDS), CN_F64), k ? CN_F64 : CN_F32);
      cn_tensor *all = cn_add(list, cn_zeros(CN_SHAPE(COUNT, KINDS)));
      cn_tensor *mixed = cn_contiguous(cn_t(cn_pow(cn_unsqueeze(x, 1), all)));
      for (int e = 0; e < KINDS; e++) {
        const char *one = cn_data(cn_pow(x, cn_num(exponents[e]))), *among = cn_data(mixed);
        size_t size = k ? 8 : 4;
        for (size_t i = 0; i < COUNT; i++) {
          const char *a = one + i * size, *b = among + ((size_t)e * COUNT + i) * size;
          double u = k ? *(const double *)(const void *)a : *(const float *)(const void *)a;
          double v = k ? *(const double *)(const void *)b : *(const float *)(const void *)b;
          if (!same(u, v))
            fail_msg("%a to the power of %g is %a, and %a among others", inputs[0][i], exponents[e], u, v);
        }
      }
      cn_scope_end(s);
    }
  }
  cni_cpu_isa_cap(-1);
}

/* Each float has the same bits in a long block as in one that is shorter than a vector. */
static void check_vectors(const char *program)
{
  enum { FLOATS = 1 << 15, SHORT = 13 };
  static uint32_t bits[FLOATS];
  cn_scope *s = cn_scope_begin();
  for (uint32_t i = 0; i < FLOATS; i++) bits[i] = i * 0x20011u; /* all exponents, both signs, NaN */
  cn_tensor *x = cn_from_data(bits, CN_SHAPE(FLOATS), CN_F32), *whole = NULL, *part = NULL;
  assert_int_equal(cn_pointwise(&whole, 1, &x, 1, program, NULL, 0), 1);
  const char *all = cn_data(whole);
  for (int64_t at = 0; at < FLOATS; at += SHORT) {
    cn_scope *inner = cn_scope_begin();
    int64_t n = FLOATS - at < SHORT ? FLOATS - at : SHORT;
    cn_tensor *some = cn_from_data(bits + at, CN_SHAPE(n), CN_F32);
    assert_int_equal(cn_pointwise(&part, 1, &some, 1, program, NULL, 0), 1);
    if (memcmp(cn_data(part), all + 4 * at, (size_t)n * 4)) fail_msg("%s: other bits in a short block", program);
    cn_scope_end(inner);
  }
  cn_scope_end(s);
}

static void activations(void **state)
{
  (void)state;
  for (int level = CNI_ISA_BASE; level <= CNI_ISA_BEST; level++) {
    cni_cpu_isa_cap(level);
    check_vectors("1||exp 0|1");
    check_vectors("1||sigmoid 0|1");
    check_vectors("1||silu 0|1");
    check_vectors("1||silu_slope 0|1");
  }
  cni_cpu_isa_cap(-1);
}

int main(void)
{
  fill();
  const struct CMUnitTest tests[] = {cmocka_unit_test(remainders), cmocka_unit_test(powers),
                                     cmocka_unit_test(activations)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
