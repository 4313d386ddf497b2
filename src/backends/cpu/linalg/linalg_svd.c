/* linalg_svd.c: kernels of the singular value decomposition: LAPACK's divide and conquer, or one-sided Jacobi rotations
 * on the triangle of a QR decomposition.
 *
 * Flow: as in linalg.c. Invariant: singular values fall; of each pair of vectors the sign is chosen so that the largest
 * element of the column of U (the first of those within a thousandth of it) is positive, on either path. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm.h"
#include "linalg.h"

enum { SWEEPS = 60 };

/* ---- one-sided Jacobi ---- */

static double dot(const double *a, const double *b, int64_t n)
{
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

static void rotate(double *a, double *b, int64_t n, double c, double s)
{
  for (int64_t i = 0; i < n; i++) {
    double x = a[i], y = b[i];
    a[i] = c * x - s * y;
    b[i] = s * x + c * y;
  }
}

/* Makes the rows of w (n, n) orthogonal by rotations, which v (n, n, may be NULL) takes as well. */
static bool orthogonalise(double *w, double *v, int64_t n)
{
  const double close = DBL_EPSILON * sqrt((double)n);
  for (int sweep = 0; sweep < SWEEPS; sweep++) {
    bool done = true;
    for (int64_t p = 0; p + 1 < n; p++)
      for (int64_t q = p + 1; q < n; q++) {
        double *a = w + p * n, *b = w + q * n, aa = dot(a, a, n), bb = dot(b, b, n), ab = dot(a, b, n);
        if (!(fabs(ab) > close * sqrt(aa) * sqrt(bb))) continue;
        double zeta = (bb - aa) / (2 * ab), t = copysign(1 / (fabs(zeta) + hypot(1, zeta)), zeta);
        double c = 1 / hypot(1, t);
        rotate(a, b, n, c, c * t);
        if (v) rotate(v + p * n, v + q * n, n, c, c * t);
        done = false;
      }
    if (done) return true;
  }
  return false;
}

static void exchange(double *a, double *b, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    double t = a[i];
    a[i] = b[i];
    b[i] = t;
  }
}

/* Sorts by falling s, and the rows of w and v with it. */
static void sort_falling(double *s, double *w, double *v, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    int64_t best = i;
    for (int64_t k = i + 1; k < n; k++)
      if (s[k] > s[best]) best = k;
    if (best == i) continue;
    exchange(s + i, s + best, 1);
    exchange(w + i * n, w + best * n, n);
    if (v) exchange(v + i * n, v + best * n, n);
  }
}

void cni_complete_rows(double *q, int64_t have, int64_t rows, int64_t m, double *w)
{
  for (int64_t t = 0; t < m; t++) { /* w[t]: what of the unit vector t the rows do not span */
    w[t] = 1;
    for (int64_t i = 0; i < have; i++) w[t] -= q[i * m + t] * q[i * m + t];
  }
  for (; have < rows; have++) {
    double *row = q + have * m;
    int64_t best = 0;
    for (int64_t t = 1; t < m; t++)
      if (w[t] > w[best]) best = t;
    memset(row, 0, (size_t)m * sizeof *row);
    row[best] = 1;
    for (int pass = 0; pass < 2; pass++)
      for (int64_t i = 0; i < have; i++) {
        double f = dot(q + i * m, row, m);
        for (int64_t t = 0; t < m; t++) row[t] -= f * q[i * m + t];
      }
    double size = sqrt(dot(row, row, m));
    for (int64_t t = 0; t < m; t++) row[t] /= size;
    for (int64_t t = 0; t < m; t++) w[t] -= row[t] * row[t];
  }
}

/* ---- one matrix ---- */

/* Where things begin in the room, in elements of the job's type. tall, thin: the longer and shorter side. */
typedef struct layout {
  int64_t tall, thin, u_cols, vh_rows;
  size_t u, vh, s, work, ints;
} layout;

static layout plan(const cni_matjob *j)
{
  layout l = {.tall = j->m > j->n ? j->m : j->n, .thin = j->m > j->n ? j->n : j->m};
  l.u_cols = j->full ? j->m : l.thin;
  l.vh_rows = j->full ? j->n : l.thin;
  l.u = cni_mat_room(j, j->m * j->n);
  l.vh = l.u + cni_mat_room(j, j->vectors ? j->m * l.u_cols : 1);
  l.s = l.vh + cni_mat_room(j, j->vectors ? j->n * l.vh_rows : 1);
  l.ints = l.s + cni_mat_room(j, l.thin);
  l.work = l.ints + (j->lapack ? (size_t)l.thin * 8 * sizeof(int) + 64 : 0);
  return l;
}

static int64_t svd_lapack_element(const cni_matjob *j, const layout *l, char *room)
{
  int m = (int)j->m, n = (int)j->n, ldvt = (int)l->vh_rows, lwork = (int)j->k, info = 0;
  const char *jobz = !j->vectors ? "N" : j->full ? "A" : "S";
  j->lapack->gesdd[j->dtype == CN_F64](jobz, &m, &n, room, &m, room + l->s, room + l->u, &m, room + l->vh, &ldvt,
                                       room + l->work, &lwork, (int *)(void *)(room + l->ints), &info, 1);
  return info;
}

/* The thin factor's rows out of the rotated ones: w's rows divided by their lengths s; those of nearly no length, which
 * come last, are any that complete the others. */
static void rows_from(double *w, const double *s, int64_t n, double *scratch)
{
  int64_t have = 0;
  while (have < n && s[have] > DBL_EPSILON * (double)n * s[0] && s[have] > DBL_MIN) have++;
  for (int64_t i = 0; i < have; i++)
    for (int64_t k = 0; k < n; k++) w[i * n + k] /= s[i];
  cni_complete_rows(w, have, n, n, scratch);
}

/* a: (tall, thin) = Q R, R = v^T diag(s) w. Gives s, w (thin, thin) and q (tall, cols): the left vectors. */
static int64_t decompose(double *a, const layout *l, bool vectors, int64_t cols, double *s, double *work, double *w,
                         double *q)
{
  int64_t n = l->thin;
  double *tau = work, *v = tau + n + l->tall, *first = v + n * n, scale = 0;
  for (int64_t i = 0; i < l->tall * n; i++) scale = fmax(scale, fabs(a[i]));
  for (int64_t i = 0; scale > 0 && i < l->tall * n; i++) a[i] /= scale;
  cni_householder(a, l->tall, n, tau, tau + n);
  if (vectors) cni_householder_q(a, l->tall, n, tau, q, cols, tau + n);
  for (int64_t i = 0; i < n; i++)
    for (int64_t k = 0; k < n; k++) {
      w[i * n + k] = k < i ? 0 : a[i * n + k];
      v[i * n + k] = k == i;
    }
  bool done = orthogonalise(w, vectors ? v : NULL, n);
  for (int64_t i = 0; i < n; i++) s[i] = sqrt(dot(w + i * n, w + i * n, n));
  sort_falling(s, w, vectors ? v : NULL, n);
  if (vectors) {
    rows_from(w, s, n, tau);
    cni_gemm g = {.m = l->tall, .n = n, .k = n, .alpha = 1, .a = q, .a_row = cols, .a_col = 1, .b = v, .b_row = 1,
                  .b_col = n, .c = first, .c_row = n, .c_col = 1};
    if (n && cni_gemm_f64(&g)) return 1;
    for (int64_t i = 0; i < l->tall; i++) memcpy(q + i * cols, first + i * n, (size_t)n * sizeof *q);
  }
  for (int64_t i = 0; i < n; i++) s[i] *= scale > 0 ? scale : 1;
  return !done;
}

/* Turns the rows [i, m) of a, from column i + 1 on, so that row i has one element there. v: n numbers. */
static void reflect_row(double *a, int64_t m, int64_t n, int64_t i, double *v)
{
  double *x = a + i * n + i + 1, rest = 0;
  int64_t length = n - i - 1;
  for (int64_t k = 1; k < length; k++) rest += x[k] * x[k];
  if (rest == 0) return;
  double beta = -copysign(sqrt(x[0] * x[0] + rest), x[0]), tau = (beta - x[0]) / beta, first = x[0] - beta;
  for (int64_t k = 0; k < length; k++) v[k] = k ? x[k] / first : 1;
  for (int64_t r = i; r < m; r++) {
    double *row = a + r * n + i + 1, f = tau * dot(row, v, length);
    for (int64_t k = 0; k < length; k++) row[k] -= f * v[k];
  }
}

/* Columns [n, m) of q (m, m): those that complete the space of the columns of a (m, n), which is lost. There are many
 * choices; this one, the reflections to a bidiagonal matrix, is what other libraries give for wide matrices. */
static void complement(double *a, int64_t m, int64_t n, double *q, double *work)
{
  double *tau = work, *w = tau + n;
  for (int64_t i = 0; i < n; i++) {
    cni_householder_step(a, m, n, i, tau, w);
    if (i + 2 < n) reflect_row(a, m, n, i, w);
  }
  cni_householder_q(a, m, n, tau, q, m, w);
}

static int64_t svd_reference_element(const cni_matjob *j, const layout *l, char *room)
{
  double *a = (double *)(void *)room, *u = (double *)(void *)(room + l->u), *vh = (double *)(void *)(room + l->vh);
  double *s = (double *)(void *)(room + l->s), *work = (double *)(void *)(room + l->work);
  bool wide = j->m < j->n;
  int64_t n = l->thin, cols = wide ? l->vh_rows : l->u_cols;
  double *w = work + n + l->tall + n * n + l->tall * n, *q = w + n * n; /* behind tau, scratch, v and first */
  double *copy = q + l->tall * cols, *other = copy + l->tall * n; /* for the rows that complete a wide matrix's */
  bool more = j->vectors && wide && cols > n;
  if (more) {
    memcpy(copy, a, (size_t)(l->tall * n) * sizeof *a);
    complement(copy, l->tall, n, other, work);
  }
  int64_t failed = decompose(a, l, j->vectors, cols, s, work, w, q);
  for (int64_t i = 0; more && i < l->tall; i++)
    memcpy(q + i * cols + n, other + i * cols + n, (size_t)(cols - n) * sizeof *q);
  if (!j->vectors) return failed;
  cni_mat left = {(char *)q, cols, 1, CN_F64}, right = {(char *)w, n, 1, CN_F64};
  cni_mat_move((cni_mat){(char *)u, l->u_cols, 1, CN_F64}, wide ? cni_mat_t(right) : left, j->m, l->u_cols);
  cni_mat_move((cni_mat){(char *)vh, j->n, 1, CN_F64}, wide ? cni_mat_t(left) : right, l->vh_rows, j->n);
  return failed;
}

static bool all_finite(cni_mat a, int64_t m, int64_t n)
{
  for (int64_t i = 0; i < m; i++)
    for (int64_t k = 0; k < n; k++) {
      int64_t at = i * a.row + k * a.col;
      const void *data = a.data;
      if (!isfinite(a.dtype == CN_F64 ? ((const double *)data)[at] : ((const float *)data)[at])) return false;
    }
  return true;
}

static int64_t svd_element(const cni_matjob *j, int64_t index, char *room)
{
  layout l = plan(j);
  cni_mat given = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index);
  bool wide = !j->lapack && j->m < j->n; /* the plain-C path works on the tall side up */
  cni_mat mine = wide ? (cni_mat){room, 1, j->m, CN_F64} : cni_mat_own(j, room, j->m, j->n);
  if (!all_finite(given, j->m, j->n)) return 1;
  cni_mat_move(mine, given, j->m, j->n);
  int64_t failed = j->lapack ? svd_lapack_element(j, &l, room) : svd_reference_element(j, &l, room);
  int s_at = j->vectors ? 1 : 0;
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[s_at]), 1, index), (cni_mat){room + l.s, 1, 0, j->dtype}, l.thin, 1);
  if (!j->vectors) return failed;
  cni_mat u = cni_mat_own(j, room + l.u, j->m, l.u_cols), vh = cni_mat_own(j, room + l.vh, l.vh_rows, j->n);
  cni_fix_signs(u, j->m, l.thin, vh, j->n);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), u, j->m, l.u_cols);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[2]), 2, index), vh, l.vh_rows, j->n);
  return failed;
}

static int64_t ask_lapack(const cni_matjob *j, const layout *l)
{
  int m = (int)j->m, n = (int)j->n, ldvt = (int)l->vh_rows, ask = -1, info = 0, ints[8];
  double best = 0;
  float narrow;
  const char *jobz = !j->vectors ? "N" : j->full ? "A" : "S";
  j->lapack->gesdd[j->dtype == CN_F64](jobz, &m, &n, NULL, &m, NULL, NULL, &m, NULL, &ldvt, &best, &ask, ints, &info,
                                       1);
  memcpy(&narrow, &best, sizeof narrow);
  return (int64_t)(j->dtype == CN_F64 ? best : (double)narrow) + 64;
}

/* linalg_svd(A, full_matrices) -> (U, S, Vh), linalg_svdvals(A) -> S */
static int svd_with(cn_call *c, bool lapack, bool vectors)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, vectors ? 2 : 1);
  if (status) return status;
  j.vectors = vectors;
  j.full = vectors && c->args[1].u.i;
  layout l = plan(&j);
  j.k = lapack ? ask_lapack(&j, &l)
               : 2 * l.thin * l.thin + l.thin + l.tall + l.tall * l.thin +
                     l.tall * (j.full ? l.tall : l.thin) + /* v, w, tau, scratch, first, q */
                     (j.full && j.m < j.n ? l.tall * (l.thin + l.tall) : 0);
  j.room = l.work + cni_mat_room(&j, j.k);
  j.element = svd_element;
  return cni_matjob_run(&j, 20 * (double)l.tall * (double)l.thin * (double)l.thin, false,
                        "the algorithm failed to converge: the matrix has infinite elements or NaN, or too many "
                        "repeated singular values",
                        "code");
}
static int svd_lapack(cn_call *c) { return svd_with(c, true, true); }
static int svd_kernel(cn_call *c) { return svd_with(c, false, true); }
static int values_lapack(cn_call *c) { return svd_with(c, true, false); }
static int values_kernel(cn_call *c) { return svd_with(c, false, false); }

const cn_kernel cni_cpu_linalg_svd_kernels[] = {
    {"linalg_svd", "lapack", svd_lapack, cni_can_lapack},
    {"linalg_svd", "reference", svd_kernel},
    {"linalg_svdvals", "lapack", values_lapack, cni_can_lapack},
    {"linalg_svdvals", "reference", values_kernel},
    {NULL, NULL, NULL},
};
