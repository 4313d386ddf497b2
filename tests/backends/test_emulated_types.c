/* test_emulated_types.c: types for storage, complex numbers and 8-bit floats, on the CUDA plugin, emulated
 * (test_emulated.c): what the CPU takes is taken there, and comes to the same bytes. */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "emulated.h"

static void same_bytes(const char *what, cn_tensor *want, cn_tensor *have)
{
  cn_tensor *a = cn_contiguous(want), *b = cn_contiguous(cn_to_device(have, CN_CPU));
  if (cn_err()) fail_msg("%s: %s", what, cn_err_message());
  assert_int_equal(cn_dtype_of(a), cn_dtype_of(b));
  assert_int_equal(cn_numel(a), cn_numel(b));
  if (memcmp(cn_data(a), cn_data(b), cn_dtype_bytes(cn_dtype_of(a), cn_numel(a)))) fail_msg("%s differs", what);
}

static void complex_copies(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_C64, CN_C128};
  const float pairs[] = {1, -2, 3, 4, -5, 6, 7, 8, 9, 10, 11, -12};
  for (int i = 0; i < 2; i++) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *x = cn_cast(cn_from_data(pairs, CN_SHAPE(2, 3), CN_C64), types[i]);
    cn_tensor *real = cn_from_data(pairs, CN_SHAPE(6), CN_F32), *far = there(x), *wide = there(real);
    same_bytes("a clone", cn_clone(x), cn_clone(far));
    same_bytes("a transpose", cn_contiguous(cn_transpose(x, 0, 1)), cn_contiguous(cn_transpose(far, 0, 1)));
    same_bytes("every second", cn_clone(cn_slice(x, 1, 0, 3, .step = 2)), cn_clone(cn_slice(far, 1, 0, 3, .step = 2)));
    same_bytes("the other width", cn_cast(x, types[1 - i]), cn_cast(far, types[1 - i]));
    same_bytes("real numbers", cn_cast(real, types[i]), cn_cast(wide, types[i]));
    same_bytes("a number", cn_full(CN_SHAPE(3), 2.5, .dtype = types[i]),
               cn_full(CN_SHAPE(3), 2.5, .dtype = types[i], .device = gpu));
    same_bytes("zeros", cn_zeros(CN_SHAPE(3), .dtype = types[i]),
               cn_zeros(CN_SHAPE(3), .dtype = types[i], .device = gpu));
    cn_scope_end(s);
  }
}

static void small_floats(void **state)
{
  (void)state;
  need_device();
  static const cn_dtype types[] = {CN_F8E4M3, CN_F8E5M2, CN_F8E8M0};
  for (int i = 0; i < 3; i++) {
    cn_scope *s = cn_scope_begin();
    cn_dtype t = types[i];
    same_bytes("eye", cn_eye(3, 4, .dtype = t), cn_eye(3, 4, .dtype = t, .device = gpu));
    same_bytes("arange", cn_arange(1, 9, .dtype = t), cn_arange(1, 9, .dtype = t, .device = gpu));
    same_bytes("linspace", cn_linspace(0.3, 500, 7, .dtype = t), cn_linspace(0.3, 500, 7, .dtype = t, .device = gpu));
    cn_scope_end(s);
  }
}

/* As many index tensors as no kernel takes. */
static void many_indices(void **state)
{
  (void)state;
  need_device();
  enum { DIMS = 9 };
  cn_scope *s = cn_scope_begin();
  const int64_t places[] = {1, 0, 1};
  cn_tensor *x = cn_view(cn_arange(0, 512), CN_SHAPE(2, 2, 2, 2, 2, 2, 2, 2, 2)), *near[DIMS], *far[DIMS];
  for (int i = 0; i < DIMS; i++) near[i] = cn_from_data(places, CN_SHAPE(3), CN_I64), far[i] = there(near[i]);
  same_bytes("index", cn_index(x, near, DIMS), cn_index(there(x), far, DIMS));
  same_bytes("index_put", cn_index_put(x, near, DIMS, cn_int(7)), cn_index_put(there(x), far, DIMS, cn_int(7)));
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(complex_copies), cmocka_unit_test(small_floats),
                                     cmocka_unit_test(many_indices)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
