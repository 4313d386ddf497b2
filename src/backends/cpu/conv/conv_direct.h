/* conv_direct.h: what the own convolution kernels share: images laid out with their borders.
 *
 * Place in the flow: conv_direct.c (forward, gradient of the input) and conv_direct_weight.c (gradient of the weight)
 * read planes through conv_direct_isa.h's kernels. Invariant: inside a channel's planes, tap (i, j) of the window at
 * (y, x) lies at cni_conv_tap(i, j) + y * pitch + x. */
#ifndef CNI_CPU_CONV_DIRECT_H
#define CNI_CPU_CONV_DIRECT_H

#include "conv.h"
#include "conv_direct_isa.h"

/* How images are laid out. */
typedef struct cni_conv_fit {
  int64_t stack; /* images that lie behind each other, so that small ones fill whole vectors */
  bool tight;    /* see cni_conv_planes */
} cni_conv_fit;

/* Memory order: block (`stack` images), channel, phase of the stride, image of the block, row, column. */
typedef struct cni_conv_planes {
  char *data;
  size_t bytes, size;       /* size: of an element in the planes */
  const cni_conv_tensor *t; /* what they are filled from */
  int dtype;                /* its type */
  int64_t images, channels, stack;
  int64_t pitch, plane, channel, block; /* elements of a row, plane, channel, block */
  int64_t set;                          /* blocks held at a time */
  int64_t first;                        /* the block they begin with now */
  /* per dim: position q of phase i shows coordinate q * step + i * tap_step % step - lead */
  int64_t period[2], phases[2], step[2], stride[2], tap_step[2], lead[2], rows[2], extent[2];
  bool by_input; /* planes of x; else of y */
  bool native;   /* rows can be copied as they are */
  bool tight;    /* a plane of its own for each column of taps, rows no longer than the results' */
} cni_conv_planes;

static inline int64_t cni_least(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t cni_parts(int64_t n, int64_t size) { return (n + size - 1) / size; }

/* The grain for items of equal size: at least `grain`, and ranges that keep the threads equally long at work, as many
 * as that allows. */
int64_t cni_even_grain(int64_t items, int64_t grain);

/* to[i] = from[i * step]; panels are mostly 8 rows. */
static inline void cni_conv_gather(float *to, const float *from, int64_t step, int64_t n)
{
  if (n == 8) {
    float a = from[0], b = from[step], c = from[2 * step], d = from[3 * step];
    const float *half = from + 4 * step;
    float e = half[0], f = half[step], g = half[2 * step], h = half[3 * step];
    to[0] = a, to[1] = b, to[2] = c, to[3] = d, to[4] = e, to[5] = f, to[6] = g, to[7] = h;
    return;
  }
  for (int64_t i = 0; i < n; i++) to[i] = from[i * step];
}

/* Asks for rows [first, last) of a plane of t that will be read soon: walks over channels jump too far for the
 * hardware to prefetch. */
static inline void cni_conv_prefetch(const cni_conv_tensor *t, const float *plane, int64_t first, int64_t last)
{
  if (first < 0) first = 0;
  if (last > t->shape[2]) last = t->shape[2];
  const float *end = plane + (last - 1) * t->strides[2] + t->shape[3];
  if (first < last && t->strides[2] >= 0)
    for (const float *p = plane + first * t->strides[2]; p < end; p += 16) __builtin_prefetch(p);
}

const cni_conv_kernels *cni_conv_kernels_of(int dtype);
/* Taps i and i + period of dim d see the same phase of the image. */
int64_t cni_conv_period(const cni_conv *v, int d);

/* The layout that wastes the fewest lanes. */
cni_conv_fit cni_conv_fit_of(const cni_conv *v, int lanes);
/* Works out planes for tensor t of v; `set` becomes a good number of blocks to hold. 0 or CN_ERR_MEMORY. */
int cni_conv_planes_begin(cni_conv_planes *f, const cni_conv *v, const cni_conv_tensor *t, cni_conv_fit fit);
/* Memory for `set` blocks, given back with free. 0 or CN_ERR_MEMORY. */
int cni_conv_planes_alloc(cni_conv_planes *f, int64_t set);
void cni_conv_planes_free(cni_conv_planes *f);
/* Fills them with blocks from `first` on; returns how many there are. */
int64_t cni_conv_planes_fill(cni_conv_planes *f, int64_t first);
/* Where tap (i, j) of the window at the origin lies in a channel's planes. Of y: what tap (i, j) brings to x's first
 * element, without its padding. */
int64_t cni_conv_tap(const cni_conv_planes *f, int64_t i, int64_t j);

/* conv_direct_weight.c: the gradient of the weight, written into v->weight in v's own type. 0 or CN_ERR_MEMORY. */
int cni_conv_weight(const cni_conv *v, const cni_conv_kernels *ker);

#endif
