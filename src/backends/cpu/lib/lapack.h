/* lapack.h: LAPACK by its Fortran names, loaded at first need.
 *
 * Place in the flow: linalg kernels ask for the table and fall back to plain C when there is none.
 * Fortran's rules hold: matrices are column-major, everything is passed by pointer, the length of each
 * string argument follows at the end. Invariant: the table is complete or absent, never in between. */
#ifndef CNI_CPU_LAPACK_H
#define CNI_CPU_LAPACK_H

#include <stddef.h>
#include <stdint.h>

/* Each entry: [0] float, [1] double; `a`, `b`, `work` are arrays of that type. info: 0 done, < 0 an
 * argument is wrong, > 0 the matrix is singular or not positive definite at that place. ipiv counts from
 * 1. lwork (and liwork) -1 asks for the best size in work[0] (iwork[0]). */
typedef struct cni_lapack {
  /* LU with row exchanges, in place. a: (m, n), ipiv: (min(m, n)) */
  void (*getrf[2])(const int *m, const int *n, void *a, const int *lda, int *ipiv, int *info);
  /* Solves with getrf's result, in place. trans: "N" or "T"; b: (n, nrhs) */
  void (*getrs[2])(const char *trans, const int *n, const int *nrhs, const void *a, const int *lda,
                   const int *ipiv, void *b, const int *ldb, int *info, size_t trans_length);
  /* Inverse from getrf's result, in place. */
  void (*getri[2])(const int *n, void *a, const int *lda, const int *ipiv, void *work, const int *lwork,
                   int *info);
  /* Cholesky, in place. uplo: "L" or "U" */
  void (*potrf[2])(const char *uplo, const int *n, void *a, const int *lda, int *info, size_t uplo_length);
  /* Solves with a triangle, in place. diag: "N" or "U" */
  void (*trtrs[2])(const char *uplo, const char *trans, const char *diag, const int *n, const int *nrhs,
                   const void *a, const int *lda, void *b, const int *ldb, int *info, size_t uplo_length,
                   size_t trans_length, size_t diag_length);
  /* QR, in place: R and reflections. tau: (min(m, n)) */
  void (*geqrf[2])(const int *m, const int *n, void *a, const int *lda, void *tau, void *work, const int *lwork,
                   int *info);
  /* The first n columns of Q from k reflections, in place. a: (m, n) */
  void (*orgqr[2])(const int *m, const int *n, const int *k, void *a, const int *lda, const void *tau, void *work,
                   const int *lwork, int *info);
  /* Q c or c Q from k reflections, in place of c, (m, n). side: "L" or "R"; trans: "N" or "T" */
  void (*ormqr[2])(const char *side, const char *trans, const int *m, const int *n, const int *k, const void *a,
                   const int *lda, const void *tau, void *c, const int *ldc, void *work, const int *lwork, int *info,
                   size_t side_length, size_t trans_length);
  /* L D L^T of a symmetric matrix with Bunch and Kaufman's pivots, in place of its triangle. ipiv: (n) */
  void (*sytrf[2])(const char *uplo, const int *n, void *a, const int *lda, int *ipiv, void *work, const int *lwork,
                   int *info, size_t uplo_length);
  /* Solves with sytrf's result, in place. b: (n, nrhs) */
  void (*sytrs[2])(const char *uplo, const int *n, const int *nrhs, const void *a, const int *lda, const int *ipiv,
                   void *b, const int *ldb, int *info, size_t uplo_length);
  /* Singular values and vectors, divide and conquer; a is lost. jobz: "A" all vectors, "S" min(m, n), "N" none;
   * iwork: (8 min(m, n)) */
  void (*gesdd[2])(const char *jobz, const int *m, const int *n, void *a, const int *lda, void *s, void *u,
                   const int *ldu, void *vt, const int *ldvt, void *work, const int *lwork, int *iwork, int *info,
                   size_t jobz_length);
  /* Eigenvalues, ascending, and with jobz "V" vectors in place of a. */
  void (*syevd[2])(const char *jobz, const char *uplo, const int *n, void *a, const int *lda, void *w, void *work,
                   const int *lwork, int *iwork, const int *liwork, int *info, size_t jobz_length,
                   size_t uplo_length);
  /* Eigenvalues of any square matrix, conjugate pairs side by side, and with jobvr "V" the vectors: of a pair the real
   * parts in one column of vr, the imaginary ones in the next. a is lost; jobvl is "N". */
  void (*geev[2])(const char *jobvl, const char *jobvr, const int *n, void *a, const int *lda, void *wr, void *wi,
                  void *vl, const int *ldvl, void *vr, const int *ldvr, void *work, const int *lwork, int *info,
                  size_t jobvl_length, size_t jobvr_length);
} cni_lapack;

/* NULL when there is no library, in a minimal build, or in a forked child. Any thread. */
const cni_lapack *cni_lapack_get(void);
/* Before a batch: the library works on one thread where the batch is split, the matrix of that size is small, or
 * results must repeat (cn_set_deterministic); else on cairn's number of threads. */
void cni_lapack_threads(int64_t batch, int64_t size);

#endif
