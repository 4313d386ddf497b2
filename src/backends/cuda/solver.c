/* solver.c: calls of cuSOLVER, and of cuBLAS for triangles, for each matrix of a batch.
 *
 * Place in the flow: opened by libraries.c when first needed; solver_ops.c has the ops. Invariant: the libraries have
 * no memory to work in of their own, it comes with each call; a lock is held from begin to end, since a handle has one
 * stream at a time. */
#include "solver.h"

#ifdef CNI_HAVE_CUSOLVER_H

/* ---- the libraries' handles ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of the handles, which have one stream at a time */
static cni_cuda_handles known[CNI_CUDA_DEVICES];

static int failed(const cni_cuda_batch *b, int status)
{
  return cni_cuda_host->fail(CN_ERR_DEVICE, "%s: cuSOLVER: status %d", b->name, status);
}

static int make(cni_cuda_handles *h, const cni_cuda_batch *b)
{
  int status = 0;
  if (!h->solver) status = (int)cni_cuda_solver()->cusolverDnCreate(&h->solver);
  if (!status && !h->params) status = (int)cni_cuda_solver()->cusolverDnCreateParams(&h->params);
  if (!status && !h->rotations) status = (int)cni_cuda_solver()->cusolverDnCreateGesvdjInfo(&h->rotations);
  if (!status && !h->blas) status = (int)cni_cuda_blas()->cublasCreate_v2(&h->blas);
  return status ? failed(b, status) : CN_OK;
}

int cni_cuda_solver_begin(cni_cuda_work *w, cni_cuda_batch *b, int dtype)
{
  *w = (cni_cuda_work){.b = b, .h = &known[b->d->index], .dtype = dtype, .elem = cn_element_size(dtype)};
  w->type = dtype == CN_F64 ? CUDA_R_64F : CUDA_R_32F;
  cudaStream_t stream = (cudaStream_t)cni_cuda_now(b->d)->stream;
  pthread_mutex_lock(&lock);
  int status = make(w->h, b), set = 0;
  if (!status) set = (int)cni_cuda_solver()->cusolverDnSetStream(w->h->solver, stream);
  if (!status && !set) set = (int)cni_cuda_blas()->cublasSetStream_v2(w->h->blas, stream);
  if (set) status = failed(b, set);
  if (status) pthread_mutex_unlock(&lock);
  return status;
}

int cni_cuda_solver_end(cni_cuda_work *w, int status)
{
  pthread_mutex_unlock(&lock);
  return status ? status : cni_cuda_launched(w->b->d, w->b->name);
}

/* asked: the status of the question how much is needed. */
static int take_room(cni_cuda_work *w, int asked)
{
  if (asked) return failed(w->b, asked);
  if (w->host_bytes && (asked = cni_cuda_host->waiting())) return asked; /* give_room will */
  w->device = cni_cuda_scratch(w->b->d, w->b->name, w->device_bytes);
  if (!w->device) return CN_ERR_MEMORY;
  w->host = w->host_bytes ? cni_cuda_host->memory(w->host_bytes) : NULL;
  return w->host || !w->host_bytes ? CN_OK : CN_ERR_MEMORY;
}

/* Work on the host's part may be queued: it is waited for. */
static int give_room(cni_cuda_work *w, int status)
{
  if (w->host && !status) status = cni_cuda_finish(w->b->d);
  if (w->host) cni_cuda_host->free_memory(w->host, w->host_bytes);
  if (w->device) cni_cuda_free(w->b->d, w->device, w->device_bytes ? w->device_bytes : 1);
  w->device = w->host = NULL;
  w->device_bytes = w->host_bytes = 0;
  return status;
}

static char *at(const cni_cuda_work *w, const cni_cuda_matrices *m, int64_t i)
{
  return (char *)m->data + (size_t)(i * m->step) * w->elem;
}

/* ---- calls, over the batch ---- */

int cni_cuda_run_getrf(cni_cuda_work *w, cni_cuda_matrices a, int64_t *pivots, int *info)
{
  const cni_cuda_solver_table *s = cni_cuda_solver();
  int64_t steps = a.rows < a.cols ? a.rows : a.cols;
  int r = (int)s->cusolverDnXgetrf_bufferSize(w->h->solver, w->h->params, a.rows, a.cols, w->type, a.data, a.rows,
                                              w->type, &w->device_bytes, &w->host_bytes);
  int status = take_room(w, r);
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    r = (int)s->cusolverDnXgetrf(w->h->solver, w->h->params, a.rows, a.cols, w->type, at(w, &a, i), a.rows,
                                 pivots + i * steps, w->type, w->device, w->device_bytes, w->host, w->host_bytes,
                                 info + i);
    if (r) status = failed(w->b, r);
  }
  return give_room(w, status);
}

int cni_cuda_run_getrs(cni_cuda_work *w, cni_cuda_matrices a, const int64_t *pivots, cni_cuda_matrices x, int *ignored)
{
  for (int64_t i = 0; i < w->b->count; i++) {
    int r = (int)cni_cuda_solver()->cusolverDnXgetrs(w->h->solver, w->h->params, CUBLAS_OP_N, x.rows, x.cols, w->type,
                                                     at(w, &a, i), a.rows, pivots + i * a.rows, w->type, at(w, &x, i),
                                                     x.rows, ignored);
    if (r) return failed(w->b, r);
  }
  return CN_OK;
}

int cni_cuda_run_potrf(cni_cuda_work *w, cni_cuda_matrices a, int *info)
{
  const cni_cuda_solver_table *s = cni_cuda_solver();
  int r = (int)s->cusolverDnXpotrf_bufferSize(w->h->solver, w->h->params, CUBLAS_FILL_MODE_LOWER, a.rows, w->type,
                                              a.data, a.rows, w->type, &w->device_bytes, &w->host_bytes);
  int status = take_room(w, r);
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    r = (int)s->cusolverDnXpotrf(w->h->solver, w->h->params, CUBLAS_FILL_MODE_LOWER, a.rows, w->type, at(w, &a, i),
                                 a.rows, w->type, w->device, w->device_bytes, w->host, w->host_bytes, info + i);
    if (r) status = failed(w->b, r);
  }
  return give_room(w, status);
}

int cni_cuda_run_geqrf(cni_cuda_work *w, cni_cuda_matrices a, char *tau, int *info)
{
  const cni_cuda_solver_table *s = cni_cuda_solver();
  int64_t steps = a.rows < a.cols ? a.rows : a.cols;
  int r = (int)s->cusolverDnXgeqrf_bufferSize(w->h->solver, w->h->params, a.rows, a.cols, w->type, a.data, a.rows,
                                              w->type, tau, w->type, &w->device_bytes, &w->host_bytes);
  int status = take_room(w, r);
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    r = (int)s->cusolverDnXgeqrf(w->h->solver, w->h->params, a.rows, a.cols, w->type, at(w, &a, i), a.rows, w->type,
                                 tau + (size_t)(i * steps) * w->elem, w->type, w->device, w->device_bytes, w->host,
                                 w->host_bytes, info + i);
    if (r) status = failed(w->b, r);
  }
  return give_room(w, status);
}

int cni_cuda_run_orgqr(cni_cuda_work *w, cni_cuda_matrices q, int64_t steps, char *tau, int *info)
{
  const cni_cuda_solver_table *s = cni_cuda_solver();
  int m = (int)q.rows, n = (int)q.cols, k = (int)steps, length = 0;
  bool wide = w->dtype == CN_F64;
  int r = wide ? (int)s->cusolverDnDorgqr_bufferSize(w->h->solver, m, n, k, q.data, m, (double *)(void *)tau, &length)
               : (int)s->cusolverDnSorgqr_bufferSize(w->h->solver, m, n, k, q.data, m, (float *)(void *)tau, &length);
  w->device_bytes = (size_t)length * w->elem;
  int status = take_room(w, r);
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    void *a = at(w, &q, i), *t = tau + (size_t)(i * steps) * w->elem;
    r = wide ? (int)s->cusolverDnDorgqr(w->h->solver, m, n, k, a, m, t, w->device, length, info + i)
             : (int)s->cusolverDnSorgqr(w->h->solver, m, n, k, a, m, t, w->device, length, info + i);
    if (r) status = failed(w->b, r);
  }
  return give_room(w, status);
}

int cni_cuda_run_syevd(cni_cuda_work *w, cni_cuda_matrices a, bool vectors, bool upper, cni_cuda_matrices values,
                       int *info)
{
  const cni_cuda_solver_table *s = cni_cuda_solver();
  cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  cublasFillMode_t part = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  int r = (int)s->cusolverDnXsyevd_bufferSize(w->h->solver, w->h->params, mode, part, a.rows, w->type, a.data, a.rows,
                                              w->type, values.data, w->type, &w->device_bytes, &w->host_bytes);
  int status = take_room(w, r);
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    r = (int)s->cusolverDnXsyevd(w->h->solver, w->h->params, mode, part, a.rows, w->type, at(w, &a, i), a.rows, w->type,
                                 at(w, &values, i), w->type, w->device, w->device_bytes, w->host, w->host_bytes,
                                 info + i);
    if (r) status = failed(w->b, r);
  }
  return give_room(w, status);
}

int cni_cuda_run_gesvdj(cni_cuda_work *w, cni_cuda_matrices a, bool vectors, cni_cuda_matrices values,
                        cni_cuda_matrices u, cni_cuda_matrices v, int *info)
{
  const cni_cuda_solver_table *s = cni_cuda_solver();
  cusolverEigMode_t mode = vectors ? CUSOLVER_EIG_MODE_VECTOR : CUSOLVER_EIG_MODE_NOVECTOR;
  int m = (int)a.rows, n = (int)a.cols, thin = u.cols == a.cols, length = 0;
  bool wide = w->dtype == CN_F64;
  int r = wide ? (int)s->cusolverDnDgesvdj_bufferSize(w->h->solver, mode, thin, m, n, a.data, m, values.data, u.data, m,
                                                      v.data, n, &length, w->h->rotations)
               : (int)s->cusolverDnSgesvdj_bufferSize(w->h->solver, mode, thin, m, n, a.data, m, values.data, u.data, m,
                                                      v.data, n, &length, w->h->rotations);
  w->device_bytes = (size_t)length * w->elem;
  int status = take_room(w, r);
  for (int64_t i = 0; i < w->b->count && !status; i++) {
    void *ai = at(w, &a, i), *si = at(w, &values, i), *ui = at(w, &u, i), *vi = at(w, &v, i);
    r = wide ? (int)s->cusolverDnDgesvdj(w->h->solver, mode, thin, m, n, ai, m, si, ui, m, vi, n, w->device, length,
                                         info + i, w->h->rotations)
             : (int)s->cusolverDnSgesvdj(w->h->solver, mode, thin, m, n, ai, m, si, ui, m, vi, n, w->device, length,
                                         info + i, w->h->rotations);
    if (r) status = failed(w->b, r);
  }
  return give_room(w, status);
}

int cni_cuda_run_trsm(cni_cuda_work *w, cni_cuda_matrices a, cni_cuda_matrices x, bool left, bool upper, bool unit)
{
  const cni_cuda_blas_table *blas = cni_cuda_blas();
  cublasSideMode_t side = left ? CUBLAS_SIDE_LEFT : CUBLAS_SIDE_RIGHT;
  cublasFillMode_t part = upper ? CUBLAS_FILL_MODE_UPPER : CUBLAS_FILL_MODE_LOWER;
  cublasDiagType_t diagonal = unit ? CUBLAS_DIAG_UNIT : CUBLAS_DIAG_NON_UNIT;
  int m = (int)x.rows, n = (int)x.cols, lda = (int)a.rows;
  const double one = 1;
  const float narrow_one = 1;
  for (int64_t i = 0; i < w->b->count; i++) {
    void *ai = at(w, &a, i), *xi = at(w, &x, i);
    int r = w->dtype == CN_F64
                ? (int)blas->cublasDtrsm_v2(w->h->blas, side, part, CUBLAS_OP_N, diagonal, m, n, &one, ai, lda, xi, m)
                : (int)blas->cublasStrsm_v2(w->h->blas, side, part, CUBLAS_OP_N, diagonal, m, n, &narrow_one, ai, lda,
                                            xi, m);
    if (r) return failed(w->b, r);
  }
  return CN_OK;
}
#endif
