/* test_print.c: the text of tensors, against what PyTorch printed (golden/print_cases.inc). */
#include "test.h"

#include <cairn/tensor.h>
#include <math.h>

#include "../golden/print_cases.inc"
#include "base/convert.h"

#define LENGTH(a) (sizeof(a) / sizeof((a)[0]))

static cn_tensor *make(const struct print_case *c)
{
  int64_t numel = 1;
  for (int i = 0; i < c->ndim; i++) numel *= c->shape[i];
  char *data = malloc((size_t)numel * 8 + 1);
  assert_non_null(data);
  for (int64_t i = 0; i < numel; i++)
    cni_store_f64(data, i, (int)c->dtype, c->n ? c->values[i] : (double)i * c->step + c->start);
  cn_tensor *t = cn_from_data(data, c->shape, (size_t)c->ndim, c->dtype);
  free(data);
  assert_non_null(t);
  return t;
}

static void as_pytorch(void **state)
{
  (void)state;
  for (size_t i = 0; i < LENGTH(print_cases); i++) {
    cn_scope *s = cn_scope_begin();
    cn_set_print_options(&print_cases[i].options);
    char *text = cn_to_string(make(&print_cases[i]));
    assert_string_equal(text, print_cases[i].text);
    cn_string_free(text);
    cn_scope_end(s);
  }
  cn_set_print_options(NULL);
}

static void check_text(cn_tensor *t, const char *want)
{
  char *text = cn_to_string(t);
  assert_string_equal(text, want);
  cn_string_free(text);
}

/* What PyTorch's types or numbers do not reach. */
static void other_types(void **state)
{
  (void)state;
  static const uint8_t bytes[] = {0, 1, 7, 15};
  static const uint64_t wide[] = {UINT64_MAX, 1};
  cn_scope *s = cn_scope_begin();
  check_text(cn_from_data(bytes, CN_SHAPE(4), CN_I4), "tensor([ 0,  1,  7, -1], dtype=cairn.int4)");
  check_text(cn_from_data(bytes, CN_SHAPE(4), CN_U4), "tensor([ 0,  1,  7, 15], dtype=cairn.uint4)");
  check_text(cn_from_data(bytes, CN_SHAPE(4), CN_F4E2M1),
             "tensor([ 0.0000,  0.5000,  6.0000, -6.0000], dtype=cairn.float4_e2m1fn)");
  check_text(cn_from_data(wide, CN_SHAPE(2), CN_U64),
             "tensor([18446744073709551615,                    1], dtype=cairn.uint64)");
  cn_scope_end(s);
}

static void default_dtype_is_not_named(void **state)
{
  (void)state;
  static const double f64[] = {1.5};
  static const float f32[] = {1.5f};
  cn_scope *s = cn_scope_begin();
  assert_int_equal(cn_set_default_dtype(CN_F64), 0);
  check_text(cn_from_data(f64, CN_SHAPE(1), CN_F64), "tensor([1.5000])");
  check_text(cn_from_data(f32, CN_SHAPE(1), CN_F32), "tensor([1.5000], dtype=cairn.float32)");
  assert_int_equal(cn_set_default_dtype(CN_F32), 0);
  cn_scope_end(s);
}

static void strides_are_followed(void **state)
{
  (void)state;
  static float data[] = {1, 2, 3, 4, 5, 6};
  static const int64_t shape[] = {3, 2}, strides[] = {1, 3}, zero[] = {0, 1};
  cn_scope *s = cn_scope_begin();
  check_text(cn_from_borrowed(data, shape, strides, 2, CN_F32, NULL, NULL),
             "tensor([[1., 4.],\n        [2., 5.],\n        [3., 6.]])");
  check_text(cn_from_borrowed(data, shape, zero, 2, CN_F32, NULL, NULL),
             "tensor([[1., 2.],\n        [1., 2.],\n        [1., 2.]])");
  cn_scope_end(s);
}

static void errors(void **state)
{
  (void)state;
  assert_null(cn_to_string(NULL));
  assert_int_equal(cn_err(), CN_ERR_TYPE);
  cn_err_clear();
  assert_int_equal(cn_print(NULL), CN_ERR_TYPE);
  cn_err_clear();
  cn_string_free(NULL);
}

/* Whichever allocation fails, an error and nothing else comes of it. */
static void out_of_memory(void **state)
{
  (void)state;
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = make(&print_cases[LENGTH(print_cases) - 1]);
  char *text = NULL;
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k < 100 && !text; k++) {
    cn_memory_fail_at(k);
    text = cn_to_string(t);
    cn_memory_fail_at(0);
    assert_int_equal(cn_err(), text ? 0 : CN_ERR_MEMORY);
    cn_err_clear();
  }
  assert_non_null(text);
  cn_string_free(text);
  cn_memory_set_caching(true);
  cn_scope_end(s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(as_pytorch), cmocka_unit_test(other_types),
      cmocka_unit_test(default_dtype_is_not_named),
      cmocka_unit_test(strides_are_followed), cmocka_unit_test(errors), cmocka_unit_test(out_of_memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
