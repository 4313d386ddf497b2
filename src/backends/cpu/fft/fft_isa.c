/* fft_isa.c: see fft.h. This file says what a vector is on each instruction set; fft_passes.inc and fft_transpose.inc
 * hold the code, for float and double. */
#include "fft.h"

#include <string.h>

#include "backends/cpu/isa.h"

#if CNI_FOR_AVX2 || CNI_FOR_AVX512
#include <immintrin.h>
#elif CNI_FOR_NEON
#include <arm_neon.h>
#endif

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL /* clang unrolls these by itself */
#else
#define UNROLL _Pragma("GCC unroll 16")
#endif

#if CNI_FOR_AVX512
#define VECTOR_BYTES 64
#elif CNI_FOR_AVX2
#define VECTOR_BYTES 32
#else
#define VECTOR_BYTES 16
#endif

/* Lanes of two vectors: taken in turns from the first halves, from the second halves; the even ones, the odd ones.
 * Lanes of one: neighbours exchanged; each even or odd one twice; pairs in the opposite order. */
#define LOW_2 0, 2
#define HIGH_2 1, 3
#define EVEN_2 0, 2
#define ODD_2 1, 3
#define SWAP_2 1, 0
#define TWICE_EVEN_2 0, 0
#define TWICE_ODD_2 1, 1
#define BACK_2 0, 1
#define LOW_4 0, 4, 1, 5
#define HIGH_4 2, 6, 3, 7
#define EVEN_4 0, 2, 4, 6
#define ODD_4 1, 3, 5, 7
#define SWAP_4 1, 0, 3, 2
#define TWICE_EVEN_4 0, 0, 2, 2
#define TWICE_ODD_4 1, 1, 3, 3
#define BACK_4 2, 3, 0, 1
#define LOW_8 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH_8 4, 12, 5, 13, 6, 14, 7, 15
#define EVEN_8 0, 2, 4, 6, 8, 10, 12, 14
#define ODD_8 1, 3, 5, 7, 9, 11, 13, 15
#define SWAP_8 1, 0, 3, 2, 5, 4, 7, 6
#define TWICE_EVEN_8 0, 0, 2, 2, 4, 4, 6, 6
#define TWICE_ODD_8 1, 1, 3, 3, 5, 5, 7, 7
#define BACK_8 6, 7, 4, 5, 2, 3, 0, 1
#define LOW_16 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH_16 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define EVEN_16 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD_16 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define SWAP_16 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14
#define TWICE_EVEN_16 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14
#define TWICE_ODD_16 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15
#define BACK_16 14, 15, 12, 13, 10, 11, 8, 9, 6, 7, 4, 5, 2, 3, 0, 1
#define JOIN_(name, n) name##_##n
#define JOIN(name, n) JOIN_(name, n)
#define LIST(name) JOIN(name, LANES)

/* ---- float ---- */
#define T float
#define NAME(name) name##_f32
#if CNI_FOR_AVX512
#define LANES 16
#define MADD(x, y, z) (V) _mm512_fmadd_ps((__m512)(x), (__m512)(y), (__m512)(z))
#define MSUB(x, y, z) (V) _mm512_fnmadd_ps((__m512)(x), (__m512)(y), (__m512)(z))
#elif CNI_FOR_AVX2
#define LANES 8
#define MADD(x, y, z) (V) _mm256_fmadd_ps((__m256)(x), (__m256)(y), (__m256)(z))
#define MSUB(x, y, z) (V) _mm256_fnmadd_ps((__m256)(x), (__m256)(y), (__m256)(z))
#else
#define LANES 4
#if CNI_FOR_NEON
#define MADD(x, y, z) (V) vfmaq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y))
#define MSUB(x, y, z) (V) vfmsq_f32((float32x4_t)(z), (float32x4_t)(x), (float32x4_t)(y))
#endif
#endif
#include "fft_passes.inc"
#include "fft_transpose.inc"
#undef T
#undef NAME
#undef LANES
#undef MADD
#undef MSUB

/* ---- double ---- */
#define T double
#define NAME(name) name##_f64
#if CNI_FOR_AVX512
#define LANES 8
#define MADD(x, y, z) (V) _mm512_fmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(z))
#define MSUB(x, y, z) (V) _mm512_fnmadd_pd((__m512d)(x), (__m512d)(y), (__m512d)(z))
#elif CNI_FOR_AVX2
#define LANES 4
#define MADD(x, y, z) (V) _mm256_fmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(z))
#define MSUB(x, y, z) (V) _mm256_fnmadd_pd((__m256d)(x), (__m256d)(y), (__m256d)(z))
#else
#define LANES 2
#if CNI_FOR_NEON
#define MADD(x, y, z) (V) vfmaq_f64((float64x2_t)(z), (float64x2_t)(x), (float64x2_t)(y))
#define MSUB(x, y, z) (V) vfmsq_f64((float64x2_t)(z), (float64x2_t)(x), (float64x2_t)(y))
#endif
#endif
#include "fft_passes.inc"
#include "fft_transpose.inc"

#define TABLE(S, lanes)                                                                                              \
  {                                                                                                                  \
    lanes, columns_##S, load_lines_##S, store_lines_##S, load_columns_##S, store_columns_##S, twiddle_transpose_##S, \
        twiddle_##S, multiply_##S, split_##S, join_##S, split_columns_##S, join_columns_##S, mirror_columns_##S      \
  }

const cni_fft_loops CNI_ISA_NAME(cni_fft_loops)[2] = {TABLE(f32, VECTOR_BYTES / 4), TABLE(f64, VECTOR_BYTES / 8)};
