/* test_emulated_types.c: types for storage, complex numbers and 8-bit floats, on the CUDA plugin, emulated
 * (test_emulated.c): what the CPU takes is taken there, and comes to the same bytes; products of 8-bit floats, by a
 * cuBLASLt that knows those alone (tests/simt/blaslt.c). */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include "emulated.h"

#include <dlfcn.h>

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

/* ---- scaled_mm ---- */

typedef struct form {
  int64_t m, k, n;
  cn_dtype a, b, to, bias; /* bias: CN_DTYPE_NONE for none */
  bool lines, by_rows;     /* scales for each row and column; mat2 lies by rows */
  int runs;                /* of the library */
} form;

static cn_tensor *product_of(cn_tensor *const *t, const form *f)
{
  return cn_scaled_mm(t[0], f->by_rows ? t[1] : cn_transpose(t[1], 0, 1), t[2], t[3], .bias = t[4], .out_dtype = f->to,
                      .use_fast_accum = f->lines);
}

static void check_product(const form *f, const int *runs)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t[5] = {cn_cast(cn_randn(CN_SHAPE(f->m, f->k)), f->a), NULL, NULL, NULL, NULL}, *far[5];
  t[1] = cn_cast(f->by_rows ? cn_randn(CN_SHAPE(f->k, f->n)) : cn_randn(CN_SHAPE(f->n, f->k)), f->b);
  t[2] = f->lines ? cn_rand(CN_SHAPE(f->m, 1)) : cn_rand(CN_SHAPE(1));
  t[3] = f->lines ? cn_rand(CN_SHAPE(1, f->n)) : cn_rand(CN_SCALAR_SHAPE);
  if (f->bias) t[4] = cn_cast(cn_randn(CN_SHAPE(f->n)), f->bias);
  for (int i = 0; i < 5; i++) far[i] = t[i] ? there(t[i]) : NULL;
  int before = *runs;
  cn_tensor *y = product_of(far, f);
  double tol = f->to == CN_F32 ? 1e-5 : f->to == CN_F16 ? 1e-3 : f->to == CN_BF16 ? 8e-3 : 0.07;
  close_to("a product of 8-bit floats", product_of(t, f), y, tol);
  if (*runs - before != f->runs)
    fail_msg("%lld x %lld x %lld: the library ran %d times, not %d", (long long)f->m, (long long)f->k, (long long)f->n,
             *runs - before, f->runs);
  cn_scope_end(s);
}

static void products(void **state)
{
  (void)state;
  need_device();
#define E4 CN_F8E4M3
#define E5 CN_F8E5M2
#define NONE CN_DTYPE_NONE
  static const form forms[] = {
      {5, 32, 48, E4, E4, CN_BF16, NONE, false, false, 1},  {16, 16, 16, E4, E5, CN_F16, NONE, false, false, 1},
      {3, 64, 16, E5, E4, CN_F32, NONE, false, false, 1},   {7, 32, 48, E4, E4, CN_BF16, CN_BF16, false, false, 1},
      {7, 32, 48, E4, E4, CN_F32, CN_F32, false, false, 1}, {7, 32, 48, E4, E4, CN_F16, CN_BF16, false, false, 1},
      {5, 32, 48, E4, E4, CN_BF16, NONE, true, false, 1},   {5, 32, 48, E4, E4, CN_F16, CN_F16, true, false, 1},
      {5, 32, 48, E4, E4, E4, NONE, false, false, 1},       {5, 32, 48, E4, E4, CN_BF16, NONE, false, true, 1},
      {5, 32, 48, E5, E5, CN_BF16, NONE, false, false, 0},  {5, 24, 48, E4, E4, CN_BF16, NONE, false, false, 0},
      {5, 32, 20, E4, E4, CN_F32, CN_F32, true, false, 0},  {1, 32, 16, E4, E4, CN_F32, NONE, true, true, 1},
  };
  void *library = dlopen("libcublasLt.so.13", RTLD_NOW);
  int *runs = library ? dlsym(library, "simt_blaslt_runs") : NULL;
  if (!runs) fail_msg("no cuBLASLt");
  int *fast = dlsym(library, "simt_blaslt_fast"), *lines = dlsym(library, "simt_blaslt_lines");
  int *recent = dlsym(library, "simt_blaslt_new");
  cn_seed(21);
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) check_product(&forms[i], runs);
  assert_int_equal(*lines, 3);
  assert_int_equal(*fast, 3);
  *recent = 0; /* scales for lines come behind the product then */
  check_product(&(form){6, 32, 48, E4, E4, CN_BF16, CN_BF16, true, false, 1}, runs);
  assert_int_equal(*lines, 3);
  *recent = 1;
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate_with(argv, "blaslt");
  const struct CMUnitTest tests[] = {cmocka_unit_test(complex_copies), cmocka_unit_test(small_floats),
                                     cmocka_unit_test(many_indices),   cmocka_unit_test(products)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
