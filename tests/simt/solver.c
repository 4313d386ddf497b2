/* solver.c: stands in for cuSOLVER and cuBLAS where the CUDA plugin runs on the CPU: their calls go to LAPACK.
 *
 * Place in the flow: built, where a LAPACK is found, under both libraries' names beside simt.c, whose device memory is
 * the host's. Invariant: room to work in is asked for, and checked: calls never allocate. */
#include <cusolverDn.h>
#include <stdbool.h>
#include <string.h>

#define API __attribute__((visibility("default")))
enum { HOST_BYTES = 640, PATTERN = 0x5a };
extern API int simt_solver_calls; /* for tests: that decompose, or solve with a triangle */
int simt_solver_calls;

#define ROUTINES(T, p) \
  void p##getrf_(const int *m, const int *n, T *a, const int *lda, int *pivots, int *info); \
  void p##getrs_(const char *trans, const int *n, const int *k, const T *a, const int *lda, const int *pivots, T *b, \
                 const int *ldb, int *info, size_t); \
  void p##potrf_(const char *part, const int *n, T *a, const int *lda, int *info, size_t); \
  void p##geqrf_(const int *m, const int *n, T *a, const int *lda, T *tau, T *work, const int *lwork, int *info); \
  void p##orgqr_(const int *m, const int *n, const int *k, T *a, const int *lda, const T *tau, T *work, \
                 const int *lwork, int *info); \
  void p##syev_(const char *job, const char *part, const int *n, T *a, const int *lda, T *w, T *work, \
                const int *lwork, int *info, size_t, size_t); \
  void p##gesvd_(const char *u, const char *v, const int *m, const int *n, T *a, const int *lda, T *s, T *left, \
                 const int *ldu, T *right, const int *ldvt, T *work, const int *lwork, int *info, size_t, size_t); \
  void p##trsm_(const char *side, const char *part, const char *trans, const char *diagonal, const int *m, \
                const int *n, const T *alpha, const T *a, const int *lda, T *b, const int *ldb, size_t, size_t, \
                size_t, size_t);
ROUTINES(double, d)
ROUTINES(float, s)

/* Chooses between the two types. */
#define BOTH(type, routine, ...) \
  do { \
    if ((type) == CUDA_R_64F) { typedef double T; d##routine(__VA_ARGS__); } \
    else { typedef float T; s##routine(__VA_ARGS__); } \
  } while (0)

static size_t element(cudaDataType type) { return type == CUDA_R_64F ? 8 : 4; }

/* Elements that every routine here is content with. */
static int64_t room(int64_t m, int64_t n) { return 64 * (m > n ? m : n) + 64; }

static cusolverStatus_t ask(cudaDataType type, int64_t m, int64_t n, size_t *device, size_t *host)
{
  *device = (size_t)room(m, n) * element(type);
  *host = HOST_BYTES;
  return CUSOLVER_STATUS_SUCCESS;
}

static bool enough(cudaDataType type, int64_t m, int64_t n, void *device, size_t device_bytes, void *host,
                   size_t host_bytes)
{
  if (!device || device_bytes < (size_t)room(m, n) * element(type) || !host || host_bytes < HOST_BYTES) return false;
  simt_solver_calls++;
  memset(device, PATTERN, device_bytes);
  memset(host, PATTERN, host_bytes);
  return true;
}

/* ---- handles ---- */

API cusolverStatus_t cusolverDnCreate(cusolverDnHandle_t *handle)
{
  static int handles;
  *handle = (cusolverDnHandle_t)(void *)&handles;
  return CUSOLVER_STATUS_SUCCESS;
}

API cusolverStatus_t cusolverDnCreateParams(cusolverDnParams_t *params)
{
  static int all;
  *params = (cusolverDnParams_t)(void *)&all;
  return CUSOLVER_STATUS_SUCCESS;
}

API cusolverStatus_t cusolverDnSetStream(cusolverDnHandle_t handle, cudaStream_t stream)
{
  return handle && stream ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE;
}

API cublasStatus_t cublasCreate_v2(cublasHandle_t *handle)
{
  static int handles;
  *handle = (cublasHandle_t)(void *)&handles;
  return CUBLAS_STATUS_SUCCESS;
}

API cublasStatus_t cublasSetStream_v2(cublasHandle_t handle, cudaStream_t stream)
{
  return handle && stream ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

/* ---- LU and Cholesky ---- */

API cusolverStatus_t cusolverDnXgetrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n,
                                                 cudaDataType type, const void *a, int64_t lda, cudaDataType compute,
                                                 size_t *device, size_t *host)
{
  (void)h, (void)p, (void)a, (void)lda, (void)compute;
  return ask(type, m, n, device, host);
}

API cusolverStatus_t cusolverDnXgetrf(cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n,
                                      cudaDataType type, void *a, int64_t lda, int64_t *pivots, cudaDataType compute,
                                      void *device, size_t device_bytes, void *host, size_t host_bytes, int *info)
{
  int rows = (int)m, cols = (int)n, ld = (int)lda, narrow[4096];
  (void)h, (void)p, (void)compute;
  if (!enough(type, m, n, device, device_bytes, host, host_bytes) || m > 4096) return CUSOLVER_STATUS_INVALID_VALUE;
  BOTH(type, getrf_, &rows, &cols, (T *)a, &ld, narrow, info);
  for (int64_t i = 0; i < m && i < n; i++) pivots[i] = narrow[i];
  return CUSOLVER_STATUS_SUCCESS;
}

API cusolverStatus_t cusolverDnXgetrs(cusolverDnHandle_t h, cusolverDnParams_t p, cublasOperation_t trans, int64_t n,
                                      int64_t k, cudaDataType type, const void *a, int64_t lda, const int64_t *pivots,
                                      cudaDataType type_b, void *b, int64_t ldb, int *info)
{
  int rows = (int)n, cols = (int)k, ld = (int)lda, ld_b = (int)ldb, narrow[4096];
  (void)h, (void)p;
  if (trans != CUBLAS_OP_N || type_b != type || n > 4096) return CUSOLVER_STATUS_INVALID_VALUE;
  for (int64_t i = 0; i < n; i++) narrow[i] = (int)pivots[i];
  BOTH(type, getrs_, "N", &rows, &cols, (const T *)a, &ld, narrow, (T *)b, &ld_b, info, 1);
  return CUSOLVER_STATUS_SUCCESS;
}

API cusolverStatus_t cusolverDnXpotrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t p, cublasFillMode_t part,
                                                 int64_t n, cudaDataType type, const void *a, int64_t lda,
                                                 cudaDataType compute, size_t *device, size_t *host)
{
  (void)h, (void)p, (void)part, (void)a, (void)lda, (void)compute;
  return ask(type, n, n, device, host);
}

API cusolverStatus_t cusolverDnXpotrf(cusolverDnHandle_t h, cusolverDnParams_t p, cublasFillMode_t part, int64_t n,
                                      cudaDataType type, void *a, int64_t lda, cudaDataType compute, void *device,
                                      size_t device_bytes, void *host, size_t host_bytes, int *info)
{
  int rows = (int)n, ld = (int)lda;
  (void)h, (void)p, (void)compute;
  if (!enough(type, n, n, device, device_bytes, host, host_bytes)) return CUSOLVER_STATUS_INVALID_VALUE;
  BOTH(type, potrf_, part == CUBLAS_FILL_MODE_LOWER ? "L" : "U", &rows, (T *)a, &ld, info, 1);
  return CUSOLVER_STATUS_SUCCESS;
}

/* ---- QR ---- */

API cusolverStatus_t cusolverDnXgeqrf_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n,
                                                 cudaDataType type, const void *a, int64_t lda, cudaDataType type_tau,
                                                 const void *tau, cudaDataType compute, size_t *device, size_t *host)
{
  (void)h, (void)p, (void)a, (void)lda, (void)type_tau, (void)tau, (void)compute;
  return ask(type, m, n, device, host);
}

API cusolverStatus_t cusolverDnXgeqrf(cusolverDnHandle_t h, cusolverDnParams_t p, int64_t m, int64_t n,
                                      cudaDataType type, void *a, int64_t lda, cudaDataType type_tau, void *tau,
                                      cudaDataType compute, void *device, size_t device_bytes, void *host,
                                      size_t host_bytes, int *info)
{
  int rows = (int)m, cols = (int)n, ld = (int)lda, length = (int)room(m, n);
  (void)h, (void)p, (void)compute;
  if (!enough(type, m, n, device, device_bytes, host, host_bytes) || type_tau != type)
    return CUSOLVER_STATUS_INVALID_VALUE;
  BOTH(type, geqrf_, &rows, &cols, (T *)a, &ld, (T *)tau, (T *)device, &length, info);
  return CUSOLVER_STATUS_SUCCESS;
}

#define ORGQR(T, P, p) \
  API cusolverStatus_t cusolverDn##P##orgqr_bufferSize(cusolverDnHandle_t h, int m, int n, int k, const T *a, int lda, \
                                                       const T *tau, int *length) \
  { \
    (void)h, (void)k, (void)a, (void)lda, (void)tau; \
    *length = (int)room(m, n); \
    return CUSOLVER_STATUS_SUCCESS; \
  } \
  API cusolverStatus_t cusolverDn##P##orgqr(cusolverDnHandle_t h, int m, int n, int k, T *a, int lda, const T *tau, \
                                            T *work, int length, int *info) \
  { \
    (void)h; \
    if (length < room(m, n)) return CUSOLVER_STATUS_INVALID_VALUE; \
    p##orgqr_(&m, &n, &k, a, &lda, tau, work, &length, info); \
    return CUSOLVER_STATUS_SUCCESS; \
  }
ORGQR(double, D, d)
ORGQR(float, S, s)

/* ---- eigenvalues and singular values ---- */

API cusolverStatus_t cusolverDnXsyevd_bufferSize(cusolverDnHandle_t h, cusolverDnParams_t p, cusolverEigMode_t mode,
                                                 cublasFillMode_t part, int64_t n, cudaDataType type, const void *a,
                                                 int64_t lda, cudaDataType type_w, const void *w, cudaDataType compute,
                                                 size_t *device, size_t *host)
{
  (void)h, (void)p, (void)mode, (void)part, (void)a, (void)lda, (void)type_w, (void)w, (void)compute;
  return ask(type, n, n, device, host);
}

API cusolverStatus_t cusolverDnXsyevd(cusolverDnHandle_t h, cusolverDnParams_t p, cusolverEigMode_t mode,
                                      cublasFillMode_t part, int64_t n, cudaDataType type, void *a, int64_t lda,
                                      cudaDataType type_w, void *w, cudaDataType compute, void *device,
                                      size_t device_bytes, void *host, size_t host_bytes, int *info)
{
  int rows = (int)n, ld = (int)lda, length = (int)room(n, n);
  (void)h, (void)p, (void)compute;
  if (!enough(type, n, n, device, device_bytes, host, host_bytes) || type_w != type)
    return CUSOLVER_STATUS_INVALID_VALUE;
  BOTH(type, syev_, mode == CUSOLVER_EIG_MODE_VECTOR ? "V" : "N", part == CUBLAS_FILL_MODE_LOWER ? "L" : "U", &rows,
       (T *)a, &ld, (T *)w, (T *)device, &length, info, 1, 1);
  return CUSOLVER_STATUS_SUCCESS;
}

API cusolverStatus_t cusolverDnCreateGesvdjInfo(gesvdjInfo_t *info)
{
  static int all;
  *info = (gesvdjInfo_t)(void *)&all;
  return CUSOLVER_STATUS_SUCCESS;
}

/* Right vectors lie in columns here, as the library has them, and LAPACK in rows. */
#define GESVDJ(T, P, p) \
  API cusolverStatus_t cusolverDn##P##gesvdj_bufferSize(cusolverDnHandle_t h, cusolverEigMode_t mode, int econ, int m, \
                                                        int n, const T *a, int lda, const T *s, const T *u, int ldu, \
                                                        const T *v, int ldv, int *length, gesvdjInfo_t params) \
  { \
    (void)h, (void)mode, (void)econ, (void)a, (void)lda, (void)s, (void)u, (void)ldu, (void)v, (void)ldv; \
    *length = (int)room(m, n); \
    return params ? CUSOLVER_STATUS_SUCCESS : CUSOLVER_STATUS_INVALID_VALUE; \
  } \
  API cusolverStatus_t cusolverDn##P##gesvdj(cusolverDnHandle_t h, cusolverEigMode_t mode, int econ, int m, int n, \
                                             T *a, int lda, T *s, T *u, int ldu, T *v, int ldv, T *work, int length, \
                                             int *info, gesvdjInfo_t params) \
  { \
    bool with = mode == CUSOLVER_EIG_MODE_VECTOR; \
    (void)h; \
    if (length < room(m, n) || !params || m < n || ldu < m || ldv < n) return CUSOLVER_STATUS_INVALID_VALUE; \
    simt_solver_calls++; \
    p##gesvd_(!with ? "N" : econ ? "S" : "A", with ? "S" : "N", &m, &n, a, &lda, s, u, &ldu, v, &ldv, work, &length, \
              info, 1, 1); \
    for (int i = 0; with && i < n; i++) \
      for (int k = 0; k < i; k++) { \
        T t = v[i * ldv + k]; \
        v[i * ldv + k] = v[k * ldv + i]; \
        v[k * ldv + i] = t; \
      } \
    return CUSOLVER_STATUS_SUCCESS; \
  }
GESVDJ(double, D, d)
GESVDJ(float, S, s)

/* ---- triangles ---- */

#define TRSM(T, P, p) \
  API cublasStatus_t cublas##P##trsm_v2(cublasHandle_t h, cublasSideMode_t side, cublasFillMode_t part, \
                                        cublasOperation_t trans, cublasDiagType_t diagonal, int m, int n, \
                                        const T *alpha, const T *a, int lda, T *b, int ldb) \
  { \
    (void)h; \
    simt_solver_calls++; \
    p##trsm_(side == CUBLAS_SIDE_LEFT ? "L" : "R", part == CUBLAS_FILL_MODE_LOWER ? "L" : "U", \
             trans == CUBLAS_OP_N ? "N" : "T", diagonal == CUBLAS_DIAG_UNIT ? "U" : "N", &m, &n, alpha, a, &lda, b, \
             &ldb, 1, 1, 1, 1); \
    return CUBLAS_STATUS_SUCCESS; \
  }
TRSM(double, D, d)
TRSM(float, S, s)
