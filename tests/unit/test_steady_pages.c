/* test_steady_pages.c: steps that take and give back hundreds of megabytes ask the system for hardly a page once they
 * are warm. What a step costs beside its arithmetic is then the same each time: pages that come and go were what made
 * one step in many take several times as long. Pages are counted, not seconds. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <sys/resource.h>

/* Sanitizers and emulators have pages of their own: there the steps run, and nothing is counted. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || defined(CN_TEST_EMULATED)
#define COUNTED 0
#else
#define COUNTED 1
#endif

enum { WARM = 3, STEPS = 6, PAGE = 4096 };

static long faults(void)
{
  struct rusage r;
  assert_int_equal(getrusage(RUSAGE_SELF, &r), 0);
  return r.ru_minflt;
}

/* Pages that STEPS steps touch anew, behind some that warm up. */
static long pages_of(void (*step)(void))
{
  for (int i = 0; i < WARM; i++) step();
  long before = faults();
  for (int i = 0; i < STEPS; i++) step();
  assert_int_equal(cn_err(), 0);
  return COUNTED ? faults() - before : 0;
}

static cn_tensor *x, *w; /* (4, 32, 56, 56), (32, 64, 4, 4) */

static void transposed_convolution(void)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *y = cn_conv_transpose2d(x, w, NULL, .stride = CN_INTS(2), .padding = CN_INTS(1));
  cn_backward(cn_sum(cn_mul(y, y)));
  cn_zero_grad(x);
  cn_zero_grad(w);
  cn_scope_end(s);
}

/* Sizes that change from step to step, as those of texts do. */
static void growing_and_shrinking(void)
{
  static int at;
  static const int64_t sizes[] = {700, 300, 1100, 500};
  int64_t n = sizes[at++ % 4];
  cn_scope *s = cn_scope_begin();
  cn_tensor *a = cn_ones(CN_SHAPE(n, 4096), .dtype = CN_F32);
  for (int i = 0; i < 4; i++) a = cn_add(cn_mul(a, a), a);
  cn_scope_end(s);
}

/* A hundredth of the pages that one result has. */
static void few_pages(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  x = cn_requires_grad(cn_randn(CN_SHAPE(4, 32, 56, 56)), true);
  w = cn_requires_grad(cn_randn(CN_SHAPE(32, 64, 4, 4)), true);
  const long image = 4L * 64 * 112 * 112 * 4 / PAGE, matrix = 300L * 4096 * 4 / PAGE;
  assert_in_range(pages_of(transposed_convolution), 0, STEPS * image / 100);
  assert_in_range(pages_of(growing_and_shrinking), 0, STEPS * matrix / 100);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(few_pages)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
