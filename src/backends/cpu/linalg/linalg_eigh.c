/* linalg_eigh.c: kernels of the eigenvalue decomposition of symmetric matrices: LAPACK's divide and conquer, or
 * reflections to a tridiagonal matrix and QL steps with implicit shifts.
 *
 * Flow: as in linalg.c. Invariant: eigenvalues rise; the sign of each vector is chosen so that its largest element (the
 * first of those within a thousandth of it) is positive, on either path. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "linalg.h"

enum { STEPS = 60 }; /* most QL steps for one eigenvalue */

/* ---- signs: what decompositions leave open ---- */

static double element(cni_mat a, int64_t i, int64_t k)
{
  int64_t at = i * a.row + k * a.col;
  return a.dtype == CN_F64 ? ((const double *)(const void *)a.data)[at] : ((const float *)(const void *)a.data)[at];
}

static void negate(cni_mat a, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    if (a.dtype == CN_F64) ((double *)(void *)a.data)[i * a.row] *= -1;
    else ((float *)(void *)a.data)[i * a.row] *= -1;
  }
}

static cni_mat from(cni_mat a, int64_t i, int64_t k)
{
  a.data += (i * a.row + k * a.col) * (a.dtype == CN_F64 ? 8 : 4);
  return a;
}

void cni_fix_signs(cni_mat u, int64_t m, int64_t count, cni_mat vh, int64_t n)
{
  for (int64_t k = 0; k < count; k++) {
    double most = 0;
    for (int64_t i = 0; i < m; i++) most = fmax(most, fabs(element(u, i, k)));
    int64_t at = 0;
    while (at + 1 < m && !(fabs(element(u, at, k)) >= most * 0.999)) at++;
    if (!m || !(element(u, at, k) < 0)) continue;
    negate(from(u, 0, k), m);
    if (vh.data) negate(cni_mat_t(from(vh, k, 0)), n);
  }
}

/* ---- to a tridiagonal matrix ---- */

/* a: (n, n), symmetric, none larger than 1, becomes the reflections, each in its row behind the diagonal; d, e (n):
 * diagonal and, from e[0] on, what is beside it. tau, p: n numbers each. */
static void tridiagonal(double *a, int64_t n, double *d, double *e, double *tau, double *p)
{
  for (int64_t k = 0; k + 1 < n; k++) {
    int64_t rows = n - k - 1;
    double *x = a + k * n + k + 1, *sub = a + (k + 1) * n + k + 1, alpha = *x, rest = 0;
    for (int64_t i = 1; i < rows; i++) rest += x[i] * x[i];
    rest = sqrt(rest);
    d[k] = a[k * n + k];
    e[k] = alpha;
    tau[k] = 0;
    if (rest == 0) continue;
    double beta = -copysign(hypot(alpha, rest), alpha), share = 0;
    tau[k] = (beta - alpha) / beta;
    e[k] = beta;
    for (int64_t i = 1; i < rows; i++) x[i] /= alpha - beta;
    *x = 1;
    for (int64_t i = 0; i < rows; i++) { /* p = tau sub v */
      double sum = 0;
      for (int64_t t = 0; t < rows; t++) sum += sub[i * n + t] * x[t];
      p[i] = tau[k] * sum;
      share += p[i] * x[i];
    }
    for (int64_t i = 0; i < rows; i++) p[i] -= tau[k] / 2 * share * x[i];
    for (int64_t i = 0; i < rows; i++) /* sub -= v p^T + p v^T */
      for (int64_t t = 0; t < rows; t++) sub[i * n + t] -= x[i] * p[t] + p[i] * x[t];
  }
  if (n) d[n - 1] = a[n * n - 1], e[n - 1] = 0;
}

/* The product of the reflections, transposed: row i of z is column i of Q. */
static void collect(const double *a, int64_t n, const double *tau, double *z)
{
  memset(z, 0, (size_t)(n * n) * sizeof *z);
  for (int64_t i = 0; i < n; i++) z[i * n + i] = 1;
  for (int64_t k = n - 2; k >= 0; k--) {
    const double *v = a + k * n + k + 1;
    int64_t rows = n - k - 1;
    if (tau[k] == 0) continue;
    for (int64_t i = k + 1; i < n; i++) { /* each column of Q, below row k: z's row i from k + 1 on */
      double sum = 0, *row = z + i * n + k + 1;
      for (int64_t t = 0; t < rows; t++) sum += v[t] * row[t];
      for (int64_t t = 0; t < rows; t++) row[t] -= tau[k] * sum * v[t];
    }
  }
}

/* ---- QL ---- */

/* One implicit QL step on the block [low, high] of the tridiagonal matrix; rows of z (may be NULL) turn with it. */
static void ql_step(double *d, double *e, double *z, int64_t n, int64_t low, int64_t high)
{
  double half = (d[low + 1] - d[low]) / (2 * e[low]);
  double shift = d[low] - e[low] / (half + copysign(hypot(half, 1), half));
  double bulge = d[high] - shift, c = 1, s = 1, moved = 0;
  for (int64_t i = high - 1; i >= low; i--) {
    double side = s * e[i], along = c * e[i], length = hypot(side, bulge);
    e[i + 1] = length;
    if (length == 0) { /* it falls apart here: what is left is done in later steps */
      d[i + 1] -= moved;
      e[high] = 0;
      return;
    }
    s = side / length;
    c = bulge / length;
    double rest = d[i + 1] - moved, mix = (d[i] - rest) * s + 2 * c * along;
    moved = s * mix;
    d[i + 1] = rest + moved;
    bulge = c * mix - along;
    for (int64_t t = 0; z && t < n; t++) {
      double x = z[i * n + t], y = z[(i + 1) * n + t];
      z[(i + 1) * n + t] = s * x + c * y;
      z[i * n + t] = c * x - s * y;
    }
  }
  d[low] -= moved;
  e[low] = bulge;
  e[high] = 0;
}

static int64_t ql(double *d, double *e, double *z, int64_t n)
{
  for (int64_t low = 0; low < n; low++)
    for (int step = 0;; step++) {
      int64_t high = low;
      while (high + 1 < n && fabs(e[high]) > DBL_EPSILON * (fabs(d[high]) + fabs(d[high + 1]))) high++;
      if (high == low) break;
      if (step == STEPS) return low + 1;
      ql_step(d, e, z, n, low, high);
    }
  return 0;
}

static void sort_rising(double *d, double *z, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    int64_t best = i;
    for (int64_t k = i + 1; k < n; k++)
      if (d[k] < d[best]) best = k;
    if (best == i) continue;
    double t = d[i];
    d[i] = d[best];
    d[best] = t;
    for (int64_t k = 0; z && k < n; k++) {
      t = z[i * n + k];
      z[i * n + k] = z[best * n + k];
      z[best * n + k] = t;
    }
  }
}

/* ---- one matrix ---- */

/* The room: A, then the eigenvalues, then z and four vectors or LAPACK's workspaces. */
static int64_t eigh_reference(const cni_matjob *j, double *a, double *d, double *z)
{
  int64_t n = j->n;
  double *e = z + n * n, *tau = e + n, *w = tau + n, scale = 0;
  for (int64_t i = 0; i < n * n; i++) scale = fmax(scale, fabs(a[i]));
  for (int64_t i = 0; scale > 0 && i < n * n; i++) a[i] /= scale;
  tridiagonal(a, n, d, e, tau, w);
  if (j->vectors) collect(a, n, tau, z);
  int64_t failed = ql(d, e, j->vectors ? z : NULL, n);
  sort_rising(d, j->vectors ? z : NULL, n);
  for (int64_t i = 0; scale > 0 && i < n; i++) d[i] *= scale;
  return failed;
}

static int64_t eigh_lapack_element(const cni_matjob *j, char *a, char *d, char *work, char *ints)
{
  int n = (int)j->n, lwork = (int)j->k, liwork = (int)j->m, info = 0;
  j->lapack->syevd[j->dtype == CN_F64](j->vectors ? "V" : "N", "L", &n, a, &n, d, work, &lwork, (int *)(void *)ints,
                                       &liwork, &info, 1, 1);
  return info;
}

/* Copies the triangle that counts to both. False when something is not finite. */
static bool take_triangle(const cni_matjob *j, cni_mat to, cni_mat given)
{
  bool fine = true;
  for (int64_t i = 0; i < j->n; i++) {
    cni_mat part = j->upper ? cni_mat_t(given) : given;
    cni_mat_move(from(to, i, 0), from(part, i, 0), 1, i + 1);
    cni_mat_move(cni_mat_t(from(to, 0, i)), from(part, i, 0), 1, i + 1);
    for (int64_t k = 0; k <= i; k++) fine &= isfinite(element(part, i, k)) != 0;
  }
  return fine;
}

static int64_t eigh_element(const cni_matjob *j, int64_t index, char *room)
{
  char *d = room + cni_mat_room(j, j->n * j->n), *work = d + cni_mat_room(j, j->n);
  char *ints = work + cni_mat_room(j, j->k);
  cni_mat mine = cni_mat_own(j, room, j->n, j->n), vectors = mine;
  int64_t failed = 1;
  if (take_triangle(j, mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index))) {
    if (j->lapack) {
      failed = eigh_lapack_element(j, room, d, work, ints);
    } else {
      failed = eigh_reference(j, (double *)(void *)room, (double *)(void *)d, (double *)(void *)work);
      vectors = (cni_mat){work, 1, j->n, CN_F64}; /* row i of z is vector i */
    }
  }
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 1, index), (cni_mat){d, 1, 0, j->dtype}, j->n, 1);
  if (!j->vectors || failed) return failed;
  cni_fix_signs(vectors, j->n, j->n, (cni_mat){NULL, 0, 0, 0}, 0);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[1]), 2, index), vectors, j->n, j->n);
  return 0;
}

/* Sizes of both workspaces. */
static void ask_lapack(cni_matjob *j)
{
  int n = (int)j->n, ask = -1, info = 0, ints = 0;
  double best = 0;
  float narrow;
  j->lapack->syevd[j->dtype == CN_F64](j->vectors ? "V" : "N", "L", &n, NULL, &n, NULL, &best, &ask, &ints, &ask, &info,
                                       1, 1);
  memcpy(&narrow, &best, sizeof narrow);
  j->k = (int64_t)(j->dtype == CN_F64 ? best : (double)narrow) + 64;
  j->m = ints;
}

/* linalg_eigh(A, UPLO) -> (eigenvalues, eigenvectors), linalg_eigvalsh(A, UPLO) */
static int eigh_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 1);
  if (status) return status;
  j.vectors = c->nout == 2;
  j.upper = c->args[1].u.s[0] == 'U' || c->args[1].u.s[0] == 'u';
  j.k = j.n * j.n + 3 * j.n;
  if (lapack) ask_lapack(&j);
  j.room = cni_mat_room(&j, j.n * j.n) + cni_mat_room(&j, j.n) + cni_mat_room(&j, j.k) +
           (lapack ? (size_t)j.m * sizeof(int) : 0);
  j.element = eigh_element;
  return cni_matjob_run(&j, 9 * cni_cube(j.n), false,
                        "the algorithm failed to converge: the matrix has infinite elements or NaN, is ill-conditioned "
                        "or has too many repeated eigenvalues",
                        "code");
}
static int eigh_lapack(cn_call *c) { return eigh_with(c, true); }
static int eigh_kernel(cn_call *c) { return eigh_with(c, false); }

const cn_kernel cni_cpu_linalg_eigh_kernels[] = {
    {"linalg_eigh", "lapack", eigh_lapack, cni_can_lapack},
    {"linalg_eigh", "reference", eigh_kernel},
    {"linalg_eigvalsh", "lapack", eigh_lapack, cni_can_lapack},
    {"linalg_eigvalsh", "reference", eigh_kernel},
    {NULL, NULL, NULL},
};
