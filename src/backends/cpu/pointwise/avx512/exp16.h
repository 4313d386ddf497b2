/* exp16.h: exponentials of sixteen floats by AVX-512, and the activations that are made of them.
 *
 * Place in the flow: included by kernels for AVX-512. VSCALEFPS multiplies by powers of two, and rounds once where
 * results are subnormal, which takes nine operations otherwise. Invariant: for every float cni_exp16 gives the
 * bits of cnm_expf (base/maths.h), the activations those of their formulas (ops/pointwise.def); cni_exp16_below is its
 * own function, for sums of exponentials. */
#ifndef CNI_CPU_EXP16_H
#define CNI_CPU_EXP16_H

#include <immintrin.h>

#define CNI_EXP16 static inline __attribute__((always_inline, unused))

/* e^x, bit by bit what cnm_expf gives with fused multiplication and addition. */
CNI_EXP16 __m512 cni_exp16(__m512 x)
{
  const __m512 magic = _mm512_set1_ps(12582912.0f);
  x = _mm512_max_ps(_mm512_set1_ps(-105.0f), _mm512_min_ps(_mm512_set1_ps(90.0f), x)); /* NaN stays */
  __m512 n = _mm512_sub_ps(_mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), magic), magic);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.69314575f), x), q = _mm512_set1_ps(0.0013841204f);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.4286068e-06f), r);
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.008369371f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.041668084f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.16666515f));
  q = _mm512_fmadd_ps(q, r, _mm512_set1_ps(0.49999994f));
  q = _mm512_add_ps(_mm512_fmadd_ps(_mm512_mul_ps(r, r), q, r), _mm512_set1_ps(1.0f));
  return _mm512_scalef_ps(q, n);
}

CNI_EXP16 __m512 cni_negative16(__m512 x) { return _mm512_xor_ps(x, _mm512_set1_ps(-0.0f)); }

/* As cnm_sigmoidf. */
CNI_EXP16 __m512 cni_sigmoid16(__m512 x)
{
  const __m512 one = _mm512_set1_ps(1.0f), half = _mm512_set1_ps(0.5f);
  __m512 e = cni_exp16(_mm512_or_ps(x, _mm512_set1_ps(-0.0f))), d = _mm512_add_ps(one, e); /* e^-|x| */
  __mmask16 below = _mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ);
  __m512 v = _mm512_div_ps(_mm512_mask_blend_ps(below, one, e), d), rest = _mm512_add_ps(_mm512_sub_ps(one, d), e);
  return _mm512_fmadd_ps(v, _mm512_mul_ps(rest, cni_negative16(_mm512_sub_ps(one, _mm512_mul_ps(half, e)))), v);
}

/* 1 / (1 + e^x). */
CNI_EXP16 __m512 cni_logsigmoid_slope16(__m512 x)
{
  const __m512 one = _mm512_set1_ps(1.0f);
  return _mm512_div_ps(one, _mm512_add_ps(one, cni_exp16(x)));
}

/* x / (1 + e^-x). */
CNI_EXP16 __m512 cni_silu16(__m512 x)
{
  return _mm512_div_ps(x, _mm512_add_ps(_mm512_set1_ps(1.0f), cni_exp16(cni_negative16(x))));
}

/* s (1 + x (1 - s)), s = 1 / (1 + e^-x). */
CNI_EXP16 __m512 cni_silu_slope16(__m512 x)
{
  const __m512 one = _mm512_set1_ps(1.0f);
  __m512 s = _mm512_div_ps(one, _mm512_add_ps(one, cni_exp16(cni_negative16(x))));
  return _mm512_mul_ps(s, _mm512_add_ps(one, _mm512_mul_ps(x, _mm512_sub_ps(one, s))));
}

/* e^x for x <= 88, or NaN: x = n log(2) + r, n in sixteenths, and 2^(n mod 1) is in a register. Error 1.1 ulp. */
CNI_EXP16 __m512 cni_exp16_below(__m512 x)
{
  const __m512 magic = _mm512_set1_ps(786432.0f);
  const __m512 powers = {1.0f,        1.04427378f, 1.09050773f, 1.13878863f, 1.18920712f, 1.24185781f,
                         1.29683955f, 1.35425555f, 1.41421356f, 1.47682615f, 1.54221083f, 1.61049033f,
                         1.68179283f, 1.75625216f, 1.83400809f, 1.91520656f};
  x = _mm512_max_ps(_mm512_set1_ps(-105.0f), x);
  __m512 t = _mm512_fmadd_ps(x, _mm512_set1_ps(1.44269504f), magic), n = _mm512_sub_ps(t, magic);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.69314575f), x);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(1.4286068e-06f), r);
  __m512 p = _mm512_permutexvar_ps(_mm512_castps_si512(t), powers); /* by the lowest four bits */
  __m512 q = _mm512_fmadd_ps(_mm512_set1_ps(0.16666667f), r, _mm512_set1_ps(0.5f));
  q = _mm512_fmadd_ps(q, _mm512_mul_ps(r, r), r);
  return _mm512_scalef_ps(_mm512_fmadd_ps(q, p, p), n); /* by the whole part of n */
}

#endif
