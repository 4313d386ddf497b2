/* conv_winograd_1d_isa.c: the transforms of one-dimensional Winograd convolutions: of an image's rows, of the sums
 * to results, of gradients. Compiled for AVX2, AVX-512 and NEON; empty for others. See conv_winograd_1d_isa.h.
 *
 * Invariant: nothing outside the image is read; every tile is computed alike, whichever lane it falls into. */
#include "conv_winograd_1d_isa.h"

#if CNI_ISA_LEVEL > 0

#include <stddef.h>

#include "backends/cpu/walk/lanes.h"

enum { LANES = CNI_LANES };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* A vector from column `at` on, 0 outside the row. */
static inline cni_lanes load_inside(const float *row, int64_t at, int64_t w)
{
  cni_lane_bits end = cni_first_lanes(w - at);
  if (at < 0) end = (cni_lane_bits)(end & ~cni_first_lanes(-at));
  return cni_load_lanes(end, row + at);
}

/* room[k * pitch + t] = element k of tile t's `step` */
static void part_columns(const cni_winograd_1d_row *r, const float *row, int64_t pitch)
{
  for (int64_t t = 0; t < pitch; t += LANES) {
    int64_t at = r->first + t * r->step;
    float *to = r->room + t;
    if (r->step == 2 || r->step == 4) {
      cni_lanes a = load_inside(row, at, r->w), b = load_inside(row, at + LANES, r->w);
      cni_lanes x = cni_evens(a, b), y = cni_odds(a, b);
      if (r->step == 4) {
        a = load_inside(row, at + 2 * LANES, r->w), b = load_inside(row, at + 3 * LANES, r->w);
        cni_lanes u = cni_evens(a, b), v = cni_odds(a, b);
        cni_store_all(to + 2 * pitch, cni_odds(x, u));
        cni_store_all(to + 3 * pitch, cni_odds(y, v));
        x = cni_evens(x, u);
        y = cni_evens(y, v);
      }
      cni_store_all(to, x);
      cni_store_all(to + pitch, y);
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
      const cni_lane_bits some = cni_first_lanes(r->tiles - t);
      cni_lanes x = (cni_lanes){0};
      if (row) x = cni_load_lanes(some, a + t);
      if (row && q->sign > 0) x = x + cni_load_lanes(some, b + t);
      if (row && q->sign < 0) x = x - cni_load_lanes(some, b + t);
      cni_store_lanes(to + t, some, x);
    }
  }
}

static bool transform_output(float *to, int64_t count, const float *m, int64_t step, float bias)
{
  cni_lanes all = (cni_lanes){0}, add = cni_all_lanes(bias);
  for (; count > 0; count -= 2 * LANES, to += 2 * LANES, m += LANES) {
    const cni_lane_bits whole = cni_first_lanes((count + 1) / 2);
    cni_lanes a = cni_load_lanes(whole, m), b = cni_load_lanes(whole, m + step);
    cni_lanes c = cni_load_lanes(whole, m + 2 * step), d = cni_load_lanes(whole, m + 3 * step);
    cni_lanes left = (a + add) + (b + d);
    cni_lanes right = (add - c) + (b - d);
    all = all + (left + right);
    cni_store_lanes(to, cni_first_lanes(count), cni_zip_low(left, right));
    if (count > LANES)
      cni_store_lanes(to + LANES, cni_first_lanes(count - LANES), cni_zip_high(left, right));
  }
  return cni_all_finite(all);
}

/* Transposes LANES vectors: element l of vector k becomes element k of vector l. */
static inline void transpose_block(cni_lanes *r)
{
  cni_lanes s[LANES];
  UNROLL for (int round = 1; round < LANES; round *= 2)
  {
    UNROLL for (int i = 0; i < LANES / 2; i++)
    {
      s[2 * i] = cni_zip_low(r[i], r[i + LANES / 2]);
      s[2 * i + 1] = cni_zip_high(r[i], r[i + LANES / 2]);
    }
    UNROLL for (int i = 0; i < LANES; i++) r[i] = s[i];
  }
}

/* Of up to LANES channels. */
static void transform_lanes(float *to, int64_t step, int64_t ld, const float *from, int64_t channel, int64_t channels,
                           int64_t count)
{
  for (int64_t p = 0; p < count; p += LANES) {
    const cni_lane_bits some = cni_first_lanes(count - p);
    cni_lanes r[LANES];
    UNROLL for (int k = 0; k < LANES; k++)
    {
      r[k] = k < channels ? cni_load_lanes(some, from + k * channel + p) : (cni_lanes){0};
    }
    transpose_block(r);
    UNROLL for (int t = 0; t < LANES / 2; t++)
    {
      if (p + 2 * t >= count) return;
      float *at = to + (p / 2 + t) * ld;
      cni_store_all(at, r[2 * t]);
      cni_store_all(at + step, r[2 * t] + r[2 * t + 1]);
      cni_store_all(at + 2 * step, r[2 * t + 1]);
      cni_store_all(at + 3 * step, r[2 * t] - r[2 * t + 1]);
    }
  }
}

static void transform_grad(float *to, int64_t step, int64_t ld, const float *from, int64_t channel, int64_t channels,
                           int64_t count)
{
  for (int64_t k = 0; k < CNI_WINOGRAD_1D_LANES; k += LANES)
    transform_lanes(to + k, step, ld, from + k * channel, channel, channels - k, count);
}

const cni_winograd_1d_kernels CNI_ISA_NAME(cni_winograd_1d) = {transform_input, transform_output, transform_grad};

#endif
