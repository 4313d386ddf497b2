/* linalg.c: kernels of the linear algebra family, one matrix of the batch after the other: gathered into
 * memory of its own, factored there, and the answer written out.
 *
 * Flow: the "lapack" implementations take matrices that are worth a library, in their own type and
 * column-major; the "reference" ones, plain C in double precision and row-major, take everything else, in
 * parallel over the batch. Invariant: what a matrix of the batch gives does not depend on the others. */
#include <math.h>
#include <string.h>

#include "base/alloc.h"
#include "base/parallel.h"
#include "base/state.h"
#include "cpu.h"
#include "gemm.h"
#include "lapack.h"

enum {
  LAPACK_FROM = 48,     /* rows from which on a library is worth its call */
  SUBSTITUTE_ROWS = 32, /* rows solved at a time; the rest is a product */
  GRAIN_WORK = 1 << 17  /* multiply-adds worth waking a thread for */
};

/* One matrix in memory; strides in elements. */
typedef struct view {
  char *data;
  int64_t row, col;
  int dtype;
} view;

typedef struct job {
  const cni_lapack *lapack; /* NULL: reference */
  cn_call *c;
  /* Computes matrix `index` of the batch with this much memory; answers 0, or the row (from 1) where it
   * failed. */
  int64_t (*element)(const struct job *job, int64_t index, char *room);
  int64_t batch, n, k; /* A: (n, n), B: (n, k) */
  int dtype;           /* of the memory it computes in */
  size_t room;
  int64_t *failed; /* (batch) */
  int nbatch;      /* dims of the batch */
  const int64_t *batch_shape;
  bool left, upper, unit;
} job;

/* ---- moving matrices ---- */

static view transposed(view x) { return (view){x.data, x.col, x.row, x.dtype}; }

/* Matrix `index` of the batch of d, whose last `core` dims are a matrix (2) or a column (1). */
static view matrix_at(const job *j, const cn_desc *d, int core, int64_t index)
{
  int lead = d->ndim - core;
  int64_t offset = 0;
  for (int i = j->nbatch - 1, k = lead - 1; i >= 0 && k >= 0; i--, k--) {
    if (d->shape[k] != 1) offset += index % j->batch_shape[i] * d->strides[k];
    index /= j->batch_shape[i];
  }
  int64_t elem = d->dtype == CN_F64 ? 8 : 4;
  return (view){(char *)d->data + offset * elem, d->strides[lead], core == 2 ? d->strides[lead + 1] : 0,
                d->dtype};
}

#define MOVE(T, F)                                                                                           \
  for (int64_t i = 0; i < m; i++) {                                                                          \
    T *t = (T *)(void *)to.data + i * to.row;                                                                \
    const F *f = (const F *)(const void *)from.data + i * from.row;                                          \
    for (int64_t k = 0; k < n; k++) t[k * to.col] = (T)f[k * from.col];                                      \
  }

/* (m, n) elements */
static void move(view to, view from, int64_t m, int64_t n)
{
  if (to.dtype == CN_F64 && from.dtype == CN_F64) MOVE(double, double)
  else if (to.dtype == CN_F64) MOVE(double, float)
  else if (from.dtype == CN_F64) MOVE(float, double)
  else MOVE(float, float)
}

/* Memory of the job as an (n, cols) matrix in the order its algorithms want. */
static view own(const job *j, char *memory, int64_t cols)
{
  if (j->lapack) return (view){memory, 1, j->n, j->dtype};
  return (view){memory, cols, 1, j->dtype};
}

static size_t bytes_of(const job *j, int64_t elements)
{
  return (size_t)elements * (j->dtype == CN_F64 ? 8 : 4);
}

/* ---- LU with row exchanges ---- */

/* a: (n, n) becomes L (unit diagonal) and U; swaps[i]: the row that row i changed places with. The first row
 * with a zero pivot, from 1, or 0; it is carried on, as LAPACK does. */
static int64_t lu_reference(double *a, int64_t n, int64_t *swaps)
{
  int64_t failed = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t best = i;
    for (int64_t r = i + 1; r < n; r++)
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
    for (int64_t r = i + 1; r < n; r++) {
      double f = a[r * n + i] /= pivot;
      for (int64_t k = i + 1; k < n; k++) a[r * n + k] -= f * a[i * n + k];
    }
  }
  return failed;
}

/* a: (n, n), b: (n, k), row-major. Replaces b by the solution with one triangle of a; row by row inside
 * blocks, the blocks' parts by products. */
static void substitute(const double *a, int64_t a_row, int64_t a_col, bool upper, bool unit, double *b,
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

static void exchange_rows(double *b, const int64_t *swaps, int64_t n, int64_t k)
{
  for (int64_t i = 0; i < n; i++)
    for (int64_t t = 0; swaps[i] != i && t < k; t++) {
      double x = b[i * k + t];
      b[i * k + t] = b[swaps[i] * k + t];
      b[swaps[i] * k + t] = x;
    }
}

/* Room of a factored matrix: its elements, then the row exchanges (64 bits each; LAPACK uses half). */
static int64_t factor(const job *j, char *a)
{
  void *swaps = a + bytes_of(j, j->n * j->n);
  if (!j->lapack) return lu_reference((double *)(void *)a, j->n, swaps);
  int n = (int)j->n, info = 0;
  j->lapack->getrf[j->dtype == CN_F64](&n, &n, a, &n, swaps, &info);
  return info;
}

static size_t factor_room(const job *j)
{
  return (bytes_of(j, j->n * j->n) + (size_t)j->n * 8 + 63) & ~(size_t)63;
}

/* ---- solving: linalg_solve, linalg_inv ---- */

static int64_t solve_factored(const job *j, char *a, char *b)
{
  void *swaps = a + bytes_of(j, j->n * j->n);
  if (j->lapack) {
    int n = (int)j->n, k = (int)j->k, info = 0;
    j->lapack->getrs[j->dtype == CN_F64]("N", &n, &k, a, &n, swaps, b, &n, &info, 1);
    return info;
  }
  const double *lu = (const double *)(const void *)a;
  double *x = (double *)(void *)b;
  exchange_rows(x, swaps, j->n, j->k);
  substitute(lu, j->n, 1, false, true, x, j->n, j->k);
  substitute(lu, j->n, 1, true, false, x, j->n, j->k);
  return 0;
}

static int64_t solve_element(const job *j, int64_t index, char *room)
{
  const cn_desc *out = cn_desc_of(j->c->out[0]), *given = cn_desc_of(j->c->in[1]);
  int core = out->ndim - j->nbatch; /* 1 for vectors */
  char *b = room + factor_room(j);
  view a = matrix_at(j, cn_desc_of(j->c->in[0]), 2, index), from = matrix_at(j, given, core, index);
  view to = matrix_at(j, out, core, index);
  move(own(j, room, j->n), j->left ? a : transposed(a), j->n, j->n);
  move(own(j, b, j->k), j->left ? from : transposed(from), j->n, j->k);
  int64_t failed = factor(j, room);
  if (!failed) failed = solve_factored(j, room, b);
  if (!failed) move(j->left ? to : transposed(to), own(j, b, j->k), j->n, j->k);
  return failed;
}

static int64_t inv_element(const job *j, int64_t index, char *room)
{
  const double one = 1;
  char *b = room + factor_room(j);
  view a = matrix_at(j, cn_desc_of(j->c->in[0]), 2, index), identity = own(j, b, j->n);
  move(own(j, room, j->n), a, j->n, j->n);
  int64_t failed = factor(j, room);
  if (failed) return failed;
  memset(b, 0, bytes_of(j, j->n * j->n));
  identity.row = j->n + 1; /* the diagonal as a column */
  move(identity, (view){(char *)(uintptr_t)&one, 0, 0, CN_F64}, j->n, 1);
  failed = solve_factored(j, room, b);
  if (!failed) move(matrix_at(j, cn_desc_of(j->c->out[0]), 2, index), own(j, b, j->n), j->n, j->n);
  return failed;
}

/* ---- linalg_det ---- */

static double pivot_sign(const job *j, const char *swaps)
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

static int64_t det_element(const job *j, int64_t index, char *room)
{
  view a = matrix_at(j, cn_desc_of(j->c->in[0]), 2, index);
  const cn_desc *out = cn_desc_of(j->c->out[0]);
  move(own(j, room, j->n), a, j->n, j->n);
  factor(j, room); /* a zero pivot makes the product 0, which is the answer */
  double det = pivot_sign(j, room + bytes_of(j, j->n * j->n));
  for (int64_t i = 0; i < j->n; i++) {
    view at = {room + bytes_of(j, i * (j->n + 1)), 0, 0, j->dtype};
    double d;
    move((view){(char *)&d, 0, 0, CN_F64}, at, 1, 1);
    det *= d;
  }
  int64_t elem = out->dtype == CN_F64 ? 8 : 4;
  move((view){(char *)out->data + index * elem, 0, 0, out->dtype}, (view){(char *)&det, 0, 0, CN_F64}, 1, 1);
  return 0;
}

/* ---- linalg_solve_triangular ---- */

static int64_t triangular_element(const job *j, int64_t index, char *room)
{
  char *b = room + bytes_of(j, j->n * j->n);
  view a = matrix_at(j, cn_desc_of(j->c->in[0]), 2, index),
       from = matrix_at(j, cn_desc_of(j->c->in[1]), 2, index);
  view to = matrix_at(j, cn_desc_of(j->c->out[0]), 2, index);
  bool upper = j->upper == j->left; /* a transposed triangle is the other one */
  move(own(j, room, j->n), j->left ? a : transposed(a), j->n, j->n);
  move(own(j, b, j->k), j->left ? from : transposed(from), j->n, j->k);
  substitute((double *)(void *)room, j->n, 1, upper, j->unit, (double *)(void *)b, j->n, j->k);
  move(j->left ? to : transposed(to), own(j, b, j->k), j->n, j->k);
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

static int64_t cholesky_element(const job *j, int64_t index, char *room)
{
  view a = matrix_at(j, cn_desc_of(j->c->in[0]), 2, index),
       to = matrix_at(j, cn_desc_of(j->c->out[0]), 2, index);
  view mine = own(j, room, j->n);
  int64_t failed;
  move(mine, j->upper ? transposed(a) : a, j->n, j->n);
  if (j->lapack) {
    int n = (int)j->n, info = 0;
    j->lapack->potrf[j->dtype == CN_F64]("L", &n, room, &n, &info, 1);
    failed = info;
  } else {
    failed = cholesky_reference((double *)(void *)room, j->n);
  }
  if (failed) return failed;
  const double zero = 0;
  const int64_t elem = j->dtype == CN_F64 ? 8 : 4;
  for (int64_t i = 0; i < j->n; i++) { /* what is above the diagonal is left from A */
    view above = mine;
    above.data += (i * mine.row + (i + 1) * mine.col) * elem;
    move(above, (view){(char *)(uintptr_t)&zero, 0, 0, CN_F64}, 1, j->n - i - 1);
  }
  move(j->upper ? transposed(to) : to, mine, j->n, j->n);
  return 0;
}

/* ---- over the batch ---- */

static void element_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  char *room = cni_alloc(j->room);
  for (int64_t i = begin; room && i < end; i++) j->failed[i] = j->element(j, i, room);
  cni_free(room, j->room);
}

/* The first failure of the batch, as an error. */
static int report(const job *j, const char *what, const char *where)
{
  int64_t i = 0;
  while (i < j->batch && !j->failed[i]) i++;
  if (i == j->batch) return CN_OK;
  if (j->batch == 1)
    return cn_call_fail(j->c, CN_ERR_VALUE, "%s (%s %lld)", what, where, (long long)j->failed[i]);
  return cn_call_fail(j->c, CN_ERR_VALUE, "batch element %lld: %s (%s %lld)", (long long)i, what, where,
                      (long long)j->failed[i]);
}

/* Runs the job, whose element function, sizes and room are set. `work`: multiply-adds of one matrix. */
static int run(job *j, double work, const char *what, const char *where)
{
  j->batch = 1;
  for (int i = 0; i < j->nbatch; i++) j->batch *= j->batch_shape[i];
  if (j->batch == 0) return CN_OK;
  size_t bytes = (size_t)j->batch * sizeof *j->failed;
  j->failed = cni_alloc_zero(bytes);
  if (!j->failed) return CN_ERR_MEMORY;
  double few = GRAIN_WORK / (work < 1 ? 1 : work);
  int64_t grain = j->lapack ? j->batch : few < 1 ? 1 : (int64_t)few; /* a library brings threads of its own */
  cni_parallel_for(j->batch, grain, element_range, j);
  int status = cni_state()->err;
  if (!status) status = report(j, what, where);
  cni_free(j->failed, bytes);
  return status;
}

/* Sizes and order of the work; refuses what is not worth LAPACK, or has none. */
static int begin(job *j, cn_call *c, bool lapack)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  *j = (job){.c = c,
             .n = a->shape[a->ndim - 1],
             .nbatch = out->ndim - 2,
             .batch_shape = out->shape,
             .dtype = lapack ? a->dtype : CN_F64,
             .left = true};
  if (!lapack) return CN_OK;
  c->refusal = "the matrix is too small for LAPACK";
  if (j->n < LAPACK_FROM) return CN_REFUSED;
  c->refusal = "no LAPACK library was found";
  j->lapack = cni_lapack_get();
  if (!j->lapack) return CN_REFUSED;
  c->refusal = "the matrix is too large for LAPACK";
  return j->n > INT32_MAX ? CN_REFUSED : CN_OK;
}

static const char singular[] = "the input matrix is singular", zero_pivot[] = "zero on the diagonal of U at";

static double cube(int64_t n) { return (double)n * (double)n * (double)n; }

static int solve_with(cn_call *c, bool lapack)
{
  job j;
  int status = begin(&j, c, lapack);
  if (status) return status;
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  bool vector = out->ndim < a->ndim;
  if (vector) j.nbatch = out->ndim - 1;
  j.left = c->args[2].u.i != 0;
  j.k = vector ? 1 : out->shape[out->ndim - (j.left ? 1 : 2)];
  j.room = factor_room(&j) + bytes_of(&j, j.n * j.k);
  j.element = solve_element;
  if (j.k > INT32_MAX && lapack) return CN_REFUSED;
  return run(&j, cube(j.n) + (double)j.n * (double)j.n * (double)j.k, singular, zero_pivot);
}
static int solve_lapack(cn_call *c) { return solve_with(c, true); }
static int solve_kernel(cn_call *c) { return solve_with(c, false); }

static int inv_with(cn_call *c, bool lapack)
{
  job j;
  int status = begin(&j, c, lapack);
  if (status) return status;
  j.k = j.n;
  j.room = factor_room(&j) + bytes_of(&j, j.n * j.n);
  j.element = inv_element;
  return run(&j, 2 * cube(j.n), singular, zero_pivot);
}
static int inv_lapack(cn_call *c) { return inv_with(c, true); }
static int inv_kernel(cn_call *c) { return inv_with(c, false); }

static int det_with(cn_call *c, bool lapack)
{
  job j;
  int status = begin(&j, c, lapack);
  if (status) return status;
  j.nbatch = cn_desc_of(c->out[0])->ndim;
  j.room = factor_room(&j);
  j.element = det_element;
  return run(&j, cube(j.n), "", "");
}
static int det_lapack(cn_call *c) { return det_with(c, true); }
static int det_kernel(cn_call *c) { return det_with(c, false); }

static int cholesky_with(cn_call *c, bool lapack)
{
  job j;
  int status = begin(&j, c, lapack);
  if (status) return status;
  j.upper = c->args[1].u.i != 0;
  j.room = bytes_of(&j, j.n * j.n);
  j.element = cholesky_element;
  return run(&j, cube(j.n), "the input is not positive-definite", "leading minor of order");
}
static int cholesky_lapack(cn_call *c) { return cholesky_with(c, true); }
static int cholesky_kernel(cn_call *c) { return cholesky_with(c, false); }

/* linalg_solve_triangular(A, B, upper, left, unitriangular) */
static int triangular_kernel(cn_call *c)
{
  job j;
  begin(&j, c, false);
  const cn_desc *out = cn_desc_of(c->out[0]);
  j.upper = c->args[2].u.i != 0;
  j.left = c->args[3].u.i != 0;
  j.unit = c->args[4].u.i != 0;
  j.k = out->shape[out->ndim - (j.left ? 1 : 2)];
  j.room = bytes_of(&j, j.n * j.n + j.n * j.k);
  j.element = triangular_element;
  return run(&j, (double)j.n * (double)j.n * (double)j.k, "", "");
}

const cn_kernel cni_cpu_linalg_kernels[] = {
    {"linalg_solve", "lapack", solve_lapack},
    {"linalg_solve", "reference", solve_kernel},
    {"linalg_inv", "lapack", inv_lapack},
    {"linalg_inv", "reference", inv_kernel},
    {"linalg_det", "lapack", det_lapack},
    {"linalg_det", "reference", det_kernel},
    {"linalg_cholesky", "lapack", cholesky_lapack},
    {"linalg_cholesky", "reference", cholesky_kernel},
    {"linalg_solve_triangular", "reference", triangular_kernel},
    {NULL, NULL, NULL},
};
