/* pool.c: the largest elements, means and norms of windows. See call.h. */
#include <math.h>
#include <string.h>

#include "formats/onnx/window.h"

/* Pads within half a window, the same on both sides, are the op's; others are put around the input. */
static bool fits(const cni_onnx_window *w)
{
  bool half = w->even;
  for (int i = 0; i < w->n; i++) half = half && 2 * w->before[i] <= w->kernel[i];
  return half;
}

/* So many more elements behind each dimension that the last window, which only begins within the input, is whole. */
static void reach_over(cni_onnx_window *w, const cn_tensor *x, int64_t *more)
{
  for (int i = 0; i < w->n; i++) {
    int64_t size = cn_shape(x)[2 + i] + w->before[i], all = size + w->after[i];
    int64_t span = (w->kernel[i] - 1) * w->dilation[i] + 1, stride = w->stride[i];
    int64_t last = (all - span + stride - 1) / stride * stride;
    if (last >= size) last -= stride;
    more[i] = last + span > all ? last + span - all : 0;
  }
}

/* ---- MaxPool ---- */

/* Places in a plane with what is around it, as places in the whole input; by columns: the first dimension is the
 * fastest one in a plane. */
static cn_tensor *unpadded(const cni_onnx_window *w, cn_tensor *at, const int64_t *shape, bool columns)
{
  int64_t image = 1, step = 1, padded[CNI_ONNX_SPATIAL], steps[CNI_ONNX_SPATIAL];
  cn_tensor *t = NULL;
  for (int i = 0; i < w->n; i++) {
    image *= shape[2 + i];
    padded[i] = shape[2 + i] + w->before[i] + w->after[i];
  }
  for (int i = 0; i < w->n; i++) {
    int d = columns ? i : w->n - 1 - i;
    steps[d] = step;
    step *= shape[2 + d];
  }
  for (int d = w->n; d-- > 0;) {
    cn_tensor *place = cn_sub(cn_remainder(at, cn_int(padded[d])), cn_int(w->before[d]));
    at = cn_floor_divide(at, cn_int(padded[d]));
    place = cn_mul(place, cn_int(steps[d]));
    t = t ? cn_add(t, place) : place;
  }
  int64_t each[CN_MAX_DIMS] = {shape[0], shape[1], 1, 1, 1};
  cn_tensor *first = cn_arange(0, (double)(shape[0] * shape[1]), .dtype = CN_I64, .device = cn_device_of(at));
  return cn_add(t, cn_reshape(cn_mul(first, cn_int(image)), each, (size_t)w->n + 2));
}

static int max_pool(cni_onnx_call *c)
{
  static const char *const ops[] = {"max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"};
  cn_tensor *x = cni_onnx_in(c, 0), *out[2];
  cn_dtype dtype = cn_dtype_of(x);
  cni_onnx_window w, around;
  size_t nout = 2;
  if (!x || cni_onnx_window_of(&w, c, x, NULL)) return cn_err();
  around = w;
  int64_t shape[CN_MAX_DIMS];
  memcpy(shape, cn_shape(x), (size_t)cn_ndim(x) * sizeof *shape);
  if (!cn_dtype_is_float(dtype)) x = cn_cast(x, CN_F32);
  bool ceil = cni_onnx_int(c, "ceil_mode", 0) != 0;
  if (!fits(&w)) {
    int64_t more[CNI_ONNX_SPATIAL] = {0};
    if (ceil) reach_over(&w, x, more);
    for (int i = 0; i < w.n; i++) w.after[i] += more[i];
    around = w;
    x = cni_onnx_window_pad(&w, x, -INFINITY);
    ceil = false;
  } else memset(around.before, 0, sizeof around.before), memset(around.after, 0, sizeof around.after);
  size_t n = (size_t)w.n;
  cn_value args[] = {cn_v_tensor(x),         cn_v_ints(w.kernel, n),   cn_v_ints(w.stride, n),
                     cn_v_ints(w.before, n), cn_v_ints(w.dilation, n), cn_v_bool(ceil)};
  if (!x || cni_onnx_op_call(out, &nout, cn_op_find(ops[n - 1]), args, 6)) return cn_err();
  if (cni_onnx_out(c, 0, cn_dtype_of(out[0]) == dtype ? out[0] : cn_cast(out[0], dtype))) return cn_err();
  if (!cni_onnx_wants(c, 1)) return CN_OK;
  return cni_onnx_out(c, 1, unpadded(&around, out[1], shape, cni_onnx_int(c, "storage_order", 0) != 0));
}

/* Elements back at the places where they were the largest, zeros elsewhere. */
static int max_unpool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *at = cni_onnx_in(c, 1);
  cni_onnx_ints to = cni_onnx_ints_in(c, 2);
  cni_onnx_window w;
  int64_t shape[CN_MAX_DIMS], more[2 * CN_MAX_DIMS] = {0}, all = 1;
  if (!x || !at || cn_err() || cni_onnx_window_of(&w, c, x, NULL)) return cn_err();
  size_t ndim = (size_t)cn_ndim(x);
  if (to.v && to.n != ndim) return cni_onnx_fail(c, CN_ERR_SHAPE, "output_shape has %zu numbers", to.n);
  for (size_t i = 0; i < ndim; i++) {
    shape[i] = cn_shape(x)[i];
    if (i > 1) shape[i] = (shape[i] - 1) * w.stride[i - 2] - w.before[i - 2] - w.after[i - 2] + w.kernel[i - 2];
    if (shape[i] < 0 || shape[i] > INT32_MAX || (shape[i] && all > INT64_MAX / shape[i] / 16))
      return cni_onnx_fail(c, CN_ERR_SHAPE, "its result would have %lld elements in a dimension",
                           (long long)shape[i]);
    all *= shape[i];
    if (to.v) more[2 * (ndim - 1 - i) + 1] = to.v[i] - shape[i];
  }
  cn_tensor *t = cn_zeros(CN_SHAPE(all), .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  t = cn_scatter(t, 0, cn_reshape(at, CN_SHAPE(cn_numel(at))), cn_reshape(x, CN_SHAPE(cn_numel(x))));
  t = cn_reshape(t, shape, ndim);
  return cni_onnx_out(c, 0, to.v ? cn_constant_pad_nd(t, more, 2 * ndim) : t);
}

/* ---- means and norms ---- */

static cn_tensor *mean_of(const cni_onnx_window *w, cn_tensor *x, bool ceil, bool count_pads)
{
  static const char *const ops[] = {"avg_pool1d", "avg_pool2d", "avg_pool3d"};
  size_t n = (size_t)w->n;
  cn_value args[] = {cn_v_tensor(x),          cn_v_ints(w->kernel, n), cn_v_ints(w->stride, n),
                     cn_v_ints(w->before, n), cn_v_bool(ceil),         cn_v_bool(count_pads)};
  return x ? cni_onnx_op1(ops[n - 1], args, 6) : NULL;
}

static bool dense(const cni_onnx_window *w)
{
  for (int i = 0; i < w->n; i++)
    if (w->dilation[i] != 1) return false;
  return true;
}

/* Sums of windows: a product with a kernel of ones for those with holes. No pads. */
static cn_tensor *sums_of(const cni_onnx_window *w, cn_tensor *x)
{
  static const char *const ops[] = {"conv1d", "conv2d", "conv3d"};
  int64_t shape[CN_MAX_DIMS] = {1, 1}, all = 1;
  size_t n = (size_t)w->n;
  for (size_t i = 0; i < n; i++) all *= shape[2 + i] = w->kernel[i];
  if (dense(w)) return cn_mul(mean_of(w, x, false, true), cn_int(all));
  cn_tensor *ones = cn_ones(shape, n + 2, .dtype = cn_dtype_of(x), .device = cn_device_of(x));
  int64_t planes = cn_shape(x)[0] * cn_shape(x)[1], out[CN_MAX_DIMS] = {cn_shape(x)[0], cn_shape(x)[1]};
  memcpy(shape + 2, cn_shape(x) + 2, n * sizeof *shape);
  shape[0] = planes;
  cn_value args[] = {cn_v_tensor(cn_reshape(x, shape, n + 2)),
                     cn_v_tensor(ones),
                     cn_v_none(),
                     cn_v_ints(w->stride, n),
                     cn_v_ints(w->before, n),
                     cn_v_ints(w->dilation, n)};
  cn_tensor *t = cn_err() ? NULL : cni_onnx_op1(ops[n - 1], args, 6);
  if (t) memcpy(out + 2, cn_shape(t) + 2, n * sizeof *out);
  return cn_reshape(t, out, n + 2);
}

/* x with its pads, and zeros behind them. */
static cn_tensor *padded_by(const cni_onnx_window *w, cn_tensor *x, double value, const int64_t *more)
{
  cni_onnx_window around = *w, behind = *w;
  bool none = true;
  for (int i = 0; i < w->n; i++) {
    behind.before[i] = 0;
    behind.after[i] = more[i];
    if (value == 0) around.after[i] += more[i];
    none = none && !more[i];
  }
  x = cni_onnx_window_pad(&around, x, value);
  return value == 0 || none ? x : cni_onnx_window_pad(&behind, x, 0);
}

/* Sums of windows of x and, where asked for, how many elements each of them has. */
static cn_tensor *padded_sums(cni_onnx_window w, cn_tensor *x, bool ceil, bool count_pads, cn_tensor **counts)
{
  int64_t more[CNI_ONNX_SPATIAL] = {0}, shape[CN_MAX_DIMS] = {1, 1};
  if (ceil) reach_over(&w, x, more);
  cn_tensor *all = padded_by(&w, x, 0, more), *ones;
  if (counts) {
    memcpy(shape + 2, cn_shape(x) + 2, (size_t)w.n * sizeof *shape);
    ones = cn_ones(shape, (size_t)w.n + 2, .dtype = cn_dtype_of(x), .device = cn_device_of(x));
    ones = padded_by(&w, ones, count_pads ? 1 : 0, more);
  }
  memset(w.before, 0, sizeof w.before);
  if (counts) *counts = ones ? sums_of(&w, ones) : NULL;
  return all && !cn_err() ? sums_of(&w, all) : NULL;
}

static int average_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0), *counts;
  bool ceil = cni_onnx_int(c, "ceil_mode", 0) != 0, count = cni_onnx_int(c, "count_include_pad", 0) != 0;
  cni_onnx_window w;
  if (!x || cni_onnx_window_of(&w, c, x, NULL)) return cn_err();
  if (fits(&w) && dense(&w)) return cni_onnx_out(c, 0, mean_of(&w, x, ceil, count));
  cn_tensor *t = padded_sums(w, x, ceil, count, &counts);
  return cni_onnx_out(c, 0, cn_div(t, counts));
}

/* p was a float in opset 1. */
static double power_of(const cni_onnx_call *c)
{
  return c->opset < 2 ? cni_onnx_float(c, "p", 2) : (double)cni_onnx_int(c, "p", 2);
}

/* The root of order p of the sum of powers. */
static int lp_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  double p = power_of(c);
  cni_onnx_window w;
  if (!x || cni_onnx_window_of(&w, c, x, NULL)) return cn_err();
  if (!(p > 0)) return cni_onnx_fail(c, CN_ERR_VALUE, "p is %g", p);
  cn_tensor *t = p == 2 ? cn_mul(x, x) : cn_pow(cn_abs(x), cn_num(p));
  t = padded_sums(w, t, cni_onnx_int(c, "ceil_mode", 0) != 0, false, NULL);
  return cni_onnx_out(c, 0, p == 2 ? cn_sqrt(t) : cn_pow(t, cn_num(1 / p)));
}

/* ---- of all that is behind (N, C) ---- */

static int global_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t dims[CN_MAX_DIMS];
  if (!x || cn_ndim(x) < 2) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, ...)");
  size_t n = (size_t)cn_ndim(x) - 2;
  for (size_t i = 0; i < n; i++) dims[i] = (int64_t)i + 2;
  if (!n) return cni_onnx_out(c, 0, x);
  bool max = !strcmp(c->node->op, "GlobalMaxPool");
  if (!strcmp(c->node->op, "GlobalLpPool"))
    return cni_onnx_out(c, 0, cn_linalg_vector_norm(x, .ord = power_of(c), .dim = {dims, n}, .keepdim = true));
  return cni_onnx_out(
      c, 0, max ? cn_amax(x, .dim = {dims, n}, .keepdim = true) : cn_mean(x, .dim = {dims, n}, .keepdim = true));
}

const cni_onnx_op cni_onnx_pool_ops[] = {
    ONNX_BUILD("MaxPool", 1, max_pool),
    ONNX_BUILD("AveragePool", 1, average_pool),
    ONNX_BUILD("LpPool", 1, lp_pool),
    ONNX_BUILD("MaxUnpool", 9, max_unpool),
    ONNX_BUILD("GlobalLpPool", 1, global_pool),
    ONNX_BUILD("GlobalMaxPool", 1, global_pool),
    ONNX_BUILD("GlobalAveragePool", 1, global_pool),
    {NULL, NULL, NULL, 0, 0},
};
