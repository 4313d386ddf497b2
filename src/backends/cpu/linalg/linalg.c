/* linalg.c: kernels of solving, inverse, determinant and Cholesky, one matrix of the batch after the other: gathered
 * into memory of its own, factored there, and the result written out.
 *
 * Flow: the "lapack" implementations take matrices that are worth a library, in their own type and
 * column-major; the "reference" ones, plain C in double precision and row-major, take everything else. Invariant: what
 * a matrix of the batch gives does not depend on the others. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm.h"
#include "linalg.h"

enum { SUBSTITUTE_ROWS = 32 }; /* rows solved at a time; the rest is a product */

/* ---- LU with row exchanges ---- */

int64_t cni_lu(double *a, int64_t m, int64_t n, int64_t *swaps)
{
  int64_t failed = 0, steps = m < n ? m : n;
  for (int64_t i = 0; i < steps; i++) {
    int64_t best = i;
    for (int64_t r = i + 1; r < m; r++)
      if (fabs(a[r * n + i]) > fabs(a[best * n + i])) best = r;
    swaps[i] = best;
    for (int64_t k = 0; best != i && k < n; k++) {
      double t = a[i * n + k];
      a[i * n + k] = a[best * n + k];
      a[best * n + k] = t;
    }
    double pivot = a[i * n + i];
    if (pivot == 0) {
      if (!failed) failed = i + 1;
      continue;
    }
    for (int64_t r = i + 1; r < m; r++) {
      double f = a[r * n + i] /= pivot;
      for (int64_t k = i + 1; k < n; k++) a[r * n + k] -= f * a[i * n + k];
    }
  }
  return failed;
}

/* a: (n, n), b: (n, k), row-major. Replaces b by the solution with one triangle of a; row by row inside
 * blocks, the blocks' parts by products. */
void cni_substitute(const double *a, int64_t a_row, int64_t a_col, bool upper, bool unit, double *b,
                       int64_t n, int64_t k)
{
  for (int64_t done = 0; done < n; done += SUBSTITUTE_ROWS) {
    int64_t rows = n - done < SUBSTITUTE_ROWS ? n - done : SUBSTITUTE_ROWS;
    int64_t first = upper ? n - done - rows : done, known = upper ? n - done : 0;
    cni_gemm g = {.m = rows,
                  .n = k,
                  .k = done,
                  .alpha = -1,
                  .beta = 1,
                  .a = a + first * a_row + known * a_col,
                  .a_row = a_row,
                  .a_col = a_col,
                  .b = b + known * k,
                  .b_row = k,
                  .b_col = 1,
                  .c = b + first * k,
                  .c_row = k,
                  .c_col = 1};
    if (done && cni_gemm_f64(&g)) return;
    for (int64_t s = 0; s < rows; s++) {
      int64_t i = upper ? first + rows - 1 - s : first + s;
      int64_t from = upper ? i + 1 : first, to = upper ? first + rows : i;
      double *x = b + i * k;
      for (int64_t r = from; r < to; r++) {
        double f = a[i * a_row + r * a_col];
        for (int64_t t = 0; t < k; t++) x[t] -= f * b[r * k + t];
      }
      for (int64_t t = 0; !unit && t < k; t++) x[t] /= a[i * a_row + i * a_col];
    }
  }
}

void cni_exchange_rows(double *b, const int64_t *swaps, int64_t n, int64_t k)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t t = 0; swaps[i] != i && t < k; t++) {
      double x = b[i * k + t];
      b[i * k + t] = b[swaps[i] * k + t];
      b[swaps[i] * k + t] = x;
    }
}

/* Room of a factored matrix: its elements, then the row exchanges (64 bits each; LAPACK uses half). */
static int64_t factor(const cni_matjob *j, char *a)
{
  void *swaps = a + cni_mat_bytes(j, j->n * j->n);
  if (!j->lapack) return cni_lu((double *)(void *)a, j->n, j->n, swaps);
  int n = (int)j->n, info = 0;
  j->lapack->getrf[j->dtype == CN_F64](&n, &n, a, &n, swaps, &info);
  return info;
}

static size_t factor_room(const cni_matjob *j)
{
  return (cni_mat_bytes(j, j->n * j->n) + (size_t)j->n * 8 + 63) & ~(size_t)63;
}

/* ---- solving: linalg_solve, linalg_inv ---- */

static int64_t solve_factored(const cni_matjob *j, char *a, char *b)
{
  void *swaps = a + cni_mat_bytes(j, j->n * j->n);
  if (j->lapack) {
    int n = (int)j->n, k = (int)j->k, info = 0;
    j->lapack->getrs[j->dtype == CN_F64]("N", &n, &k, a, &n, swaps, b, &n, &info, 1);
    return info;
  }
  const double *lu = (const double *)(const void *)a;
  double *x = (double *)(void *)b;
  cni_exchange_rows(x, swaps, j->n, j->k);
  cni_substitute(lu, j->n, 1, false, true, x, j->n, j->k);
  cni_substitute(lu, j->n, 1, true, false, x, j->n, j->k);
  return 0;
}

static int64_t solve_element(const cni_matjob *j, int64_t index, char *room)
{
  const cn_desc *out = cn_desc_of(j->c->out[0]), *given = cn_desc_of(j->c->in[1]);
  int core = out->ndim - j->nbatch; /* 1 for vectors */
  char *b = room + factor_room(j);
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), from = cni_mat_at(j, given, core, index);
  cni_mat to = cni_mat_at(j, out, core, index);
  cni_mat_move(cni_mat_own(j, room, j->n, j->n), j->left ? a : cni_mat_t(a), j->n, j->n);
  cni_mat_move(cni_mat_own(j, b, j->n, j->k), j->left ? from : cni_mat_t(from), j->n, j->k);
  int64_t failed = factor(j, room);
  if (!failed) failed = solve_factored(j, room, b);
  if (failed) cni_mat_fill(j->left ? to : cni_mat_t(to), NAN, j->n, j->k);
  else cni_mat_move(j->left ? to : cni_mat_t(to), cni_mat_own(j, b, j->n, j->k), j->n, j->k);
  return failed;
}

static int64_t inv_element(const cni_matjob *j, int64_t index, char *room)
{
  char *b = room + factor_room(j);
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  cni_mat identity = cni_mat_own(j, b, j->n, j->n);
  cni_mat_move(cni_mat_own(j, room, j->n, j->n), a, j->n, j->n);
  int64_t failed = factor(j, room);
  memset(b, 0, cni_mat_bytes(j, j->n * j->n));
  identity.row = j->n + 1; /* the diagonal as a column */
  cni_mat_fill(identity, 1, j->n, 1);
  if (!failed) failed = solve_factored(j, room, b);
  if (failed) cni_mat_fill(to, NAN, j->n, j->n);
  else cni_mat_move(to, cni_mat_own(j, b, j->n, j->n), j->n, j->n);
  return failed;
}

/* ---- linalg_det ---- */

static double pivot_sign(const cni_matjob *j, const char *swaps)
{
  double sign = 1;
  for (int64_t i = 0; i < j->n; i++) {
    int64_t other;
    if (j->lapack) {
      int one_based;
      memcpy(&one_based, swaps + i * (int64_t)sizeof one_based, sizeof one_based);
      other = one_based - 1;
    } else {
      memcpy(&other, swaps + i * (int64_t)sizeof other, sizeof other);
    }
    if (other != i) sign = -sign;
  }
  return sign;
}

static int64_t det_element(const cni_matjob *j, int64_t index, char *room)
{
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index);
  const cn_desc *out = cn_desc_of(j->c->out[0]);
  cni_mat_move(cni_mat_own(j, room, j->n, j->n), a, j->n, j->n);
  factor(j, room); /* a zero pivot makes the product 0, which is the determinant */
  double det = pivot_sign(j, room + cni_mat_bytes(j, j->n * j->n));
  for (int64_t i = 0; i < j->n; i++) {
    cni_mat at = {room + cni_mat_bytes(j, i * (j->n + 1)), 0, 0, j->dtype};
    double d;
    cni_mat_move((cni_mat){(char *)&d, 0, 0, CN_F64}, at, 1, 1);
    det *= d;
  }
  cni_mat_fill(cni_mat_at(j, out, 0, index), det, 1, 1);
  return 0;
}

/* ---- linalg_solve_triangular ---- */

static int64_t triangular_element(const cni_matjob *j, int64_t index, char *room)
{
  char *b = room + cni_mat_bytes(j, j->n * j->n);
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index),
       from = cni_mat_at(j, cn_desc_of(j->c->in[1]), 2, index);
  cni_mat to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  bool upper = j->upper == j->left; /* a transposed triangle is the other one */
  cni_mat_move(cni_mat_own(j, room, j->n, j->n), j->left ? a : cni_mat_t(a), j->n, j->n);
  cni_mat_move(cni_mat_own(j, b, j->n, j->k), j->left ? from : cni_mat_t(from), j->n, j->k);
  cni_substitute((double *)(void *)room, j->n, 1, upper, j->unit, (double *)(void *)b, j->n, j->k);
  cni_mat_move(j->left ? to : cni_mat_t(to), cni_mat_own(j, b, j->n, j->k), j->n, j->k);
  return 0;
}

/* ---- linalg_cholesky ---- */

/* a: (n, n), lower triangle replaced by L. */
static int64_t cholesky_reference(double *a, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k <= i; k++) {
      double sum = a[i * n + k];
      for (int64_t t = 0; t < k; t++) sum -= a[i * n + t] * a[k * n + t];
      if (k < i) a[i * n + k] = sum / a[k * n + k];
      else if (!(sum > 0)) return i + 1;
      else a[i * n + i] = sqrt(sum);
    }
  return 0;
}

static int64_t cholesky_element(const cni_matjob *j, int64_t index, char *room)
{
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index),
       to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  cni_mat mine = cni_mat_own(j, room, j->n, j->n);
  int64_t failed;
  cni_mat_move(mine, j->upper ? cni_mat_t(a) : a, j->n, j->n);
  if (j->lapack) {
    int n = (int)j->n, info = 0;
    j->lapack->potrf[j->dtype == CN_F64]("L", &n, room, &n, &info, 1);
    failed = info;
  } else {
    failed = cholesky_reference((double *)(void *)room, j->n);
  }
  const int64_t elem = j->dtype == CN_F64 ? 8 : 4;
  for (int64_t i = 0; i < j->n; i++) { /* what is above the diagonal is left from A */
    cni_mat above = mine;
    above.data += (i * mine.row + (i + 1) * mine.col) * elem;
    cni_mat_fill(above, 0, 1, j->n - i - 1);
  }
  cni_mat_move(j->upper ? cni_mat_t(to) : to, mine, j->n, j->n);
  return failed;
}

/* ---- the kernels ---- */

static const char singular[] = "the input matrix is singular", zero_pivot[] = "zero on the diagonal of U at";

/* linalg_solve(A, B, left), linalg_solve_ex(A, B, left, check_errors) -> (result, info) */
static int solve_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  bool vector = out->ndim < a->ndim;
  if (vector) j.nbatch = out->ndim - 1;
  j.left = c->args[2].u.i != 0;
  j.k = vector ? 1 : out->shape[out->ndim - (j.left ? 1 : 2)];
  j.room = factor_room(&j) + cni_mat_bytes(&j, j.n * j.k);
  j.element = solve_element;
  j.info = c->nout - 1;
  return cni_matjob_run(&j, cni_cube(j.n) + (double)j.n * (double)j.n * (double)j.k, j.info && c->args[3].u.i, singular,
                        zero_pivot);
}
static int solve_lapack(cn_call *c) { return solve_with(c, true); }
static int solve_kernel(cn_call *c) { return solve_with(c, false); }

/* linalg_inv(A), linalg_inv_ex(A, check_errors) -> (inverse, info) */
static int inv_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  j.k = j.n;
  j.room = factor_room(&j) + cni_mat_bytes(&j, j.n * j.n);
  j.element = inv_element;
  j.info = c->nout - 1;
  return cni_matjob_run(&j, 2 * cni_cube(j.n), j.info && c->args[1].u.i, singular, zero_pivot);
}
static int inv_lapack(cn_call *c) { return inv_with(c, true); }
static int inv_kernel(cn_call *c) { return inv_with(c, false); }

static int det_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 0);
  if (status) return status;
  j.room = factor_room(&j);
  j.element = det_element;
  return cni_matjob_run(&j, cni_cube(j.n), false, "", "");
}
static int det_lapack(cn_call *c) { return det_with(c, true); }
static int det_kernel(cn_call *c) { return det_with(c, false); }

/* linalg_cholesky(input, upper), linalg_cholesky_ex(input, upper, check_errors) -> (L, info) */
static int cholesky_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  j.upper = c->args[1].u.i != 0;
  j.room = cni_mat_bytes(&j, j.n * j.n);
  j.element = cholesky_element;
  j.info = c->nout - 1;
  return cni_matjob_run(&j, cni_cube(j.n), j.info && c->args[2].u.i, "the input is not positive-definite",
                        "leading minor of order");
}
static int cholesky_lapack(cn_call *c) { return cholesky_with(c, true); }
static int cholesky_kernel(cn_call *c) { return cholesky_with(c, false); }

/* linalg_solve_triangular(A, B, upper, left, unitriangular) */
static int triangular_kernel(cn_call *c)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, false, 2);
  if (status) return status;
  const cn_desc *out = cn_desc_of(c->out[0]);
  j.upper = c->args[2].u.i != 0;
  j.left = c->args[3].u.i != 0;
  j.unit = c->args[4].u.i != 0;
  j.k = out->shape[out->ndim - (j.left ? 1 : 2)];
  j.room = cni_mat_bytes(&j, j.n * j.n + j.n * j.k);
  j.element = triangular_element;
  return cni_matjob_run(&j, (double)j.n * (double)j.n * (double)j.k, false, "", "");
}

/* ... whose right-hand sides are counted in 32 bits too. */
static int can_solve_lapack(const cn_call *c, cn_plan *plan)
{
  int status = cni_can_lapack(c, plan);
  if (status || cn_desc_of(c->out[0])->numel <= INT32_MAX) return status;
  plan->refusal = "too many right-hand sides for LAPACK";
  return CN_REFUSED;
}

const cn_kernel cni_cpu_linalg_kernels[] = {
    {"linalg_solve", "lapack", solve_lapack, can_solve_lapack},
    {"linalg_solve", "reference", solve_kernel},
    {"linalg_solve_ex", "lapack", solve_lapack, can_solve_lapack},
    {"linalg_solve_ex", "reference", solve_kernel},
    {"linalg_inv", "lapack", inv_lapack, cni_can_lapack},
    {"linalg_inv", "reference", inv_kernel},
    {"linalg_inv_ex", "lapack", inv_lapack, cni_can_lapack},
    {"linalg_inv_ex", "reference", inv_kernel},
    {"linalg_det", "lapack", det_lapack, cni_can_lapack},
    {"linalg_det", "reference", det_kernel},
    {"linalg_cholesky", "lapack", cholesky_lapack, cni_can_lapack},
    {"linalg_cholesky", "reference", cholesky_kernel},
    {"linalg_cholesky_ex", "lapack", cholesky_lapack, cni_can_lapack},
    {"linalg_cholesky_ex", "reference", cholesky_kernel},
    {"linalg_solve_triangular", "reference", triangular_kernel},
    {NULL, NULL, NULL},
};
