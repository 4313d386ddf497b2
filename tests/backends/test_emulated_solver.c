/* test_emulated_solver.c: linear algebra of large matrices by cuSOLVER and cuBLAS, for which LAPACK stands in on the
 * emulated driver (tests/simt/solver.c). */
#define _POSIX_C_SOURCE 200809L
#include "emulated.h"

#include <cairn/recording.h>
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

static int solve_step(cn_tensor **out, cn_tensor *const *in, void *payload)
{
  (void)payload;
  out[0] = cn_add(cn_linalg_solve(in[0], in[1]), cn_num(1));
  return cn_err();
}

/* A compiled function is not recorded where the library is faster; what a program records is done by kernels. */
static void recorded(void **state)
{
  (void)state;
  need_library();
  cn_scope *s = cn_scope_begin();
  cn_tensor *in[] = {there(regular(1, 150, CN_F64)), there(random_of(CN_F64, 1, 150, 2))}, *want, *have;
  assert_int_equal(solve_step(&want, in, NULL), 0);
  want = cn_to_device(want, CN_CPU);
  cn_graph *g = cn_trace(solve_step, 1, in, 2, NULL);
  if (!g) fail_msg("%s", cn_err_message());
  for (int i = 0; i < 4; i++) {
    int before = *calls;
    assert_int_equal(cn_graph_run(&have, g, in), 0);
    assert_int_equal(*calls, before + 1);
    close_to("a run of a graph", want, have, 0);
  }
  int before = *calls;
  cn_recording_pool *pool = cn_recording_pool_new(gpu);
  cn_recording *r = cn_recording_begin(pool);
  assert_non_null(r);
  assert_int_equal(solve_step(&have, in, NULL), 0);
  assert_int_equal(cn_recording_end(r), 0);
  assert_int_equal(cn_recording_replay(r), 0);
  close_to("a replay", want, have, 1e-9);
  assert_int_equal(*calls, before);
  cn_recording_free(r);
  cn_recording_pool_free(pool);
  cn_graph_free(g);
  cn_scope_end(s);
}

int main(int argc, char **argv)
{
  if (argc > 0) emulate_with(argv, "solver");
  const struct CMUnitTest tests[] = {cmocka_unit_test(solving), cmocka_unit_test(vectors),
                                     cmocka_unit_test(small_ones), cmocka_unit_test(recorded)};
  return cmocka_run_group_tests(tests, find_emulated, NULL);
}
