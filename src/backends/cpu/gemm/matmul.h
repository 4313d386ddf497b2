/* matmul.h: what the files of the matrix product kernels share: the description of a call, and the loops over
 * 16-bit floats that matmul_isa.c has per instruction set. */
#ifndef CNI_CPU_MATMUL_H
#define CNI_CPU_MATMUL_H

#include <stdint.h>

#include "backends/cpu/isa.h"
#include "gemm.h"

/* A batch of matrices; strides in elements. */
typedef struct cni_matrix {
  char *data;
  int64_t row, col, step;
} cni_matrix;

/* C = alpha * A B + beta * init */
typedef struct cni_product {
  int dtype;
  int64_t size; /* bytes of an element */
  int64_t batch, m, n, k;
  cni_matrix a, b, c; /* (batch, m, k), (batch, k, n), (batch, m, n) */
  cni_matrix init;    /* (batch, m, n); data NULL: nothing is added */
  double alpha, beta;
  enum cni_blas by; /* of float32 and float64: who does it */
  const void *packed; /* ... and b as its kernels read it, see gemm.h; NULL: as it is */
  int64_t packed_depth;
} cni_product;

static inline char *cni_product_at(const cni_product *p, const cni_matrix *x, int64_t b, int64_t i, int64_t j)
{
  return x->data + (b * x->step + i * x->row + j * x->col) * p->size;
}

/* Items that carry `enough` work for a thread, if each has `work`. */
static inline int64_t cni_product_grain(double work, double enough)
{
  double grain = enough / (work < 1 ? 1 : work);
  return grain < 1 ? 1 : (int64_t)grain;
}

/* Of any type that computes (matmul.c); `size` need not be set. 0, CN_ERR_MEMORY, or CN_REFUSED: not of this type. */
int cni_cpu_multiply(cni_product *p);
/* float16 and bfloat16 (matmul_half.c); batch, m, n >= 1. 0 or CN_ERR_MEMORY. */
int cni_half_product(cni_product *p);
enum { CNI_HALF_FEW = 16 }; /* rows of A up to which reading B is what costs */
/* The same for so few rows of A and columns, or rows, of B in one piece (matmul_few.c). */
int cni_half_few(const cni_product *p);
int cni_half_few_along(const cni_product *p);

/* c (rows, CNI_HALF_DOTS): the dot products of a (rows, k), dense, with so many rows b, b + step, ...: (k). */
enum { CNI_HALF_DOTS = 4 };
typedef void (*cni_half_dots)(float *c, const float *a, int64_t rows, const uint16_t *b, int64_t step, int64_t k);
/* c (rows, n), rows `pitch` apart, += a (rows, k), dense, times b (k, n), rows b_row apart. */
typedef void (*cni_half_along)(float *c, int64_t pitch, const float *a, int64_t rows, const uint16_t *b, int64_t b_row,
                               int64_t k, int64_t n);

typedef struct cni_half_loops {
  cni_half_dots dots[2]; /* [0] float16, [1] bfloat16 */
  cni_half_along along[2];
  /* to[t * width + i] = from[2 t * k_step + i] | from[(2 t + 1) * k_step + i] << 16 for i < count, 0 up to width;
   * k: rows of `from`; a missing last one counts as 0. */
  void (*pairs)(uint32_t *to, const uint16_t *from, int64_t k_step, int count, int width, int64_t k);
  /* c[i * 4 + j], i < rows, j < cols, both at most 4: dot products of bfloat16 rows a + i * a_step and
   * b + j * b_step, (k) each, by the instruction for pairs, which not every machine of the level has (see
   * cni_cpu_multiplies_bf16); NULL where there is none at this level. */
  void (*pair_dots)(float *c, const uint16_t *a, int64_t a_step, int rows, const uint16_t *b, int64_t b_step, int cols,
                    int64_t k);
} cni_half_loops;

CNI_DECLARE_BY_ISA(cni_half_loops, cni_half_loops);
#if defined(__aarch64__)
/* neon/dots_bf16.c */
void cni_pair_dots_bf16(float *c, const uint16_t *a, int64_t a_step, int rows, const uint16_t *b, int64_t b_step,
                        int cols, int64_t k);
#endif

#endif
