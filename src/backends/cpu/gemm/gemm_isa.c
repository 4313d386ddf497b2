/* gemm_isa.c: the arithmetic of matrix products, compiled once per instruction-set level (CNI_ISA_LEVEL 0,
 * 1, 2 with the matching compiler flags) and element type. This file says what a vector is on each level;
 * gemm_kernel.inc holds the code.
 *
 * Invariant: exports one table, named for its level; nothing here is called on a machine without that
 * level. */
#include "gemm_isa.h"

#include <string.h>

#if CNI_ISA_LEVEL > 0
#include <immintrin.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* MR rows by two vectors fill the registers: 14 * 2 + 2 + 1 of 32, 6 * 2 + 2 + 1 of 16; without fused
 * multiply-add, which needs a register for the product, 4 * 2 + 2 + 1 + some of 16. */
#if CNI_ISA_LEVEL == 2
#define VECTOR_BYTES 64
#define MR 14
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13)
#elif CNI_ISA_LEVEL == 1
#define VECTOR_BYTES 32
#define MR 6
#define PACKED_TILES 1 /* a block of packed A stays in the cache: see BLOCK_F32 */
#define EACH_ROW(X) X(0) X(1) X(2) X(3) X(4) X(5)
#else
#define VECTOR_BYTES 16
#define MR 4
#define EACH_ROW(X) X(0) X(1) X(2) X(3)
#endif

#if defined(__clang__)
#define UNROLL /* clang unrolls these by itself */
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

/* Lanes of two vectors taken in turns: from their first halves, from their second halves. */
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31

enum { DIRECT_DEPTH = 256 }; /* of a packed panel on the stack: at most 32 KiB */

/* ---- f32 ---- */
#define T float
#define NAME(name) name##_f32
#define LANES (VECTOR_BYTES / 4)
#if CNI_ISA_LEVEL == 2
#define LOW_HALVES LOW_16
#define HIGH_HALVES HIGH_16
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm512_set1_ps(x)
#define MASK(n) ((__mmask16)((1u << (n)) - 1u))
#define LOAD_PART(p, n) _mm512_maskz_loadu_ps(MASK(n), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, MASK(n), v)
#define SUM_LANES(v) _mm512_reduce_add_ps(v)
#elif CNI_ISA_LEVEL == 1
#define LOW_HALVES LOW_8
#define HIGH_HALVES HIGH_8
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm256_set1_ps(x)
#else
#define LOW_HALVES LOW_4
#define HIGH_HALVES HIGH_4
#endif
#include "gemm_kernel.inc"

#if CNI_ISA_LEVEL == 2
/* ---- pairs of bf16 along k, summed in f32; for machines that have the instruction besides this level ---- */
static inline __attribute__((always_inline)) __m512 add_pairs(__m512 x, __m512 y, __m512 sum)
{
  __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(x), "v"(y));
  return sum;
}
#define T float
#define NAME(name) name##_pairs
#define LANES (VECTOR_BYTES / 4)
#define LOW_HALVES LOW_16
#define HIGH_HALVES HIGH_16
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm512_set1_ps(x)
#define MASK(n) ((__mmask16)((1u << (n)) - 1u))
#define LOAD_PART(p, n) _mm512_maskz_loadu_ps(MASK(n), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, MASK(n), v)
#define STEP(x, y, z) add_pairs(x, y, z)
#include "gemm_kernel.inc"
#endif

/* ---- f64 ---- */
#define T double
#define NAME(name) name##_f64
#define LANES (VECTOR_BYTES / 8)
#if CNI_ISA_LEVEL == 2
#define LOW_HALVES LOW_8
#define HIGH_HALVES HIGH_8
#define FMA(x, y, z) _mm512_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm512_set1_pd(x)
#define MASK(n) ((__mmask8)((1u << (n)) - 1u))
#define LOAD_PART(p, n) _mm512_maskz_loadu_pd(MASK(n), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_pd(p, MASK(n), v)
#define SUM_LANES(v) _mm512_reduce_add_pd(v)
#elif CNI_ISA_LEVEL == 1
#define LOW_HALVES LOW_4
#define HIGH_HALVES HIGH_4
#define FMA(x, y, z) _mm256_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm256_set1_pd(x)
#else
#define LOW_HALVES LOW_2
#define HIGH_HALVES HIGH_2
#endif
#include "gemm_kernel.inc"

#if CNI_ISA_LEVEL == 2 /* such machines have 1 MiB of second-level cache or more */
#define BLOCK_F32 512, 256, 0
#define BLOCK_F64 384, 160, 0
#elif CNI_ISA_LEVEL == 1 /* and these 256 or 512 KiB: a packed block of A takes 108 */
#define BLOCK_F32 384, 192, 72
#define BLOCK_F64 256, 144, 54
#else
#define BLOCK_F32 384, 192, 0
#define BLOCK_F64 256, 144, 0
#endif

#define KERNELS(suffix, size, ...)                                                                           \
  {                                                                                                          \
    size, MR, 2 * VECTOR_BYTES / size, DIRECT_DEPTH, __VA_ARGS__, pack_##suffix, run_##suffix,               \
        direct_##suffix, row_##suffix, dots_##suffix                                                         \
  }

const cni_gemm_kernels CNI_ISA_NAME(cni_gemm_kernels)[2] = {KERNELS(f32, 4, BLOCK_F32),
                                                            KERNELS(f64, 8, BLOCK_F64)};

#if CNI_ISA_LEVEL == 2
const cni_gemm_kernels cni_gemm_pairs_avx512 = {4,          MR,        2 * VECTOR_BYTES / 4, 0, BLOCK_F32,
                                                pack_pairs, run_pairs, NULL, NULL, NULL};
#endif
