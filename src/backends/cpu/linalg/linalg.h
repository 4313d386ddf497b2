/* linalg.h: what the linear algebra kernels share: a matrix in memory, and a job over a batch of them.
 *
 * Place in the flow: a kernel fills a job (sizes, memory, the function for one matrix) and cni_matjob_run walks the
 * batch, in parallel over matrices. "lapack" jobs compute in the tensor's type, column-major; "reference" jobs in
 * double precision, row-major. Invariant: what a matrix of the batch gives does not depend on the others or on the
 * number of threads. */
#ifndef CNI_CPU_LINALG_H
#define CNI_CPU_LINALG_H

#include <cairn/ext/op.h>

#include "backends/cpu/lib/lapack.h"

/* One matrix in memory; strides in elements. dtype: CN_F32, CN_F64, CN_I32, CN_C64 or CN_C128. */
typedef struct cni_mat {
  char *data;
  int64_t row, col;
  int dtype;
} cni_mat;

typedef struct cni_matjob {
  const cni_lapack *lapack; /* NULL: reference */
  cn_call *c;
  /* Computes matrix `index` of the batch with this much memory; returns 0, or the place (from 1) where it failed. */
  int64_t (*element)(const struct cni_matjob *job, int64_t index, char *room);
  int64_t batch, m, n, k; /* A: (m, n), B: (n, k) */
  int dtype;              /* of the memory it computes in */
  size_t room;            /* bytes for one matrix */
  int64_t *failed;        /* (batch) */
  int nbatch;             /* dims of the batch */
  int info;               /* result that holds each matrix's place of failure; 0: a failure is an error */
  const int64_t *batch_shape;
  bool left, upper, unit, full, vectors;
} cni_matjob;

static inline cni_mat cni_mat_t(cni_mat x) { return (cni_mat){x.data, x.col, x.row, x.dtype}; }
static inline size_t cni_mat_bytes(const cni_matjob *j, int64_t elements)
{
  return (size_t)elements * (j->dtype == CN_C128 ? 16 : j->dtype == CN_F64 ? 8 : 4);
}
/* ... rounded up, so that what follows is aligned */
static inline size_t cni_mat_room(const cni_matjob *j, int64_t elements)
{
  return (cni_mat_bytes(j, elements) + 63) & ~(size_t)63;
}

/* Matrix `index` of the batch of d, whose last `core` dims are a matrix (2) or a column (1) or nothing (0). */
cni_mat cni_mat_at(const cni_matjob *j, const cn_desc *d, int core, int64_t index);
/* Copies (m, n) elements, converting. */
void cni_mat_move(cni_mat to, cni_mat from, int64_t m, int64_t n);
/* (m, n) times the same number */
void cni_mat_fill(cni_mat to, double value, int64_t m, int64_t n);
/* Memory of the job as a (rows, cols) matrix in the order its algorithms want. */
static inline cni_mat cni_mat_own(const cni_matjob *j, char *memory, int64_t rows, int64_t cols)
{
  if (j->lapack) return (cni_mat){memory, 1, rows > 1 ? rows : 1, j->dtype};
  return (cni_mat){memory, cols, 1, j->dtype};
}

/* For rows that use LAPACK: is it there, and is the matrix of input 0 worth it? */
int cni_can_lapack(const cn_call *c, cn_plan *plan);
/* For rows of complex matrices. */
int cni_can_complex(const cn_call *c, cn_plan *plan);
/* Starts a job from the last two dims of input 0; the batch is that of result 0, whose last `core` dims are the
 * matrix's. CN_REFUSED when LAPACK is asked for and is gone (in a forked process). */
int cni_matjob_begin(cni_matjob *j, cn_call *c, bool lapack, int core);
/* Runs it: its element function, sizes and room are set. `work`: multiply-adds of one matrix. A failure is reported as
 * "WHAT (WHERE place)", or written to result j->info, if that is not 0 (and `check` is not set). */
int cni_matjob_run(cni_matjob *j, double work, bool check, const char *what, const char *where);

/* ---- plain C (double, row-major), shared between kernels ---- */
/* a: (m, n) becomes L (unit diagonal) and U; swaps[i]: the row that row i changed places with. The first column with a
 * zero pivot, from 1, or 0; it is carried on, as LAPACK does. */
int64_t cni_lu(double *a, int64_t m, int64_t n, int64_t *swaps);
/* a: (n, n), b: (n, k). Replaces b by the solution with one triangle of a. */
void cni_substitute(const double *a, int64_t a_row, int64_t a_col, bool upper, bool unit, double *b, int64_t n,
                    int64_t k);
void cni_exchange_rows(double *b, const int64_t *swaps, int64_t n, int64_t k);
/* Applies I - tau v v^T to the columns [from, to) of the rows of a, (rows, *) with `step` between rows. v has
 * v[0] = 1, which is not stored; v[i] lies at v[i * v_step]. w: `to` numbers. */
void cni_reflect(double *a, int64_t rows, int64_t step, int64_t from, int64_t to, const double *v, int64_t v_step,
                 double tau, double *w);
/* a: (m, n) becomes R and, below it, the reflections; tau: min(m, n). w: n numbers of room. */
void cni_householder(double *a, int64_t m, int64_t n, double *tau, double *w);
/* ... column i of that alone: turns it and those behind it. */
void cni_householder_step(double *a, int64_t m, int64_t n, int64_t i, double *tau, double *w);
/* The first `cols` columns of Q of those reflections. a: (m, n), q: (m, cols), w: cols numbers. */
void cni_householder_q(const double *a, int64_t m, int64_t n, const double *tau, double *q, int64_t cols, double *w);
/* Adds orthonormal rows to q, whose rows [0, have) are orthonormal, until there are `rows` of length m. w: m
 * numbers. */
void cni_complete_rows(double *q, int64_t have, int64_t rows, int64_t m, double *w);

/* Turns each of the first `count` columns of u (m, *), and with it that row of vh (*, n; data NULL: none), so that its
 * largest element, or the first of those within a thousandth of it, is positive. */
void cni_fix_signs(cni_mat u, int64_t m, int64_t count, cni_mat vh, int64_t n);

static inline double cni_cube(int64_t n) { return (double)n * (double)n * (double)n; }

#endif
