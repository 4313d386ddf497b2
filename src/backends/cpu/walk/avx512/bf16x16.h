/* bf16x16.h: sixteen float32 numbers rounded to bfloat16, for casts and for products that round what they write.
 *
 * Place in the flow: included by units compiled for AVX-512. Invariant: rounds to even as cni_f32_to_bf16 does, numbers
 * below the normal ones too, which the machine's own instruction takes for 0; a NaN keeps its upper half and becomes
 * quiet. */
#ifndef CNI_CPU_BF16X16_H
#define CNI_CPU_BF16X16_H

#include <immintrin.h>

static inline __m256i cni_bf16x16(__m512 x)
{
  const __m512i one = _mm512_set1_epi32(1), half = _mm512_set1_epi32(0x7fff), quiet = _mm512_set1_epi32(0x40);
  __m512i u = _mm512_castps_si512(x), top = _mm512_srli_epi32(u, 16);
  __m512i r = _mm512_add_epi32(u, _mm512_add_epi32(half, _mm512_and_si512(top, one)));
  __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  r = _mm512_mask_or_epi32(_mm512_srli_epi32(r, 16), nan, top, quiet);
  return _mm512_cvtepi32_epi16(r);
}

#endif
