/* test_loop_ends.c: loops of pointwise functions at every length around a vector's: the same bits as in a longer run,
 * and nothing written behind the end. Checks backends/cpu/pointwise/pointwise_isa.c on all levels of the machine. */
#include <cairn/cairn.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/isa.h"
#include "test.h"

enum { LONGEST = 40, MARK = 77 };

static const char *const ones[] = {
  "exp", "expm1", "exp2", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh",
  "tanh", "asinh", "acosh", "atanh", "sigmoid", "erf", "erfc", "erfinv", "i0", "special_i0e", "special_i1",
  "special_erfcx", "special_ndtr", "special_log_ndtr", "gelu", "silu", "mish", "logsigmoid", "elu", "softplus", "sqrt",
  "hardswish",
  "lgamma", "digamma", "special_ndtri", "special_bessel_j0", "special_airy_ai"
};
static const char *const twos[] = {"atan2", "hypot", "fmod", "remainder", "igamma", "special_zeta"};

static cn_tensor *called(const char *name, cn_tensor *x, cn_tensor *y)
{
  const cn_value args[] = {cn_v_tensor(x), cn_v_tensor(y ? y : x)};
  cn_tensor *out = NULL;
  size_t n = 1;
  const int status = cn_op_call(&out, &n, cn_op_find(name), args, y ? 2 : 1, NULL);
  if (status) print_error("%s: %s\n", name, cn_err_message());
  assert_int_equal(status, 0);
  return out;
}

static cn_tensor *first_of(cn_tensor *x, int64_t n) { return cn_contiguous(cn_slice(x, 0, 0, n)); }

/* At each length: the first n of all results. */
static void ends(const char *name, cn_tensor *x, cn_tensor *y)
{
  cn_tensor *all = called(name, x, y);
  const size_t size = cn_dtype_size(cn_dtype_of(x));
  for (int64_t n = 1; n < LONGEST; n++) {
    cn_tensor *part = called(name, first_of(x, n), y ? first_of(y, n) : NULL);
    if (memcmp(cn_data(part), cn_data(all), (size_t)n * size)) {
      print_error("%s differs at length %d\n", name, (int)n);
      fail();
    }
    cn_release(part);
  }
  cn_release(all);
}

static void over_all(const char *const *names, size_t count, bool two)
{
  for (int level = 0; level <= CNI_ISA_BEST; level++) {
    cni_cpu_isa_cap(level);
    for (size_t i = 0; i < 2 * count; i++) {
      cn_scope *s = cn_scope_begin();
      const cn_dtype type = i % 2 ? CN_F64 : CN_F32;
      cn_tensor *x = cn_linspace(0.01, 0.99, LONGEST, .dtype = type);
      cn_tensor *y = cn_linspace(0.9, 3.0, LONGEST, .dtype = type);
      ends(names[i / 2], two ? y : x, two ? x : NULL);
      cn_scope_end(s);
    }
  }
  cni_cpu_isa_cap(-1);
}

static void test_of_one_number(void **state)
{
  (void)state;
  over_all(ones, sizeof ones / sizeof *ones, false);
}

static void test_of_two_numbers(void **state)
{
  (void)state;
  over_all(twos, sizeof twos / sizeof *twos, true);
}

/* In place over the first elements of a block: those behind them stay. */
static void test_nothing_behind_the_end(void **state)
{
  (void)state;
  for (int level = 0; level <= CNI_ISA_BEST; level++) {
    cni_cpu_isa_cap(level);
    for (int64_t n = 0; n < LONGEST; n++) {
      cn_scope *s = cn_scope_begin();
      cn_tensor *block = cn_full(CN_SHAPE(LONGEST), MARK);
      cn_tanh_(cn_slice(block, 0, 0, n));
      const float *at = cn_data(block);
      for (int64_t i = 0; i < LONGEST; i++) assert_true(i < n ? at[i] == 1 : at[i] == MARK);
      cn_scope_end(s);
    }
  }
  cni_cpu_isa_cap(-1);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_of_one_number), cmocka_unit_test(test_of_two_numbers),
                                     cmocka_unit_test(test_nothing_behind_the_end)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
