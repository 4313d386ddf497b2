/* linalg_eig.c: the kernel of eigenvalues and eigenvectors of any square matrix, real or complex: to Hessenberg form by
 * reflections, to a triangle by shifted QR steps, and back from the triangle's vectors.
 *
 * Flow: as in linalg.c; one algorithm in complex128 serves all types, so eigenvalues of a real matrix are conjugate
 * pairs to rounding. Real matrices of any size go to LAPACK where it is, for the order that eigenvalues have elsewhere.
 * Invariant: A V = V diag(w), each column of V of norm 1 with its largest element real. */
#include <float.h>
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/dtype.h"
#include "complex.h"

enum { STEPS = 60 }; /* QR steps for an eigenvalue, before that is given up */

/* h: (n, n) becomes Hessenberg; z, which starts as 1, the product of the reflections. v: n numbers. */
static void hessenberg(cni_c *h, cni_c *z, int64_t n, cni_c *v)
{
  for (int64_t k = 0; k + 2 < n; k++) {
    double norm = cni_c_norm(h + (k + 1) * n + k, n - k - 1, n);
    if (cni_c_norm(h + (k + 2) * n + k, n - k - 2, n) == 0) continue;
    cni_c alpha = h[(k + 1) * n + k], unit = cni_c_unit(alpha);
    for (int64_t i = k + 1; i < n; i++) v[i] = h[i * n + k];
    v[k + 1] = cni_c_add(alpha, cni_c_scale(unit, norm));
    double length = cni_c_norm(v + k + 1, n - k - 1, 1);
    for (int64_t i = k + 1; i < n; i++) v[i] = cni_c_scale(v[i], 1 / length);
    for (int64_t col = k; col < n; col++) { /* H := P H, P = 1 - 2 v v^H */
      cni_c dot = {0, 0};
      for (int64_t i = k + 1; i < n; i++) dot = cni_c_add(dot, cni_c_mul(cni_c_conj(v[i]), h[i * n + col]));
      dot = cni_c_scale(dot, 2);
      for (int64_t i = k + 1; i < n; i++) h[i * n + col] = cni_c_sub(h[i * n + col], cni_c_mul(v[i], dot));
    }
    for (int64_t m = 0; m < 2; m++) { /* H := H P, Z := Z P */
      cni_c *a = m ? z : h;
      for (int64_t row = 0; row < n; row++) {
        cni_c dot = {0, 0};
        for (int64_t i = k + 1; i < n; i++) dot = cni_c_add(dot, cni_c_mul(a[row * n + i], v[i]));
        dot = cni_c_scale(dot, 2);
        for (int64_t i = k + 1; i < n; i++)
          a[row * n + i] = cni_c_sub(a[row * n + i], cni_c_mul(dot, cni_c_conj(v[i])));
      }
    }
    for (int64_t i = k + 2; i < n; i++) h[i * n + k] = cni_c_of(0, 0);
  }
}

static cni_c root(cni_c a)
{
  double size = cni_c_abs(a), t = sqrt((size + fabs(a.re)) / 2);
  if (size == 0) return a;
  return a.re >= 0 ? cni_c_of(t, a.im / (2 * t)) : cni_c_of(fabs(a.im) / (2 * t), copysign(t, a.im));
}

/* The eigenvalue of the last 2 by 2 block that ends at `at` which is nearer to its last element. */
static cni_c shift_of(const cni_c *h, int64_t n, int64_t at)
{
  cni_c a = h[(at - 1) * n + at - 1], b = h[(at - 1) * n + at], c = h[at * n + at - 1], d = h[at * n + at];
  cni_c half = cni_c_scale(cni_c_sub(a, d), 0.5), bc = cni_c_mul(b, c);
  cni_c r = root(cni_c_add(cni_c_mul(half, half), bc));
  if (half.re * r.re + half.im * r.im < 0) r = cni_c_scale(r, -1);
  cni_c below = cni_c_add(half, r);
  return cni_c_zero(below) ? d : cni_c_sub(d, cni_c_div(bc, below));
}

/* One QR step with that shift on rows and columns [low, high]. turns: cosines and sines, n of each */
static void qr_step(cni_c *h, cni_c *z, int64_t n, int64_t low, int64_t high, cni_c shift, cni_c *turns)
{
  for (int64_t i = low; i <= high; i++) h[i * n + i] = cni_c_sub(h[i * n + i], shift);
  for (int64_t k = low; k < high; k++) { /* to a triangle, by rotations from the left */
    cni_c a = h[k * n + k], b = h[(k + 1) * n + k];
    double size = hypot(cni_c_abs(a), cni_c_abs(b));
    cni_c c = size > 0 ? cni_c_scale(a, 1 / size) : cni_c_of(1, 0);
    cni_c s = size > 0 ? cni_c_scale(b, 1 / size) : cni_c_of(0, 0);
    turns[2 * k] = c;
    turns[2 * k + 1] = s;
    for (int64_t col = k; col < n; col++) {
      cni_c x = h[k * n + col], y = h[(k + 1) * n + col];
      h[k * n + col] = cni_c_add(cni_c_mul(cni_c_conj(c), x), cni_c_mul(cni_c_conj(s), y));
      h[(k + 1) * n + col] = cni_c_sub(cni_c_mul(c, y), cni_c_mul(s, x));
    }
  }
  for (int64_t k = low; k < high; k++) { /* and back, from the right */
    cni_c c = turns[2 * k], s = turns[2 * k + 1];
    for (int64_t m = 0; m < 2; m++) {
      cni_c *a = m ? z : h;
      int64_t rows = m ? n : (k + 2 <= high ? k + 2 : high) + 1;
      for (int64_t row = 0; row < rows; row++) {
        cni_c x = a[row * n + k], y = a[row * n + k + 1];
        a[row * n + k] = cni_c_add(cni_c_mul(x, c), cni_c_mul(y, s));
        a[row * n + k + 1] = cni_c_sub(cni_c_mul(y, cni_c_conj(c)), cni_c_mul(x, cni_c_conj(s)));
      }
    }
  }
  for (int64_t i = low; i <= high; i++) h[i * n + i] = cni_c_add(h[i * n + i], shift);
}

/* Is what lies below the diagonal at i as good as zero? */
static bool splits(const cni_c *h, int64_t n, int64_t i, double norm)
{
  double near = cni_c_abs(h[(i - 1) * n + i - 1]) + cni_c_abs(h[i * n + i]);
  return cni_c_abs(h[i * n + i - 1]) <= DBL_EPSILON * (near > 0 ? near : norm);
}

/* h: Hessenberg, becomes a triangle. 0, or the eigenvalue that did not converge, from 1. */
static int64_t triangularise(cni_c *h, cni_c *z, int64_t n, cni_c *turns)
{
  int steps = 0;
  double norm = cni_c_norm(h, n * n, 1);
  for (int64_t high = n - 1; high > 0;) {
    int64_t low = high;
    while (low > 0 && !splits(h, n, low, norm)) low--;
    if (low > 0) h[low * n + low - 1] = cni_c_of(0, 0);
    if (low == high) {
      high--;
      steps = 0;
      continue;
    }
    if (++steps > STEPS) return high + 1;
    cni_c shift = shift_of(h, n, high);
    if (steps % 10 == 0) shift.re += cni_c_abs(h[high * n + high - 1]); /* out of a cycle */
    qr_step(h, z, n, low, high, shift, turns);
  }
  return 0;
}

/* Vectors of the triangle t, by substitution, times z; to the rows of v. x: n numbers */
static void vectors(const cni_c *t, const cni_c *z, cni_c *v, int64_t n, cni_c *x)
{
  double small = DBL_EPSILON * cni_c_norm(t, n * n, 1);
  for (int64_t k = 0; k < n; k++) {
    cni_c w = t[k * n + k];
    x[k] = cni_c_of(1, 0);
    for (int64_t i = k - 1; i >= 0; i--) {
      cni_c sum = t[i * n + k], gap = cni_c_sub(t[i * n + i], w);
      for (int64_t m = i + 1; m < k; m++) sum = cni_c_add(sum, cni_c_mul(t[i * n + m], x[m]));
      if (cni_c_abs(gap) < small) gap = cni_c_of(small > 0 ? small : DBL_MIN, 0);
      x[i] = cni_c_scale(cni_c_div(sum, gap), -1);
    }
    double most = 0;
    for (int64_t i = 0; i <= k; i++) most = fmax(most, cni_c_abs(x[i]));
    for (int64_t i = 0; i <= k; i++) x[i] = cni_c_scale(x[i], 1 / most);
    for (int64_t row = 0; row < n; row++) {
      cni_c sum = {0, 0};
      for (int64_t i = 0; i <= k; i++) sum = cni_c_add(sum, cni_c_mul(z[row * n + i], x[i]));
      v[k * n + row] = sum;
    }
  }
}

/* Each row of v of norm 1, its largest element real. */
static void unit_rows(cni_c *v, int64_t n)
{
  for (int64_t k = 0; k < n; k++) {
    cni_c *x = v + k * n;
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
      if (cni_c_square(x[i]) > cni_c_square(x[best]) * 1.000001) best = i;
    cni_c f = cni_c_scale(cni_c_conj(cni_c_unit(x[best])), 1 / cni_c_norm(x, n, 1));
    for (int64_t i = 0; i < n; i++) x[i] = cni_c_mul(x[i], f);
    x[best].im = 0;
  }
}

static int64_t eig_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t n = j->n;
  size_t square = cni_mat_room(j, n * n);
  cni_c *h = (cni_c *)(void *)room, *z = (cni_c *)(void *)(room + square), *v = (cni_c *)(void *)(room + 2 * square);
  cni_c *x = (cni_c *)(void *)(room + 3 * square);
  cni_mat_move(cni_mat_own(j, room, n, n), cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), n, n);
  for (int64_t i = 0; i < n * n; i++)
    if (!isfinite(h[i].re) || !isfinite(h[i].im)) return 1;
  memset(z, 0, (size_t)(n * n) * sizeof *z);
  for (int64_t i = 0; i < n; i++) z[i * n + i] = cni_c_of(1, 0);
  hessenberg(h, z, n, x);
  int64_t failed = triangularise(h, z, n, x);
  if (failed) return failed;
  cni_mat diagonal = {(char *)h, n + 1, 0, CN_C128};
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 1, index), diagonal, n, 1);
  if (!j->vectors) return 0;
  vectors(h, z, v, n, x);
  unit_rows(v, n);
  cni_mat_move(cni_mat_t(cni_mat_at(j, cn_desc_of(j->c->out[1]), 2, index)), cni_mat_own(j, (char *)v, n, n), n, n);
  return 0;
}

static const char failure[] = "the matrix has infinite or NaN elements, or the algorithm did not converge";

/* linalg_eig(A), linalg_eigvals(A) */
static int eig_kernel(cn_call *c)
{
  cni_matjob j;
  cni_matjob_begin_complex(&j, c, 1);
  j.vectors = c->nout > 1;
  j.room = 3 * cni_mat_room(&j, j.n * j.n) + cni_mat_room(&j, 2 * j.n);
  j.element = eig_element;
  return cni_matjob_run(&j, 100 * cni_cube(j.n), false, failure, "eigenvalue");
}

/* ---- LAPACK ---- */

static double number(const cni_matjob *j, const char *x, int64_t i)
{
  return j->dtype == CN_F64 ? ((const double *)(const void *)x)[i] : (double)((const float *)(const void *)x)[i];
}

/* The columns that LAPACK gives, to the rows of v. w: the eigenvalues */
static void take_vectors(const cni_matjob *j, cni_c *v, const cni_c *w, const char *columns)
{
  int64_t n = j->n;
  for (int64_t k = 0; k < n; k++) {
    bool second = w[k].im < 0, single = w[k].im == 0;
    int64_t re = second ? k - 1 : k;
    for (int64_t i = 0; i < n; i++) {
      double im = single ? 0 : number(j, columns, (re + 1) * n + i);
      v[k * n + i] = cni_c_of(number(j, columns, re * n + i), second ? -im : im);
    }
  }
}

/* The room: n * n + n complex128 numbers; A, the vectors, real and imaginary parts of the values, workspace */
static int64_t eig_lapack_element(const cni_matjob *j, int64_t index, char *room)
{
  int64_t many = j->n * j->n;
  int n = (int)j->n, lwork = (int)j->k, info = 0;
  size_t square = cni_mat_room(j, many), line = cni_mat_room(j, j->n);
  cni_c *v = (cni_c *)(void *)room, *w = v + many;
  char *a = (char *)(w + j->n), *columns = a + square, *re = columns + square, *im = re + line, *work = im + line;
  cni_mat given = cni_mat_at(j, cn_desc_of(j->c->in[0]), 2, index), rows = {room, j->n, 1, CN_C128};
  cni_mat_move(rows, given, j->n, j->n);
  for (int64_t i = 0; i < many; i++)
    if (!isfinite(v[i].re)) return 1;
  cni_mat_move(cni_mat_own(j, a, j->n, j->n), given, j->n, j->n);
  j->lapack->geev[j->dtype == CN_F64]("N", j->vectors ? "V" : "N", &n, a, &n, re, im, NULL, &n, columns, &n, work,
                                      &lwork, &info, 1, 1);
  if (info) return info;
  for (int64_t i = 0; i < j->n; i++) w[i] = cni_c_of(number(j, re, i), number(j, im, i));
  cni_mat_move(cni_mat_at(j, cn_desc_of(j->c->out[0]), 1, index), (cni_mat){(char *)w, 1, 0, CN_C128}, j->n, 1);
  if (!j->vectors) return 0;
  take_vectors(j, v, w, columns);
  unit_rows(v, j->n);
  cni_mat_move(cni_mat_t(cni_mat_at(j, cn_desc_of(j->c->out[1]), 2, index)), rows, j->n, j->n);
  return 0;
}

static int64_t workspace(const cni_matjob *j)
{
  int n = (int)j->n, ask = -1, info = 0;
  double best = 0;
  float narrow;
  j->lapack->geev[j->dtype == CN_F64]("N", j->vectors ? "V" : "N", &n, NULL, &n, NULL, NULL, NULL, &n, NULL, &n, &best,
                                      &ask, &info, 1, 1);
  memcpy(&narrow, &best, sizeof narrow);
  return (int64_t)(j->dtype == CN_F64 ? best : (double)narrow) + 64;
}

static int eig_lapack(cn_call *c)
{
  cni_matjob j;
  int status = cni_matjob_begin(&j, c, true, 1);
  if (status) return status;
  j.vectors = c->nout > 1;
  j.k = workspace(&j);
  j.room = (size_t)(j.n * j.n + j.n) * sizeof(cni_c) + 2 * cni_mat_room(&j, j.n * j.n) + 2 * cni_mat_room(&j, j.n) +
           cni_mat_room(&j, j.k);
  j.element = eig_lapack_element;
  return cni_matjob_run(&j, 25 * cni_cube(j.n), false, failure, "eigenvalue");
}

static int can_eig_lapack(const cn_call *c, cn_plan *plan)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t n = a->shape[a->ndim - 1];
  plan->refusal = cni_dtype_is_complex(a->dtype) ? "the matrix is complex"
                  : n < 1 || n > 16000           ? "LAPACK does not take that size"
                  : !cni_lapack_get()            ? "no LAPACK library was found"
                                                 : NULL;
  return plan->refusal ? CN_REFUSED : CN_OK;
}

const cn_kernel cni_cpu_linalg_eig_kernels[] = {
    {"linalg_eig", "lapack", eig_lapack, can_eig_lapack},
    {"linalg_eig", "reference", eig_kernel, NULL},
    {"linalg_eigvals", "lapack", eig_lapack, can_eig_lapack},
    {"linalg_eigvals", "reference", eig_kernel, NULL},
    {NULL, NULL, NULL, NULL},
};
