/* conv_winograd.c: 3 x 3 convolutions by Winograd's products of transforms. At stride 1 F(2 x 2, 3 x 3): 16 products
 * for 4 results where the sum as written takes 36; the gradient of the input is a convolution by the flipped
 * weight. At stride 2 the outer taps of a dim see every second element, a convolution of 2 taps for which F(2, 2) takes
 * 3 products for 2 results, and the middle tap sees the others: 25 products for 4 results (for 16 of the gradient of
 * the input). The gradient of the weight goes through the same transforms the other way.
 *
 * Programs compiled fast, whose results may be rounded otherwise, have F(4 x 4, 3 x 3) at stride 1: 36 products for 16
 * results.
 *
 * Where every d-th row is seen (a dilation of rows alone), rows fall into d convolutions without one.
 *
 * Flow: weights transformed and packed in panels -> blocks of tiles in parallel: patches transformed, products by the
 * direct convolution's panels, those that end in the same results as one sum, results transformed back and written.
 * Sums run over channels only, so rounding errors are no larger than those of one sum over channels and taps. What is
 * not finite would spread inside a tile: where a result is not finite, the direct convolution does the call again.
 * Invariant: an output depends on its own tile alone, not on how tiles are cut into blocks; blocks of the weight's
 * gradient depend on shapes alone. */
#include <stdatomic.h>
#include <string.h>

#include "conv_winograd_isa.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/gemm/gemm.h"
#include "backends/cpu/isa.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv_direct.h"
#include "tensor/tensor.h"

enum {
  SLOTS = 36,    /* the most of any form */
  CHANNELS = 8, /* both counts are multiples of it, and it of panels of weights */
  LANES = CNI_WINOGRAD_LANES,
  MOST_TILES = 112,        /* of a block */
  BLOCK_BYTES = 1 << 20,   /* transformed patches of a block */
  CHUNK_ROWS = 64,         /* rows of weights whose products are transformed back together */
  FEW_BYTES = 1 << 20,     /* patches up to which all tiles are one block, and items are panels of weights */
  GROUP_BYTES = 512 << 10, /* panels of an item */
  LEAST_PIXELS = 36,       /* results that are worth transforming the weights for */
  LEAST_CHANNELS = 16,
  BACK_BYTES = 8 << 20, /* transforms of a block, for the gradient of the weight */
  BACK_PIXELS = 192,    /* results that are worth it there */
  GRAIN_COPY = 1 << 14
};

/* One dim of a transform; both dims have the same. A point is what a result is made of: a sum of up to two products of
 * a transformed patch's part and of a transformed weight's. Parts of weights that belong to one point follow each other
 * in memory, and are a group. */
typedef struct form {
  int64_t parts, points, groups; /* of a patch; products; groups of weights */
  int64_t tile, step, side;      /* results of a tile; elements between patches, along one */
  int64_t terms[6];              /* of each point */
  int64_t part[6][2], group[6];  /* of each term; of each point */
} form;

enum { STRIDE_1, STRIDE_2, INPUT_EVEN, INPUT_ODD, LARGE }; /* as conv_winograd_isa.h has them */

static const form forms[CNI_WINOGRAD_FORMS] = {
    {4, 4, 4, 2, 2, 4, {1, 1, 1, 1}, {{0}, {1}, {2}, {3}}, {0, 1, 2, 3}},
    {5, 3, 3, 2, 4, 5, {2, 1, 2}, {{0, 1}, {2}, {3, 4}}, {0, 1, 2}},
    {4, 5, 4, 4, 2, 3, {1, 1, 1, 1, 1}, {{0}, {1}, {2}, {1}, {3}}, {0, 1, 2, 3, 3}},
    {4, 5, 4, 4, 2, 3, {1, 1, 1, 1, 1}, {{0}, {1}, {2}, {3}, {1}}, {0, 1, 2, 3, 3}},
    {6, 6, 6, 4, 4, 6, {1, 1, 1, 1, 1, 1}, {{0}, {1}, {2}, {3}, {4}, {5}}, {0, 1, 2, 3, 4, 5}},
};

typedef struct job {
  const cni_conv *v;
  const form *f;
  int64_t parts, points, groups; /* of both dims together */
  const cni_conv_kernels *ker;
  const cni_winograd_kernels *transforms;
  cni_conv_tensor from, to; /* (n, depth, ...) and (n, rows, ...) */
  int64_t rows, depth, pad[2];
  int64_t tiles_y, tiles_x, tiles, each, blocks, pitch; /* pitch: tiles of a block in whole vectors */
  int64_t v_step, m_step;                               /* between parts, points: a cache line off a power of two */
  int64_t u_at[SLOTS], u_panel;                         /* places of groups in a panel; its size */
  float *u;                                             /* panels x groups x depth x terms x mr; few tiles: NULL,
                                                         * unless prepared */
  int64_t *offset;                                      /* points x depth x terms: rows of the transformed patches */
  int64_t offset_at[SLOTS + 1];                         /* its points */
  float *patches;                                       /* few tiles: parts x depth x pitch */
  int64_t group;                                        /* few tiles: panels of an item */
  _Atomic int overflow;
} job;

/* ---- weights ---- */

static int64_t terms_of(const form *f, int64_t point)
{
  return f->terms[point / f->points] * f->terms[point % f->points];
}

/* The part of a patch that a term of a point takes. */
static int64_t part_of(const form *f, int64_t point, int64_t term)
{
  int64_t y = point / f->points, x = point % f->points;
  return f->part[y][term / f->terms[x]] * f->parts + f->part[x][term % f->terms[x]];
}

static int64_t group_of(const form *f, int64_t point)
{
  return f->group[point / f->points] * f->groups + f->group[point % f->points];
}

/* One panel of mr rows. to: u_panel */
static void take_panel(const job *j, int64_t panel, float *to)
{
  const int64_t *s = j->v->weight.strides;
  bool flipped = j->v->kind == CNI_CONV_INPUT;
  int64_t row = flipped ? s[1] : s[0], deep = flipped ? s[0] : s[1];
  const float *w = (const float *)(const void *)j->v->weight.data + panel * j->ker->mr * row;
  for (int64_t r = 0; r < j->depth; r++) j->transforms->weight(to, j->u_at, r, w + r * deep, row, flipped);
}

static void weight_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  for (int64_t panel = begin; panel < end; panel++) take_panel(j, panel, j->u + panel * j->u_panel);
}

/* ---- blocks of tiles ---- */

/* Where a walk over tiles, row by row and image by image, has come to. */
typedef struct walk {
  int64_t at, end; /* tiles: before which it is, and where it stops */
  int64_t n, y, x; /* image, row and column of tiles */
} walk;

static walk walk_from(const job *j, int64_t first, int64_t end)
{
  int64_t row = first / j->tiles_x;
  return (walk){first, end, row / j->tiles_y, row % j->tiles_y, first % j->tiles_x};
}

/* The run of tiles it is before, in a plane of `t`, where tiles are `step` apart. */
static cni_winograd_run run_at(const job *j, const walk *w, const cni_conv_tensor *t, int64_t step)
{
  return (cni_winograd_run){.h = t->shape[2],
                            .w = t->shape[3],
                            .row = t->strides[2],
                            .y = step * w->y,
                            .x = step * w->x,
                            .count = cni_least(LANES, cni_least(j->tiles_x - w->x, w->end - w->at))};
}

static void step_over(const job *j, walk *w, int64_t count)
{
  w->at += count;
  w->x += count;
  if (w->x < j->tiles_x) return;
  w->x = 0;
  if (++w->y < j->tiles_y) return;
  w->y = 0;
  w->n++;
}

/* Asks for what tiles [first, end) will read of a channel. */
static void prefetch(const job *j, const float *planes, int64_t first, int64_t end)
{
  const int64_t each = j->tiles_y * j->tiles_x;
  for (int64_t n = first / each; n * each < end; n++) {
    int64_t from = first > n * each ? (first - n * each) / j->tiles_x : 0;
    int64_t to = cni_least(end - n * each, each) - 1;
    cni_conv_prefetch(&j->from, planes + n * j->from.strides[0], j->f->step * from - j->pad[0],
                      j->f->step * (to / j->tiles_x) - j->pad[0] + j->f->side);
  }
}

/* Tiles [first, end) of channels [channel, last): channel by channel, so that what is written stays in the first
 * cache. */
static void take_patches(const job *j, float *v, int64_t first, int64_t end, int64_t channel, int64_t last)
{
  const int64_t *s = j->from.strides;
  const walk start = walk_from(j, first, end);
  for (int64_t c = channel; c < last; c++) {
    const float *planes = (const float *)(const void *)j->from.data + c * s[1];
    if (c + 1 < last) prefetch(j, planes + s[1], first, end);
    for (walk w = start; w.at < end;) {
      cni_winograd_run r = run_at(j, &w, &j->from, j->f->step);
      r.y -= j->pad[0];
      r.x -= j->pad[1];
      j->transforms->image(&r, v + c * j->pitch + (w.at - first), j->v_step, planes + w.n * s[0]);
      step_over(j, &w, r.count);
    }
  }
}

static bool give_results(const job *j, const float *m, int64_t row, int64_t rows, int64_t first, int64_t end)
{
  const int64_t *s = j->to.strides;
  const walk start = walk_from(j, first, end);
  bool finite = true;
  for (int64_t k = 0; k < rows; k++) {
    float bias = 0, *planes = (float *)(void *)j->to.data + (row + k) * s[1];
    if (j->v->bias) memcpy(&bias, (const char *)j->v->bias->data + 4 * (row + k) * j->v->bias->strides[0], 4);
    for (walk w = start; w.at < end;) {
      cni_winograd_run r = run_at(j, &w, &j->to, j->f->tile);
      finite &= j->transforms->result(&r, planes + w.n * s[0], m + k * j->pitch + (w.at - first), j->m_step, bias);
      step_over(j, &w, r.count);
    }
  }
  return finite;
}

/* The products of one point with a panel of weights. */
static void multiply(const job *j, int64_t point, float *m, const float *u, const float *v, int64_t cols)
{
  const int64_t *offset = j->offset + j->offset_at[point], deep = j->offset_at[point + 1] - j->offset_at[point];
  j->ker->panel(m + point * j->m_step, j->pitch, u + j->u_at[group_of(j->f, point)], j->ker->mr, deep, offset, v, cols);
}

/* Items are blocks. */
static void block_range(int64_t begin, int64_t end, void *payload)
{
  job *j = payload;
  const int64_t patches = j->parts * j->v_step;
  size_t bytes = (size_t)(patches + j->points * j->m_step) * sizeof(float);
  float *v = cni_scratch_alloc(bytes), *m = v + patches;
  if (!v) return; /* the error reaches the caller */
  for (int64_t block = begin; block < end && !j->overflow; block++) {
    int64_t first = block * j->each, last = cni_least(first + j->each, j->tiles);
    take_patches(j, v, first, last, 0, j->depth);
    for (int64_t row = 0; row < j->rows; row += CHUNK_ROWS) {
      int64_t rows = cni_least(CHUNK_ROWS, j->rows - row);
      for (int64_t p = 0; p < j->points; p++)
        for (int64_t k = 0; k < rows; k += j->ker->mr)
          multiply(j, p, m + k * j->pitch, j->u + (row + k) / j->ker->mr * j->u_panel, v, last - first);
      if (!give_results(j, m, row, rows, first, last)) j->overflow = 1;
    }
  }
  cni_scratch_free(v, bytes);
}

static void set_steps(job *j)
{
  j->pitch = cni_parts(j->each, LANES) * LANES;
  j->v_step = j->depth * j->pitch + LANES;
  j->m_step = CHUNK_ROWS * j->pitch + LANES;
  for (int64_t p = 0; p < j->points; p++) {
    int64_t g = group_of(j->f, p), deep = j->depth * terms_of(j->f, p);
    j->offset_at[p + 1] = j->offset_at[p] + deep;
    if (g + 1 == j->groups) j->u_panel = j->u_at[g] + deep * j->ker->mr + LANES;
    else j->u_at[g + 1] = j->u_at[g] + deep * j->ker->mr + LANES;
  }
}

static void set_offsets(job *j)
{
  int64_t *to = j->offset;
  for (int64_t p = 0; p < j->points; p++)
    for (int64_t r = 0; r < j->depth; r++)
      for (int64_t t = 0; t < terms_of(j->f, p); t++) *to++ = part_of(j->f, p, t) * j->v_step + r * j->pitch;
}

/* What blocks of `each` tiles cost the busiest thread: the last may be short. */
static int64_t cost_of(const job *j, int64_t each)
{
  int64_t threads = cn_num_threads(), blocks = cni_parts(j->tiles, each), rounds = cni_parts(blocks, threads);
  int64_t last = blocks % threads == 1 % threads ? j->tiles - (blocks - 1) * each : each;
  return (rounds - 1) * (cni_parts(each, LANES) * LANES + 4) + cni_parts(last, LANES) * LANES + 4;
}

/* Blocks that fill vectors and keep threads equally long at work. Results do not depend on it. */
static void cut(job *j)
{
  int64_t most = BLOCK_BYTES / (j->parts * j->depth * (int64_t)sizeof(float)), least = 0;
  most = most > MOST_TILES ? MOST_TILES : most < 4 * LANES ? 4 * LANES : most;
  int64_t fewest = cni_parts(j->tiles, most), threads = cn_num_threads();
  for (int64_t blocks = fewest; blocks <= 2 * fewest + threads; blocks++) {
    int64_t each = cni_parts(j->tiles, blocks);
    for (int i = 0; i < 2; i++, each = cni_parts(each, LANES) * LANES) { /* of equal size; of whole vectors */
      int64_t cost = cost_of(j, each);
      if (each > most || (least && cost >= least)) continue;
      least = cost;
      j->each = each;
    }
  }
  j->blocks = cni_parts(j->tiles, j->each);
  set_steps(j);
}

static size_t weight_bytes(const job *j) { return (size_t)(j->rows / j->ker->mr * j->u_panel) * sizeof *j->u; }

static void transform_weights(job *j)
{
  int64_t panels = j->rows / j->ker->mr;
  cni_parallel_for(panels, cni_grain((double)j->rows * (double)j->depth, panels, GRAIN_COPY), weight_range, j);
}

static int run_blocks(job *j)
{
  bool prepared = j->u != NULL;
  if (!prepared && !(j->u = cni_scratch_alloc(weight_bytes(j)))) return CN_ERR_MEMORY;
  if (!prepared) transform_weights(j);
  cni_parallel_for(j->blocks, cni_even_grain(j->blocks, 1), block_range, j);
  if (!prepared) cni_scratch_free(j->u, weight_bytes(j));
  return cn_err();
}

/* ---- few tiles: all of them at once, every panel of weights transformed where it is used ---- */

static void patch_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  take_patches(j, j->patches, 0, j->tiles, begin, end);
}

/* Items are runs of `group` panels. */
static void panel_range(int64_t begin, int64_t end, void *payload)
{
  job *j = payload;
  const int64_t weights = j->u ? 0 : j->group * j->u_panel;
  size_t bytes = (size_t)(weights + j->points * j->m_step) * sizeof(float);
  float *room = cni_scratch_alloc(bytes), *m = room + weights;
  if (!room) return; /* the error reaches the caller */
  for (int64_t item = begin; item < end && !j->overflow; item++) {
    int64_t first = item * j->group, panels = cni_least(j->group, j->rows / j->ker->mr - first);
    const float *u = j->u ? j->u + first * j->u_panel : room;
    for (int64_t k = 0; k < panels && !j->u; k++) take_panel(j, first + k, room + k * j->u_panel);
    for (int64_t p = 0; p < j->points; p++)
      for (int64_t k = 0; k < panels; k++)
        multiply(j, p, m + k * j->ker->mr * j->pitch, u + k * j->u_panel, j->patches, j->tiles);
    if (!give_results(j, m, first * j->ker->mr, panels * j->ker->mr, 0, j->tiles)) j->overflow = 1;
  }
  cni_scratch_free(room, bytes);
}

static int run_panels(job *j)
{
  size_t bytes = (size_t)(j->parts * j->v_step) * sizeof(float);
  int64_t panels = j->rows / j->ker->mr, most = GROUP_BYTES / (j->u_panel * (int64_t)sizeof(float));
  j->group = cni_least(most < 1 ? 1 : most, cni_least(CHUNK_ROWS / j->ker->mr, cni_parts(panels, 8)));
  j->patches = cni_scratch_alloc(bytes);
  if (j->patches) {
    cni_parallel_for(j->depth, cni_grain((double)j->v_step, j->depth, GRAIN_COPY), patch_range, j);
    cni_parallel_for(cni_parts(panels, j->group), 1, panel_range, j);
  }
  cni_scratch_free(j->patches, bytes);
  return cn_err();
}

static int run(job *j)
{
  bool few = j->parts * j->depth * j->tiles * (int64_t)sizeof(float) <= FEW_BYTES;
  if (few) {
    j->each = j->tiles;
    set_steps(j);
  } else {
    cut(j);
  }
  size_t offsets = (size_t)j->offset_at[j->points] * sizeof *j->offset;
  j->offset = cni_scratch_alloc(offsets);
  if (!j->offset) return CN_ERR_MEMORY;
  set_offsets(j);
  int status = few ? run_panels(j) : run_blocks(j);
  cni_scratch_free(j->offset, offsets);
  return status;
}

/* ---- gradient of the weight ---- */

/* Transforms of x and of the result's gradient, for all channels of a block of tiles; then, point by point, their
 * products summed over tiles; at the end the sums transformed back. */
typedef struct backward {
  job j;
  int64_t first, end;  /* tiles of the block */
  int64_t g_step;      /* between points of grads */
  float *grads, *sums; /* points x rows x pitch; parts x rows x depth */
  int64_t point[SLOTS]; /* that a part of a patch goes to */
} backward;

/* Items are channels of x, then of y. */
static void take_range(int64_t begin, int64_t end, void *payload)
{
  const backward *b = payload;
  const job *j = &b->j;
  const walk start = walk_from(j, b->first, b->end);
  if (begin < j->depth) take_patches(j, j->patches, b->first, b->end, begin, cni_least(end, j->depth));
  for (int64_t item = begin < j->depth ? j->depth : begin; item < end; item++) {
    int64_t k = item - j->depth;
    const float *planes = (const float *)(const void *)j->to.data + k * j->to.strides[1];
    for (walk w = start; w.at < b->end;) {
      cni_winograd_run r = run_at(j, &w, &j->to, j->f->tile);
      j->transforms->grad(&r, b->grads + k * j->pitch + (w.at - b->first), b->g_step,
                          planes + w.n * j->to.strides[0]);
      step_over(j, &w, r.count);
    }
  }
}

/* Items are parts of patches. */
static void part_range(int64_t begin, int64_t end, void *payload)
{
  backward *b = payload;
  const job *j = &b->j;
  for (int64_t p = begin; p < end && !b->j.overflow; p++) {
    cni_gemm g = {.m = j->rows, .n = j->depth, .k = b->end - b->first, .alpha = 1, .beta = b->first > 0 ? 1 : 0};
    g.a = b->grads + b->point[p] * b->g_step;
    g.a_row = g.b_col = j->pitch;
    g.a_col = g.b_row = g.c_col = 1;
    g.b = j->patches + p * j->v_step;
    g.c = b->sums + p * j->rows * j->depth;
    g.c_row = j->depth;
    if (cni_gemm_f32(&g)) return; /* the error reaches the caller */
  }
}

/* Items are rows of weights. */
static void back_range(int64_t begin, int64_t end, void *payload)
{
  backward *b = payload;
  const job *j = &b->j;
  const int64_t *s = j->v->weight.strides;
  for (int64_t k = begin; k < end; k++)
    if (!j->transforms->weight_back((float *)(void *)j->v->weight.data + k * s[0], s[1], b->sums + k * j->depth,
                                    j->rows * j->depth, j->depth))
      b->j.overflow = 1;
}

static int run_backward(backward *b)
{
  job *j = &b->j;
  int64_t channels = j->rows + j->depth, most;
  most = BACK_BYTES / ((j->parts * j->depth + j->points * j->rows) * (int64_t)sizeof(float));
  most = most < 4 * LANES ? 4 * LANES : most;
  j->each = cni_parts(j->tiles, cni_parts(j->tiles, most));
  set_steps(j);
  b->g_step = j->rows * j->pitch + LANES;
  for (int64_t p = 0; p < j->points; p++)
    for (int64_t t = 0; t < terms_of(j->f, p); t++) b->point[part_of(j->f, p, t)] = p;
  int64_t patches = j->parts * j->v_step, grads = j->points * b->g_step;
  size_t all = (size_t)(patches + grads + j->parts * j->rows * j->depth) * sizeof(float);
  if (!(j->patches = cni_scratch_alloc(all))) return CN_ERR_MEMORY;
  b->grads = j->patches + patches;
  b->sums = b->grads + grads;
  for (; b->first < j->tiles && !cn_err(); b->first = b->end) {
    b->end = cni_least(b->first + j->each, j->tiles);
    cni_parallel_for(channels, cni_grain((double)(j->v_step + b->g_step), channels, GRAIN_COPY), take_range, b);
    cni_parallel_for(j->parts, 1, part_range, b);
  }
  if (!cn_err())
    cni_parallel_for(j->rows, cni_grain((double)j->rows * (double)j->depth, j->rows, GRAIN_COPY), back_range, b);
  cni_scratch_free(j->patches, all);
  return cn_err();
}

/* ---- entry ---- */

/* Where every d-th row is seen: results r, r + d, ... and the rows that they see, a convolution without a dilation. */
static cni_conv rows_from(const cni_conv *v, int64_t r)
{
  const int64_t d = v->dilation[0], top = r - v->padding[0], first = top >= 0 ? top : ((top % d) + d) % d;
  cni_conv s = *v;
  s.dilation[0] = 1;
  s.padding[0] = top >= 0 ? 0 : (first - top) / d;
  s.oh = cni_parts(v->oh, d); /* of the most: the form is one for all, as their weights are */
  s.y.data += r * v->y.strides[2] * (int64_t)sizeof(float);
  s.y.strides[2] *= d;
  s.y.shape[2] = cni_parts(v->oh - r, d);
  s.x.data += cni_least(first, v->h) * v->x.strides[2] * (int64_t)sizeof(float);
  s.x.strides[2] *= d;
  s.h = s.x.shape[2] = first < v->h ? cni_parts(v->h - first, d) : 0;
  return s;
}

/* At stride 2 a quarter of the products is saved: half tiles at the ends of many small images eat that up. */
static bool wasteful(const cni_conv *v)
{
  enum { SOME_PIXELS = 256 };
  int64_t pixels = v->oh * v->ow, whole = 4 * cni_parts(v->oh, 2) * cni_parts(v->ow, 2);
  return v->stride[0] == 2 && v->kind == CNI_CONV_FORWARD && v->n * pixels > SOME_PIXELS && 5 * whole > 6 * pixels;
}

/* What a point's products cost by tiles of t x t results. */
static int64_t vectors_of(const cni_conv *v, int64_t t)
{
  return cni_parts(v->n * cni_parts(v->oh, t) * cni_parts(v->ow, t), LANES);
}

/* At stride 2 weights grow 25 to 9: where a vector of tiles has to wait for them from memory, a product of columns by
 * weights as they are is faster, rounded otherwise. */
static bool waits_for_weights(const cni_conv *v)
{
  enum { FAR_BYTES = 1 << 20 };
  return v->fast && v->stride[0] == 2 && v->kind == CNI_CONV_FORWARD && v->n == 1 && vectors_of(v, 2) <= 1 &&
         v->k * v->c * 9 * (int64_t)sizeof(float) >= FAR_BYTES && cni_gemm_turns(v->k, v->oh * v->ow, v->c * 9, false);
}

const char *cni_conv_winograd_against(const cni_conv *v)
{
  if (v->dilation[0] > 1 && v->kind == CNI_CONV_FORWARD && v->stride[0] == 1 && v->dtype == CN_F32 &&
      v->dilation[0] <= v->oh) {
    const cni_conv rows = rows_from(v, 0);
    return cni_conv_winograd_against(&rows);
  }
  const int64_t *w = v->weight.strides;
  const cni_winograd_kernels *kernels = CNI_IF_VECTORS(cni_winograd);
  if (!kernels) return "no transforms for this processor";
  if (v->dtype != CN_F32 || v->groups != 1 || v->kh != 3 || v->kw != 3) return "not a 3 x 3 convolution in float32";
  int64_t stride = v->stride[0];
  if (stride > 2) return "not at stride 1 or 2";
  for (int i = 0; i < 2; i++)
    if (v->stride[i] != stride || v->dilation[i] != 1 || v->padding[i] > 2) return "not at the same stride, dilation 1";
  if (stride == 2 && v->kind == CNI_CONV_INPUT && (v->padding[0] ^ v->padding[1]) & 1) return "unlike paddings";
  if (w[3] != 1 || w[2] != 3) return "taps are not contiguous";
  if (v->x.strides[3] != 1 || v->y.strides[3] != 1) return "rows are not contiguous";
  if (v->c < LEAST_CHANNELS || v->k < LEAST_CHANNELS || v->c % CHANNELS || v->k % CHANNELS)
    return "too few or odd channels";
  if (v->contest) return NULL;
  if (v->n * v->oh * v->ow < (v->kind == CNI_CONV_WEIGHT ? BACK_PIXELS : LEAST_PIXELS))
    return "too few pixels to transform the weights for";
  if (wasteful(v)) return "too many half tiles";
  if (waits_for_weights(v)) return "large weights over few tiles";
  return NULL;
}

/* Large tiles: 36 products for 16 results, and roundings three times as large. Few tiles would wait for weights, which
 * are more than twice as many. */
static bool is_large(const cni_conv *v)
{
  enum { LEAST_VECTORS = 2 };
  int64_t large = vectors_of(v, 4);
  return v->fast && v->kind == CNI_CONV_FORWARD && v->stride[0] == 1 && large >= LEAST_VECTORS &&
         5 * 36 * large <= 4 * 16 * vectors_of(v, 2);
}

/* The form, and where its tiles lie. */
static void set_form(job *j)
{
  const cni_conv *v = j->v;
  bool flipped = v->kind == CNI_CONV_INPUT;
  int which = is_large(v)            ? LARGE
              : v->stride[0] == 1    ? STRIDE_1
              : !flipped             ? STRIDE_2
              : v->padding[0] % 2 ? INPUT_ODD
                                     : INPUT_EVEN;
  const form *f = &forms[which];
  j->f = f;
  const cni_winograd_kernels *kernels = CNI_IF_VECTORS(cni_winograd);
  j->transforms = kernels ? &kernels[which] : NULL;
  j->parts = f->parts * f->parts;
  j->points = f->points * f->points;
  j->groups = f->groups * f->groups;
  for (int i = 0; i < 2; i++) {
    int64_t p = v->padding[i];
    j->pad[i] = !flipped ? p : which == STRIDE_1 ? 2 - p : which == INPUT_EVEN ? 1 - p / 2 : -(p / 2);
  }
  j->tiles_y = cni_parts(j->to.shape[2], f->tile);
  j->tiles_x = cni_parts(j->to.shape[3], f->tile);
  j->tiles = v->n * j->tiles_y * j->tiles_x;
}

static job job_of(const cni_conv *v)
{
  bool flipped = v->kind == CNI_CONV_INPUT;
  job j = {.v = v,
           .ker = cni_conv_kernels_of(v->dtype),
           .from = flipped ? v->y : v->x,
           .to = flipped ? v->x : v->y,
           .rows = flipped ? v->c : v->k,
           .depth = flipped ? v->k : v->c,
           .u = (float *)(uintptr_t)v->prepared}; /* read only then */
  set_form(&j);
  return j;
}

/* *overflow: some result is not finite. */
static int run_one(const cni_conv *v, bool *overflow)
{
  backward b = {.j = job_of(v)};
  int status = v->kind == CNI_CONV_WEIGHT ? run_backward(&b) : run(&b.j);
  *overflow = b.j.overflow != 0;
  return status;
}

int cni_conv_winograd(const cni_conv *v)
{
  const bool dilated = v->dilation[0] > 1;
  bool overflow = false;
  int status = dilated ? CN_OK : run_one(v, &overflow);
  for (int64_t r = 0; dilated && r < v->dilation[0] && !status && !overflow; r++) {
    const cni_conv rows = rows_from(v, r);
    status = run_one(&rows, &overflow);
  }
  if (status || !overflow) return status;
  /* Sums of transforms meet infinities where the convolution itself need not: those are computed plainly. */
  cni_conv plain = *v;
  plain.prepared = NULL; /* which is this one's */
  return cni_conv_direct(&plain);
}

int cni_conv_winograd_prepare(const cni_conv *v, cn_prepared *made)
{
  const cni_conv rows = v->dilation[0] > 1 ? rows_from(v, 0) : *v;
  job j = job_of(&rows);
  j.each = j.tiles;
  set_steps(&j);
  if (made->memory) {
    j.u = made->memory;
    transform_weights(&j);
    return CN_OK;
  }
  made->bytes = weight_bytes(&j);
  made->form = (uint64_t)(j.f - forms) + 1;
  return CN_OK;
}
