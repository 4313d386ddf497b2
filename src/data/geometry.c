/* geometry.c: images cropped, flipped, moved and rotated. See data.h.
 *
 * Place in the flow: loops below the transforms, for pixels of any size (they are only moved). Invariant: a new image
 * has its channels side by side. */
#include <math.h>
#include <string.h>

#include "pixels.h"

int cni_pixels_of(cni_pixels *v, cn_tensor *image, const char *who)
{
  if (cn_err()) return cn_err();
  if (!image || cn_ndim(image) != 3)
    return cn_err_set(CN_ERR_SHAPE, "%s: an image is (channels, height, width), not of %d dimensions", who,
                      cn_ndim(image));
  cn_dtype dtype = cn_dtype_of(image);
  if (dtype != CN_U8 && dtype != CN_F32)
    return cn_err_set(CN_ERR_DTYPE, "%s: an image of %s; uint8 and float32 are possible", who, cn_dtype_name(dtype));
  const int64_t *shape = cn_shape(image), *strides = cn_strides(image);
  int64_t size = (int64_t)cn_dtype_size(dtype);
  *v = (cni_pixels){.c = shape[0], .h = shape[1], .w = shape[2], .sc = strides[0] * size, .sh = strides[1] * size,
                    .sw = strides[2] * size, .dtype = dtype, .element = (size_t)size};
  if (!cn_numel(image)) return cn_err_set(CN_ERR_SHAPE, "%s: the image has no pixels", who);
  v->p = cn_data(image);
  return v->p ? CN_OK : cn_err();
}

cn_tensor *cni_pixels_new(cni_pixels *v, int64_t c, int64_t h, int64_t w, cn_dtype dtype, bool planes)
{
  cn_scope *s = cn_scope_begin();
  cn_tensor *t = planes ? cn_empty(CN_SHAPE(c, h, w), .dtype = dtype, .device = CN_CPU)
                        : cn_empty(CN_SHAPE(h, w, c), .dtype = dtype, .device = CN_CPU);
  if (t && !planes) t = cn_permute(t, CN_SHAPE(2, 0, 1));
  if (t && cni_pixels_of(v, t, "image")) t = NULL;
  return cn_scope_return(s, t);
}

/* A pixel of every channel. */
static inline void copy_pixel(unsigned char *to, const cni_pixels *out, const unsigned char *from, const cni_pixels *in)
{
  if (in->element == 1)
    for (int64_t c = 0; c < in->c; c++) to[c * out->sc] = from[c * in->sc];
  else
    for (int64_t c = 0; c < in->c; c++) memcpy(to + c * out->sc, from + c * in->sc, sizeof(float));
}

/* n pixels of a row; step 1 or -1 through the old one. */
static void copy_row(unsigned char *to, const cni_pixels *out, const unsigned char *from, const cni_pixels *in,
                     int64_t n, int64_t step)
{
  if (step == 1 && cni_side_by_side(in)) {
    memcpy(to, from, (size_t)(n * in->sw));
    return;
  }
  if (in->c == 3 && in->element == 1 && cni_side_by_side(in)) {
    for (int64_t x = 0; x < n; x++, to += 3, from += 3 * step) to[0] = from[0], to[1] = from[1], to[2] = from[2];
    return;
  }
  for (int64_t x = 0; x < n; x++) copy_pixel(to + x * out->sw, out, from + x * step * in->sw, in);
}

/* ---- crops and flips ---- */

/* A window of sides that make sense, not farther from the image than numbers go. */
static int check_window(const char *who, int64_t top, int64_t left, int64_t height, int64_t width)
{
  const int64_t far = INT32_MAX;
  bool near = top >= -far && top <= far && left >= -far && left <= far;
  if (near && height >= 1 && height <= far && width >= 1 && width <= far) return CN_OK;
  return cn_err_set(CN_ERR_SHAPE, "%s: a window of %lld x %lld pixels at %lld, %lld", who, (long long)height,
                    (long long)width, (long long)top, (long long)left);
}

cn_tensor *cn_image_crop(cn_tensor *image, int64_t top, int64_t left, int64_t height, int64_t width)
{
  cni_pixels in, out;
  if (cni_pixels_of(&in, image, "crop") || check_window("crop", top, left, height, width)) return NULL;
  if (top >= 0 && left >= 0 && height <= in.h && width <= in.w && top <= in.h - height && left <= in.w - width)
    return cn_narrow(cn_narrow(image, 1, top, height), 2, left, width);
  cn_tensor *t = cni_pixels_new(&out, in.c, height, width, in.dtype, false);
  if (!t) return NULL;
  memset(out.p, 0, (size_t)(height * out.sh));
  for (int64_t y = 0; y < height; y++) {
    int64_t from = top + y, begin = left < 0 ? -left : 0, end = in.w - left < width ? in.w - left : width;
    if (from < 0 || from >= in.h || begin >= end) continue;
    const unsigned char *first = in.p + from * in.sh + (left + begin) * in.sw;
    copy_row(out.p + y * out.sh + begin * out.sw, &out, first, &in, end - begin, 1);
  }
  return t;
}

cn_tensor *cn_image_resized_crop(cn_tensor *image, const int64_t window[4], int64_t height, int64_t width)
{
  cni_pixels in;
  cn_scope *s = cn_scope_begin();
  image = cn_image_crop(image, window[0], window[1], window[2], window[3]);
  cn_tensor *t = image && !cni_pixels_of(&in, image, "resized crop") ? cni_resize(&in, height, width) : NULL;
  return cn_scope_return(s, t);
}

cn_tensor *cn_image_flip(cn_tensor *image, bool horizontal, bool vertical)
{
  cni_pixels in, out;
  if (cni_pixels_of(&in, image, "flip")) return NULL;
  if (!horizontal && !vertical) return image;
  cn_tensor *t = cni_pixels_new(&out, in.c, in.h, in.w, in.dtype, false);
  for (int64_t y = 0; t && y < in.h; y++) {
    const unsigned char *from = in.p + (vertical ? in.h - 1 - y : y) * in.sh + (horizontal ? in.w - 1 : 0) * in.sw;
    copy_row(out.p + y * out.sh, &out, from, &in, in.w, horizontal ? -1 : 1);
  }
  return t;
}

cn_tensor *cn_image_erase(cn_tensor *image, int64_t top, int64_t left, int64_t height, int64_t width)
{
  cni_pixels in, out;
  if (cni_pixels_of(&in, image, "erase") || check_window("erase", top, left, height, width)) return NULL;
  cn_tensor *t = cni_pixels_new(&out, in.c, in.h, in.w, in.dtype, false);
  if (!t) return NULL;
  for (int64_t y = 0; y < in.h; y++) copy_row(out.p + y * out.sh, &out, in.p + y * in.sh, &in, in.w, 1);
  int64_t bottom = top + height < in.h ? top + height : in.h, right = left + width < in.w ? left + width : in.w;
  if (top < 0) top = 0;
  if (left < 0) left = 0;
  for (int64_t y = top; y < bottom && left < right; y++)
    memset(out.p + y * out.sh + left * out.sw, 0, (size_t)((right - left) * out.sw));
  return t;
}

/* ---- rotations ---- */

/* The inverse of a rotation around the middle: where each new pixel comes from. m: two rows of three, in pixels from
 * the middle. In float32, as PyTorch has its grids, so that ties fall the same way. */
static cn_tensor *take_nearest(const cni_pixels *in, const double m[6])
{
  cni_pixels out;
  cn_tensor *t = cni_pixels_new(&out, in->c, in->h, in->w, in->dtype, false);
  if (!t) return NULL;
  memset(out.p, 0, (size_t)(out.h * out.sh));
  float wide = (float)in->w, high = (float)in->h, r[6];
  for (int i = 0; i < 6; i++) r[i] = (float)m[i] / (0.5f * (i < 3 ? wide : high));
  for (int64_t y = 0; y < out.h; y++)
    for (int64_t x = 0; x < out.w; x++) {
      float px = (float)x - (wide - 1) * 0.5f, py = (float)y - (high - 1) * 0.5f;
      float gx = px * r[0] + py * r[1] + r[2], gy = px * r[3] + py * r[4] + r[5]; /* in [-1, 1] */
      float fx = rintf(((gx + 1) * wide - 1) / 2), fy = rintf(((gy + 1) * high - 1) / 2);
      if (!(fx >= 0 && fx < wide && fy >= 0 && fy < high)) continue;
      copy_pixel(out.p + y * out.sh + x * out.sw, &out, in->p + (int64_t)fy * in->sh + (int64_t)fx * in->sw, in);
    }
  return t;
}

static double radians(double degrees) { return degrees * 0.017453292519943295; }

cn_tensor *cn_image_affine(cn_tensor *image, double degrees, double x, double y, double scale, double shear_x,
                           double shear_y)
{
  cni_pixels in;
  if (cni_pixels_of(&in, image, "affine")) return NULL;
  double angle = radians(degrees), sx = radians(shear_x), sy = radians(shear_y);
  double a = cos(angle - sy) / cos(sy), b = -cos(angle - sy) * tan(sx) / cos(sy) - sin(angle);
  double c = sin(angle - sy) / cos(sy), d = -sin(angle - sy) * tan(sx) / cos(sy) + cos(angle);
  double m[6] = {d / scale, -b / scale, 0, -c / scale, a / scale, 0};
  m[2] = m[0] * -x + m[1] * -y;
  m[5] = m[3] * -x + m[4] * -y;
  for (int i = 0; i < 6; i++)
    if (!isfinite(m[i])) {
      cn_err_set(CN_ERR_VALUE, "affine: scale, angle or shear leave no picture");
      return NULL;
    }
  return take_nearest(&in, m);
}

cn_tensor *cn_image_rotate(cn_tensor *image, double degrees) { return cn_image_affine(image, -degrees, 0, 0, 1, 0, 0); }
