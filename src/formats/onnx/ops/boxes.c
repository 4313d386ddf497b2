/* boxes.c: boxes in pictures: what lies in them, and which of them to keep. See call.h.
 *
 * Pictures are read as one line of elements for each channel, all pictures one after the other, so that boxes in
 * different ones are work of one op: (N, C, H, W) as (1, C, N * H * W). */
#include <cairn/ext/parts.h>
#include <math.h>
#include <string.h>

#include "formats/onnx/call.h"

/* ---- RoiAlign ---- */

typedef struct aligner {
  int64_t n, height, width, out[2]; /* n: boxes; out: rows and columns of each result */
  bool max;
} aligner;

/* One dimension of the cells of every box: the elements that are read there, how much of each, and whether it is read
 * at all: (n, out, taps). */
typedef struct samples {
  cn_tensor *at, *share, *there;
  int64_t taps;
} samples;

/* Samples less than an element apart share elements, which are read once: p, and whether it counts, (n, out, most). */
static void shared(samples *s, cn_tensor *p, cn_tensor *counts, int64_t most)
{
  s->taps = most + 1;
  cn_tensor *i = cn_arange(0, (double)s->taps, .dtype = CN_F64, .device = cn_device_of(p));
  s->at = cn_add(cn_floor(cn_narrow(p, 2, 0, 1)), i);
  cn_tensor *far = cn_abs(cn_sub(cn_unsqueeze(p, 3), cn_unsqueeze(s->at, 2)));
  cn_tensor *share = cn_clamp_min(cn_rsub(far, cn_num(1)), cn_num(0));
  s->share = cn_sum(cn_where(cn_unsqueeze(counts, 3), share, cn_num(0)), .dim = CN_INTS(2));
}

/* The element in front of each sample and the one behind it. */
static void pairs(samples *s, cn_tensor *p, cn_tensor *counts, int64_t most)
{
  s->taps = 2 * most;
  cn_tensor *low = cn_floor(p), *up = cn_sub(p, low);
  s->at = cn_cat(CN_TENSORS(low, cn_add(low, cn_num(1))), .dim = 2);
  s->share = cn_cat(CN_TENSORS(cn_rsub(up, cn_num(1)), up), .dim = 2);
  s->share = cn_where(cn_cat(CN_TENSORS(counts, counts), .dim = 2), s->share, cn_num(0));
}

/* from: (n) where boxes begin; size: (n) theirs; whole: elements of the picture; ratio: samples in a cell, 0: as many
 * as elements. */
static int sample_along(samples *s, cni_onnx_call *c, const aligner *r, int64_t out, cn_tensor *from, cn_tensor *size,
                        int64_t whole, int64_t ratio)
{
  cn_device device = cn_device_of(from);
  cn_tensor *cell = cn_div(size, cn_int(out)), *count;
  int64_t most = ratio;
  count = ratio > 0 ? cn_full_like(cell, (double)ratio) : cn_clamp_min(cn_ceil(cell), cn_num(0));
  if (ratio <= 0) {
    cn_tensor *largest = r->n ? cn_max(count) : NULL;
    double value = largest ? cn_item(largest) : 0;
    if (cn_err()) return cn_err();
    if (!(value < 1 << 16)) return cni_onnx_fail(c, CN_ERR_VALUE, "a box of %g samples in a cell", value);
    most = value > 1 ? (int64_t)value : 1;
  }
  cn_tensor *bin = cn_reshape(cn_arange(0, (double)out, .dtype = CN_F64, .device = device), CN_SHAPE(out, 1));
  cn_tensor *i = cn_arange(0, (double)most, .dtype = CN_F64, .device = device);
  from = cn_reshape(from, CN_SHAPE(r->n, 1, 1));
  cell = cn_reshape(cell, CN_SHAPE(r->n, 1, 1));
  count = cn_reshape(count, CN_SHAPE(r->n, 1, 1));
  cn_tensor *least = cn_clamp_min(count, cn_num(1));
  cn_tensor *p = cn_add(from, cn_mul(cn_add(bin, cn_div(cn_add(i, cn_num(0.5)), least)), cell));
  cn_tensor *there = cn_logical_and(cn_lt(i, count), cn_eq(p, p));
  cn_tensor *inside = cn_logical_and(cn_ge(p, cn_num(-1)), cn_le(p, cn_num((double)whole)));
  p = cn_clamp(p, cn_num(0), cn_num((double)(whole - 1)));
  if (ratio <= 0 && !r->max) shared(s, p, cn_logical_and(there, inside), most);
  else pairs(s, p, cn_logical_and(there, inside), most);
  s->at = cn_cast(cn_clamp_max(s->at, cn_num((double)(whole - 1))), CN_I64);
  s->there = r->max ? cn_cat(CN_TENSORS(there, there), .dim = 2) : NULL;
  if (!r->max) s->share = cn_div(s->share, least);
  return cn_err();
}

/* What lies along y with what lies along x: (n, cells, taps of both) */
static cn_tensor *crossed(const aligner *r, const char *op, cn_tensor *y, cn_tensor *x)
{
  int64_t rows = cn_size(y, 2), columns = cn_size(x, 2);
  y = cn_reshape(y, CN_SHAPE(r->n, r->out[0], 1, rows, 1));
  x = cn_reshape(x, CN_SHAPE(r->n, 1, r->out[1], 1, columns));
  cn_value args[2] = {cn_v_tensor(y), cn_v_tensor(x)};
  cn_tensor *t = y && x ? cni_onnx_op1(op, args, 2) : NULL;
  return t ? cn_reshape(t, CN_SHAPE(r->n * r->out[0] * r->out[1], rows * columns)) : NULL;
}

/* Mean, or largest, of the samples of each cell: x (1, C, N * H * W), first (n): where each box's picture begins;
 * result (C, n * cells). */
static cn_tensor *pooled(const aligner *r, cn_tensor *x, const samples *s, cn_tensor *first)
{
  int64_t cells = r->n * r->out[0] * r->out[1], taps = s[0].taps * s[1].taps, channels = cn_size(x, 1);
  cn_tensor *rows = cn_add(cn_mul(s[0].at, cn_int(r->width)), cn_reshape(first, CN_SHAPE(r->n, 1, 1)));
  cn_tensor *index = crossed(r, "add", rows, s[1].at);
  cn_tensor *weight = cn_cast(crossed(r, "mul", s[0].share, s[1].share), cn_dtype_of(x));
  if (!index || !weight) return NULL;
  if (!r->max) {
    index = cn_reshape(cn_transpose(index, 0, 1), CN_SHAPE(1, taps, cells));
    weight = cn_reshape(cn_transpose(weight, 0, 1), CN_SHAPE(1, taps, cells));
    return cn_reshape(cn_weighted_gather(x, index, weight), CN_SHAPE(channels, cells));
  }
  /* of the elements themselves, weighted */
  cn_tensor *there = crossed(r, "logical_and", s[0].there, s[1].there);
  cn_tensor *t = cn_weighted_gather(x, cn_reshape(index, CN_SHAPE(1, 1, cells * taps)),
                                    cn_reshape(weight, CN_SHAPE(1, 1, cells * taps)));
  t = cn_where(there, cn_reshape(t, CN_SHAPE(channels, cells, taps)), cn_num(-INFINITY));
  return cn_where(cn_any(there, .dim = CN_INTS(1)), cn_amax(t, .dim = CN_INTS(2)), cn_num(0));
}

/* (N, C, H, W) as (1, C, N * H * W) */
static cn_tensor *lined(cn_tensor *x)
{
  const int64_t *s = cn_shape(x);
  return cn_reshape(cn_permute(x, CN_SHAPE(1, 0, 2, 3)), CN_SHAPE(1, s[1], s[0] * s[2] * s[3]));
}

/* (C, n * cells) as (n, C, rows, columns) */
static cn_tensor *by_box(cn_tensor *t, int64_t n, const int64_t *out)
{
  if (!t) return NULL;
  return cn_permute(cn_reshape(t, CN_SHAPE(cn_size(t, 0), n, out[0], out[1])), CN_SHAPE(1, 0, 2, 3));
}

static int check_boxes(cni_onnx_call *c, const cn_tensor *x, const cn_tensor *rois, int64_t columns,
                       const int64_t *out)
{
  if (!x || !rois || cn_err()) return cn_err();
  if (cn_ndim(x) != 4 || cn_ndim(rois) != 2 || cn_shape(rois)[1] != columns || !cn_shape(x)[2] || !cn_shape(x)[3])
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes pictures (N, C, H, W) and boxes (n, %lld)", (long long)columns);
  if (out[0] < 1 || out[1] < 1 || out[0] > INT32_MAX || out[1] > INT32_MAX)
    return cni_onnx_fail(c, CN_ERR_VALUE, "the result's sizes are wrong");
  return CN_OK;
}

static int roi_align(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *rois = cni_onnx_in(c, 1), *batch = cni_onnx_in(c, 2);
  const char *mode = cni_onnx_text(c, "mode", "avg");
  const char *where =
      cni_onnx_text(c, "coordinate_transformation_mode", c->opset < 16 ? "output_half_pixel" : "half_pixel");
  int64_t ratio = cni_onnx_int(c, "sampling_ratio", 0);
  aligner r = {.out = {cni_onnx_int(c, "output_height", 1), cni_onnx_int(c, "output_width", 1)},
               .max = !strcmp(mode, "max")};
  bool half = !strcmp(where, "half_pixel");
  samples s[2];
  if (check_boxes(c, x, rois, 4, r.out) || !batch) return cn_err();
  if ((!r.max && strcmp(mode, "avg") != 0) || (!half && strcmp(where, "output_half_pixel") != 0) || ratio > 1 << 16)
    return cni_onnx_fail(c, CN_ERR_VALUE, "mode '%s', coordinates '%s'", mode, where);
  r.n = cn_shape(rois)[0];
  r.height = cn_shape(x)[2];
  r.width = cn_shape(x)[3];
  if (cn_numel(batch) != r.n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "%lld boxes' pictures", (long long)cn_numel(batch));
  cn_dtype dtype = cn_dtype_of(x), wide = dtype == CN_F64 ? CN_F64 : CN_F32;
  rois = cn_mul(cn_cast(rois, CN_F64), cn_num(cni_onnx_float(c, "spatial_scale", 1)));
  if (half) rois = cn_sub(rois, cn_num(0.5));
  for (int d = 0; d < 2; d++) {
    cn_tensor *from = cn_select(rois, 1, 1 - d), *size = cn_sub(cn_select(rois, 1, 3 - d), from);
    if (!half) size = cn_clamp_min(size, cn_num(1));
    if (sample_along(&s[d], c, &r, r.out[d], from, size, d ? r.width : r.height, ratio)) return cn_err();
  }
  batch = cn_mul(cn_reshape(cn_cast(batch, CN_I64), CN_SHAPE(r.n)), cn_int(r.height * r.width));
  cn_tensor *t = by_box(pooled(&r, lined(cn_cast(x, wide)), s, batch), r.n, r.out);
  return cni_onnx_out(c, 0, t ? cn_cast(t, dtype) : NULL);
}

/* ---- MaxRoiPool ---- */

/* Half away from zero. */
static cn_tensor *rounded(cn_tensor *x) { return cn_mul(cn_sign(x), cn_floor(cn_add(cn_abs(x), cn_num(0.5)))); }

/* First and end of every cell in one dimension, within the picture: (n, out), int64. */
static void cells(cn_tensor **first, cn_tensor **end, cn_tensor *from, cn_tensor *to, int64_t out, int64_t whole)
{
  cn_tensor *i = cn_arange(0, (double)out, .dtype = CN_F64, .device = cn_device_of(from));
  from = cn_unsqueeze(from, 1);
  cn_tensor *size = cn_clamp_min(cn_add(cn_sub(cn_unsqueeze(to, 1), from), cn_num(1)), cn_num(1));
  cn_tensor *cell = cn_div(size, cn_int(out)), *low = cn_floor(cn_mul(i, cell));
  cn_tensor *high = cn_ceil(cn_mul(cn_add(i, cn_num(1)), cell));
  *first = cn_cast(cn_clamp(cn_add(low, from), cn_num(0), cn_num((double)whole)), CN_I64);
  *end = cn_cast(cn_clamp(cn_add(high, from), cn_num(0), cn_num((double)whole)), CN_I64);
}

/* The largest element of each cell of a box, 0 where it has none: step by step through the cells, all at once. */
static int max_roi_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *rois = cni_onnx_in(c, 1), *first[2], *end[2];
  cni_onnx_ints out = cni_onnx_ints_of(c, "pooled_shape");
  int64_t most[2];
  if (cn_err() || out.n != 2)
    return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_VALUE, "pooled_shape is not two numbers");
  if (check_boxes(c, x, rois, 5, out.v)) return cn_err();
  int64_t n = cn_shape(rois)[0], height = cn_shape(x)[2], width = cn_shape(x)[3];
  cn_dtype dtype = cn_dtype_of(x);
  rois = cn_cast(rois, CN_F64);
  cn_tensor *box = rounded(cn_mul(rois, cn_num(cni_onnx_float(c, "spatial_scale", 1))));
  for (int d = 0; d < 2; d++) {
    cells(&first[d], &end[d], cn_select(box, 1, 2 - d), cn_select(box, 1, 4 - d), out.v[d], d ? width : height);
    cn_tensor *size = n ? cn_max(cn_sub(end[d], first[d])) : NULL;
    most[d] = size ? (int64_t)cn_item(size) : 0;
    int64_t shape[4] = {n, d ? 1 : out.v[0], d ? out.v[1] : 1, 0};
    first[d] = cn_reshape(first[d], shape, 3);
    end[d] = cn_reshape(end[d], shape, 3);
  }
  if (cn_err()) return cn_err();
  cn_tensor *base = cn_mul(cn_cast(cn_select(rois, 1, 0), CN_I64), cn_int(height * width));
  cn_tensor *line = cn_squeeze(lined(x), .dim = CN_INTS(0)), *t = NULL, *any;
  base = cn_reshape(base, CN_SHAPE(n, 1, 1));
  any = cn_logical_and(cn_lt(first[0], end[0]), cn_lt(first[1], end[1]));
  for (int64_t i = 0; i < most[0] * most[1] && !cn_err(); i++) {
    cn_scope *scope = cn_scope_begin();
    cn_tensor *y = cn_minimum(cn_add(first[0], cn_int(i / most[1])), cn_sub(end[0], cn_int(1)));
    cn_tensor *across = cn_minimum(cn_add(first[1], cn_int(i % most[1])), cn_sub(end[1], cn_int(1)));
    cn_tensor *at = cn_where(any, cn_add(cn_add(cn_mul(y, cn_int(width)), across), base), cn_int(0));
    cn_tensor *read = cn_index_select(line, 1, cn_reshape(at, CN_SHAPE(n * out.v[0] * out.v[1])));
    cn_tensor *larger = t && read ? cn_maximum(t, read) : read;
    if (larger) larger = cn_keep(larger);
    cn_scope_end(scope);
    t = larger ? cn_scope_give(larger) : NULL;
  }
  if (!t) t = cn_zeros(CN_SHAPE(cn_shape(x)[1], n * out.v[0] * out.v[1]), .dtype = dtype, .device = cn_device_of(x));
  t = by_box(t, n, out.v);
  return cni_onnx_out(c, 0, cn_where(cn_reshape(any, CN_SHAPE(n, 1, out.v[0], out.v[1])), t, cn_num(0)));
}

/* ---- NonMaxSuppression: work of the host, since each choice depends on those before it ---- */

typedef struct candidate {
  double score;
  int64_t i;
} candidate;

/* The higher score first; of equal ones the first. */
static bool before(const candidate *a, const candidate *b)
{
  return a->score > b->score || (a->score == b->score && a->i < b->i);
}

/* Lets candidate k of a heap of n sink to its place; the best one is on top. */
static void sink(candidate *heap, int64_t k, int64_t n)
{
  candidate moved = heap[k];
  for (int64_t child; (child = 2 * k + 1) < n; k = child) {
    if (child + 1 < n && before(&heap[child + 1], &heap[child])) child++;
    if (!before(&heap[child], &moved)) break;
    heap[k] = heap[child];
  }
  heap[k] = moved;
}

/* y0, x0, y1, x1, in order. */
static void corners(double *to, const double *box, bool centre)
{
  if (centre) { /* x, y, width, height */
    to[0] = box[1] - box[3] / 2, to[1] = box[0] - box[2] / 2;
    to[2] = box[1] + box[3] / 2, to[3] = box[0] + box[2] / 2;
    return;
  }
  for (int d = 0; d < 2; d++) {
    to[d] = box[d] < box[d + 2] ? box[d] : box[d + 2];
    to[d + 2] = box[d] < box[d + 2] ? box[d + 2] : box[d];
  }
}

static double least(double a, double b) { return a < b ? a : b; }
static double most(double a, double b) { return a > b ? a : b; }

/* What they share is more than this part of both. */
static bool overlaps(const double *a, const double *b, double threshold)
{
  double high = least(a[2], b[2]) - most(a[0], b[0]), wide = least(a[3], b[3]) - most(a[1], b[1]);
  if (!(high > 0 && wide > 0)) return false;
  double first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]), shared = high * wide;
  return first > 0 && second > 0 && shared / (first + second - shared) > threshold;
}

typedef struct chooser {
  const double *boxes; /* (n, 4) of one picture, as corners */
  candidate *some;
  int64_t n, most, *chosen;
  double overlap, least;
  bool any; /* of any score */
} chooser;

/* The best boxes of one class, none of which overlaps another too much; how many. */
static int64_t choose(const chooser *s, const double *scores)
{
  int64_t n = 0, count = 0;
  for (int64_t i = 0; i < s->n; i++)
    if (scores[i] == scores[i] && (s->any || scores[i] > s->least)) s->some[n++] = (candidate){scores[i], i};
  for (int64_t k = n / 2; k-- > 0;) sink(s->some, k, n);
  while (n > 0 && count < s->most) {
    int64_t best = s->some[0].i;
    bool free = true;
    for (int64_t k = 0; k < count && free; k++)
      free = !overlaps(s->boxes + 4 * s->chosen[k], s->boxes + 4 * best, s->overlap);
    if (free) s->chosen[count++] = best;
    s->some[0] = s->some[--n];
    sink(s->some, 0, n);
  }
  return count;
}

/* (found, 3): picture, class and box, sized as they come. */
static int non_max_suppression(cni_onnx_call *c)
{
  cn_tensor *boxes = cni_onnx_in(c, 0), *scores = cni_onnx_in(c, 1);
  cni_onnx_floats all = cni_onnx_floats_in(c, 0), ranks = cni_onnx_floats_in(c, 1);
  chooser s = {.most = cni_onnx_int_in(c, 2, 0),
               .overlap = cni_onnx_float_in(c, 3, 0),
               .least = cni_onnx_float_in(c, 4, 0),
               .any = !cni_onnx_has(c, 4)};
  bool centre = cni_onnx_int(c, "center_point_box", 0) != 0;
  if (!boxes || !scores || cn_err()) return cn_err();
  const int64_t *shape = cn_shape(scores);
  if (cn_ndim(boxes) != 3 || cn_ndim(scores) != 3 || cn_shape(boxes)[2] != 4 || cn_shape(boxes)[0] != shape[0] ||
      cn_shape(boxes)[1] != shape[2])
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes boxes (N, n, 4) and scores (N, classes, n)");
  s.n = shape[2];
  s.most = s.most < 0 ? 0 : s.most < s.n ? s.most : s.n;
  double *ends = cni_onnx_room(c, (size_t)(4 * s.n) + 1, sizeof *ends);
  s.some = cni_onnx_room(c, (size_t)s.n + 1, sizeof *s.some);
  s.chosen = cni_onnx_room(c, (size_t)s.n + 1, sizeof *s.chosen);
  int64_t *out = cni_onnx_room(c, (size_t)(shape[0] * shape[1] * s.most * 3) + 1, sizeof *out), found = 0;
  if (!ends || !s.some || !s.chosen || !out) return cn_err();
  s.boxes = ends;
  for (int64_t b = 0; b < shape[0]; b++) {
    for (int64_t i = 0; i < s.n; i++) corners(ends + 4 * i, all.v + 4 * (b * s.n + i), centre);
    for (int64_t k = 0; k < shape[1]; k++) {
      int64_t count = choose(&s, ranks.v + (b * shape[1] + k) * s.n);
      for (int64_t i = 0; i < count; i++) memcpy(out + 3 * found++, (int64_t[]){b, k, s.chosen[i]}, 3 * sizeof *out);
    }
  }
  cn_tensor *t = cn_from_data(out, CN_SHAPE(found, 3), CN_I64);
  return cni_onnx_out(c, 0, t ? cn_to_device(t, cn_device_of(boxes)) : NULL);
}

const cni_onnx_op cni_onnx_boxes_ops[] = {
    ONNX_BUILD("RoiAlign", 10, roi_align),
    ONNX_BUILD("MaxRoiPool", 1, max_roi_pool),
    ONNX_BUILD("NonMaxSuppression", 10, non_max_suppression),
    {NULL, NULL, NULL, 0, 0},
};
