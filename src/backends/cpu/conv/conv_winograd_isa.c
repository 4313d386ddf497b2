/* conv_winograd_isa.c: the transforms of 3 x 3 Winograd convolutions: a vector of tiles of a row at a time, even and
 * odd columns deinterleaved and interleaved in registers. Compiled for AVX2, AVX-512 and NEON; empty for others.
 *
 * Invariant: only additions and halvings, but for large tiles, in one fixed order per tile, whichever lane it falls
 * into. */
#include "conv_winograd_isa.h"

#include "conv_direct_isa.h"

#if CNI_ISA_LEVEL > 0

#include <stddef.h>
#include <string.h>

#include "backends/cpu/walk/lanes.h"

enum { LANES = CNI_LANES, ROWS = CNI_CONV_ROWS };

#define ALWAYS_INLINE static inline __attribute__((always_inline))

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* Lanes l with 0 <= at + l < w. */
static inline cni_lane_bits lanes_inside(int64_t at, int64_t w)
{
  cni_lane_bits end = cni_first_lanes(w - at);
  return at >= 0 ? end : (cni_lane_bits)(end & ~cni_first_lanes(-at));
}

/* ---- stride 1: F(2 x 2, 3 x 3) ---- */

ALWAYS_INLINE void image_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  cni_lane_bits inside[4];
  for (int i = 0; i < 4; i++) inside[i] = lanes_inside(r->x + (i & 1) * LANES + (i >> 1) * 2, r->w);
  cni_lanes d[4][4];
  UNROLL for (int i = 0; i < 4; i++)
  {
    int64_t y = r->y + i;
    bool there = y >= 0 && y < r->h;
    const float *at = plane + y * r->row + r->x;
    cni_lanes a = cni_load_lanes(there ? inside[0] : 0, at), b = (cni_lanes){0}, c, e = b;
    c = cni_load_lanes(there ? inside[2] : 0, at + 2);
    if (r->count > LANES / 2 - 1) {
      b = cni_load_lanes(there ? inside[1] : 0, at + LANES);
      e = cni_load_lanes(there ? inside[3] : 0, at + LANES + 2);
    }
    cni_lanes x0 = cni_evens(a, b), x1 = cni_odds(a, b);
    cni_lanes x2 = cni_evens(c, e), x3 = cni_odds(c, e);
    d[i][0] = x0 - x2;
    d[i][1] = x1 + x2;
    d[i][2] = x2 - x1;
    d[i][3] = x1 - x3;
  }
  UNROLL for (int j = 0; j < 4; j++)
  {
    cni_store_lanes(v + j * step, whole, d[0][j] - d[2][j]);
    cni_store_lanes(v + (4 + j) * step, whole, d[1][j] + d[2][j]);
    cni_store_lanes(v + (8 + j) * step, whole, d[2][j] - d[1][j]);
    cni_store_lanes(v + (12 + j) * step, whole, d[1][j] - d[3][j]);
  }
}

ALWAYS_INLINE bool result_part(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 2 * r->count ? r->w - r->x : 2 * r->count;
  cni_lanes t[2][4], b = cni_all_lanes(bias);
  UNROLL for (int j = 0; j < 4; j++)
  {
    cni_lanes a0 = cni_load_lanes(whole, m + j * step), a1 = cni_load_lanes(whole, m + (4 + j) * step);
    cni_lanes a2 = cni_load_lanes(whole, m + (8 + j) * step);
    cni_lanes a3 = cni_load_lanes(whole, m + (12 + j) * step);
    t[0][j] = (a0 + a1) + a2;
    t[1][j] = (a1 - a2) - a3;
  }
  cni_lanes all = (cni_lanes){0};
  for (int i = 0; i < 2; i++) {
    cni_lanes left = (t[i][0] + t[i][1]) + (t[i][2] + b);
    cni_lanes right = ((t[i][1] - t[i][2]) - t[i][3]) + b;
    all = all + (left + right);
    if (r->y + i >= r->h) break;
    float *to = plane + (r->y + i) * r->row + r->x;
    cni_store_lanes(to, cni_first_lanes(columns), cni_zip_low(left, right));
    if (columns > LANES)
      cni_store_lanes(to + LANES, cni_first_lanes(columns - LANES), cni_zip_high(left, right));
  }
  return cni_all_finite(all);
}

/* A value of each row of a panel of weights. */
typedef float taps __attribute__((vector_size(4 * ROWS)));

ALWAYS_INLINE void store_taps(float *to, taps v) { memcpy(to, &v, sizeof v); }

#if CNI_FOR_AVX512
/* to[k] = element k of each of the 8 rows. */
static inline void transpose_rows(taps *to, const float *from, int64_t row)
{
  __m256 a[8], b[8];
  UNROLL for (int i = 0; i < 8; i++) a[i] = _mm256_loadu_ps(from + i * row);
  UNROLL for (int i = 0; i < 8; i += 2)
  {
    b[i] = _mm256_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm256_unpackhi_ps(a[i], a[i + 1]);
  }
  UNROLL for (int i = 0; i < 8; i += 4)
  {
    a[i] = _mm256_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm256_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm256_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    to[i] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x20);
    to[i + 4] = _mm256_permute2f128_ps(a[i], a[i + 4], 0x31);
  }
}
#elif CNI_FOR_NEON
/* to[k] = element k of each of the 8 rows, in four blocks of 4 x 4. */
static inline void transpose_rows(taps *to, const float *from, int64_t row)
{
  UNROLL for (int block = 0; block < 4; block++)
  {
    const int first = block / 2 * 4, half = block % 2 * 4;
    const float *at = from + first * row + half;
    cni_lanes a = vld1q_f32(at), b = vld1q_f32(at + row), c = vld1q_f32(at + 2 * row), d = vld1q_f32(at + 3 * row);
    cni_lanes x = cni_zip_low(a, c), y = cni_zip_low(b, d), u = cni_zip_high(a, c), v = cni_zip_high(b, d);
    cni_lanes turned[4] = {cni_zip_low(x, y), cni_zip_high(x, y), cni_zip_low(u, v), cni_zip_high(u, v)};
    UNROLL for (int k = 0; k < 4; k++) memcpy((char *)&to[half + k] + 4 * first, &turned[k], sizeof turned[k]);
  }
}
#else
/* to[k] = element k, of 8, of each of the 4 rows. */
static inline void transpose_rows(taps *to, const float *from, int64_t row)
{
  UNROLL for (int half = 0; half < 8; half += 4)
  {
    __m128 a = _mm_loadu_ps(from + half), b = _mm_loadu_ps(from + row + half);
    __m128 c = _mm_loadu_ps(from + 2 * row + half), d = _mm_loadu_ps(from + 3 * row + half);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    to[half] = a, to[half + 1] = b, to[half + 2] = c, to[half + 3] = d;
  }
}
#endif

/* to[k] = tap k of each of the rows. */
static inline void take_taps(taps *to, const float *w, int64_t row)
{
  transpose_rows(to, w, row);
  UNROLL for (int i = 0; i < ROWS; i++) to[8][i] = w[i * row + 8];
}

static inline void weight_taps(float *u, const int64_t *at, const float *w, int64_t row, const bool flipped)
{
  const float half = 0.5f;
  taps own[9], g[9];
  take_taps(own, w, row);
  UNROLL for (int k = 0; k < 9; k++) g[k] = own[flipped ? 8 - k : k];
  taps t[4][3];
  UNROLL for (int j = 0; j < 3; j++)
  {
    taps a = g[j], b = g[3 + j], c = g[6 + j];
    taps sum = a + c;
    t[0][j] = a;
    t[1][j] = half * (sum + b);
    t[2][j] = half * (sum - b);
    t[3][j] = c;
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    taps sum = t[i][0] + t[i][2];
    store_taps(u + at[4 * i], t[i][0]);
    store_taps(u + at[4 * i + 1], (half * (sum + t[i][1])));
    store_taps(u + at[4 * i + 2], (half * (sum - t[i][1])));
    store_taps(u + at[4 * i + 3], t[i][2]);
  }
}

static void weight(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  if (flipped) weight_taps(u + r * ROWS, at, w, row, true);
  else weight_taps(u + r * ROWS, at, w, row, false);
}

ALWAYS_INLINE void grad_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const cni_lane_bits low = cni_first_lanes(r->w - r->x), high = cni_first_lanes(r->w - r->x - LANES);
  const cni_lanes zero = (cni_lanes){0};
  cni_lanes d[2][4];
  UNROLL for (int i = 0; i < 2; i++)
  {
    bool there = r->y + i < r->h;
    const float *at = plane + (r->y + i) * r->row + r->x;
    cni_lanes a = cni_load_lanes(there ? low : 0, at), b = cni_load_lanes(there ? high : 0, at + LANES);
    d[i][0] = cni_evens(a, b);
    d[i][3] = cni_odds(a, b);
    d[i][1] = d[i][0] + d[i][3];
    d[i][2] = d[i][0] - d[i][3];
    d[i][3] = zero - d[i][3];
  }
  UNROLL for (int j = 0; j < 4; j++)
  {
    cni_store_lanes(v + j * step, whole, d[0][j]);
    cni_store_lanes(v + (4 + j) * step, whole, d[0][j] + d[1][j]);
    cni_store_lanes(v + (8 + j) * step, whole, d[0][j] - d[1][j]);
    cni_store_lanes(v + (12 + j) * step, whole, zero - d[1][j]);
  }
}

static bool weight_back(float *w, int64_t apart, const float *m, int64_t step, int64_t count)
{
  const cni_lanes half = cni_all_lanes(0.5f);
  cni_lanes all = (cni_lanes){0};
  for (int64_t c = 0; c < count; c += LANES) {
    const cni_lane_bits some = cni_first_lanes(count - c);
    float out[9][LANES];
    cni_lanes t[3][4];
    UNROLL for (int j = 0; j < 4; j++)
    {
      cni_lanes a[4];
      UNROLL for (int i = 0; i < 4; i++) a[i] = cni_load_lanes(some, m + c + (4 * i + j) * step);
      cni_lanes sum = half * (a[1] + a[2]);
      t[0][j] = a[0] + sum;
      t[1][j] = half * (a[1] - a[2]);
      t[2][j] = sum + a[3];
    }
    UNROLL for (int i = 0; i < 3; i++)
    {
      cni_lanes sum = (half * (t[i][1] + t[i][2])), row[3];
      row[0] = t[i][0] + sum;
      row[1] = half * (t[i][1] - t[i][2]);
      row[2] = sum + t[i][3];
      UNROLL for (int j = 0; j < 3; j++)
      {
        cni_store_all(out[3 * i + j], row[j]);
        all = all + row[j];
      }
    }
    for (int64_t l = 0; l < LANES && c + l < count; l++)
      UNROLL for (int k = 0; k < 9; k++) w[(c + l) * apart + k] = out[k][l];
  }
  return cni_all_finite(all);
}

/* ---- stride 2 ----
 * Elements d0 ... d4 of a dim under two windows; results g0 d0 + g1 d1 + g2 d2 and g0 d2 + g1 d3 + g2 d4 are p0 + p1
 * and p1 + p2 of p0 = g0 (d0 - d2) + g1 d1, p1 = (g0 + g2) d2, p2 = g2 (d4 - d2) + g1 d3. */

/* Columns 0 ... 4 of a vector of patches of a row, 4 apart; then their 5 parts. */
static inline void row_parts(cni_lanes *to, const float *at, const cni_lane_bits *inside)
{
  cni_lanes a = cni_load_lanes(inside[0], at), b = cni_load_lanes(inside[1], at + LANES);
  cni_lanes c = cni_load_lanes(inside[2], at + 2 * LANES), d = cni_load_lanes(inside[3], at + 3 * LANES);
  cni_lanes next = cni_load_lanes(inside[4], at + 4 * LANES);
  cni_lanes low = cni_evens(a, b), high = cni_evens(c, d);
  cni_lanes d0 = cni_evens(low, high), d2 = cni_odds(low, high);
  low = cni_odds(a, b), high = cni_odds(c, d);
  to[1] = cni_evens(low, high);
  to[4] = cni_odds(low, high);
  cni_lanes d4 = cni_lanes_from(d0, next, 1);
  to[0] = d0 - d2;
  to[2] = d2;
  to[3] = d4 - d2;
}

ALWAYS_INLINE void image_2_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  cni_lane_bits inside[5], none[5] = {0};
  for (int i = 0; i < 5; i++) inside[i] = i * LANES <= 4 * r->count ? lanes_inside(r->x + i * LANES, r->w) : 0;
  inside[4] &= 1;
  cni_lanes mid[5], d[5];
  UNROLL for (int k = 0; k < 5; k++)
  {
    const int i = k == 0 ? 2 : k == 1 ? 0 : k == 2 ? 1 : k == 3 ? 4 : 3; /* the middle first: others want it */
    const int part = i < 3 ? i : 7 - i;
    int64_t y = r->y + i;
    row_parts(d, plane + y * r->row + r->x, y >= 0 && y < r->h ? inside : none);
    UNROLL for (int j = 0; j < 5; j++)
    {
      if (i == 2) mid[j] = d[j];
      if (i == 0 || i == 4) d[j] -= mid[j];
      cni_store_lanes(v + (5 * part + j) * step, whole, d[j]);
    }
  }
}

ALWAYS_INLINE bool result_2_part(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 2 * r->count ? r->w - r->x : 2 * r->count;
  cni_lanes t[2][3], b = cni_all_lanes(bias), all = (cni_lanes){0};
  UNROLL for (int j = 0; j < 3; j++)
  {
    cni_lanes mid = cni_load_lanes(whole, m + (3 + j) * step);
    t[0][j] = cni_load_lanes(whole, m + j * step) + mid;
    t[1][j] = cni_load_lanes(whole, m + (6 + j) * step) + mid;
  }
  for (int i = 0; i < 2; i++) {
    cni_lanes left = (t[i][0] + t[i][1]) + b;
    cni_lanes right = (t[i][1] + t[i][2]) + b;
    all = all + (left + right);
    if (r->y + i >= r->h) break;
    float *to = plane + (r->y + i) * r->row + r->x;
    cni_store_lanes(to, cni_first_lanes(columns), cni_zip_low(left, right));
    if (columns > LANES)
      cni_store_lanes(to + LANES, cni_first_lanes(columns - LANES), cni_zip_high(left, right));
  }
  return cni_all_finite(all);
}

static void weight_2(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  (void)flipped;
  taps g[9], t[5][3];
  take_taps(g, w, row);
  UNROLL for (int j = 0; j < 3; j++)
  {
    t[0][j] = g[j];
    t[1][j] = t[4][j] = g[3 + j];
    t[2][j] = g[j] + g[6 + j];
    t[3][j] = g[6 + j];
  }
  UNROLL for (int a = 0; a < 3; a++)
  {
    const int rows = a == 1 ? 1 : 2, first = a == 0 ? 0 : a + 1;
    float *left = u + at[3 * a] + r * 2 * rows * ROWS, *mid = u + at[3 * a + 1] + r * rows * ROWS;
    float *right = u + at[3 * a + 2] + r * 2 * rows * ROWS;
    UNROLL for (int s = 0; s < rows; s++)
    {
      const taps *x = t[first + s];
      store_taps(left + 2 * s * ROWS, x[0]);
      store_taps(left + (2 * s + 1) * ROWS, x[1]);
      store_taps(mid + s * ROWS, x[0] + x[2]);
      store_taps(right + 2 * s * ROWS, x[2]);
      store_taps(right + (2 * s + 1) * ROWS, x[1]);
    }
  }
}

ALWAYS_INLINE void grad_2_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const cni_lane_bits low = cni_first_lanes(r->w - r->x), high = cni_first_lanes(r->w - r->x - LANES);
  cni_lanes d[2][3];
  UNROLL for (int i = 0; i < 2; i++)
  {
    bool there = r->y + i < r->h;
    const float *at = plane + (r->y + i) * r->row + r->x;
    cni_lanes a = cni_load_lanes(there ? low : 0, at), b = cni_load_lanes(there ? high : 0, at + LANES);
    d[i][0] = cni_evens(a, b);
    d[i][2] = cni_odds(a, b);
    d[i][1] = d[i][0] + d[i][2];
  }
  UNROLL for (int j = 0; j < 3; j++)
  {
    cni_store_lanes(v + j * step, whole, d[0][j]);
    cni_store_lanes(v + (3 + j) * step, whole, d[0][j] + d[1][j]);
    cni_store_lanes(v + (6 + j) * step, whole, d[1][j]);
  }
}

static bool weight_back_2(float *w, int64_t apart, const float *m, int64_t step, int64_t count)
{
  cni_lanes all = (cni_lanes){0};
  for (int64_t c = 0; c < count; c += LANES) {
    const cni_lane_bits some = cni_first_lanes(count - c);
    float out[9][LANES];
    cni_lanes t[3][5];
    UNROLL for (int j = 0; j < 5; j++)
    {
      cni_lanes a[5];
      UNROLL for (int i = 0; i < 5; i++) a[i] = cni_load_lanes(some, m + c + (5 * i + j) * step);
      t[0][j] = a[0] + a[2];
      t[1][j] = a[1] + a[4];
      t[2][j] = a[2] + a[3];
    }
    UNROLL for (int i = 0; i < 3; i++)
    {
      cni_lanes row[3] = {(t[i][0] + t[i][2]), (t[i][1] + t[i][4]),
                       (t[i][2] + t[i][3])};
      UNROLL for (int j = 0; j < 3; j++)
      {
        cni_store_all(out[3 * i + j], row[j]);
        all = all + row[j];
      }
    }
    for (int64_t l = 0; l < LANES && c + l < count; l++)
      UNROLL for (int k = 0; k < 9; k++) w[(c + l) * apart + k] = out[k][l];
  }
  return cni_all_finite(all);
}

/* ---- the gradient of the input at stride 2 ----
 * Elements under the outer taps, e0 and e1, and under the middle one, m0 and m1, from three elements d0, d1, d2 of the
 * result's gradient: e0 = g2 d0 + g0 d1 = p0 + p1 and e1 = g2 d1 + g0 d2 = p1 + p2 of p0 = g2 (d0 - d1),
 * p1 = (g0 + g2) d1, p2 = g0 (d2 - d1); m0 and m1 are g1 d1 and g1 d2, or g1 d0 and g1 d1 where m0 is the first. */

ALWAYS_INLINE void image_back(const cni_winograd_run *r, float *v, int64_t step,
                                                             const float *plane, const bool from_odd)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const cni_lane_bits low = lanes_inside(r->x, r->w), high = lanes_inside(r->x + LANES, r->w);
  const cni_lane_bits next = lanes_inside(r->x + 2 * LANES, r->w) & 1;
  cni_lanes d[3][4];
  UNROLL for (int i = 0; i < 3; i++)
  {
    int64_t y = r->y + i;
    bool there = y >= 0 && y < r->h;
    const float *at = plane + y * r->row + r->x;
    cni_lanes a = cni_load_lanes(there ? low : 0, at), b = cni_load_lanes(there ? high : 0, at + LANES);
    cni_lanes c = cni_load_lanes(there ? next : 0, at + 2 * LANES);
    cni_lanes d0 = cni_evens(a, b), d1 = cni_odds(a, b);
    cni_lanes d2 = cni_lanes_from(d0, c, 1);
    d[i][0] = d0 - d1;
    d[i][1] = d1;
    d[i][2] = d2 - d1;
    d[i][3] = from_odd ? d0 : d2;
  }
  UNROLL for (int j = 0; j < 4; j++)
  {
    cni_store_lanes(v + j * step, whole, d[0][j] - d[1][j]);
    cni_store_lanes(v + (4 + j) * step, whole, d[1][j]);
    cni_store_lanes(v + (8 + j) * step, whole, d[2][j] - d[1][j]);
    cni_store_lanes(v + (12 + j) * step, whole, from_odd ? d[0][j] : d[2][j]);
  }
}

static void weight_back_input(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  (void)flipped;
  taps g[9], t[4][3];
  take_taps(g, w, row);
  u += r * ROWS;
  UNROLL for (int j = 0; j < 3; j++)
  {
    t[0][j] = g[6 + j];
    t[1][j] = g[j] + g[6 + j];
    t[2][j] = g[j];
    t[3][j] = g[3 + j];
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    store_taps(u + at[4 * i], t[i][2]);
    store_taps(u + at[4 * i + 1], t[i][0] + t[i][2]);
    store_taps(u + at[4 * i + 2], t[i][0]);
    store_taps(u + at[4 * i + 3], t[i][1]);
  }
}

/* Four vectors, element by element, to the first `columns` places. */
static inline void store_fours(float *to, cni_lanes a, cni_lanes b, cni_lanes c, cni_lanes d, int64_t columns)
{
  cni_lanes x = cni_zip_low(a, c), y = cni_zip_low(b, d);
  cni_store_lanes(to, cni_first_lanes(columns), cni_zip_low(x, y));
  cni_store_lanes(to + LANES, cni_first_lanes(columns - LANES), cni_zip_high(x, y));
  if (columns <= 2 * LANES) return;
  x = cni_zip_high(a, c), y = cni_zip_high(b, d);
  cni_store_lanes(to + 2 * LANES, cni_first_lanes(columns - 2 * LANES), cni_zip_low(x, y));
  cni_store_lanes(to + 3 * LANES, cni_first_lanes(columns - 3 * LANES), cni_zip_high(x, y));
}

ALWAYS_INLINE bool result_back(const cni_winograd_run *r, float *plane, const float *m,
                                                              int64_t step, const bool from_odd)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 4 * r->count ? r->w - r->x : 4 * r->count;
  cni_lanes t[4][5], all = (cni_lanes){0};
  UNROLL for (int j = 0; j < 5; j++)
  {
    cni_lanes mid = cni_load_lanes(whole, m + (5 + j) * step);
    t[0][j] = cni_load_lanes(whole, m + j * step) + mid;
    t[1][j] = cni_load_lanes(whole, m + (15 + j) * step);
    t[2][j] = cni_load_lanes(whole, m + (10 + j) * step) + mid;
    t[3][j] = cni_load_lanes(whole, m + (20 + j) * step);
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    const cni_lanes *x = t[from_odd ? i ^ 1 : i];
    cni_lanes e0 = (x[0] + x[1]), e1 = x[2] + x[1];
    all = all + ((e0 + e1) + (x[3] + x[4]));
    float *to = plane + (r->y + i) * r->row + r->x;
    if (r->y + i >= r->h) continue;
    if (from_odd) store_fours(to, x[3], e0, x[4], e1, columns);
    else store_fours(to, e0, x[3], e1, x[4], columns);
  }
  return cni_all_finite(all);
}

/* ---- stride 1, large tiles: F(4 x 4, 3 x 3) ----
 * By the points 0, +-A, +-B and infinity. A = 1 / sqrt 2 and B = sqrt 2 lose half of what 1 and 2 do, and squares of
 * both, and their product, are numbers without roundings. */
#define A 0.70710678f
#define B 1.41421356f

ALWAYS_INLINE cni_lanes plus(cni_lanes sum, float factor, cni_lanes x)
{
  return cni_lanes_fma(x, cni_all_lanes(factor), sum);
}

/* The 6 parts of 6 elements. */
ALWAYS_INLINE void six_parts(cni_lanes *to, const cni_lanes *d)
{
  cni_lanes even = plus(d[4], -2, d[2]), odd = plus(d[3], -2, d[1]);
  to[0] = plus(d[0] + d[4], -2.5f, d[2]);
  to[1] = plus(even, A, odd);
  to[2] = plus(even, -A, odd);
  even = plus(d[4], -0.5f, d[2]), odd = plus(d[3], -0.5f, d[1]);
  to[3] = plus(even, B, odd);
  to[4] = plus(even, -B, odd);
  to[5] = plus(d[1] + d[5], -2.5f, d[3]);
}

/* The 4 results of 6 products. */
ALWAYS_INLINE void four_results(cni_lanes *to, const cni_lanes *m)
{
  cni_lanes low = m[1] + m[2], high = m[3] + m[4], below = m[1] - m[2], above = m[3] - m[4];
  to[0] = m[0] + (low + high);
  to[1] = plus(cni_all_lanes(A) * below, B, above);
  to[2] = plus(cni_all_lanes(0.5f) * low, 2, high);
  to[3] = plus(plus(m[5], 0.5f * A, below), 2 * B, above);
}

/* Columns 0 ... 5 of a vector of patches of a row, 4 apart; then their 6 parts. */
ALWAYS_INLINE void row_parts_6(cni_lanes *to, const float *at, const cni_lane_bits *inside)
{
  cni_lanes a = cni_load_lanes(inside[0], at), b = cni_load_lanes(inside[1], at + LANES), d[6];
  cni_lanes c = cni_load_lanes(inside[2], at + 2 * LANES), e = cni_load_lanes(inside[3], at + 3 * LANES);
  cni_lanes next = cni_load_lanes(inside[4], at + 4 * LANES);
  cni_lanes low = cni_evens(a, b), high = cni_evens(c, e);
  d[0] = cni_evens(low, high), d[2] = cni_odds(low, high);
  low = cni_odds(a, b), high = cni_odds(c, e);
  d[1] = cni_evens(low, high), d[3] = cni_odds(low, high);
  d[4] = cni_lanes_from(d[0], next, 1);
  d[5] = cni_lanes_from(d[1], cni_odds(next, next), 1);
  six_parts(to, d);
}

ALWAYS_INLINE void image_6_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  cni_lane_bits inside[5], none[5] = {0};
  for (int i = 0; i < 5; i++) inside[i] = i * LANES < 4 * r->count + 2 ? lanes_inside(r->x + i * LANES, r->w) : 0;
  inside[4] &= 3;
  cni_lanes rows[6][6];
  for (int i = 0; i < 6; i++) {
    int64_t y = r->y + i;
    row_parts_6(rows[i], plane + y * r->row + r->x, y >= 0 && y < r->h ? inside : none);
  }
  UNROLL for (int j = 0; j < 6; j++)
  {
    cni_lanes d[6], to[6];
    UNROLL for (int i = 0; i < 6; i++) d[i] = rows[i][j];
    six_parts(to, d);
    UNROLL for (int i = 0; i < 6; i++) cni_store_lanes(v + (6 * i + j) * step, whole, to[i]);
  }
}

ALWAYS_INLINE bool result_6_part(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)
{
  const cni_lane_bits whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 4 * r->count ? r->w - r->x : 4 * r->count;
  cni_lanes t[4][6], b = cni_all_lanes(bias), all = (cni_lanes){0};
  UNROLL for (int j = 0; j < 6; j++)
  {
    cni_lanes column[6], to[4];
    UNROLL for (int i = 0; i < 6; i++) column[i] = cni_load_lanes(whole, m + (6 * i + j) * step);
    four_results(to, column);
    UNROLL for (int i = 0; i < 4; i++) t[i][j] = to[i];
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    cni_lanes y[4];
    four_results(y, t[i]);
    UNROLL for (int k = 0; k < 4; k++) y[k] = y[k] + b;
    all = all + ((y[0] + y[1]) + (y[2] + y[3]));
    if (r->y + i < r->h) store_fours(plane + (r->y + i) * r->row + r->x, y[0], y[1], y[2], y[3], columns);
  }
  return cni_all_finite(all);
}

/* The 6 parts of 3 taps. */
ALWAYS_INLINE void tap_parts(taps *to, taps a, taps b, taps c)
{
  const float low = -1 / 1.5f, high = 1 / 6.0f;
  taps even = low * (a + 0.5f * c), odd = low * A * b;
  to[0] = a;
  to[1] = even + odd;
  to[2] = even - odd;
  even = high * (a + 2 * c), odd = high * B * b;
  to[3] = even + odd;
  to[4] = even - odd;
  to[5] = c;
}

static void weight_6(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  taps g[9], columns[3][6];
  (void)flipped;
  take_taps(g, w, row);
  UNROLL for (int j = 0; j < 3; j++) tap_parts(columns[j], g[j], g[3 + j], g[6 + j]);
  UNROLL for (int i = 0; i < 6; i++)
  {
    taps to[6];
    tap_parts(to, columns[0][i], columns[1][i], columns[2][i]);
    UNROLL for (int j = 0; j < 6; j++) store_taps(u + r * ROWS + at[6 * i + j], to[j]);
  }
}

#undef A
#undef B

/* ---- runs of tiles, vector by vector ---- */

/* x moves `apart` elements from tile to tile. */
#define TAKE(name, part, apart)                                                                                \
  static void name(const cni_winograd_run *r, float *v, int64_t step, const float *plane)                            \
  {                                                                                                                  \
    cni_winograd_run some = *r;                                                                                      \
    for (int64_t at = 0; at < r->count; at += LANES, some.x += (apart) * LANES) {                                    \
      some.count = r->count - at < LANES ? r->count - at : LANES;                                                    \
      part(&some, v + at, step, plane);                                                              \
    }                                                                                                                \
  }
#define GIVE(name, part, apart, last)                                                                                \
  static bool name(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)                \
  {                                                                                                                  \
    bool finite = true;                                                                                              \
    cni_winograd_run some = *r;                                                                                      \
    (void)bias;                                                                                                      \
    for (int64_t at = 0; at < r->count; at += LANES, some.x += (apart) * LANES) {                                    \
      some.count = r->count - at < LANES ? r->count - at : LANES;                                                    \
      finite &= part(&some, plane, m + at, step, last);                                                              \
    }                                                                                                                \
    return finite;                                                                                                   \
  }

ALWAYS_INLINE void image_even_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  image_back(r, v, step, plane, false);
}
ALWAYS_INLINE void image_odd_part(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  image_back(r, v, step, plane, true);
}

TAKE(image, image_part, 2)
TAKE(grad, grad_part, 2)
GIVE(result, result_part, 2, bias)
TAKE(image_2, image_2_part, 4)
TAKE(grad_2, grad_2_part, 2)
GIVE(result_2, result_2_part, 2, bias)
TAKE(image_even, image_even_part, 2)
TAKE(image_odd, image_odd_part, 2)
GIVE(result_even, result_back, 4, false)
GIVE(result_odd, result_back, 4, true)
TAKE(image_6, image_6_part, 4)
GIVE(result_6, result_6_part, 4, bias)

const cni_winograd_kernels CNI_ISA_NAME(cni_winograd)[CNI_WINOGRAD_FORMS] = {
    {image, result, weight, grad, weight_back},
    {image_2, result_2, weight_2, grad_2, weight_back_2},
    {image_even, result_even, weight_back_input, NULL, NULL},
    {image_odd, result_odd, weight_back_input, NULL, NULL},
    {image_6, result_6, weight_6, NULL, NULL}};

#endif
