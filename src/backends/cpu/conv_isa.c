/* conv_isa.c: the arithmetic of direct convolutions, compiled once per instruction-set level and element type. This
 * file says what a vector is on each level; conv_kernel.inc holds the code.
 *
 * Invariant: exports one table, named for its level; nothing here is called on a machine without that level. */
#include "conv_isa.h"

#if CNI_ISA_LEVEL > 0
#include <immintrin.h>
#endif

enum { PARTIAL = 64 }; /* terms of a partial sum */

#define ALWAYS_INLINE static inline __attribute__((always_inline))

/* MR rows by MV vectors, MV vectors of the image and a broadcast fill the registers. */
#if CNI_ISA_LEVEL == 2
#define VECTOR_BYTES 64
#define MR 8
#define MV 3
#define EACH_COUNT(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8)
#elif CNI_ISA_LEVEL == 1
#define VECTOR_BYTES 32
#define MR 4
#define MV 3
#define EACH_COUNT(X) X(1) X(2) X(3) X(4)
#else
#define VECTOR_BYTES 16
#define MR 4
#define MV 2
#define EACH_COUNT(X) X(1) X(2) X(3) X(4)
#endif

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* ---- f32 ---- */
#define T float
#define NAME(name) name##_f32
#define LANES (VECTOR_BYTES / 4)
#if CNI_ISA_LEVEL == 2
#define FMA(x, y, z) _mm512_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm512_set1_ps(x)
#define LOAD_PART(p, n) _mm512_maskz_loadu_ps((__mmask16)((1u << (n)) - 1u), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_ps(p, (__mmask16)((1u << (n)) - 1u), v)
#elif CNI_ISA_LEVEL == 1
#define FMA(x, y, z) _mm256_fmadd_ps(x, y, z)
#define BROADCAST(x) _mm256_set1_ps(x)
#endif
#include "conv_kernel.inc"

/* ---- f64 ---- */
#define T double
#define NAME(name) name##_f64
#define LANES (VECTOR_BYTES / 8)
#if CNI_ISA_LEVEL == 2
#define FMA(x, y, z) _mm512_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm512_set1_pd(x)
#define LOAD_PART(p, n) _mm512_maskz_loadu_pd((__mmask8)((1u << (n)) - 1u), p)
#define STORE_PART(p, v, n) _mm512_mask_storeu_pd(p, (__mmask8)((1u << (n)) - 1u), v)
#elif CNI_ISA_LEVEL == 1
#define FMA(x, y, z) _mm256_fmadd_pd(x, y, z)
#define BROADCAST(x) _mm256_set1_pd(x)
#endif
#include "conv_kernel.inc"

#define KERNELS(suffix, bytes)                                                                               \
  {                                                                                                          \
    .size = bytes, .mr = MR, .nr = MV * VECTOR_BYTES / bytes, .lanes = VECTOR_BYTES / bytes,                 \
    .panel = panel_##suffix, .outer = outer_##suffix, .dots = dots_##suffix, .emit = emit_##suffix           \
  }

const cni_conv_kernels CNI_ISA_NAME(cni_conv_kernels)[2] = {KERNELS(f32, 4), KERNELS(f64, 8)};
