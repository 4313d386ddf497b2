/* factor.c: solving, inverses, determinants, Cholesky and LU decompositions by plain kernels.
 *
 * Place in the flow: launches of kernels/factor.cu, a block for each matrix; solver.c comes before it for large ones.
 * Invariant: nothing is read back: where a matrix that cannot be decomposed is an error, the kernel reports it, and the
 * next wait raises it. */
#include "linalg.h"

enum { MOST_PARTS = 65535, LEAST_COLUMNS = 32 };

/* As in kernels/factor.cu. */
typedef struct factor_job {
  void *a, *pivots, *info, *det;
  int64_t count, m, n;
  int32_t raises, unused;
  cni_cuda_slot fault;
} factor_job;
typedef struct solve_job {
  const void *a, *pivots, *info;
  void *b;
  int64_t n, k, part;
  int32_t upper, unit, identity, unused;
} solve_job;
typedef struct permutation_job {
  const void *pivots;
  void *y;
  int64_t count, steps, rows;
  cni_cuda_slot fault;
} permutation_job;

/* raises: what a failure is, or 0. */
static int decompose(const cni_cuda_batch *b, const char *entry, factor_job *j, int raises)
{
  j->count = b->count;
  j->raises = raises;
  j->fault = cni_cuda_slot_for(b->d, b->name);
  cni_cuda_code code = {.file = "factor.cu", .entry = entry};
  return cni_cuda_run(b->d, b->name, &code,
                      (cni_cuda_grid){b->count, 1, cni_cuda_matrix_threads(j->m * j->n), 0}, j);
}

static int solve(const cni_cuda_batch *b, solve_job *j)
{
  if (j->n == 0 || j->k == 0) return CN_OK;
  j->part = j->k / MOST_PARTS + 1;
  if (j->part < LEAST_COLUMNS) j->part = LEAST_COLUMNS;
  int64_t columns = j->k < j->part ? j->k : j->part;
  cni_cuda_code code = {.file = "factor.cu", .entry = "solve"};
  cni_cuda_grid grid = {b->count, (j->k + j->part - 1) / j->part, cni_cuda_matrix_threads(j->n * columns), 0};
  return cni_cuda_run(b->d, b->name, &code, grid, j);
}

/* Results that say where each matrix failed. */
static int send_info(const cni_cuda_batch *b, int result, void *info)
{
  return cni_cuda_send(b, cn_desc_of(b->c->out[result]), 0, false, cni_cuda_row_major(info, CN_I32, 1, 1));
}

static int64_t size_of(const cn_call *c, int from_last)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  return a->shape[a->ndim - from_last];
}

/* linalg_solve(A, B, left), linalg_solve_ex(A, B, left, check_errors) -> (result, info) */
static int solve_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *given = cn_desc_of(c->in[1]), *out = cn_desc_of(c->out[0]);
  bool left = c->args[2].u.i != 0, vector = out->ndim < a->ndim, ex = c->nout > 1;
  int core = vector ? 1 : 2;
  int64_t n = size_of(c, 1), k = vector ? 1 : out->shape[out->ndim - (left ? 1 : 2)];
  cni_cuda_batch b = cni_cuda_batch_of(c, out, core);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0) return CN_OK;
  size_t lu = cni_cuda_doubles(&b, n * n), x = cni_cuda_doubles(&b, n * k), pivots = cni_cuda_ints(&b, n);
  size_t info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + lu, CN_F64, n, n);
  cni_cuda_matrices mx = cni_cuda_row_major(b.memory + x, CN_F64, n, k);
  factor_job f = {.a = ma.data, .pivots = b.memory + pivots, .info = b.memory + info, .m = n, .n = n};
  solve_job s = {.a = ma.data, .pivots = f.pivots, .info = f.info, .b = mx.data, .n = n, .k = k};
  status = cni_cuda_bring(&b, ma, a, 2, !left);
  if (!status) status = cni_cuda_bring(&b, mx, given, core, !left);
  if (!status) status = decompose(&b, "lu", &f, !ex || c->args[3].u.i ? CNI_CUDA_SINGULAR : 0);
  if (!status) status = solve(&b, &s);
  if (!status) status = cni_cuda_send(&b, out, core, !left, mx);
  if (!status && ex) status = send_info(&b, 1, f.info);
  return cni_cuda_batch_end(&b, status);
}

/* linalg_inv(A), linalg_inv_ex(A, check_errors) -> (inverse, info) */
static int inv_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t n = size_of(c, 1);
  bool ex = c->nout > 1;
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0) return CN_OK;
  size_t lu = cni_cuda_doubles(&b, n * n), x = cni_cuda_doubles(&b, n * n), pivots = cni_cuda_ints(&b, n);
  size_t info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + lu, CN_F64, n, n);
  cni_cuda_matrices mx = cni_cuda_row_major(b.memory + x, CN_F64, n, n);
  factor_job f = {.a = ma.data, .pivots = b.memory + pivots, .info = b.memory + info, .m = n, .n = n};
  solve_job s = {.a = ma.data, .pivots = f.pivots, .info = f.info, .b = mx.data, .n = n, .k = n, .identity = 1};
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = decompose(&b, "lu", &f, !ex || c->args[1].u.i ? CNI_CUDA_SINGULAR : 0);
  if (!status) status = solve(&b, &s);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, false, mx);
  if (!status && ex) status = send_info(&b, 1, f.info);
  return cni_cuda_batch_end(&b, status);
}

static int det_kernel(cn_call *c)
{
  int64_t n = size_of(c, 1);
  cni_cuda_batch b = cni_cuda_batch_of(c, cn_desc_of(c->in[0]), 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0) return CN_OK;
  size_t lu = cni_cuda_doubles(&b, n * n), det = cni_cuda_doubles(&b, 1), pivots = cni_cuda_ints(&b, n);
  size_t info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + lu, CN_F64, n, n);
  factor_job f = {.a = ma.data, .pivots = b.memory + pivots, .info = b.memory + info, .det = b.memory + det, .m = n,
                  .n = n};
  status = cni_cuda_bring(&b, ma, cn_desc_of(c->in[0]), 2, false);
  if (!status) status = decompose(&b, "lu", &f, 0); /* a zero pivot makes the product 0, which is the determinant */
  if (!status)
    status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 0, false, cni_cuda_row_major(f.det, CN_F64, 1, 1));
  return cni_cuda_batch_end(&b, status);
}

/* linalg_cholesky(input, upper), linalg_cholesky_ex(input, upper, check_errors) -> (L, info) */
static int cholesky_kernel(cn_call *c)
{
  int64_t n = size_of(c, 1);
  bool upper = c->args[1].u.i != 0, ex = c->nout > 1;
  cni_cuda_batch b = cni_cuda_batch_of(c, cn_desc_of(c->in[0]), 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0) return CN_OK;
  size_t l = cni_cuda_doubles(&b, n * n), info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ml = cni_cuda_row_major(b.memory + l, CN_F64, n, n);
  factor_job f = {.a = ml.data, .info = b.memory + info, .m = n, .n = n};
  status = cni_cuda_bring(&b, ml, cn_desc_of(c->in[0]), 2, upper);
  if (!status) status = decompose(&b, "cholesky", &f, !ex || c->args[2].u.i ? CNI_CUDA_DEFINITE : 0);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, upper, ml);
  if (!status && ex) status = send_info(&b, 1, f.info);
  return cni_cuda_batch_end(&b, status);
}

/* linalg_lu_factor_ex(A, pivot, check_errors) -> (LU, pivots, info) */
static int lu_kernel(cn_call *c)
{
  int64_t m = size_of(c, 2), n = size_of(c, 1), steps = m < n ? m : n;
  cni_cuda_batch b = cni_cuda_batch_of(c, cn_desc_of(c->in[0]), 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0) return CN_OK;
  size_t lu = cni_cuda_doubles(&b, m * n), pivots = cni_cuda_ints(&b, steps), info = cni_cuda_ints(&b, 1);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + lu, CN_F64, m, n);
  factor_job f = {.a = ma.data, .pivots = b.memory + pivots, .info = b.memory + info, .m = m, .n = n};
  status = cni_cuda_bring(&b, ma, cn_desc_of(c->in[0]), 2, false);
  if (!status) status = decompose(&b, "lu", &f, c->args[2].u.i ? CNI_CUDA_FACTOR : 0);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, false, ma);
  if (!status)
    status = cni_cuda_send(&b, cn_desc_of(c->out[1]), 1, false, cni_cuda_row_major(f.pivots, CN_I32, steps, 1));
  if (!status) status = send_info(&b, 2, f.info);
  return cni_cuda_batch_end(&b, status);
}

/* linalg_solve_triangular(A, B, upper, left, unitriangular); X A = B is solved as A^T X^T = B^T. */
static int triangular_kernel(cn_call *c)
{
  const cn_desc *out = cn_desc_of(c->out[0]);
  bool upper = c->args[2].u.i != 0, left = c->args[3].u.i != 0, unit = c->args[4].u.i != 0;
  int64_t n = size_of(c, 1), k = out->shape[out->ndim - (left ? 1 : 2)];
  cni_cuda_batch b = cni_cuda_batch_of(c, out, 2);
  if (!b.d) return CN_ERR_DEVICE;
  if (b.count == 0 || n == 0 || k == 0) return CN_OK;
  size_t a = cni_cuda_doubles(&b, n * n), x = cni_cuda_doubles(&b, n * k);
  int status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_row_major(b.memory + a, CN_F64, n, n);
  cni_cuda_matrices mx = cni_cuda_row_major(b.memory + x, CN_F64, n, k);
  solve_job s = {.a = ma.data, .b = mx.data, .n = n, .k = k, .upper = upper == left, .unit = unit};
  status = cni_cuda_bring(&b, ma, cn_desc_of(c->in[0]), 2, !left);
  if (!status) status = cni_cuda_bring(&b, mx, cn_desc_of(c->in[1]), 2, !left);
  if (!status) status = solve(&b, &s);
  if (!status) status = cni_cuda_send(&b, out, 2, !left, mx);
  return cni_cuda_batch_end(&b, status);
}

/* lu_permutation(pivots, rows) */
static int permutation_kernel(cn_call *c)
{
  const cn_desc *pivots = cn_desc_of(c->in[0]), *y = cn_desc_of(c->out[0]);
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand op = {0}, oy = {0};
  if (!d) return CN_ERR_DEVICE;
  if (y->numel == 0) return CN_OK;
  int status = cni_cuda_take(&op, d, name, pivots, 0);
  if (!status) status = cni_cuda_room(&oy, d, name, y, 0);
  permutation_job j = {.pivots = op.data, .y = oy.data, .steps = pivots->shape[pivots->ndim - 1],
                       .rows = y->shape[y->ndim - 1], .fault = cni_cuda_slot_for(d, name)};
  j.count = y->numel / j.rows;
  cni_cuda_code code = {.file = "factor.cu", .entry = "permutation"};
  if (!status) status = cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j.count), &j);
  cni_cuda_drop(&op, d);
  return oy.desc ? cni_cuda_give(&oy, d, name, status) : status;
}

const cn_kernel cni_cuda_factor_kernels[] = {
    {"linalg_solve", "factor.cu", solve_kernel},
    {"linalg_solve_ex", "factor.cu", solve_kernel},
    {"linalg_inv", "factor.cu", inv_kernel},
    {"linalg_inv_ex", "factor.cu", inv_kernel},
    {"linalg_det", "factor.cu", det_kernel},
    {"linalg_cholesky", "factor.cu", cholesky_kernel},
    {"linalg_cholesky_ex", "factor.cu", cholesky_kernel},
    {"linalg_lu_factor_ex", "factor.cu", lu_kernel},
    {"linalg_solve_triangular", "factor.cu", triangular_kernel},
    {"lu_permutation", "factor.cu", permutation_kernel},
    {NULL, NULL, NULL},
};
