/* conv_depthwise_kernels.c: depthwise convolutions of one plane. See conv_depthwise_kernels.h.
 *
 * Stride 1: the plane is one run of pixels. Sums t[j] over the rows of one column j of taps read x at the result's own
 * place; they are then moved j columns and added where the row has such a column. So each vector of x is read once per
 * row of taps. Stride 2: even and odd columns are deinterleaved in registers. Invariant: lanes outside the plane never
 * reach a result. */
#include "conv_depthwise_kernels.h"

#include <stdbool.h>
#include <stddef.h>

#include "backends/cpu/walk/avx512/lanes.h"

enum {
  LANES = CNI_DEPTHWISE_LANES,
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

/* ---- stride 1 ---- */

/* lanes[l] = (low, high)[l + by] */
ALWAYS_INLINE __m512 moved(__m512 low, __m512 high, const int by)
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

ALWAYS_INLINE __m512 add_where(__m512 sum, uint16_t mask, __m512 other)
{
  return _mm512_mask_add_ps(sum, mask, sum, other);
}

ALWAYS_INLINE void forward_n(const int taps, const cni_depthwise *d, float *y, const float *x, const float *w,
                             float bias)
{
  const int mid = taps / 2;
  const int64_t total = d->h * d->w, reach = mid * d->w, nv = d->vectors;
  const uint16_t *mask = d->masks;
  __m512 before[MOST], sum = _mm512_setzero_ps(), kept[9];
  UNROLL for (int j = 0; j < taps; j++) before[j] = _mm512_setzero_ps();
  UNROLL for (int k = 0; k < 9; k++) kept[k] = _mm512_set1_ps(w[k]);
#define WEIGHT(k) (taps == 3 ? kept[k] : _mm512_set1_ps(w[k]))
  for (int64_t v = 0; v < nv; v++, mask += 2 * taps) {
    const float *at = x + v * LANES - reach;
    __m512 t[MOST];
    UNROLL for (int j = 0; j < taps; j++) t[j] = _mm512_setzero_ps();
    t[mid] = _mm512_set1_ps(bias);
    if (v * LANES >= reach && v * LANES + LANES + reach <= total) {
      UNROLL for (int i = 0; i < taps; i++)
      {
        __m512 row = _mm512_loadu_ps(at + i * d->w);
        UNROLL for (int j = 0; j < taps; j++) t[j] = _mm512_fmadd_ps(row, WEIGHT(i * taps + j), t[j]);
      }
    } else {
      UNROLL for (int i = 0; i < taps; i++)
      {
        __m512 row = _mm512_maskz_loadu_ps(mask[i], at + i * d->w);
        UNROLL for (int j = 0; j < taps; j++) t[j] = _mm512_fmadd_ps(row, WEIGHT(i * taps + j), t[j]);
      }
    }
    if (v > 0) {
      UNROLL for (int j = mid + 1; j < taps; j++) sum =
          add_where(sum, mask[j - taps], moved(before[j], t[j], j - mid));
      _mm512_storeu_ps(y + (v - 1) * LANES, sum);
    }
    sum = t[mid];
    UNROLL for (int j = 0; j < mid; j++) sum =
        add_where(sum, mask[taps + j], moved(before[j], t[j], LANES + j - mid));
    UNROLL for (int j = 0; j < taps; j++) before[j] = t[j];
  }
  UNROLL for (int j = mid + 1; j < taps; j++) sum =
      add_where(sum, mask[j - taps], moved(before[j], _mm512_setzero_ps(), j - mid));
  _mm512_mask_storeu_ps(y + (nv - 1) * LANES, cni_first_lanes(total - (nv - 1) * LANES), sum);
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
  __m512 acc[25], all[25];
  int64_t since = 0;
  UNROLL for (int i = 0; i < rows * taps; i++) all[i] = acc[i] = _mm512_setzero_ps();
  for (int64_t n = 0; n < images; n++, x += x_step, g += g_step) {
    const uint16_t *mask = d->masks;
    for (int64_t v = 0; v < d->vectors; v++, mask += 2 * taps) {
      const float *at = x + v * LANES + down, *from = g + v * LANES + mid;
      __m512 part[MOST];
      UNROLL for (int j = 0; j < taps; j++) part[j] = _mm512_maskz_loadu_ps(mask[taps + j], from - j);
      if (v * LANES >= reach && v * LANES + LANES + reach <= total) {
        UNROLL for (int i = 0; i < rows; i++)
        {
          __m512 row = _mm512_loadu_ps(at + i * d->w);
          UNROLL for (int j = 0; j < taps; j++) acc[i * taps + j] = _mm512_fmadd_ps(row, part[j], acc[i * taps + j]);
        }
      } else {
        UNROLL for (int i = 0; i < rows; i++)
        {
          __m512 row = _mm512_maskz_loadu_ps(mask[first + i], at + i * d->w);
          UNROLL for (int j = 0; j < taps; j++) acc[i * taps + j] = _mm512_fmadd_ps(row, part[j], acc[i * taps + j]);
        }
      }
      if (++since < FLUSH) continue;
      since = 0;
      UNROLL for (int i = 0; i < rows * taps; i++)
      {
        all[i] = _mm512_add_ps(all[i], acc[i]);
        acc[i] = _mm512_setzero_ps();
      }
    }
  }
  UNROLL for (int i = 0; i < rows * taps; i++) w[first * taps + i] +=
      _mm512_reduce_add_ps(_mm512_add_ps(all[i], acc[i]));
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

/* Where a vector of results finds its taps: columns 2 l - 1, 2 l, 2 l + 1 of two vectors of x. Narrow planes put two
 * rows of results into a vector. */
typedef struct parting {
  __m512i left, mid, right;
  bool pair;
} parting;

static parting parting_of(const cni_depthwise *d)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i one = _mm512_set1_epi32(1);
  return (parting){_mm512_sub_epi32(even, one), even, _mm512_add_epi32(even, one), d->ow <= LANES / 2};
}

/* The three vectors of taps in one row of x, seen from results at (oy, ox); pairs: of rows oy and oy + 1. */
ALWAYS_INLINE void taps_of(const cni_depthwise *d, const parting *p, const float *x, int64_t oy, int64_t ox, int i,
                           __m512 *tap)
{
  int64_t y = 2 * oy + i - 1, left = d->w - 2 * ox;
  if (p->pair) {
    __mmask16 row = cni_first_lanes(d->w);
    __m512 a = _mm512_maskz_loadu_ps(y >= 0 && y < d->h ? row : 0, x + y * d->w);
    __m512 b = _mm512_maskz_loadu_ps(y + 2 < d->h && oy + 1 < d->oh ? row : 0, x + (y + 2) * d->w);
    tap[0] = _mm512_maskz_permutex2var_ps(0xfefe, a, p->left, b);
    tap[1] = _mm512_permutex2var_ps(a, p->mid, b);
    tap[2] = _mm512_permutex2var_ps(a, p->right, b);
    return;
  }
  bool there = y >= 0 && y < d->h;
  const float *at = x + y * d->w + 2 * ox;
  __m512 a = _mm512_maskz_loadu_ps(there ? cni_first_lanes(left) : 0, at);
  __m512 b = _mm512_maskz_loadu_ps(there ? cni_first_lanes(left - LANES) : 0, at + LANES);
  tap[0] = _mm512_maskz_permutex2var_ps(0xfffe, a, p->left, b);
  if (there && ox > 0) tap[0] = _mm512_mask_broadcastss_ps(tap[0], 1, _mm_load_ss(at - 1));
  tap[1] = _mm512_permutex2var_ps(a, p->mid, b);
  tap[2] = _mm512_permutex2var_ps(a, p->right, b);
}

/* Two rows of results in a vector. */
static void half_forward_pair(const cni_depthwise *d, const parting *p, float *y, const float *x, const __m512 *w,
                              __m512 b)
{
  const __mmask16 row = cni_first_lanes(d->ow);
  for (int64_t oy = 0; oy < d->oh; oy += 2) {
    __m512 sum[3] = {b, _mm512_setzero_ps(), _mm512_setzero_ps()};
    UNROLL for (int i = 0; i < 3; i++)
    {
      __m512 tap[3];
      taps_of(d, p, x, oy, 0, i, tap);
      UNROLL for (int j = 0; j < 3; j++) sum[j] = _mm512_fmadd_ps(tap[j], w[3 * i + j], sum[j]);
    }
    sum[0] = _mm512_add_ps(sum[0], _mm512_add_ps(sum[1], sum[2]));
    float *to = y + oy * d->ow;
    _mm512_mask_storeu_ps(to, row, sum[0]);
    if (oy + 1 < d->oh) _mm512_mask_storeu_ps(to + d->ow - 8, (__mmask16)(row << 8), sum[0]);
  }
}

/* Results of columns [first, end), `most` vectors of them. */
ALWAYS_INLINE void half_forward_strip(const int most, const cni_depthwise *d, const parting *p, float *y,
                                      const float *x, const __m512 *w, __m512 b, int64_t first, int64_t end)
{
  __m512 above[STRIP][3]; /* the lowest row of taps of the results before */
  for (int c = 0; c < most; c++) above[c][0] = above[c][1] = above[c][2] = _mm512_setzero_ps();
  for (int64_t oy = 0; oy < d->oh; oy++) {
    int64_t ox = first;
    for (int c = 0; c < most && ox < end; ox += LANES, c++) {
      __m512 sum[3] = {b, _mm512_setzero_ps(), _mm512_setzero_ps()}, tap[2][3];
      taps_of(d, p, x, oy, ox, 1, tap[0]);
      taps_of(d, p, x, oy, ox, 2, tap[1]);
      UNROLL for (int j = 0; j < 3; j++)
      {
        sum[j] = _mm512_fmadd_ps(above[c][j], w[j], sum[j]);
        sum[j] = _mm512_fmadd_ps(tap[0][j], w[3 + j], sum[j]);
        sum[j] = _mm512_fmadd_ps(tap[1][j], w[6 + j], sum[j]);
        above[c][j] = tap[1][j];
      }
      _mm512_mask_storeu_ps(y + oy * d->ow + ox, cni_first_lanes(d->ow - ox),
                            _mm512_add_ps(sum[0], _mm512_add_ps(sum[1], sum[2])));
    }
  }
}

static void half_forward(const cni_depthwise *d, float *y, const float *x, const float *weights, float bias)
{
  const parting p = parting_of(d);
  __m512 w[9], b = _mm512_set1_ps(bias);
  UNROLL for (int k = 0; k < 9; k++) w[k] = _mm512_set1_ps(weights[k]);
  if (p.pair) half_forward_pair(d, &p, y, x, w, b);
  else if (d->ow <= LANES) half_forward_strip(1, d, &p, y, x, w, b, 0, d->ow);
  else
    for (int64_t first = 0; first < d->ow; first += STRIP * LANES) {
      int64_t end = d->ow < first + STRIP * LANES ? d->ow : first + STRIP * LANES;
      half_forward_strip(STRIP, d, &p, y, x, w, b, first, end);
    }
}

static void half_weight(const cni_depthwise *d, float *w, const float *x, int64_t x_step, const float *g,
                        int64_t g_step, int64_t images)
{
  const parting p = parting_of(d);
  __m512 acc[9], all[9];
  int64_t since = 0;
  UNROLL for (int i = 0; i < 9; i++) all[i] = acc[i] = _mm512_setzero_ps();
  for (int64_t n = 0; n < images; n++, x += x_step, g += g_step)
    for (int64_t oy = 0; oy < d->oh; oy += p.pair ? 2 : 1)
      for (int64_t ox = 0; ox < d->ow; ox += LANES) {
        const float *from = g + oy * d->ow + ox;
        __mmask16 row = cni_first_lanes(d->ow - ox);
        __m512 part = _mm512_maskz_loadu_ps(row, from);
        if (p.pair && oy + 1 < d->oh) part = _mm512_mask_loadu_ps(part, (__mmask16)(row << 8), from + d->ow - 8);
        UNROLL for (int i = 0; i < 3; i++)
        {
          __m512 tap[3];
          taps_of(d, &p, x, oy, ox, i, tap);
          UNROLL for (int j = 0; j < 3; j++) acc[3 * i + j] = _mm512_fmadd_ps(tap[j], part, acc[3 * i + j]);
        }
        if (++since < FLUSH) continue;
        since = 0;
        UNROLL for (int i = 0; i < 9; i++)
        {
          all[i] = _mm512_add_ps(all[i], acc[i]);
          acc[i] = _mm512_setzero_ps();
        }
      }
  UNROLL for (int i = 0; i < 9; i++) w[i] += _mm512_reduce_add_ps(_mm512_add_ps(all[i], acc[i]));
}

/* Two rows of x at a time: even ones lie under one row of taps, odd ones under two. */
static void half_input(const cni_depthwise *d, float *x, const float *g, const float *w)
{
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  __m512 t[9];
  for (int i = 0; i < 9; i++) t[i] = _mm512_set1_ps(w[i]);
  for (int64_t a = 0; a < d->oh; a++)
    for (int64_t b = 0; b < d->ow; b += LANES) {
      const float *at = g + a * d->ow + b;
      __mmask16 here = cni_first_lanes(d->ow - b), next = cni_first_lanes(d->ow - b - 1);
      bool below = a + 1 < d->oh;
      __m512 g00 = _mm512_maskz_loadu_ps(here, at), g01 = _mm512_maskz_loadu_ps(next, at + 1);
      __m512 g10 = _mm512_maskz_loadu_ps(below ? here : 0, at + d->ow);
      __m512 g11 = _mm512_maskz_loadu_ps(below ? next : 0, at + d->ow + 1);
      __m512 even[2] = {_mm512_mul_ps(t[4], g00), _mm512_fmadd_ps(t[7], g00, _mm512_mul_ps(t[1], g10))};
      __m512 odd[2] = {_mm512_fmadd_ps(t[5], g00, _mm512_mul_ps(t[3], g01)),
                       _mm512_fmadd_ps(t[8], g00, _mm512_mul_ps(t[6], g01))};
      odd[1] = _mm512_add_ps(odd[1], _mm512_fmadd_ps(t[2], g10, _mm512_mul_ps(t[0], g11)));
      int64_t left = d->w - 2 * b;
      for (int64_t r = 0; r < 2 && 2 * a + r < d->h; r++) {
        float *to = x + (2 * a + r) * d->w + 2 * b;
        _mm512_mask_storeu_ps(to, cni_first_lanes(left), _mm512_permutex2var_ps(even[r], low, odd[r]));
        if (left > LANES)
          _mm512_mask_storeu_ps(to + LANES, cni_first_lanes(left - LANES),
                                _mm512_permutex2var_ps(even[r], high, odd[r]));
      }
    }
}

const cni_depthwise_kernels cni_depthwise_avx512 = {.forward = forward,
                                                    .weight = weight,
                                                    .half_forward = half_forward,
                                                    .half_input = half_input,
                                                    .half_weight = half_weight};
