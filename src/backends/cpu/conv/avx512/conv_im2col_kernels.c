/* conv_im2col_kernels.c: columns of 16 windows at a time. See conv_im2col_kernels.h.
 *
 * Invariant: nothing outside the image is read. */
#include "conv_im2col_kernels.h"

#include <stdbool.h>
#include <stddef.h>

#include "backends/cpu/walk/avx512/lanes.h"

enum { LANES = CNI_IM2COL_LANES };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Without optimisation gcc's gather is a macro whose mask changes its sign on the way. */
#if defined(__GNUC__) && !defined(__clang__) && !defined(__OPTIMIZE__)
#pragma GCC diagnostic ignored "-Wsign-conversion"
#endif

/* Lanes l with 0 <= at + l * step < w. */
static inline __mmask16 lanes_inside(int64_t at, int64_t step, int64_t w)
{
  __mmask16 end = cni_first_lanes((w - at + step - 1) / step);
  return at >= 0 ? end : (__mmask16)(end & ~cni_first_lanes((-at + step - 1) / step));
}

static inline __attribute__((always_inline)) void take_step(const cni_im2col_run *r, float *to, int64_t pitch,
                                                            const float *image, const int step)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i far = _mm512_mullo_epi32(_mm512_srli_epi32(even, 1), _mm512_set1_epi32((int)r->step));
  const __mmask16 whole = cni_first_lanes(r->count);
  const int64_t kw = r->taps[1];
  __mmask16 low[CNI_IM2COL_TAPS], high[CNI_IM2COL_TAPS];
  for (int64_t j = 0; j < kw; j++) {
    int64_t at = r->x + j * r->tap_step[1];
    low[j] = lanes_inside(at, step ? 1 : r->step, r->w);
    high[j] = lanes_inside(at + LANES, 1, r->w);
    if (step != 2) low[j] &= whole;
  }
  for (int64_t c = 0; c < r->channels; c++, image += r->channel)
    for (int64_t i = 0; i < r->taps[0]; i++) {
      int64_t y = r->y + i * r->tap_step[0];
      bool there = y >= 0 && y < r->h;
      const float *at = image + (there ? y * r->row : 0) + r->x;
      for (int64_t j = 0; j < kw; j++, at += r->tap_step[1], to += pitch) {
        __m512 v = _mm512_setzero_ps();
        if (there && step == 1) v = _mm512_maskz_loadu_ps(low[j], at);
        else if (there && step == 2)
          v = _mm512_permutex2var_ps(_mm512_maskz_loadu_ps(low[j], at), even,
                                     _mm512_maskz_loadu_ps(high[j], at + LANES));
        else if (there) v = _mm512_mask_i32gather_ps(v, low[j], far, at, 4);
        _mm512_mask_storeu_ps(to, whole, v);
      }
    }
}

/* Stride 2, neighbouring taps: each pair of taps is the even and the odd part of two vectors. */
static inline __attribute__((always_inline)) void take_pairs(const cni_im2col_run *r, float *to, int64_t pitch,
                                                             const float *image, const int kw)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __mmask16 whole = cni_first_lanes(r->count);
  __mmask16 low[4], high[4];
  for (int j = 0; j < (kw + 1) / 2; j++) {
    low[j] = lanes_inside(r->x + 2 * j, 1, r->w);
    high[j] = lanes_inside(r->x + 2 * j + LANES, 1, r->w);
  }
  const int64_t kh = r->taps[0], down = r->tap_step[0] * r->row;
  for (int64_t c = 0; c < r->channels; c++, image += r->channel) {
    const float *at = image + r->y * r->row + r->x;
    for (int64_t i = 0; i < kh; i++, at += down, to += kw * pitch) {
      int64_t y = r->y + i * r->tap_step[0];
      if (y < 0 || y >= r->h) {
        for (int j = 0; j < kw; j++) _mm512_mask_storeu_ps(to + j * pitch, whole, _mm512_setzero_ps());
        continue;
      }
      UNROLL for (int j = 0; j < kw; j += 2)
      {
        __m512 a = _mm512_maskz_loadu_ps(low[j / 2], at + j), b = _mm512_maskz_loadu_ps(high[j / 2], at + j + LANES);
        _mm512_mask_storeu_ps(to + j * pitch, whole, _mm512_permutex2var_ps(a, even, b));
        if (j + 1 < kw) _mm512_mask_storeu_ps(to + (j + 1) * pitch, whole, _mm512_permutex2var_ps(a, odd, b));
      }
    }
  }
}

static void take(const cni_im2col_run *r, float *to, int64_t pitch, const float *image)
{
  if (r->step == 2 && r->tap_step[1] == 1 && r->taps[1] == 3) take_pairs(r, to, pitch, image, 3);
  else if (r->step == 2 && r->tap_step[1] == 1 && r->taps[1] == 7) take_pairs(r, to, pitch, image, 7);
  else if (r->step == 1) take_step(r, to, pitch, image, 1);
  else if (r->step == 2) take_step(r, to, pitch, image, 2);
  else take_step(r, to, pitch, image, 0);
}

const cni_im2col_kernels cni_im2col_avx512 = {take};
