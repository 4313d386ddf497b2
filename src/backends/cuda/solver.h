/* solver.h: cuSOLVER's and cuBLAS's functions, found when first needed (libraries.c), and their calls for each matrix
 * of a batch (solver.c).
 *
 * Invariant: matrices lie column by column in memory, in the tensors' own type, float32 or float64. */
#ifndef CNI_CUDA_SOLVER_H
#define CNI_CUDA_SOLVER_H

#include "linalg.h"

#if defined(__has_include)
#if __has_include(<cusolverDn.h>)
#define CNI_HAVE_CUSOLVER_H 1
#endif
#endif

#ifdef CNI_HAVE_CUSOLVER_H
#include <cusolverDn.h>

/* clang-format off */
#define CNI_CUDA_SOLVER(X) \
  X(cusolverDnCreate) X(cusolverDnCreateParams) X(cusolverDnSetStream) \
  X(cusolverDnXpotrf_bufferSize) X(cusolverDnXpotrf) X(cusolverDnXgetrf_bufferSize) X(cusolverDnXgetrf) \
  X(cusolverDnXgetrs) X(cusolverDnXgeqrf_bufferSize) X(cusolverDnXgeqrf) \
  X(cusolverDnSorgqr_bufferSize) X(cusolverDnDorgqr_bufferSize) X(cusolverDnSorgqr) X(cusolverDnDorgqr) \
  X(cusolverDnXsyevd_bufferSize) X(cusolverDnXsyevd) X(cusolverDnCreateGesvdjInfo) \
  X(cusolverDnSgesvdj_bufferSize) X(cusolverDnDgesvdj_bufferSize) X(cusolverDnSgesvdj) X(cusolverDnDgesvdj)
#define CNI_CUDA_BLAS(X) \
  X(cublasCreate_v2) X(cublasSetStream_v2) X(cublasStrsm_v2) X(cublasDtrsm_v2)
/* clang-format on */
typedef struct cni_cuda_solver_table {
  CNI_CUDA_SOLVER(CNI_CUDA_FIELD)
} cni_cuda_solver_table;
typedef struct cni_cuda_blas_table {
  CNI_CUDA_BLAS(CNI_CUDA_FIELD)
} cni_cuda_blas_table;
/* NULL, without an error, where they are absent. */
const cni_cuda_solver_table *cni_cuda_solver(void);
const cni_cuda_blas_table *cni_cuda_blas(void);

/* Of a device. */
typedef struct cni_cuda_handles {
  cusolverDnHandle_t solver;
  cusolverDnParams_t params;
  gesvdjInfo_t rotations;
  cublasHandle_t blas;
} cni_cuda_handles;
/* Calls on the matrices of a batch, and room that one of them works in. */
typedef struct cni_cuda_work {
  cni_cuda_batch *b;
  cni_cuda_handles *h;
  cudaDataType type;
  int dtype;
  size_t elem, device_bytes, host_bytes;
  void *device, *host;
} cni_cuda_work;
/* Other threads wait from begin to end; where begin fails there is nothing to end. */
int cni_cuda_solver_begin(cni_cuda_work *w, cni_cuda_batch *b, int dtype);
int cni_cuda_solver_end(cni_cuda_work *w, int status); /* status, or what went wrong */

/* LAPACK's routines of these names; info: (count), device memory; 0 or an error of the call itself. */
int cni_cuda_run_getrf(cni_cuda_work *w, cni_cuda_matrices a, int64_t *pivots, int *info);
int cni_cuda_run_getrs(cni_cuda_work *w, cni_cuda_matrices a, const int64_t *pivots, cni_cuda_matrices x, int *ignored);
int cni_cuda_run_potrf(cni_cuda_work *w, cni_cuda_matrices a, int *info); /* of the lower triangle */
int cni_cuda_run_geqrf(cni_cuda_work *w, cni_cuda_matrices a, char *tau, int *info);
/* q: has the reflections in its first `steps` columns; becomes their product. */
int cni_cuda_run_orgqr(cni_cuda_work *w, cni_cuda_matrices q, int64_t steps, char *tau, int *info);
int cni_cuda_run_syevd(cni_cuda_work *w, cni_cuda_matrices a, bool vectors, bool upper, cni_cuda_matrices values,
                       int *info);
/* a: tall. Vectors in the columns of u and v; they are written whether they are wanted or not. */
int cni_cuda_run_gesvdj(cni_cuda_work *w, cni_cuda_matrices a, bool vectors, cni_cuda_matrices values,
                        cni_cuda_matrices u, cni_cuda_matrices v, int *info);
/* x: of A X = B (left) or X A = B. */
int cni_cuda_run_trsm(cni_cuda_work *w, cni_cuda_matrices a, cni_cuda_matrices x, bool left, bool upper, bool unit);

#endif
#endif
