/* conv_im2col_isa.c: columns of a vector of windows at a time. Compiled for AVX2, AVX-512 and NEON; empty for
 * others. See conv_im2col_isa.h.
 *
 * Invariant: nothing outside the image is read. */
#include "conv_im2col_isa.h"

#if CNI_ISA_LEVEL > 0

#include <stdbool.h>
#include <stddef.h>

#include "backends/cpu/walk/lanes.h"

enum { LANES = CNI_LANES };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 8")
#endif

/* Lanes l with 0 <= at + l * step < w. */
static inline cni_lane_bits lanes_inside(int64_t at, int64_t step, int64_t w)
{
  cni_lane_bits end = cni_first_lanes((w - at + step - 1) / step);
  return at >= 0 ? end : (cni_lane_bits)(end & ~cni_first_lanes((-at + step - 1) / step));
}

static inline __attribute__((always_inline)) void take_step(const cni_im2col_run *r, float *to, int64_t pitch,
                                                            const float *image, const int step)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const int64_t kw = r->taps[1];
  cni_lane_bits low[CNI_IM2COL_TAPS], high[CNI_IM2COL_TAPS];
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
        cni_lanes v = (cni_lanes){0};
        if (there && step == 1) v = cni_load_lanes(low[j], at);
        else if (there && step == 2)
          v = cni_evens(cni_load_lanes(low[j], at), cni_load_lanes(high[j], at + LANES));
        else if (there) v = cni_gather_lanes(low[j], at, (int)r->step);
        cni_store_lanes(to, whole, v);
      }
    }
}

/* Stride 2, neighbouring taps: each pair of taps is the even and the odd part of two vectors. */
static inline __attribute__((always_inline)) void take_pairs(const cni_im2col_run *r, float *to, int64_t pitch,
                                                             const float *image, const int kw)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  cni_lane_bits low[4], high[4];
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
        for (int j = 0; j < kw; j++) cni_store_lanes(to + j * pitch, whole, (cni_lanes){0});
        continue;
      }
      UNROLL for (int j = 0; j < kw; j += 2)
      {
        cni_lanes a = cni_load_lanes(low[j / 2], at + j), b = cni_load_lanes(high[j / 2], at + j + LANES);
        cni_store_lanes(to + j * pitch, whole, cni_evens(a, b));
        if (j + 1 < kw) cni_store_lanes(to + (j + 1) * pitch, whole, cni_odds(a, b));
      }
    }
  }
}

/* Of up to LANES windows. */
static void take_lanes(const cni_im2col_run *r, float *to, int64_t pitch, const float *image)
{
  if (r->step == 2 && r->tap_step[1] == 1 && r->taps[1] == 3) take_pairs(r, to, pitch, image, 3);
  else if (r->step == 2 && r->tap_step[1] == 1 && r->taps[1] == 7) take_pairs(r, to, pitch, image, 7);
  else if (r->step == 1) take_step(r, to, pitch, image, 1);
  else if (r->step == 2) take_step(r, to, pitch, image, 2);
  else take_step(r, to, pitch, image, 0);
}

static void take(const cni_im2col_run *r, float *to, int64_t pitch, const float *image)
{
  cni_im2col_run some = *r;
  for (int64_t at = 0; at < r->count; at += LANES, some.x += LANES * r->step) {
    some.count = r->count - at < LANES ? r->count - at : LANES;
    take_lanes(&some, to + at, pitch, image);
  }
}

const cni_im2col_kernels CNI_ISA_NAME(cni_im2col) = {take};

#endif
