/* linalg_complex_eigen.c: kernels of Hermitian eigenvalues and singular values of complex matrices, by Jacobi's
 * rotations: two columns are turned until they are orthogonal, all pairs again and again.
 *
 * Flow: as in linalg.c. Invariant: the largest element of each eigenvector, and of each column of U, is real and
 * positive; eigenvalues rise, singular values fall. */
#include <float.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "complex.h"

enum { SWEEPS = 60 };

/* A rotation of columns p and q: (p, q) := (c p - conj(s) q, s p + c q), c real. */
typedef struct turn {
  double c;
  cni_c s;
} turn;

/* What makes the Hermitian matrix (app, apq; conj(apq), aqq) diagonal. */
static turn turn_of(double app, double aqq, cni_c apq)
{
  double size = cni_c_abs(apq), theta = (aqq - app) / (2 * size);
  double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1));
  double c = 1 / hypot(t, 1);
  return (turn){c, cni_c_scale(cni_c_unit(apq), t * c)};
}

/* Two columns of `rows` elements, `step` apart. */
static void turn_columns(cni_c *p, cni_c *q, int64_t rows, int64_t step, turn t)
{
  for (int64_t i = 0; i < rows; i++) {
    cni_c x = p[i * step], y = q[i * step];
    p[i * step] = cni_c_sub(cni_c_scale(x, t.c), cni_c_mul(cni_c_conj(t.s), y));
    q[i * step] = cni_c_add(cni_c_mul(t.s, x), cni_c_scale(y, t.c));
  }
}

/* ---- Hermitian eigenvalues ---- */

/* a: (n, n) becomes diagonal, v the vectors as rows. */
static void diagonalise(cni_c *a, cni_c *v, int64_t n)
{
  bool turned = true;
  for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
    turned = false;
    for (int64_t p = 0; p < n - 1; p++)
      for (int64_t q = p + 1; q < n; q++) {
        cni_c apq = a[p * n + q];
        double app = a[p * n + p].re, aqq = a[q * n + q].re;
        if (cni_c_abs(apq) <= DBL_EPSILON * 0.25 * sqrt(fabs(app) * fabs(aqq)) || cni_c_abs(apq) < DBL_MIN) continue;
        turned = true;
        turn t = turn_of(app, aqq, apq), back = {t.c, cni_c_conj(t.s)};
        turn_columns(a + p, a + q, n, n, t);
        turn_columns(a + p * n, a + q * n, n, 1, back);
        a[p * n + q] = a[q * n + p] = cni_c_of(0, 0);
        turn_columns(v + p * n, v + q * n, n, 1, t);
      }
  }
}

/* Rows of v (n, m), and keys, sorted by keys. */
static void sort_rows(double *keys, cni_c *v, cni_c *u, int64_t n, int64_t m, int64_t um, bool falling)
{
  for (int64_t i = 0; i < n - 1; i++) {
    int64_t best = i;
    for (int64_t k = i + 1; k < n; k++)
      if (falling ? keys[k] > keys[best] : keys[k] < keys[best]) best = k;
    if (best == i) continue;
    double key = keys[i];
    keys[i] = keys[best];
    keys[best] = key;
    for (int64_t k = 0; k < m; k++) {
      cni_c t = v[i * m + k];
      v[i * m + k] = v[best * m + k];
      v[best * m + k] = t;
    }
    for (int64_t k = 0; u && k < um; k++) {
      cni_c t = u[i * um + k];
      u[i * um + k] = u[best * um + k];
      u[best * um + k] = t;
    }
  }
}

/* The factor that makes the largest of n elements, or the first within a thousandth of it, real and positive. */
static cni_c phase(const cni_c *x, int64_t n)
{
  double most = 0;
  for (int64_t i = 0; i < n; i++) most = fmax(most, cni_c_abs(x[i]));
  int64_t i = 0;
  while (i < n - 1 && cni_c_abs(x[i]) < 0.999 * most) i++;
  return n ? cni_c_conj(cni_c_unit(x[i])) : cni_c_of(1, 0);
}

static void scale_row(cni_c *x, int64_t n, cni_c f)
{
  for (int64_t i = 0; i < n; i++) x[i] = cni_c_mul(x[i], f);
}

static bool all_finite(const cni_c *a, int64_t n)
{
  for (int64_t i = 0; i < n; i++)
    if (!isfinite(a[i].re) || !isfinite(a[i].im)) return false;
  return true;
}

/* The Hermitian matrix of which one triangle of x is read. */
static void read_hermitian(const cni_matjob *j, cni_c *a, cni_mat x)
{
  int64_t n = j->n;
  cni_mat_move(cni_mat_own(j, (char *)a, n, n), x, n, n);
  for (int64_t i = 0; i < n; i++) {
    a[i * n + i].im = 0;
    for (int64_t k = 0; k < i; k++) {
      if (j->upper) a[i * n + k] = cni_c_conj(a[k * n + i]);
      else a[k * n + i] = cni_c_conj(a[i * n + k]);
    }
  }
}

static int64_t eigh_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t n = j->n;
  cni_c *a = (cni_c *)(void *)room, *v = (cni_c *)(void *)(room + cni_mat_room(j, n * n));
  double *values = (double *)(void *)(room + 2 * cni_mat_room(j, n * n));
  cni_mat to = cni_mat_at(j, cn_desc_of(j->c->out[0]), 1, index);
  read_hermitian(j, a, cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index));
  if (!all_finite(a, n * n)) return 1;
  memset(v, 0, (size_t)(n * n) * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i * n + i] = cni_c_of(1, 0);
  diagonalise(a, v, n);
  for (int64_t i = 0; i < n; i++) values[i] = a[i * n + i].re;
  sort_rows(values, v, NULL, n, n, 0, false);
  cni_mat_move(to, (cni_mat){(char *)values, 1, 0, CN_F64}, n, 1);
  if (!j->vectors) return 0;
  for (int64_t i = 0; i < n; i++) scale_row(v + i * n, n, phase(v + i * n, n));
  cni_mat_move(cni_mat_t(cni_mat_at(j, cn_desc_of(j->c->out[1]), 2, index)), cni_mat_own(j, (char *)v, n, n), n, n);
  return 0;
}

static const char unsolved[] = "the matrix has infinite or NaN elements, or the algorithm did not converge";

/* linalg_eigh(A, UPLO), linalg_eigvalsh(A, UPLO) */
static int eigh_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 1);
  j.upper = *c->args[1].u.s == 'U' || *c->args[1].u.s == 'u';
  j.vectors = c->nout > 1;
  j.room = 2 * cni_mat_room(&j, j.n * j.n) + (size_t)j.n * 8;
  j.element = eigh_element;
  return cni_matjob_run(&j, 100 * cni_cube(j.n), false, unsolved, "code");
}

/* ---- singular values: the columns of A are turned until all are orthogonal ---- */

/* w: (k, m) columns as rows, v: (k, k): A V = W. */
static void orthogonalise(cni_c *w, cni_c *v, int64_t k, int64_t m)
{
  bool turned = true;
  for (int sweep = 0; turned && sweep < SWEEPS; sweep++) {
    turned = false;
    for (int64_t p = 0; p < k - 1; p++)
      for (int64_t q = p + 1; q < k; q++) {
        double pp = 0, qq = 0;
        cni_c pq = {0, 0};
        for (int64_t i = 0; i < m; i++) {
          cni_c x = w[p * m + i], y = w[q * m + i];
          pp += cni_c_square(x);
          qq += cni_c_square(y);
          pq = cni_c_add(pq, cni_c_mul(cni_c_conj(x), y));
        }
        if (cni_c_abs(pq) <= DBL_EPSILON * sqrt(pp) * sqrt(qq) || cni_c_abs(pq) < DBL_MIN) continue;
        turned = true;
        turn t = turn_of(pp, qq, pq);
        turn_columns(w + p * m, w + q * m, m, 1, t);
        turn_columns(v + p * k, v + q * k, k, 1, t);
      }
  }
}

/* Rows of w (k, m) over their norms, which become s; those without one are completed. */
static void normalise(cni_c *w, double *s, int64_t k, int64_t m, int64_t rows)
{
  int64_t have = 0;
  double least = s[0] * DBL_EPSILON * 1e-3;
  while (have < k && s[have] > least) {
    for (int64_t i = 0; i < m; i++) w[have * m + i] = cni_c_scale(w[have * m + i], 1 / s[have]);
    have++;
  }
  cni_c_complete(w, have, rows, m);
}

/* A: (m, n) with m >= n, or its conjugate transpose: w holds its columns (room for m of them), v: (n, n). */
static int64_t svd_element(const cni_matjob *j, int64_t index, char *room)
{
  bool wide = j->m < j->n;
  int64_t m = wide ? j->n : j->m, k = wide ? j->m : j->n, rows = j->full ? m : k;
  cni_c *w = (cni_c *)(void *)room, *v = (cni_c *)(void *)(room + cni_mat_room(j, m * m));
  double *s = (double *)(void *)((char *)v + cni_mat_room(j, k * k));
  cni_mat a = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), columns = cni_mat_own(j, room, k, m);
  cni_mat_move(columns, wide ? a : cni_mat_t(a), k, m);
  for (int64_t i = 0; wide && i < k * m; i++) w[i] = cni_c_conj(w[i]);
  if (!all_finite(w, k * m)) return 1;
  memset(v, 0, (size_t)(k * k) * sizeof *v);
  for (int64_t i = 0; i < k; i++) v[i * k + i] = cni_c_of(1, 0);
  orthogonalise(w, v, k, m);
  for (int64_t i = 0; i < k; i++) s[i] = cni_c_norm(w + i * m, m, 1);
  sort_rows(s, w, v, k, m, k, true);
  const cn_desc *values = cn_desc_of(j->c->out[j->vectors]);
  cni_mat_move(cni_mat_at(j, values, 1, index), (cni_mat){(char *)s, 1, 0, CN_F64}, k, 1);
  if (!j->vectors) return 0;
  if (k) normalise(w, s, k, m, rows);
  else cni_c_complete(w, 0, rows, m);
  for (int64_t i = 0; i < k; i++) { /* both vectors turn alike */
    cni_c f = wide ? phase(v + i * k, k) : phase(w + i * m, m);
    scale_row(w + i * m, m, f);
    scale_row(v + i * k, k, f);
  }
  /* A = W diag(s) V^H, or its conjugate transpose: rows of w and v are columns of W and V */
  cni_mat u = cni_mat_at(j, cn_desc_of(j->c->out[0]), 2, index), vh = cni_mat_at(j, cn_desc_of(j->c->out[2]), 2, index);
  cni_c *right = wide ? w : v;
  int64_t count = wide ? rows : k, length = wide ? m : k;
  cni_mat_move(cni_mat_t(u), wide ? cni_mat_own(j, (char *)v, k, k) : cni_mat_own(j, room, rows, m), wide ? k : rows,
               wide ? k : m);
  for (int64_t i = 0; i < count * length; i++) right[i] = cni_c_conj(right[i]);
  cni_mat_move(vh, cni_mat_own(j, (char *)right, count, length), count, length);
  return 0;
}

/* linalg_svd(A, full_matrices), linalg_svdvals(A) */
static int svd_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, c->nout > 1 ? 2 : 1);
  j.vectors = c->nout > 1;
  j.full = j.vectors && c->args[1].u.i != 0;
  j.nbatch = cn_desc_of(c->in[0])->ndim - 2;
  j.batch_shape = cn_desc_of(c->in[0])->shape;
  int64_t m = j.m > j.n ? j.m : j.n, k = j.m > j.n ? j.n : j.m;
  j.room = cni_mat_room(&j, m * m) + cni_mat_room(&j, k * k) + (size_t)k * 8;
  j.element = svd_element;
  return cni_matjob_run(&j, 100 * (double)m * (double)k * (double)k, false, unsolved, "code");
}

const cn_kernel cni_cpu_linalg_complex_eigen_kernels[] = {
    {"linalg_eigh", "complex", eigh_kernel, cni_can_complex},
    {"linalg_eigvalsh", "complex", eigh_kernel, cni_can_complex},
    {"linalg_svd", "complex", svd_kernel, cni_can_complex},
    {"linalg_svdvals", "complex", svd_kernel, cni_can_complex},
    {NULL, NULL, NULL, NULL},
};
