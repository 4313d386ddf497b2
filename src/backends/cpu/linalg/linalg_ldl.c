/* linalg_ldl.c: kernels of the L D L^T decomposition of symmetric matrices and of solving with it.
 *
 * Flow: as in linalg.c. Invariant: pivots are LAPACK's: from 1, negative and twice for a block of two rows. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "linalg.h"

enum { WORK = 64 }; /* columns that a library works on at once, at most */

/* a: (n, n), row-major; its lower triangle. */
typedef struct square {
  double *a;
  int64_t n;
} square;

static inline double *at(const square *s, int64_t i, int64_t k) { return s->a + i * s->n + k; }

static void swap(double *a, double *b)
{
  double t = *a;
  *a = *b;
  *b = t;
}

/* The largest element of column k from row `from` on. */
static int64_t largest_below(const square *s, int64_t k, int64_t from)
{
  int64_t best = from;
  for (int64_t i = from + 1; i < s->n; i++)
    if (fabs(*at(s, i, k)) > fabs(*at(s, best, k))) best = i;
  return best;
}

/* Bunch and Kaufman's choice at step k: how many rows the block has (0: a column of zeros), and which row comes to its
 * end. */
static int choose(const square *s, int64_t k, int64_t *row)
{
  const double alpha = 0.6403882032022076; /* (1 + sqrt 17) / 8: least growth */
  double own = fabs(*at(s, k, k)), column = 0, along = 0;
  int64_t best = k;
  *row = k;
  if (k + 1 < s->n) {
    best = largest_below(s, k, k + 1);
    column = fabs(*at(s, best, k));
  }
  if (!(fmax(own, column) > 0) || isnan(own)) return 0;
  if (own >= alpha * column) return 1;
  for (int64_t i = k; i < best; i++) along = fmax(along, fabs(*at(s, best, i)));
  for (int64_t i = best + 1; i < s->n; i++) along = fmax(along, fabs(*at(s, i, best)));
  if (own >= alpha * column * (column / along)) return 1;
  *row = best;
  return fabs(*at(s, best, best)) >= alpha * along ? 1 : 2;
}

/* Rows and columns `to` and `from` > `to` of what is left change places; k: where the block begins. */
static void exchange(const square *s, int64_t k, int64_t to, int64_t from)
{
  for (int64_t i = from + 1; i < s->n; i++) swap(at(s, i, to), at(s, i, from));
  for (int64_t i = to + 1; i < from; i++) swap(at(s, i, to), at(s, from, i));
  swap(at(s, to, to), at(s, from, from));
  if (to > k) swap(at(s, to, k), at(s, from, k));
}

static void eliminate_one(const square *s, int64_t k)
{
  double r = 1 / *at(s, k, k);
  for (int64_t i = k + 1; i < s->n; i++) {
    double f = r * *at(s, i, k);
    for (int64_t j = k + 1; j <= i; j++) *at(s, i, j) -= f * *at(s, j, k);
  }
  for (int64_t i = k + 1; i < s->n; i++) *at(s, i, k) *= r;
}

static void eliminate_two(const square *s, int64_t k)
{
  double d21 = *at(s, k + 1, k), d11 = *at(s, k + 1, k + 1) / d21, d22 = *at(s, k, k) / d21;
  double scale = 1 / (d11 * d22 - 1) / d21;
  for (int64_t j = k + 2; j < s->n; j++) {
    double one = scale * (d11 * *at(s, j, k) - *at(s, j, k + 1)), two = scale * (d22 * *at(s, j, k + 1) - *at(s, j, k));
    for (int64_t i = j; i < s->n; i++) *at(s, i, j) -= *at(s, i, k) * one + *at(s, i, k + 1) * two;
    *at(s, j, k) = one;
    *at(s, j, k + 1) = two;
  }
}

/* In place; the first column of zeros, from 1, or 0. */
static int64_t factor(const square *s, int *pivots)
{
  int64_t failed = 0, row;
  for (int64_t k = 0; k < s->n;) {
    int rows = choose(s, k, &row);
    if (!rows) {
      if (!failed) failed = k + 1;
      pivots[k] = (int)k + 1;
      k++;
      continue;
    }
    if (row != k + rows - 1) exchange(s, k, k + rows - 1, row);
    if (rows == 1) eliminate_one(s, k);
    else eliminate_two(s, k);
    for (int i = 0; i < rows; i++) pivots[k + i] = rows == 1 ? (int)row + 1 : -((int)row + 1);
    k += rows;
  }
  return failed;
}

/* ---- linalg_ldl_factor_ex(A, hermitian, check_errors) -> (LD, pivots, info) ---- */

static int64_t factor_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t n = j->n, failed;
  char *work = room + cni_mat_room(j, n * n);
  int *pivots = (int *)(void *)(work + cni_mat_room(j, n * WORK));
  cni_mat mine = cni_mat_own(j, room, n, n), to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  cni_mat kept = cni_mat_at(j, cn_desc_of(j->c->out[1]), 1, index);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), n, n);
  if (j->lapack) {
    int size = (int)n, lwork = size * WORK, info = 0;
    j->lapack->sytrf[j->dtype == CN_F64]("L", &size, room, &size, pivots, work, &lwork, &info, 1);
    failed = info;
  } else {
    failed = factor(&(square){(double *)(void *)room, n}, pivots);
  }
  cni_mat_move(to, mine, n, n);
  int64_t elem = to.dtype == CN_F64 ? 8 : 4;
  for (int64_t i = 0; i < n; i++) {
    cni_mat above = {to.data + (i * to.row + (i + 1) * to.col) * elem, to.row, to.col, to.dtype};
    cni_mat_fill(above, 0, 1, n - 1 - i);
    ((int32_t *)(void *)kept.data)[i * kept.row] = pivots[i];
  }
  return failed;
}

static int factor_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  j.room = cni_mat_room(&j, j.n * j.n) + cni_mat_room(&j, j.n * WORK) + (size_t)j.n * sizeof(int);
  j.element = factor_element;
  j.info = 2;
  return cni_matjob_run(&j, cni_cube(j.n) / 3, c->args[2].u.i != 0, "the factor D is exactly singular",
                        "zero on its diagonal at");
}
static int factor_lapack(cn_call *c) { return factor_with(c, true); }
static int factor_kernel(cn_call *c) { return factor_with(c, false); }

/* ---- linalg_ldl_solve(LD, pivots, B, hermitian) ---- */

/* Are they what the decomposition can give? */
static bool pivots_fit(const int *pivots, int64_t n)
{
  for (int64_t k = 0; k < n; k++) {
    if (pivots[k] > 0 && pivots[k] >= k + 1 && pivots[k] <= n) continue;
    int64_t row = -(int64_t)pivots[k];
    if (row < k + 2 || row > n || k + 1 == n || pivots[k + 1] != pivots[k]) return false;
    k++;
  }
  return true;
}

static void swap_rows(double *b, int64_t cols, int64_t i, int64_t k)
{
  for (int64_t t = 0; i != k && t < cols; t++) swap(b + i * cols + t, b + k * cols + t);
}

/* Row `to` of b less f times row `from`. */
static void subtract(double *b, int64_t cols, int64_t to, double f, int64_t from)
{
  for (int64_t t = 0; t < cols; t++) b[to * cols + t] -= f * b[from * cols + t];
}

/* The block of two at k, solved by the numbers over its corner, which are at most about 1. */
static void divide_two(const square *s, double *b, int64_t cols, int64_t k)
{
  double corner = *at(s, k + 1, k), one = *at(s, k, k) / corner, two = *at(s, k + 1, k + 1) / corner;
  double denominator = one * two - 1, *x = b + k * cols, *y = x + cols;
  for (int64_t t = 0; t < cols; t++) {
    double p = x[t] / corner, q = y[t] / corner;
    x[t] = (two * p - q) / denominator;
    y[t] = (one * q - p) / denominator;
  }
}

static void solve(const square *s, const int *pivots, double *b, int64_t cols)
{
  int64_t n = s->n;
  for (int64_t k = 0; k < n;) { /* L D Y = B */
    int rows = pivots[k] > 0 ? 1 : 2;
    swap_rows(b, cols, k + rows - 1, (pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1);
    for (int64_t i = k + rows; i < n; i++)
      for (int r = 0; r < rows; r++) subtract(b, cols, i, *at(s, i, k + r), k + r);
    if (rows == 2) divide_two(s, b, cols, k);
    for (int64_t t = 0; rows == 1 && t < cols; t++) b[k * cols + t] /= *at(s, k, k);
    k += rows;
  }
  for (int64_t k = n - 1; k >= 0;) { /* L^T X = Y */
    int rows = pivots[k] > 0 ? 1 : 2;
    for (int64_t i = k + 1; i < n; i++)
      for (int r = 0; r < rows; r++) subtract(b, cols, k - r, *at(s, i, k - r), i);
    swap_rows(b, cols, k, (pivots[k] > 0 ? pivots[k] : -pivots[k]) - 1);
    k -= rows;
  }
}

static int64_t solve_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t n = j->n, cols = j->k;
  char *b = room + cni_mat_room(j, n * n);
  int *pivots = (int *)(void *)(b + cni_mat_room(j, n * cols));
  cni_mat mine = cni_mat_own(j, b, n, cols), given = cni_mat_at(j, cn_desc_of(j->c->in[1]), 1, index);
  cni_mat_move(cni_mat_own(j, room, n, n), cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), n, n);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[2]), 2, index), n, cols);
  for (int64_t i = 0; i < n; i++) pivots[i] = ((const int32_t *)(const void *)given.data)[i * given.row];
  if (!pivots_fit(pivots, n)) return 1;
  if (j->lapack) {
    int size = (int)n, k = (int)cols, info = 0;
    j->lapack->sytrs[j->dtype == CN_F64]("L", &size, &k, room, &size, pivots, b, &size, &info, 1);
  } else {
    solve(&(square){(double *)(void *)room, n}, pivots, (double *)(void *)b, cols);
  }
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), mine, n, cols);
  return 0;
}

static int solve_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  const cn_desc *b = cn_desc_of(c->in[2]);
  j.k = b->shape[b->ndim - 1];
  if (j.k == 0 || j.n == 0) return CN_OK;
  if (lapack && j.k > INT32_MAX) {
    c->refusal = "the other matrix is too large for LAPACK";
    return CN_REFUSED;
  }
  j.room = cni_mat_room(&j, j.n * j.n) + cni_mat_room(&j, j.n * j.k) + (size_t)j.n * sizeof(int);
  j.element = solve_element;
  return cni_matjob_run(&j, 2 * (double)j.n * (double)j.n * (double)j.k, false,
                        "the pivots are not those of linalg_ldl_factor", "code");
}
static int solve_lapack(cn_call *c) { return solve_with(c, true); }
static int solve_kernel(cn_call *c) { return solve_with(c, false); }

const cn_kernel cni_cpu_linalg_ldl_kernels[] = {
    {"linalg_ldl_factor_ex", "lapack", factor_lapack, cni_can_lapack},
    {"linalg_ldl_factor_ex", "reference", factor_kernel},
    {"linalg_ldl_solve", "lapack", solve_lapack, cni_can_lapack},
    {"linalg_ldl_solve", "reference", solve_kernel},
    {NULL, NULL, NULL},
};
