/* test_capabilities.c: a device whose kernels take row-major inputs alone and write over no input computes what the CPU
 * computes. The mirror is told to be one, and fails a call that gives it a strided input. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "test.h"

#include <cairn/cairn.h>
#include <cairn/kw.h>
#include <math.h>

static cn_device mirror;

static int set_up(void **state)
{
  (void)state;
  mirror = cn_device_find("mirror");
  return mirror == CN_DEVICE_DEFAULT;
}

/* Products add up in another order for another layout, hence the bound. */
static void same(cn_tensor *on_device, cn_tensor *on_cpu)
{
  if (cn_err()) print_error("%s\n", cn_err_message());
  assert_int_equal(cn_err(), 0);
  assert_true(cn_same_shape(on_device, on_cpu));
  assert_true(cn_item(cn_max(cn_abs(cn_sub(cn_to_device(on_device, CN_CPU), on_cpu)))) <= 1e-5);
}

static void strided_inputs(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  cn_tensor *x = cn_randn(CN_SHAPE(6, 5)), *y = cn_randn(CN_SHAPE(6, 4));
  cn_tensor *dx = cn_to_device(x, mirror), *dy = cn_to_device(y, mirror);
  same(cn_mm(cn_transpose(dx, 0, 1), dy), cn_mm(cn_transpose(x, 0, 1), y));
  same(cn_exp(cn_transpose(dx, 0, 1)), cn_exp(cn_transpose(x, 0, 1)));
  same(cn_sum(cn_slice(dx, 0, 1, CN_NONE, .step = 2), .dim = CN_INTS(1)),
       cn_sum(cn_slice(x, 0, 1, CN_NONE, .step = 2), .dim = CN_INTS(1)));
  same(cn_cat(CN_TENSORS(cn_transpose(dx, 0, 1), cn_transpose(dx, 0, 1)), .dim = 1),
       cn_cat(CN_TENSORS(cn_transpose(x, 0, 1), cn_transpose(x, 0, 1)), .dim = 1));
  same(cn_add(cn_expand(cn_slice(dy, 1, 0, 1), CN_SHAPE(6, 5)), dx),
       cn_add(cn_expand(cn_slice(y, 1, 0, 1), CN_SHAPE(6, 5)), x));
  cn_scope_end(s);
}

/* Results are row-major, whatever their inputs' order would have made of them. */
static void results_are_dense(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_channels_last(cn_randn(CN_SHAPE(2, 3, 4, 5)));
  cn_tensor *y = cn_relu(cn_to_device(x, mirror));
  assert_true(cn_is_channels_last(cn_relu(x)));
  assert_false(cn_is_channels_last(y));
  same(y, cn_relu(x));
  cn_scope_end(s);
}

static void in_place(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_randn(CN_SHAPE(4, 6)), *d = cn_to_device(x, mirror);
  cn_mul_(cn_slice(x, 1, 0, CN_NONE, .step = 2), cn_num(3));
  cn_mul_(cn_slice(d, 1, 0, CN_NONE, .step = 2), cn_num(3));
  same(d, x);
  cn_add_(d, cn_transpose(cn_to_device(cn_ones(CN_SHAPE(6, 4)), mirror), 0, 1));
  cn_add_(x, cn_num(1));
  same(d, x);
  cn_scope_end(s);
}

static void gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_randn(CN_SHAPE(5, 3)), *x = cn_randn(CN_SHAPE(7, 5)), *grad[2];
  for (int i = 0; i < 2; i++) {
    cn_tensor *p = cn_requires_grad(i ? cn_to_device(w, mirror) : cn_clone(w), true);
    cn_tensor *in = i ? cn_to_device(x, mirror) : x;
    cn_tensor *h = cn_gelu(cn_mm(in, p));
    cn_backward(cn_sum(cn_square(cn_log_softmax(cn_transpose(h, 0, 1), 0))));
    grad[i] = cn_grad_of(p);
  }
  same(grad[1], grad[0]);
  cn_scope_end(s);
}

int main(void)
{
  setenv("CAIRN_MIRROR", "strides,inplace", 1); /* before the first op, where it is read */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strided_inputs),
      cmocka_unit_test(results_are_dense),
      cmocka_unit_test(in_place),
      cmocka_unit_test(gradients),
  };
  return cmocka_run_group_tests(tests, set_up, NULL);
}
