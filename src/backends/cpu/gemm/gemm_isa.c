/* gemm_isa.c: the arithmetic of matrix products, compiled once per instruction-set level (see isa.h) and element
 * type. This file says how vectors are worked with on each level, gemm_tile.h how many there are; gemm_kernel.inc
 * holds the code.
 *
 * Invariant: exports one table, named for its level; nothing here is called on a machine without that
 * level. */
#include "gemm_isa.h"

#include <string.h>

#include "gemm_tile.h"

#if CNI_FOR_AVX2 || CNI_FOR_AVX512
#include <immintrin.h>
#elif CNI_FOR_NEON
#include <arm_neon.h>
#endif

/* ---- f32 ---- */
#define T float
#define NAME(name) name##_f32
#define LIMITS 1
#define LANES (VECTOR_BYTES / 4)
#if CNI_FOR_AVX512
#define LOW_HALVES LOW_16
#define HIGH_HALVES HIGH_16
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define LEAST(x, y) _mm512_min_ps(x, y)
#define MOST(x, y) _mm512_max_ps(x, y)
#define BROADCAST(x) _mm512_set1_ps(x)
#define MASK(n) ((__mmask16)((1u << (n)) - 1u))
#define LOAD_PART(p, n) _mm512_maskz_loadu_ps(MASK(n), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, MASK(n), v)
#define SUM_LANES(v) _mm512_reduce_add_ps(v)
#elif CNI_FOR_AVX2
#define LOW_HALVES LOW_8
#define HIGH_HALVES HIGH_8
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#define LEAST(x, y) _mm256_min_ps(x, y)
#define MOST(x, y) _mm256_max_ps(x, y)
#define BROADCAST(x) _mm256_set1_ps(x)
#else
#define LOW_HALVES LOW_4
#define HIGH_HALVES HIGH_4
#if CNI_FOR_NEON
#define FMA(x, y, z) vfmaq_f32(z, x, y)
#define LEAST(x, y) vbslq_f32(vcltq_f32(x, y), x, y)
#define MOST(x, y) vbslq_f32(vcgtq_f32(x, y), x, y)
#define FMA_LANE(x, l, y, z) vfmaq_laneq_f32(z, y, x, l)
#define EACH_LANE(X, i) X(i, 0) X(i, 1) X(i, 2) X(i, 3)
#define BROADCAST(x) vdupq_n_f32(x)
#define SUM_LANES(v) vaddvq_f32(v)
#endif
#endif
#include "gemm_kernel.inc"

#if CNI_FOR_AVX512
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
#if CNI_FOR_AVX512
#define LOW_HALVES LOW_8
#define HIGH_HALVES HIGH_8
#define FMA(x, y, z) _mm512_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm512_set1_pd(x)
#define MASK(n) ((__mmask8)((1u << (n)) - 1u))
#define LOAD_PART(p, n) _mm512_maskz_loadu_pd(MASK(n), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_pd(p, MASK(n), v)
#define SUM_LANES(v) _mm512_reduce_add_pd(v)
#elif CNI_FOR_AVX2
#define LOW_HALVES LOW_4
#define HIGH_HALVES HIGH_4
#define FMA(x, y, z) _mm256_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm256_set1_pd(x)
#else
#define LOW_HALVES LOW_2
#define HIGH_HALVES HIGH_2
#if CNI_FOR_NEON
#define FMA(x, y, z) vfmaq_f64(z, x, y)
#define FMA_LANE(x, l, y, z) vfmaq_laneq_f64(z, y, x, l)
#define EACH_LANE(X, i) X(i, 0) X(i, 1)
#define BROADCAST(x) vdupq_n_f64(x)
#define SUM_LANES(v) vaddvq_f64(v)
#endif
#endif
#include "gemm_kernel.inc"

#define KERNELS(suffix, size, limit, ...)                                                                    \
  {                                                                                                          \
    size, MR, 2 * VECTOR_BYTES / size, DIRECT_DEPTH, __VA_ARGS__, pack_##suffix, run_##suffix,               \
        direct_##suffix, few_rows_##suffix, dots_##suffix, limit                                             \
  }

const cni_gemm_kernels CNI_ISA_NAME(cni_gemm_kernels)[2] = {KERNELS(f32, 4, limit_f32, BLOCK_F32),
                                                            KERNELS(f64, 8, NULL, BLOCK_F64)};

#if CNI_FOR_AVX512
const cni_gemm_kernels cni_gemm_pairs = {4,          MR,        2 * VECTOR_BYTES / 4, 0, BLOCK_F32,
                                         pack_pairs, run_pairs, NULL, NULL, NULL, NULL};
#endif
