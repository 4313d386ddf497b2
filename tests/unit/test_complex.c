/* test_complex.c: complex numbers as a type for storage: made, printed, copied, cast from real numbers, and refused by
 * everything that would compute with them. */
#include <cairn/cairn.h>
#include <cairn/ext/op.h>
#include <stdio.h>

#include "base/dtype.h"
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
  assert_int_equal(cn_promote_types(CN_C64, CN_F32), CN_DTYPE_NONE);
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

static void refused(cn_tensor *t, const char *part)
{
  assert_null(t);
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  if (!strstr(cn_err_message(), part)) print_error("%s\n", cn_err_message());
  assert_non_null(strstr(cn_err_message(), part));
  cn_err_clear();
}

static void not_computed_with(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *x = cn_from_data(some, CN_SHAPE(4), CN_C64), *r = cn_ones(CN_SHAPE(4));
  refused(cn_add(x, x), "add: complex64 is for storage only: nothing computes with complex numbers yet");
  refused(cn_sum(x), "complex64");
  refused(cn_sum(r, .dtype = CN_C64), "complex64");
  refused(cn_arange(0, 3, .dtype = CN_C128), "nothing computes complex128 yet");
  refused(cn_rand(CN_SHAPE(2), .dtype = CN_C64), "complex64");
  refused(cn_cast(x, CN_F32), "would lose the imaginary parts");
  refused(cn_copy_(r, x), "would lose the imaginary parts");
  cn_tensor *out = NULL; /* a view, written into a real tensor: by Python's out= */
  size_t n = 1;
  cn_value args[] = {cn_v_tensor(x), cn_v_none()};
  assert_int_equal(cn_op_call(&out, &n, cn_op_find("squeeze"), args, 2, r), CN_ERR_DTYPE);
  cn_err_clear();
  assert_true(cn_item(cn_select(x, 0, 0)) == 0);
  assert_int_equal(cn_err(), CN_ERR_DTYPE);
  cn_err_clear();
  assert_null(cn_requires_grad(x, true));
  cn_err_clear();
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(facts),
    cmocka_unit_test(made_and_printed),
    cmocka_unit_test(copied),
    cmocka_unit_test(not_computed_with),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
