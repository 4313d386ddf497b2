/* test_metrics.c: metrics over several batches against scikit-learn's and PyTorch's values (metrics.json, made by
 * golden.py), by hand where the formula is short, and what they refuse. */
#include <cairn/cairn.h>
#include <cairn/train.h>
#include <math.h>
#include <stdio.h>

#include "test.h"

enum { BATCH = 7 };

static cn_tree *golden(void)
{
  cn_tree *t = cn_load(CN_TEST_SOURCE_DIR "/tests/train/metrics.json");
  if (!t) print_error("%s\n", cn_err_message());
  assert_non_null(t);
  return t;
}

static cn_tensor *numbers(const cn_tree *list, cn_dtype dtype)
{
  int64_t rows = (int64_t)cn_tree_size(list), columns = (int64_t)cn_tree_size(cn_tree_at(list, 0));
  cn_tensor *t = cn_zeros_with((const int64_t[]){rows, columns}, columns ? 2 : 1,
                               &(cn_zeros_opts){.size = sizeof(cn_zeros_opts), .dtype = CN_F64});
  double *v = cn_data(t);
  for (int64_t i = 0; i < rows; i++) {
    const cn_tree *row = cn_tree_at(list, (size_t)i);
    if (!columns) v[i] = cn_tree_as_float(row, NAN);
    for (int64_t k = 0; k < columns; k++) v[i * columns + k] = cn_tree_as_float(cn_tree_at(row, (size_t)k), NAN);
  }
  return cn_cast(t, dtype);
}

/* Feeds m batch by batch, compares its value, and does so once more after a reset. */
static void check(cn_metric *m, cn_tensor *output, cn_tensor *target, double want)
{
  assert_non_null(m);
  assert_true(isnan(cn_metric_value(m)));
  for (int again = 0; again < 2; again++) {
    int64_t n = cn_size(target, 0);
    for (int64_t i = 0; i < n; i += BATCH) {
      int64_t size = n - i < BATCH ? n - i : BATCH;
      int status = cn_metric_update(m, cn_narrow(output, 0, i, size), cn_narrow(target, 0, i, size));
      if (status) print_error("%s\n", cn_err_message());
      assert_int_equal(status, 0);
    }
    assert_float_equal(cn_metric_value(m), want, 1e-6 * (1 + fabs(want)));
    cn_metric_reset(m);
  }
  cn_metric_free(m);
}

static void classes_like_sklearn(void **state)
{
  (void)state;
  static const char *const averages[] = {"macro", "micro", "weighted"};
  cn_scope *s = cn_scope_begin();
  cn_tree *tree = golden();
  const cn_tree *cases = cn_tree_get(tree, "classes");
  for (size_t i = 0; i < cn_tree_size(cases); i++) {
    const cn_tree *c = cn_tree_at(cases, i), *want = cn_tree_get(c, "want");
    int64_t n = cn_tree_as_int(cn_tree_get(c, "classes"), 0);
    cn_tensor *x = numbers(cn_tree_get(c, "scores"), CN_F32), *y = numbers(cn_tree_get(c, "target"), CN_I64);
    check(cn_metric_accuracy(), x, y, cn_tree_as_float(cn_tree_get(want, "accuracy"), NAN));
    check(cn_metric_confusion(n), x, y, cn_tree_as_float(cn_tree_get(want, "accuracy"), NAN));
    check(cn_metric_perplexity(), x, y, cn_tree_as_float(cn_tree_get(want, "perplexity"), NAN));
    check(cn_metric_mean_iou(n), x, y, cn_tree_as_float(cn_tree_get(want, "mean_iou"), NAN));
    for (int a = CN_MACRO; a <= CN_WEIGHTED; a++) {
      char name[40];
      snprintf(name, sizeof name, "precision %s", averages[a]);
      check(cn_metric_precision(n, (cn_averaging)a), x, y, cn_tree_as_float(cn_tree_get(want, name), NAN));
      snprintf(name, sizeof name, "recall %s", averages[a]);
      check(cn_metric_recall(n, (cn_averaging)a), x, y, cn_tree_as_float(cn_tree_get(want, name), NAN));
      snprintf(name, sizeof name, "f1 %s", averages[a]);
      check(cn_metric_f1(n, (cn_averaging)a), x, y, cn_tree_as_float(cn_tree_get(want, name), NAN));
    }
    for (int64_t k = 1; k <= 3; k++) {
      char name[40];
      snprintf(name, sizeof name, "top%d", (int)k);
      cn_metric *m = cn_metric_top_k(k);
      assert_string_equal(cn_metric_name(m), name);
      check(m, x, y, cn_tree_as_float(cn_tree_get(want, name), NAN));
    }
    cn_metric *m = cn_metric_confusion(n);
    assert_int_equal(cn_metric_update(m, x, y), 0);
    const int64_t *counts = cn_data(cn_metric_tensor(m));
    for (size_t k = 0; k < (size_t)(n * n); k++)
      assert_int_equal(counts[k], cn_tree_as_int(cn_tree_at(cn_tree_get(want, "confusion"), k), -1));
    cn_metric_free(m);
  }
  cn_tree_free(tree);
  cn_scope_end(s);
}

static void auc_like_sklearn(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tree *tree = golden();
  const cn_tree *cases = cn_tree_get(tree, "auc");
  assert_int_equal(cn_tree_size(cases), 3);
  for (size_t i = 0; i < cn_tree_size(cases); i++) {
    const cn_tree *c = cn_tree_at(cases, i);
    cn_tensor *x = numbers(cn_tree_get(c, "scores"), CN_F64), *y = numbers(cn_tree_get(c, "target"), CN_I64);
    double want = cn_tree_as_float(cn_tree_get(c, "want"), NAN);
    check(cn_metric_auc(), x, y, want);
    check(cn_metric_auc(), cn_unsqueeze(x, 1), cn_cast(y, CN_F32), want);
  }
  cn_tree_free(tree);
  cn_scope_end(s);
}

static void by_hand(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  /* (N) against one half, with targets of any type */
  cn_tensor *p = cn_floats((const float[]){0.9f, 0.5f, 0.2f, 0.51f}, 4);
  cn_tensor *y = cn_floats((const float[]){1, 1, 0, 0}, 4);
  cn_metric *m = cn_metric_accuracy();
  assert_int_equal(cn_metric_update(m, p, y), 0);
  assert_int_equal(cn_metric_update(m, p, cn_cast(y, CN_BOOL)), 0);
  assert_float_equal(cn_metric_value(m), 0.5, 0);
  /* classes against classes, and nothing at all */
  cn_metric_reset(m);
  assert_int_equal(cn_metric_update(m, cn_cast(y, CN_I32), cn_cast(y, CN_I64)), 0);
  assert_int_equal(cn_metric_update(m, cn_zeros(CN_SHAPE(0, 5)), cn_zeros(CN_SHAPE(0), .dtype = CN_I64)), 0);
  assert_float_equal(cn_metric_value(m), 1, 0);
  cn_metric_free(m);
  /* pixels: (N, C, H, W) for (N, H, W) */
  cn_tensor *scores = cn_zeros(CN_SHAPE(1, 2, 1, 4));
  cn_tensor *pixels = cn_reshape(cn_cast(y, CN_I64), CN_SHAPE(1, 1, 4));
  m = cn_metric_mean_iou(2); /* all said to be class 0: 2 of 4 and 0 of 2 */
  assert_int_equal(cn_metric_update(m, scores, pixels), 0);
  assert_float_equal(cn_metric_value(m), 0.25, 1e-15);
  const double *each = cn_data(cn_metric_tensor(m));
  assert_float_equal(each[0], 0.5, 1e-15);
  assert_float_equal(each[1], 0, 1e-15);
  cn_metric_free(m);
  m = cn_metric_top_k(1);
  assert_int_equal(cn_metric_update(m, scores, pixels), 0);
  assert_float_equal(cn_metric_value(m), 0.5, 1e-15);
  cn_metric_free(m);
  m = cn_metric_perplexity(); /* equal scores: as many as there are; -100 does not count */
  assert_int_equal(cn_metric_update(m, cn_zeros(CN_SHAPE(2, 3, 8)), cn_full(CN_SHAPE(2, 3), 5, .dtype = CN_I64)), 0);
  assert_int_equal(cn_metric_update(m, cn_zeros(CN_SHAPE(2, 8)), cn_full(CN_SHAPE(2), -100, .dtype = CN_I64)), 0);
  assert_float_equal(cn_metric_value(m), 8, 1e-5);
  assert_false(cn_metric_higher_is_better(m));
  assert_float_equal(cn_item(cn_metric_tensor(m)), 8, 1e-5);
  cn_metric_free(m);
  m = cn_metric_mean("loss");
  assert_int_equal(cn_metric_add(m, 2, 1) | cn_metric_add(m, 5, 2) | cn_metric_add(m, NAN, 0), 0);
  assert_float_equal(cn_metric_value(m), 4, 1e-15);
  cn_metric_free(m);
  m = cn_metric_auc();
  assert_int_equal(cn_metric_update(m, p, cn_ones(CN_SHAPE(4))), 0);
  assert_true(isnan(cn_metric_value(m))); /* there are no false ones */
  cn_metric_free(m);
  cn_scope_end(s);
}

static void wrong_batches_are_refused(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_zeros(CN_SHAPE(4, 3)), *y = cn_zeros(CN_SHAPE(4), .dtype = CN_I64);
  cn_metric *accuracy = cn_metric_accuracy(), *f1 = cn_metric_f1(3, CN_MACRO), *auc = cn_metric_auc();
  cn_metric *top = cn_metric_top_k(4), *mean = cn_metric_mean("m"), *perplexity = cn_metric_perplexity();
  REFUSED(cn_metric_update(accuracy, x, cn_zeros(CN_SHAPE(5), .dtype = CN_I64)), CN_ERR_SHAPE);
  REFUSED(cn_metric_update(accuracy, x, cn_full(CN_SHAPE(4), 0.5)), CN_ERR_VALUE);
  REFUSED(cn_metric_update(accuracy, NULL, y), CN_ERR_TYPE);
  REFUSED(cn_metric_update(f1, x, cn_full(CN_SHAPE(4), 3, .dtype = CN_I64)), CN_ERR_INDEX);
  REFUSED(cn_metric_update(f1, x, cn_full(CN_SHAPE(4), -1, .dtype = CN_I64)), CN_ERR_INDEX);
  REFUSED(cn_metric_update(f1, cn_zeros(CN_SHAPE(4, 2)), y), CN_ERR_SHAPE);
  REFUSED(cn_metric_update(auc, x, y), CN_ERR_SHAPE);
  REFUSED(cn_metric_update(auc, cn_full(CN_SHAPE(4), NAN), y), CN_ERR_VALUE);
  REFUSED(cn_metric_update(auc, cn_zeros(CN_SHAPE(4)), cn_full(CN_SHAPE(4), 2, .dtype = CN_I64)), CN_ERR_VALUE);
  REFUSED(cn_metric_update(top, x, y), CN_ERR_VALUE);
  REFUSED(cn_metric_update(perplexity, x, cn_zeros(CN_SHAPE(4, 2), .dtype = CN_I64)), CN_ERR_SHAPE);
  REFUSED(cn_metric_update(mean, x, y), CN_ERR_TYPE);
  REFUSED(cn_metric_add(mean, 1, -1), CN_ERR_VALUE);
  REFUSED(cn_metric_add(accuracy, 1, 1), CN_ERR_TYPE);
  assert_true(isnan(cn_metric_value(accuracy)) && isnan(cn_metric_value(f1)) && isnan(cn_metric_value(auc)));
  assert_null(cn_metric_f1(1, CN_MACRO));
  REFUSED(cn_err(), CN_ERR_VALUE);
  assert_null(cn_metric_top_k(0));
  REFUSED(cn_err(), CN_ERR_VALUE);
  assert_null(cn_metric_mean(""));
  REFUSED(cn_err(), CN_ERR_VALUE);
  cn_metric *all[] = {accuracy, f1, auc, top, mean, perplexity, NULL};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) cn_metric_free(all[i]);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(classes_like_sklearn), cmocka_unit_test(auc_like_sklearn),
                                     cmocka_unit_test(by_hand), cmocka_unit_test(wrong_batches_are_refused)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
