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

static int max_pool(cni_onnx_call *c)
{
  static const char *const ops[] = {"max_pool1d_with_indices", "max_pool2d_with_indices", "max_pool3d_with_indices"};
  cn_tensor *x = cni_onnx_in(c, 0), *out[2];
  cn_dtype dtype = cn_dtype_of(x);
  cni_onnx_window w;
  size_t nout = 2;
  if (!x || cni_onnx_window_of(&w, c, x, NULL)) return cn_err();
  if (cni_onnx_wants(c, 1) && (!fits(&w) || cni_onnx_int(c, "storage_order", 0)))
    return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "indices of windows with these pads, or by columns");
  int64_t image = 1, planes = cn_shape(x)[0] * cn_shape(x)[1];
  for (int i = 0; i < w.n; i++) image *= cn_shape(x)[2 + i];
  if (!cn_dtype_is_float(dtype)) x = cn_cast(x, CN_F32);
  if (!fits(&w)) x = cni_onnx_window_pad(&w, x, -INFINITY);
  size_t n = (size_t)w.n;
  cn_value args[] = {cn_v_tensor(x),           cn_v_ints(w.kernel, n),
                     cn_v_ints(w.stride, n),   cn_v_ints(w.before, n),
                     cn_v_ints(w.dilation, n), cn_v_bool(cni_onnx_int(c, "ceil_mode", 0) != 0)};
  if (!x || cni_onnx_op_call(out, &nout, cn_op_find(ops[n - 1]), args, 6)) return cn_err();
  if (cni_onnx_out(c, 0, cn_dtype_of(out[0]) == dtype ? out[0] : cn_cast(out[0], dtype))) return cn_err();
  if (!cni_onnx_wants(c, 1)) return CN_OK;
  /* places in the whole tensor, not in a plane */
  int64_t each[CN_MAX_DIMS] = {cn_shape(x)[0], cn_shape(x)[1], 1, 1, 1};
  cn_tensor *first = cn_reshape(cn_mul(cn_arange(0, (double)planes, .dtype = CN_I64), cn_int(image)), each, n + 2);
  return cni_onnx_out(c, 1, cn_add(out[1], first));
}

static cn_tensor *mean_of(cni_onnx_window *w, cn_tensor *x, bool ceil, bool count_pads)
{
  static const char *const ops[] = {"avg_pool1d", "avg_pool2d", "avg_pool3d"};
  size_t n = (size_t)w->n;
  cn_value args[] = {cn_v_tensor(x),          cn_v_ints(w->kernel, n), cn_v_ints(w->stride, n),
                     cn_v_ints(w->before, n), cn_v_bool(ceil),         cn_v_bool(count_pads)};
  return x ? cni_onnx_op1(ops[n - 1], args, 6) : NULL;
}

static int average_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  bool ceil = cni_onnx_int(c, "ceil_mode", 0) != 0, count = cni_onnx_int(c, "count_include_pad", 0) != 0;
  cni_onnx_window w, same;
  if (!x || cni_onnx_window_of(&w, c, x, NULL)) return cn_err();
  for (int i = 0; i < w.n; i++)
    if (w.dilation[i] != 1) return cni_onnx_fail(c, CN_ERR_UNSUPPORTED, "dilations other than 1");
  if (fits(&w)) return cni_onnx_out(c, 0, mean_of(&w, x, ceil, count));
  same = w;
  cn_tensor *ones = cn_ones_like(x);
  cn_tensor *t = mean_of(&w, cni_onnx_window_pad(&w, x, 0), ceil, true);
  if (count) return cni_onnx_out(c, 0, t);
  cn_tensor *share = mean_of(&same, cni_onnx_window_pad(&same, ones, 0), ceil, true);
  return cni_onnx_out(c, 0, cn_div(t, share));
}

/* Of all that is behind (N, C). */
static int global_pool(cni_onnx_call *c)
{
  cn_tensor *x = cni_onnx_in(c, 0);
  int64_t dims[CN_MAX_DIMS];
  if (!x || cn_ndim(x) < 2) return cn_err() ? cn_err() : cni_onnx_fail(c, CN_ERR_SHAPE, "it takes (N, C, ...)");
  size_t n = (size_t)cn_ndim(x) - 2;
  for (size_t i = 0; i < n; i++) dims[i] = (int64_t)i + 2;
  if (!n) return cni_onnx_out(c, 0, x);
  bool max = !strcmp(c->node->op, "GlobalMaxPool");
  return cni_onnx_out(
      c, 0, max ? cn_amax(x, .dim = {dims, n}, .keepdim = true) : cn_mean(x, .dim = {dims, n}, .keepdim = true));
}

const cni_onnx_op cni_onnx_pool_ops[] = {
    ONNX_BUILD("MaxPool", 1, max_pool),
    ONNX_BUILD("AveragePool", 1, average_pool),
    ONNX_BUILD("GlobalMaxPool", 1, global_pool),
    ONNX_BUILD("GlobalAveragePool", 1, global_pool),
    {NULL, NULL, NULL, 0, 0},
};
