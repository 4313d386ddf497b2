/* test_autocast.c: which types ops compute in while autocast is on, gradients through it, nesting, the cache of casts.
 * PyTorch's lists for the CPU are the reference. */
#include <cairn/cairn.h>

#include "test.h"

static cn_tensor *ones(int64_t rows, int64_t columns) { return cn_ones(CN_SHAPE(rows, columns)); }

static void types_follow_the_lists(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = ones(4, 4), *h = cn_cast(x, CN_BF16), *d = cn_cast(x, CN_F64);
  int saved = cn_autocast_begin(CN_BF16);
  assert_int_equal(cn_autocast_dtype(), CN_BF16);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_BF16);
  assert_int_equal(cn_dtype_of(cn_matmul(x, h)), CN_BF16);
  assert_int_equal(cn_dtype_of(cn_linear(x, x, NULL)), CN_BF16);
  assert_int_equal(cn_dtype_of(cn_mm(d, d)), CN_F64); /* float64 stays */
  assert_int_equal(cn_dtype_of(cn_mse_loss(h, h)), CN_F32);
  assert_int_equal(cn_dtype_of(cn_softmax(h, -1)), CN_BF16); /* on the CPU as it comes */
  assert_int_equal(cn_dtype_of(cn_add(x, h)), CN_F32);
  assert_int_equal(cn_dtype_of(cn_cat(CN_TENSORS(h, x))), CN_F32);
  assert_int_equal(cn_dtype_of(cn_cat(CN_TENSORS(h, h))), CN_BF16);
  int inner = cn_autocast_begin(CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_F32);
  cn_autocast_end(inner);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_BF16);
  cn_autocast_end(saved);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_F32);
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void gradients_have_the_parameters_type(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_requires_grad(ones(4, 4), true), *x = ones(2, 4);
  int saved = cn_autocast_begin(CN_F16);
  cn_tensor *y = cn_linear(cn_linear(x, w, NULL), w, NULL); /* the second use takes the same cast */
  cn_tensor *loss = cn_mse_loss(y, cn_zeros(CN_SHAPE(2, 4)));
  assert_int_equal(cn_dtype_of(y), CN_F16);
  assert_int_equal(cn_dtype_of(loss), CN_F32);
  assert_int_equal(cn_backward(loss), 0); /* autocast plays no part in backward */
  cn_autocast_end(saved);
  assert_int_equal(cn_dtype_of(cn_grad_of(w)), CN_F32);
  /* y = 16, so d loss / d y = 2 * 16 / 8 = 4; both uses of w give 2 rows * 4 * (4 + 4) */
  assert_float_equal(cn_item(cn_amax(cn_grad_of(w))), 64, 1e-6);
  cn_scope_end(s);
}

static void a_changed_parameter_is_cast_anew(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *w = cn_requires_grad(ones(2, 2), true), *x = ones(1, 2);
  int saved = cn_autocast_begin(CN_BF16);
  assert_float_equal(cn_item(cn_amax(cn_linear(x, w, NULL))), 2, 0);
  int grad = cn_no_grad_begin();
  cn_mul_(w, cn_num(3));
  cn_no_grad_end(grad);
  assert_float_equal(cn_item(cn_amax(cn_linear(x, w, NULL))), 6, 0);
  cn_autocast_end(saved);
  cn_scope_end(s);
}

static void devices_are_switched_apart(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = ones(4, 4);
  int devices = cn_autocast_begin_on(CN_AUTOCAST_DEVICES, CN_F16);
  assert_int_equal(cn_autocast_dtype(), CN_F16);
  assert_int_equal(cn_autocast_dtype_on(CN_AUTOCAST_CPU), CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_F32); /* the CPU is not touched */
  int host = cn_autocast_begin_on(CN_AUTOCAST_CPU, CN_BF16);
  assert_int_equal(cn_autocast_dtype_on(CN_AUTOCAST_DEVICES), CN_F16);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_BF16);
  int off = cn_autocast_begin_on(CN_AUTOCAST_CPU, CN_DTYPE_NONE);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_F32);
  assert_int_equal(cn_autocast_dtype_on(CN_AUTOCAST_DEVICES), CN_F16);
  cn_autocast_end(off);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_BF16);
  cn_device mirror = cn_device_find("mirror");
  cn_err_clear();
  if (mirror > CN_CPU) {
    cn_tensor *y = cn_to_device(x, mirror);
    assert_int_equal(cn_dtype_of(cn_mm(y, y)), CN_F16);
  }
  cn_autocast_end(host);
  assert_int_equal(cn_dtype_of(cn_mm(x, x)), CN_F32);
  cn_autocast_end(devices);
  assert_int_equal(cn_autocast_dtype_on(CN_AUTOCAST_DEVICES), CN_DTYPE_NONE);
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static int low_softmax(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  const int *what = payload;
  int saved = cn_autocast_begin(CN_BF16);
  out[0] = *what == 0   ? cn_softmax(in[0], -1)
           : *what == 1 ? cn_sum(cn_log_softmax(in[0], -1), .dim = CN_INTS(0))
           : *what == 2 ? cn_cumsum(in[0], 1)
                        : cn_softmax(in[0], -1, .dtype = CN_F64);
  cn_autocast_end(saved);
  return cn_err();
}

/* Ops that can be told the type of their result take a device's 16-bit numbers as they are. */
static void no_copies_are_made(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_device mirror = cn_device_find("mirror");
  cn_err_clear();
  if (mirror <= CN_CPU) {
    cn_scope_end(s);
    return;
  }
  cn_tensor *x = cn_cast(cn_randn(CN_SHAPE(3, 5), .device = mirror), CN_BF16);
  for (int what = 0; what < 4; what++) {
    cn_graph *g = cn_trace(low_softmax, 1, &x, 1, &what);
    char *text = g ? cn_graph_to_string(g) : NULL;
    assert_non_null(text);
    if (strstr(text, "cast(")) fail_msg("%s", text);
    cn_string_free(text);
    cn_graph_free(g);
    cn_tensor *y;
    assert_int_equal(low_softmax(&y, &x, &what), 0);
    assert_int_equal(cn_dtype_of(y), what == 3 ? CN_F64 : CN_F32);
  }
  cn_tensor *leaf = cn_requires_grad(x, true), *y;
  int saved = cn_autocast_begin(CN_BF16);
  y = cn_softmax(leaf, -1);
  cn_autocast_end(saved);
  cn_tensor *want = cn_softmax(cn_cast(cn_detach(leaf), CN_F32), -1);
  assert_true(cn_item(cn_all(cn_eq(y, want))) != 0);
  assert_int_equal(cn_backward(cn_sum(cn_mul(y, y))), 0);
  assert_int_equal(cn_dtype_of(cn_grad_of(leaf)), CN_BF16);
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void other_types_are_refused(void **state)
{
  (void)state;
  int saved = cn_autocast_begin(CN_F64);
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  cn_err_clear();
  cn_autocast_end(saved);
  assert_int_equal(cn_autocast_dtype(), CN_DTYPE_NONE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(types_follow_the_lists),
    cmocka_unit_test(gradients_have_the_parameters_type),
    cmocka_unit_test(a_changed_parameter_is_cast_anew),
    cmocka_unit_test(devices_are_switched_apart),
    cmocka_unit_test(no_copies_are_made),
    cmocka_unit_test(other_types_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
