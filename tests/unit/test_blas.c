/* test_blas.c: the maths libraries behind the matrix product, where they are installed: each gives what the own kernels
 * give, in every layout it takes, and is found by CAIRN_KERNEL; LAPACK's table works. */
#define _POSIX_C_SOURCE 200809L
#include "test.h"

#include <cairn/device.h>
#include <math.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/lib/blas.h"
#include "backends/cpu/lib/lapack.h"

enum { M = 90, N = 110, K = 100 };

static double a[M * K], b[K * N], c[M * N];
static float a32[M * K], b32[K * N], c32[M * N];

static void fill(void)
{
  for (int i = 0; i < M * K; i++) a32[i] = (float)(a[i] = (i * 37 % 101) / 50.0 - 1);
  for (int i = 0; i < K * N; i++) b32[i] = (float)(b[i] = (i * 53 % 103) / 50.0 - 1);
}

/* Layout bits: 1 A transposed, 2 B transposed, 4 C transposed. */
static void check(enum cni_blas by, int bits, bool f64)
{
  cni_gemm g = {.m = M, .n = N, .k = K, .alpha = 2, .beta = 0.5, .by = by};
  g.a_row = bits & 1 ? 1 : K, g.a_col = bits & 1 ? M : 1;
  g.b_row = bits & 2 ? 1 : N, g.b_col = bits & 2 ? K : 1;
  g.c_row = bits & 4 ? 1 : N, g.c_col = bits & 4 ? M : 1;
  for (int i = 0; i < M * N; i++) c32[i] = (float)(c[i] = i % 7);
  g.a = f64 ? (void *)a : (void *)a32;
  g.b = f64 ? (void *)b : (void *)b32;
  g.c = f64 ? (void *)c : (void *)c32;
  assert_int_equal(f64 ? cni_gemm_f64(&g) : cni_gemm_f32(&g), 0);
  for (int64_t i = 0; i < M; i++)
    for (int64_t j = 0; j < N; j++) {
      int64_t at = i * g.c_row + j * g.c_col;
      double sum = 0.5 * (double)(at % 7), size = sum; /* size: of all terms, whose roundings add up */
      for (int64_t k = 0; k < K; k++) {
        double term = 2 * a[i * g.a_row + k * g.a_col] * b[k * g.b_row + j * g.b_col];
        sum += term;
        size += fabs(term);
      }
      if (f64) assert_float_equal(c[at], sum, 1e-15 * size);
      else assert_float_equal(c32[at], sum, 1e-6 * size);
    }
}

static void library_products(void **state)
{
  (void)state;
  fill();
  for (int by = CNI_BLAS_DEFAULT; by <= CNI_BLAS_ONEDNN; by++)
    for (int bits = 0; bits < 8; bits++) {
      check((enum cni_blas)by, bits, false);
      check((enum cni_blas)by, bits, true);
    }
}

/* matmul, the group of mm, bmm, addmm, baddbmm and linear, was asked to be done by OpenBLAS. */
static void library_is_what_was_asked_for(void **state)
{
  static const char *const ops[] = {"mm", "bmm", "addmm", "baddbmm", "linear"};
  const char *names[8];
  (void)state;
  for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
    assert_int_equal(cn_op_kernels(names, 8, cn_op_find(ops[i]), "cpu"), 3);
    assert_string_equal(names[0], "openblas");
  }
}

/* Strides no library takes go to the own kernels. */
static void odd_strides_fall_back(void **state)
{
  (void)state;
  fill();
  cni_gemm g = {.m = M,
                .n = N / 2,
                .k = K,
                .a = a,
                .a_row = K,
                .a_col = 1,
                .b = b,
                .b_row = N,
                .b_col = 2,
                .c = c,
                .c_row = N,
                .c_col = 2,
                .alpha = 1,
                .by = CNI_BLAS_OPENBLAS};
  assert_false(cni_blas_product(&g, true));
  assert_int_equal(cni_gemm_f64(&g), 0);
  double sum = 0;
  for (int k = 0; k < K; k++) sum += a[3 * K + k] * b[k * N + 2 * 5];
  assert_float_equal(c[3 * N + 2 * 5], sum, 1e-11);
}

/* Solves a 3 x 3 system twice: by LU, and by Cholesky and two triangles. Column-major, symmetric. */
static void lapack_solves(void **state)
{
  (void)state;
  const cni_lapack *lapack = cni_lapack_get();
  if (!lapack) SKIP_TEST("no LAPACK library is installed");
  const double matrix[9] = {4, 1, 2, 1, 5, 3, 2, 3, 6};
  double lu[9], low[9], x[3] = {13, 20, 26}, y[3] = {13, 20, 26}, work[64];
  int n = 3, one = 1, pivots[3], info = -1, room = 64;
  memcpy(lu, matrix, sizeof lu);
  memcpy(low, matrix, sizeof low);
  lapack->getrf[1](&n, &n, lu, &n, pivots, &info);
  assert_int_equal(info, 0);
  lapack->getrs[1]("N", &n, &one, lu, &n, pivots, x, &n, &info, 1);
  assert_int_equal(info, 0);
  lapack->potrf[1]("L", &n, low, &n, &info, 1);
  assert_int_equal(info, 0);
  lapack->trtrs[1]("L", "N", "N", &n, &one, low, &n, y, &n, &info, 1, 1, 1);
  lapack->trtrs[1]("L", "T", "N", &n, &one, low, &n, y, &n, &info, 1, 1, 1);
  assert_int_equal(info, 0);
  for (int i = 0; i < 3; i++) {
    double back = 0;
    for (int j = 0; j < 3; j++) back += matrix[i + 3 * j] * x[j];
    assert_float_equal(back, i == 0 ? 13 : i == 1 ? 20 : 26, 1e-12);
    assert_float_equal(x[i], y[i], 1e-12);
  }
  lapack->getri[1](&n, lu, &n, pivots, work, &room, &info);
  assert_int_equal(info, 0);
  assert_float_equal(lu[0] * 13 + lu[3] * 20 + lu[6] * 26, x[0], 1e-12);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(library_is_what_was_asked_for),
      cmocka_unit_test(library_products),
      cmocka_unit_test(odd_strides_fall_back),
      cmocka_unit_test(lapack_solves),
  };
  setenv("CAIRN_KERNEL", "matmul=openblas", 1); /* before the first op, where it is read */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
