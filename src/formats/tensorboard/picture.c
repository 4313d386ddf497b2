/* picture.c: images in a file of events: tensors laid out as rows of pixels, several of them as a grid. See events.h.
 *
 * Invariant: a picture's sides fit into what PNG and TensorBoard take, or it is refused. */
#include <cairn/autograd.h>
#include <cairn/io.h>
#include <cairn/kw.h>
#include <math.h>
#include <string.h>

#include "tfrecord.h"

enum { SIDE_MOST = 1 << 16, GRID_COLUMNS = 8 };

void cni_picture_free(cni_picture *p)
{
  cn_free(p->pixels, p->height * p->width * p->channels);
  *p = (cni_picture){0};
}

/* Sizes with the missing leading ones: N, C, H, W. */
static int read_sizes(int64_t size[4], const cn_tensor *t, const char *who)
{
  int ndim = cn_ndim(t);
  cn_dtype dtype = cn_dtype_of(t);
  if (!t) return cn_err_set(CN_ERR_TYPE, "%s: the image is missing (NULL)", who);
  if (ndim < 2 || ndim > 4)
    return cn_err_set(CN_ERR_SHAPE, "%s: an image is (H, W), (C, H, W) or (N, C, H, W), not of %d dimensions", who,
                      ndim);
  if (dtype != CN_U8 && !cn_dtype_is_float(dtype))
    return cn_err_set(CN_ERR_DTYPE, "%s: an image is of uint8, or of floats in [0, 1], not of %s", who,
                      cn_dtype_name(dtype));
  for (int i = 0; i < 4; i++) size[i] = i < 4 - ndim ? 1 : cn_size(t, i - (4 - ndim));
  if (size[1] < 1 || size[1] > 4)
    return cn_err_set(CN_ERR_SHAPE, "%s: an image has 1 to 4 channels, not %lld", who, (long long)size[1]);
  if (size[0] < 1 || size[2] < 1 || size[3] < 1) return cn_err_set(CN_ERR_SHAPE, "%s: the image is empty", who);
  return CN_OK;
}

static unsigned char sample(double v, double scale)
{
  v *= scale;
  return (unsigned char)(v >= 255 ? 255 : v > 0 ? v + 0.5 : 0); /* NaN becomes 0 */
}

/* v: (N, C, H, W) row-major. */
static void fill(cni_picture *p, const double *v, const int64_t size[4], int64_t columns, double scale)
{
  size_t c = (size_t)size[1], h = (size_t)size[2], w = (size_t)size[3];
  for (size_t n = 0; n < (size_t)size[0]; n++) {
    size_t top = n / (size_t)columns * h, left = n % (size_t)columns * w;
    for (size_t k = 0; k < c; k++)
      for (size_t y = 0; y < h; y++)
        for (size_t x = 0; x < w; x++)
          p->pixels[((top + y) * p->width + left + x) * c + k] = sample(v[((n * c + k) * h + y) * w + x], scale);
  }
}

int cni_picture_of(cni_picture *p, cn_tensor *image, int64_t columns, const char *who)
{
  int64_t size[4], rows;
  size_t n;
  *p = (cni_picture){0};
  int status = read_sizes(size, image, who);
  if (status) return status;
  if (columns) {
    if (columns > size[0]) columns = size[0];
    rows = (size[0] + columns - 1) / columns;
  } else {
    for (columns = 1; columns * columns < size[0];) columns++;
    rows = columns;
  }
  if (size[2] > SIDE_MOST / rows || size[3] > SIDE_MOST / columns)
    return cn_err_set(CN_ERR_SHAPE, "%s: a picture of %lld x %lld pixels is too large (%d each way)", who,
                      (long long)(size[2] * rows), (long long)(size[3] * columns), SIDE_MOST);
  double *v = cni_events_numbers(image, &n);
  if (!v) return cn_err();
  *p = (cni_picture){.height = (size_t)(rows * size[2]), .width = (size_t)(columns * size[3]),
                     .channels = (size_t)size[1]};
  if ((p->pixels = cn_alloc_zero(p->height * p->width * p->channels)))
    fill(p, v, size, columns, cn_dtype_of(image) == CN_U8 ? 1 : 255);
  cn_free(v, n * sizeof *v);
  return p->pixels ? CN_OK : cn_err();
}

int cni_picture_png(cn_text *out, const cni_picture *p)
{
  return cn_png_write(out, p->pixels, (int64_t)p->height, (int64_t)p->width, (int)p->channels);
}

int cn_events_image(cn_events *events, const char *tag, cn_tensor *image, int64_t step)
{
  cni_picture p = {0};
  cn_text v = {0}, m = {0}, png = {0};
  int status = cni_events_check(events, "events_image", tag);
  if (!status) status = cni_picture_of(&p, image, GRID_COLUMNS, "events_image");
  if (!status) {
    cni_pb_int(&m, 1 /* height */, (int64_t)p.height);
    cni_pb_int(&m, 2 /* width */, (int64_t)p.width);
    cni_pb_int(&m, 3 /* colorspace */, (int64_t)p.channels);
    status = cni_picture_png(&png, &p);
    cni_pb_message(&m, 4 /* encoded_image_string */, &png);
    cni_pb_message(&v, 4 /* image */, &m);
    if (!status) status = cni_events_put_value(events, tag, step, &v, NULL, NULL);
    else cn_text_free(&v);
  }
  cni_picture_free(&p);
  return status;
}
