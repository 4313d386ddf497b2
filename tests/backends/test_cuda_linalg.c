/* test_cuda_linalg.c: linear algebra on a CUDA device: small matrices by the plugin's kernels, large ones by cuSOLVER
 * and cuBLAS where they are there. Skipped, with the reason, where there is no device. */
#define _POSIX_C_SOURCE 200809L
#include "on_cuda.h"

#include "linalg_checks.h"

static void solving(void **state)
{
  (void)state;
  need_gpu();
  static const int64_t sizes[] = {1, 5, 40, 150, 300};
  cn_seed(3);
  for (int i = 0; i < 10; i++) {
    cn_scope *s = cn_scope_begin();
    check_solving(sizes[i / 2], i % 2 ? CN_F32 : CN_F64);
    check_cholesky(sizes[i / 2], i % 2 ? CN_F32 : CN_F64);
    cn_scope_end(s);
  }
}

static void vectors(void **state)
{
  (void)state;
  need_gpu();
  static const int64_t sizes[][2] = {{1, 1}, {12, 5}, {5, 12}, {70, 60}, {200, 130}, {130, 200}, {256, 256}};
  cn_seed(4);
  for (int i = 0; i < 14; i++) {
    cn_scope *s = cn_scope_begin();
    const int64_t *size = sizes[i / 2];
    cn_dtype dtype = i % 2 ? CN_F32 : CN_F64;
    check_qr(size[0], size[1], dtype);
    check_svd(size[0], size[1], dtype);
    check_eigh(size[0], dtype);
    cn_scope_end(s);
  }
}

static void special(void **state)
{
  (void)state;
  need_gpu();
  cn_scope *s = cn_scope_begin();
  check_special(9);
  check_special(160);
  check_failures(3);
  check_failures(160);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) find_plugin(argv[0]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(solving), cmocka_unit_test(vectors), cmocka_unit_test(special)};
  return cmocka_run_group_tests(tests, set_up, NULL);
}
