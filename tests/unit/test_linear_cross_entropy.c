/* test_linear_cross_entropy.c: of many rows the loss and its gradients are those of all scores at once, which are never
 * there. */
#include <cairn/cairn.h>
#include <cairn/kw.h>

#include "test.h"

enum { ROWS = 20000, WIDTH = 16, CLASSES = 300 };

typedef struct problem {
  cn_tensor *x, *w, *b, *t;
} problem;

static problem problem_new(cn_dtype dtype)
{
  cn_seed(3);
  problem p = {.x = cn_cast(cn_randn(CN_SHAPE(ROWS, WIDTH)), dtype),
               .w = cn_cast(cn_randn(CN_SHAPE(CLASSES, WIDTH)), dtype),
               .b = cn_cast(cn_randn(CN_SHAPE(CLASSES)), dtype), .t = cn_randint(0, CLASSES, CN_SHAPE(ROWS))};
  cn_fill_(cn_slice(p.t, 0, 5, 9), cn_int(-100));
  cn_requires_grad(p.x, true), cn_requires_grad(p.w, true), cn_requires_grad(p.b, true);
  return p;
}

static void close_to(const char *what, cn_tensor *want, cn_tensor *have, double tol)
{
  cn_tensor *a = cn_cast(want, CN_F64), *b = cn_cast(have, CN_F64);
  double off = cn_item(cn_linalg_vector_norm(cn_sub(a, b))) / cn_item(cn_linalg_vector_norm(a));
  assert_int_equal(cn_err(), 0);
  if (!(off <= tol)) fail_msg("%s: %g off", what, off);
}

static void compare(cn_dtype dtype, const char *reduction, double tol)
{
  cn_scope *s = cn_scope_begin();
  problem p = problem_new(dtype), q = problem_new(CN_F64);
  if (dtype != CN_F64) {
    q.x = cn_requires_grad(cn_cast(cn_detach(p.x), CN_F64), true);
    q.w = cn_requires_grad(cn_cast(cn_detach(p.w), CN_F64), true);
    q.b = cn_requires_grad(cn_cast(cn_detach(p.b), CN_F64), true);
  }
  cn_tensor *have = cn_linear_cross_entropy(p.x, p.w, p.t, .linear_bias = p.b, .reduction = reduction);
  cn_tensor *want = cn_cross_entropy(cn_linear(q.x, q.w, q.b), q.t, .reduction = reduction);
  close_to("loss", cn_detach(want), cn_detach(have), tol);
  assert_int_equal(cn_backward(cn_mul(have, cn_num(3))), 0);
  assert_int_equal(cn_backward(cn_mul(want, cn_num(3))), 0);
  close_to("input's gradient", cn_grad_of(q.x), cn_grad_of(p.x), tol);
  close_to("weight's gradient", cn_grad_of(q.w), cn_grad_of(p.w), tol);
  close_to("bias's gradient", cn_grad_of(q.b), cn_grad_of(p.b), tol);
  assert_int_equal(cn_dtype_of(cn_grad_of(p.w)), dtype);
  cn_scope_end(s);
}

static void the_same_as_all_scores_at_once(void **state)
{
  (void)state;
  compare(CN_F64, "mean", 1e-12);
  compare(CN_F64, "sum", 1e-12);
  compare(CN_F32, "mean", 1e-5);
  compare(CN_BF16, "mean", 1e-2); /* scores and their gradients have 8 bits */
  compare(CN_F16, "mean", 2e-3);  /* 11; of a mean over so many rows they would vanish if they were made of it */
}

static void scores_are_never_all_there(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  problem p = problem_new(CN_F32);
  cn_memory_stats before, after;
  cn_memory_set_caching(false); /* what was freed before does not count */
  cn_memory_reset_peak();
  cn_memory_get_stats(&before);
  cn_tensor *loss = cn_linear_cross_entropy(p.x, p.w, p.t, .linear_bias = p.b);
  assert_int_equal(cn_backward(loss), 0);
  cn_memory_get_stats(&after);
  cn_memory_set_caching(true);
  /* two parts of 4,096 rows, scores and what becomes of them, beside gradients of the input on their way; all scores
   * would be 24 MB, and their gradient as much */
  size_t parts = (size_t)2 * 4096 * CLASSES * sizeof(float), inputs = (size_t)6 * ROWS * WIDTH * sizeof(float);
  assert_true(after.peak - before.in_use < parts + inputs);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_as_all_scores_at_once),
                                     cmocka_unit_test(scores_are_never_all_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
