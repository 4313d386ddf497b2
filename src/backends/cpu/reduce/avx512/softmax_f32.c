/* softmax_f32.c: the loops of softmax for float32 that take the time, by AVX-512. See softmax_f32.h. */
#include "softmax_f32.h"

#include <stddef.h>

#include "backends/cpu/pointwise/avx512/exp16.h"
#include "backends/cpu/reduce/softmax.h"
#include "backends/cpu/walk/avx512/lanes.h"

enum { BLOCK = CNI_SOFTMAX_BLOCK };

#define TOP(x) _mm512_set1_ps((float)(x))
#define ALWAYS static inline __attribute__((always_inline))

/* ---- along a row ---- */

double cni_softmax_max_row_avx512(const void *x_, int64_t n)
{
  const float *x = x_;
  const __m512 least = TOP(-__builtin_inff());
  __m512 a = least, b = least, c = least, d = least;
  int64_t i = 0;
  for (; i + 64 <= n; i += 64) { /* of two operands, one NaN, the second comes out */
    a = _mm512_max_ps(_mm512_loadu_ps(x + i), a);
    b = _mm512_max_ps(_mm512_loadu_ps(x + i + 16), b);
    c = _mm512_max_ps(_mm512_loadu_ps(x + i + 32), c);
    d = _mm512_max_ps(_mm512_loadu_ps(x + i + 48), d);
  }
  for (; i < n; i += 16) a = _mm512_max_ps(_mm512_mask_loadu_ps(least, cni_first_lanes(n - i), x + i), a);
  return (double)_mm512_reduce_max_ps(_mm512_max_ps(_mm512_max_ps(a, b), _mm512_max_ps(c, d)));
}

/* A block of at most BLOCK elements: four vectors of sums. */
ALWAYS float exp_block(float *y, const float *x, int64_t n, __m512 shift, const char *ahead, const bool keeps)
{
  __m512 acc[4] = {TOP(0), TOP(0), TOP(0), TOP(0)};
  int64_t i = 0;
  for (; i + 64 <= n; i += 64)
    for (int k = 0; k < 4; k++) {
      __m512 e = cni_exp16_below(_mm512_sub_ps(_mm512_loadu_ps(x + i + 16 * k), shift));
      _mm_prefetch(ahead + (i + 16 * k) * 4, _MM_HINT_T0);
      if (keeps) _mm512_storeu_ps(y + i + 16 * k, e);
      acc[k] = _mm512_add_ps(acc[k], e);
    }
  for (int k = 0; k < 4 && i < n; k++, i += 16) {
    __mmask16 here = cni_first_lanes(n - i);
    __m512 e = cni_exp16_below(_mm512_sub_ps(_mm512_maskz_loadu_ps(here, x + i), shift));
    if (keeps) _mm512_mask_storeu_ps(y + i, here, e);
    acc[k] = _mm512_mask_add_ps(acc[k], here, acc[k], e);
  }
  return _mm512_reduce_add_ps(_mm512_add_ps(_mm512_add_ps(acc[0], acc[2]), _mm512_add_ps(acc[1], acc[3])));
}

double cni_softmax_exp_row_avx512(void *y_, const void *x_, int64_t n, double shift, const void *ahead)
{
  float *y = y_;
  const float *x = x_;
  double sum = 0;
  for (int64_t i = 0; i < n; i += BLOCK) {
    int64_t m = n - i < BLOCK ? n - i : BLOCK;
    const char *next = (const char *)ahead + i * 4;
    if (y) sum += (double)exp_block(y + i, x + i, m, TOP(shift), next, true);
    else sum += (double)exp_block(NULL, x + i, m, TOP(shift), next, false);
  }
  return sum;
}

/* How many of n elements lie before the first line of y. */
ALWAYS int64_t head(const float *y, int64_t n)
{
  int64_t lead = (int64_t)(-((uintptr_t)y >> 2) & 15);
  return lead < n ? lead : n;
}

#define ROW(name, value, ...)                                                                                        \
  void name(void *y_, const void *x_, int64_t n, __VA_ARGS__, bool nontemporal)                                      \
  {                                                                                                                  \
    float *y = y_;                                                                                                   \
    const float *x = x_;                                                                                             \
    int64_t i = nontemporal && !((uintptr_t)y & 3) ? head(y, n) : 0;                                                 \
    if (i) {                                                                                                         \
      __mmask16 here = cni_first_lanes(i);                                                                           \
      __m512 v = _mm512_maskz_loadu_ps(here, x);                                                                     \
      _mm512_mask_storeu_ps(y, here, value);                                                                         \
    }                                                                                                                \
    if (nontemporal && !((uintptr_t)(y + i) & 63))                                                                   \
      for (; i + 16 <= n; i += 16) {                                                                                 \
        __m512 v = _mm512_loadu_ps(x + i);                                                                           \
        _mm512_stream_ps(y + i, value);                                                                              \
      }                                                                                                              \
    for (; i + 16 <= n; i += 16) {                                                                                   \
      __m512 v = _mm512_loadu_ps(x + i);                                                                             \
      _mm512_storeu_ps(y + i, value);                                                                                \
    }                                                                                                                \
    if (i < n) {                                                                                                     \
      __mmask16 here = cni_first_lanes(n - i);                                                                       \
      __m512 v = _mm512_maskz_loadu_ps(here, x + i);                                                                 \
      _mm512_mask_storeu_ps(y + i, here, value);                                                                     \
    }                                                                                                                \
  }
ROW(cni_softmax_scale_row_avx512, _mm512_mul_ps(v, TOP(by)), double by)
ROW(cni_softmax_part_row_avx512, _mm512_mul_ps(cni_exp16_below(_mm512_sub_ps(v, TOP(shift))), TOP(by)), double shift,
    double by)

/* ---- columns: four vectors of them at a time, or one with some lanes ---- */

/* Lanes `here` of a vector; all of them, where the compiler sees it, without a mask. */
ALWAYS __m512 get(const float *x, __mmask16 here)
{
  return here == 0xffff ? _mm512_loadu_ps(x) : _mm512_maskz_loadu_ps(here, x);
}

ALWAYS void put(float *y, __mmask16 here, __m512 v)
{
  if (here == 0xffff) _mm512_storeu_ps(y, v);
  else _mm512_mask_storeu_ps(y, here, v);
}

ALWAYS void max_group(float *y, int64_t ystep, float *max, const float *x, int64_t xstep, int64_t rows,
                      const int many, const __mmask16 here)
{
  __m512 top[4];
  for (int k = 0; k < many; k++) top[k] = get(max + 16 * k, here);
  for (int64_t r = 0; r < rows; r++, x += xstep)
    for (int k = 0; k < many; k++) {
      __m512 v = get(x + 16 * k, here);
      if (y) put(y + r * ystep + 16 * k, here, v);
      top[k] = _mm512_max_ps(v, top[k]);
    }
  for (int k = 0; k < many; k++) put(max + 16 * k, here, top[k]);
}

void cni_softmax_max_columns_avx512(void *y_, int64_t ystep, void *max_, const void *x_, int64_t xstep, int64_t rows,
                                    int64_t m)
{
  float *y = y_, *max = max_;
  const float *x = x_;
  int64_t i = 0;
  for (; i + 64 <= m; i += 64) max_group(y ? y + i : NULL, ystep, max + i, x + i, xstep, rows, 4, 0xffff);
  for (; i + 16 <= m; i += 16) max_group(y ? y + i : NULL, ystep, max + i, x + i, xstep, rows, 1, 0xffff);
  if (i < m) max_group(y ? y + i : NULL, ystep, max + i, x + i, xstep, rows, 1, cni_first_lanes(m - i));
}

ALWAYS void exp_group(float *y, int64_t ystep, float *sum, const float *x, int64_t xstep, const float *max,
                      int64_t rows, const int many, const __mmask16 here)
{
  __m512 top[4], acc[4];
  for (int k = 0; k < many; k++) top[k] = get(max + 16 * k, here), acc[k] = TOP(0);
  for (int64_t r = 0; r < rows; r++, x += xstep)
    for (int k = 0; k < many; k++) {
      __m512 e = cni_exp16_below(_mm512_sub_ps(get(x + 16 * k, here), top[k]));
      if (y) put(y + r * ystep + 16 * k, here, e);
      acc[k] = _mm512_add_ps(acc[k], e);
    }
  for (int k = 0; k < many; k++) put(sum + 16 * k, here, _mm512_add_ps(get(sum + 16 * k, here), acc[k]));
}

void cni_softmax_exp_columns_avx512(void *y_, int64_t ystep, void *sum_, const void *x_, int64_t xstep,
                                    const void *max_, int64_t rows, int64_t m)
{
  float *y = y_, *sum = sum_;
  const float *x = x_, *max = max_;
  int64_t i = 0;
  for (; i + 64 <= m; i += 64) exp_group(y ? y + i : NULL, ystep, sum + i, x + i, xstep, max + i, rows, 4, 0xffff);
  for (; i + 16 <= m; i += 16) exp_group(y ? y + i : NULL, ystep, sum + i, x + i, xstep, max + i, rows, 1, 0xffff);
  if (i < m) exp_group(y ? y + i : NULL, ystep, sum + i, x + i, xstep, max + i, rows, 1, cni_first_lanes(m - i));
}

void cni_softmax_lift_columns_avx512(void *sum_, void *max_, const void *top_, int64_t m)
{
  float *sum = sum_, *max = max_;
  const float *top = top_;
  for (int64_t i = 0; i < m; i += 16) {
    __mmask16 here = cni_first_lanes(m - i);
    __m512 new = _mm512_maskz_loadu_ps(here, top + i), old = _mm512_maskz_loadu_ps(here, max + i);
    __m512 by = cni_exp16_below(_mm512_sub_ps(old, new));
    _mm512_mask_storeu_ps(sum + i, here, _mm512_mul_ps(_mm512_maskz_loadu_ps(here, sum + i), by));
    _mm512_mask_storeu_ps(max + i, here, new);
  }
}

/* A vector of columns in each of some rows. */
ALWAYS void part_group(float *y, int64_t ystep, const float *x, int64_t xstep, const float *max, const float *by,
                       const int rows, const __mmask16 here)
{
  const __m512 top = get(max, here), part = get(by, here);
  for (int r = 0; r < rows; r++)
    put(y + r * ystep, here, _mm512_mul_ps(cni_exp16_below(_mm512_sub_ps(get(x + r * xstep, here), top)), part));
}

ALWAYS void part_rows(float *y, int64_t ystep, const float *x, int64_t xstep, const float *max, const float *by,
                      const int rows, int64_t m)
{
  int64_t i = 0;
  for (; i + 16 <= m; i += 16) part_group(y + i, ystep, x + i, xstep, max + i, by + i, rows, 0xffff);
  if (i < m) part_group(y + i, ystep, x + i, xstep, max + i, by + i, rows, cni_first_lanes(m - i));
}

void cni_softmax_part_columns_avx512(void *y_, int64_t ystep, const void *x_, int64_t xstep, const void *max,
                                     const void *by, int64_t rows, int64_t m)
{
  float *y = y_;
  const float *x = x_;
  int64_t r = 0;
  for (; r + 4 <= rows; r += 4) part_rows(y + r * ystep, ystep, x + r * xstep, xstep, max, by, 4, m);
  for (; r < rows; r++) part_rows(y + r * ystep, ystep, x + r * xstep, xstep, max, by, 1, m);
}
