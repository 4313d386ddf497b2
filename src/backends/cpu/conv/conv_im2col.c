/* conv_im2col.c: convolutions by columns: what the windows of a block of results see is laid out side by side, then
 * multiplied by the weights in panels. For strides above 1 and few channels, where planes (conv_direct.c) have borders
 * and gaps that cost more.
 *
 * Flow: weights packed in panels -> blocks of results in parallel: columns taken, panels times columns, results
 * written with their bias. Invariant: every result is one sum in the order of (c, i, j), cut by the panel kernel as
 * conv_direct_isa.h says, whichever block it falls into. */
#include "conv_im2col_isa.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv_direct.h"
#include "tensor/tensor.h"

enum {
  LANES = CNI_IM2COL_LANES,
  BLOCK_BYTES = 384 << 10, /* columns of a block */
  MOST_PIXELS = 448,       /* results of a block */
  LEAST_PIXELS = 48,
  FEW_BYTES = 16 << 10, /* columns that are written at a time */
  GRAIN_PACK = 1 << 13,
  GRAIN_WORK = 1 << 19
};

typedef struct job {
  const cni_conv *v;
  const cni_conv_kernels *ker;
  const cni_im2col_kernels *take;
  int64_t depth, panel;         /* panel: rows, at most ker->mr */
  int64_t pixels, each, blocks; /* results of all images, of a block */
  float *a;                     /* weights: panels x depth x panel */
  int64_t *offset;              /* depth: rows of the columns */
} job;

static void weight_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_conv *v = j->v;
  const int64_t *s = v->weight.strides;
  for (int64_t item = begin; item < end; item++) {
    int64_t first = item * j->panel, rows = cni_least(j->panel, v->k - first);
    const float *w = (const float *)(const void *)v->weight.data + first * s[0];
    float *to = j->a + first * j->depth;
    for (int64_t c = 0; c < v->c; c++)
      for (int64_t y = 0; y < v->kh; y++)
        for (int64_t x = 0; x < v->kw; x++, to += rows)
          cni_conv_gather(to, w + c * s[1] + y * s[2] + x * s[3], s[0], rows);
  }
}

void cni_conv_im2col_take(const cni_conv *v, float *to, int64_t pitch, int64_t first, int64_t end, int64_t channel,
                          int64_t last)
{
  const cni_im2col_kernels *ker = CNI_IF_VECTORS(cni_im2col);
  const int64_t *s = v->x.strides, taps = v->kh * v->kw, y0 = first / v->ow % v->oh, x0 = first % v->ow;
  cni_im2col_run r = {.channel = s[1], .row = s[2], .h = v->h, .w = v->w, .step = v->stride[1]};
  r.taps[0] = v->kh;
  r.taps[1] = v->kw;
  memcpy(r.tap_step, v->dilation, sizeof r.tap_step);
  /* A few channels at a time, so that what is written stays in the first cache. */
  int64_t rows = (x0 + end - first - 1) / v->ow + 1, reach = (v->kh - 1) * v->dilation[0];
  int64_t some = FEW_BYTES / (taps * (end - first) * (int64_t)sizeof(float)) + 1;
  for (; channel < last; channel += some) {
    int64_t y = y0, x = x0;
    const float *image = (const float *)(const void *)v->x.data + first / v->ow / v->oh * s[0] + channel * s[1];
    r.channels = cni_least(some, last - channel);
    for (int64_t c = 0; c < r.channels; c++) { /* the next ones, or these further down */
      bool more = channel + some + c < last;
      cni_conv_prefetch(&v->x, image + (more ? some + c : c) * s[1],
                        (more ? y0 : y0 + rows) * v->stride[0] - v->padding[0] + (more ? 0 : reach),
                        ((more ? y0 : y0 + rows) + rows) * v->stride[0] + reach - v->padding[0]);
    }
    for (int64_t p = first; p < end; p += r.count) {
      r.count = cni_least(LANES, cni_least(v->ow - x, end - p));
      r.y = y * v->stride[0] - v->padding[0];
      r.x = x * v->stride[1] - v->padding[1];
      ker->take(&r, to + channel * taps * pitch + (p - first), pitch, image);
      if ((x += r.count) < v->ow) continue;
      x = 0;
      if (++y < v->oh) continue;
      y = 0;
      image += s[0];
    }
  }
}

bool cni_conv_im2col_can(const cni_conv *v)
{
  const cni_im2col_kernels *ker = CNI_IF_VECTORS(cni_im2col);
  return ker && v->dtype == CN_F32 && v->groups == 1 && v->x.strides[3] == 1 && v->kw <= CNI_IM2COL_TAPS &&
         v->stride[1] < 1 << 20;
}

/* Rows [row, row + rows) of the results of pixels [first, last), from room: rows x pitch. */
static void give(const job *j, const float *room, int64_t pitch, int64_t row, int64_t rows, int64_t first,
                 int64_t last)
{
  const cni_conv *v = j->v;
  const int64_t image = v->oh * v->ow, *s = v->y.strides;
  for (int64_t i = 0; i < rows; i++) {
    float bias = 0;
    if (v->bias) memcpy(&bias, (const char *)v->bias->data + 4 * (row + i) * v->bias->strides[0], 4);
    for (int64_t p = first, n; p < last; p += n) {
      n = cni_least(last - p, image - p % image);
      cni_conv_emit e = {.dst = (float *)(void *)v->y.data + p / image * s[0] + (row + i) * s[1] + p % image,
                         .dst_col = 1,
                         .src = room + i * pitch + (p - first),
                         .rows = 1,
                         .n = n,
                         .bias = (double)bias};
      j->ker->emit(&e);
    }
  }
}

static void block_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_conv *v = j->v;
  const int64_t image = v->oh * v->ow, *s = v->y.strides;
  size_t bytes = (size_t)((j->depth + j->panel) * j->each) * sizeof(float);
  float *columns = cni_scratch_alloc(bytes), *room = columns + j->depth * j->each;
  if (!columns) return; /* the error reaches the caller */
  for (int64_t block = begin; block < end; block++) {
    int64_t first = block * j->each, last = cni_least(first + j->each, j->pixels), cols = last - first;
    cni_conv_im2col_take(v, columns, j->each, first, last, 0, v->c);
    /* Whole vectors of one image go straight to the results. */
    bool straight = !v->bias && cols % LANES == 0 && first / image == (last - 1) / image;
    float *y = (float *)(void *)v->y.data + first / image * s[0] + first % image;
    for (int64_t row = 0; row < v->k; row += j->panel) {
      int64_t rows = cni_least(j->panel, v->k - row);
      j->ker->panel(straight ? y + row * s[1] : room, straight ? s[1] : j->each, j->a + row * j->depth, (int)rows,
                    j->depth, j->offset, columns, cols);
      if (!straight) give(j, room, j->each, row, rows, first, last);
    }
  }
  cni_scratch_free(columns, bytes);
}

/* What blocks of `each` results cost the busiest thread. */
static double cost_of(const job *j, int64_t each)
{
  const int64_t image = j->v->oh * j->v->ow, threads = cn_num_threads(), blocks = cni_parts(j->pixels, each);
  int64_t rounds = cni_parts(blocks, threads), last = j->pixels - (blocks - 1) * each;
  double work = (double)((rounds - 1) * each + (blocks % threads == 1 % threads ? last : each));
  work += (double)(rounds * LANES) / 4;
  return image % each && (j->v->n > 1 || image % LANES) ? work * 1.03 : work; /* results go by a copy */
}

/* Results of a block: columns that stay in the cache, whole vectors, threads equally long at work. Results do not
 * depend on it. */
static void cut(job *j)
{
  int64_t most = BLOCK_BYTES / (j->depth * (int64_t)sizeof(float));
  most = most > MOST_PIXELS ? MOST_PIXELS : most < LEAST_PIXELS ? LEAST_PIXELS : most;
  double least = 0;
  for (int64_t each = most / LANES * LANES; each >= 3 * LANES && each >= most / 3; each -= LANES) {
    double cost = cost_of(j, each);
    if (least > 0 && cost >= least) continue;
    least = cost;
    j->each = each;
  }
  j->blocks = cni_parts(j->pixels, j->each);
}

const char *cni_conv_im2col_against(const cni_conv *v)
{
  const int64_t *s = v->y.strides;
  if (v->kind != CNI_CONV_FORWARD || !cni_conv_im2col_can(v)) return "not a forward convolution of whole rows";
  if (s[3] != 1 || s[2] != v->ow) return "results are not contiguous";
  if (v->k < 32 || v->c * v->kh * v->kw < 16 || !v->n) return "too few channels";
  if (v->stride[0] == 1 && v->stride[1] == 1 && v->c >= 16 && !v->contest) return "planes are as good at stride 1";
  return NULL;
}

int cni_conv_im2col(const cni_conv *v)
{
  job j = {.v = v, .ker = cni_conv_kernels_of(v->dtype), .pixels = v->n * v->oh * v->ow};
  j.depth = v->c * v->kh * v->kw;
  j.panel = cni_parts(v->k, cni_parts(v->k, j.ker->mr));
  size_t weights = (size_t)(v->k * j.depth) * sizeof *j.a, offsets = (size_t)j.depth * sizeof *j.offset;
  cut(&j);
  j.a = cni_scratch_alloc(weights);
  j.offset = cni_scratch_alloc(offsets);
  if (j.a && j.offset) {
    int64_t panels = cni_parts(v->k, j.panel);
    for (int64_t r = 0; r < j.depth; r++) j.offset[r] = r * j.each;
    cni_parallel_for(panels, cni_grain((double)v->k * (double)j.depth, panels, GRAIN_PACK), weight_range, &j);
    int64_t grain = cni_grain(cni_conv_work(v), j.blocks, GRAIN_WORK);
    cni_parallel_for(j.blocks, cni_even_grain(j.blocks, grain), block_range, &j);
  }
  cni_scratch_free(j.a, weights);
  cni_scratch_free(j.offset, offsets);
  return cn_err();
}
