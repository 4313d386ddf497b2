/* test_pieces.c: gradients of a tensor that reach it in pieces, through views of parts of it: every part once, some
 * parts, parts that overlap, parts and the whole. */
#include <cairn/cairn.h>
#include <cairn/kw.h>

#include "test.h"

/* x (3, 4); the gradient of `loss` of it is `want` in each row. */
static void check_columns(cn_tensor *(*loss)(cn_tensor *x), const double *want)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(3, 4), .dtype = CN_F64), true);
  assert_int_equal(cn_backward(loss(cn_clone(x))), 0);
  const double *have = cn_data(cn_contiguous(cn_grad_of(x)));
  for (int i = 0; i < 12; i++) assert_float_equal(have[i], want[i % 4], 0);
  cn_scope_end(s);
}

static cn_tensor *times(cn_tensor *x, double k) { return cn_sum(cn_mul(x, cn_num(k))); }

/* Column i counts i + 1 times; taken from the transpose in some order. */
static cn_tensor *columns(cn_tensor *x, const int *order, int n)
{
  cn_tensor *t = cn_transpose(x, 0, 1), *sum = cn_num(0);
  for (int i = 0; i < n; i++) sum = cn_add(sum, times(cn_select(t, 0, order[i]), order[i] + 1));
  return sum;
}
static cn_tensor *in_order(cn_tensor *x) { return columns(x, (const int[]){0, 1, 2, 3}, 4); }
static cn_tensor *backwards(cn_tensor *x) { return columns(x, (const int[]){3, 2, 1, 0}, 4); }
static cn_tensor *in_disorder(cn_tensor *x) { return columns(x, (const int[]){2, 0, 3, 1}, 4); }
static cn_tensor *two_of_them(cn_tensor *x) { return columns(x, (const int[]){2, 1}, 2); }
static cn_tensor *one_twice(cn_tensor *x) { return columns(x, (const int[]){2, 2}, 2); }

static void selects(void **state)
{
  (void)state;
  static const double all[] = {1, 2, 3, 4};
  check_columns(in_order, all);
  check_columns(backwards, all);
  check_columns(in_disorder, all);
  check_columns(two_of_them, (const double[]){0, 2, 3, 0});
  check_columns(one_twice, (const double[]){0, 0, 6, 0});
}

static cn_tensor *halves(cn_tensor *x)
{
  return cn_add(times(cn_slice(x, 1, 0, 2), 1), times(cn_slice(x, 1, -2, 4), 2));
}
static cn_tensor *overlapping(cn_tensor *x)
{
  return cn_add(times(cn_slice(x, 1, 0, 3), 1), times(cn_slice(x, 1, 1, 4), 10));
}
static cn_tensor *parts_and_whole(cn_tensor *x)
{
  return cn_add(cn_add(times(cn_slice(x, 1, 0, 1), 1), times(x, 7)), times(cn_slice(x, 1, 3, 4), 10));
}
static cn_tensor *every_second(cn_tensor *x)
{
  return cn_add(times(cn_slice(x, 1, 0, 4, .step = 2), 3), times(cn_slice(x, 1, 1, 2), 4));
}
static cn_tensor *of_two_dims(cn_tensor *x)
{
  return cn_add(times(cn_slice(x, 0, 0, 3), 1), times(cn_select(x, 1, 2), 10));
}

static void slices(void **state)
{
  (void)state;
  check_columns(halves, (const double[]){1, 1, 2, 2});
  check_columns(overlapping, (const double[]){1, 11, 11, 10});
  check_columns(parts_and_whole, (const double[]){8, 7, 7, 17});
  check_columns(every_second, (const double[]){3, 4, 3, 0});
  check_columns(of_two_dims, (const double[]){1, 1, 11, 1});
}

/* Pieces of a tensor that is a permuted view are written in the order of what it is a view of: no copy on the way. */
static void order_of_memory(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(2, 5, 3, 4)), true);
  cn_tensor *p = cn_permute(cn_clone(x), CN_SHAPE(2, 0, 3, 1));
  cn_tensor *loss = cn_num(0);
  cn_retain_grad(p);
  for (int i = 0; i < 3; i++) loss = cn_add(loss, times(cn_select(p, 0, i), i + 1));
  assert_int_equal(cn_backward(loss), 0);
  const int64_t *stride = cn_strides(cn_grad_of(p));
  const int64_t want[] = {4, 60, 1, 12};
  for (int i = 0; i < 4; i++) assert_int_equal(stride[i], want[i]);
  const float *have = cn_data(cn_contiguous(cn_grad_of(x)));
  for (int i = 0; i < 120; i++) assert_float_equal(have[i], (double)(i / 4 % 3 + 1), 0);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(selects), cmocka_unit_test(slices),
                                     cmocka_unit_test(order_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
