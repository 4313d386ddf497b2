/* Scalar maths functions written so that compilers vectorise loops over them.
 *
 * Every function is a straight line of arithmetic and selects: a loop `y[i] = cnm_expf(x[i])` becomes
 * vector code under SSE2, AVX2, AVX-512, NEON or CUDA, and gives the same result in each lane as the scalar
 * call does. CPU kernels include this file; the code generator embeds the text of the family (maths.h,
 * maths_f64.h, maths_f32.h, maths_gamma.h, maths_special.h, maths_zeta.h, maths_bessel.h, maths_polynomial.h, in
 * this order) in the sources it writes, so eager and compiled results agree (with CNM_EMBEDDED defined first).
 * Hence the one invariant: the text is valid C99 and CUDA C alike, needs no header, no libm and no intrinsics,
 * and reads no table where a loop may run over it.
 *
 * Compile callers with -fno-math-errno -fno-trapping-math -ffp-contract=off; without the first two loops
 * may stay scalar, without the last (CUDA: --fmad=false) last bits may depend on the compiler. Functions
 * never set errno; floating-point exception flags mean nothing here. Default rounding is assumed.
 * Subnormals are right unless the caller sets flush-to-zero.
 *
 * The error stated with each function is the largest seen over dense samples with and without fused
 * multiply-add, in units in the last place (ulp); tests/unit/test_maths.c asserts the bounds. Polynomials
 * are minimax fits (Remez) made for this file, coefficients rounded to the working format.
 */
#ifndef CAIRN_BASE_MATHS_H
#define CAIRN_BASE_MATHS_H

/* The linkage of every function here. Inlining is forced because a call would stop the loop from
 * vectorising. */
#ifndef CNM_FN
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define CNM_FN static __device__ __forceinline__
#elif defined(__GNUC__)
#define CNM_FN static inline __attribute__((always_inline, unused))
#else
#define CNM_FN static inline
#endif
#endif
/* The same for the branchy functions, which are too long to copy into every caller. */
#ifndef CNM_SLOW_FN
#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define CNM_SLOW_FN static __device__
#elif defined(__GNUC__)
#define CNM_SLOW_FN static __attribute__((unused))
#else
#define CNM_SLOW_FN static
#endif
#endif

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)
#define CNM_HAS_FMA 1
#define CNM_FMA(a, b, c) fma(a, b, c)
#define CNM_FMAF(a, b, c) fmaf(a, b, c)
#define CNM_SQRT(x) sqrt(x)
#define CNM_SQRTF(x) sqrtf(x)
#define CNM_ABS(x) fabs(x)
#define CNM_ABSF(x) fabsf(x)
#define CNM_SIGN(x, s) copysign(x, s)
#define CNM_SIGNF(x, s) copysignf(x, s)
#else
#if defined(__FMA__) || defined(__aarch64__)
#define CNM_HAS_FMA 1
#else
#define CNM_HAS_FMA 0
#endif
#define CNM_FMA(a, b, c) __builtin_fma(a, b, c)
#define CNM_FMAF(a, b, c) __builtin_fmaf(a, b, c)
#define CNM_SQRT(x) __builtin_sqrt(x)
#define CNM_SQRTF(x) __builtin_sqrtf(x)
#define CNM_ABS(x) __builtin_fabs(x)
#define CNM_ABSF(x) __builtin_fabsf(x)
#define CNM_SIGN(x, s) __builtin_copysign(x, s)
#define CNM_SIGNF(x, s) __builtin_copysignf(x, s)
#endif

/* a * b + c, fused where the machine has it. Code below must be right either way. */
#if CNM_HAS_FMA
#define CNM_MAD(a, b, c) CNM_FMA(a, b, c)
#define CNM_MADF(a, b, c) CNM_FMAF(a, b, c)
#else
#define CNM_MAD(a, b, c) ((a) * (b) + (c))
#define CNM_MADF(a, b, c) ((a) * (b) + (c))
#endif

/* a / b of numbers between which no step of a division over- or underflows: a machine may have a shorter way to the
 * same bits. */
#ifndef CNM_QUOTIENTF
#define CNM_QUOTIENTF(a, b) ((a) / (b))
#endif

/* Own names for fixed widths: the text must stand alone where no <stdint.h> is. */
typedef int cnm_i32;
typedef unsigned int cnm_u32;
typedef unsigned long long cnm_u64;

CNM_FN cnm_u32 cnm_f2u(float x)
{
  union { float f; cnm_u32 u; } v;
  v.f = x;
  return v.u;
}

CNM_FN float cnm_u2f(cnm_u32 x)
{
  union { float f; cnm_u32 u; } v;
  v.u = x;
  return v.f;
}

CNM_FN cnm_u64 cnm_d2u(double x)
{
  union { double f; cnm_u64 u; } v;
  v.f = x;
  return v.u;
}

CNM_FN double cnm_u2d(cnm_u64 x)
{
  union { double f; cnm_u64 u; } v;
  v.u = x;
  return v.f;
}

#define CNM_INF cnm_u2d(0x7ff0000000000000ULL)
#define CNM_NAN cnm_u2d(0x7ff8000000000000ULL)
#define CNM_INFF cnm_u2f(0x7f800000u)
#define CNM_NANF cnm_u2f(0x7fc00000u)

/* Adding this to |x| < 2^51 (2^22) rounds x to an integer and leaves that integer in the low bits: rounding
 * that plain SSE2 can do too. */
#define CNM_MAGIC 6755399441055744.0
#define CNM_MAGICF 12582912.0f

/* Four Horner steps: ((((p x + a) x + b) x + c) x + d). */
CNM_FN double cnm_h4(double p, double x, double a, double b, double c, double d)
{
  return CNM_MAD(CNM_MAD(CNM_MAD(CNM_MAD(p, x, a), x, b), x, c), x, d);
}

CNM_FN float cnm_h4f(float p, float x, float a, float b, float c, float d)
{
  return CNM_MADF(CNM_MADF(CNM_MADF(CNM_MADF(p, x, a), x, b), x, c), x, d);
}

#ifndef CNM_EMBEDDED /* the code generator, which pastes the parts one after another, defines it */
#include "maths_f64.h"
#include "maths_f32.h"
#include "maths_gamma.h"
#include "maths_special.h"
#include "maths_zeta.h"
#include "maths_bessel.h"
#include "maths_polynomial.h"
#endif

#endif
