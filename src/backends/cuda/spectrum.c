/* spectrum.c: QR, singular values, eigenvalues of symmetric matrices, and the matrix exponential by plain kernels.
 *
 * Place in the flow: launches of kernels/spectrum.cu and kernels/matrix_exp.cu, a block for each matrix; solver.c comes
 * before it for large ones. Invariant: as in factor.c, nothing is read back. */
#include "linalg.h"

/* As in kernels/spectrum.cu and kernels/matrix_exp.cu. */
typedef struct qr_job {
  void *a, *tau, *q;
  int64_t m, n, cols;
} qr_job;
typedef struct svd_job {
  void *a, *s, *u, *w, *room, *order, *info;
  int64_t count, tall, thin, cols, room_of;
  int32_t wide, nearly_square, raises, in_shared;
  cni_cuda_slot fault;
} svd_job;
typedef struct eigh_job {
  void *a, *values, *y, *room, *order, *info;
  int64_t count, n;
  int32_t upper, raises, in_shared, unused;
  cni_cuda_slot fault;
} eigh_job;
typedef struct exp_job {
  void *a, *room, *pivots;
  int64_t n;
} exp_job;

static int launch(const cni_cuda_batch *b, const char *file, const char *entry, int64_t elements, void *job)
{
  cni_cuda_code code = {.file = file, .entry = entry};
  return cni_cuda_run(b->d, b->name, &code, (cni_cuda_grid){b->count, 1, cni_cuda_matrix_threads(elements), 0}, job);
}

enum { FEW = 128, MANY = 256 }; /* threads that rotate */

/* Bytes of shared memory that rotations of n rows take; 0: they are too many. */
static size_t shared_for(const cni_cuda_device *d, int64_t n)
{
  size_t bytes = (size_t)(2 * n * n) * sizeof(double);
  return n < 1000 && bytes <= (size_t)(d->major >= 8 ? 96 : 48) << 10 ? bytes : 0;
}

/* Of n rows: a pair has up to 32 threads, and there are n / 2 of them; for a matrix of so many elements. */
static int rotate(const cni_cuda_batch *b, const char *entry, int64_t n, int64_t elements, size_t shared, void *job)
{
  int threads = n <= 8 ? 32 : n <= 16 ? FEW : MANY, least = cni_cuda_matrix_threads(elements);
  if (threads < least) threads = least;
  cni_cuda_code code = {.file = "spectrum.cu", .entry = entry, .threads = threads <= FEW ? FEW : MANY};
  return cni_cuda_run(b->d, b->name, &code, (cni_cuda_grid){b->count, 1, threads, shared}, job);
}

/* linalg_qr(A, mode) -> (Q, R) */
static int qr_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  const char *mode = c->args[1].u.s;
  bool with_q = *mode != 'r' || mode[1] == 'e'; /* reduced, complete; r gives R alone */
  int64_t m = a->shape[a->ndim - 2], n = a->shape[a->ndim - 1], steps = m < n ? m : n, cols = *mode == 'c' ? m : steps;
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0 || m == 0) return CN_OK;
  size_t ra = cni_cuda_doubles(&b, m * n), rq = cni_cuda_doubles(&b, with_q ? m * cols : 0);
  size_t tau = cni_cuda_doubles(&b, steps);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b.memory + ra, CN_F64, m, n), r = ma;
  cni_cuda_matrices q = cni_cuda_column_major(b.memory + rq, CN_F64, m, cols);
  qr_job j = {.a = ma.data, .tau = b.memory + tau, .q = with_q ? q.data : NULL, .m = m, .n = n, .cols = cols};
  r.rows = cols;
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = launch(&b, "spectrum.cu", "qr", m * n, &j);
  if (!status && with_q) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, false, q);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[1]), 2, false, r);
  return cni_cuda_batch_end(&b, status);
}

/* U, S and Vh, or S alone. */
static int send_singular(const cni_cuda_batch *b, const svd_job *j, bool vectors)
{
  int64_t tall = j->tall, thin = j->thin, cols = j->cols;
  cni_cuda_matrices s = cni_cuda_row_major(j->s, CN_F64, thin, 1);
  if (!vectors) return cni_cuda_send(b, cn_desc_of(b->c->out[0]), 1, false, s);
  cni_cuda_matrices u = cni_cuda_row_major(j->u, CN_F64, cols, tall), w = cni_cuda_row_major(j->w, CN_F64, thin, thin);
  int status = cni_cuda_send(b, cn_desc_of(b->c->out[1]), 1, false, s);
  if (!status) status = cni_cuda_send(b, cn_desc_of(b->c->out[0]), 2, true, j->wide ? w : u);
  return status ? status : cni_cuda_send(b, cn_desc_of(b->c->out[2]), 2, false, j->wide ? u : w);
}

/* linalg_svd(A, full_matrices) -> (U, S, Vh), linalg_svdvals(A) -> S. The tall one of A and its transpose is taken. */
static int svd_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t m = a->shape[a->ndim - 2], n = a->shape[a->ndim - 1];
  bool vectors = c->nout > 1, full = vectors && c->args[1].u.i;
  svd_job j = {.tall = m < n ? n : m, .thin = m < n ? m : n, .wide = m < n, .raises = CNI_CUDA_CONVERGENCE};
  j.cols = !vectors ? 0 : full ? j.tall : j.thin;
  j.nearly_square = j.cols > j.thin && j.tall < j.thin * 11 / 6;
  j.room_of = 2 * j.thin + 2 * j.thin * j.thin + j.cols * j.tall + (j.nearly_square ? j.tall * j.thin : 0);
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0) return CN_OK;
  size_t ra = cni_cuda_doubles(&b, m * n), s = cni_cuda_doubles(&b, j.thin), u = cni_cuda_doubles(&b, j.cols * j.tall);
  size_t w = cni_cuda_doubles(&b, j.thin * j.thin), room = cni_cuda_doubles(&b, j.room_of);
  size_t order = cni_cuda_ints(&b, j.thin), info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = j.wide ? cni_cuda_row_major(b.memory + ra, CN_F64, m, n)
                                : cni_cuda_column_major(b.memory + ra, CN_F64, m, n);
  j.a = ma.data, j.s = b.memory + s, j.room = b.memory + room, j.order = b.memory + order, j.info = b.memory + info;
  if (vectors) j.u = b.memory + u, j.w = b.memory + w;
  j.count = b.count;
  j.fault = cni_cuda_slot_for(b.d, b.name);
  size_t shared = shared_for(b.d, j.thin);
  j.in_shared = shared != 0;
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = rotate(&b, "svd", j.thin, m * n, shared, &j);
  if (!status) status = send_singular(&b, &j, vectors);
  return cni_cuda_batch_end(&b, status);
}

/* linalg_eigh(A, UPLO) -> (eigenvalues, eigenvectors), linalg_eigvalsh(A, UPLO) */
static int eigh_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t n = a->shape[a->ndim - 1];
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0 || n == 0) return CN_OK;
  size_t ra = cni_cuda_doubles(&b, n * n), values = cni_cuda_doubles(&b, n), y = cni_cuda_doubles(&b, n * n);
  size_t room = cni_cuda_doubles(&b, 2 * n * n + 2 * n), order = cni_cuda_ints(&b, n), info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + ra, CN_F64, n, n), vectors = ma;
  eigh_job j = {.a = ma.data, .values = b.memory + values, .y = b.memory + y, .room = b.memory + room,
                .order = b.memory + order, .info = b.memory + info, .count = b.count, .n = n,
                .upper = c->args[1].u.s[0] == 'U' || c->args[1].u.s[0] == 'u', .raises = CNI_CUDA_CONVERGENCE,
                .fault = cni_cuda_slot_for(b.d, b.name)};
  vectors.data = j.y;
  size_t shared = shared_for(b.d, n);
  j.in_shared = shared != 0;
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = rotate(&b, "eigh", n, n * n, shared, &j);
  if (!status)
    status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 1, false, cni_cuda_row_major(j.values, CN_F64, n, 1));
  if (!status && c->nout > 1) status = cni_cuda_send(&b, cn_desc_of(c->out[1]), 2, true, vectors);
  return cni_cuda_batch_end(&b, status);
}

/* linalg_matrix_exp(A); types of 16 bits by its decomposition. */
static int exp_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  if (a->dtype != CN_F32 && a->dtype != CN_F64) return cni_cuda_refuse(c, "float32 and float64 only");
  int64_t n = a->shape[a->ndim - 1];
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0 || n == 0) return CN_OK;
  size_t ra = cni_cuda_doubles(&b, n * n), room = cni_cuda_doubles(&b, 7 * n * n), pivots = cni_cuda_ints(&b, n);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + ra, CN_F64, n, n);
  exp_job j = {.a = ma.data, .room = b.memory + room, .pivots = b.memory + pivots, .n = n};
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = launch(&b, "matrix_exp.cu", "matrix_exp", n * n, &j);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, false, ma);
  return cni_cuda_batch_end(&b, status);
}

const cn_kernel cni_cuda_spectrum_kernels[] = {
    {"linalg_qr", "spectrum.cu", qr_kernel},
    {"linalg_svd", "spectrum.cu", svd_kernel},
    {"linalg_svdvals", "spectrum.cu", svd_kernel},
    {"linalg_eigh", "spectrum.cu", eigh_kernel},
    {"linalg_eigvalsh", "spectrum.cu", eigh_kernel},
    {"linalg_matrix_exp", "matrix_exp.cu", exp_kernel},
    {NULL, NULL, NULL},
};
