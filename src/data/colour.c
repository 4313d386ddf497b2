/* colour.c: images brighter, paler, greyer, of other hues; and as floats. See data.h.
 *
 * Each row goes through floats (bytes as 0 to 255, floats as 0 to 1) and back; bytes are cut off, not rounded, as
 * torchvision does. Place in the flow: loops below the transforms. Invariant: bytes stay within 0 to 255, floats
 * within 0 to 1, wherever torchvision keeps them there. */
#include <math.h>
#include <string.h>

#include "pixels.h"

/* What a row function gets besides its pixels. */
typedef struct change {
  float factor, other; /* x * factor + other * (1 - factor), say */
  float most;          /* 255 or 1 */
  int64_t channels;
} change;

/* Changes n pixels, their channels side by side. */
typedef void (*row_fn)(float *row, int64_t n, const change *how);

static void load_row(float *row, const cni_pixels *v, int64_t y)
{
  const unsigned char *p = v->p + y * v->sh;
  if (v->dtype == CN_U8 && cni_side_by_side(v)) {
    for (int64_t i = 0; i < v->w * v->c; i++) row[i] = p[i];
    return;
  }
  for (int64_t x = 0; x < v->w; x++, p += v->sw)
    for (int64_t c = 0; c < v->c; c++) {
      if (v->dtype == CN_U8) *row++ = p[c * v->sc];
      else memcpy(row++, p + c * v->sc, sizeof *row);
    }
}

static void store_row(const cni_pixels *out, int64_t y, const float *row)
{
  unsigned char *p = out->p + y * out->sh;
  int64_t n = out->w * out->c;
  if (out->dtype == CN_F32) memcpy(p, row, (size_t)n * sizeof *row);
  else
    for (int64_t i = 0; i < n; i++) p[i] = (unsigned char)(row[i] > 255 ? 255 : row[i] > 0 ? (int)row[i] : 0);
}

static int check_colours(const cni_pixels *v, const char *who)
{
  if (v->c == 1 || v->c == 3) return CN_OK;
  return cn_err_set(CN_ERR_SHAPE, "%s: an image of 1 or 3 channels is needed, not of %lld", who, (long long)v->c);
}

static cn_tensor *change_rows(const cni_pixels *in, row_fn fn, change how)
{
  cni_pixels out;
  cn_tensor *t = cni_pixels_new(&out, in->c, in->h, in->w, in->dtype, false);
  size_t size = (size_t)(in->w * in->c) * sizeof(float);
  float *row = t ? cn_alloc(size) : NULL;
  if (!row) return NULL;
  how.most = in->dtype == CN_U8 ? 255 : 1;
  how.channels = in->c;
  for (int64_t y = 0; y < in->h; y++) {
    load_row(row, in, y);
    fn(row, in->w, &how);
    store_row(&out, y, row);
  }
  cn_free(row, size);
  return t;
}

static float clamp(float v, float most) { return v < 0 ? 0 : v > most ? most : v; }
static float grey(const float *p) { return p[0] * 0.2989f + p[1] * 0.587f + p[2] * 0.114f; }
/* Bytes have grey levels of bytes. */
static float grey_level(const float *p, const change *how) { return how->most > 1 ? floorf(grey(p)) : grey(p); }

static int check_factor(double factor, const char *who)
{
  if (factor >= 0 && factor < 1e9) return CN_OK;
  return cn_err_set(CN_ERR_VALUE, "%s: the factor is not a number from 0 on", who);
}

/* ---- brightness, contrast, saturation ---- */

static void mix_with_other(float *row, int64_t n, const change *how)
{
  float rest = (1 - how->factor) * how->other;
  for (int64_t i = 0; i < n * how->channels; i++) row[i] = clamp(row[i] * how->factor + rest, how->most);
}

static void mix_with_grey(float *row, int64_t n, const change *how)
{
  for (float *p = row; p < row + 3 * n; p += 3) {
    float rest = (1 - how->factor) * grey_level(p, how);
    for (int c = 0; c < 3; c++) p[c] = clamp(p[c] * how->factor + rest, how->most);
  }
}

cn_tensor *cn_image_brightness(cn_tensor *image, double factor)
{
  cni_pixels in;
  if (cni_pixels_of(&in, image, "brightness") || check_colours(&in, "brightness") || check_factor(factor, "brightness"))
    return NULL;
  return change_rows(&in, mix_with_other, (change){.factor = (float)factor});
}

cn_tensor *cn_image_saturation(cn_tensor *image, double factor)
{
  cni_pixels in;
  if (cni_pixels_of(&in, image, "saturation") || check_colours(&in, "saturation") || check_factor(factor, "saturation"))
    return NULL;
  return in.c == 1 ? image : change_rows(&in, mix_with_grey, (change){.factor = (float)factor});
}

/* The mean of all grey levels; false without memory. */
static bool mean_grey(double *mean, const cni_pixels *in)
{
  size_t size = (size_t)(in->w * in->c) * sizeof(float);
  float *row = cn_alloc(size);
  change how = {.most = in->dtype == CN_U8 ? 255 : 1};
  double sum = 0;
  for (int64_t y = 0; row && y < in->h; y++) {
    load_row(row, in, y);
    for (int64_t x = 0; x < in->w; x++) sum += in->c == 3 ? grey_level(row + 3 * x, &how) : row[x];
  }
  *mean = sum / (double)(in->h * in->w);
  cn_free(row, size);
  return row != NULL;
}

cn_tensor *cn_image_contrast(cn_tensor *image, double factor)
{
  cni_pixels in;
  double mean;
  if (cni_pixels_of(&in, image, "contrast") || check_colours(&in, "contrast") || check_factor(factor, "contrast"))
    return NULL;
  if (!mean_grey(&mean, &in)) return NULL;
  return change_rows(&in, mix_with_other, (change){.factor = (float)factor, .other = (float)mean});
}

/* ---- hue ---- */

/* Red, green and blue in [0, 1] to the same with its hue rotated by `factor` of a circle. */
static void rotate_hue(float *p, float factor)
{
  float r = p[0], g = p[1], b = p[2];
  float most = fmaxf(r, fmaxf(g, b)), least = fminf(r, fminf(g, b)), range = most - least, h = 0;
  if (range <= 0) return; /* grey has no hue */
  float rc = (most - r) / range, gc = (most - g) / range, bc = (most - b) / range;
  if (most == r) h = bc - gc;
  else if (most == g) h = 2 + rc - bc;
  else h = 4 + gc - rc;
  h = fmodf(h * (1.0f / 6) + 1, 1) + factor;
  h -= floorf(h);
  float s = range / most, sixth = floorf(h * 6), f = h * 6 - sixth;
  float q = clamp((1 - s * f) * most, 1), t = clamp((s * f + (1 - s)) * most, 1), low = clamp((1 - s) * most, 1);
  const float rgb[6][3] = {{most, t, low}, {q, most, low}, {low, most, t},
                           {low, q, most}, {t, low, most}, {most, low, q}};
  memcpy(p, rgb[(int)sixth % 6], sizeof rgb[0]);
}

static void rotate_hues(float *row, int64_t n, const change *how)
{
  bool bytes = how->most > 1;
  for (float *p = row; p < row + 3 * n; p += 3) {
    for (int c = 0; bytes && c < 3; c++) p[c] /= 255;
    rotate_hue(p, how->factor);
    for (int c = 0; bytes && c < 3; c++) p[c] *= 255.999f; /* each byte gets an equal part of [0, 1] */
  }
}

cn_tensor *cn_image_hue(cn_tensor *image, double factor)
{
  cni_pixels in;
  if (cni_pixels_of(&in, image, "hue") || check_colours(&in, "hue")) return NULL;
  if (!(factor >= -0.5 && factor <= 0.5)) {
    cn_err_set(CN_ERR_VALUE, "hue: the factor lies between -0.5 and 0.5");
    return NULL;
  }
  return in.c == 1 ? image : change_rows(&in, rotate_hues, (change){.factor = (float)factor});
}

/* ---- grey ---- */

static void to_grey(float *row, int64_t n, const change *how)
{
  (void)how;
  for (float *p = row; p < row + 3 * n; p += 3) p[0] = p[1] = p[2] = grey(p);
}

cn_tensor *cn_image_grayscale(cn_tensor *image, int channels)
{
  cni_pixels in;
  if (cni_pixels_of(&in, image, "grayscale") || check_colours(&in, "grayscale")) return NULL;
  if (channels != 1 && channels != 3) {
    cn_err_set(CN_ERR_VALUE, "grayscale: to %d channels; 1 or 3 are possible", channels);
    return NULL;
  }
  if (in.c == channels && channels == 1) return image;
  if (in.c == 1) return cn_contiguous(cn_expand(image, CN_SHAPE(3, in.h, in.w)));
  cn_tensor *t = change_rows(&in, to_grey, (change){.factor = 0});
  return channels == 3 ? t : cn_narrow(t, 0, 0, 1);
}

/* ---- floats ---- */

enum { CHANNELS_MAX = 64 };

/* Bytes through a table by channel, or floats by (x - mean) / std, to planes. */
static cn_tensor *to_planes(const cni_pixels *in, const float *mean, const float *std)
{
  cni_pixels out;
  cn_tensor *t = cni_pixels_new(&out, in->c, in->h, in->w, CN_F32, true);
  for (int64_t c = 0; t && c < in->c; c++) {
    float table[256], m = mean ? mean[c] : 0, s = std ? std[c] : 1;
    for (int i = 0; i < 256; i++) table[i] = mean ? ((float)i / 255 - m) / s : (float)i / 255;
    for (int64_t y = 0; y < in->h; y++) {
      float *to = (float *)(void *)(out.p + c * out.sc + y * out.sh), v;
      const unsigned char *p = in->p + c * in->sc + y * in->sh;
      if (in->dtype == CN_U8)
        for (int64_t x = 0; x < in->w; x++) to[x] = table[p[x * in->sw]];
      else
        for (int64_t x = 0; x < in->w; x++) {
          memcpy(&v, p + x * in->sw, sizeof v);
          to[x] = mean ? (v - m) / s : v;
        }
    }
  }
  return t;
}

cn_tensor *cn_image_float(cn_tensor *image)
{
  cni_pixels in;
  if (cni_pixels_of(&in, image, "float")) return NULL;
  return in.dtype == CN_F32 ? image : to_planes(&in, NULL, NULL);
}

cn_tensor *cn_image_normalize(cn_tensor *image, const double *mean, const double *std, size_t channels)
{
  cni_pixels in;
  float m[CHANNELS_MAX], s[CHANNELS_MAX];
  if (cni_pixels_of(&in, image, "normalize")) return NULL;
  if ((channels != 1 && (int64_t)channels != in.c) || in.c > CHANNELS_MAX) {
    cn_err_set(CN_ERR_SHAPE, "normalize: means of %zu channels for an image of %lld", channels, (long long)in.c);
    return NULL;
  }
  for (int64_t c = 0; c < in.c; c++) {
    m[c] = (float)mean[channels == 1 ? 0 : c];
    s[c] = (float)std[channels == 1 ? 0 : c];
    if (s[c] == 0) cn_err_set(CN_ERR_VALUE, "normalize: the deviation of channel %lld is 0", (long long)c);
  }
  return cn_err() ? NULL : to_planes(&in, m, s);
}
