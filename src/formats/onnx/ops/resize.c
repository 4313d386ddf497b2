/* resize.c: pictures and signals in other sizes: Resize and Upsample. See call.h.
 *
 * One dimension after the other: places in the old one for each element of the new one, then the nearest element, or a
 * sum of a few with weights. What cairn's own op does to the bit of the definition goes there. */
#include <cairn/ext/parts.h>
#include <math.h>
#include <string.h>

#include "formats/onnx/call.h"

enum { NONE = -1, SIMPLE = 4 };
static const char *const coordinates[] = {"half_pixel",          "pytorch_half_pixel", "align_corners",
                                          "asymmetric",          "tf_crop_and_resize", "half_pixel_symmetric",
                                          "tf_half_pixel_for_nn"};
enum { HALF, PYTORCH, CORNERS, ASYMMETRIC, CROP, SYMMETRIC, TF_HALF, COORDINATES };
static const char *const roundings[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
enum { ROUND_DOWN, ROUND_UP, FLOOR, CEIL };
static const char *const modes[] = {"nearest", "linear", "cubic", "bilinear"};
enum { NEAREST, LINEAR, CUBIC, BILINEAR };

typedef struct resize {
  int mode, where, rounding;
  bool antialias, exclude;
  double a, outside; /* a: of the cubic; outside: what is beyond a crop */
} resize;

/* One dimension: a step in the new one is num / den in the old one; start and end of a crop. */
typedef struct axis {
  int64_t d, in, out;
  double num, den, start, end;
} axis;

static double scale_of(const axis *a) { return a->den / a->num; }

/* ---- places ---- */

static cn_tensor *steps(cn_tensor *i, const axis *a) { return cn_div(cn_mul(i, cn_num(a->num)), cn_num(a->den)); }

/* (x + 1/2) / scale - 1/2 + more */
static cn_tensor *centred(cn_tensor *i, const axis *a, double more)
{
  cn_tensor *t = steps(cn_add(i, cn_num(0.5)), a);
  return cn_sub(more != 0 ? cn_add(t, cn_num(more)) : t, cn_num(0.5));
}

/* Where in the old dimension each element of the new one lies: (out), float64. A crop's numbers are float32, and so is
 * where it begins: 0.2 of 5 is 1, and not a bit more. */
static cn_tensor *positions(const resize *r, const axis *a, cn_device device)
{
  cn_tensor *i = cn_arange(0, (double)a->out, .dtype = CN_F64, .device = device);
  double last = (double)(a->in - 1), width = scale_of(a) * (double)a->in;
  switch (r->where) {
  case PYTORCH: return a->out == 1 ? cn_zeros_like(i) : centred(i, a, 0);
  case CORNERS: return width == 1 ? cn_zeros_like(i) : cn_mul(i, cn_num(last / (width - 1)));
  case ASYMMETRIC: return steps(i, a);
  case TF_HALF: return steps(cn_add(i, cn_num(0.5)), a);
  case SYMMETRIC: return centred(i, a, (double)a->in / 2 * (1 - (double)a->out / width));
  case CROP:
    if (width == 1) return cn_full_like(i, (a->end - a->start) * last / 2 + (float)(a->start * last));
    return cn_add(cn_mul(i, cn_num((a->end - a->start) * last / (width - 1))), cn_num((float)(a->start * last)));
  default: return centred(i, a, 0);
  }
}

/* ---- one dimension ---- */

static cn_tensor *within(cn_tensor *at, const axis *a)
{
  return cn_clamp(cn_cast(at, CN_I64), cn_int(0), cn_int(a->in - 1));
}

/* Every row so many times: no places are needed. */
static cn_tensor *repeated(cn_tensor *x, const axis *a)
{
  int64_t shape[CN_MAX_DIMS], ndim = cn_ndim(x);
  memcpy(shape, cn_shape(x), (size_t)ndim * sizeof *shape);
  cn_tensor *t = cn_unsqueeze(x, a->d + 1);
  shape[a->d] = a->out;
  int64_t times[CN_MAX_DIMS + 1];
  for (int64_t i = 0; i <= ndim; i++) times[i] = i == a->d + 1 ? a->out / a->in : -1;
  return cn_reshape(cn_expand(t, times, (size_t)ndim + 1), shape, (size_t)ndim);
}

static cn_tensor *nearest(const resize *r, const axis *a, cn_tensor *x, cn_tensor *at)
{
  int rounding = r->rounding == SIMPLE ? (scale_of(a) < 1 ? CEIL : FLOOR) : r->rounding;
  bool even = a->in && a->out % a->in == 0 && scale_of(a) == (double)(a->out / a->in) && a->d < cn_ndim(x) - 1 &&
              cn_ndim(x) < CN_MAX_DIMS;
  bool halves = (r->where == HALF || r->where == SYMMETRIC) && rounding <= ROUND_UP;
  if (even && (halves || (r->where == ASYMMETRIC && rounding == FLOOR))) return repeated(x, a);
  if (rounding == ROUND_DOWN) at = cn_ceil(cn_sub(at, cn_num(0.5)));
  else if (rounding == ROUND_UP) at = cn_floor(cn_add(at, cn_num(0.5)));
  else at = rounding == FLOOR ? cn_floor(at) : cn_ceil(at);
  return cn_index_select(x, a->d, within(at, a));
}

/* c3 x^3 + c2 x^2 + c1 x + c0 */
static cn_tensor *cubic(cn_tensor *x, double c3, double c2, double c1, double c0)
{
  cn_tensor *t = cn_add(cn_mul(x, cn_num(c3)), cn_num(c2));
  t = cn_add(cn_mul(t, x), cn_num(c1));
  return cn_add(cn_mul(t, x), cn_num(c0));
}

/* Weights of elements that are so far away. */
static cn_tensor *weights(const resize *r, cn_tensor *far)
{
  cn_tensor *x = cn_abs(far);
  double a = r->a;
  if (r->mode == LINEAR) return cn_clamp_min(cn_rsub(x, cn_num(1)), cn_num(0));
  cn_tensor *outer = cn_where(cn_lt(x, cn_num(2)), cubic(x, a, -5 * a, 8 * a, -4 * a), cn_num(0));
  return cn_where(cn_le(x, cn_num(1)), cubic(x, a + 2, -(a + 3), 0, 1), outer);
}

/* Sums along a dimension, of floats: index and weight (taps, out). */
static cn_tensor *summed(cn_tensor *x, const axis *a, cn_tensor *index, cn_tensor *weight)
{
  int64_t last = cn_ndim(x) - 1, shape[CN_MAX_DIMS], taps = cn_size(index, 0);
  x = cn_movedim(x, &a->d, 1, &last, 1);
  if (!x) return NULL;
  memcpy(shape, cn_shape(x), (size_t)(last + 1) * sizeof *shape);
  cn_tensor *t = cn_reshape(x, CN_SHAPE(1, a->in ? cn_numel(x) / a->in : 0, a->in));
  t = cn_weighted_gather(t, cn_reshape(index, CN_SHAPE(1, taps, a->out)),
                         cn_cast(cn_reshape(weight, CN_SHAPE(1, taps, a->out)), cn_dtype_of(x)));
  shape[last] = a->out;
  t = cn_reshape(t, shape, (size_t)last + 1);
  return t ? cn_movedim(t, &last, 1, &a->d, 1) : NULL;
}

static cn_tensor *filtered(const resize *r, const axis *a, cn_tensor *x, cn_tensor *at)
{
  double s = r->antialias && scale_of(a) < 1 ? scale_of(a) : 1, reach = r->mode == LINEAR ? 1 : 2;
  int64_t first = (int64_t)floor(-reach / s) + 1, taps = 2 - 2 * first;
  cn_tensor *low = cn_floor(at);
  cn_tensor *tap = cn_arange((double)first, (double)(first + taps), .dtype = CN_F64, .device = cn_device_of(x));
  tap = cn_reshape(tap, CN_SHAPE(taps, 1));
  cn_tensor *index = cn_add(tap, low), *w = weights(r, cn_mul(cn_sub(tap, cn_sub(at, low)), cn_num(s)));
  if (r->exclude) {
    cn_tensor *inside = cn_logical_and(cn_ge(index, cn_num(0)), cn_lt(index, cn_num((double)a->in)));
    w = cn_where(inside, w, cn_num(0));
  }
  if (r->exclude || s < 1) {
    cn_tensor *all = cn_sum(w, .dim = CN_INTS(0), .keepdim = true);
    w = cn_div(w, cn_where(cn_eq(all, cn_num(0)), cn_num(1), all));
  }
  return summed(x, a, within(index, a), w);
}

/* What the definition asks for is what cairn's op does, with kernels of its own. */
static bool is_usual(const resize *r, const axis *a)
{
  bool corners = r->where == CORNERS && scale_of(a) * (double)a->in == (double)a->out;
  bool halves = r->where == HALF || (r->where == PYTORCH && a->out > 1);
  if (!(corners || halves) || r->antialias) return false;
  return r->mode == LINEAR || (r->mode == CUBIC && r->a == -0.75 && !r->exclude);
}

static cn_tensor *along(const resize *r, const axis *a, cn_tensor *x)
{
  bool whole = scale_of(a) * (double)a->in == (double)a->out;
  if (r->mode != NEAREST && is_usual(r, a))
    return cn_resample(x, a->d, a->out, r->mode == LINEAR ? "linear" : "cubic", r->where == CORNERS,
                       whole ? 0 : scale_of(a), false);
  cn_tensor *at = positions(r, a, cn_device_of(x));
  cn_tensor *t = r->mode == NEAREST ? nearest(r, a, x, at) : filtered(r, a, x, at);
  if (r->where != CROP || !t) return t;
  int64_t shape[CN_MAX_DIMS];
  for (int i = 0; i < cn_ndim(t); i++) shape[i] = i == a->d ? a->out : 1;
  cn_tensor *out = cn_logical_or(cn_lt(at, cn_num(0)), cn_gt(at, cn_num((double)(a->in - 1))));
  return cn_masked_fill(t, cn_reshape(out, shape, (size_t)cn_ndim(t)), cn_num(r->outside));
}

/* ---- all of them ---- */

/* Whole numbers are computed as floats, rounded, and held within their type. */
static cn_tensor *back(cn_tensor *t, cn_dtype dtype)
{
  if (!t || cn_dtype_of(t) == dtype) return t;
  if (cn_dtype_is_float(dtype) || dtype == CN_BOOL) return cn_cast(t, dtype);
  int bits = (int)(8 * cn_dtype_size(dtype)) - (cn_dtype_is_signed(dtype) ? 1 : 0);
  t = cn_round(t);
  if (bits < 32) /* beyond, a cubic cannot overshoot what float64 has */
    t = cn_clamp(t, cn_num(cn_dtype_is_signed(dtype) ? -ldexp(1, bits) : 0), cn_num(ldexp(1, bits) - 1));
  return cn_cast(t, dtype);
}

static int apply(cni_onnx_call *c, const resize *r, const axis *axes, size_t n)
{
  cn_tensor *x = r->mode == NEAREST ? cni_onnx_in_moved(c, 0) : cni_onnx_in(c, 0), *t = x;
  cn_dtype dtype = cn_dtype_of(x);
  if (!x) return cn_err();
  bool as_is = dtype == CN_F32 || dtype == CN_F64 || r->mode == NEAREST;
  if (!as_is) t = cn_cast(x, cn_dtype_is_float(dtype) ? CN_F32 : CN_F64);
  for (size_t i = n; i-- > 0 && t;) { /* rows last, which are copied as they are */
    const axis *a = &axes[i];
    if (a->in == a->out && scale_of(a) == 1 && (r->where != CROP || (a->start == 0 && a->end == 1))) continue;
    if (a->out < 0 || a->out > INT32_MAX || !(a->den > 0) || (!a->in && a->out))
      return cni_onnx_fail(c, CN_ERR_SHAPE, "%lld elements cannot become %lld", (long long)a->in, (long long)a->out);
    t = along(r, a, t);
  }
  return cni_onnx_out_moved(c, 0, as_is ? t : back(t, dtype), 0);
}

static int word(const cni_onnx_call *c, const char *name, const char *otherwise, const char *const *words, int n)
{
  const char *said = cni_onnx_text(c, name, otherwise);
  for (int i = 0; i < n; i++)
    if (!strcmp(words[i], said)) return i;
  cni_onnx_fail(c, CN_ERR_VALUE, "%s is '%s'", name, said);
  return NONE;
}

/* Which dimensions, with their old sizes; their number, or negative with the error set. */
static int64_t dims_of(axis *axes, cni_onnx_call *c, const cn_tensor *x)
{
  cni_onnx_ints given = cni_onnx_ints_of(c, "axes");
  int64_t n = given.v ? (int64_t)given.n : x ? cn_ndim(x) : 0;
  if (!x || cn_err()) return cn_err();
  if (n > CN_MAX_DIMS) return cni_onnx_fail(c, CN_ERR_VALUE, "too many axes");
  for (int64_t i = 0; i < n; i++) {
    axes[i] = (axis){.d = cni_onnx_axis(c, given.v ? given.v[i] : i, cn_ndim(x)), .num = 1, .den = 1, .end = 1};
    if (axes[i].d < 0) return cn_err();
    axes[i].in = axes[i].out = cn_shape(x)[axes[i].d];
  }
  return n;
}

static int by_scales(axis *axes, int64_t n, cni_onnx_call *c, cni_onnx_floats scales)
{
  if ((int64_t)scales.n != n)
    return cni_onnx_fail(c, CN_ERR_VALUE, "%zu scales for %lld axes", scales.n, (long long)n);
  for (int64_t i = 0; i < n; i++) {
    double out = floorf((float)axes[i].in * (float)scales.v[i]);
    axes[i].den = scales.v[i];
    axes[i].out = out >= 0 && out < INT32_MAX ? (int64_t)out : NONE;
  }
  return cn_err();
}

/* The sizes, or one scale for all: the smallest, or the largest, that they ask for. */
static int by_sizes(axis *axes, int64_t n, cni_onnx_call *c, cni_onnx_ints sizes)
{
  static const char *const policies[] = {"stretch", "not_larger", "not_smaller"};
  int policy = word(c, "keep_aspect_ratio_policy", "stretch", policies, 3);
  axis best = {.num = 0};
  if (policy < 0) return cn_err();
  if ((int64_t)sizes.n != n) return cni_onnx_fail(c, CN_ERR_VALUE, "%zu sizes for %lld axes", sizes.n, (long long)n);
  for (int64_t i = 0; i < n; i++) {
    axis *a = &axes[i];
    a->out = sizes.v[i];
    if (a->in && a->out > 0) a->num = (double)a->in, a->den = (double)a->out;
    bool better = policy == 1 ? scale_of(a) < scale_of(&best) : scale_of(a) > scale_of(&best);
    if (best.num == 0 || better) best = *a;
  }
  for (int64_t i = 0; policy && i < n; i++) {
    axes[i].num = best.num;
    axes[i].den = best.den;
    axes[i].out = (int64_t)floor(scale_of(&best) * (double)axes[i].in + 0.5);
  }
  return cn_err();
}

static int resize_to(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  axis axes[CN_MAX_DIMS];
  int64_t n = dims_of(axes, c, v ? v->kind == CN_ONNX_STRINGS ? v->lengths : v->t : NULL);
  resize r = {.mode = word(c, "mode", "nearest", modes, CUBIC + 1),
              .where = word(c, "coordinate_transformation_mode", "half_pixel", coordinates, COORDINATES),
              .rounding = word(c, "nearest_mode", "round_prefer_floor", roundings, SIMPLE),
              .antialias = cni_onnx_int(c, "antialias", 0) != 0,
              .exclude = cni_onnx_int(c, "exclude_outside", 0) != 0,
              .a = cni_onnx_float(c, "cubic_coeff_a", -0.75),
              .outside = cni_onnx_float(c, "extrapolation_value", 0)};
  cni_onnx_floats scales = cni_onnx_floats_in(c, 2);
  cni_onnx_ints sizes = cni_onnx_ints_in(c, 3);
  if (n < 0 || cn_err()) return cn_err();
  if (!scales.n == !sizes.n) return cni_onnx_fail(c, CN_ERR_VALUE, "it takes scales or sizes");
  if (r.antialias && r.mode == NEAREST) return cni_onnx_fail(c, CN_ERR_VALUE, "antialias of the nearest elements");
  if (scales.n ? by_scales(axes, n, c, scales) : by_sizes(axes, n, c, sizes)) return cn_err();
  if (r.where == CROP) {
    cni_onnx_floats roi = cni_onnx_floats_in(c, 1);
    if (cn_err()) return cn_err();
    if ((int64_t)roi.n != 2 * n) return cni_onnx_fail(c, CN_ERR_VALUE, "its roi has %zu numbers", roi.n);
    for (int64_t i = 0; i < n; i++) axes[i].start = roi.v[i], axes[i].end = roi.v[n + i];
  }
  return apply(c, &r, axes, (size_t)n);
}

/* Before opset 11 scales alone, from the first element on; the element in front, or behind where it gets smaller. */
static int resize_by(cni_onnx_call *c)
{
  const cn_onnx_value *v = cni_onnx_value_in(c, 0);
  axis axes[CN_MAX_DIMS];
  int64_t n = dims_of(axes, c, v ? v->kind == CN_ONNX_STRINGS ? v->lengths : v->t : NULL);
  resize r = {.mode = word(c, "mode", "nearest", modes, BILINEAR + 1), .where = ASYMMETRIC, .rounding = SIMPLE};
  if (n < 0 || cn_err()) return cn_err();
  if (r.mode == BILINEAR) r.mode = LINEAR;
  cni_onnx_floats scales = cni_onnx_floats_of(c, "scales");
  double sides[4] = {1, 1, cni_onnx_float(c, "height_scale", 1), cni_onnx_float(c, "width_scale", 1)};
  if (c->opset >= 9) scales = cni_onnx_floats_in(c, 1);
  else if (c->opset < 7) scales = (cni_onnx_floats){sides, 4};
  if (cn_err() || by_scales(axes, n, c, scales)) return cn_err();
  return apply(c, &r, axes, (size_t)n);
}

const cni_onnx_op cni_onnx_resize_ops[] = {
    ONNX_BUILD("Upsample", 1, resize_by),
    ONNX_BUILD("Resize", 10, resize_by),
    ONNX_BUILD("Resize", 11, resize_to),
    {NULL, NULL, NULL, 0, 0},
};
