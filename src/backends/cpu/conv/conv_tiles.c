/* conv_tiles.c: convolutions of bfloat16 by tile registers, forward and, at stride 1, the gradient of the input, which
 * is a convolution by the weight turned round.
 *
 * Flow: pixels are copied with their channels innermost, borders and filling of zeros around them, one plane for each
 * place within a stride -> then what a tap sees of neighbouring windows is neighbouring pixels, so rows of a tile are
 * read in place, a row of windows running on into the next -> products with the packed weight, rounded once -> windows
 * that exist are copied to the result. Where channels are few, a "pixel" is a row of a window. Invariant: an element is
 * one chain of sums over taps and channels, so no result depends on the number of threads. */
#include "conv_tiles.h"

#include <string.h>

#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm_isa.h"
#include "backends/cpu/isa.h"
#include "base/convert.h"
#include "base/dtype.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv.h"
#include "conv_direct.h"

#if defined(__x86_64__)

enum {
  NUMBERS = 2 * CNI_TILE,   /* a tile's along k */
  SIDE = 2 * CNI_TILE,      /* rows and columns of a kernel's block */
  MOST_PIXELS = 512,        /* of an item */
  WEIGHT_BYTES = 768 << 10, /* that an item uses again and again */
  FEW_CHANNELS = 16,
  LONG_ROWS = 2 * NUMBERS, /* of windows, as pixels */
  GRAIN_PACK = 1 << 14,
  GRAIN_WORK = 1 << 19
};

typedef struct job {
  const cni_conv *v;
  bool by_rows;             /* a pixel is a row of a window: its taps and channels */
  int64_t channels;         /* numbers of a pixel, a multiple of NUMBERS */
  int64_t taps[2];          /* of the window of pixels */
  int64_t phases[2];        /* places within a stride */
  int64_t h, w;             /* of a plane; windows of a row are w apart in the product */
  int64_t depth;            /* pairs along k */
  int64_t *steps;           /* depth / CNI_TILE: where what a tile reads begins, in pairs, from its first pixel */
  const uint16_t *x;        /* (n, phases, phases, h, w, channels) */
  uint32_t *weight;         /* panels of SIDE results: (depth, SIDE) */
  float *bias;              /* (k) or NULL */
  int64_t rows, row_blocks; /* of windows of an item; items along an image */
  int64_t cols, col_blocks; /* channels of the result of an item */
  bool direct;              /* items write the result themselves */
} job;

static int64_t round_up(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

static int64_t plane(const job *j) { return j->h * j->w * j->channels; }

/* ---- pixels ---- */

/* The part of the images that phase (a, b) of the planes sees, from -> (n, c, rows, columns) of both; step: of channels
 * and columns of the planes. false: nothing. */
static bool seen(const job *j, int64_t a, int64_t b, uint16_t *base, int64_t pixel, cn_desc *to, cn_desc *from)
{
  const cni_conv *v = j->v;
  const int64_t size[2] = {v->h, v->w}, phase[2] = {a, b}, across[2] = {j->w * pixel, pixel};
  int64_t first[2], count[2];
  *from = cni_conv_desc(&v->x, CN_BF16);
  for (int i = 0; i < 2; i++) { /* row r of the plane is row r * stride + phase - padding of the image */
    const int64_t s = j->phases[i], missing = v->padding[i] - phase[i];
    first[i] = missing > 0 ? (missing + s - 1) / s : 0;
    int64_t begin = first[i] * s - missing;
    count[i] = begin < size[i] ? cni_parts(size[i] - begin, s) : 0;
    from->data = (char *)from->data + begin * from->strides[2 + i] * 2;
    from->shape[2 + i] = count[i];
    from->strides[2 + i] *= s;
  }
  from->numel = v->n * v->c * count[0] * count[1];
  *to = *from;
  to->data = base + (a * j->phases[1] + b) * j->h * j->w * pixel + first[0] * across[0] + first[1] * across[1];
  to->strides[0] = j->phases[0] * j->phases[1] * j->h * j->w * pixel;
  to->strides[1] = 1;
  to->strides[2] = across[0];
  to->strides[3] = across[1];
  return from->numel > 0;
}

/* Does a tap look at that phase? */
static bool looked_at(const job *j, int dim, int64_t phase)
{
  for (int64_t t = 0; t < j->taps[dim]; t++)
    if (t * j->v->dilation[dim] % j->phases[dim] == phase) return true;
  return false;
}

static uint16_t *take_pixels(const job *j, size_t *bytes)
{
  *bytes = (size_t)(j->v->n * j->phases[0] * j->phases[1] * plane(j)) * 2;
  uint16_t *to = cni_scratch_alloc_zero(*bytes);
  for (int64_t a = 0; to && a < j->phases[0]; a++)
    for (int64_t b = 0; b < j->phases[1]; b++) {
      cn_desc have, want;
      if (looked_at(j, 0, a) && looked_at(j, 1, b) && seen(j, a, b, to, j->channels, &want, &have))
        cni_cpu_copy(&want, &have);
    }
  return to;
}

typedef struct window_job {
  const job *j;
  const uint16_t *from; /* (n, phases, h, columns, c) */
  uint16_t *to;
  int64_t columns;
} window_job;

/* Items: rows of all planes; each gets, for every window of its row, what the window sees of it. */
static void window_range(int64_t begin, int64_t end, void *payload)
{
  const window_job *q = payload;
  const job *j = q->j;
  const cni_conv *v = j->v;
  const int64_t reach = v->kw * v->c, step = v->stride[1] * v->c;
  for (int64_t r = begin; r < end; r++) {
    const uint16_t *from = q->from + r * q->columns * v->c;
    uint16_t *to = q->to + r * j->w * j->channels;
    for (int64_t x = 0; x < j->w; x++, to += j->channels, from += step) {
      memcpy(to, from, (size_t)reach * 2);
      memset(to + reach, 0, (size_t)(j->channels - reach) * 2);
    }
  }
}

static uint16_t *take_windows(const job *j, size_t *bytes)
{
  const cni_conv *v = j->v;
  const int64_t columns = v->w + 2 * v->padding[1], rows = v->n * j->phases[0] * j->h;
  job narrow = *j;
  narrow.w = columns;
  size_t pixel_bytes = (size_t)(rows * columns * v->c) * 2;
  *bytes = (size_t)(rows * j->w * j->channels) * 2;
  uint16_t *pixels = cni_scratch_alloc_zero(pixel_bytes), *to = cni_scratch_alloc(*bytes);
  for (int64_t a = 0; pixels && to && a < j->phases[0]; a++) {
    cn_desc have, want;
    if (looked_at(j, 0, a) && seen(&narrow, a, 0, pixels, v->c, &want, &have)) cni_cpu_copy(&want, &have);
  }
  window_job q = {j, pixels, to, columns};
  if (pixels && to)
    cni_parallel_for(rows, cni_grain((double)rows * (double)(j->w * j->channels), rows, GRAIN_PACK), window_range,
                     &q);
  cni_scratch_free(pixels, pixel_bytes);
  if (pixels) return to;
  cni_scratch_free(to, *bytes);
  return NULL;
}

/* ---- weights ---- */

/* The numbers of result channel k: (taps, channels), whose filling is 0 already. */
static void take_weight(const job *j, uint16_t *to, int64_t k)
{
  const cni_conv *v = j->v;
  const int64_t *s = v->weight.strides, taps = v->kh * v->kw, inner = j->by_rows ? v->c : j->channels;
  const uint16_t *from = (const uint16_t *)(const void *)v->weight.data + k * s[0];
  if (!j->by_rows && s[3] == 1 && s[2] == v->kw && s[1] == taps && taps <= CNI_SPLIT_TAPS) {
    cni_conv_split_taps(to, inner, from, (int)taps, v->c);
    return;
  }
  for (int64_t y = 0; y < v->kh; y++)
    for (int64_t x = 0; x < v->kw; x++) {
      uint16_t *row = to + (j->by_rows ? y * j->channels + x * inner : (y * v->kw + x) * inner);
      const uint16_t *tap = from + y * s[2] + x * s[3];
      if (s[1] == 1) memcpy(row, tap, (size_t)v->c * 2);
      else
        for (int64_t c = 0; c < v->c; c++) row[c] = tap[c * s[1]];
    }
}

/* Items: panels of results. */
static void weight_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  size_t bytes = (size_t)(SIDE * j->depth) * 4;
  uint16_t *rows = cni_scratch_alloc_zero(bytes);
  if (!rows) return; /* the error reaches the caller */
  for (int64_t panel = begin; panel < end; panel++) {
    const int64_t first = panel * SIDE, count = cni_least(SIDE, j->v->k - first);
    for (int64_t i = 0; i < count; i++) take_weight(j, rows + i * j->depth * 2, first + i);
    cni_gemm_pairs.pack(j->weight + first * j->depth, rows, j->depth, 1, (int)count, SIDE, j->depth);
  }
  cni_scratch_free(rows, bytes);
}

static void pack_weight(const job *j)
{
  const int64_t panels = cni_parts(j->v->k, SIDE);
  cni_parallel_for(panels, cni_grain((double)(j->v->k * j->depth), panels, GRAIN_PACK), weight_range, (void *)j);
}

static size_t weight_bytes(const job *j) { return (size_t)(round_up(j->v->k, SIDE) * j->depth) * 4; }

static void take_bias(const job *j)
{
  const cn_desc *d = j->v->bias;
  cn_desc to = cni_cpu_packed(d, CN_F32, j->bias);
  cni_cpu_copy(&to, d);
}

/* ---- products ---- */

static void set_steps(const job *j)
{
  const cni_conv *v = j->v;
  int64_t *to = j->steps;
  for (int64_t y = 0; y < j->taps[0]; y++)
    for (int64_t x = 0; x < j->taps[1]; x++)
      for (int64_t c = 0; c < j->channels; c += NUMBERS) {
        const int64_t dy = y * v->dilation[0], dx = x * v->dilation[1];
        const int64_t phase = dy % j->phases[0] * j->phases[1] + dx % j->phases[1];
        *to++ = (phase * plane(j) + (dy / j->phases[0] * j->w + dx / j->phases[1]) * j->channels + c) / 2;
      }
}

/* Windows [0, pixels) from x on, (pixels, cols) to `to` with rows `pitch` apart. */
static void multiply(const job *j, const uint16_t *x, int64_t pixels, int64_t col, int64_t cols, uint16_t *to,
                     int64_t pitch)
{
  const int64_t rows = cni_parts(pixels, cni_parts(pixels, SIDE));
  for (int64_t p = 0; p < pixels; p += rows) {
    cni_gemm_run r = {.a = x + p * j->channels,
                      .a_row = j->channels / 2,
                      .a_steps = j->steps,
                      .b = j->weight + col * j->depth,
                      .c = j->bias ? j->bias + col : NULL,
                      .c_col = 1,
                      .rows = (int)cni_least(rows, pixels - p),
                      .cols = cols,
                      .depth = j->depth,
                      .alpha = 1,
                      .beta = j->bias ? 1 : 0,
                      .rounded = to + p * pitch,
                      .rounded_row = pitch};
    cni_gemm_tile_pairs.run(&r);
  }
}

/* Rows of windows of one image to the result, from (rows, j->w, cols). */
static void give(const job *j, const uint16_t *from, int64_t rows, int64_t cols, uint16_t *to)
{
  const int64_t *s = j->v->y.strides;
  cn_desc have = {.data = (void *)(uintptr_t)from, .numel = rows * cols * j->v->ow, .dtype = CN_BF16, .ndim = 3};
  have.device = CN_CPU;
  have.shape[0] = rows, have.shape[1] = j->v->ow, have.shape[2] = cols;
  have.strides[0] = j->w * cols, have.strides[1] = cols, have.strides[2] = 1;
  cn_desc want = have;
  want.data = to;
  want.strides[0] = s[2], want.strides[1] = s[3], want.strides[2] = s[1];
  cni_cpu_copy(&want, &have);
}

/* Items: rows of windows against channels of the result, the channels changing slowest. */
static void item_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_conv *v = j->v;
  const int64_t *s = v->y.strides, blocks = v->n * j->row_blocks;
  size_t bytes = j->direct ? 0 : (size_t)(j->rows * j->w * j->cols) * 2;
  uint16_t *room = bytes ? cni_scratch_alloc(bytes) : NULL;
  if (bytes && !room) return; /* the error reaches the caller */
  for (int64_t item = begin; item < end; item++) {
    const int64_t col = item / blocks * j->cols, cols = cni_least(j->cols, v->k - col);
    const int64_t n = item % blocks / j->row_blocks, y = item % j->row_blocks * j->rows;
    const int64_t rows = cni_least(j->rows, v->oh - y);
    const uint16_t *x = j->x + n * j->phases[0] * j->phases[1] * plane(j) + y * j->w * j->channels;
    uint16_t *to = (uint16_t *)(void *)v->y.data + n * s[0] + y * s[2] + col * s[1];
    multiply(j, x, (rows - 1) * j->w + v->ow, col, cols, j->direct ? to : room, j->direct ? s[3] : cols);
    if (!j->direct) give(j, room, rows, cols, to);
  }
  cni_scratch_free(room, bytes);
}

/* Rows of windows and channels of items. Results do not depend on it. */
static void cut(job *j)
{
  const cni_conv *v = j->v;
  const int64_t *s = v->y.strides, most = MOST_PIXELS / j->w;
  j->row_blocks = cni_parts(v->oh, most < 1 ? 1 : most);
  j->rows = cni_parts(v->oh, j->row_blocks);
  j->row_blocks = cni_parts(v->oh, j->rows);
  int64_t cols = WEIGHT_BYTES / (4 * j->depth);
  j->col_blocks = cni_parts(v->k, cols < SIDE ? SIDE : cols);
  if (j->col_blocks * v->n * j->row_blocks < cn_num_threads()) j->col_blocks = cn_num_threads();
  j->cols = round_up(cni_parts(v->k, j->col_blocks), SIDE);
  j->col_blocks = cni_parts(v->k, j->cols);
  j->direct = s[1] == 1 && j->w == v->ow && s[2] == v->ow * s[3];
}

static job job_of(const cni_conv *v)
{
  job j = {.v = v, .by_rows = v->c < FEW_CHANNELS, .taps = {v->kh, v->kw}, .phases = {v->stride[0], v->stride[1]}};
  j.channels = round_up(j.by_rows ? v->c * v->kw : v->c, NUMBERS);
  j.h = (v->h + 2 * v->padding[0] - 1) / v->stride[0] + 1;
  j.w = (v->w + 2 * v->padding[1] - 1) / v->stride[1] + 1;
  if (j.by_rows) j.taps[1] = j.phases[1] = 1, j.w = v->ow;
  j.depth = j.taps[0] * j.taps[1] * j.channels / 2;
  cut(&j);
  return j;
}

/* The gradient of the input at stride 1, as the convolution of the gradient of the result that it is. */
static cni_conv turned(const cni_conv *v)
{
  cni_conv t = *v;
  int64_t *s = t.weight.strides;
  t.kind = CNI_CONV_FORWARD;
  t.x = v->y, t.y = v->x;
  t.c = v->k, t.k = v->c;
  t.h = v->oh, t.w = v->ow, t.oh = v->h, t.ow = v->w;
  t.weight.data += ((v->kh - 1) * s[2] + (v->kw - 1) * s[3]) * 2;
  s[0] = v->weight.strides[1], s[1] = v->weight.strides[0], s[2] = -s[2], s[3] = -s[3];
  t.padding[0] = v->dilation[0] * (v->kh - 1) - v->padding[0];
  t.padding[1] = v->dilation[1] * (v->kw - 1) - v->padding[1];
  return t;
}

const char *cni_conv_tiles_against(const cni_conv *given)
{
  cni_conv v = *given;
  if (v.dtype != CN_BF16 || !cni_cpu_multiplies_tiles()) return "not bfloat16 on a machine with tiles";
  if (v.kind == CNI_CONV_WEIGHT) return "not the gradient of the weight";
  if (v.kind == CNI_CONV_INPUT) {
    if (v.stride[0] != 1 || v.stride[1] != 1) return "the gradient of the input at strides";
    v = turned(given);
    if (v.padding[0] < 0 || v.padding[1] < 0) return "padding beyond the window";
  }
  if (v.groups != 1 || !v.n || !v.c || v.k < CNI_TILE || v.oh < 1 || v.ow < 1) return "too few channels";
  if (v.c < FEW_CHANNELS && (v.c * v.kw > LONG_ROWS || v.dilation[1] != 1)) return "few channels and wide windows";
  return NULL;
}

static int run(const cni_conv *v)
{
  job j = job_of(v);
  size_t x_bytes = 0, steps_bytes = (size_t)(j.depth / CNI_TILE) * sizeof *j.steps;
  size_t bias_bytes = v->bias ? (size_t)v->k * sizeof *j.bias : 0, weights = weight_bytes(&j);
  j.x = j.by_rows ? take_windows(&j, &x_bytes) : take_pixels(&j, &x_bytes);
  j.steps = cni_scratch_alloc(steps_bytes);
  j.bias = v->bias ? cni_scratch_alloc(bias_bytes) : NULL;
  j.weight = v->prepared ? (uint32_t *)(uintptr_t)v->prepared : cni_scratch_alloc(weights);
  if (j.x && j.steps && j.weight && (j.bias || !v->bias)) {
    const int64_t items = j.col_blocks * v->n * j.row_blocks;
    if (!v->prepared) pack_weight(&j);
    if (v->bias) take_bias(&j);
    set_steps(&j);
    if (!cn_err())
      cni_parallel_for(items, cni_even_grain(items, cni_grain(cni_conv_work(v), items, GRAIN_WORK)), item_range, &j);
  }
  if (!v->prepared) cni_scratch_free(j.weight, weights);
  cni_scratch_free(j.bias, bias_bytes);
  cni_scratch_free(j.steps, steps_bytes);
  cni_scratch_free((void *)(uintptr_t)j.x, x_bytes);
  return cn_err();
}

int cni_conv_tiles(const cni_conv *v)
{
  if (v->kind == CNI_CONV_FORWARD) return run(v);
  cni_conv t = turned(v);
  return run(&t);
}

int cni_conv_tiles_prepare(const cni_conv *v, cn_prepared *made)
{
  job j = job_of(v);
  if (made->memory) {
    j.weight = made->memory;
    pack_weight(&j);
    return cn_err();
  }
  made->bytes = weight_bytes(&j);
  made->form = 0;
  return CN_OK;
}

#endif
