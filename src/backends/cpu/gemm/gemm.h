/* gemm.h: the one seam for matrix products on the CPU: C = alpha * A * B + beta * C.
 *
 * Place in the flow: matmul, linear, convolution and attention kernels call this; it picks an own kernel
 * or a library. Invariant: with own kernels (the default) the bits of the result depend on shapes,
 * strides, values and the instruction set only, never on the number of threads: the sum over k is never
 * split between threads. */
#ifndef CNI_CPU_GEMM_H
#define CNI_CPU_GEMM_H

#include <cairn/base.h>

/* Who may do a product. A library that is absent, or cannot take it, leaves it to the own kernels. */
enum cni_blas {
  CNI_BLAS_DEFAULT, /* own kernels where they have vectors (CNI_HAS_LEVELS), elsewhere OpenBLAS if it is there */
  CNI_BLAS_OWN,
  CNI_BLAS_OPENBLAS,
  CNI_BLAS_ONEDNN
};

/* What results are brought into, once their sums are whole: x < low is low, x > high is high, NaN stays. */
typedef struct cni_gemm_limits {
  double low, high;
  bool relu; /* and -0 is 0 */
} cni_gemm_limits;

/* Strides in elements; any values, 0 for broadcast inputs included. c must not overlap a or b. */
typedef struct cni_gemm {
  int64_t m, n, k;
  const void *a; /* (m, k) */
  int64_t a_row, a_col;
  const void *b; /* (k, n) */
  int64_t b_row, b_col;
  void *c; /* (m, n); not read when beta is 0, so it may hold anything */
  int64_t c_row, c_col;
  double alpha, beta;
  enum cni_blas by; /* who does it: 0, the best here */
  const void *packed;   /* what cni_gemm_pack made of this b; NULL: nothing */
  int64_t packed_depth; /* ... and for which blocks of k */
  const void *bias;     /* (m), side by side: a number of each row that is added instead of beta * C; NULL: none */
  const void *across;   /* (n): likewise of each column; one of the two at most */
  const cni_gemm_limits *limits; /* of f32; NULL: none */
  const void *apart;    /* this a once more, whose rows lie so that they do not collide in caches, or NULL */
  int64_t apart_row;
} cni_gemm;

/* 0, or CN_ERR_MEMORY with the error set. k = 0 gives beta * C; m or n = 0 does nothing. Zeros are never
 * skipped, so NaN and infinity in A or B always reach C. */
int cni_gemm_f32(const cni_gemm *g);
int cni_gemm_f64(const cni_gemm *g);

/* For a B that is used in many products: how many bytes it takes as the own kernels read it, in *depth the blocks of k
 * that it is made for, which other products of the same B share that have the same; 0: they read it as it is, or
 * cannot. pack fills them. Products are the same to the bit with it and without. */
size_t cni_gemm_packed_bytes(const cni_gemm *g, bool f64, int64_t *depth);
void cni_gemm_pack(const cni_gemm *g, bool f64, int64_t depth, void *to);

/* For an A of rows side by side that is used in many products: where its rows would collide, and kernels do not pack
 * it, elements from row to row of a copy that does not (cni_gemm.apart); else 0. */
int64_t cni_gemm_apart_row(int64_t a_row, bool f64);

/* The product as C^T = B^T A^T, in blocks whatever its shape: for an A that is used in many products with few columns,
 * which then fill rows of tiles instead of lanes. packed: what turned_pack made of A, turned_bytes long, or NULL: the
 * same to the bit. m, n and k are 1 or more. */
bool cni_gemm_turns(int64_t m, int64_t n, int64_t k, bool f64); /* is it worth it? */
size_t cni_gemm_turned_bytes(const cni_gemm *g, bool f64);
void cni_gemm_turned_pack(const cni_gemm *g, bool f64, void *to);
int cni_gemm_turned(const cni_gemm *g, bool f64);

/* `batch` products whose operands lie a_step, b_step, c_step elements apart. dtype: CN_F32 or CN_F64. Runs
 * whole products in parallel when there are enough of them, else each product by itself. */
int cni_gemm_batch(cn_dtype dtype, const cni_gemm *g, int64_t batch, int64_t a_step, int64_t b_step,
                   int64_t c_step);

#endif
