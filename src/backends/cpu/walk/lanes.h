/* lanes.h: a vector of floats of the instruction set that a file is compiled for, AVX2, AVX-512 or NEON, and what
 * kernels do with its lanes: some of them loaded and stored, two vectors parted and interleaved.
 *
 * Place in the flow: included by *_isa.c files whose kernels are there for these levels alone. Invariant: a function
 * gives the same lanes on every level; bit l of cni_lane_bits stands for lane l. */
#ifndef CNI_CPU_WALK_LANES_H
#define CNI_CPU_WALK_LANES_H

#include <stdbool.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

#if CNI_FOR_NEON

#include "neon/lanes.h"

#elif CNI_FOR_AVX512

#include <immintrin.h>

#include "avx512/lanes.h"

enum { CNI_LANES = 16 };
typedef __m512 cni_lanes;
typedef __mmask16 cni_lane_bits;

static inline cni_lanes cni_all_lanes(float x) { return _mm512_set1_ps(x); }
/* Lanes without a bit are 0, and their memory is not touched. */
static inline cni_lanes cni_load_lanes(cni_lane_bits bits, const float *p) { return _mm512_maskz_loadu_ps(bits, p); }
/* bits: of the first lanes, all, or none */
static inline void cni_store_lanes(float *p, cni_lane_bits bits, cni_lanes v) { _mm512_mask_storeu_ps(p, bits, v); }
static inline void cni_store_all(float *p, cni_lanes v) { _mm512_storeu_ps(p, v); }
static inline cni_lanes cni_lanes_fma(cni_lanes x, cni_lanes y, cni_lanes z) { return _mm512_fmadd_ps(x, y, z); }
/* The same in a register: compilers like to load again for each use, and a load that crosses a line takes two. */
static inline cni_lanes cni_lanes_once(cni_lanes x)
{
  __asm__("" : "+v"(x));
  return x;
}
/* The lesser and the larger; y where they are equal, or one is NaN. */
static inline cni_lanes cni_least_lanes(cni_lanes x, cni_lanes y) { return _mm512_min_ps(x, y); }
static inline cni_lanes cni_most_lanes(cni_lanes x, cni_lanes y) { return _mm512_max_ps(x, y); }

/* Every second element of a and then b: from the first on, from the second on. */
static inline cni_lanes cni_evens(cni_lanes a, cni_lanes b)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  return _mm512_permutex2var_ps(a, even, b);
}
static inline cni_lanes cni_odds(cni_lanes a, cni_lanes b)
{
  const __m512i odd = _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
  return _mm512_permutex2var_ps(a, odd, b);
}

/* Elements of a and b in turns: of their lower halves, of their upper ones. */
static inline cni_lanes cni_zip_low(cni_lanes a, cni_lanes b)
{
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  return _mm512_permutex2var_ps(a, low, b);
}
static inline cni_lanes cni_zip_high(cni_lanes a, cni_lanes b)
{
  const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
  return _mm512_permutex2var_ps(a, high, b);
}

/* From lane `by` of `low` on, then the first of `high`; by is a constant. */
static inline __attribute__((always_inline)) cni_lanes cni_lanes_from(cni_lanes low, cni_lanes high, const int by)
{
  __m512i a = _mm512_castps_si512(high), b = _mm512_castps_si512(low);
  switch (by) {
  case 1: return _mm512_castsi512_ps(_mm512_alignr_epi32(a, b, 1));
  case 2: return _mm512_castsi512_ps(_mm512_alignr_epi32(a, b, 2));
  case 3: return _mm512_castsi512_ps(_mm512_alignr_epi32(a, b, 3));
  case 13: return _mm512_castsi512_ps(_mm512_alignr_epi32(a, b, 13));
  case 14: return _mm512_castsi512_ps(_mm512_alignr_epi32(a, b, 14));
  default: return _mm512_castsi512_ps(_mm512_alignr_epi32(a, b, 15));
  }
}

/* sum + other in lanes with a bit. */
static inline cni_lanes cni_add_lanes(cni_lanes sum, cni_lane_bits bits, cni_lanes other)
{
  return _mm512_mask_add_ps(sum, bits, sum, other);
}
static inline float cni_sum_lanes(cni_lanes v) { return _mm512_reduce_add_ps(v); }

/* The lower halves of two vectors; the upper half of one, below; one with 0 in the first lane of its upper half. */
static inline cni_lanes cni_lower_halves(cni_lanes a, cni_lanes b) { return _mm512_shuffle_f32x4(a, b, 0x44); }
static inline cni_lanes cni_upper_half(cni_lanes v) { return _mm512_shuffle_f32x4(v, v, 0xee); }
static inline cni_lanes cni_without_middle(cni_lanes v) { return _mm512_maskz_mov_ps(0xfeff, v); }

static inline bool cni_all_finite(cni_lanes v)
{
  enum { NOT_FINITE = 0x99 };
  return !_mm512_fpclass_ps_mask(v, NOT_FINITE);
}

/* Without optimisation gcc's gather is a macro whose mask changes its sign on the way. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wsign-conversion"
/* p[l * step] of lanes with a bit. */
static inline cni_lanes cni_gather_lanes(cni_lane_bits bits, const float *p, int step)
{
  const __m512i l = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  return _mm512_mask_i32gather_ps(_mm512_setzero_ps(), bits, _mm512_mullo_epi32(l, _mm512_set1_epi32(step)), p, 4);
}
#pragma GCC diagnostic pop

#else

#include <immintrin.h>

enum { CNI_LANES = 8 };
typedef __m256 cni_lanes;
typedef uint8_t cni_lane_bits;

static inline cni_lane_bits cni_first_lanes(int64_t n)
{
  return (cni_lane_bits)(n >= CNI_LANES ? 0xffu : n > 0 ? (1u << n) - 1u : 0u);
}

static inline cni_lanes cni_all_lanes(float x) { return _mm256_set1_ps(x); }

/* All bits of the lanes that have one. */
static inline __m256i cni_whole_lanes(cni_lane_bits bits)
{
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(bits), bit), bit);
}

static inline cni_lanes cni_load_lanes(cni_lane_bits bits, const float *p)
{
  if (bits == 0xff) return _mm256_loadu_ps(p);
  return _mm256_maskload_ps(p, cni_whole_lanes(bits));
}

static inline void cni_store_all(float *p, cni_lanes v) { _mm256_storeu_ps(p, v); }

/* By halves: masked stores take some processors a dozen cycles. */
static inline void cni_store_lanes(float *p, cni_lane_bits bits, cni_lanes v)
{
  if (bits == 0xff) {
    _mm256_storeu_ps(p, v);
    return;
  }
  __m128 part = _mm256_castps256_ps128(v);
  if (bits & 8) {
    _mm_storeu_ps(p, part);
    part = _mm256_extractf128_ps(v, 1);
    bits = (cni_lane_bits)(bits >> 4);
    p += 4;
  }
  if (bits & 2) {
    _mm_storel_pi((__m64 *)(void *)p, part);
    part = _mm_movehl_ps(part, part);
    bits = (cni_lane_bits)(bits >> 2);
    p += 2;
  }
  if (bits & 1) _mm_store_ss(p, part);
}

static inline cni_lanes cni_lanes_fma(cni_lanes x, cni_lanes y, cni_lanes z) { return _mm256_fmadd_ps(x, y, z); }
static inline cni_lanes cni_lanes_once(cni_lanes x) { return x; }
static inline cni_lanes cni_least_lanes(cni_lanes x, cni_lanes y) { return _mm256_min_ps(x, y); }
static inline cni_lanes cni_most_lanes(cni_lanes x, cni_lanes y) { return _mm256_max_ps(x, y); }

static inline cni_lanes cni_quarters_in_turns(__m256 v)
{
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(v), 0xd8));
}

static inline cni_lanes cni_evens(cni_lanes a, cni_lanes b)
{
  return cni_quarters_in_turns(_mm256_shuffle_ps(a, b, 0x88));
}
static inline cni_lanes cni_odds(cni_lanes a, cni_lanes b)
{
  return cni_quarters_in_turns(_mm256_shuffle_ps(a, b, 0xdd));
}

static inline cni_lanes cni_zip_low(cni_lanes a, cni_lanes b)
{
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x20);
}
static inline cni_lanes cni_zip_high(cni_lanes a, cni_lanes b)
{
  return _mm256_permute2f128_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b), 0x31);
}

static inline __attribute__((always_inline)) cni_lanes cni_lanes_from(cni_lanes low, cni_lanes high, const int by)
{
  __m256i a = _mm256_castps_si256(low), c = _mm256_castps_si256(high);
  __m256i b = _mm256_castps_si256(_mm256_permute2f128_ps(low, high, 0x21)); /* halves between */
  switch (by) {
  case 1: return _mm256_castsi256_ps(_mm256_alignr_epi8(b, a, 4));
  case 2: return _mm256_castsi256_ps(_mm256_alignr_epi8(b, a, 8));
  case 3: return _mm256_castsi256_ps(_mm256_alignr_epi8(b, a, 12));
  case 5: return _mm256_castsi256_ps(_mm256_alignr_epi8(c, b, 4));
  case 6: return _mm256_castsi256_ps(_mm256_alignr_epi8(c, b, 8));
  default: return _mm256_castsi256_ps(_mm256_alignr_epi8(c, b, 12));
  }
}

static inline cni_lanes cni_add_lanes(cni_lanes sum, cni_lane_bits bits, cni_lanes other)
{
  return _mm256_add_ps(sum, _mm256_and_ps(other, _mm256_castsi256_ps(cni_whole_lanes(bits))));
}

static inline float cni_sum_lanes(cni_lanes v)
{
  __m128 four = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

static inline cni_lanes cni_lower_halves(cni_lanes a, cni_lanes b) { return _mm256_permute2f128_ps(a, b, 0x20); }
static inline cni_lanes cni_upper_half(cni_lanes v) { return _mm256_permute2f128_ps(v, v, 0x11); }
static inline cni_lanes cni_without_middle(cni_lanes v) { return _mm256_blend_ps(v, _mm256_setzero_ps(), 0x10); }

/* What is not finite is not 0 when taken from itself. */
static inline bool cni_all_finite(cni_lanes v)
{
  __m256 rest = _mm256_sub_ps(v, v);
  return !_mm256_movemask_ps(_mm256_cmp_ps(rest, rest, _CMP_UNORD_Q));
}

static inline cni_lanes cni_gather_lanes(cni_lane_bits bits, const float *p, int step)
{
  const __m256i l = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_mask_i32gather_ps(_mm256_setzero_ps(), p, _mm256_mullo_epi32(l, _mm256_set1_epi32(step)),
                                  _mm256_castsi256_ps(cni_whole_lanes(bits)), 4);
}

#endif

#endif
