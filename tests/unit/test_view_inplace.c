/* test_view_inplace.c: writing in place, through views, with and without gradients: what it changes, what it must
 * refuse, and that a gradient is either right or an error. The cases are those that PyTorch documents under in-place
 * correctness. */
#include <cairn/cairn.h>

#include "test.h"

static cn_scope *scope;

static int set_up(void **state)
{
  (void)state;
  scope = cn_scope_begin();
  return scope ? 0 : -1;
}

static int tear_down(void **state)
{
  (void)state;
  cn_scope_end(scope);
  cn_err_clear();
  return 0;
}

static cn_tensor *vector(float a, float b, float c) { return cn_floats((const float[]){a, b, c}, 3); }
static cn_tensor *leaf(float a, float b, float c) { return cn_requires_grad(vector(a, b, c), true); }

static void check(cn_tensor *t, const float *want, size_t n)
{
  float have[64];
  assert_int_equal(cn_err(), 0);
  assert_int_equal(cn_numel(t), n);
  assert_int_equal(cn_to_data(have, sizeof have, t), CN_OK);
  for (size_t i = 0; i < n; i++) assert_float_equal(have[i], want[i], 1e-5);
}
#define CHECK(t, ...) \
  check(t, (const float[]){__VA_ARGS__}, sizeof((const float[]){__VA_ARGS__}) / sizeof(float))

static void expect(int code)
{
  assert_int_equal(cn_err(), code);
  assert_true(cn_err_message()[0] != 0);
  cn_err_clear();
}

/* ---- without gradients ---- */

static void a_view_shares_memory_and_version(void **state)
{
  (void)state;
  cn_tensor *x = cn_reshape(cn_arange(0, 6, .dtype = CN_F32), CN_SHAPE(2, 3));
  cn_tensor *row = cn_select(x, 0, 1), *column = cn_select(cn_transpose(x, 0, 1), 0, 2);
  assert_true(cn_is_view(row) && cn_storage_nbytes(row) == 24 && cn_storage_offset(row) == 3);
  uint64_t version = cn_tensor_version(x);
  assert_ptr_equal(cn_mul_(row, cn_num(10)), row);
  CHECK(x, 0, 1, 2, 30, 40, 50);
  CHECK(column, 2, 50);
  assert_int_equal(cn_tensor_version(x), version + 1);
  assert_int_equal(cn_tensor_version(column), version + 1);
  cn_fill_(column, cn_num(-1));
  CHECK(x, 0, 1, -1, 30, 40, -1);
  cn_tensor *copy = cn_clone(row);
  cn_fill_(row, cn_num(0));
  CHECK(copy, 30, 40, -1);
}

static void backward_and_strided_views_can_be_written(void **state)
{
  (void)state;
  cn_tensor *x = cn_arange(0, 6, .dtype = CN_F32);
  cn_copy_(cn_slice(x, 0, CN_NONE, CN_NONE, .step = -2), vector(7, 8, 9));
  CHECK(x, 0, 9, 2, 8, 4, 7);
  cn_add_(cn_diagonal(cn_view(cn_slice(x, 0, 0, 4), CN_SHAPE(2, 2))), cn_num(100));
  CHECK(x, 100, 9, 2, 108, 4, 7);
}

static void overlapping_copies_read_first(void **state)
{
  (void)state;
  cn_tensor *x = cn_arange(0, 6, .dtype = CN_F32);
  cn_copy_(cn_slice(x, 0, 1, 6), cn_slice(x, 0, 0, 5));
  CHECK(x, 0, 0, 1, 2, 3, 4);
  cn_add_(cn_slice(x, 0, 0, 5), cn_slice(x, 0, 1, 6));
  CHECK(x, 0, 1, 3, 5, 7, 4);
  cn_tensor *m = cn_view(cn_arange(0, 4, .dtype = CN_F32), CN_SHAPE(2, 2));
  cn_copy_(m, cn_transpose(m, 0, 1));
  CHECK(m, 0, 2, 1, 3);
  cn_mul_(m, m);
  CHECK(m, 0, 4, 1, 9);
}

static void what_cannot_be_written_is_refused(void **state)
{
  (void)state;
  cn_tensor *x = vector(1, 2, 3), *wide = cn_expand(x, CN_SHAPE(2, 3));
  assert_null(cn_add_(wide, cn_num(1))); /* two elements share one place */
  expect(CN_ERR_VALUE);
  assert_null(cn_add_(x, cn_ones(CN_SHAPE(2, 3)))); /* the result is larger */
  expect(CN_ERR_SHAPE);
  cn_tensor *ints = cn_cast(x, CN_I64);
  assert_null(cn_add_(ints, cn_num(0.5))); /* a float result does not fit integers */
  expect(CN_ERR_DTYPE);
  assert_null(cn_add_(cn_num(1), x));
  assert_true(cn_err() < 0);
  cn_err_clear();
  CHECK(x, 1, 2, 3);
  assert_int_equal(cn_tensor_version(x), 0); /* nothing was written */
  cn_add_(ints, cn_int(1));
  CHECK(cn_cast(ints, CN_F32), 2, 3, 4);
}

/* ---- gradients ---- */

static void leaves_are_protected(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3);
  assert_null(cn_add_(x, cn_num(1)));
  expect(CN_ERR_GRAD);
  assert_null(cn_add_(cn_slice(x, 0, 0, 2), cn_num(1)));
  expect(CN_ERR_GRAD);
  int saved = cn_no_grad_begin();
  assert_non_null(cn_add_(x, cn_num(1))); /* an optimiser's step */
  cn_no_grad_end(saved);
  CHECK(x, 2, 3, 4);
  assert_true(cn_is_leaf(x) && cn_needs_grad(x));
  cn_backward(cn_sum(cn_mul(x, x)));
  CHECK(cn_grad_of(x), 4, 6, 8);
}

static void results_can_be_written(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = cn_clone(x);
  cn_mul_(y, cn_num(3));
  cn_add_(y, x);
  CHECK(y, 4, 8, 12);
  cn_backward(cn_sum(y));
  CHECK(cn_grad_of(x), 4, 4, 4);
}

static void a_plain_tensor_joins_the_graph(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = cn_zeros(CN_SHAPE(2, 3));
  assert_false(cn_needs_grad(y));
  cn_copy_(cn_select(y, 0, 1), cn_mul(x, x)); /* written through a view: y has a history now */
  assert_true(cn_needs_grad(y));
  cn_backward(cn_sum(cn_mul(y, cn_num(2))));
  CHECK(cn_grad_of(x), 4, 8, 12);
}

static void stale_saved_results_are_errors(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = cn_exp(x);
  cn_add_(y, cn_num(1)); /* exp's gradient reads y */
  assert_true(cn_backward(cn_sum(y)) < 0);
  expect(CN_ERR_GRAD);
  y = cn_relu(x); /* likewise */
  cn_mul_(y, cn_num(2));
  assert_true(cn_backward(cn_sum(y)) < 0);
  expect(CN_ERR_GRAD);
}

static void stale_saved_inputs_are_errors(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *a = cn_clone(x), *y = cn_mul(a, a);
  cn_add_(a, cn_num(1));
  assert_true(cn_backward(cn_sum(y)) < 0);
  expect(CN_ERR_GRAD);
  cn_tensor *b = cn_clone(x), *z = cn_mul(b, b);
  cn_fill_(cn_slice(b, 0, 0, 1), cn_num(0)); /* through a view */
  assert_true(cn_backward(cn_sum(z)) < 0);
  expect(CN_ERR_GRAD);
  cn_tensor *d = cn_clone(x), *w = cn_mul(d, d);
  cn_fill_(cn_detach(d), cn_num(0)); /* through a detached one */
  assert_true(cn_backward(cn_sum(w)) < 0);
  expect(CN_ERR_GRAD);
  cn_tensor *p = leaf(1, 2, 3), *q = cn_mul(p, p);
  int saved = cn_no_grad_begin();
  cn_add_(p, cn_num(1)); /* an update between forward and backward */
  cn_no_grad_end(saved);
  assert_true(cn_backward(cn_sum(q)) < 0);
  expect(CN_ERR_GRAD);
}

static void values_not_saved_may_change(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *a = cn_clone(x), *y = cn_add(a, a); /* add saves nothing */
  cn_mul_(a, cn_num(5));
  cn_backward(cn_sum(y));
  CHECK(cn_grad_of(x), 2, 2, 2);
}

/* op_ whose gradient reads what it overwrites. */
static void overwritten_inputs_are_kept(void **state)
{
  (void)state;
  cn_tensor *x = leaf(0.5f, 1, 2), *y = cn_mul(x, cn_num(2));
  cn_square_(y);
  assert_int_equal(cn_backward(cn_sum(y)), CN_OK);
  CHECK(cn_grad_of(x), 4, 8, 16);
}

static void writing_through_a_view_rebases_the_base(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *base = cn_clone(x);
  cn_tensor *v = cn_slice(base, 0, 1, 3);
  cn_mul_(v, cn_num(10));
  CHECK(base, 1, 20, 30);
  cn_backward(cn_sum(cn_mul(base, vector(1, 2, 3))));
  CHECK(cn_grad_of(x), 1, 20, 30);
}

static void writing_the_base_renews_its_views(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *base = cn_clone(x);
  cn_tensor *v = cn_slice(base, 0, 1, 3), *other = cn_select(base, 0, 0);
  cn_mul_(base, cn_num(10));
  CHECK(v, 20, 30);
  cn_backward(cn_add(cn_sum(v), other));
  CHECK(cn_grad_of(x), 10, 10, 10);
}

static void views_of_views(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_reshape(cn_arange(0, 6, .dtype = CN_F32), CN_SHAPE(2, 3)), true);
  cn_tensor *base = cn_clone(x), *t = cn_transpose(base, 0, 1), *row = cn_select(t, 0, 2);
  cn_tensor *other = cn_unsqueeze(cn_select(base, 0, 1), 0);
  cn_mul_(row, cn_num(3)); /* base[:, 2] */
  CHECK(other, 3, 4, 15);
  cn_backward(cn_sum(other));
  CHECK(cn_grad_of(x), 0, 0, 0, 1, 1, 3);
}

static void replaced_values_stop_gradients(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = leaf(4, 5, 6), *base = cn_mul(x, cn_num(1));
  cn_copy_(cn_slice(base, 0, 0, 2), cn_slice(cn_mul(y, cn_num(7)), 0, 1, 3));
  CHECK(base, 35, 42, 3);
  cn_backward(cn_sum(base));
  CHECK(cn_grad_of(x), 0, 0, 1);
  CHECK(cn_grad_of(y), 0, 7, 7);
}

static void expanded_views_are_refused_with_history(void **state)
{
  (void)state;
  cn_tensor *base = cn_clone(leaf(1, 2, 3)), *wide = cn_expand(base, CN_SHAPE(2, 3));
  assert_null(cn_mul_(wide, cn_num(2)));
  assert_true(cn_err() < 0);
  cn_err_clear();
  CHECK(base, 1, 2, 3);
}

static void detached_views_write_without_history(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = cn_add(x, x), *d = cn_detach(y);
  assert_false(cn_needs_grad(d));
  cn_mul_(d, cn_num(10));
  assert_false(cn_needs_grad(d));
  CHECK(y, 20, 40, 60);
  cn_backward(cn_sum(y)); /* the value changed, the history did not */
  CHECK(cn_grad_of(x), 2, 2, 2);
}

static void inference_tensors_stay_out(void **state)
{
  (void)state;
  int saved = cn_inference_begin();
  cn_tensor *plain = cn_ones(CN_SHAPE(3));
  cn_add_(plain, cn_num(1));
  cn_inference_end(saved);
  CHECK(plain, 2, 2, 2);
  cn_tensor *x = leaf(1, 2, 3);
  assert_null(cn_requires_grad(plain, true));
  assert_true(cn_err() < 0);
  cn_err_clear();
  assert_null(cn_add_(plain, x)); /* a recorded write */
  assert_true(cn_err() < 0);
  cn_err_clear();
}

static void a_failed_write_changes_nothing(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = cn_mul(x, cn_num(2));
  uint64_t version = cn_tensor_version(y);
  assert_null(cn_add_(y, cn_ones(CN_SHAPE(4))));
  expect(CN_ERR_SHAPE);
  assert_int_equal(cn_tensor_version(y), version);
  cn_backward(cn_sum(y));
  CHECK(cn_grad_of(x), 2, 2, 2);
}

static void many_writes(void **state)
{
  (void)state;
  cn_tensor *x = leaf(1, 2, 3), *y = cn_clone(x);
  for (int i = 0; i < 20000; i++) {
    cn_scope *s = cn_scope_begin();
    cn_add_(cn_slice(y, 0, 0, 2), cn_slice(x, 0, 1, 3), .alpha = 0.5);
    cn_scope_end(s);
  }
  assert_int_equal(cn_backward(cn_sum(y)), CN_OK);
  CHECK(cn_grad_of(x), 1, 10001, 10001);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
  const struct CMUnitTest tests[] = {
    TEST(a_view_shares_memory_and_version), TEST(backward_and_strided_views_can_be_written),
    TEST(overlapping_copies_read_first), TEST(what_cannot_be_written_is_refused), TEST(leaves_are_protected),
    TEST(results_can_be_written), TEST(a_plain_tensor_joins_the_graph), TEST(stale_saved_results_are_errors),
    TEST(stale_saved_inputs_are_errors), TEST(values_not_saved_may_change), TEST(overwritten_inputs_are_kept),
    TEST(writing_through_a_view_rebases_the_base), TEST(writing_the_base_renews_its_views), TEST(views_of_views),
    TEST(replaced_values_stop_gradients), TEST(expanded_views_are_refused_with_history),
    TEST(detached_views_write_without_history), TEST(inference_tensors_stay_out),
    TEST(a_failed_write_changes_nothing), TEST(many_writes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
