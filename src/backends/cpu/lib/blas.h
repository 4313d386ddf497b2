/* blas.h: matrix products by a library, for those who ask for one; loaded at first need, never linked.
 *
 * CAIRN_BLAS: own       no maths library at all, LAPACK included
 *             auto      (default) own kernels on x86-64, elsewhere OpenBLAS if it is there
 *             openblas  OpenBLAS for large products
 *             onednn    oneDNN for large f32 products
 * CAIRN_DETERMINISTIC=1 means own kernels for products, whatever CAIRN_BLAS says.
 *
 * Place in the flow: gemm.c asks before its own blocked kernel. Invariant: a library that is absent or
 * cannot take a product costs nothing but speed: the own kernels do it. */
#ifndef CNI_CPU_BLAS_H
#define CNI_CPU_BLAS_H

#include "backends/cpu/gemm/gemm.h"

/* True when a library did it. g: m, n, k at least 1, C row-major. */
bool cni_blas_product(const cni_gemm *g, bool f64);
/* Whether products of this type and size would go to a library (which brings threads of its own). */
bool cni_blas_in_use(const cni_gemm *g, cn_dtype dtype);
/* "own", "openblas" or "onednn": what large f32 products use, for listings. Loads the library. */
const char *cni_blas_name(void);
/* Whether CAIRN_BLAS=own or a minimal build forbids maths libraries. */
bool cni_blas_forbidden(void);
/* OpenBLAS, or NULL; loaded at the first call. LAPACK lives in it too. */
void *cni_blas_openblas(void);

#endif
