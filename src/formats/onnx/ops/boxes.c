/* boxes.c: boxes in pictures: what lies in them, and which of them to keep. See call.h.
 *
 * Pictures are read as one line of elements for each channel, all pictures one after the other, so that boxes in
 * different ones are work of one op: (N, C, H, W) as (1, C, N * H * W). */
#include <cairn/ext/parts.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "formats/onnx/call.h"

/* ---- RoiAlign ---- */

typedef struct aligner {
  int64_t n, height, width, out[2]; /* n: boxes; out: rows and columns of each result */
  int64_t most[2];                  /* samples in a cell, at most, in each dimension */
  bool max;
} aligner;

/* One dimension of the samples of every box: two elements each, how much of each, and whether there is a sample:
 * (n, out, most). */
typedef struct samples {
  cn_tensor *at[2], *share[2], *there, *count;
} samples;

/* from: (n) where boxes begin; size: (n) theirs; whole: elements of the picture; ratio: samples in a cell, 0: as many
 * as elements. */
static int sample_along(samples *s, cni_onnx_call *c, aligner *r, int d, cn_tensor *from, cn_tensor *size,
                        int64_t whole, int64_t ratio)
{
  cn_device device = cn_device_of(from);
  cn_tensor *cell = cn_div(size, cn_int(r->out[d]));
  s->count = ratio > 0 ? cn_full_like(cell, (double)ratio) : cn_clamp_min(cn_ceil(cell), cn_num(0));
  r->most[d] = ratio;
  if (ratio <= 0) {
    cn_tensor *most = r->n ? cn_max(s->count) : NULL;
    double value = most ? cn_item(most) : 0;
    if (cn_err()) return cn_err();
    if (!(value < 1 << 16)) return cni_onnx_fail(c, CN_ERR_VALUE, "a box of %g samples in a cell", value);
    r->most[d] = value > 1 ? (int64_t)value : 1;
  }
  cn_tensor *bin =
      cn_reshape(cn_arange(0, (double)r->out[d], .dtype = CN_F64, .device = device), CN_SHAPE(r->out[d], 1));
  cn_tensor *i = cn_arange(0, (double)r->most[d], .dtype = CN_F64, .device = device);
  from = cn_reshape(from, CN_SHAPE(r->n, 1, 1));
  cell = cn_reshape(cell, CN_SHAPE(r->n, 1, 1));
  s->count = cn_reshape(s->count, CN_SHAPE(r->n, 1, 1));
  cn_tensor *step = cn_div(cn_add(i, cn_num(0.5)), cn_clamp_min(s->count, cn_num(1)));
  cn_tensor *p = cn_add(from, cn_mul(cn_add(bin, step), cell));
  cn_tensor *inside = cn_logical_and(cn_ge(p, cn_num(-1)), cn_le(p, cn_num((double)whole)));
  s->there = cn_logical_and(cn_lt(i, s->count), cn_eq(p, p));
  p = cn_clamp(p, cn_num(0), cn_num((double)(whole - 1)));
  cn_tensor *low = cn_floor(p), *up = cn_sub(p, low);
  s->at[0] = cn_cast(low, CN_I64);
  s->at[1] = cn_clamp(cn_add(s->at[0], cn_int(1)), cn_int(0), cn_int(whole - 1));
  s->share[0] = cn_where(inside, cn_rsub(up, cn_num(1)), cn_num(0));
  s->share[1] = cn_where(inside, up, cn_num(0));
  return cn_err();
}

/* (n, rows, 1, y, 1) with (1, columns, 1, x): a value for every sample of a box: (n, cells, samples) */
static cn_tensor *crossed(const aligner *r, const char *op, cn_tensor *y, cn_tensor *x)
{
  y = cn_reshape(y, CN_SHAPE(r->n, r->out[0], 1, r->most[0], 1));
  x = cn_reshape(x, CN_SHAPE(r->n, 1, r->out[1], 1, r->most[1]));
  cn_value args[2] = {cn_v_tensor(y), cn_v_tensor(x)};
  cn_tensor *t = y && x ? cni_onnx_op1(op, args, 2) : NULL;
  return t ? cn_reshape(t, CN_SHAPE(r->n, r->out[0] * r->out[1], r->most[0] * r->most[1])) : NULL;
}

/* Of the four elements round every sample: index and weight, (4, n, cells, samples). */
static void around(cn_tensor **index, cn_tensor **weight, const aligner *r, const samples *s, cn_tensor *first)
{
  cn_tensor *at[4], *w[4];
  for (int k = 0; k < 4; k++) {
    at[k] = cn_add(crossed(r, "add", cn_mul(s[0].at[k >> 1], cn_int(r->width)), s[1].at[k & 1]), first);
    w[k] = crossed(r, "mul", s[0].share[k >> 1], s[1].share[k & 1]);
  }
  *index = cn_stack(at, 4);
  *weight = cn_stack(w, 4);
}

/* Mean, or largest, of the samples of each cell: x (1, C, N * H * W), result (C, n * cells). */
static cn_tensor *pooled(const aligner *r, cn_tensor *x, const samples *s, cn_tensor *index, cn_tensor *weight)
{
  int64_t cells = r->n * r->out[0] * r->out[1], each = r->most[0] * r->most[1], channels = cn_size(x, 1);
  cn_dtype dtype = cn_dtype_of(x);
  cn_tensor *there = cn_reshape(crossed(r, "logical_and", s[0].there, s[1].there), CN_SHAPE(1, cells, each));
  index = cn_reshape(index, CN_SHAPE(4, cells, each));
  weight = cn_reshape(weight, CN_SHAPE(4, cells, each));
  if (r->max) { /* of the elements themselves, weighted */
    cn_tensor *t = cn_weighted_gather(x, cn_reshape(index, CN_SHAPE(1, 1, 4 * cells * each)),
                                      cn_cast(cn_reshape(weight, CN_SHAPE(1, 1, 4 * cells * each)), dtype));
    t = cn_where(there, cn_reshape(t, CN_SHAPE(channels, 4, cells, each)), cn_num(-INFINITY));
    t = cn_amax(t, .dim = CN_INTS(1, 3));
    return cn_where(cn_any(cn_reshape(there, CN_SHAPE(cells, each)), .dim = CN_INTS(1)), t, cn_num(0));
  }
  cn_tensor *all = cn_sum(cn_cast(there, CN_F64), .dim = CN_INTS(2), .keepdim = true);
  weight = cn_where(there, cn_div(weight, cn_clamp_min(all, cn_num(1))), cn_num(0));
  index = cn_reshape(cn_permute(index, CN_SHAPE(0, 2, 1)), CN_SHAPE(1, 4 * each, cells));
  weight = cn_reshape(cn_permute(weight, CN_SHAPE(0, 2, 1)), CN_SHAPE(1, 4 * each, cells));
  return cn_reshape(cn_weighted_gather(x, index, cn_cast(weight, dtype)), CN_SHAPE(channels, cells));
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
  cn_tensor *x = cni_onnx_in(c, 0), *rois = cni_onnx_in(c, 1), *batch = cni_onnx_in(c, 2), *index, *weight;
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
    if (sample_along(&s[d], c, &r, d, from, size, d ? r.width : r.height, ratio)) return cn_err();
  }
  batch = cn_mul(cn_reshape(cn_cast(batch, CN_I64), CN_SHAPE(r.n, 1, 1)), cn_int(r.height * r.width));
  around(&index, &weight, &r, s, batch);
  cn_tensor *t = by_box(pooled(&r, lined(cn_cast(x, wide)), s, index, weight), r.n, r.out);
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
static int better(const void *a, const void *b)
{
  const candidate *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->i < y->i ? -1 : x->i > y->i;
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

/* What they share is more than this part of both. */
static bool overlaps(const double *a, const double *b, double threshold)
{
  double high = fmin(a[2], b[2]) - fmax(a[0], b[0]), wide = fmin(a[3], b[3]) - fmax(a[1], b[1]);
  double first = (a[2] - a[0]) * (a[3] - a[1]), second = (b[2] - b[0]) * (b[3] - b[1]);
  if (!(high > 0 && wide > 0 && first > 0 && second > 0)) return false;
  return high * wide / (first + second - high * wide) > threshold;
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
  qsort(s->some, (size_t)n, sizeof *s->some, better);
  for (int64_t i = 0; i < n && count < s->most; i++) {
    bool free = true;
    for (int64_t k = 0; k < count && free; k++)
      free = !overlaps(s->boxes + 4 * s->chosen[k], s->boxes + 4 * s->some[i].i, s->overlap);
    if (free) s->chosen[count++] = s->some[i].i;
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
