/* matmul_int8.h: the loop of products of int8 matrices, which matmul_int8_isa.c has per instruction set. */
#ifndef CNI_CPU_MATMUL_INT8_H
#define CNI_CPU_MATMUL_INT8_H

#include <stdint.h>

#include "backends/cpu/isa.h"

/* c[0..n) = the sum over t < k of a[t * a_col] times row t of b: (k, n), whose rows lie b_row apart. */
typedef struct cni_int8_loops {
  void (*row)(int32_t *c, const int8_t *a, int64_t a_col, const int8_t *b, int64_t b_row, int64_t n, int64_t k);
} cni_int8_loops;

CNI_DECLARE_BY_ISA(cni_int8_loops, cni_int8_loops);

#endif
