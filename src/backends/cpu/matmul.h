/* matmul.h: what matmul.c has of matmul_isa.c. */
#ifndef CNI_CPU_MATMUL_H
#define CNI_CPU_MATMUL_H

#include <stdint.h>

/* c[0..4): the dot products of a: (k) with four rows b, b + step, ...: (k). */
typedef void (*cni_half_dots)(float *c, const float *a, const uint16_t *b, int64_t step, int64_t k);

/* [0] float16, [1] bfloat16 */
extern const cni_half_dots cni_half_dots_table_base[2];
#if defined(__x86_64__)
extern const cni_half_dots cni_half_dots_table_avx2[2];
extern const cni_half_dots cni_half_dots_table_avx512[2];
#endif

#endif
