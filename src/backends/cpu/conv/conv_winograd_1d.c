/* conv_winograd_1d.c: one-dimensional Winograd convolutions, two neighbouring results a tile, for few channels and for
 * large windows. Of the taps of a row that see the same phase of the stride, three that follow each other take 4
 * products for 2 results (Winograd's F(2, 3)) where the sum as written takes 6, two take 3 for 4; a row of 7 taps at
 * stride 2 takes 10 for 14. Only along rows: parts of a row serve all rows of taps, so that they cost little even where
 * channels are few.
 *
 * Flow: weights transformed into parts and packed in panels -> blocks of rows of results in parallel: rows of the image
 * transformed, the parts' products summed in 4 points by the direct convolution's panels, points transformed to results
 * and written. The gradient of the weight goes the same way back. What is not finite would spread inside a tile: where
 * a result is not finite, the direct convolution does the call again. Invariant: a result depends on its own tile
 * alone, not on how rows are cut into blocks; blocks of the weight's gradient depend on shapes alone. */
#include <stdatomic.h>
#include <string.h>

#include "conv_winograd_1d_isa.h"
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa.h"
#include "base/parallel.h"
#include "base/scratch.h"
#include "conv_direct.h"
#include "tensor/tensor.h"

enum {
  LANES = CNI_WINOGRAD_1D_LANES,
  POINTS = 4,
  ROWS = 8,                /* of a panel of weights, at most */
  MOST_TAPS = 16,          /* of a row */
  LEAST_CHANNELS = 16,     /* of the results */
  LEAST_ROWS = 5,          /* of taps, of all channels */
  BLOCK_COLUMNS = 448,     /* tiles of a block */
  BACK_COLUMNS = 224,      /* of one of the weight's gradient ... */
  WALK_COLUMNS = 112,      /* ... and those of its gradients that stay in the first cache */
  BLOCK_BYTES = 512 << 10, /* parts of a block */
  LEAST_COLUMNS = 48,      /* of a block whose parts fit */
  MOST_PIECES = 8,         /* partial sums of a weight's gradient */
  PIECES_BYTES = 10 << 20, /* all of them together */
  MANY_CHANNELS = 16,      /* from which on a weight's gradient takes ... */
  MANY_PIXELS = 3072,      /* ... so many pixels */
  GRAIN_WORK = 1 << 19
};

/* How a row of taps is split. The results of a tile are a + b + d and b - d - c of points a, b, c, d. */
typedef struct parting {
  int64_t count;
  cni_winograd_1d_part part[CNI_WINOGRAD_1D_PARTS];
  int point[CNI_WINOGRAD_1D_PARTS];       /* that a part's products are summed in */
  float factor[CNI_WINOGRAD_1D_PARTS][3]; /* of taps tap, tap + stride, tap + 2 * stride */
  int64_t tap[CNI_WINOGRAD_1D_PARTS];
} parting;

typedef struct job {
  const cni_conv *v;
  const cni_conv_kernels *ker;
  const cni_winograd_1d_kernels *own;
  parting p;
  int64_t tiles, phases, reach;        /* tiles of a row; rows of taps modulo the stride, and of each but the first */
  int64_t rows, lines, blocks;         /* of results in a block; of the image, for each phase; blocks of an image */
  int64_t part_step, parts_size;       /* elements of parts */
  int64_t pitch, m_step;               /* of sums */
  int64_t panel, depth[POINTS], deep;  /* rows of a panel; terms of the points; of all */
  float *u;                            /* panels x points x terms x rows */
  int64_t *offset;                     /* points x terms: into the parts */
  _Atomic int overflow;
  /* the gradient of the weight */
  int64_t ld, pieces;
  float *sums; /* pieces x points x terms x ld */
} job;

/* ---- parting ---- */

static void add_part(parting *p, int point, int64_t tap, const float *factor, int64_t a, int64_t b, int sign)
{
  int64_t i = p->count++;
  p->point[i] = point;
  p->tap[i] = tap;
  memcpy(p->factor[i], factor, sizeof p->factor[i]);
  p->part[i] = (cni_winograd_1d_part){a, b, sign};
}

/* Parts of taps j, j + s, ...: `n` of them, at most 3. */
static void add_taps(parting *p, int64_t j, int64_t s, int64_t n)
{
  if (n == 3) {
    add_part(p, 0, j, (const float[]){1, 0, 0}, j, j + 2 * s, -1);
    add_part(p, 1, j, (const float[]){0.5f, 0.5f, 0.5f}, j + s, j + 2 * s, 1);
    add_part(p, 2, j, (const float[]){0, 0, 1}, j + s, j + 3 * s, -1);
    add_part(p, 3, j, (const float[]){0.5f, -0.5f, 0.5f}, j + 2 * s, j + s, -1);
  } else if (n == 2) {
    add_part(p, 0, j, (const float[]){1, 0, 0}, j, j + s, -1);
    add_part(p, 1, j, (const float[]){1, 1, 0}, j + s, 0, 0);
    add_part(p, 2, j, (const float[]){0, 1, 0}, j + s, j + 2 * s, -1);
  } else {
    add_part(p, 0, j, (const float[]){1, 0, 0}, j, 0, 0);
    add_part(p, 2, j, (const float[]){-1, 0, 0}, j + s, 0, 0);
  }
}

static void part_taps(parting *p, int64_t taps, int64_t stride)
{
  for (int64_t phase = 0; phase < stride && phase < taps; phase++) {
    int64_t left = cni_parts(taps - phase, stride);
    for (int64_t j = phase; left > 0;) {
      int64_t n = left == 4 ? 2 : cni_least(left, 3);
      add_taps(p, j, stride, n);
      j += n * stride;
      left -= n;
    }
  }
}

/* ---- weights ---- */

/* The parts of the taps of one (c, y) of a panel, each behind those of its point. tap: 0 from the last tap on */
static void part_weights(const parting *p, int64_t stride, float *to[POINTS], float tap[][ROWS], int64_t rows)
{
  for (int64_t part = 0; part < p->count; part++) {
    const float *f = p->factor[part], *a = tap[p->tap[part]], *b = a + stride * ROWS, *c = b + stride * ROWS;
    float sum[ROWS];
    for (int i = 0; i < ROWS; i++) sum[i] = f[0] * a[i] + f[1] * b[i] + f[2] * c[i];
    memcpy(to[p->point[part]], sum, (size_t)rows * sizeof *sum);
    to[p->point[part]] += rows;
  }
}

/* Items are panels. */
static void weight_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_conv *v = j->v;
  const int64_t *s = v->weight.strides;
  float tap[MOST_TAPS + CNI_WINOGRAD_1D_STEP][ROWS] = {{0}}, *to[POINTS];
  for (int64_t item = begin; item < end; item++) {
    int64_t first = item * j->panel, rows = cni_least(j->panel, v->k - first);
    const float *w = (const float *)(const void *)v->weight.data + first * s[0];
    to[0] = j->u + first * j->deep;
    for (int point = 1; point < POINTS; point++) to[point] = to[point - 1] + rows * j->depth[point - 1];
    for (int64_t c = 0; c < v->c; c++)
      for (int64_t y = 0; y < v->kh; y++) {
        for (int64_t x = 0; x < v->kw; x++)
          cni_conv_gather(tap[x], w + c * s[1] + y * s[2] + x * s[3], s[0], rows);
        part_weights(&j->p, v->stride[1], to, tap, rows);
      }
  }
}

/* Row (point, c, y, part) of the products lies here in the parts. */
static void set_offsets(job *j)
{
  const cni_conv *v = j->v;
  int64_t *to = j->offset;
  for (int point = 0; point < POINTS; point++)
    for (int64_t c = 0; c < v->c; c++)
      for (int64_t y = 0; y < v->kh; y++)
        for (int64_t part = 0; part < j->p.count; part++) {
          int64_t line = (c * j->phases + y % v->stride[0]) * j->lines + y / v->stride[0];
          if (j->p.point[part] == point) *to++ = part * j->part_step + line * j->tiles;
        }
}

/* ---- parts of an image ---- */

/* What rows [row, row + rows) of the results of image n see, in parts: (part, c, phase, line, tile). */
static void take_parts(const job *j, float *parts, float *room, int64_t n, int64_t row, int64_t rows)
{
  const cni_conv *v = j->v;
  const int64_t *s = v->x.strides, span = v->kw - 1 + v->stride[1];
  cni_winograd_1d_row r = {
      .w = v->w, .first = -v->padding[1], .step = 2 * v->stride[1], .tiles = j->tiles, .room = room};
  r.reach = span / r.step;
  r.count = j->p.count;
  r.parts = j->p.part;
  for (int64_t c = 0; c < v->c; c++) {
    const float *plane = (const float *)(const void *)v->x.data + n * s[0] + c * s[1];
    for (int64_t phase = 0; phase < j->phases; phase++)
      for (int64_t line = 0; line < rows + j->reach; line++) {
        int64_t y = (row + line) * v->stride[0] + phase - v->padding[0];
        float *to = parts + ((c * j->phases + phase) * j->lines + line) * j->tiles;
        j->own->transform_input(&r, y >= 0 && y < v->h ? plane + y * s[2] : NULL, to, j->part_step);
      }
  }
}

static int64_t room_size(const job *j)
{
  const int64_t step = 2 * j->v->stride[1], reach = (j->v->kw - 1 + j->v->stride[1]) / step;
  return step * (cni_parts(j->tiles + reach, LANES) + 1) * LANES;
}

/* Blocks of `columns` tiles or a little more. */
static void cut(job *j, int64_t columns)
{
  const cni_conv *v = j->v;
  j->tiles = cni_parts(v->ow, 2);
  j->phases = cni_least(v->stride[0], v->kh);
  j->reach = (v->kh - 1) / v->stride[0];
  j->rows = cni_least(cni_parts(columns, j->tiles), v->oh);
  int64_t line = j->p.count * v->c * j->phases * j->tiles * (int64_t)sizeof(float);
  while (j->rows > 1 && (j->rows + j->reach) * line > BLOCK_BYTES) j->rows--;
  j->rows = cni_parts(v->oh, cni_parts(v->oh, j->rows));
  j->blocks = cni_parts(v->oh, j->rows);
  j->lines = j->rows + j->reach;
  j->part_step = v->c * j->phases * j->lines * j->tiles + LANES;
  j->parts_size = j->p.count * j->part_step + LANES;
  for (int64_t part = 0; part < j->p.count; part++) j->depth[j->p.point[part]] += v->c * v->kh;
  for (int point = 0; point < POINTS; point++) j->deep += j->depth[point];
}

/* ---- forward ---- */

/* Results of rows [row, row + rows) of weights, lines [line, line + lines) of image n, from the points in m. */
static void give(job *j, const float *m, int64_t row, int64_t rows, int64_t n, int64_t line, int64_t lines)
{
  const cni_conv *v = j->v;
  const int64_t *s = v->y.strides;
  bool even = v->ow % 2 == 0, finite = true; /* then all lines are one */
  for (int64_t i = 0; i < rows; i++) {
    float bias = 0, *to = (float *)(void *)v->y.data + n * s[0] + (row + i) * s[1] + line * v->ow;
    if (v->bias) memcpy(&bias, (const char *)v->bias->data + 4 * (row + i) * v->bias->strides[0], 4);
    for (int64_t l = 0; l < (even ? 1 : lines); l++) {
      const float *sums = m + i * j->pitch + l * j->tiles;
      finite &= j->own->transform_output(to + l * v->ow, even ? lines * v->ow : v->ow, sums, j->m_step, bias);
    }
  }
  if (!finite) j->overflow = 1;
}

/* Items are blocks of all images. */
static void block_range(int64_t begin, int64_t end, void *payload)
{
  job *j = payload;
  const cni_conv *v = j->v;
  size_t bytes = (size_t)(j->parts_size + room_size(j) + POINTS * j->m_step) * sizeof(float);
  float *parts = cni_scratch_alloc(bytes), *room = parts + j->parts_size, *m = room + room_size(j);
  if (!parts) return; /* the error reaches the caller */
  for (int64_t item = begin; item < end && !j->overflow; item++) {
    int64_t n = item / j->blocks, line = item % j->blocks * j->rows, lines = cni_least(j->rows, v->oh - line);
    take_parts(j, parts, room, n, line, lines);
    for (int64_t row = 0; row < v->k; row += j->panel) {
      int64_t rows = cni_least(j->panel, v->k - row), *offset = j->offset;
      const float *u = j->u + row * j->deep;
      for (int point = 0; point < POINTS; point++) {
        j->ker->panel(m + point * j->m_step, j->pitch, u, (int)rows, j->depth[point], offset, parts,
                      lines * j->tiles);
        u += rows * j->depth[point];
        offset += j->depth[point];
      }
      give(j, m, row, rows, n, line, lines);
    }
  }
  cni_scratch_free(parts, bytes);
}

static int forward(job *j)
{
  const cni_conv *v = j->v;
  j->panel = cni_parts(v->k, cni_parts(v->k, j->ker->mr));
  j->pitch = cni_parts(j->rows * j->tiles, LANES) * LANES;
  j->m_step = j->panel * j->pitch + LANES;
  size_t weights = (size_t)(v->k * j->deep) * sizeof *j->u, offsets = (size_t)j->deep * sizeof *j->offset;
  j->u = cni_scratch_alloc(weights);
  j->offset = cni_scratch_alloc(offsets);
  if (j->u && j->offset) {
    int64_t panels = cni_parts(v->k, j->panel), items = v->n * j->blocks;
    set_offsets(j);
    cni_parallel_for(panels, cni_grain((double)(v->k * j->deep) * 8, panels, GRAIN_WORK), weight_range, j);
    cni_parallel_for(items, cni_even_grain(items, cni_grain(cni_conv_work(v), items, GRAIN_WORK)), block_range, j);
  }
  cni_scratch_free(j->u, weights);
  cni_scratch_free(j->offset, offsets);
  return cn_err();
}

/* ---- gradient of the weight ---- */

/* The gradients of a block for the points: (point, tile, ld). */
static void take_gradients(const job *j, float *to, int64_t step, int64_t n, int64_t line, int64_t lines)
{
  const cni_conv *v = j->v;
  const int64_t *s = v->y.strides;
  bool even = v->ow % 2 == 0;
  for (int64_t k = 0; k < j->ld; k += LANES) {
    const float *grad = (const float *)(const void *)v->y.data + n * s[0] + k * s[1] + line * v->ow;
    for (int64_t l = 0; l < (even ? 1 : lines); l++)
      j->own->transform_grad(to + l * j->tiles * j->ld + k, step, j->ld, grad + l * v->ow, s[1], v->k - k,
                             even ? lines * v->ow : v->ow);
  }
}

/* Items are pieces: runs of blocks, whose products are added to the piece's sums. */
static void piece_range(int64_t begin, int64_t end, void *payload)
{
  const job *j = payload;
  const cni_conv *v = j->v;
  const int64_t columns = j->rows * j->tiles, step = columns * j->ld + LANES, all = v->n * j->blocks;
  size_t bytes = (size_t)(j->parts_size + room_size(j) + POINTS * step) * sizeof(float);
  float *parts = cni_scratch_alloc(bytes), *room = parts + j->parts_size, *grads = room + room_size(j);
  if (!parts) return; /* the error reaches the caller */
  for (int64_t piece = begin; piece < end; piece++)
    for (int64_t item = piece * all / j->pieces; item < (piece + 1) * all / j->pieces; item++) {
      int64_t n = item / j->blocks, line = item % j->blocks * j->rows, lines = cni_least(j->rows, v->oh - line);
      take_parts(j, parts, room, n, line, lines);
      take_gradients(j, grads, step, n, line, lines);
      float *to = j->sums + piece * j->deep * j->ld;
      const int64_t *offset = j->offset;
      for (int point = 0; point < POINTS; point++) {
        for (int64_t first = 0; first < lines * j->tiles; first += WALK_COLUMNS) {
          cni_conv_walk walk = {.images = 1, .count = 1};
          walk.n = cni_least(WALK_COLUMNS, lines * j->tiles - first);
          j->ker->outer(to, parts + first, offset, j->depth[point], grads + point * step + first * j->ld, j->ld, &walk);
        }
        to += j->depth[point] * j->ld;
        offset += j->depth[point];
      }
    }
  cni_scratch_free(parts, bytes);
}

/* Taps of (c, y) of 16 rows of weights from k on, from the sums of all pieces, in order. */
static void give_taps(const job *j, float taps[][LANES], int64_t c, int64_t y, int64_t k)
{
  const int64_t row = c * j->v->kh + y, all = j->v->c * j->v->kh, size = j->deep * j->ld;
  const parting *p = &j->p;
  int64_t before[POINTS] = {0}, first = 0;
  memset(taps, 0, (size_t)j->v->kw * sizeof *taps);
  for (int point = 0; point < POINTS; point++) {
    before[point] = first + row * (j->depth[point] / all);
    first += j->depth[point];
  }
  for (int64_t part = 0; part < p->count; part++) {
    const float *from = j->sums + before[p->point[part]]++ * j->ld + k;
    float sum[LANES] = {0};
    for (int64_t piece = 0; piece < j->pieces; piece++, from += size)
      for (int i = 0; i < LANES; i++) sum[i] += from[i];
    for (int t = 0; t < 3; t++) {
      float f = p->point[part] == 2 ? -p->factor[part][t] : p->factor[part][t]; /* that point is taken away */
      float *to = taps[p->tap[part] + (f != 0 ? t * j->v->stride[1] : 0)];
      for (int i = 0; i < LANES && f != 0; i++) to[i] += f * sum[i];
    }
  }
}

/* Items are channels of x. */
static void give_range(int64_t begin, int64_t end, void *payload)
{
  job *j = payload;
  const cni_conv *v = j->v;
  const int64_t *s = v->weight.strides;
  float taps[MOST_TAPS][LANES], all = 0;
  for (int64_t c = begin; c < end; c++)
    for (int64_t k = 0; k < v->k; k += LANES)
      for (int64_t y = 0; y < v->kh; y++) {
        float *to = (float *)(void *)v->weight.data + k * s[0] + c * s[1] + y * s[2];
        give_taps(j, taps, c, y, k);
        for (int64_t i = 0; i < cni_least(LANES, v->k - k); i++)
          for (int64_t x = 0; x < v->kw; x++) {
            to[i * s[0] + x * s[3]] = taps[x][i];
            all += 0 * taps[x][i];
          }
      }
  if (all != 0) j->overflow = 1; /* not a number: one of them is not finite */
}

static int weight_gradient(job *j)
{
  const cni_conv *v = j->v;
  size_t offsets = (size_t)j->deep * sizeof *j->offset, sums = (size_t)(j->pieces * j->deep * j->ld) * sizeof *j->sums;
  j->offset = cni_scratch_alloc(offsets);
  j->sums = cni_scratch_alloc_zero(sums);
  if (j->offset && j->sums) {
    set_offsets(j);
    cni_parallel_for(j->pieces, cni_grain(cni_conv_work(v), j->pieces, GRAIN_WORK), piece_range, j);
    if (!cn_err()) cni_parallel_for(v->c, cni_grain((double)sums, v->c, GRAIN_WORK), give_range, j);
  }
  cni_scratch_free(j->offset, offsets);
  cni_scratch_free(j->sums, sums);
  return cn_err();
}

/* ---- entry ---- */

static const char *shape_against(const cni_conv *v)
{
  const int64_t *s = v->y.strides;
  if (v->dtype != CN_F32 || v->groups != 1) return "not an ungrouped convolution in float32";
  if (v->kind == CNI_CONV_INPUT) return "not for the gradient of the input";
  if (v->dilation[0] != 1 || v->dilation[1] != 1 || v->kw > MOST_TAPS || 2 * v->stride[1] > CNI_WINOGRAD_1D_STEP)
    return "wide windows or strides";
  if (v->x.strides[3] != 1 || s[3] != 1 || s[2] != v->ow) return "rows are not contiguous";
  if (!v->n || !v->c || v->k < LEAST_CHANNELS) return "too few channels";
  if (v->kw < 2 || v->c * v->kh < LEAST_ROWS) return "windows too small to be worth it";
  if (v->ow < LANES || v->oh * v->ow < 256) return "images too small to be worth it";
  return NULL;
}

/* Cuts the work. False when it had better go another way. */
static bool prepare(job *j)
{
  const cni_conv *v = j->v;
  bool back = v->kind == CNI_CONV_WEIGHT;
  part_taps(&j->p, v->kw, v->stride[1]);
  if (4 * j->p.count > 6 * v->kw) return false; /* products of two results: at most three quarters */
  cut(j, back ? BACK_COLUMNS : BLOCK_COLUMNS);
  if (j->rows * j->tiles < LEAST_COLUMNS || j->parts_size * (int64_t)sizeof(float) > 2 * BLOCK_BYTES) return false;
  if (!back) return true;
  j->ld = cni_parts(v->k, LANES) * LANES;
  int64_t bytes = j->deep * j->ld * (int64_t)sizeof(float);
  j->pieces = cni_least(MOST_PIECES, v->n * j->blocks);
  return v->c < MANY_CHANNELS || (v->n * v->oh * v->ow >= MANY_PIXELS && j->pieces * bytes <= PIECES_BYTES);
}

static job job_of(const cni_conv *v)
{
  return (job){.v = v, .ker = cni_conv_kernels_of(v->dtype), .own = CNI_IF_VECTORS(cni_winograd_1d)};
}

const char *cni_conv_winograd_1d_against(const cni_conv *v)
{
  const char *reason = shape_against(v);
  if (reason) return reason;
  job j = job_of(v);
  if (!j.own || j.ker->mr > ROWS) return "no transforms for this processor";
  return prepare(&j) ? NULL : "tiles of results are not worth it";
}

int cni_conv_winograd_1d(const cni_conv *v)
{
  job j = job_of(v);
  prepare(&j);
  int status = v->kind == CNI_CONV_FORWARD ? forward(&j) : weight_gradient(&j);
  /* Differences of inputs meet infinities where the convolution itself need not. */
  return status || !j.overflow ? status : cni_conv_direct(v);
}
