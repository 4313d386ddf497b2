/* conv_winograd_kernels.c: the transforms of 3 x 3 Winograd convolutions: 16 tiles of a row at a time, even and odd
 * columns deinterleaved and interleaved in registers.
 *
 * Invariant: only additions and halvings, in one fixed order per tile, whichever lane it falls into. */
#include "conv_winograd_kernels.h"

#include <stddef.h>

#include "backends/cpu/walk/avx512/lanes.h"

enum { LANES = CNI_WINOGRAD_LANES };

#if defined(__clang__)
#define UNROLL _Pragma("clang loop unroll(full)")
#else
#define UNROLL _Pragma("GCC unroll 32")
#endif

/* Lanes l with 0 <= at + l < w. */
static inline __mmask16 lanes_inside(int64_t at, int64_t w)
{
  __mmask16 end = cni_first_lanes(w - at);
  return at >= 0 ? end : (__mmask16)(end & ~cni_first_lanes(-at));
}

/* ---- stride 1: F(2 x 2, 3 x 3) ---- */

static void image(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __mmask16 whole = cni_first_lanes(r->count);
  __mmask16 inside[4];
  for (int i = 0; i < 4; i++) inside[i] = lanes_inside(r->x + (i & 1) * LANES + (i >> 1) * 2, r->w);
  __m512 d[4][4];
  UNROLL for (int i = 0; i < 4; i++)
  {
    int64_t y = r->y + i;
    bool there = y >= 0 && y < r->h;
    const float *at = plane + y * r->row + r->x;
    __m512 a = _mm512_maskz_loadu_ps(there ? inside[0] : 0, at), b = _mm512_setzero_ps(), c, e = b;
    c = _mm512_maskz_loadu_ps(there ? inside[2] : 0, at + 2);
    if (r->count > LANES / 2 - 1) {
      b = _mm512_maskz_loadu_ps(there ? inside[1] : 0, at + LANES);
      e = _mm512_maskz_loadu_ps(there ? inside[3] : 0, at + LANES + 2);
    }
    __m512 x0 = _mm512_permutex2var_ps(a, even, b), x1 = _mm512_permutex2var_ps(a, odd, b);
    __m512 x2 = _mm512_permutex2var_ps(c, even, e), x3 = _mm512_permutex2var_ps(c, odd, e);
    d[i][0] = _mm512_sub_ps(x0, x2);
    d[i][1] = _mm512_add_ps(x1, x2);
    d[i][2] = _mm512_sub_ps(x2, x1);
    d[i][3] = _mm512_sub_ps(x1, x3);
  }
  UNROLL for (int j = 0; j < 4; j++)
  {
    _mm512_mask_storeu_ps(v + j * step, whole, _mm512_sub_ps(d[0][j], d[2][j]));
    _mm512_mask_storeu_ps(v + (4 + j) * step, whole, _mm512_add_ps(d[1][j], d[2][j]));
    _mm512_mask_storeu_ps(v + (8 + j) * step, whole, _mm512_sub_ps(d[2][j], d[1][j]));
    _mm512_mask_storeu_ps(v + (12 + j) * step, whole, _mm512_sub_ps(d[1][j], d[3][j]));
  }
}

static bool result(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)
{
  enum { NOT_FINITE = 0x99 };
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __mmask16 whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 2 * r->count ? r->w - r->x : 2 * r->count;
  __m512 t[2][4], b = _mm512_set1_ps(bias);
  UNROLL for (int j = 0; j < 4; j++)
  {
    __m512 a0 = _mm512_maskz_loadu_ps(whole, m + j * step), a1 = _mm512_maskz_loadu_ps(whole, m + (4 + j) * step);
    __m512 a2 = _mm512_maskz_loadu_ps(whole, m + (8 + j) * step);
    __m512 a3 = _mm512_maskz_loadu_ps(whole, m + (12 + j) * step);
    t[0][j] = _mm512_add_ps(_mm512_add_ps(a0, a1), a2);
    t[1][j] = _mm512_sub_ps(_mm512_sub_ps(a1, a2), a3);
  }
  __m512 all = _mm512_setzero_ps();
  for (int i = 0; i < 2; i++) {
    __m512 left = _mm512_add_ps(_mm512_add_ps(t[i][0], t[i][1]), _mm512_add_ps(t[i][2], b));
    __m512 right = _mm512_add_ps(_mm512_sub_ps(_mm512_sub_ps(t[i][1], t[i][2]), t[i][3]), b);
    all = _mm512_add_ps(all, _mm512_add_ps(left, right));
    if (r->y + i >= r->h) break;
    float *to = plane + (r->y + i) * r->row + r->x;
    _mm512_mask_storeu_ps(to, cni_first_lanes(columns), _mm512_permutex2var_ps(left, low, right));
    if (columns > LANES)
      _mm512_mask_storeu_ps(to + LANES, cni_first_lanes(columns - LANES), _mm512_permutex2var_ps(left, high, right));
  }
  return !_mm512_mask_fpclass_ps_mask(whole, all, NOT_FINITE);
}

/* to[k] = element k of each of the 8 rows. */
static inline void transpose_rows(__m256 *to, const float *from, int64_t row)
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

/* to[k] = tap k of each of the 8 rows. */
static inline void take_taps(__m256 *to, const float *w, int64_t row)
{
  transpose_rows(to, w, row);
  to[8] = _mm256_setr_ps(w[8], w[row + 8], w[2 * row + 8], w[3 * row + 8], w[4 * row + 8], w[5 * row + 8],
                         w[6 * row + 8], w[7 * row + 8]);
}

static inline void weight_taps(float *u, const int64_t *at, const float *w, int64_t row, const bool flipped)
{
  const __m256 half = _mm256_set1_ps(0.5f);
  __m256 own[9], g[9];
  take_taps(own, w, row);
  UNROLL for (int k = 0; k < 9; k++) g[k] = own[flipped ? 8 - k : k];
  __m256 t[4][3];
  UNROLL for (int j = 0; j < 3; j++)
  {
    __m256 a = g[j], b = g[3 + j], c = g[6 + j];
    __m256 sum = _mm256_add_ps(a, c);
    t[0][j] = a;
    t[1][j] = _mm256_mul_ps(half, _mm256_add_ps(sum, b));
    t[2][j] = _mm256_mul_ps(half, _mm256_sub_ps(sum, b));
    t[3][j] = c;
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    __m256 sum = _mm256_add_ps(t[i][0], t[i][2]);
    _mm256_storeu_ps(u + at[4 * i], t[i][0]);
    _mm256_storeu_ps(u + at[4 * i + 1], _mm256_mul_ps(half, _mm256_add_ps(sum, t[i][1])));
    _mm256_storeu_ps(u + at[4 * i + 2], _mm256_mul_ps(half, _mm256_sub_ps(sum, t[i][1])));
    _mm256_storeu_ps(u + at[4 * i + 3], t[i][2]);
  }
}

static void weight(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  if (flipped) weight_taps(u + r * CNI_WINOGRAD_ROWS, at, w, row, true);
  else weight_taps(u + r * CNI_WINOGRAD_ROWS, at, w, row, false);
}

static void grad(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __mmask16 whole = cni_first_lanes(r->count);
  const __mmask16 low = cni_first_lanes(r->w - r->x), high = cni_first_lanes(r->w - r->x - LANES);
  const __m512 zero = _mm512_setzero_ps();
  __m512 d[2][4];
  UNROLL for (int i = 0; i < 2; i++)
  {
    bool there = r->y + i < r->h;
    const float *at = plane + (r->y + i) * r->row + r->x;
    __m512 a = _mm512_maskz_loadu_ps(there ? low : 0, at), b = _mm512_maskz_loadu_ps(there ? high : 0, at + LANES);
    d[i][0] = _mm512_permutex2var_ps(a, even, b);
    d[i][3] = _mm512_permutex2var_ps(a, odd, b);
    d[i][1] = _mm512_add_ps(d[i][0], d[i][3]);
    d[i][2] = _mm512_sub_ps(d[i][0], d[i][3]);
    d[i][3] = _mm512_sub_ps(zero, d[i][3]);
  }
  UNROLL for (int j = 0; j < 4; j++)
  {
    _mm512_mask_storeu_ps(v + j * step, whole, d[0][j]);
    _mm512_mask_storeu_ps(v + (4 + j) * step, whole, _mm512_add_ps(d[0][j], d[1][j]));
    _mm512_mask_storeu_ps(v + (8 + j) * step, whole, _mm512_sub_ps(d[0][j], d[1][j]));
    _mm512_mask_storeu_ps(v + (12 + j) * step, whole, _mm512_sub_ps(zero, d[1][j]));
  }
}

static bool weight_back(float *w, int64_t apart, const float *m, int64_t step, int64_t count)
{
  enum { NOT_FINITE = 0x99 };
  const __m512 half = _mm512_set1_ps(0.5f);
  __m512 all = _mm512_setzero_ps();
  for (int64_t c = 0; c < count; c += LANES) {
    const __mmask16 some = cni_first_lanes(count - c);
    float out[9][LANES];
    __m512 t[3][4];
    UNROLL for (int j = 0; j < 4; j++)
    {
      __m512 a[4];
      UNROLL for (int i = 0; i < 4; i++) a[i] = _mm512_maskz_loadu_ps(some, m + c + (4 * i + j) * step);
      __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(a[1], a[2]));
      t[0][j] = _mm512_add_ps(a[0], sum);
      t[1][j] = _mm512_mul_ps(half, _mm512_sub_ps(a[1], a[2]));
      t[2][j] = _mm512_add_ps(sum, a[3]);
    }
    UNROLL for (int i = 0; i < 3; i++)
    {
      __m512 sum = _mm512_mul_ps(half, _mm512_add_ps(t[i][1], t[i][2])), row[3];
      row[0] = _mm512_add_ps(t[i][0], sum);
      row[1] = _mm512_mul_ps(half, _mm512_sub_ps(t[i][1], t[i][2]));
      row[2] = _mm512_add_ps(sum, t[i][3]);
      UNROLL for (int j = 0; j < 3; j++)
      {
        _mm512_storeu_ps(out[3 * i + j], row[j]);
        all = _mm512_add_ps(all, row[j]);
      }
    }
    for (int64_t l = 0; l < LANES && c + l < count; l++)
      UNROLL for (int k = 0; k < 9; k++) w[(c + l) * apart + k] = out[k][l];
  }
  return !_mm512_fpclass_ps_mask(all, NOT_FINITE);
}

/* ---- stride 2 ----
 * Elements d0 ... d4 of a dim under two windows; results g0 d0 + g1 d1 + g2 d2 and g0 d2 + g1 d3 + g2 d4 are p0 + p1
 * and p1 + p2 of p0 = g0 (d0 - d2) + g1 d1, p1 = (g0 + g2) d2, p2 = g2 (d4 - d2) + g1 d3. */

/* Columns 0 ... 4 of 16 patches of a row, 4 apart; then their 5 parts. */
static inline void row_parts(__m512 *to, const float *at, const __mmask16 *inside)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  __m512 a = _mm512_maskz_loadu_ps(inside[0], at), b = _mm512_maskz_loadu_ps(inside[1], at + LANES);
  __m512 c = _mm512_maskz_loadu_ps(inside[2], at + 2 * LANES), d = _mm512_maskz_loadu_ps(inside[3], at + 3 * LANES);
  __m512 next = _mm512_maskz_loadu_ps(inside[4], at + 4 * LANES);
  __m512 low = _mm512_permutex2var_ps(a, even, b), high = _mm512_permutex2var_ps(c, even, d);
  __m512 d0 = _mm512_permutex2var_ps(low, even, high), d2 = _mm512_permutex2var_ps(low, odd, high);
  low = _mm512_permutex2var_ps(a, odd, b), high = _mm512_permutex2var_ps(c, odd, d);
  to[1] = _mm512_permutex2var_ps(low, even, high);
  to[4] = _mm512_permutex2var_ps(low, odd, high);
  __m512i d4 = _mm512_alignr_epi32(_mm512_castps_si512(next), _mm512_castps_si512(d0), 1);
  to[0] = _mm512_sub_ps(d0, d2);
  to[2] = d2;
  to[3] = _mm512_sub_ps(_mm512_castsi512_ps(d4), d2);
}

static void image_2(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const __mmask16 whole = cni_first_lanes(r->count);
  __mmask16 inside[5], none[5] = {0};
  for (int i = 0; i < 5; i++) inside[i] = i * LANES <= 4 * r->count ? lanes_inside(r->x + i * LANES, r->w) : 0;
  inside[4] &= 1;
  __m512 mid[5], d[5];
  UNROLL for (int k = 0; k < 5; k++)
  {
    const int i = k == 0 ? 2 : k == 1 ? 0 : k == 2 ? 1 : k == 3 ? 4 : 3; /* the middle first: others want it */
    const int part = i < 3 ? i : 7 - i;
    int64_t y = r->y + i;
    row_parts(d, plane + y * r->row + r->x, y >= 0 && y < r->h ? inside : none);
    UNROLL for (int j = 0; j < 5; j++)
    {
      if (i == 2) mid[j] = d[j];
      _mm512_mask_storeu_ps(v + (5 * part + j) * step, whole, i == 0 || i == 4 ? _mm512_sub_ps(d[j], mid[j]) : d[j]);
    }
  }
}

static bool result_2(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)
{
  enum { NOT_FINITE = 0x99 };
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __mmask16 whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 2 * r->count ? r->w - r->x : 2 * r->count;
  __m512 t[2][3], b = _mm512_set1_ps(bias), all = _mm512_setzero_ps();
  UNROLL for (int j = 0; j < 3; j++)
  {
    __m512 mid = _mm512_maskz_loadu_ps(whole, m + (3 + j) * step);
    t[0][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(whole, m + j * step), mid);
    t[1][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(whole, m + (6 + j) * step), mid);
  }
  for (int i = 0; i < 2; i++) {
    __m512 left = _mm512_add_ps(_mm512_add_ps(t[i][0], t[i][1]), b);
    __m512 right = _mm512_add_ps(_mm512_add_ps(t[i][1], t[i][2]), b);
    all = _mm512_add_ps(all, _mm512_add_ps(left, right));
    if (r->y + i >= r->h) break;
    float *to = plane + (r->y + i) * r->row + r->x;
    _mm512_mask_storeu_ps(to, cni_first_lanes(columns), _mm512_permutex2var_ps(left, low, right));
    if (columns > LANES)
      _mm512_mask_storeu_ps(to + LANES, cni_first_lanes(columns - LANES), _mm512_permutex2var_ps(left, high, right));
  }
  return !_mm512_mask_fpclass_ps_mask(whole, all, NOT_FINITE);
}

static void weight_2(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  (void)flipped;
  __m256 g[9], t[5][3];
  take_taps(g, w, row);
  UNROLL for (int j = 0; j < 3; j++)
  {
    t[0][j] = g[j];
    t[1][j] = t[4][j] = g[3 + j];
    t[2][j] = _mm256_add_ps(g[j], g[6 + j]);
    t[3][j] = g[6 + j];
  }
  UNROLL for (int a = 0; a < 3; a++)
  {
    const int rows = a == 1 ? 1 : 2, first = a == 0 ? 0 : a + 1;
    float *left = u + at[3 * a] + r * 2 * rows * 8, *mid = u + at[3 * a + 1] + r * rows * 8;
    float *right = u + at[3 * a + 2] + r * 2 * rows * 8;
    UNROLL for (int s = 0; s < rows; s++)
    {
      const __m256 *x = t[first + s];
      _mm256_storeu_ps(left + 16 * s, x[0]);
      _mm256_storeu_ps(left + 16 * s + 8, x[1]);
      _mm256_storeu_ps(mid + 8 * s, _mm256_add_ps(x[0], x[2]));
      _mm256_storeu_ps(right + 16 * s, x[2]);
      _mm256_storeu_ps(right + 16 * s + 8, x[1]);
    }
  }
}

static void grad_2(const cni_winograd_run *r, float *v, int64_t step, const float *plane)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __mmask16 whole = cni_first_lanes(r->count);
  const __mmask16 low = cni_first_lanes(r->w - r->x), high = cni_first_lanes(r->w - r->x - LANES);
  __m512 d[2][3];
  UNROLL for (int i = 0; i < 2; i++)
  {
    bool there = r->y + i < r->h;
    const float *at = plane + (r->y + i) * r->row + r->x;
    __m512 a = _mm512_maskz_loadu_ps(there ? low : 0, at), b = _mm512_maskz_loadu_ps(there ? high : 0, at + LANES);
    d[i][0] = _mm512_permutex2var_ps(a, even, b);
    d[i][2] = _mm512_permutex2var_ps(a, odd, b);
    d[i][1] = _mm512_add_ps(d[i][0], d[i][2]);
  }
  UNROLL for (int j = 0; j < 3; j++)
  {
    _mm512_mask_storeu_ps(v + j * step, whole, d[0][j]);
    _mm512_mask_storeu_ps(v + (3 + j) * step, whole, _mm512_add_ps(d[0][j], d[1][j]));
    _mm512_mask_storeu_ps(v + (6 + j) * step, whole, d[1][j]);
  }
}

static bool weight_back_2(float *w, int64_t apart, const float *m, int64_t step, int64_t count)
{
  enum { NOT_FINITE = 0x99 };
  __m512 all = _mm512_setzero_ps();
  for (int64_t c = 0; c < count; c += LANES) {
    const __mmask16 some = cni_first_lanes(count - c);
    float out[9][LANES];
    __m512 t[3][5];
    UNROLL for (int j = 0; j < 5; j++)
    {
      __m512 a[5];
      UNROLL for (int i = 0; i < 5; i++) a[i] = _mm512_maskz_loadu_ps(some, m + c + (5 * i + j) * step);
      t[0][j] = _mm512_add_ps(a[0], a[2]);
      t[1][j] = _mm512_add_ps(a[1], a[4]);
      t[2][j] = _mm512_add_ps(a[2], a[3]);
    }
    UNROLL for (int i = 0; i < 3; i++)
    {
      __m512 row[3] = {_mm512_add_ps(t[i][0], t[i][2]), _mm512_add_ps(t[i][1], t[i][4]),
                       _mm512_add_ps(t[i][2], t[i][3])};
      UNROLL for (int j = 0; j < 3; j++)
      {
        _mm512_storeu_ps(out[3 * i + j], row[j]);
        all = _mm512_add_ps(all, row[j]);
      }
    }
    for (int64_t l = 0; l < LANES && c + l < count; l++)
      UNROLL for (int k = 0; k < 9; k++) w[(c + l) * apart + k] = out[k][l];
  }
  return !_mm512_fpclass_ps_mask(all, NOT_FINITE);
}

/* ---- the gradient of the input at stride 2 ----
 * Elements under the outer taps, e0 and e1, and under the middle one, m0 and m1, from three elements d0, d1, d2 of the
 * result's gradient: e0 = g2 d0 + g0 d1 = p0 + p1 and e1 = g2 d1 + g0 d2 = p1 + p2 of p0 = g2 (d0 - d1),
 * p1 = (g0 + g2) d1, p2 = g0 (d2 - d1); m0 and m1 are g1 d1 and g1 d2, or g1 d0 and g1 d1 where m0 is the first. */

static inline __attribute__((always_inline)) void image_back(const cni_winograd_run *r, float *v, int64_t step,
                                                             const float *plane, const bool from_odd)
{
  const __m512i even = _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
  const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
  const __mmask16 whole = cni_first_lanes(r->count);
  const __mmask16 low = lanes_inside(r->x, r->w), high = lanes_inside(r->x + LANES, r->w);
  const __mmask16 next = lanes_inside(r->x + 2 * LANES, r->w) & 1;
  __m512 d[3][4];
  UNROLL for (int i = 0; i < 3; i++)
  {
    int64_t y = r->y + i;
    bool there = y >= 0 && y < r->h;
    const float *at = plane + y * r->row + r->x;
    __m512 a = _mm512_maskz_loadu_ps(there ? low : 0, at), b = _mm512_maskz_loadu_ps(there ? high : 0, at + LANES);
    __m512 c = _mm512_maskz_loadu_ps(there ? next : 0, at + 2 * LANES);
    __m512 d0 = _mm512_permutex2var_ps(a, even, b), d1 = _mm512_permutex2var_ps(a, odd, b);
    __m512 d2 = _mm512_castsi512_ps(_mm512_alignr_epi32(_mm512_castps_si512(c), _mm512_castps_si512(d0), 1));
    d[i][0] = _mm512_sub_ps(d0, d1);
    d[i][1] = d1;
    d[i][2] = _mm512_sub_ps(d2, d1);
    d[i][3] = from_odd ? d0 : d2;
  }
  UNROLL for (int j = 0; j < 4; j++)
  {
    _mm512_mask_storeu_ps(v + j * step, whole, _mm512_sub_ps(d[0][j], d[1][j]));
    _mm512_mask_storeu_ps(v + (4 + j) * step, whole, d[1][j]);
    _mm512_mask_storeu_ps(v + (8 + j) * step, whole, _mm512_sub_ps(d[2][j], d[1][j]));
    _mm512_mask_storeu_ps(v + (12 + j) * step, whole, from_odd ? d[0][j] : d[2][j]);
  }
}

static void weight_back_input(float *u, const int64_t *at, int64_t r, const float *w, int64_t row, bool flipped)
{
  (void)flipped;
  __m256 g[9], t[4][3];
  take_taps(g, w, row);
  u += r * CNI_WINOGRAD_ROWS;
  UNROLL for (int j = 0; j < 3; j++)
  {
    t[0][j] = g[6 + j];
    t[1][j] = _mm256_add_ps(g[j], g[6 + j]);
    t[2][j] = g[j];
    t[3][j] = g[3 + j];
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    _mm256_storeu_ps(u + at[4 * i], t[i][2]);
    _mm256_storeu_ps(u + at[4 * i + 1], _mm256_add_ps(t[i][0], t[i][2]));
    _mm256_storeu_ps(u + at[4 * i + 2], t[i][0]);
    _mm256_storeu_ps(u + at[4 * i + 3], t[i][1]);
  }
}

/* Four vectors, element by element, to the first `columns` places. */
static inline void store_fours(float *to, __m512 a, __m512 b, __m512 c, __m512 d, int64_t columns)
{
  const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  __m512 x = _mm512_permutex2var_ps(a, low, c), y = _mm512_permutex2var_ps(b, low, d);
  _mm512_mask_storeu_ps(to, cni_first_lanes(columns), _mm512_permutex2var_ps(x, low, y));
  _mm512_mask_storeu_ps(to + LANES, cni_first_lanes(columns - LANES), _mm512_permutex2var_ps(x, high, y));
  if (columns <= 2 * LANES) return;
  x = _mm512_permutex2var_ps(a, high, c), y = _mm512_permutex2var_ps(b, high, d);
  _mm512_mask_storeu_ps(to + 2 * LANES, cni_first_lanes(columns - 2 * LANES), _mm512_permutex2var_ps(x, low, y));
  _mm512_mask_storeu_ps(to + 3 * LANES, cni_first_lanes(columns - 3 * LANES), _mm512_permutex2var_ps(x, high, y));
}

static inline __attribute__((always_inline)) bool result_back(const cni_winograd_run *r, float *plane, const float *m,
                                                              int64_t step, const bool from_odd)
{
  enum { NOT_FINITE = 0x99 };
  const __mmask16 whole = cni_first_lanes(r->count);
  const int64_t columns = r->w - r->x < 4 * r->count ? r->w - r->x : 4 * r->count;
  __m512 t[4][5], all = _mm512_setzero_ps();
  UNROLL for (int j = 0; j < 5; j++)
  {
    __m512 mid = _mm512_maskz_loadu_ps(whole, m + (5 + j) * step);
    t[0][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(whole, m + j * step), mid);
    t[1][j] = _mm512_maskz_loadu_ps(whole, m + (15 + j) * step);
    t[2][j] = _mm512_add_ps(_mm512_maskz_loadu_ps(whole, m + (10 + j) * step), mid);
    t[3][j] = _mm512_maskz_loadu_ps(whole, m + (20 + j) * step);
  }
  UNROLL for (int i = 0; i < 4; i++)
  {
    const __m512 *x = t[from_odd ? i ^ 1 : i];
    __m512 e0 = _mm512_add_ps(x[0], x[1]), e1 = _mm512_add_ps(x[2], x[1]);
    all = _mm512_add_ps(all, _mm512_add_ps(_mm512_add_ps(e0, e1), _mm512_add_ps(x[3], x[4])));
    float *to = plane + (r->y + i) * r->row + r->x;
    if (r->y + i >= r->h) continue;
    if (from_odd) store_fours(to, x[3], e0, x[4], e1, columns);
    else store_fours(to, e0, x[3], e1, x[4], columns);
  }
  return !_mm512_mask_fpclass_ps_mask(whole, all, NOT_FINITE);
}

#define BACK(name, from_odd)                                                                                         \
  static void image_##name(const cni_winograd_run *r, float *v, int64_t step, const float *plane)                    \
  {                                                                                                                  \
    image_back(r, v, step, plane, from_odd);                                                                         \
  }                                                                                                                  \
  static bool result_##name(const cni_winograd_run *r, float *plane, const float *m, int64_t step, float bias)       \
  {                                                                                                                  \
    (void)bias;                                                                                                      \
    return result_back(r, plane, m, step, from_odd);                                                                 \
  }
BACK(even, false)
BACK(odd, true)

const cni_winograd_kernels cni_winograd_avx512[CNI_WINOGRAD_FORMS] = {
    {image, result, weight, grad, weight_back},
    {image_2, result_2, weight_2, grad_2, weight_back_2},
    {image_even, result_even, weight_back_input, NULL, NULL},
    {image_odd, result_odd, weight_back_input, NULL, NULL}};
