/* solver_ops.c: linear algebra of large matrices by cuSOLVER, triangles by cuBLAS.
 *
 * Place in the flow: comes before factor.c and spectrum.c, which take what is small, or many, or recorded, and
 * everything where the libraries are not. Invariant: results and errors are those of these files: what a call left in
 * `info` becomes a fault by a kernel (kernels/solver.cu), not by a wait. */
#include "solver.h"

#ifndef CNI_HAVE_CUSOLVER_H
const cn_kernel cni_cuda_solver_kernels[] = {{NULL, NULL, NULL}};
#else

/* ---- what it is worth it for ---- */

enum { LEAST = 64, BLOCKS = 264 }; /* rows; matrices that the plain kernels take at once */

/* Microseconds of one matrix of size n: by a library `call` and `row` for each row, by a block `steps` for each row and
 * `cube` for n^3. */
typedef struct costs {
  double call, row, steps, cube;
} costs;
static const costs of_factors = {100, 2, 5, 1.5e-4}, of_values = {500, 10, 50, 9e-3},
                   of_singular = {200, 25, 50, 9e-3};

static int worth(cn_call *c, const cni_cuda_batch *b, int64_t n, costs cost)
{
  double size = (double)n, waves = (double)((b->count + BLOCKS - 1) / BLOCKS);
  double library = (double)b->count * (cost.call + cost.row * size);
  if (!b->d) return CN_ERR_DEVICE;
  if (n < LEAST || library > waves * (cost.steps * size + cost.cube * size * size * size))
    return cni_cuda_refuse(c, "small matrices, or many");
  if (n > INT32_MAX / 4) return cni_cuda_refuse(c, "too large for cuSOLVER");
  if (!cni_cuda_solver() || !cni_cuda_blas()) return cni_cuda_refuse(c, "cuSOLVER is not there");
  if (cni_cuda_looks() || cni_cuda_records_by_hand(b->d))
    return cni_cuda_refuse(c, "cuSOLVER's work cannot be recorded");
  return cni_cuda_not_recorded(b->d, "cuSOLVER's work"); /* then a compiled function runs call by call */
}

/* ---- kernels around the calls, as in kernels/solver.cu ---- */

typedef struct finite_job {
  void *a, *bad;
  int64_t m, n;
  int32_t part, unused;
} finite_job;
typedef struct identity_job {
  void *b;
  int64_t n;
} identity_job;
typedef struct finish_job {
  void *info;
  const void *bad;
  void *x;
  int64_t count, elements;
  int32_t raises, unused;
  cni_cuda_slot fault;
} finish_job;
typedef struct det_job {
  const void *a, *pivots;
  void *det;
  int64_t n;
} det_job;
typedef struct clear_job {
  void *a;
  int64_t m, n;
  int32_t above, unused;
} clear_job;
typedef struct vectors {
  void *data;
  int64_t length, step;
} vectors;
typedef struct signs_job {
  vectors u, v;
  int64_t vectors_of;
} signs_job;

static int around(const cni_cuda_batch *b, int dtype, const char *entry, int64_t elements, void *job)
{
  cni_cuda_code code = {.file = "solver.cu", .entry = entry, .types = {dtype}};
  return cni_cuda_run(b->d, b->name, &code, (cni_cuda_grid){b->count, 1, cni_cuda_matrix_threads(elements), 0}, job);
}

/* Faults of failures, where they are such (raises), and NaN in x (data NULL: none). */
static int finish(const cni_cuda_batch *b, int dtype, void *info, const void *bad, cni_cuda_matrices x, int raises)
{
  finish_job j = {.info = info, .bad = bad, .x = x.data, .count = b->count, .elements = x.step, .raises = raises,
                  .fault = cni_cuda_slot_for(b->d, b->name)};
  return around(b, dtype, "finish", x.step, &j);
}

static int send_info(const cni_cuda_batch *b, int result, void *info)
{
  return cni_cuda_send(b, cn_desc_of(b->c->out[result]), 0, false, cni_cuda_row_major(info, CN_I32, 1, 1));
}

static const cni_cuda_matrices none;

static size_t elements(cni_cuda_batch *b, int dtype, int64_t of_each)
{
  return cni_cuda_part(b, (size_t)(b->count * of_each) * cn_element_size(dtype));
}
static size_t longs(cni_cuda_batch *b, int64_t of_each) { return cni_cuda_part(b, (size_t)(b->count * of_each) * 8); }

static int64_t size_of(const cn_desc *a, int from_last) { return a->shape[a->ndim - from_last]; }

/* ---- LU ---- */

/* A X = B, for B of this many columns; B NULL: the identity. raises: what a singular matrix is, or 0. */
static int solve_columns(cni_cuda_batch *b, const cn_desc *given, int core, bool left, int64_t k, int raises)
{
  cn_call *c = b->c;
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t n = size_of(a, 1);
  int dtype = a->dtype;
  size_t lu = elements(b, dtype, n * n), rhs = elements(b, dtype, n * k), pivots = longs(b, n);
  size_t info = cni_cuda_ints(b, 1), ignored = cni_cuda_ints(b, 1);
  cni_cuda_work w;
  int status = cni_cuda_batch_begin(b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b->memory + lu, dtype, n, n);
  cni_cuda_matrices x = cni_cuda_column_major(b->memory + rhs, dtype, n, k);
  int64_t *p = (int64_t *)(void *)(b->memory + pivots);
  int *where = (int *)(void *)(b->memory + info);
  identity_job one = {x.data, n};
  status = cni_cuda_bring(b, ma, a, 2, !left);
  if (!status)
    status = given ? cni_cuda_bring(b, x, given, core, !left) : around(b, dtype, "set_identity", n * n, &one);
  if (!status && !(status = cni_cuda_solver_begin(&w, b, dtype))) {
    status = cni_cuda_run_getrf(&w, ma, p, where);
    if (!status) status = cni_cuda_run_getrs(&w, ma, p, x, (int *)(void *)(b->memory + ignored));
    status = cni_cuda_solver_end(&w, status);
  }
  if (!status) status = finish(b, dtype, where, NULL, x, raises);
  if (!status) status = cni_cuda_send(b, cn_desc_of(c->out[0]), core, !left, x);
  if (!status && c->nout > 1) status = send_info(b, 1, where);
  return cni_cuda_batch_end(b, status);
}

/* linalg_solve(A, B, left), linalg_solve_ex(A, B, left, check_errors) -> (result, info) */
static int solve_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  bool left = c->args[2].u.i != 0, vector = out->ndim < a->ndim;
  cni_cuda_batch b = cni_cuda_batch_of(c, out, vector ? 1 : 2);
  int status = worth(c, &b, size_of(a, 1), of_factors);
  if (status || out->numel == 0) return status;
  int64_t k = vector ? 1 : size_of(out, left ? 1 : 2);
  return solve_columns(&b, cn_desc_of(c->in[1]), vector ? 1 : 2, left, k,
                       c->nout == 1 || c->args[3].u.i ? CNI_CUDA_SINGULAR : 0);
}

/* linalg_inv(A), linalg_inv_ex(A, check_errors) -> (inverse, info) */
static int inv_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  int status = worth(c, &b, size_of(a, 1), of_factors);
  if (status || a->numel == 0) return status;
  return solve_columns(&b, NULL, 2, true, size_of(a, 1), c->nout == 1 || c->args[1].u.i ? CNI_CUDA_SINGULAR : 0);
}

/* linalg_lu_factor_ex(A, pivot, check_errors) -> (LU, pivots, info), linalg_det(A) */
static int lu_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t m = size_of(a, 2), n = size_of(a, 1), steps = m < n ? m : n;
  int dtype = a->dtype;
  bool det = c->nout == 1;
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  cni_cuda_work w;
  int status = worth(c, &b, steps, of_factors);
  if (status || a->numel == 0) return status;
  size_t lu = elements(&b, dtype, m * n), pivots = longs(&b, steps), info = cni_cuda_ints(&b, 1);
  size_t product = elements(&b, dtype, 1);
  status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b.memory + lu, dtype, m, n);
  cni_cuda_matrices p = cni_cuda_row_major(b.memory + pivots, CN_I64, steps, 1);
  int *where = (int *)(void *)(b.memory + info);
  det_job j = {.a = ma.data, .pivots = p.data, .det = b.memory + product, .n = n};
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status && !(status = cni_cuda_solver_begin(&w, &b, dtype)))
    status = cni_cuda_solver_end(&w, cni_cuda_run_getrf(&w, ma, p.data, where));
  if (det) {
    if (!status) status = around(&b, dtype, "determinant", 1, &j);
    if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 0, false, cni_cuda_row_major(j.det, dtype, 1, 1));
    return cni_cuda_batch_end(&b, status);
  }
  if (!status) status = finish(&b, dtype, where, NULL, none, c->args[2].u.i ? CNI_CUDA_FACTOR : 0);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, false, ma);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[1]), 1, false, p);
  if (!status) status = send_info(&b, 2, where);
  return cni_cuda_batch_end(&b, status);
}

/* ---- triangles ---- */

/* linalg_cholesky(input, upper), linalg_cholesky_ex(input, upper, check_errors) -> (L, info) */
static int cholesky_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t n = size_of(a, 1);
  int dtype = a->dtype;
  bool upper = c->args[1].u.i != 0;
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  cni_cuda_work w;
  int status = worth(c, &b, n, of_factors);
  if (status || a->numel == 0) return status;
  size_t l = elements(&b, dtype, n * n), info = cni_cuda_ints(&b, 1);
  status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ml = cni_cuda_column_major(b.memory + l, dtype, n, n);
  int *where = (int *)(void *)(b.memory + info);
  clear_job clear = {.a = ml.data, .m = n, .n = n, .above = 1};
  status = cni_cuda_bring(&b, ml, a, 2, upper);
  if (!status && !(status = cni_cuda_solver_begin(&w, &b, dtype)))
    status = cni_cuda_solver_end(&w, cni_cuda_run_potrf(&w, ml, where));
  if (!status) status = around(&b, dtype, "clear_triangle", n * n, &clear);
  if (!status)
    status = finish(&b, dtype, where, NULL, none, c->nout == 1 || c->args[2].u.i ? CNI_CUDA_DEFINITE : 0);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, upper, ml);
  if (!status && c->nout > 1) status = send_info(&b, 1, where);
  return cni_cuda_batch_end(&b, status);
}

/* linalg_solve_triangular(A, B, upper, left, unitriangular) */
static int triangular_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]), *out = cn_desc_of(c->out[0]);
  int64_t n = size_of(a, 1), rows = size_of(out, 2), cols = size_of(out, 1);
  int dtype = a->dtype;
  bool upper = c->args[2].u.i != 0, left = c->args[3].u.i != 0, unit = c->args[4].u.i != 0;
  cni_cuda_batch b = cni_cuda_batch_of(c, out, 2);
  cni_cuda_work w;
  int status = worth(c, &b, n, of_factors);
  if (status || out->numel == 0) return status;
  if (rows > INT32_MAX || cols > INT32_MAX) return cni_cuda_refuse(c, "too many right-hand sides for cuBLAS");
  size_t triangle = elements(&b, dtype, n * n), rhs = elements(&b, dtype, rows * cols);
  status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b.memory + triangle, dtype, n, n);
  cni_cuda_matrices x = cni_cuda_column_major(b.memory + rhs, dtype, rows, cols);
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = cni_cuda_bring(&b, x, cn_desc_of(c->in[1]), 2, false);
  if (!status && !(status = cni_cuda_solver_begin(&w, &b, dtype)))
    status = cni_cuda_solver_end(&w, cni_cuda_run_trsm(&w, ma, x, left, upper, unit));
  if (!status) status = cni_cuda_send(&b, out, 2, false, x);
  return cni_cuda_batch_end(&b, status);
}

/* ---- QR ---- */

/* The reflections of each matrix go to q, whose first columns are theirs. */
static int copy_reflections(const cni_cuda_work *w, cni_cuda_matrices q, cni_cuda_matrices a, int64_t steps)
{
  int status = CN_OK;
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    CUdeviceptr to = (CUdeviceptr)(uintptr_t)q.data + (size_t)(i * q.step) * w->elem;
    CUdeviceptr from = (CUdeviceptr)(uintptr_t)a.data + (size_t)(i * a.step) * w->elem;
    size_t bytes = (size_t)(a.rows * steps) * w->elem;
    status = cni_cuda_check(cni_cuda_driver()->cuMemcpyDtoDAsync(to, from, bytes, cni_cuda_now(w->b->d)->stream),
                            w->b->name);
  }
  return status;
}

/* linalg_qr(A, mode) -> (Q, R) */
static int qr_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  const char *mode = c->args[1].u.s;
  bool with_q = *mode != 'r' || mode[1] == 'e';
  int64_t m = size_of(a, 2), n = size_of(a, 1), steps = m < n ? m : n, cols = *mode == 'c' ? m : steps;
  int dtype = a->dtype;
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  cni_cuda_work w;
  int status = worth(c, &b, steps, of_factors);
  if (status || a->numel == 0) return status;
  size_t ra = elements(&b, dtype, m * n), rq = elements(&b, dtype, with_q ? m * cols : 0);
  size_t rtau = elements(&b, dtype, steps), info = cni_cuda_ints(&b, 1);
  status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b.memory + ra, dtype, m, n), r = ma;
  cni_cuda_matrices q = cni_cuda_column_major(b.memory + rq, dtype, m, cols);
  int *where = (int *)(void *)(b.memory + info);
  clear_job clear = {.a = ma.data, .m = m, .n = n};
  r.rows = cols;
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status && !(status = cni_cuda_solver_begin(&w, &b, dtype))) {
    status = cni_cuda_run_geqrf(&w, ma, b.memory + rtau, where);
    if (!status && with_q) status = copy_reflections(&w, q, ma, steps);
    if (!status && with_q) status = cni_cuda_run_orgqr(&w, q, steps, b.memory + rtau, where);
    status = cni_cuda_solver_end(&w, status);
  }
  if (!status) status = around(&b, dtype, "clear_triangle", m * n, &clear);
  if (!status && with_q) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 2, false, q);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[1]), 2, false, r);
  return cni_cuda_batch_end(&b, status);
}

/* ---- singular values and eigenvalues ---- */

/* Of n vectors, in the columns of u; those of v (data NULL: none) go with them. */
static int fix_signs(const cni_cuda_batch *b, int dtype, cni_cuda_matrices u, cni_cuda_matrices v, int64_t n)
{
  signs_job j = {.u = {u.data, u.rows, u.step}, .v = {v.data, v.rows, v.step}, .vectors_of = n};
  return around(b, dtype, "signs", u.step, &j);
}

/* left, right: vectors in columns. */
static int send_singular(const cni_cuda_batch *b, cni_cuda_matrices values, cni_cuda_matrices left,
                         cni_cuda_matrices right)
{
  cn_tensor *const *out = b->c->out;
  if (b->c->nout == 1) return cni_cuda_send(b, cn_desc_of(out[0]), 1, false, values);
  int status = cni_cuda_send(b, cn_desc_of(out[1]), 1, false, values);
  if (!status) status = cni_cuda_send(b, cn_desc_of(out[0]), 2, false, left);
  return status ? status : cni_cuda_send(b, cn_desc_of(out[2]), 2, true, right);
}

/* linalg_svd(A, full_matrices) -> (U, S, Vh), linalg_svdvals(A) -> S. Of a wide matrix the transpose is taken. */
static int svd_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t m = size_of(a, 2), n = size_of(a, 1), tall = m < n ? n : m, thin = m < n ? m : n;
  int dtype = a->dtype;
  bool with = c->nout > 1, wide = m < n;
  int64_t cols = with && c->args[1].u.i ? tall : thin;
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  cni_cuda_work w;
  int status = worth(c, &b, thin, of_singular);
  if (status || a->numel == 0) return status;
  size_t ra = elements(&b, dtype, m * n), rs = elements(&b, dtype, thin), ru = elements(&b, dtype, tall * cols);
  size_t rv = elements(&b, dtype, thin * thin), info = cni_cuda_ints(&b, 1), bad = cni_cuda_ints(&b, 1);
  status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b.memory + ra, dtype, tall, thin);
  cni_cuda_matrices u = cni_cuda_column_major(b.memory + ru, dtype, tall, cols);
  cni_cuda_matrices v = cni_cuda_column_major(b.memory + rv, dtype, thin, thin);
  cni_cuda_matrices values = cni_cuda_row_major(b.memory + rs, dtype, thin, 1), left = wide ? v : u;
  int *where = (int *)(void *)(b.memory + info);
  finite_job check = {.a = ma.data, .bad = b.memory + bad, .m = tall, .n = thin};
  status = cni_cuda_bring(&b, ma, a, 2, wide);
  if (!status) status = around(&b, dtype, "check_finite", m * n, &check);
  if (!status && !(status = cni_cuda_solver_begin(&w, &b, dtype)))
    status = cni_cuda_solver_end(&w, cni_cuda_run_gesvdj(&w, ma, with, values, u, v, where));
  if (!status) status = finish(&b, dtype, where, check.bad, none, CNI_CUDA_CONVERGENCE);
  if (!status && with) status = fix_signs(&b, dtype, left, wide ? u : v, thin);
  if (!status) status = send_singular(&b, values, left, wide ? u : v);
  return cni_cuda_batch_end(&b, status);
}

typedef struct polish_job {
  void *q;
  const void *turned;
  int64_t elements;
} polish_job;

/* Of equal eigenvalues the library's float64 vectors are orthonormal to seven digits only. q: vectors in columns, so
 * that its memory read row by row is q^T; gram, turned: room. */
static int polish(const cni_cuda_batch *b, cni_cuda_matrices q, double *gram, double *turned)
{
  int64_t n = q.rows;
  int status = CN_OK;
  for (int64_t i = 0; i < b->count && !status; i++) {
    const double *t = (const double *)q.data + i * q.step;
    cni_cuda_product p = {.a = t, .b = t, .y = gram, .m = n, .n = n, .k = n, .a_row = n, .a_col = 1, .b_row = 1,
                          .b_col = n, .y_row = n, .dtype = CN_F64, .to = CN_F64, .times = (double)(2 * b->count)};
    status = cni_cuda_multiply(b->d, b->name, &p);
    p.a = gram, p.y = turned + i * q.step, p.b_row = n, p.b_col = 1;
    if (!status) status = cni_cuda_multiply(b->d, b->name, &p);
  }
  polish_job j = {q.data, turned, b->count * q.step};
  cni_cuda_code code = {.file = "solver.cu", .entry = "polish", .types = {CN_F64}};
  return status ? status : cni_cuda_run(b->d, b->name, &code, cni_cuda_grid_for(b->d, j.elements), &j);
}

/* linalg_eigh(A, UPLO) -> (eigenvalues, eigenvectors), linalg_eigvalsh(A, UPLO) */
static int eigh_kernel(cn_call *c)
{
  const cn_desc *a = cn_desc_of(c->in[0]);
  int64_t n = size_of(a, 1);
  int dtype = a->dtype;
  bool with = c->nout > 1, upper = c->args[1].u.s[0] == 'U' || c->args[1].u.s[0] == 'u';
  cni_cuda_batch b = cni_cuda_batch_of(c, a, 2);
  cni_cuda_work w;
  int status = worth(c, &b, n, of_values);
  if (status || a->numel == 0) return status;
  size_t ra = elements(&b, dtype, n * n), rl = elements(&b, dtype, n), info = cni_cuda_ints(&b, 1);
  size_t bad = cni_cuda_ints(&b, 1);
  bool polished = with && dtype == CN_F64;
  size_t turned = elements(&b, dtype, polished ? n * n : 0);
  size_t gram = cni_cuda_part(&b, polished ? (size_t)(n * n) * sizeof(double) : 0);
  status = cni_cuda_batch_begin(&b);
  if (status) return status;
  cni_cuda_matrices ma = cni_cuda_column_major(b.memory + ra, dtype, n, n);
  cni_cuda_matrices values = cni_cuda_row_major(b.memory + rl, dtype, n, 1);
  int *where = (int *)(void *)(b.memory + info);
  finite_job check = {.a = ma.data, .bad = b.memory + bad, .m = n, .n = n, .part = upper ? 2 : 1};
  status = cni_cuda_bring(&b, ma, a, 2, false);
  if (!status) status = around(&b, dtype, "check_finite", n * n, &check);
  if (!status && !(status = cni_cuda_solver_begin(&w, &b, dtype)))
    status = cni_cuda_solver_end(&w, cni_cuda_run_syevd(&w, ma, with, upper, values, where));
  if (!status) status = finish(&b, dtype, where, check.bad, none, CNI_CUDA_CONVERGENCE);
  if (!status && polished)
    status = polish(&b, ma, (double *)(void *)(b.memory + gram), (double *)(void *)(b.memory + turned));
  if (!status && with) status = fix_signs(&b, dtype, ma, none, n);
  if (!status) status = cni_cuda_send(&b, cn_desc_of(c->out[0]), 1, false, values);
  if (!status && with) status = cni_cuda_send(&b, cn_desc_of(c->out[1]), 2, false, ma);
  return cni_cuda_batch_end(&b, status);
}

const cn_kernel cni_cuda_solver_kernels[] = {
    {"linalg_solve", "cusolver", solve_kernel},
    {"linalg_solve_ex", "cusolver", solve_kernel},
    {"linalg_inv", "cusolver", inv_kernel},
    {"linalg_inv_ex", "cusolver", inv_kernel},
    {"linalg_det", "cusolver", lu_kernel},
    {"linalg_lu_factor_ex", "cusolver", lu_kernel},
    {"linalg_cholesky", "cusolver", cholesky_kernel},
    {"linalg_cholesky_ex", "cusolver", cholesky_kernel},
    {"linalg_solve_triangular", "cublas", triangular_kernel},
    {"linalg_qr", "cusolver", qr_kernel},
    {"linalg_svd", "cusolver", svd_kernel},
    {"linalg_svdvals", "cusolver", svd_kernel},
    {"linalg_eigh", "cusolver", eigh_kernel},
    {"linalg_eigvalsh", "cusolver", eigh_kernel},
    {NULL, NULL, NULL},
};
#endif
