/* linalg_complex.c: kernels of complex matrices: LU, triangles, Cholesky, QR.
 *
 * Flow: as in linalg.c; solving, inverses and determinants are made of these (complex_linalg.c in src/ops). Invariant:
 * conventions are LAPACK's: pivots are the largest by |re| + |im|, the diagonals of R and of L are real. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "complex.h"

void cni_matjob_begin_complex(cni_matjob *j, cn_call *c, int core)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  *j = (cni_matjob){.c = c,
                    .m = a->shape[a->ndim - 2],
                    .n = a->shape[a->ndim - 1],
                    .nbatch = out->ndim - core,
                    .batch_shape = out->shape,
                    .dtype = CN_C128,
                    .left = true};
}

double cni_c_norm(const cni_c *x, int64_t n, int64_t step)
{
  double scale = 0, sum = 0;
  for (int64_t i = 0; i < n; i++) scale = fmax(scale, fmax(fabs(x[i * step].re), fabs(x[i * step].im)));
  if (scale == 0 || !isfinite(scale)) return scale;
  for (int64_t i = 0; i < n; i++) sum += cni_c_square(cni_c_scale(x[i * step], 1 / scale));
  return scale * sqrt(sum);
}

void cni_c_complete(cni_c *q, int64_t have, int64_t rows, int64_t m)
{
  for (int64_t axis = 0; have < rows && axis < m; axis++) { /* axes that lie outside the rows so far */
    cni_c *x = q + have * m;
    memset(x, 0, (size_t)m * sizeof *x);
    x[axis] = cni_c_of(1, 0);
    for (int pass = 0; pass < 2; pass++)
      for (int64_t r = 0; r < have; r++) {
        cni_c dot = {0, 0};
        for (int64_t k = 0; k < m; k++) dot = cni_c_add(dot, cni_c_mul(x[k], cni_c_conj(q[r * m + k])));
        for (int64_t k = 0; k < m; k++) x[k] = cni_c_sub(x[k], cni_c_mul(dot, q[r * m + k]));
      }
    double norm = cni_c_norm(x, m, 1);
    if (norm < 1e-8 && m - axis > rows - have) continue;
    for (int64_t k = 0; k < m; k++) x[k] = cni_c_scale(x[k], 1 / norm);
    have++;
  }
}

/* ---- linalg_lu_factor_ex ---- */

static double size_of(cni_c a) { return fabs(a.re) + fabs(a.im); }

/* a: (m, n) becomes L and U; see cni_lu. */
static int64_t factor(cni_c *a, int64_t m, int64_t n, int64_t *swaps)
{
  int64_t failed = 0, steps = m < n ? m : n;
  for (int64_t i = 0; i < steps; i++) {
    int64_t best = i;
    for (int64_t r = i + 1; r < m; r++)
      if (size_of(a[r * n + i]) > size_of(a[best * n + i])) best = r;
    swaps[i] = best;
    for (int64_t k = 0; best != i && k < n; k++) {
      cni_c t = a[i * n + k];
      a[i * n + k] = a[best * n + k];
      a[best * n + k] = t;
    }
    cni_c pivot = a[i * n + i];
    if (cni_c_zero(pivot)) {
      if (!failed) failed = i + 1;
      continue;
    }
    for (int64_t r = i + 1; r < m; r++) {
      cni_c f = a[r * n + i] = cni_c_div(a[r * n + i], pivot);
      for (int64_t k = i + 1; k < n; k++) a[r * n + k] = cni_c_sub(a[r * n + k], cni_c_mul(f, a[i * n + k]));
    }
  }
  return failed;
}

static int64_t factor_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t steps = j->m < j->n ? j->m : j->n, *swaps = (int64_t *)(void *)(room + cni_mat_room(j, j->m * j->n));
  cni_mat mine = cni_mat_own(j, room, j->m, j->n), pivots = cni_mat_at(j, cn_desc_of(j->c->out[1]), 1, index);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  int64_t failed = factor((cni_c *)(void *)room, j->m, j->n, swaps);
  for (int64_t i = 0; i < steps; i++) ((int32_t *)(void *)pivots.data)[i * pivots.row] = (int32_t)swaps[i] + 1;
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), mine, j->m, j->n);
  return failed;
}

/* linalg_lu_factor_ex(A, pivot, check_errors) -> (LU, pivots, info) */
static int factor_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 2);
  int64_t steps = j.m < j.n ? j.m : j.n;
  j.room = cni_mat_room(&j, j.m * j.n) + (size_t)steps * 8;
  j.element = factor_element;
  j.info = 2;
  return cni_matjob_run(&j, 4 * (double)j.m * (double)j.n * (double)steps, c->args[2].u.i != 0,
                        "the factor U is exactly singular", "zero on its diagonal at");
}

/* ---- linalg_solve_triangular ---- */

/* a: (n, n), b: (n, k): see cni_substitute */
static void substitute(const cni_c *a, bool upper, bool unit, cni_c *b, int64_t n, int64_t k)
{
  for (int64_t s = 0; s < n; s++) {
    int64_t i = upper ? n - 1 - s : s, from = upper ? i + 1 : 0, to = upper ? n : i;
    cni_c *x = b + i * k;
    for (int64_t r = from; r < to; r++)
      for (int64_t t = 0; t < k; t++) x[t] = cni_c_sub(x[t], cni_c_mul(a[i * n + r], b[r * k + t]));
    for (int64_t t = 0; !unit && t < k; t++) x[t] = cni_c_div(x[t], a[i * n + i]);
  }
}

static int64_t triangular_element(const cni_matjob *j, int64_t index, char *room)
{
  char *b = room + cni_mat_room(j, j->n * j->n);
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), from = cni_mat_at(j, cn_desc_of(j->c->in[1]), 2, index);
  cni_mat to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  cni_mat_move(cni_mat_own(j, room, j->n, j->n), j->left ? a : cni_mat_t(a), j->n, j->n);
  cni_mat_move(cni_mat_own(j, b, j->n, j->k), j->left ? from : cni_mat_t(from), j->n, j->k);
  substitute((const cni_c *)(const void *)room, j->upper == j->left, j->unit, (cni_c *)(void *)b, j->n, j->k);
  cni_mat_move(j->left ? to : cni_mat_t(to), cni_mat_own(j, b, j->n, j->k), j->n, j->k);
  return 0;
}

/* linalg_solve_triangular(A, B, upper, left, unitriangular) */
static int triangular_kernel(cn_call *c)
{
  cni_matjob j;
  const cn_desc *out = cn_desc_of(c->out[0]);
  cni_matjob_begin_complex(&j, c, 2);
  j.upper = c->args[2].u.i != 0;
  j.left = c->args[3].u.i != 0;
  j.unit = c->args[4].u.i != 0;
  j.k = out->shape[out->ndim - (j.left ? 1 : 2)];
  j.room = cni_mat_room(&j, j.n * j.n) + cni_mat_room(&j, j.n * j.k);
  j.element = triangular_element;
  return cni_matjob_run(&j, 4 * (double)j.n * (double)j.n * (double)j.k, false, "", "");
}

/* ---- linalg_cholesky ---- */

/* a: (n, n), lower triangle replaced by L, zeros above. */
static int64_t cholesky(cni_c *a, int64_t n)
{
  for (int64_t i = 0; i < n; i++) {
    for (int64_t k = 0; k <= i; k++) {
      cni_c sum = a[i * n + k];
      for (int64_t t = 0; t < k; t++) sum = cni_c_sub(sum, cni_c_mul(a[i * n + t], cni_c_conj(a[k * n + t])));
      if (k < i) a[i * n + k] = cni_c_scale(sum, 1 / a[k * n + k].re);
      else if (!(sum.re > 0)) return i + 1;
      else a[i * n + i] = cni_c_of(sqrt(sum.re), 0);
    }
    for (int64_t k = i + 1; k < n; k++) a[i * n + k] = cni_c_of(0, 0);
  }
  return 0;
}

static void conjugate(cni_c *a, int64_t n)
{
  for (int64_t i = 0; i < n; i++) a[i].im = -a[i].im;
}

static int64_t cholesky_element(const cni_matjob *j, int64_t index, char *room)
{
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index);
  cni_mat mine = cni_mat_own(j, room, j->n, j->n);
  cni_c *own = (cni_c *)(void *)room;
  cni_mat_move(mine, j->upper ? cni_mat_t(a) : a, j->n, j->n);
  if (j->upper) conjugate(own, j->n * j->n); /* U^H is the factor L of the same matrix */
  int64_t failed = cholesky(own, j->n);
  if (j->upper) conjugate(own, j->n * j->n);
  cni_mat_move(j->upper ? cni_mat_t(to) : to, mine, j->n, j->n);
  return failed;
}

/* linalg_cholesky(input, upper), linalg_cholesky_ex(input, upper, check_errors) -> (L, info) */
static int cholesky_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 2);
  j.upper = c->args[1].u.i != 0;
  j.room = cni_mat_room(&j, j.n * j.n);
  j.element = cholesky_element;
  j.info = c->nout - 1;
  return cni_matjob_run(&j, 4 * cni_cube(j.n), j.info && c->args[2].u.i, "the input is not positive-definite",
                        "leading minor of order");
}

/* ---- linalg_qr ---- */

/* Applies I - tau v v^H to columns [from, to) of `rows` rows of a, `step` apart; v[0] = 1 is not stored. */
static void reflect(cni_c *a, int64_t rows, int64_t step, int64_t from, int64_t to, const cni_c *v, int64_t v_step,
                    cni_c tau)
{
  for (int64_t k = from; k < to; k++) {
    cni_c dot = a[k];
    for (int64_t i = 1; i < rows; i++) dot = cni_c_add(dot, cni_c_mul(cni_c_conj(v[i * v_step]), a[i * step + k]));
    dot = cni_c_mul(tau, dot);
    a[k] = cni_c_sub(a[k], dot);
    for (int64_t i = 1; i < rows; i++) a[i * step + k] = cni_c_sub(a[i * step + k], cni_c_mul(v[i * v_step], dot));
  }
}

void cni_c_householder(cni_c *a, int64_t m, int64_t n, cni_c *tau)
{
  for (int64_t i = 0; i < m && i < n; i++) {
    cni_c *x = a + i * n + i, alpha = *x;
    double rest = cni_c_norm(x + n, m - i - 1, n);
    tau[i] = cni_c_of(0, 0);
    if (rest == 0 && alpha.im == 0) continue;
    double beta = -copysign(hypot(cni_c_abs(alpha), rest), alpha.re);
    tau[i] = cni_c_of((beta - alpha.re) / beta, -alpha.im / beta);
    cni_c below = cni_c_sub(alpha, cni_c_of(beta, 0));
    for (int64_t r = 1; r < m - i; r++) x[r * n] = cni_c_div(x[r * n], below);
    *x = cni_c_of(beta, 0);
    reflect(a + i * n, m - i, n, i + 1, n, x, n, cni_c_conj(tau[i]));
  }
}

void cni_c_householder_q(const cni_c *a, int64_t m, int64_t n, const cni_c *tau, cni_c *q, int64_t cols)
{
  int64_t last = m < n ? m : n;
  memset(q, 0, (size_t)(m * cols) * sizeof *q);
  for (int64_t i = 0; i < m && i < cols; i++) q[i * cols + i] = cni_c_of(1, 0);
  for (int64_t i = (last < cols ? last : cols) - 1; i >= 0; i--)
    reflect(q + i * cols, m - i, cols, i, cols, a + i * n + i, n, tau[i]);
}

static int64_t qr_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t steps = j->m < j->n ? j->m : j->n, kept = j->full ? j->m : steps;
  cni_c *a = (cni_c *)(void *)room, *q = (cni_c *)(void *)(room + cni_mat_room(j, j->m * j->n));
  cni_c *tau = (cni_c *)(void *)((char *)q + cni_mat_room(j, j->m * kept));
  cni_mat mine = cni_mat_own(j, room, j->m, j->n);
  cni_mat_move(mine, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), j->m, j->n);
  cni_c_householder(a, j->m, j->n, tau);
  if (j->vectors) {
    cni_c_householder_q(a, j->m, j->n, tau, q, kept);
    cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), cni_mat_own(j, (char *)q, j->m, kept), j->m, kept);
  }
  for (int64_t i = 0; i < j->m; i++) /* below the diagonal lie the reflections */
    for (int64_t k = 0; k < i && k < j->n; k++) a[i * j->n + k] = cni_c_of(0, 0);
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[1]), 2, index), mine, kept, j->n);
  return 0;
}

/* linalg_qr(A, mode) -> (Q, R) */
static int qr_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 2);
  const char *mode = c->args[1].u.s;
  int64_t steps = j.m < j.n ? j.m : j.n;
  j.nbatch = cn_desc_of(c->in[0])->ndim - 2;
  j.batch_shape = cn_desc_of(c->in[0])->shape;
  j.vectors = *mode != 'r' || mode[1] == 'e'; /* reduced, complete; r gives R alone */
  j.full = *mode == 'c';
  j.room = cni_mat_room(&j, j.m * j.n) + cni_mat_room(&j, j.m * (j.full ? j.m : steps)) + cni_mat_room(&j, steps);
  j.element = qr_element;
  return cni_matjob_run(&j, 16 * (double)j.m * (double)j.n * (double)steps, false, "", "");
}

const cn_kernel cni_cpu_linalg_complex_kernels[] = {
    {"linalg_lu_factor_ex", "complex", factor_kernel, cni_can_complex},
    {"linalg_solve_triangular", "complex", triangular_kernel, cni_can_complex},
    {"linalg_cholesky", "complex", cholesky_kernel, cni_can_complex},
    {"linalg_cholesky_ex", "complex", cholesky_kernel, cni_can_complex},
    {"linalg_qr", "complex", qr_kernel, cni_can_complex},
    {NULL, NULL, NULL, NULL},
};
