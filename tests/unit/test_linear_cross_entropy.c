/* test_linear_cross_entropy.c: of many rows the loss and its gradients are those of all scores at once, which are never
 * there. */
#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <math.h>

#include "test.h"

enum { ROWS = 20000, WIDTH = 16, CLASSES = 300 };

typedef struct problem {
  cn_tensor *x, *w, *b, *t, *classes;
} problem;

/* How a loss is made of its terms. */
typedef struct terms {
  const char *reduction;
  bool weighted;
  double smoothing;
} terms;

static problem problem_new(cn_dtype dtype)
{
  cn_seed(3);
  problem p = {.x = cn_cast(cn_randn(CN_SHAPE(ROWS, WIDTH)), dtype),
               .w = cn_cast(cn_randn(CN_SHAPE(CLASSES, WIDTH)), dtype),
               .b = cn_cast(cn_randn(CN_SHAPE(CLASSES)), dtype), .t = cn_randint(0, CLASSES, CN_SHAPE(ROWS)),
               .classes = cn_rand(CN_SHAPE(CLASSES))};
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

static void compare(cn_dtype dtype, terms how, double tol)
{
  cn_scope *s = cn_scope_begin();
  problem p = problem_new(dtype), q = problem_new(CN_F64);
  if (dtype != CN_F64) {
    q.x = cn_requires_grad(cn_cast(cn_detach(p.x), CN_F64), true);
    q.w = cn_requires_grad(cn_cast(cn_detach(p.w), CN_F64), true);
    q.b = cn_requires_grad(cn_cast(cn_detach(p.b), CN_F64), true);
  }
  cn_tensor *weights = how.weighted ? p.classes : NULL, *wide = how.weighted ? cn_cast(p.classes, CN_F64) : NULL;
  cn_tensor *have = cn_linear_cross_entropy(p.x, p.w, p.t, .linear_bias = p.b, .reduction = how.reduction,
                                            .weight = weights, .label_smoothing = how.smoothing);
  cn_tensor *want = cn_cross_entropy(cn_linear(q.x, q.w, q.b), q.t, .reduction = how.reduction, .weight = wide,
                                     .label_smoothing = how.smoothing);
  close_to("loss", cn_detach(want), cn_detach(have), tol);
  assert_int_equal(cn_ndim(have), cn_ndim(want));
  cn_tensor *counts = cn_ndim(want) ? cn_randn(CN_SHAPE(ROWS), .dtype = CN_F64) : cn_full(CN_SCALAR_SHAPE, 3);
  assert_int_equal(cn_backward(cn_sum(cn_mul(have, cn_cast(counts, cn_dtype_of(have))))), 0);
  assert_int_equal(cn_backward(cn_sum(cn_mul(want, counts))), 0);
  close_to("input's gradient", cn_grad_of(q.x), cn_grad_of(p.x), tol);
  close_to("weight's gradient", cn_grad_of(q.w), cn_grad_of(p.w), tol);
  close_to("bias's gradient", cn_grad_of(q.b), cn_grad_of(p.b), tol);
  assert_int_equal(cn_dtype_of(cn_grad_of(p.w)), dtype);
  cn_scope_end(s);
}

static void the_same_as_all_scores_at_once(void **state)
{
  (void)state;
  const terms mean = {.reduction = "mean"};
  compare(CN_F64, mean, 1e-12);
  compare(CN_F64, (terms){.reduction = "sum"}, 1e-12);
  compare(CN_F32, mean, 1e-5);
  compare(CN_BF16, mean, 1e-2); /* scores and their gradients have 8 bits */
  compare(CN_F16, mean, 2e-3);  /* 11; of a mean over so many rows they would vanish if they were made of it */
}

static void weights_smoothing_and_rows(void **state)
{
  (void)state;
  static const char *const reductions[] = {"mean", "sum", "none"};
  for (int i = 0; i < 12; i++) {
    terms how = {reductions[i % 3], i / 3 % 2, i / 6 ? 0.2 : 0};
    compare(CN_F64, how, 1e-12);
    if (i % 5 == 0) compare(CN_F32, how, 1e-5);
    if (i % 5 == 1) compare(CN_BF16, how, 1e-2); /* as above */
  }
}

/* Under autocast classes' weights stay what they are, and losses are float32. */
static void autocast(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  problem p = problem_new(CN_F32);
  cn_tensor *low = cn_linear(cn_cast(p.x, CN_BF16), cn_cast(p.w, CN_BF16), cn_cast(p.b, CN_BF16));
  int saved = cn_autocast_begin(CN_BF16);
  cn_tensor *have = cn_linear_cross_entropy(p.x, p.w, p.t, .linear_bias = p.b, .weight = p.classes,
                                            .reduction = "none");
  cn_autocast_end(saved);
  assert_int_equal(cn_dtype_of(have), CN_F32);
  close_to("loss", cn_cross_entropy(cn_cast(low, CN_F32), p.t, .weight = p.classes, .reduction = "none"), have, 1e-6);
  cn_scope_end(s);
}

/* A mean over no rows is NaN, and gradients are 0, as those of cross_entropy. */
static void no_row_counts(void **state)
{
  (void)state;
  for (int i = 0; i < 4; i++) {
    cn_scope *s = cn_scope_begin();
    problem p = problem_new(CN_F32);
    cn_fill_(p.t, cn_int(-100));
    cn_tensor *loss = cn_linear_cross_entropy(p.x, p.w, p.t, .linear_bias = p.b, .weight = i % 2 ? p.classes : NULL,
                                              .label_smoothing = i / 2 ? 0.1 : 0);
    assert_true(isnan(cn_item(loss)));
    assert_int_equal(cn_backward(loss), 0);
    cn_tensor *of[] = {p.x, p.w, p.b};
    for (int k = 0; k < 3; k++) assert_true(cn_item(cn_all(cn_eq(cn_grad_of(of[k]), cn_int(0)))));
    cn_scope_end(s);
  }
}

/* Gradients of gradients are those of all scores at once. */
static void second_gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *grads[2];
  for (int i = 0; i < 2; i++) {
    problem p = problem_new(CN_F64);
    cn_tensor *first = NULL, *sum, *loss =
        i ? cn_linear_cross_entropy(p.x, p.w, p.t, .weight = p.classes, .label_smoothing = 0.3, .reduction = "none")
          : cn_cross_entropy(cn_linear(p.x, p.w, NULL), p.t, .weight = p.classes, .label_smoothing = 0.3,
                             .reduction = "none");
    sum = cn_sum(cn_square(loss));
    assert_int_equal(cn_grad(&first, &sum, 1, &p.w, 1, .create_graph = true), 0);
    assert_int_equal(cn_backward(cn_sum(cn_square(first))), 0);
    grads[i] = cn_grad_of(p.x);
  }
  close_to("second gradient", grads[0], grads[1], 1e-11);
  cn_scope_end(s);
}

static void count_memory(terms how)
{
  cn_scope *s = cn_scope_begin();
  problem p = problem_new(CN_F32);
  cn_memory_stats before, after;
  cn_memory_set_caching(false); /* what was freed before does not count */
  cn_memory_reset_peak();
  cn_memory_get_stats(&before);
  cn_tensor *loss = cn_linear_cross_entropy(p.x, p.w, p.t, .linear_bias = p.b, .reduction = how.reduction,
                                            .weight = how.weighted ? p.classes : NULL,
                                            .label_smoothing = how.smoothing);
  assert_int_equal(cn_backward(cn_sum(loss)), 0);
  cn_memory_get_stats(&after);
  cn_memory_set_caching(true);
  /* two parts of 4,096 rows, scores and what becomes of them, beside gradients of the input on their way; all scores
   * would be 24 MB, and their gradient as much; some numbers of each row of a part */
  size_t parts = (size_t)2 * 4096 * CLASSES * sizeof(float), inputs = (size_t)6 * ROWS * WIDTH * sizeof(float);
  assert_true(after.peak - before.in_use < parts + inputs + (size_t)16 * 4096 * sizeof(double));
  cn_scope_end(s);
}

static void scores_are_never_all_there(void **state)
{
  (void)state;
  count_memory((terms){.reduction = "mean"});
  count_memory((terms){.reduction = "mean", .weighted = true, .smoothing = 0.1});
  count_memory((terms){.reduction = "none", .weighted = true, .smoothing = 0.1});
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(the_same_as_all_scores_at_once),
                                     cmocka_unit_test(weights_smoothing_and_rows), cmocka_unit_test(autocast),
                                     cmocka_unit_test(no_row_counts), cmocka_unit_test(second_gradients),
                                     cmocka_unit_test(scores_are_never_all_there)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
