/* matmul_isa.c: products of a few float32 rows with 16-bit floats that are converted in registers, and pairs of 16-bit
 * rows; compiled once per instruction set.
 *
 * Place in the flow: matmul_few.c uses them where a large 16-bit matrix meets a few rows, a product that is bound
 * by reading that matrix: by its columns, several at a time, since one stream does not fill the memory bus, or by its
 * rows. Invariant: an element is summed in the same order on every instruction set. */
#include <string.h>

#include "backends/cpu/isa.h"
#include "base/convert.h"
#include "matmul.h"

#if CNI_FOR_NEON
#include <arm_neon.h>
#elif defined(__F16C__)
#include <immintrin.h>
#endif

#if defined(__clang__)
#define UNROLL_4
#else
#define UNROLL_4 _Pragma("GCC unroll 4")
#endif

/* A vector of floats; ROWS and COLS: rows and columns whose sums of LANES numbers each fit into registers. */
enum { LANES = 16 };
#if CNI_FOR_NEON
enum { ROWS = 1, COLS = 4 };
typedef float32x4_t vec;
static inline vec wide_f16(const uint16_t *from) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(from))); }
static inline vec wide_bf16(const uint16_t *from) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(from), 16)); }
#define ADD_PRODUCT(x, y, z) vfmaq_f32(z, x, y)
#elif CNI_FOR_AVX512
enum { ROWS = 4, COLS = 4 };
typedef __m512 vec;
static inline vec wide_f16(const uint16_t *from) { return _mm512_cvtph_ps(_mm256_loadu_si256((const void *)from)); }
static inline vec wide_bf16(const uint16_t *from)
{
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_loadu_si256((const void *)from)), 16));
}
#define ADD_PRODUCT(x, y, z) _mm512_fmadd_ps(x, y, z)
#elif defined(__F16C__)
enum { ROWS = 2, COLS = 2 };
typedef __m256 vec;
static inline vec wide_f16(const uint16_t *from) { return _mm256_cvtph_ps(_mm_loadu_si128((const void *)from)); }
static inline vec wide_bf16(const uint16_t *from)
{
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128((const void *)from)), 16));
}
#define ADD_PRODUCT(x, y, z) _mm256_fmadd_ps(x, y, z)
#else
enum { ROWS = 1, COLS = 2 };
typedef float vec __attribute__((vector_size(16)));
#define WIDE(S)                                                                                             \
  static inline vec wide_##S(const uint16_t *from)                                                          \
  {                                                                                                         \
    return (vec){cni_##S##_to_f32(from[0]), cni_##S##_to_f32(from[1]), cni_##S##_to_f32(from[2]),            \
                 cni_##S##_to_f32(from[3])};                                                                \
  }
WIDE(f16)
WIDE(bf16)
#define ADD_PRODUCT(x, y, z) ((z) + (x) * (y))
#endif
enum { WIDTH = sizeof(vec) / sizeof(float), VECTORS = LANES / WIDTH, DOTS = CNI_HALF_DOTS, ROW_STEPS = 4 };

static inline vec load(const float *from)
{
  vec x;
  memcpy(&x, from, sizeof x);
  return x;
}
static inline vec all(float x) { return x - (vec){0}; }

#define LOOPS(S)                                                                                            \
  /* rows and cols are constants, so that the sums stay in registers */                                     \
  static inline __attribute__((always_inline)) void dot_tile_##S(                                           \
      float *c, const float *a, const int rows, const uint16_t *b, int64_t step, const int cols, int64_t k) \
  {                                                                                                         \
    vec sum[4][4][VECTORS] = {{{{0}}}};                                                                     \
    int64_t p = 0;                                                                                          \
    for (; p + LANES <= k; p += LANES)                                                                      \
      UNROLL_4 for (int q = 0; q < VECTORS; q++)                                                            \
      {                                                                                                     \
        vec y[4];                                                                                           \
        UNROLL_4 for (int j = 0; j < cols; j++) y[j] = wide_##S(b + j * step + p + WIDTH * q);              \
        UNROLL_4 for (int i = 0; i < rows; i++)                                                             \
        {                                                                                                   \
          const vec x = load(a + i * k + p + WIDTH * q);                                                    \
          UNROLL_4 for (int j = 0; j < cols; j++) sum[i][j][q] = ADD_PRODUCT(x, y[j], sum[i][j][q]);        \
        }                                                                                                   \
      }                                                                                                     \
    UNROLL_4 for (int i = 0; i < rows; i++)                                                                 \
      UNROLL_4 for (int j = 0; j < cols; j++)                                                               \
      {                                                                                                     \
        float lane[LANES], whole = 0;                                                                       \
        memcpy(lane, sum[i][j], sizeof lane);                                                               \
        for (int l = 0; l < LANES; l++) whole += lane[l];                                                   \
        for (int64_t t = p; t < k; t++) whole += a[i * k + t] * cni_##S##_to_f32(b[j * step + t]);          \
        c[i * DOTS + j] = whole;                                                                            \
      }                                                                                                     \
  }                                                                                                         \
  static void dots_##S(float *c, const float *a, int64_t rows, const uint16_t *b, int64_t step, int64_t k)  \
  {                                                                                                         \
    int64_t i = 0;                                                                                          \
    for (; rows > 1 && i + ROWS <= rows; i += ROWS)                                                         \
      for (int j = 0; j < DOTS; j += COLS)                                                                  \
        dot_tile_##S(c + i * DOTS + j, a + i * k, ROWS, b + j * step, step, COLS, k);                       \
    for (; i < rows; i++) dot_tile_##S(c + i * DOTS, a + i * k, 1, b, step, DOTS, k);                       \
  }                                                                                                         \
  /* steps (1 or ROW_STEPS) rows of b, times their columns of a, are added to c */                          \
  static inline __attribute__((always_inline)) void add_rows_##S(                                           \
      float *c, int64_t pitch, const float *a, int64_t k, int64_t rows, const uint16_t *b, int64_t b_row,   \
      const int steps, int64_t n)                                                                           \
  {                                                                                                         \
    int64_t j = 0;                                                                                          \
    for (; j + WIDTH <= n; j += WIDTH) {                                                                    \
      vec y[ROW_STEPS];                                                                                     \
      UNROLL_4 for (int s = 0; s < steps; s++) y[s] = wide_##S(b + s * b_row + j);                          \
      for (int64_t i = 0; i < rows; i++) {                                                                  \
        vec sum = load(c + i * pitch + j);                                                                  \
        UNROLL_4 for (int s = 0; s < steps; s++) sum = ADD_PRODUCT(all(a[i * k + s]), y[s], sum);           \
        memcpy(c + i * pitch + j, &sum, sizeof sum);                                                        \
      }                                                                                                     \
    }                                                                                                       \
    for (; j < n; j++)                                                                                      \
      for (int64_t i = 0; i < rows; i++)                                                                    \
        for (int s = 0; s < steps; s++)                                                                     \
          c[i * pitch + j] += a[i * k + s] * cni_##S##_to_f32(b[s * b_row + j]);                            \
  }                                                                                                         \
  static void along_##S(float *c, int64_t pitch, const float *a, int64_t rows, const uint16_t *b,           \
                        int64_t b_row, int64_t k, int64_t n)                                                \
  {                                                                                                         \
    int64_t p = 0;                                                                                          \
    for (; p + ROW_STEPS <= k; p += ROW_STEPS)                                                              \
      add_rows_##S(c, pitch, a + p, k, rows, b + p * b_row, b_row, ROW_STEPS, n);                           \
    for (; p < k; p++) add_rows_##S(c, pitch, a + p, k, rows, b + p * b_row, b_row, 1, n);                  \
  }
LOOPS(f16)
LOOPS(bf16)

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

const cni_half_loops CNI_ISA_NAME(cni_half_loops) = {{dots_f16, dots_bf16}, {along_f16, along_bf16}, pairs, pair_dots};
