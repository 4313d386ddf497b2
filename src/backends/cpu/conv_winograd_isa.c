/* conv_winograd_isa.c: the transforms of F(2 x 2, 3 x 3) for AVX-512 (other levels go by the direct kernels): 16 tiles
 * of a row at a time, even and odd columns parted and joined in registers.
 *
 * Invariant: only additions and halvings, in one fixed order per tile, whichever lane it falls into. */
#include "conv_winograd_isa.h"

#include <stddef.h>

#if CNI_ISA_LEVEL == 2
#include "lanes.h"

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
static inline void turn_rows(__m256 *to, const float *from, int64_t row)
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

static inline void weight_taps(float *u, int64_t step, const float *w, int64_t row, const bool turned)
{
  const __m256 half = _mm256_set1_ps(0.5f);
  __m256 own[9], g[9];
  turn_rows(own, w, row);
  own[8] = _mm256_setr_ps(w[8], w[row + 8], w[2 * row + 8], w[3 * row + 8], w[4 * row + 8], w[5 * row + 8],
                          w[6 * row + 8], w[7 * row + 8]);
  UNROLL for (int k = 0; k < 9; k++) g[k] = own[turned ? 8 - k : k];
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
    float *to = u + 4 * i * step;
    _mm256_storeu_ps(to, t[i][0]);
    _mm256_storeu_ps(to + step, _mm256_mul_ps(half, _mm256_add_ps(sum, t[i][1])));
    _mm256_storeu_ps(to + 2 * step, _mm256_mul_ps(half, _mm256_sub_ps(sum, t[i][1])));
    _mm256_storeu_ps(to + 3 * step, t[i][2]);
  }
}

static void weight(float *u, int64_t step, const float *w, int64_t row, bool turned)
{
  if (turned) weight_taps(u, step, w, row, true);
  else weight_taps(u, step, w, row, false);
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

const cni_winograd_kernels CNI_ISA_NAME(cni_winograd_kernels) = {
    .image = image, .result = result, .weight = weight, .grad = grad, .weight_back = weight_back};
#else
const cni_winograd_kernels CNI_ISA_NAME(cni_winograd_kernels) = {NULL, NULL, NULL, NULL, NULL};
#endif
