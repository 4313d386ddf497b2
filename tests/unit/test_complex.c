/* test_complex.c: complex numbers: made, printed, copied, cast; views of their parts, the convention of gradients, and
 * what is refused. What ops give is compared with PyTorch's results by tests/ops/complex.samples. */
#include <cairn/cairn.h>
#include <cairn/ext/op.h>
#include <stdio.h>

#include "base/dtype.h"
#include "ops/table.h"
#include "test.h"

static const float some[] = {1, 2, 3.5f, -1, 0, 0.25f, -2, -3}; /* 1+2j, 3.5-1j, 0.25j, -2-3j */

static void prints(cn_tensor *t, const char *want)
{
  char *text = cn_to_string(t);
  assert_non_null(text);
  assert_string_equal(text, want);
  cn_string_free(text);
}

static void facts(void **state)
{
  (void)state;
  for (int i = 1; i < CN_DTYPE_COUNT; i++)
    assert_true(cni_dtype_is_complex(i) == (cni_dtype_category(i) == CNI_CAT_COMPLEX));
  assert_int_equal(cn_dtype_find("complex64"), CN_C64);
  assert_int_equal(cn_dtype_find("cdouble"), CN_C128);
  assert_string_equal(cn_dtype_name(CN_C128), "complex128");
  assert_int_equal(cn_dtype_bytes(CN_C128, 3), 48);
  assert_true(cn_dtype_is_complex(CN_C64) && cn_dtype_is_signed(CN_C64) && !cn_dtype_is_complex(CN_F32));
  assert_false(cn_dtype_is_float(CN_C64) || cn_dtype_is_int(CN_C64));
  assert_int_equal(cn_promote_types(CN_C64, CN_C64), CN_C64);
  assert_int_equal(cn_promote_types(CN_C64, CN_F32), CN_C64);
  assert_int_equal(cn_promote_types(CN_C64, CN_F64), CN_C128);
  assert_int_equal(cn_promote_types(CN_C32, CN_F16), CN_C32);
  assert_int_equal(cn_promote_types(CN_BF16, CN_C32), CN_C64);
  assert_int_equal(cn_promote_types(CN_C128, CN_I64), CN_C128);
  assert_int_equal(cn_promote_types(CN_C64, CN_F8E4M3), CN_DTYPE_NONE);
}

static void made_and_printed(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  prints(cn_from_data(some, CN_SHAPE(2, 2), CN_C64), "tensor([[ 1.0000+2.0000j,  3.5000-1.0000j],\n"
                                                     "        [ 0.0000+0.2500j, -2.0000-3.0000j]])");
  prints(cn_zeros(CN_SHAPE(2), .dtype = CN_C128), "tensor([0.+0.j, 0.+0.j], dtype=cairn.complex128)");
  prints(cn_full(CN_SHAPE(1), 3, .dtype = CN_C64), "tensor([3.+0.j])");
  assert_int_equal(cn_numel(cn_empty(CN_SHAPE(0, 3), .dtype = CN_C64)), 0);
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

static void copied(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_from_data(some, CN_SHAPE(2, 2), CN_C64);
  float back[8];
  cn_tensor *turned = cn_contiguous(cn_transpose(x, 0, 1));
  assert_int_equal(cn_to_data(back, sizeof back, turned), 0);
  static const float want[] = {1, 2, 0, 0.25f, 3.5f, -1, -2, -3};
  assert_memory_equal(back, want, sizeof want);
  double wide[8];
  assert_int_equal(cn_to_data(wide, sizeof wide, cn_cast(cn_select(x, 0, 1), CN_C128)), 0);
  assert_true(wide[0] == 0 && wide[1] == 0.25 && wide[2] == -2 && wide[3] == -3);
  prints(cn_cast(cn_floats(some, 2), CN_C64), "tensor([1.+0.j, 2.+0.j])");
  cn_fill_(cn_select(x, 0, 0), cn_num(7));
  prints(cn_select(x, 0, 0), "tensor([7.+0.j, 7.+0.j])");
  prints(cn_constant_pad_nd(cn_select(x, 0, 0), CN_SHAPE(1, 0), .value = 2), "tensor([2.+0.j, 7.+0.j, 7.+0.j])");
  assert_int_equal(cn_err(), 0);
  cn_scope_end(s);
}

/* What is written into a view of the parts is in the number. */
static void parts_are_views(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_from_data(some, CN_SHAPE(2, 2), CN_C64), *second = cn_select(x, 0, 1);
  cn_fill_(cn_imag(second), cn_num(9));
  cn_copy_(cn_real(cn_select(x, 0, 0)), cn_floats(some + 2, 2));
  prints(x, "tensor([[ 3.5000+2.j, -1.0000-1.j],\n        [ 0.0000+9.j, -2.0000+9.j]])");
  prints(cn_view_as_complex(cn_view_as_real(second)), "tensor([ 0.+9.j, -2.+9.j])");
  assert_null(cn_view_as_complex(cn_floats(some, 3)));
  assert_int_equal(cn_err(), CN_ERR_SHAPE);
  cn_err_clear();
  cn_scope_end(s);
}

/* The gradient of |z|^2 is 2 z: the derivatives by the real and by the imaginary part. */
static void gradients(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *z = cn_requires_grad(cn_from_data(some, CN_SHAPE(2), CN_C64), true);
  assert_int_equal(cn_backward(cn_sum(cn_square(cn_abs(z)))), 0);
  prints(cn_grad_of(z), "tensor([2.+4.0000j, 7.-2.0000j])");
  assert_int_equal(cn_zero_grad(z), 0);
  assert_int_equal(cn_backward(cn_sum(cn_real(cn_mul(z, cn_complex_num(0, 1))))), 0); /* -imag */
  prints(cn_grad_of(z), "tensor([0.-1.j, 0.-1.j])");
  assert_int_equal(cn_backward(cn_sum(z)), CN_ERR_GRAD); /* where does a complex number rise? */
  cn_err_clear();
  cn_scope_end(s);
}

static void refused(cn_tensor *t, int code, const char *part)
{
  assert_null(t);
  assert_int_equal(cn_err(), code);
  if (!strstr(cn_err_message(), part)) print_error("%s\n", cn_err_message());
  assert_non_null(strstr(cn_err_message(), part));
  cn_err_clear();
}

static void refusals(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_from_data(some, CN_SHAPE(4), CN_C64), *r = cn_ones(CN_SHAPE(4));
  refused(cn_lt(x, x), CN_ERR_UNSUPPORTED, "lt: is not implemented for complex numbers");
  refused(cn_argmax(x, CN_NONE), CN_ERR_UNSUPPORTED, "argmax");
  refused(cn_arange(0, 3, .dtype = CN_C128), CN_ERR_UNSUPPORTED, "arange");
  refused(cn_fill_(r, cn_complex_num(1, 2)), CN_ERR_DTYPE, "imaginary part");
  refused(cn_mm(cn_reshape(x, CN_SHAPE(2, 2)), cn_ones(CN_SHAPE(2, 2))), CN_ERR_DTYPE, "one type");
  refused(cn_sum(x, .dtype = CN_F32), CN_ERR_DTYPE, "real type");
  assert_true(cn_item(cn_select(x, 0, 0)) == 0);
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  cn_err_clear();
  cn_scope_end(s);
}

/* An op whose row says nothing of complex numbers never meets one. */
static void every_rule_has_an_op(void **state)
{
  (void)state;
  int taken = 0;
  for (int i = 0; i < cn_op_count(); i++) {
    const cni_opinfo *info = cni_op_info(cn_op_at(i));
    taken += info->complex != CNI_COMPLEX_NONE;
  }
  assert_true(taken > 200);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(facts),
    cmocka_unit_test(made_and_printed),
    cmocka_unit_test(copied),
    cmocka_unit_test(parts_are_views),
    cmocka_unit_test(gradients),
    cmocka_unit_test(refusals),
    cmocka_unit_test(every_rule_has_an_op),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
