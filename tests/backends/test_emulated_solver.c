/* test_emulated_solver.c: linear algebra of large matrices by cuSOLVER and cuBLAS, for which LAPACK stands in on the
 * emulated driver (tests/simt/solver.c). */
#define _POSIX_C_SOURCE 200809L
#include "emulated.h"

#include <dlfcn.h>

#include "linalg_checks.h"

static int *calls; /* by the library's own count; NULL: it is not there */

static void need_library(void)
{
  need_device();
  void *library = dlopen("libcusolver.so.12", RTLD_NOW);
  calls = library ? dlsym(library, "simt_solver_calls") : NULL;
  if (!calls) SKIP_TEST("no LAPACK library is installed");
}

static void solving(void **state)
{
  (void)state;
  need_library();
  cn_scope *s = cn_scope_begin();
  cn_seed(3);
  int before = *calls;
  check_solving(150, CN_F32);
  check_solving(150, CN_F64);
  check_cholesky(150, CN_F32);
  check_cholesky(150, CN_F64);
  assert_true(*calls >= before + 72); /* two matrices each time */
  cn_scope_end(s);
}

static void vectors(void **state)
{
  (void)state;
  need_library();
  cn_scope *s = cn_scope_begin();
  cn_seed(4);
  int before = *calls;
  check_qr(160, 151, CN_F64);
  check_qr(151, 160, CN_F32);
  check_svd(160, 151, CN_F64);
  check_svd(151, 160, CN_F64);
  check_svd(151, 160, CN_F32);
  check_eigh(151, CN_F64);
  check_eigh(151, CN_F32);
  assert_true(*calls >= before + 46);
  cn_scope_end(s);
}

/* What is small, or many, is left to the plugin's kernels. */
static void small_ones(void **state)
{
  (void)state;
  need_library();
  cn_scope *s = cn_scope_begin();
  int before = *calls;
  check_solving(4, CN_F32);
  check_failures(3);
  assert_int_equal(*calls, before);
  check_failures(160);
  assert_true(*calls > before);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate_with(argv, "solver");
  const struct CMUnitTest tests[] = {cmocka_unit_test(solving), cmocka_unit_test(vectors),
                                     cmocka_unit_test(small_ones)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
