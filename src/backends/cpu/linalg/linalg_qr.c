/* linalg_qr.c: kernels of the QR decomposition by Householder reflections.
 *
 * Flow: as in linalg.c; the SVD shares the plain-C functions. Invariant: signs are LAPACK's: a reflection turns a
 * column to minus the sign of its first element, and a column that needs none is left alone. */
#include <math.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "linalg.h"

void cni_reflect(double *a, int64_t rows, int64_t step, int64_t from, int64_t to, const double *v, int64_t v_step,
                 double tau, double *w)
{
  memcpy(w + from, a + from, (size_t)(to - from) * sizeof *w);
  for (int64_t i = 1; i < rows; i++) {
    double f = v[i * v_step];
    const double *row = a + i * step;
    for (int64_t k = from; k < to; k++) w[k] += f * row[k];
  }
  for (int64_t k = from; k < to; k++) a[k] -= tau * w[k];
  for (int64_t i = 1; i < rows; i++) {
    double f = tau * v[i * v_step], *row = a + i * step;
    for (int64_t k = from; k < to; k++) row[k] -= f * w[k];
  }
}

/* The norm of a column, safe from overflow. */
static double column_norm(const double *x, int64_t n, int64_t step)
{
  double scale = 0, sum = 0;
  for (int64_t i = 0; i < n; i++) scale = fmax(scale, fabs(x[i * step]));
  if (scale == 0 || !isfinite(scale)) return scale;
  for (int64_t i = 0; i < n; i++) sum += x[i * step] / scale * (x[i * step] / scale);
  return scale * sqrt(sum);
}

void cni_householder_step(double *a, int64_t m, int64_t n, int64_t i, double *tau, double *w)
{
  double *x = a + i * n + i, alpha = *x, rest = column_norm(x + n, m - i - 1, n);
  tau[i] = 0;
  if (rest == 0) return;
  double beta = -copysign(hypot(alpha, rest), alpha);
  tau[i] = (beta - alpha) / beta;
  for (int64_t r = 1; r < m - i; r++) x[r * n] /= alpha - beta;
  *x = beta;
  if (i + 1 < n) cni_reflect(a + i * n, m - i, n, i + 1, n, x, n, tau[i], w);
}

void cni_householder(double *a, int64_t m, int64_t n, double *tau, double *w)
{
  for (int64_t i = 0; i < m && i < n; i++) cni_householder_step(a, m, n, i, tau, w);
}

void cni_householder_q(const double *a, int64_t m, int64_t n, const double *tau, double *q, int64_t cols, double *w)
{
  memset(q, 0, (size_t)(m * cols) * sizeof *q);
  for (int64_t i = 0; i < m && i < cols; i++) q[i * cols + i] = 1;
  int64_t last = (m < n ? m : n) < cols ? (m < n ? m : n) : cols;
  for (int64_t i = last - 1; i >= 0; i--)
    if (tau[i] != 0) cni_reflect(q + i * cols, m - i, cols, i, cols, a + i * n + i, n, tau[i], w);
}

/* ---- linalg_qr(A, mode) -> (Q, R) ---- */

typedef struct layout {
  int64_t steps, q_cols, r_rows;
  size_t q, tau, work; /* where they begin in the room; A is at 0 */
} layout;

static layout plan(const cni_matjob *j)
{
  layout l = {.steps = j->m < j->n ? j->m : j->n};
  l.q_cols = j->full ? j->m : l.steps;
  l.r_rows = j->full ? j->m : l.steps;
  l.q = cni_mat_room(j, j->m * j->n);
  l.tau = l.q + (j->vectors ? cni_mat_room(j, j->m * l.q_cols) : 0);
  l.work = l.tau + cni_mat_room(j, l.steps);
  return l;
}

static int64_t qr_lapack_element(const cni_matjob *j, const layout *l, char *room)
{
  int m = (int)j->m, n = (int)j->n, k = (int)l->steps, cols = (int)l->q_cols, info = 0;
  int lwork = (int)j->k; /* asked for before */
  bool f64 = j->dtype == CN_F64;
  j->lapack->geqrf[f64](&m, &n, room, &m, room + l->tau, room + l->work, &lwork, &info);
  if (info || !j->vectors) return info;
  cni_mat_move(cni_mat_own(j, room + l->q, j->m, l->q_cols), cni_mat_own(j, room, j->m, j->n), j->m, l->steps);
  j->lapack->orgqr[f64](&m, &cols, &k, room + l->q, &m, room + l->tau, room + l->work, &lwork, &info);
  return info;
}

static int64_t qr_element(const cni_matjob *j, int64_t index, char *room)
{
  layout l = plan(j);
  int64_t failed = 0;
  cni_mat mine = cni_mat_own(j, room, j->m, j->n), to = cni_mat_at(j, cn_desc_of(j->c->out[1]), 2, index);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  if (j->lapack) {
    failed = qr_lapack_element(j, &l, room);
  } else {
    double *a = (double *)(void *)room, *tau = (double *)(void *)(room + l.tau), *w = (double *)(void *)(room + l.work);
    cni_householder(a, j->m, j->n, tau, w);
    if (j->vectors) cni_householder_q(a, j->m, j->n, tau, (double *)(void *)(room + l.q), l.q_cols, w);
  }
  if (j->vectors)
    cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), cni_mat_own(j, room + l.q, j->m, l.q_cols), j->m,
                 l.q_cols);
  int64_t elem = j->dtype == CN_F64 ? 8 : 4;
  for (int64_t i = 0; i < j->m; i++) { /* below the diagonal lie the reflections */
    cni_mat below = mine;
    below.data += i * mine.row * elem;
    cni_mat_fill(below, 0, 1, i < j->n ? i : j->n);
  }
  cni_mat_move(to, mine, l.r_rows, j->n);
  return failed;
}

/* The best workspace of both routines, in elements. */
static int64_t ask_lapack(const cni_matjob *j, const layout *l)
{
  int m = (int)j->m, n = (int)j->n, k = (int)l->steps, cols = (int)l->q_cols, info = 0, ask = -1;
  double first = 0, second = 0;
  bool f64 = j->dtype == CN_F64;
  j->lapack->geqrf[f64](&m, &n, NULL, &m, NULL, &first, &ask, &info);
  if (j->vectors) j->lapack->orgqr[f64](&m, &cols, &k, NULL, &m, NULL, &second, &ask, &info);
  float narrow[2];
  memcpy(&narrow[0], &first, sizeof narrow[0]);
  memcpy(&narrow[1], &second, sizeof narrow[1]);
  double best = f64 ? fmax(first, second) : fmax((double)narrow[0], (double)narrow[1]);
  return (int64_t)best + 1;
}

static int qr_with(cn_call *c, bool lapack)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, lapack, 2);
  if (status) return status;
  const char *mode = c->args[1].u.s;
  j.nbatch = cn_desc_of(c->in[0])->ndim - 2;
  j.batch_shape = cn_desc_of(c->in[0])->shape;
  j.vectors = *mode != 'r' || mode[1] == 'e'; /* reduced, complete; r gives R alone */
  j.full = *mode == 'c';
  layout l = plan(&j);
  j.k = lapack ? ask_lapack(&j, &l) : j.m + j.n;
  j.room = l.work + cni_mat_room(&j, j.k);
  j.element = qr_element;
  return cni_matjob_run(&j, 4 * (double)j.m * (double)j.n * (double)l.steps, false, "LAPACK failed", "code");
}
static int qr_lapack(cn_call *c) { return qr_with(c, true); }
static int qr_kernel(cn_call *c) { return qr_with(c, false); }

const cn_kernel cni_cpu_linalg_qr_kernels[] = {
    {"linalg_qr", "lapack", qr_lapack, cni_can_lapack},
    {"linalg_qr", "reference", qr_kernel},
    {NULL, NULL, NULL},
};
