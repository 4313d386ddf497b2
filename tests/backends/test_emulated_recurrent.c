/* test_emulated_recurrent.c: recurrent layers whose weights stay on the chip, on an emulation of the driver
 * (tests/simt): of one block and of clusters whose blocks send each other their states, every kind of network, odd
 * sizes, and that all steps are one launch. */
#define _GNU_SOURCE /* RTLD_DEFAULT */
#include "emulated.h"
#include "recurrent_checks.h"

#include <dlfcn.h>

/* Rows and columns that fill a cluster's, and that do not; several clusters; clusters with more rows than a product
 * takes at once. */
static void check_all(const recurrent_case *cases, size_t n, cn_dtype dtype)
{
  static const char *const modes[] = {"lstm", "gru", "tanh", "relu"};
  for (size_t i = 0; i < n; i++) {
    cn_scope *s = cn_scope_begin();
    cn_seed(i + 40);
    check_recurrent(&cases[i], modes[i % 4], dtype, i % 2, i % 3);
    cn_scope_end(s);
  }
}

static void float32(void **state)
{
  static const recurrent_case cases[] = {{3, 5, 4, 16},   {4, 3, 4, 64},  {3, 9, 2, 65}, {3, 2, 3, 31},
                                         {3, 18, 2, 128}, {2, 1, 2, 129}, {2, 4, 2, 192},
                                         {1, 5, 2, 1},    {2, 1, 3, 33},  {35, 2, 2, 20}};
  (void)state;
  need_device();
  check_all(cases, sizeof cases / sizeof *cases, CN_F32);
}

static void float16(void **state)
{
  static const recurrent_case cases[] = {{3, 9, 4, 16}, {3, 17, 4, 97}, {3, 2, 3, 200}, {1, 1, 1, 1}, {2, 3, 2, 255}};
  (void)state;
  need_device();
  check_all(cases, sizeof cases / sizeof *cases, CN_F16);
  check_all(cases, 3, CN_BF16);
}

static void infinity(void **state)
{
  (void)state;
  need_device();
  check_infinity(1);
  check_infinity(200);
}

static int launches_of(int64_t steps, int64_t hidden)
{
  const int *launches = dlsym(RTLD_DEFAULT, "simt_launches");
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = there(cn_randn(CN_SHAPE(steps, 2, 3))), *w = there(cn_randn(CN_SHAPE(4 * hidden, 3)));
  cn_tensor *u = there(cn_randn(CN_SHAPE(4 * hidden, hidden))), *h = there(cn_randn(CN_SHAPE(2, hidden)));
  cn_tensor *y, *last, *c;
  assert_non_null(launches);
  int before = *launches;
  cn_recurrent_sequence(&y, &last, &c, NULL, x, w, u, h, NULL, NULL, h, "lstm");
  assert_int_equal(cn_err(), 0);
  int count = *launches - before;
  cn_scope_end(s);
  return count;
}

/* Those of large layers are launches of their own. */
static void one_launch(void **state)
{
  (void)state;
  need_device();
  assert_int_equal(launches_of(2, 40), launches_of(5, 40));
  assert_int_equal(launches_of(2, 80), launches_of(5, 80));
  assert_true(launches_of(5, 272) >= launches_of(2, 272) + 6);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(float32), cmocka_unit_test(float16), cmocka_unit_test(infinity),
                                     cmocka_unit_test(one_launch)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
