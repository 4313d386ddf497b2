/* conv_winograd_1d_kernels.c: the transforms of one-dimensional Winograd convolutions: of an image's rows, of the sums
 * to results, of gradients. See conv_winograd_1d_kernels.h.
 *
 * Invariant: nothing outside the image is read; every tile is computed alike, whichever lane it falls into. */
#include "conv_winograd_1d_kernels.h"

#include <stddef.h>

#include "backends/cpu/walk/avx512/lanes.h"

enum { LANES = CNI_WINOGRAD_1D_LANES };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* Up to 16 elements from column `at` on, 0 outside the row. */
static inline __m512 load_inside(const float *row, int64_t at, int64_t w)
{
  __mmask16 end = cni_first_lanes(w - at);
  if (at < 0) end = (__mmask16)(end & ~cni_first_lanes(-at));
  return _mm512_maskz_loadu_ps(end, row + at);
}

/* room[k * pitch + t] = element k of tile t's `step` */
static void part_columns(const cni_winograd_1d_row *r, const float *row, int64_t pitch)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  for (int64_t t = 0; t < pitch; t += LANES) {
    int64_t at = r->first + t * r->step;
    float *to = r->room + t;
    if (r->step == 2 || r->step == 4) {
      __m512 a = load_inside(row, at, r->w), b = load_inside(row, at + LANES, r->w);
      __m512 x = _mm512_permutex2var_ps(a, even, b), y = _mm512_permutex2var_ps(a, odd, b);
      if (r->step == 4) {
        a = load_inside(row, at + 2 * LANES, r->w), b = load_inside(row, at + 3 * LANES, r->w);
        __m512 u = _mm512_permutex2var_ps(a, even, b), v = _mm512_permutex2var_ps(a, odd, b);
        _mm512_storeu_ps(to + 2 * pitch, _mm512_permutex2var_ps(x, odd, u));
        _mm512_storeu_ps(to + 3 * pitch, _mm512_permutex2var_ps(y, odd, v));
        x = _mm512_permutex2var_ps(x, even, u);
        y = _mm512_permutex2var_ps(y, even, v);
      }
      _mm512_storeu_ps(to, x);
      _mm512_storeu_ps(to + pitch, y);
      continue;
    }
    for (int64_t k = 0; k < r->step; k++)
      for (int64_t l = 0; l < LANES; l++) {
        int64_t column = at + l * r->step + k;
        to[k * pitch + l] = column >= 0 && column < r->w ? row[column] : 0;
      }
  }
}

static void transform_input(const cni_winograd_1d_row *r, const float *row, float *to, int64_t apart)
{
  const int64_t pitch = (r->tiles + r->reach + LANES - 1) / LANES * LANES;
  if (row) part_columns(r, row, pitch);
  for (int64_t p = 0; p < r->count; p++, to += apart) {
    const cni_winograd_1d_part *q = &r->parts[p];
    const float *a = r->room + q->a % r->step * pitch + q->a / r->step;
    const float *b = r->room + q->b % r->step * pitch + q->b / r->step;
    for (int64_t t = 0; t < r->tiles; t += LANES) {
      const __mmask16 some = cni_first_lanes(r->tiles - t);
      __m512 x = _mm512_setzero_ps();
      if (row) x = _mm512_maskz_loadu_ps(some, a + t);
      if (row && q->sign > 0) x = _mm512_add_ps(x, _mm512_maskz_loadu_ps(some, b + t));
      if (row && q->sign < 0) x = _mm512_sub_ps(x, _mm512_maskz_loadu_ps(some, b + t));
      _mm512_mask_storeu_ps(to + t, some, x);
    }
  }
}

static bool transform_output(float *to, int64_t count, const float *m, int64_t step, float bias)
{
  enum { NOT_FINITE = 0x99 };
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  __m512 all = _mm512_setzero_ps(), add = _mm512_set1_ps(bias);
  for (; count > 0; count -= 2 * LANES, to += 2 * LANES, m += LANES) {
    const __mmask16 whole = cni_first_lanes((count + 1) / 2);
    __m512 a = _mm512_maskz_loadu_ps(whole, m), b = _mm512_maskz_loadu_ps(whole, m + step);
    __m512 c = _mm512_maskz_loadu_ps(whole, m + 2 * step), d = _mm512_maskz_loadu_ps(whole, m + 3 * step);
    __m512 left = _mm512_add_ps(_mm512_add_ps(a, add), _mm512_add_ps(b, d));
    __m512 right = _mm512_add_ps(_mm512_sub_ps(add, c), _mm512_sub_ps(b, d));
    all = _mm512_add_ps(all, _mm512_add_ps(left, right));
    _mm512_mask_storeu_ps(to, cni_first_lanes(count), _mm512_permutex2var_ps(left, low, right));
    if (count > LANES)
      _mm512_mask_storeu_ps(to + LANES, cni_first_lanes(count - LANES), _mm512_permutex2var_ps(left, high, right));
  }
  return !_mm512_fpclass_ps_mask(all, NOT_FINITE);
}

/* Transposes 16 vectors: element l of vector k becomes element k of vector l. */
static inline void transpose_block(__m512 *r)
{
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  __m512 s[LANES];
  UNROLL for (int round = 1; round < LANES; round *= 2)
  {
    UNROLL for (int i = 0; i < LANES / 2; i++)
    {
      s[2 * i] = _mm512_permutex2var_ps(r[i], low, r[i + LANES / 2]);
      s[2 * i + 1] = _mm512_permutex2var_ps(r[i], high, r[i + LANES / 2]);
    }
    UNROLL for (int i = 0; i < LANES; i++) r[i] = s[i];
  }
}

static void transform_grad(float *to, int64_t step, int64_t ld, const float *from, int64_t channel, int64_t channels,
                           int64_t count)
{
  for (int64_t p = 0; p < count; p += LANES) {
    const __mmask16 some = cni_first_lanes(count - p);
    __m512 r[LANES];
    UNROLL for (int k = 0; k < LANES; k++)
    {
      r[k] = k < channels ? _mm512_maskz_loadu_ps(some, from + k * channel + p) : _mm512_setzero_ps();
    }
    transpose_block(r);
    UNROLL for (int t = 0; t < LANES / 2; t++)
    {
      if (p + 2 * t >= count) return;
      float *at = to + (p / 2 + t) * ld;
      _mm512_storeu_ps(at, r[2 * t]);
      _mm512_storeu_ps(at + step, _mm512_add_ps(r[2 * t], r[2 * t + 1]));
      _mm512_storeu_ps(at + 2 * step, r[2 * t + 1]);
      _mm512_storeu_ps(at + 3 * step, _mm512_sub_ps(r[2 * t], r[2 * t + 1]));
    }
  }
}

const cni_winograd_1d_kernels cni_winograd_1d_avx512 = {transform_input, transform_output, transform_grad};
