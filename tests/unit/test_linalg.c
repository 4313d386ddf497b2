/* test_linalg.c: decompositions give back the matrix they came from, by the plain-C kernels (small matrices, and all of
 * them with CAIRN_KERNEL=*=-lapack) and by LAPACK (large ones, where it is there); a batch gives what its matrices give
 * alone.
 *
 * The program runs everything twice: a child without maths libraries first, then itself with them. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <cairn/cairn.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backends/cpu/lib/lapack.h"

static const int64_t sizes[][2] = {{1, 1}, {7, 7}, {9, 4}, {4, 9}, {64, 64}, {90, 50}, {50, 90}, {270, 80}};
enum { NSIZES = sizeof sizes / sizeof *sizes };

static cn_tensor *matrix(int64_t m, int64_t n, cn_dtype dtype)
{
  cn_seed(7);
  return cn_cast(cn_randn(CN_SHAPE(2, m, n), .dtype = CN_F64), dtype);
}

static cn_tensor *transposed(cn_tensor *x) { return cn_transpose(x, -2, -1); }

/* The largest difference, against the largest element of b or 1. */
static void same(cn_tensor *a, cn_tensor *b)
{
  double far = cn_item(cn_max(cn_abs(cn_sub(a, b)))), large = cn_item(cn_max(cn_abs(b)));
  assert_int_equal(cn_err(), 0);
  if (!(far < (cn_dtype_of(a) == CN_F64 ? 1e-10 : 1e-5) * fmax(large, 1))) fail_msg("%g apart of %g", far, large);
}

static void orthonormal(cn_tensor *q)
{
  cn_tensor *eye = cn_eye(cn_size(q, -1), CN_NONE, .dtype = cn_dtype_of(q));
  same(cn_matmul(transposed(q), q), cn_expand_as(eye, cn_matmul(transposed(q), q)));
}

static void check_rectangular(int64_t m, int64_t n, cn_dtype dtype)
{
  cn_tensor *a = matrix(m, n, dtype), *q, *r, *u, *s, *vh, *p, *l, *top;
  int64_t k = m < n ? m : n;
  for (int complete = 0; complete < 2; complete++) {
    cn_linalg_qr(&q, &r, a, .mode = complete ? "complete" : "reduced");
    same(cn_matmul(q, r), a);
    same(cn_triu(r), r);
    orthonormal(q);
    cn_linalg_svd(&u, &s, &vh, a, .no_full_matrices = !complete);
    orthonormal(u);
    orthonormal(transposed(vh));
    u = cn_narrow(u, -1, 0, k);
    same(cn_matmul(cn_mul(u, cn_unsqueeze(s, -2)), cn_narrow(vh, -2, 0, k)), a);
    same(s, cn_linalg_svdvals(a));
  }
  cn_linalg_lu(&p, &l, &top, a);
  same(cn_matmul(p, cn_matmul(l, top)), a);
  same(cn_matmul(a, cn_matmul(cn_linalg_pinv(a), a)), a);
}

static void check_square(int64_t n, cn_dtype dtype)
{
  cn_tensor *a = matrix(n, n, dtype), *b = cn_add(a, transposed(a)), *l, *q, *sign, *size;
  cn_tensor *eye = cn_eye(n, CN_NONE, .dtype = dtype);
  cn_linalg_eigh(&l, &q, b);
  orthonormal(q);
  same(cn_matmul(cn_mul(q, cn_unsqueeze(l, -2)), transposed(q)), b);
  same(l, cn_linalg_eigvalsh(b, .UPLO = "U"));
  cn_tensor *positive = cn_add(cn_true_divide(cn_matmul(a, transposed(a)), cn_int(n)), eye);
  cn_tensor *factor = cn_linalg_cholesky(positive), *x = cn_linalg_solve(positive, a);
  same(cn_matmul(factor, transposed(factor)), positive);
  same(cn_matmul(positive, x), a);
  same(cn_cholesky_solve(a, factor), x);
  same(cn_matmul(positive, cn_linalg_inv(positive)), cn_expand_as(eye, positive));
  cn_linalg_slogdet(&sign, &size, positive);
  same(size, cn_mul(cn_sum(cn_log(cn_diagonal(factor, .dim1 = -2, .dim2 = -1)), .dim = CN_INTS(-1)), cn_int(2)));
  cn_tensor *small = cn_true_divide(a, cn_int(n));
  same(cn_matmul(cn_linalg_matrix_exp(small), cn_linalg_matrix_exp(cn_neg(small))), cn_expand_as(eye, a));
}

static void decompositions(cn_dtype dtype)
{
  for (int i = 0; i < NSIZES; i++) {
    cn_scope *s = cn_scope_begin();
    check_rectangular(sizes[i][0], sizes[i][1], dtype);
    if (sizes[i][0] == sizes[i][1]) check_square(sizes[i][0], dtype);
    cn_scope_end(s);
  }
}

static void in_double(void **state)
{
  (void)state;
  decompositions(CN_F64);
}

static void in_float(void **state)
{
  (void)state;
  decompositions(CN_F32);
}

/* Bit for bit. */
static void batches_and_threads(void **state)
{
  (void)state;
  int threads = cn_num_threads();
  for (int64_t n = 20; n <= 80; n += 60) {
    cn_scope *s = cn_scope_begin();
    cn_tensor *a = matrix(n, n, CN_F64), *x, *y;
    cn_set_num_threads(3);
    cn_linalg_svd(NULL, &x, NULL, a);
    cn_tensor *inverse = cn_linalg_inv(a);
    cn_set_num_threads(1);
    cn_linalg_svd(NULL, &y, NULL, cn_select(a, 0, 1));
    assert_true(cn_item(cn_all(cn_eq(cn_select(x, 0, 1), y))) != 0);
    assert_true(cn_item(cn_all(cn_eq(cn_select(inverse, 0, 1), cn_linalg_inv(cn_select(a, 0, 1))))) != 0);
    cn_scope_end(s);
  }
  cn_set_num_threads(threads);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(in_double),
      cmocka_unit_test(in_float),
      cmocka_unit_test(batches_and_threads),
  };
  pid_t child = fork();
  if (child == 0) {
    const char *names[4];
    setenv("CAIRN_KERNEL", "*=-lapack", 1);
    _exit(cmocka_run_group_tests(tests, NULL, NULL) || cn_op_kernels(names, 4, cn_op_find("linalg_solve"), "cpu") != 1);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return cmocka_run_group_tests(tests, NULL, NULL) || status;
}
