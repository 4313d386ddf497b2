/* conv_depthwise_isa.c: depthwise convolutions of one plane, for AVX2, AVX-512 and NEON; empty for others. See
 * conv_depthwise_isa.h.
 *
 * Stride 1: the plane is one run of pixels. Sums t[j] over the rows of one column j of taps read x at the result's own
 * place; they are then moved j columns and added where the row has such a column. So each vector of x is read once per
 * row of taps. Stride 2: even and odd columns are deinterleaved in registers. Invariant: lanes outside the plane never
 * reach a result. */
#include "conv_depthwise_isa.h"

#if CNI_ISA_LEVEL > 0

#include <stdbool.h>
#include <stddef.h>

#include "backends/cpu/walk/lanes.h"

enum {
  LANES = CNI_LANES,
  ALL = (1 << LANES) - 1,
  MOST = CNI_DEPTHWISE_MOST,
  FLUSH = 48,
  STRIP = 8
}; /* vectors: of a partial sum, of a row */

#define ALWAYS_INLINE static inline __attribute__((always_inline))
#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

typedef struct bounds {
  cni_lanes low, high, zero;
} bounds;

static inline bounds bounds_of(const cni_depthwise *d)
{
  return (bounds){cni_all_lanes(d->low), cni_all_lanes(d->high), cni_all_lanes(d->zero)};
}

ALWAYS_INLINE cni_lanes limited(cni_lanes x, bounds b)
{
  return cni_least_lanes(b.high, cni_most_lanes(b.low, x)) + b.zero;
}

/* ---- stride 1 ---- */

ALWAYS_INLINE void forward_n(const int taps, const cni_depthwise *d, float *y, const float *x, const float *w,
                             float bias)
{
  const int mid = taps / 2;
  const int64_t total = d->h * d->w, reach = mid * d->w, nv = d->vectors;
  const uint16_t *mask = d->masks;
  const bounds b = bounds_of(d);
  cni_lanes before[MOST], sum = (cni_lanes){0}, kept[9];
  UNROLL for (int j = 0; j < taps; j++) before[j] = (cni_lanes){0};
  UNROLL for (int k = 0; k < 9; k++) kept[k] = cni_all_lanes(w[k]);
#define WEIGHT(k) (taps == 3 ? kept[k] : cni_all_lanes(w[k]))
  for (int64_t v = 0; v < nv; v++, mask += 2 * taps) {
    const float *at = x + v * LANES - reach;
    cni_lanes t[MOST];
    UNROLL for (int j = 0; j < taps; j++) t[j] = (cni_lanes){0};
    t[mid] = cni_all_lanes(bias);
    if (v * LANES >= reach && v * LANES + LANES + reach <= total) {
      UNROLL for (int i = 0; i < taps; i++)
      {
        cni_lanes row = cni_lanes_once(cni_load_lanes(ALL, at + i * d->w));
        UNROLL for (int j = 0; j < taps; j++) t[j] = cni_lanes_fma(row, WEIGHT(i * taps + j), t[j]);
      }
    } else {
      UNROLL for (int i = 0; i < taps; i++)
      {
        cni_lanes row = cni_load_lanes((cni_lane_bits)mask[i], at + i * d->w);
        UNROLL for (int j = 0; j < taps; j++) t[j] = cni_lanes_fma(row, WEIGHT(i * taps + j), t[j]);
      }
    }
    if (v > 0) {
      UNROLL for (int j = mid + 1; j < taps; j++) sum =
          cni_add_lanes(sum, (cni_lane_bits)mask[j - taps], cni_lanes_from(before[j], t[j], j - mid));
      cni_store_all(y + (v - 1) * LANES, limited(sum, b));
    }
    sum = t[mid];
    UNROLL for (int j = 0; j < mid; j++) sum =
        cni_add_lanes(sum, (cni_lane_bits)mask[taps + j], cni_lanes_from(before[j], t[j], LANES + j - mid));
    UNROLL for (int j = 0; j < taps; j++) before[j] = t[j];
  }
  UNROLL for (int j = mid + 1; j < taps; j++) sum =
      cni_add_lanes(sum, (cni_lane_bits)mask[j - taps], cni_lanes_from(before[j], (cni_lanes){0}, j - mid));
  cni_store_lanes(y + (nv - 1) * LANES, cni_first_lanes(total - (nv - 1) * LANES), limited(sum, b));
#undef WEIGHT
}

static void forward(const cni_depthwise *d, float *y, const float *x, const float *w, float bias)
{
  if (d->taps == 3) forward_n(3, d, y, x, w, bias);
  else if (d->taps == 5) forward_n(5, d, y, x, w, bias);
  else forward_n(7, d, y, x, w, bias);
}

/* Rows [first, first + rows) of taps. */
ALWAYS_INLINE void weight_n(const int taps, const int rows, int first, const cni_depthwise *d, float *w,
                            const float *x, int64_t x_step, const float *g, int64_t g_step, int64_t images)
{
  const int mid = taps / 2;
  const int64_t total = d->h * d->w, reach = mid * d->w, down = (first - mid) * d->w;
  cni_lanes acc[25], all[25];
  int64_t since = 0;
  UNROLL for (int i = 0; i < rows * taps; i++) all[i] = acc[i] = (cni_lanes){0};
  for (int64_t n = 0; n < images; n++, x += x_step, g += g_step) {
    const uint16_t *mask = d->masks;
    for (int64_t v = 0; v < d->vectors; v++, mask += 2 * taps) {
      const float *at = x + v * LANES + down, *from = g + v * LANES + mid;
      cni_lanes part[MOST];
      UNROLL for (int j = 0; j < taps; j++) part[j] = cni_load_lanes((cni_lane_bits)mask[taps + j], from - j);
      if (v * LANES >= reach && v * LANES + LANES + reach <= total) {
        UNROLL for (int i = 0; i < rows; i++)
        {
          cni_lanes row = cni_lanes_once(cni_load_lanes(ALL, at + i * d->w));
          UNROLL for (int j = 0; j < taps; j++) acc[i * taps + j] = cni_lanes_fma(row, part[j], acc[i * taps + j]);
        }
      } else {
        UNROLL for (int i = 0; i < rows; i++)
        {
          cni_lanes row = cni_load_lanes((cni_lane_bits)mask[first + i], at + i * d->w);
          UNROLL for (int j = 0; j < taps; j++) acc[i * taps + j] = cni_lanes_fma(row, part[j], acc[i * taps + j]);
        }
      }
      if (++since < FLUSH) continue;
      since = 0;
      UNROLL for (int i = 0; i < rows * taps; i++)
      {
        all[i] = all[i] + acc[i];
        acc[i] = (cni_lanes){0};
      }
    }
  }
  UNROLL for (int i = 0; i < rows * taps; i++) w[first * taps + i] +=
      cni_sum_lanes((all[i] + acc[i]));
}

static void weight(const cni_depthwise *d, float *w, const float *x, int64_t x_step, const float *g, int64_t g_step,
                   int64_t images)
{
  if (d->taps == 3) {
    weight_n(3, 3, 0, d, w, x, x_step, g, g_step, images);
  } else if (d->taps == 5) {
    weight_n(5, 3, 0, d, w, x, x_step, g, g_step, images);
    weight_n(5, 2, 3, d, w, x, x_step, g, g_step, images);
  } else {
    weight_n(7, 3, 0, d, w, x, x_step, g, g_step, images);
    weight_n(7, 2, 3, d, w, x, x_step, g, g_step, images);
    weight_n(7, 2, 5, d, w, x, x_step, g, g_step, images);
  }
}

/* ---- stride 2, 3 x 3, padding 1 ---- */

/* Narrow planes put two rows of results into a vector. */
static bool in_pairs(const cni_depthwise *d) { return d->ow <= LANES / 2; }

/* The three vectors of taps in one row of x, columns 2 l - 1, 2 l and 2 l + 1, seen from results at (oy, ox); pairs: of
 * rows oy and oy + 1. */
ALWAYS_INLINE void taps_of(const cni_depthwise *d, const bool pair, const float *x, int64_t oy, int64_t ox, int i,
                           cni_lanes *tap)
{
  int64_t y = 2 * oy + i - 1, left = d->w - 2 * ox;
  bool there = y >= 0 && y < d->h, other = y + 2 < d->h && oy + 1 < d->oh;
  const float *at = x + y * d->w + 2 * ox, *next = pair ? x + (y + 2) * d->w : at + LANES;
  cni_lanes a = cni_load_lanes(there ? cni_first_lanes(left) : 0, at), before = {0};
  cni_lane_bits second = pair ? cni_first_lanes(d->w) : cni_first_lanes(left - LANES);
  cni_lanes b = cni_load_lanes((pair ? other : there) ? second : 0, next);
  if (there && ox > 0) before = cni_all_lanes(at[-1]);
  tap[1] = cni_evens(a, b);
  tap[2] = cni_odds(a, b);
  tap[0] = cni_lanes_from(before, tap[2], LANES - 1);
  if (pair) tap[0] = cni_without_middle(tap[0]);
}

/* Two rows of results in a vector. */
static void half_forward_pair(const cni_depthwise *d, float *y, const float *x, const cni_lanes *w,
                              cni_lanes b)
{
  const cni_lane_bits row = cni_first_lanes(d->ow);
  for (int64_t oy = 0; oy < d->oh; oy += 2) {
    cni_lanes sum[3] = {b, (cni_lanes){0}, (cni_lanes){0}};
    UNROLL for (int i = 0; i < 3; i++)
    {
      cni_lanes tap[3];
      taps_of(d, true, x, oy, 0, i, tap);
      UNROLL for (int j = 0; j < 3; j++) sum[j] = cni_lanes_fma(tap[j], w[3 * i + j], sum[j]);
    }
    sum[0] = limited(sum[0] + (sum[1] + sum[2]), bounds_of(d));
    float *to = y + oy * d->ow;
    cni_store_lanes(to, row, sum[0]);
    if (oy + 1 < d->oh) cni_store_lanes(to + d->ow, row, cni_upper_half(sum[0]));
  }
}

/* Results of columns [first, end), `most` vectors of them. */
ALWAYS_INLINE void half_forward_strip(const int most, const cni_depthwise *d, float *y,
                                      const float *x, const cni_lanes *w, cni_lanes b, int64_t first, int64_t end)
{
  cni_lanes above[STRIP][3]; /* the lowest row of taps of the results before */
  for (int c = 0; c < most; c++) above[c][0] = above[c][1] = above[c][2] = (cni_lanes){0};
  for (int64_t oy = 0; oy < d->oh; oy++) {
    int64_t ox = first;
    for (int c = 0; c < most && ox < end; ox += LANES, c++) {
      cni_lanes sum[3] = {b, (cni_lanes){0}, (cni_lanes){0}}, tap[2][3];
      taps_of(d, false, x, oy, ox, 1, tap[0]);
      taps_of(d, false, x, oy, ox, 2, tap[1]);
      UNROLL for (int j = 0; j < 3; j++)
      {
        sum[j] = cni_lanes_fma(above[c][j], w[j], sum[j]);
        sum[j] = cni_lanes_fma(tap[0][j], w[3 + j], sum[j]);
        sum[j] = cni_lanes_fma(tap[1][j], w[6 + j], sum[j]);
        above[c][j] = tap[1][j];
      }
      cni_store_lanes(y + oy * d->ow + ox, cni_first_lanes(d->ow - ox),
                      limited(sum[0] + (sum[1] + sum[2]), bounds_of(d)));
    }
  }
}

static void half_forward(const cni_depthwise *d, float *y, const float *x, const float *weights, float bias)
{
  cni_lanes w[9], b = cni_all_lanes(bias);
  UNROLL for (int k = 0; k < 9; k++) w[k] = cni_all_lanes(weights[k]);
  if (in_pairs(d)) half_forward_pair(d, y, x, w, b);
  else if (d->ow <= LANES) half_forward_strip(1, d, y, x, w, b, 0, d->ow);
  else
    for (int64_t first = 0; first < d->ow; first += STRIP * LANES) {
      int64_t end = d->ow < first + STRIP * LANES ? d->ow : first + STRIP * LANES;
      half_forward_strip(STRIP, d, y, x, w, b, first, end);
    }
}

ALWAYS_INLINE void half_weight_of(const bool pair, const cni_depthwise *d, float *w, const float *x, int64_t x_step,
                                  const float *g, int64_t g_step, int64_t images)
{
  cni_lanes acc[9], all[9];
  int64_t since = 0;
  UNROLL for (int i = 0; i < 9; i++) all[i] = acc[i] = (cni_lanes){0};
  for (int64_t n = 0; n < images; n++, x += x_step, g += g_step)
    for (int64_t oy = 0; oy < d->oh; oy += pair ? 2 : 1)
      for (int64_t ox = 0; ox < d->ow; ox += LANES) {
        const float *from = g + oy * d->ow + ox;
        cni_lane_bits row = cni_first_lanes(d->ow - ox);
        cni_lanes part = cni_load_lanes(row, from);
        if (pair && oy + 1 < d->oh) part = cni_lower_halves(part, cni_load_lanes(row, from + d->ow));
        UNROLL for (int i = 0; i < 3; i++)
        {
          cni_lanes tap[3];
          taps_of(d, pair, x, oy, ox, i, tap);
          UNROLL for (int j = 0; j < 3; j++) acc[3 * i + j] = cni_lanes_fma(tap[j], part, acc[3 * i + j]);
        }
        if (++since < FLUSH) continue;
        since = 0;
        UNROLL for (int i = 0; i < 9; i++)
        {
          all[i] = all[i] + acc[i];
          acc[i] = (cni_lanes){0};
        }
      }
  UNROLL for (int i = 0; i < 9; i++) w[i] += cni_sum_lanes((all[i] + acc[i]));
}

static void half_weight(const cni_depthwise *d, float *w, const float *x, int64_t x_step, const float *g,
                        int64_t g_step, int64_t images)
{
  if (in_pairs(d)) half_weight_of(true, d, w, x, x_step, g, g_step, images);
  else half_weight_of(false, d, w, x, x_step, g, g_step, images);
}

/* Two rows of x at a time: even ones lie under one row of taps, odd ones under two. */
static void half_input(const cni_depthwise *d, float *x, const float *g, const float *w)
{
  cni_lanes t[9];
  for (int i = 0; i < 9; i++) t[i] = cni_all_lanes(w[i]);
  for (int64_t a = 0; a < d->oh; a++)
    for (int64_t b = 0; b < d->ow; b += LANES) {
      const float *at = g + a * d->ow + b;
      cni_lane_bits here = cni_first_lanes(d->ow - b), next = cni_first_lanes(d->ow - b - 1);
      bool below = a + 1 < d->oh;
      cni_lanes g00 = cni_load_lanes(here, at), g01 = cni_load_lanes(next, at + 1);
      cni_lanes g10 = cni_load_lanes(below ? here : 0, at + d->ow);
      cni_lanes g11 = cni_load_lanes(below ? next : 0, at + d->ow + 1);
      cni_lanes even[2] = {(t[4] * g00), cni_lanes_fma(t[7], g00, (t[1] * g10))};
      cni_lanes odd[2] = {cni_lanes_fma(t[5], g00, (t[3] * g01)),
                       cni_lanes_fma(t[8], g00, (t[6] * g01))};
      odd[1] = odd[1] + cni_lanes_fma(t[2], g10, t[0] * g11);
      int64_t left = d->w - 2 * b;
      for (int64_t r = 0; r < 2 && 2 * a + r < d->h; r++) {
        float *to = x + (2 * a + r) * d->w + 2 * b;
        cni_store_lanes(to, cni_first_lanes(left), cni_zip_low(even[r], odd[r]));
        if (left > LANES)
          cni_store_lanes(to + LANES, cni_first_lanes(left - LANES),
                                cni_zip_high(even[r], odd[r]));
      }
    }
}

const cni_depthwise_kernels CNI_ISA_NAME(cni_depthwise) = {.lanes = LANES,
                                                    .forward = forward,
                                                    .weight = weight,
                                                    .half_forward = half_forward,
                                                    .half_input = half_input,
                                                    .half_weight = half_weight};

#endif
