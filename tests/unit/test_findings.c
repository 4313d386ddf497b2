/* test_findings.c: what random calls and fuzzers found once, each as the smallest call that shows it. */
#include <cairn/cairn.h>
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>
#include <string.h>

#include "test.h"

static int setup(void **state)
{
  (void)state;
  cn_err_clear();
  cn_seed(1);
  return 0;
}

static void fails(int code)
{
  if (cn_err() != code) print_error("%d: %s\n", cn_err(), cn_err_message());
  assert_int_equal(cn_err(), code);
  assert_true(cn_err_message()[0] != 0);
  cn_err_clear();
}

/* Calls an op by name with one result; NULL on failure. */
static cn_tensor *call(const char *name, const cn_value *args, size_t nargs, cn_tensor *dest)
{
  cn_tensor *out[8] = {NULL};
  size_t n = 8;
  int status = cn_op_call(out, &n, cn_op_find(name), args, nargs, dest);
  assert_int_equal(status, cn_err());
  for (size_t i = 1; !status && i < n; i++) cn_release(out[i]);
  return status ? NULL : out[0];
}

static cn_tensor *leaf(int64_t n, double value) { return cn_requires_grad(cn_full(CN_SHAPE(n), value), true); }
static double total(cn_tensor *t) { return cn_item(cn_sum(cn_cast(t, CN_F64))); }

/* ---- arguments ---- */

static void test_status_is_the_error(void **state)
{
  (void)state;
  const cn_value args[] = {cn_v_tensor(cn_ones(CN_SHAPE(2))), cn_v_int(0x900)};
  assert_null(call("to_device", args, 2, NULL));
  fails(CN_ERR_DEVICE);
}

static void test_kinds_of_numbers(void **state)
{
  (void)state;
  cn_tensor *x = cn_full(CN_SHAPE(2, 3), 2);
  const cn_value dim[] = {cn_v_tensor(x), cn_v_bool(true)};
  cn_tensor *y = call("prod_dim", dim, 2, NULL); /* true counts as the integer 1 */
  assert_float_equal(total(y), 16, 0);
  cn_release(y);
  const cn_value reserved[] = {cn_v_tensor(x), cn_v_int(INT64_MIN)};
  assert_null(call("diagonal", reserved, 2, NULL));
  fails(CN_ERR_VALUE);
  cn_value lost[] = {cn_v_tensor(x), cn_v_ints(NULL, 2)};
  assert_null(call("permute", lost, 2, NULL));
  fails(CN_ERR_TYPE);
}

static void test_types_that_programs_do_not_take(void **state)
{
  (void)state;
  assert_null(cn_round(cn_ones(CN_SHAPE(2), .dtype = CN_BOOL), .decimals = 2));
  fails(CN_ERR_DTYPE);
  cn_tensor *whole = cn_ones(CN_SHAPE(2), .dtype = CN_I64), *out[1];
  assert_true(cn_pointwise(out, 1, &whole, 1, "1||exp 0|1", NULL, 0) < 0);
  fails(CN_ERR_DTYPE);
  assert_null(cn_cross_entropy(cn_ones(CN_SHAPE(2, 3)), cn_ones(CN_SHAPE(2, 3)), .weight = cn_ones(CN_SCALAR_SHAPE)));
  fails(CN_ERR_SHAPE);
  assert_null(cn_fill(cn_ones(CN_SHAPE(2)), cn_ones(CN_SHAPE(1, 1))));
  fails(CN_ERR_SHAPE);
}

static void test_dtypes_that_are_none(void **state)
{
  (void)state;
  const cn_dtype none = (cn_dtype)(CN_DTYPE_COUNT + 1);
  assert_null(cn_view_dtype(cn_ones(CN_SHAPE(2)), none));
  fails(CN_ERR_DTYPE);
  assert_null(cn_blackman_window(6, .dtype = none));
  fails(CN_ERR_DTYPE);
  assert_null(cn_logspace(0, 1, 3, .dtype = none));
  fails(CN_ERR_DTYPE);
  assert_null(cn_linalg_matrix_norm(cn_ones(CN_SHAPE(2, 2)), .dtype = none));
  fails(CN_ERR_DTYPE);
  assert_null(cn_lp_pool3d(cn_ones(CN_SHAPE(1, 2, 2, 2), .dtype = CN_BOOL), -(double)INFINITY, CN_SHAPE(1, 1, 1)));
  fails(CN_ERR_DTYPE);
}

static void test_signatures_out_of_bounds(void **state)
{
  (void)state;
  static const cn_op rows[] = {{.sig = "found_a(Tensor x, int[9] n=0) -> Tensor"},
                               {.sig = "found_b(Tensor x, int[2"},
                               {.sig = "found_c(Tensor x, int[] n=[1"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    assert_true(cn_op_register(&rows[i], 1) < 0);
    fails(CN_ERR_VALUE);
  }
}

/* ---- in place ---- */

static void test_several_results_not_in_place(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 3));
  const cn_value args[] = {cn_v_tensor(x), cn_v_int(2), cn_v_int(0)};
  assert_null(call("chunk", args, 3, x));
  fails(CN_ERR_VALUE);
  cn_tensor *pair[2] = {x, x};
  const cn_value program[] = {cn_v_tensors(pair, 2), cn_v_str("2|1.5|mul 0 2;add 3 1|4,3"), cn_v_none()};
  assert_null(call("pointwise", program, 3, x));
  fails(CN_ERR_VALUE);
}

static void test_constants_end_a_history(void **state)
{
  (void)state;
  cn_tensor *x = leaf(3, 2), *y = cn_mul(x, cn_num(5));
  cn_gt_(y, cn_num(0)); /* true everywhere, and no longer a function of x */
  assert_int_equal(cn_backward(cn_add(cn_sum(y), cn_sum(x))), 0);
  assert_float_equal(total(cn_grad_of(x)), 3, 0);
  cn_zero_grad(x);
  cn_tensor *z = cn_mul(x, cn_num(5)), *row = cn_narrow(z, 0, 0, 2);
  const cn_value args[] = {cn_v_tensor(cn_ones(CN_SHAPE(2))), cn_v_tensor(cn_num(1))};
  cn_release(call("mul", args, 2, row)); /* not among the inputs: as `out` */
  assert_int_equal(cn_backward(cn_sum(z)), 0);
  assert_float_equal(total(cn_grad_of(x)), 5, 0);
}

static void test_writing_into_another_type(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_add(cn_eye(3, 3, .dtype = CN_F64), cn_num(0.5)), true);
  cn_tensor *y = cn_zeros(CN_SHAPE(3, 3)), *g = NULL, *want = NULL;
  const cn_value args[] = {cn_v_tensor(x)};
  cn_release(call("linalg_inv", args, 1, y));
  cn_tensor *here = cn_sum(y), *there = cn_sum(cn_linalg_inv(x));
  assert_int_equal(cn_grad(&g, &here, 1, &x, 1), 0);
  assert_int_equal(cn_grad(&want, &there, 1, &x, 1), 0);
  assert_int_equal(cn_dtype_of(g), CN_F64);
  assert_float_equal(total(cn_abs(cn_sub(g, want))), 0, 1e-5);
  cn_tensor *stored = cn_zeros(CN_SHAPE(3, 3), .dtype = CN_F8E4M3);
  cn_release(call("relu", args, 1, stored)); /* such types carry no gradient */
  assert_false(cn_needs_grad(stored));
}

/* ---- kernels ---- */

static void test_both_operands_the_same(void **state)
{
  (void)state;
  cn_tensor *y = cn_full(CN_SHAPE(4), -1.386, .dtype = CN_F16);
  cn_tensor *have = cn_log_softmax_backward(y, y, 0), *want = cn_log_softmax_backward(y, cn_clone(y), 0);
  assert_float_equal(total(cn_abs(cn_sub(have, want))), 0, 0);
}

static void test_windows_of_padding_only(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_ones(CN_SHAPE(1, 1, 4, 4)), true);
  cn_tensor *y = cn_max_pool2d(x, CN_SHAPE(2, 2), .stride = CN_INTS(2, 1), .padding = CN_INTS(1, 1),
                               .dilation = CN_INTS(5, 1));
  assert_non_null(y);
  assert_int_equal(cn_backward(y, .gradient = cn_ones_like(y)), 0);
  assert_float_equal(total(cn_grad_of(x)), 0, 0);
}

static void test_gradients_nobody_asked_for(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 4)), *stat = cn_ones(CN_SHAPE(2, 1)), *g[3];
  assert_int_equal(cn_native_layer_norm_backward(&g[0], &g[1], &g[2], x, x, CN_SHAPE(4), stat, stat, NULL, NULL, 0),
                   0);
  assert_int_equal(cn_numel(g[0]), 0);
  assert_int_not_equal(cn_native_batch_norm_backward(&g[0], &g[1], &g[2], cn_ones(CN_SHAPE(3, 3), .dtype = CN_BOOL),
                                                     cn_ones(CN_SHAPE(3, 3), .dtype = CN_BOOL), NULL,
                                                     cn_ones(CN_SHAPE(3)), cn_ones(CN_SHAPE(3)), true,
                                                     CN_SHAPE(1, 1, 1)),
                       0);
  fails(CN_ERR_DTYPE);
}

static void test_empty_and_scalar_corners(void **state)
{
  (void)state;
  cn_tensor *values = NULL, *indices = NULL;
  assert_int_equal(cn_topk(&values, &indices, cn_full(CN_SCALAR_SHAPE, 7), 0), 0);
  assert_true(cn_item(values) == 7 && cn_item_int(indices) == 0);
  cn_tensor *src = cn_requires_grad(cn_ones(CN_SHAPE(2, 1)), true), *none = cn_zeros(CN_SHAPE(0, 5), .dtype = CN_I64);
  assert_int_equal(cn_backward(cn_sum(cn_scatter_add(cn_ones(CN_SHAPE(3, 5)), 0, none, src))), 0);
  assert_float_equal(total(cn_grad_of(src)), 0, 0);
  cn_tensor *empty = cn_requires_grad(cn_ones(CN_SHAPE(2, 0)), true);
  assert_int_equal(cn_backward(cn_sum(cn_index_select(empty, 0, cn_full(CN_SHAPE(3), 9, .dtype = CN_I64)))), 0);
}

static void test_scales_that_do_not_fit(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(2, 4)), *y = cn_resample(x, 1, 7, "linear", false, 0.5, true);
  assert_int_equal(cn_numel(y), 14); /* only the first two places lie in the input */
  y = cn_resample(x, 1, 7, "nearest", false, 5e-324, false);
  assert_float_equal(total(y), 14, 0);
}

static void test_layouts_of_no_memory(void **state)
{
  (void)state;
  cn_tensor *x = cn_ones(CN_SHAPE(4, 2)), *empty = cn_slice(cn_slice(x, 0, 4, CN_NONE), 1, 2, CN_NONE);
  cn_tensor *nothing = cn_as_strided_from(x, CN_SHAPE(0), CN_SHAPE(1), (int64_t)1 << 62, CN_SHAPE(2, 1), 0);
  assert_true(nothing && cn_numel(nothing) == 0); /* has no element there, nor anywhere */
  assert_null(cn_as_strided_from(x, CN_SHAPE(2), CN_SHAPE(1), 0, CN_SHAPE(INT64_MAX, 1), 0));
  fails(CN_ERR_VALUE);
  assert_null(cn_as_strided_from(x, CN_SHAPE(2), CN_SHAPE(1), 0, CN_SHAPE(1), 0)); /* one stride for two dims */
  fails(CN_ERR_VALUE);
  assert_non_null(cn_as_strided(empty, CN_SHAPE(0), CN_SHAPE(1), CN_NONE)); /* at element 10 of 8 */
}

static void test_many_empty_rows(void **state)
{
  (void)state;
  cn_tensor *y = NULL, *indices = NULL, *x = cn_ones(CN_SHAPE(2, 6, 6, 1));
  assert_int_equal(cn_adaptive_max_pool2d_with_indices(&y, &indices, x, CN_SHAPE(INT32_MAX, 0)), 0); /* at once */
  assert_int_equal(cn_numel(y), 0);
  assert_null(cn_pixel_unshuffle(cn_ones(CN_SHAPE(4, 0, 0)), (int64_t)1 << 32)); /* 2^66 channels */
  fails(CN_ERR_SHAPE);
}

/* ---- gradients ---- */

static cn_tensor *sum_hook(cn_tensor *grad, void *payload)
{
  (void)payload;
  return cn_sum(grad);
}

static void test_hook_of_another_shape(void **state)
{
  (void)state;
  cn_tensor *x = leaf(3, 1);
  assert_true(cn_hook_add(x, sum_hook, NULL) > 0);
  assert_true(cn_backward(cn_sum(cn_exp(x))) < 0);
  fails(CN_ERR_SHAPE);
  assert_null(cn_grad_of(x));
}

static void test_tolerances_widen_a_batch(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_eye(2, 2), true), *atol = leaf(3, 0.5);
  cn_tensor *y = cn_linalg_pinv(x, .atol = atol);
  assert_int_equal(cn_ndim(y), 3);
  assert_int_equal(cn_shape(y)[0], 3);
  assert_int_equal(cn_backward(cn_sum(y)), 0);
  assert_float_equal(total(cn_grad_of(x)), -12, 1e-5);
  y = cn_linalg_pinv(cn_eye(2, 2), .atol = atol); /* only what gets no gradient wants one */
  assert_int_equal(cn_backward(cn_sum(y)), 0);
}

/* ---- graphs ---- */

static cn_tensor *left_outside;
static int leaving(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_flatten(in[0]);
  left_outside = cn_keep(out[0]);
  return cn_err();
}

static void test_tensors_without_value(void **state)
{
  (void)state;
  cn_tensor *x = cn_transpose(cn_reshape(cn_arange(0, 6, .dtype = CN_F32), CN_SHAPE(2, 3)), 0, 1), *out = NULL;
  cn_graph *g = cn_trace(leaving, 1, &x, 1, NULL);
  assert_non_null(g);
  assert_null(cn_exp(left_outside));
  fails(CN_ERR_CAPTURE);
  assert_null(cn_copy_(left_outside, x));
  fails(CN_ERR_CAPTURE);
  assert_int_equal(cn_graph_run(&out, g, &x), 0); /* in a memory order that flatten has to copy */
  assert_true(cn_item(cn_all(cn_eq(out, cn_flatten(x)))) > 0);
  cn_release(left_outside);
  cn_graph_free(g);
}

static void test_texts_of_graphs(void **state)
{
  (void)state;
  static const char *const bad[] = {
      "%0 = input float32 [2]\n%1 = cat({%0, none}, 0) : float32 [2]\n", /* a list that takes no none */
      "%0 = input float32 [2]\n%1 = gelu(%0, 'tan",                      /* a string without end */
      "%0 = state float32 [2]\n%0 = scalar float64 weak 1\n",            /* one number for two things */
      "%0 = state float32 [2]\n%0 = state float32 [3]\nupdate 1 %0\n",
      "%0 = input float32 [2, 2]\n%1 = prod_dim(%0, true, false, none) : float32 [2]\n", /* true is no dim */
      "%70000 = input float32 [2]\n", /* more values than the text has room for */
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    assert_null(cn_graph_parse(bad[i]));
    assert_true(cn_err() == CN_ERR_IO || cn_err() == CN_ERR_INTERNAL);
    cn_err_clear();
  }
  cn_graph *g = cn_graph_parse("%0 = input float32 [3]\n%1 = state float32 [2]\noutput %0\nupdate 0 %0\n");
  assert_non_null(g);
  cn_tensor *x = cn_ones(CN_SHAPE(3)), *s = cn_ones(CN_SHAPE(2)), *out;
  assert_int_equal(cn_graph_bind(g, 0, cn_expand(cn_ones(CN_SHAPE(1)), CN_SHAPE(2))), CN_ERR_VALUE);
  cn_err_clear();
  assert_int_equal(cn_graph_bind(g, 0, s), 0);
  assert_true(cn_graph_run(&out, g, &x) < 0); /* a state of two elements cannot become three */
  fails(CN_ERR_SHAPE);
  cn_graph_free(g);
}

/* However often nothing is repeated, it has a gradient. */
static void test_nothing_repeated_often(void **state)
{
  (void)state;
  cn_tensor *x = cn_requires_grad(cn_zeros(CN_SHAPE(2, 0, 3)), true);
  cn_tensor *y = cn_tile(x, CN_SHAPE(1, INT64_MAX - 1, 5));
  assert_non_null(y);
  assert_int_equal(cn_size(y, 1), 0);
  assert_int_equal(cn_size(y, 2), 15);
  assert_int_equal(cn_backward(cn_sum(y)), 0);
  assert_int_equal(cn_size(cn_grad_of(x), 2), 3);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, NULL)

/* The processor cannot divide the least integer by -1. */
static void test_average_over_minus_one(void **state)
{
  (void)state;
  cn_tensor *x = cn_full(CN_SHAPE(1, 1, 1, 20), (double)INT64_MIN, .dtype = CN_I64);
  cn_tensor *y = cn_avg_pool2d(x, CN_SHAPE(1, 1), -1);
  if (!y) fail_msg("%s", cn_err_message());
  for (int64_t i = 0; i < cn_numel(y); i++) assert_true(((const int64_t *)cn_data(y))[i] == INT64_MIN);
}

/* No number stands for the largest complex one. */
static void test_extremes_of_complex_numbers(void **state)
{
  (void)state;
  cn_tensor *x = cn_zeros(CN_SHAPE(2), .dtype = CN_C128), *at = cn_zeros(CN_SHAPE(2), .dtype = CN_I64);
  assert_null(cn_scatter_reduce(x, 0, at, x, "amin", .no_include_self = true));
  fails(CN_ERR_UNSUPPORTED);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      TEST(test_status_is_the_error),
      TEST(test_kinds_of_numbers),
      TEST(test_types_that_programs_do_not_take),
      TEST(test_dtypes_that_are_none),
      TEST(test_signatures_out_of_bounds),
      TEST(test_several_results_not_in_place),
      TEST(test_constants_end_a_history),
      TEST(test_writing_into_another_type),
      TEST(test_both_operands_the_same),
      TEST(test_windows_of_padding_only),
      TEST(test_gradients_nobody_asked_for),
      TEST(test_empty_and_scalar_corners),
      TEST(test_scales_that_do_not_fit),
      TEST(test_layouts_of_no_memory),
      TEST(test_many_empty_rows),
      TEST(test_hook_of_another_shape),
      TEST(test_tolerances_widen_a_batch),
      TEST(test_tensors_without_value),
      TEST(test_texts_of_graphs),
      TEST(test_nothing_repeated_often),
      TEST(test_average_over_minus_one),
      TEST(test_extremes_of_complex_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
