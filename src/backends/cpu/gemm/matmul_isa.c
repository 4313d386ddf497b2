/* matmul_isa.c: dot products of float32 rows with 16-bit rows, which are converted in registers, and pairs of 16-bit
 * rows; compiled once per instruction set.
 *
 * Place in the flow: matmul_half.c uses them where a large 16-bit matrix meets a few rows, a product that is bound
 * by reading that matrix. Several rows are read at a time, since one stream does not fill the memory bus.
 * Invariant: an element is summed in the same order on every instruction set. */
#include <string.h>

#include "backends/cpu/isa.h"
#include "base/convert.h"
#include "matmul.h"

#if defined(__F16C__)
#include <immintrin.h> /* the AVX-512 level has it, too */
#elif CNI_FOR_NEON
#include <arm_neon.h>
#endif

#if defined(__clang__)
#define UNROLL_4
#else
#define UNROLL_4 _Pragma("GCC unroll 4")
#endif

enum { LANES = 16 };

#if CNI_FOR_NEON
static inline float32x4_t wide_f16(const uint16_t *from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }
static inline float32x4_t wide_bf16(const uint16_t *from)
{
  return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16));
}

/* The 16 lanes of a sum are four vectors, sum[column][.]: wider ones would live in memory. */
#define DOTS(S)                                                                                              \
  static void dots_##S(float *c, const float *a, const uint16_t *b, int64_t step, int64_t k)                 \
  {                                                                                                          \
    float32x4_t sum[4][4] = {0};                                                                             \
    int64_t p = 0;                                                                                           \
    for (; p + LANES <= k; p += LANES)                                                                       \
      UNROLL_4 for (int q = 0; q < 4; q++)                                                                   \
      {                                                                                                      \
        float32x4_t x = vld1q_f32(a + p + 4 * q);                                                            \
        UNROLL_4 for (int j = 0; j < 4; j++) sum[j][q] += x * wide_##S(b + j * step + p + 4 * q);            \
      }                                                                                                      \
    UNROLL_4 for (int j = 0; j < 4; j++)                                                                     \
    {                                                                                                        \
      float lane[LANES], all = 0;                                                                            \
      memcpy(lane, sum[j], sizeof lane);                                                                     \
      for (int i = 0; i < LANES; i++) all += lane[i];                                                        \
      for (int64_t t = p; t < k; t++) all += a[t] * cni_##S##_to_f32(b[j * step + t]);                       \
      c[j] = all;                                                                                            \
    }                                                                                                        \
  }
#else
typedef float lanes_f32 __attribute__((vector_size(64)));
typedef uint32_t lanes_u32 __attribute__((vector_size(64)));
typedef uint16_t lanes_u16 __attribute__((vector_size(32)));

/* By pointer, because passing vectors by value depends on the instruction set. */
static inline void load_bf16(lanes_f32 *x, const uint16_t *from)
{
  lanes_u16 h;
  memcpy(&h, from, sizeof h);
  lanes_u32 u = __builtin_convertvector(h, lanes_u32) << 16;
  memcpy(x, &u, sizeof *x);
}

static inline void load_f16(lanes_f32 *x, const uint16_t *from)
{
  float y[LANES];
#if defined(__F16C__)
  for (int i = 0; i < LANES; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
#else
  for (int i = 0; i < LANES; i++) y[i] = cni_f16_to_f32(from[i]);
#endif
  memcpy(x, y, sizeof *x);
}

static inline float total(const lanes_f32 *x)
{
  float sum = 0;
  for (int i = 0; i < LANES; i++) sum += (*x)[i];
  return sum;
}

#define DOTS(S)                                                                                              \
  static void dots_##S(float *c, const float *a, const uint16_t *b, int64_t step, int64_t k)                 \
  {                                                                                                          \
    const uint16_t *b0 = b, *b1 = b + step, *b2 = b1 + step, *b3 = b2 + step;                                \
    lanes_f32 s0 = {0}, s1 = {0}, s2 = {0}, s3 = {0}, x, y0, y1, y2, y3;                                     \
    int64_t p = 0;                                                                                           \
    for (; p + LANES <= k; p += LANES) {                                                                     \
      memcpy(&x, a + p, sizeof x);                                                                           \
      load_##S(&y0, b0 + p), load_##S(&y1, b1 + p), load_##S(&y2, b2 + p), load_##S(&y3, b3 + p);            \
      s0 += x * y0, s1 += x * y1, s2 += x * y2, s3 += x * y3;                                                \
    }                                                                                                        \
    c[0] = total(&s0), c[1] = total(&s1), c[2] = total(&s2), c[3] = total(&s3);                              \
    for (; p < k; p++) {                                                                                     \
      c[0] += a[p] * cni_##S##_to_f32(b0[p]), c[1] += a[p] * cni_##S##_to_f32(b1[p]);                        \
      c[2] += a[p] * cni_##S##_to_f32(b2[p]), c[3] += a[p] * cni_##S##_to_f32(b3[p]);                        \
    }                                                                                                        \
  }
#endif
DOTS(f16)
DOTS(bf16)

#if CNI_FOR_AVX512
/* A row of 32 pairs. */
static inline void put_pairs(uint32_t *to, const uint16_t *from, int64_t k_step)
{
  const __m512i low = _mm512_set_epi64(0x002f000f002e000e, 0x002d000d002c000c, 0x002b000b002a000a, 0x0029000900280008,
                                       0x0027000700260006, 0x0025000500240004, 0x0023000300220002, 0x0021000100200000);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  __m512i x = _mm512_loadu_si512(from), y = _mm512_loadu_si512(from + k_step);
  _mm512_storeu_si512(to, _mm512_permutex2var_epi16(x, low, y));
  _mm512_storeu_si512(to + 16, _mm512_permutex2var_epi16(x, high, y));
}
#endif

static void pairs(uint32_t *to, const uint16_t *from, int64_t k_step, int count, int width, int64_t k)
{
  int64_t t = 0;
#if CNI_FOR_AVX512
  for (; count == 32 && width == 32 && t + 1 < k; t += 2, to += width) put_pairs(to, from + t * k_step, k_step);
#endif
  for (; t < k; t += 2, to += width) {
    const uint16_t *x = from + t * k_step, *y = x + k_step;
    if (t + 1 < k)
      for (int i = 0; i < count; i++) to[i] = (uint32_t)x[i] | (uint32_t)y[i] << 16;
    else
      for (int i = 0; i < count; i++) to[i] = x[i];
    for (int i = count; i < width; i++) to[i] = 0;
  }
}

#if CNI_FOR_AVX512
/* Two steps of adding up sixteen vectors: within each quarter of a vector, and between the quarters. */
static inline __m512 add_lanes(__m512 a, __m512 b)
{
  return _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
}
static inline __m512 add_quarters(__m512 a, __m512 b)
{
  return _mm512_add_ps(_mm512_shuffle_f32x4(a, b, 0x88), _mm512_shuffle_f32x4(a, b, 0xdd));
}

/* See cni_half_loops.pair_dots; a row or column that is too much repeats the first. */
static void pair_dots(float *c, const uint16_t *a, int64_t a_step, int rows, const uint16_t *b, int64_t b_step,
                      int cols, int64_t k)
{
  const uint16_t *x[4], *y[4];
  __m512 sum[16];
  for (int i = 0; i < 4; i++) x[i] = a + (i < rows ? i * a_step : 0), y[i] = b + (i < cols ? i * b_step : 0);
  for (int i = 0; i < 16; i++) sum[i] = _mm512_setzero_ps();
/* R rows; R is a constant, so that the sums stay in registers. */
#define PAIR_STEP(R, LOAD)                                                                                   \
  {                                                                                                          \
    __m512i v[4];                                                                                            \
    UNROLL_4 for (int j = 0; j < 4; j++)                                                                     \
    {                                                                                                        \
      v[j] = LOAD(y[j] + p);                                                                                 \
      __builtin_prefetch(y[j] + 4 * b_step + p); /* the next four columns */                                 \
    }                                                                                                        \
    UNROLL_4 for (int i = 0; i < R; i++)                                                                     \
    {                                                                                                        \
      __m512i u = LOAD(x[i] + p);                                                                            \
      UNROLL_4 for (int j = 0; j < 4; j++)                                                                   \
          __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum[4 * i + j]) : "v"(u), "v"(v[j]));                        \
    }                                                                                                        \
  }
#define WHOLE(q) _mm512_loadu_si512(q)
#define PART(q) _mm512_maskz_loadu_epi16(mask, q)
  int64_t p = 0;
  if (rows == 1)
    for (; p + 32 <= k; p += 32) PAIR_STEP(1, WHOLE)
  else
    for (; p + 32 <= k; p += 32) PAIR_STEP(4, WHOLE)
  const __mmask32 mask = (__mmask32)((UINT64_C(1) << (k - p)) - 1);
  if (p < k) PAIR_STEP(4, PART)
  __m512 part[4];
  UNROLL_4 for (int i = 0; i < 4; i++)
  {
    __m512 *s = sum + 4 * i, low = add_lanes(s[0], s[1]), high = add_lanes(s[2], s[3]);
    part[i] = _mm512_add_ps(
        _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(low), _mm512_castps_pd(high))),
        _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(low), _mm512_castps_pd(high))));
  }
  _mm512_storeu_ps(c, add_quarters(add_quarters(part[0], part[1]), add_quarters(part[2], part[3])));
}
#elif CNI_FOR_NEON
#define pair_dots cni_pair_dots_bf16
#else
#define pair_dots NULL
#endif

const cni_half_loops CNI_ISA_NAME(cni_half_loops) = {{dots_f16, dots_bf16}, pairs, pair_dots};
