/* test_emulated_linalg.c: the plugin's own kernels of linear algebra on the emulated driver (tests/simt). */
#define _POSIX_C_SOURCE 200809L
#include "emulated.h"

#include "linalg_checks.h"

static void solving(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  check_solving(7, CN_F32);
  check_solving(21, CN_F64);
  check_cholesky(1, CN_F32);
  check_cholesky(19, CN_F64);
  cn_scope_end(s);
}

static void vectors(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  check_qr(20, 9, CN_F64);
  check_qr(5, 8, CN_F32);
  check_svd(19, 8, CN_F64);
  check_svd(6, 9, CN_F64);
  check_svd(9, 9, CN_F32);
  check_eigh(13, CN_F64);
  check_eigh(2, CN_F32);
  check_special(6);
  cn_scope_end(s);
}

static void failures(void **state)
{
  (void)state;
  need_device();
  cn_scope *s = cn_scope_begin();
  check_failures(3);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate(argv);
  const struct CMUnitTest tests[] = {cmocka_unit_test(solving), cmocka_unit_test(vectors), cmocka_unit_test(failures)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
