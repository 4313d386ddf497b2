/* conv_direct_isa.c: the arithmetic of direct convolutions, compiled once per instruction-set level and element type.
 * This file says what a vector is on each level; conv_direct_kernel.inc holds the code.
 *
 * Invariant: exports one table, named for its level; nothing here is called on a machine without that level. */
#include "conv_direct_isa.h"

#if CNI_FOR_AVX512
#include "backends/cpu/walk/avx512/lanes.h"
#elif CNI_FOR_AVX2
#include <immintrin.h>
#elif CNI_FOR_NEON
#include <arm_neon.h>
#endif

enum { PARTIAL = 64 }; /* terms of a partial sum */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* MR rows by MV vectors, MV vectors of the image and a broadcast fill the registers. */
#if CNI_FOR_AVX512
#define VECTOR_BYTES 64
#define MR 8
#define MV 3
#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif CNI_FOR_AVX2
#define VECTOR_BYTES 32
#define MR 4
#define MV 3
#define EACH_COUNT(X) X(1) X(2) X(3) X(4)
#elif CNI_FOR_NEON
#define VECTOR_BYTES 16
#define MR 8
#define MV 3
#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#else
#define VECTOR_BYTES 16
#define MR 4
#define MV 2
#define EACH_COUNT(X) X(1) X(2) X(3) X(4)
#endif

_Static_assert(MR == CNI_CONV_ROWS, "transforms of weights make panels of as many rows");

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

#if CNI_FOR_AVX512
/* Up to 16 elements of src and a bias to every second element of dst, of which the others are left alone. */
static inline void store_pairs(float *dst, const float *src, float bias, int64_t n)
{
  const __m512i low = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const uint32_t even = 0x55555555u & (n >= 16 ? UINT32_MAX : (1u << 2 * n) - 1u);
  __m512 v = _mm512_maskz_loadu_ps(cni_first_lanes(n), src);
  v = _mm512_add_ps(v, _mm512_set1_ps(bias));
  _mm512_mask_storeu_ps(dst, (__mmask16)even, _mm512_permutexvar_ps(low, v));
  _mm512_mask_storeu_ps(dst + 16, (__mmask16)(even >> 16), _mm512_permutexvar_ps(high, v));
}
#endif

/* ---- f32 ---- */
#define T float
#define NAME(name) name##_f32
#define LANES (VECTOR_BYTES / 4)
#if CNI_FOR_AVX512
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm512_set1_ps(x)
#define LOAD_PART(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1u), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1u), v)
#define STORE_PAIRS store_pairs
#elif CNI_FOR_AVX2
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm256_set1_ps(x)
#elif CNI_FOR_NEON
#define FMA(x, y, z) vfmaq_f32(z, x, y)
#define FMA_LANE(x, l, y, z) vfmaq_laneq_f32(z, y, x, l)
#define EACH_LANE(X) X(0) X(1) X(2) X(3)
#define BROADCAST(x) vdupq_n_f32(x)
#endif
#include "conv_direct_kernel.inc"

/* ---- f64 ---- */
#define T double
#define NAME(name) name##_f64
#define LANES (VECTOR_BYTES / 8)
#if CNI_FOR_AVX512
#define FMA(x, y, z) _mm512_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm512_set1_pd(x)
#define LOAD_PART(p, n) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1u), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (n)) - 1u), v)
#elif CNI_FOR_AVX2
#define FMA(x, y, z) _mm256_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm256_set1_pd(x)
#elif CNI_FOR_NEON
#define FMA(x, y, z) vfmaq_f64(z, x, y)
#define FMA_LANE(x, l, y, z) vfmaq_laneq_f64(z, y, x, l)
#define EACH_LANE(X) X(0) X(1)
#define BROADCAST(x) vdupq_n_f64(x)
#endif
#include "conv_direct_kernel.inc"

#define KERNELS(suffix, bytes)                                                                               \
  {                                                                                                          \
    .size = bytes, .mr = MR, .nr = MV * VECTOR_BYTES / bytes, .lanes = VECTOR_BYTES / bytes,                 \
    .panel = panel_##suffix, .outer = outer_##suffix, .dots = dots_##suffix, .emit = emit_##suffix           \
  }

const cni_conv_kernels CNI_ISA_NAME(cni_conv_kernels)[2] = {KERNELS(f32, 4), KERNELS(f64, 8)};
