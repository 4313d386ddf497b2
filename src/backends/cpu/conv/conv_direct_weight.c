/* conv_direct_weight.c: the gradient of a convolution's weight, by planes of x (conv_direct.c) and transposed
 * gradients of y.
 *
 * Flow, for a few images at a time: fill the planes of x; lay grad out as (pixel, channel) so that a vector holds
 * channels -> in parallel, add up products of moved images with it, into a few partial sums -> add those in order,
 * write the weight. Groups of few channels use dot products over pixels instead. Invariant: the number of partial
 * sums, and what goes into each, depend on shapes alone. */
#include <string.h>

#include "backends/cpu/cpu.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv_direct.h"

enum {
  MOST_PIECES = 8,        /* partial sums */
  PIECES_BYTES = 4 << 20, /* all of them together, unless one alone is larger */
  TILE_BYTES = 256 << 10, /* of grad, that all rows of the weight use while it is in the cache */
  FEW_CHANNELS = 4,       /* of a group: dot products */
  ENOUGH_ITEMS = 32,
  GRAIN_WORK = 1 << 19,
  GRAIN_COPY = 1 << 15
};

typedef struct job {
  const cni_conv *v;
  const cni_conv_kernels *ker;
  cni_conv_planes f;
  int64_t kg, depth, pixels; /* channels of y per group, rows of the weight, pixels of y */
  bool dots;
  int64_t ld;      /* dots: 1; else channels of y per group, in whole vectors */
  int64_t *offset; /* depth */
  char *grad;      /* groups x images x pixels x ld; dots: groups x kg x images x pixels */
  size_t grad_bytes;
  char *sums; /* pieces x groups x depth x ld; dots: pieces x groups x kg x depth */
  size_t sums_bytes;
  int64_t sum;                       /* elements of one piece */
  int64_t pieces, rows_each, splits; /* the cut: rows of the weight in each item */
  int64_t images;                    /* in the planes now */
} job;

/* ---- laying grad out ---- */

/* Items are groups of images. */
static void grad_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_conv *v = j->v;
  const int64_t size = (int64_t)j->ker->size, *ys = v->y.strides;
  const int64_t elem = v->dtype == CN_F64 ? 8 : v->dtype == CN_F32 ? 4 : 2;
  for (int64_t item = begin; item < end; item++) {
    int64_t g = item / j->images, n = item % j->images;
    char *to = j->grad + (j->dots ? g * j->kg * j->images + n : item) * j->pixels * j->ld * size;
    cn_desc from = {.data = v->y.data + ((j->f.first + n) * ys[0] + g * j->kg * ys[1]) * elem,
                    .numel = j->kg * j->pixels,
                    .dtype = v->dtype,
                    .ndim = 3,
                    .device = CN_CPU,
                    .shape = {j->kg, v->oh, v->ow},
                    .strides = {ys[1], ys[2], ys[3]}};
    cn_desc dst = from;
    dst.data = to;
    dst.dtype = size == 8 ? CN_F64 : CN_F32;
    dst.strides[0] = j->dots ? j->images * j->pixels : 1;
    dst.strides[1] = v->ow * j->ld;
    dst.strides[2] = j->ld;
    if (!j->dots && j->ld != j->kg) memset(to, 0, (size_t)(j->pixels * j->ld * size));
    cni_cpu_copy(&dst, &from);
  }
}

/* ---- sums ---- */

/* Images [first, last) of the planes, rows [row, row + rows) of group g, into w: as many images at a time, or lines
 * of one, as fit the cache. */
static void add_outer(const job *j, char *w, int64_t g, int64_t row, int64_t rows, int64_t first,
                      int64_t last)
{
  const cni_conv_planes *f = &j->f;
  const cni_conv *v = j->v;
  const int64_t size = (int64_t)j->ker->size, line = v->ow * j->ld * size, image = v->oh * line;
  int64_t lines = TILE_BYTES / line, images = TILE_BYTES / image;
  if (lines < 1) lines = 1;
  if (images < 1) images = 1;
  if (images > 1 || lines > v->oh) lines = v->oh;
  const char *group = f->data + g * (f->channels / v->groups) * f->channel * size;
  const char *grad = j->grad + g * j->images * image;
  for (int64_t n = first; n < last; n += images)
    for (int64_t y = 0; y < v->oh; y += lines) {
      cni_conv_walk some = {.images = cni_least(images, last - n),
                            .image = f->block,
                            .count = cni_least(lines, v->oh - y),
                            .step = f->pitch,
                            .n = v->ow};
      j->ker->outer(w, group + (n * f->block + y * f->pitch) * size, j->offset + row, rows,
                    grad + n * image + y * line, j->ld, &some);
    }
}

static void add_dots(const job *j, char *w, int64_t g, int64_t row, int64_t rows, int64_t first, int64_t last)
{
  const cni_conv_planes *f = &j->f;
  const cni_conv *v = j->v;
  const int64_t size = (int64_t)j->ker->size;
  cni_conv_walk walk = {.images = 1, .count = v->oh, .step = f->pitch, .n = v->ow};
  for (int64_t k = 0; k < j->kg; k++)
    for (int64_t n = first; n < last; n++) {
      const char *x = f->data + (n * f->block + g * (f->channels / v->groups) * f->channel) * size;
      const char *grad = j->grad + ((g * j->kg + k) * j->images + n) * j->pixels * size;
      j->ker->dots(w + (k * j->depth + row) * size, x, j->offset + row, rows, grad, &walk);
    }
}

static void sum_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const int64_t size = (int64_t)j->ker->size, width = j->dots ? j->kg : j->ld;
  for (int64_t item = begin; item < end; item++) {
    int64_t split = item % j->splits, g = item / j->splits % j->v->groups,
            piece = item / j->splits / j->v->groups;
    int64_t row = split * j->rows_each, rows = cni_least(j->rows_each, j->depth - row);
    int64_t first = piece * j->images / j->pieces, last = (piece + 1) * j->images / j->pieces;
    char *w = j->sums + (piece * j->sum + g * j->depth * width) * size;
    if (first == last) continue;
    if (j->dots) add_dots(j, w, g, row, rows, first, last);
    else add_outer(j, w + row * j->ld * size, g, row, rows, first, last);
  }
}

/* Adds the other pieces to the first, in order. */
static void reduce_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  float *f = (float *)(void *)j->sums;
  double *d = (double *)(void *)j->sums;
  for (int64_t piece = 1; piece < j->pieces; piece++)
    if (j->ker->size == 8)
      for (int64_t i = begin; i < end; i++) d[i] += d[piece * j->sum + i];
    else
      for (int64_t i = begin; i < end; i++) f[i] += f[piece * j->sum + i];
}

static void write_weight(const job *j)
{
  const cni_conv *v = j->v;
  const int64_t size = (int64_t)j->ker->size, width = j->dots ? j->kg : j->ld, step = j->dots ? 1 : j->ld;
  for (int64_t g = 0; g < v->groups; g++) {
    cni_conv_tensor part = v->weight;
    part.shape[0] = j->kg;
    part.data += g * j->kg * part.strides[0] * (v->dtype == CN_F64 ? 8 : v->dtype == CN_F32 ? 4 : 2);
    cn_desc to = cni_conv_desc(&part, v->dtype);
    cn_desc from = to;
    from.data = j->sums + g * j->depth * width * size;
    from.dtype = size == 8 ? CN_F64 : CN_F32;
    from.strides[0] = j->dots ? j->depth : 1;
    from.strides[1] = v->kh * v->kw * step;
    from.strides[2] = v->kw * step;
    from.strides[3] = step;
    cni_cpu_copy(&to, &from);
  }
}

/* ---- the whole ---- */

static void cut(job *j)
{
  int64_t size = (int64_t)j->ker->size, mr = j->ker->mr;
  j->sum = j->v->groups * j->depth * (j->dots ? j->kg : j->ld);
  j->pieces = PIECES_BYTES / (j->sum * size);
  if (j->pieces > MOST_PIECES) j->pieces = MOST_PIECES;
  if (j->pieces > j->f.set) j->pieces = j->f.set;
  if (j->pieces < 1) j->pieces = 1;
  int64_t items = j->pieces * j->v->groups, panels = cni_parts(j->depth, mr);
  int64_t splits = items >= ENOUGH_ITEMS ? 1 : cni_least(panels, cni_parts(ENOUGH_ITEMS, items));
  j->rows_each = cni_parts(panels, splits) * mr;
  j->splits = cni_parts(j->depth, j->rows_each);
}

static int begin(job *j)
{
  const cni_conv *v = j->v;
  cut(j);
  if (cni_conv_planes_alloc(&j->f, j->f.set)) return CN_ERR_MEMORY;
  j->offset = cni_scratch_alloc((size_t)j->depth * sizeof *j->offset);
  j->grad_bytes = (size_t)(j->f.set * v->groups * j->pixels * (j->dots ? j->kg : j->ld)) * j->ker->size;
  j->grad = cni_scratch_alloc(j->grad_bytes);
  j->sums_bytes = (size_t)(j->pieces * j->sum) * j->ker->size;
  j->sums = cni_scratch_alloc_zero(j->sums_bytes);
  if (!j->offset || !j->grad || !j->sums) return CN_ERR_MEMORY;
  int64_t r = 0;
  for (int64_t c = 0; c < v->c / v->groups; c++)
    for (int64_t i = 0; i < v->kh; i++)
      for (int64_t k = 0; k < v->kw; k++) j->offset[r++] = c * j->f.channel + cni_conv_tap(&j->f, i, k);
  return CN_OK;
}

static void run(job *j)
{
  const cni_conv *v = j->v;
  for (int64_t first = 0; first < v->n; first += j->f.set) {
    j->images = cni_conv_planes_fill(&j->f, first);
    int64_t items = j->images * v->groups;
    double pixels = (double)j->images * (double)j->pixels * (double)v->k;
    cni_parallel_for(items, cni_grain(pixels, items, GRAIN_COPY), grad_range, j);
    items = j->pieces * v->groups * j->splits;
    cni_parallel_for(items, cni_grain(pixels * (double)j->depth, items, GRAIN_WORK), sum_range, j);
  }
  cni_parallel_for(j->sum, GRAIN_COPY, reduce_range, j);
  write_weight(j);
}

int cni_conv_weight(const cni_conv *v, const cni_conv_kernels *ker)
{
  job j = {.v = v,
           .ker = ker,
           .kg = v->k / v->groups,
           .depth = v->c / v->groups * v->kh * v->kw,
           .pixels = v->oh * v->ow};
  if (j.depth == 0) return CN_OK;
  int status = cni_conv_planes_begin(&j.f, v, &v->x, (cni_conv_fit){1, false});
  if (status) return status;
  j.dots = j.kg <= FEW_CHANNELS;
  j.ld = j.dots ? 1 : cni_parts(j.kg, ker->lanes) * ker->lanes;
  status = begin(&j);
  if (!status) {
    run(&j);
    status = cn_err();
  }
  cni_scratch_free(j.offset, (size_t)j.depth * sizeof *j.offset);
  cni_scratch_free(j.grad, j.grad_bytes);
  cni_scratch_free(j.sums, j.sums_bytes);
  cni_conv_planes_free(&j.f);
  return status;
}
