/* blas.h: matrix products by a library, for those who ask for one; loaded at first need, never linked.
 *
 * Place in the flow: the rows "openblas" and "onednn" of the products (gemm/matmul.c) ask whether a library takes a
 * call; gemm.c hands the product over before it takes its own kernels. cn_set_deterministic means own kernels for
 * products. Invariant: a library that is absent or cannot take a product costs nothing but speed: the own kernels do
 * it. */
#ifndef CNI_CPU_BLAS_H
#define CNI_CPU_BLAS_H

#include "backends/cpu/gemm/gemm.h"

/* Why the library that g->by names does not take a product; NULL: it does. Loads the library. */
const char *cni_blas_against(const cni_gemm *g, bool f64);
/* True when that library did it. g: m, n, k at least 1, C row-major. */
bool cni_blas_product(const cni_gemm *g, bool f64);
/* OpenBLAS, or NULL; loaded at the first call. LAPACK lives in it too. */
void *cni_blas_openblas(void);

#endif
