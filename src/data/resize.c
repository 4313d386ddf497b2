/* resize.c: images at another size: bilinear with antialiasing, as torchvision and Pillow do. See data.h.
 *
 * Each side has a table of which pixels make a new one, and how much of each; first rows are made narrower (or
 * wider), then columns. Bytes are weighted by whole numbers and rounded to bytes in between, with the precision that
 * the largest weight leaves in 16 bits: PyTorch's own arithmetic, so that the results are the same bit for bit. Place
 * in the flow: below the transforms. Invariant: pixels outside the image are never read, not even with weight 0. */
#include <math.h>
#include <string.h>

#include "pixels.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

/* What new pixel i is made of: `size[i]` old ones from first[i] on, with the weights at i * taps. */
typedef struct axis {
  int64_t n, taps; /* taps: room for each, even */
  int64_t *first, *size;
  float *weights;
  int16_t *whole; /* the weights times 2^precision */
  int precision;
} axis;

static size_t axis_bytes(const axis *a)
{
  return (size_t)a->n * (2 * sizeof *a->first + (size_t)a->taps * (sizeof *a->weights + sizeof *a->whole));
}

static void axis_free(axis *a) { cn_free(a->first, a->first ? axis_bytes(a) : 0); }

/* The weights of new pixel i, a triangle around its centre; returns the largest. */
static double weigh(axis *a, double *row, int64_t i, int64_t from, double scale)
{
  double support = scale >= 1 ? scale : 1, inverse = 1 / support, centre = scale * ((double)i + 0.5);
  double total = 0, most = 0;
  int64_t first = (int64_t)(centre - support + 0.5), end = (int64_t)(centre + support + 0.5);
  if (first < 0) first = 0;
  if (end > from) end = from;
  a->first[i] = first;
  a->size[i] = end - first < a->taps ? end - first : a->taps;
  for (int64_t k = 0; k < a->size[i]; k++) {
    double x = fabs(((double)(k + first) - centre + 0.5) * inverse);
    row[k] = x < 1 ? 1 - x : 0;
    total += row[k];
  }
  for (int64_t k = 0; k < a->size[i]; k++) {
    if (total != 0) row[k] /= total;
    a->weights[i * a->taps + k] = (float)row[k];
    if (row[k] > most) most = row[k];
  }
  return most;
}

static int axis_new(axis *a, int64_t from, int64_t to)
{
  double scale = (double)from / (double)to, most = 0;
  *a = (axis){.n = to, .taps = 2 * (int64_t)ceil(scale >= 1 ? scale : 1) + 2};
  a->first = cn_alloc_zero(axis_bytes(a));
  size_t size = (size_t)(a->n * a->taps) * sizeof(double);
  double *exact = a->first ? cn_alloc_zero(size) : NULL;
  if (!exact) {
    axis_free(a);
    return cn_err();
  }
  a->size = a->first + to;
  a->weights = (float *)(void *)(a->size + to);
  a->whole = (int16_t *)(void *)(a->weights + to * a->taps);
  for (int64_t i = 0; i < to; i++) {
    double largest = weigh(a, exact + i * a->taps, i, from, scale);
    if (largest > most) most = largest;
  }
  while (a->precision < 22 && (int)(0.5 + most * (1 << (a->precision + 1))) < 1 << 15) a->precision++;
  for (int64_t i = 0; i < to * a->taps; i++) a->whole[i] = (int16_t)(0.5 + exact[i] * (1 << a->precision));
  cn_free(exact, size);
  return CN_OK;
}

static unsigned char byte(int32_t sum, int precision)
{
  sum >>= precision;
  return (unsigned char)(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

/* ---- bytes ---- */

/* Columns begin .. end - 1 of one row; any strides. */
static void narrow_plain(unsigned char *to, const unsigned char *row, const cni_pixels *v, const axis *a, int64_t begin,
                         int64_t end)
{
  for (int64_t i = begin; i < end; i++) {
    const int16_t *weights = a->whole + i * a->taps;
    for (int64_t c = 0; c < v->c; c++) {
      const unsigned char *p = row + c * v->sc + a->first[i] * v->sw;
      int32_t sum = 1 << (a->precision - 1);
      for (int64_t k = 0; k < a->size[i]; k++, p += v->sw) sum += weights[k] * *p;
      to[i * v->c + c] = byte(sum, a->precision);
    }
  }
}

#if defined(__SSE2__)
/* Two neighbouring pixels of three bytes as 16-bit pairs by channel: r r' g g' b b' and one pair to be ignored. */
static inline __m128i pixel_pair(const unsigned char *p)
{
  int32_t a, b;
  memcpy(&a, p, 4);
  memcpy(&b, p + 3, 4);
  __m128i bytes = _mm_unpacklo_epi8(_mm_cvtsi32_si128(a), _mm_cvtsi32_si128(b));
  return _mm_unpacklo_epi8(bytes, _mm_setzero_si128());
}

/* Two rows at once, three channels side by side; returns up to which column. A pair of pixels reads one byte past it,
 * so that the columns made of a row's last pixels are left. */
static int64_t narrow_colour(unsigned char *to, int64_t to_row, const unsigned char *row, int64_t row_step,
                             int64_t wide, const axis *a)
{
  __m128i half = _mm_set1_epi32(1 << (a->precision - 1)), shift = _mm_cvtsi32_si128(a->precision);
  for (int64_t i = 0; i < a->n; i++) {
    int64_t pairs = (a->size[i] + 1) / 2;
    if (a->first[i] + 2 * pairs >= wide) return i;
    const unsigned char *p = row + 3 * a->first[i];
    const int16_t *weights = a->whole + i * a->taps;
    __m128i s = half, t = half;
    for (int64_t k = 0; k < pairs; k++, p += 6) {
      int32_t both;
      memcpy(&both, weights + 2 * k, 4);
      __m128i w = _mm_set1_epi32(both);
      s = _mm_add_epi32(s, _mm_madd_epi16(pixel_pair(p), w));
      t = _mm_add_epi32(t, _mm_madd_epi16(pixel_pair(p + row_step), w));
    }
    __m128i sums = _mm_packs_epi32(_mm_sra_epi32(s, shift), _mm_sra_epi32(t, shift));
    sums = _mm_packus_epi16(sums, sums);
    int32_t first = _mm_cvtsi128_si32(sums), second = _mm_cvtsi128_si32(_mm_srli_si128(sums, 4));
    memcpy(to + 3 * i, &first, 4); /* the fourth byte belongs to the next pixel, which comes later */
    memcpy(to + to_row + 3 * i, &second, 4);
  }
  return a->n;
}

/* Columns of bytes, sixteen at a time; returns up to which. */
static int64_t lower_sixteen(unsigned char *to, const unsigned char *const *rows, const int16_t *weights, int64_t size,
                             int64_t n, int precision)
{
  __m128i zero = _mm_setzero_si128(), half = _mm_set1_epi32(1 << (precision - 1)), shift = _mm_cvtsi32_si128(precision);
  int64_t x = 0;
  for (; x + 16 <= n; x += 16) {
    __m128i s[4] = {half, half, half, half};
    for (int64_t k = 0; k < size; k += 2) {
      int32_t both;
      memcpy(&both, weights + k, 4);
      __m128i w = _mm_set1_epi32(both), a = _mm_loadu_si128((const __m128i *)(const void *)(rows[k] + x));
      __m128i b = k + 1 < size ? _mm_loadu_si128((const __m128i *)(const void *)(rows[k + 1] + x)) : zero;
      __m128i low = _mm_unpacklo_epi8(a, b), high = _mm_unpackhi_epi8(a, b);
      s[0] = _mm_add_epi32(s[0], _mm_madd_epi16(_mm_unpacklo_epi8(low, zero), w));
      s[1] = _mm_add_epi32(s[1], _mm_madd_epi16(_mm_unpackhi_epi8(low, zero), w));
      s[2] = _mm_add_epi32(s[2], _mm_madd_epi16(_mm_unpacklo_epi8(high, zero), w));
      s[3] = _mm_add_epi32(s[3], _mm_madd_epi16(_mm_unpackhi_epi8(high, zero), w));
    }
    for (int k = 0; k < 4; k++) s[k] = _mm_sra_epi32(s[k], shift);
    __m128i bytes = _mm_packus_epi16(_mm_packs_epi32(s[0], s[1]), _mm_packs_epi32(s[2], s[3]));
    _mm_storeu_si128((__m128i *)(void *)(to + x), bytes);
  }
  return x;
}
#endif

/* Rows begin .. end - 1 of v made as wide as the axis, side by side, to rows of `to`. There are 4 bytes behind its
 * end. */
static void narrow_bytes(unsigned char *to, const cni_pixels *v, const axis *a, int64_t begin, int64_t end)
{
  int64_t row = a->n * v->c;
  for (int64_t y = begin; y < end; y += 2) {
    int64_t rows = end - y < 2 ? 1 : 2, done = 0;
    const unsigned char *from = v->p + y * v->sh;
    unsigned char *out = to + (y - begin) * row;
#if defined(__SSE2__)
    if (v->c == 3 && cni_side_by_side(v) && rows == 2) done = narrow_colour(out, row, from, v->sh, v->w, a);
#endif
    for (int64_t r = 0; r < rows; r++) narrow_plain(out + r * row, from + r * v->sh, v, a, done, a->n);
  }
}

/* Each new row of n bytes from old ones that lie `step` apart; row 0 of `from` is old row `base`. */
static int lower_bytes(unsigned char *to, int64_t to_step, const unsigned char *from, int64_t step, int64_t base,
                       int64_t n, const axis *a)
{
  size_t size = (size_t)a->taps * sizeof(const unsigned char *);
  const unsigned char **rows = cn_alloc(size);
  if (!rows) return cn_err();
  for (int64_t i = 0; i < a->n; i++, to += to_step) {
    const int16_t *weights = a->whole + i * a->taps;
    for (int64_t k = 0; k < a->size[i]; k++) rows[k] = from + (a->first[i] + k - base) * step;
    int64_t x = 0;
#if defined(__SSE2__)
    x = lower_sixteen(to, rows, weights, a->size[i], n, a->precision);
#endif
    for (; x < n; x++) {
      int32_t sum = 1 << (a->precision - 1);
      for (int64_t k = 0; k < a->size[i]; k++) sum += weights[k] * rows[k][x];
      to[x] = byte(sum, a->precision);
    }
  }
  cn_free(rows, size);
  return CN_OK;
}

/* ---- floats ---- */

static void narrow_floats(float *to, const cni_pixels *v, const axis *a, int64_t begin, int64_t end)
{
  for (int64_t y = begin; y < end; y++)
    for (int64_t i = 0; i < a->n; i++)
      for (int64_t c = 0; c < v->c; c++) {
        const unsigned char *p = v->p + y * v->sh + c * v->sc + a->first[i] * v->sw;
        float sum = 0, x;
        for (int64_t k = 0; k < a->size[i]; k++, p += v->sw) {
          memcpy(&x, p, sizeof x);
          sum += a->weights[i * a->taps + k] * x;
        }
        *to++ = sum;
      }
}

static void lower_floats(float *to, const float *from, int64_t base, int64_t n, const axis *a)
{
  for (int64_t i = 0; i < a->n; i++, to += n) {
    const float *row = from + (a->first[i] - base) * n, *weights = a->weights + i * a->taps;
    for (int64_t x = 0; x < n; x++) to[x] = 0;
    for (int64_t k = 0; k < a->size[i]; k++, row += n)
      for (int64_t x = 0; x < n; x++) to[x] += weights[k] * row[x];
  }
}

/* ---- both ---- */

static int resize(const cni_pixels *out, const cni_pixels *in, const axis *across, const axis *down)
{
  int64_t begin = down->first[0], end = down->first[down->n - 1] + down->size[down->n - 1], n = out->w * in->c;
  size_t size = (size_t)((end - begin) * n) * in->element + 4;
  unsigned char *narrow = cn_alloc(size);
  if (!narrow) return cn_err();
  int status = CN_OK;
  if (in->dtype == CN_U8) {
    narrow_bytes(narrow, in, across, begin, end);
    status = lower_bytes(out->p, out->sh, narrow, n, begin, n, down);
  } else {
    narrow_floats((float *)(void *)narrow, in, across, begin, end);
    lower_floats((float *)(void *)out->p, (const float *)(void *)narrow, begin, n, down);
  }
  cn_free(narrow, size);
  return status;
}

cn_tensor *cni_resize(const cni_pixels *from, int64_t height, int64_t width)
{
  axis across, down;
  cni_pixels out;
  if (height < 1 || width < 1 || from->h < 1 || from->w < 1) {
    cn_err_set(CN_ERR_SHAPE, "resize: from %lld x %lld to %lld x %lld pixels", (long long)from->h, (long long)from->w,
               (long long)height, (long long)width);
    return NULL;
  }
  cn_tensor *t = cni_pixels_new(&out, from->c, height, width, from->dtype, false);
  if (!t || axis_new(&across, from->w, width)) return NULL;
  int status = axis_new(&down, from->h, height);
  if (!status) {
    status = resize(&out, from, &across, &down);
    axis_free(&down);
  }
  axis_free(&across);
  return status ? NULL : t;
}

cn_tensor *cn_image_resize(cn_tensor *image, int64_t height, int64_t width)
{
  cni_pixels v;
  return cni_pixels_of(&v, image, "resize") ? NULL : cni_resize(&v, height, width);
}
