/* pixels.h: an image's memory as the loops of this folder see it.
 *
 * An image is (C, H, W), of uint8 or float32, in any strides; most have their channels side by side (C fastest), as
 * decoders write them. What the functions here make has its channels side by side too; cn_image_float makes planes. */
#ifndef CNI_DATA_PIXELS_H
#define CNI_DATA_PIXELS_H

#include "data.h"

typedef struct cni_pixels {
  unsigned char *p;
  int64_t c, h, w;
  int64_t sc, sh, sw; /* in bytes */
  cn_dtype dtype;
  size_t element;
} cni_pixels;

/* Looks into an image of the CPU; an error for what is none. */
int cni_pixels_of(cni_pixels *v, cn_tensor *image, const char *who);
/* A new image, its channels side by side unless `planes`; NULL without memory. */
cn_tensor *cni_pixels_new(cni_pixels *v, int64_t c, int64_t h, int64_t w, cn_dtype dtype, bool planes);

static inline bool cni_side_by_side(const cni_pixels *v)
{
  return v->sc == (int64_t)v->element && v->sw == v->c * (int64_t)v->element;
}

/* The image at another size, with antialiasing; a new one. */
cn_tensor *cni_resize(const cni_pixels *from, int64_t height, int64_t width);

#endif
