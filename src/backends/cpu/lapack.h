/* lapack.h: LAPACK by its Fortran names, loaded at first need.
 *
 * Place in the flow: linalg kernels ask for the table and fall back to plain C when there is none.
 * Fortran's rules hold: matrices are column-major, everything is passed by pointer, the length of each
 * string argument follows at the end. Invariant: the table is complete or absent, never in between. */
#ifndef CNI_CPU_LAPACK_H
#define CNI_CPU_LAPACK_H

#include <stddef.h>

/* Each entry: [0] float, [1] double; `a`, `b`, `work` are arrays of that type. info: 0 done, < 0 an
 * argument is wrong, > 0 the matrix is singular or not positive definite at that place. ipiv counts from
 * 1. */
typedef struct cni_lapack {
  /* LU with row exchanges, in place. a: (m, n), ipiv: (min(m, n)) */
  void (*getrf[2])(const int *m, const int *n, void *a, const int *lda, int *ipiv, int *info);
  /* Solves with getrf's result, in place. trans: "N" or "T"; b: (n, nrhs) */
  void (*getrs[2])(const char *trans, const int *n, const int *nrhs, const void *a, const int *lda,
                   const int *ipiv, void *b, const int *ldb, int *info, size_t trans_length);
  /* Inverse from getrf's result, in place. lwork -1 asks for the best size in work[0]. */
  void (*getri[2])(const int *n, void *a, const int *lda, const int *ipiv, void *work, const int *lwork,
                   int *info);
  /* Cholesky, in place. uplo: "L" or "U" */
  void (*potrf[2])(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t uplo_length);
  /* Solves with a triangle, in place. diag: "N" or "U" */
  void (*trtrs[2])(const char *uplo, const char *trans, const char *diag, const int *n, const int *nrhs,
                   const void *a, const int *lda, void *b, const int *ldb, int *info, size_t uplo_length,
                   size_t trans_length, size_t diag_length);
} cni_lapack;

/* NULL when there is no library, or CAIRN_BLAS=own forbids it. Any thread. */
const cni_lapack *cni_lapack_get(void);

#endif
