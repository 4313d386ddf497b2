/* test_conv_values.c: values that are not finite come out of convolutions where they should and nowhere else, though
 * the fast ways (Winograd's) add and subtract inputs that the convolution itself never brings together. */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <math.h>

/* The same numbers in float32, by whatever implementation takes the call, and in float64, which is computed plainly. */
static void compare(cn_tensor *fast, cn_tensor *plain)
{
  assert_int_equal(cn_err(), 0);
  int64_t n = cn_numel(fast);
  assert_int_equal(n, cn_numel(plain));
  const float *x = cn_data(cn_contiguous(fast));
  const double *y = cn_data(cn_contiguous(plain));
  int64_t odd = 0;
  for (int64_t i = 0; i < n; i++) {
    odd += !isfinite(y[i]);
    if (isnan(y[i])) assert_true(isnan(x[i]));
    else if (isinf(y[i])) assert_true((double)x[i] == y[i]);
    else assert_float_equal((double)x[i], y[i], 1e-3 * (1 + fabs(y[i]))); /* sums of up to 2304 products */
  }
  assert_true(odd > 0 && odd < n);
}

/* x: (2, channels, side, side), window x window; one element of each operand is replaced by `value`. */
static void check(int64_t channels, int64_t side, int64_t window, int64_t stride, float value)
{
  cn_scope *s = cn_scope_begin();
  cn_seed(5);
  int64_t pad = window / 2;
  cn_tensor *x = cn_randn(CN_SHAPE(2, channels, side, side)), *w = cn_randn(CN_SHAPE(48, channels, window, window));
  ((float *)cn_data(x))[channels * side + side / 2] = value;
  cn_tensor *x64 = cn_cast(x, CN_F64), *w64 = cn_cast(w, CN_F64);
  cn_tensor *in[2] = {cn_requires_grad(x, true), cn_requires_grad(w, true)};
  cn_tensor *in64[2] = {cn_requires_grad(x64, true), cn_requires_grad(w64, true)};
  int64_t strides[2] = {stride, stride}, pads[2] = {pad, pad};
  cn_value args[] = {cn_v_tensor(x), cn_v_tensor(w), cn_v_none(), cn_v_ints(strides, 2), cn_v_ints(pads, 2)};
  cn_value args64[] = {cn_v_tensor(x64), cn_v_tensor(w64), cn_v_none(), cn_v_ints(strides, 2), cn_v_ints(pads, 2)};
  cn_tensor *y[1], *y64[1], *g[2], *g64[2];
  size_t n = 1, n64 = 1;
  assert_int_equal(cn_op_call(y, &n, cn_op_find("conv2d"), args, 5, NULL), 0);
  assert_int_equal(cn_op_call(y64, &n64, cn_op_find("conv2d"), args64, 5, NULL), 0);
  compare(y[0], y64[0]);
  cn_tensor *grad = cn_randn(cn_shape(y[0]), (size_t)cn_ndim(y[0]));
  ((float *)cn_data(grad))[side / 2] = value;
  assert_int_equal(cn_grad(g, y, 1, in, 2, .grad_outputs = &grad), 0);
  cn_tensor *grad64 = cn_cast(grad, CN_F64);
  assert_int_equal(cn_grad(g64, y64, 1, in64, 2, .grad_outputs = &grad64), 0);
  compare(g[0], g64[0]);
  compare(g[1], g64[1]);
  cn_release(y[0]);
  cn_release(y64[0]);
  cn_scope_end(s);
}

static void shapes(void **state)
{
  const float values[] = {INFINITY, -INFINITY, NAN};
  (void)state;
  for (int i = 0; i < 3; i++) {
    check(48, 24, 3, 1, values[i]); /* winograd */
    check(48, 24, 3, 2, values[i]);
    check(3, 64, 7, 1, values[i]); /* winograd_1d */
    check(3, 64, 7, 2, values[i]);
    check(48, 24, 1, 1, values[i]); /* gemm */
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(shapes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
