/* conv.c: convolutions and their transposes. See call.h. */
#include <string.h>

#include "formats/onnx/window.h"

static int conv(cni_onnx_call *c)
{
  static const char *const ops[] = {"conv1d", "conv2d", "conv3d"};
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1), *b = cni_onnx_maybe(c, 2);
  cni_onnx_window at;
  if (!x || !w) return cn_err();
  if (cn_ndim(w) != cn_ndim(x))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "weights have %d dimensions, not %d", cn_ndim(w), cn_ndim(x));
  if (cni_onnx_window_of(&at, c, x, cn_shape(w) + 2)) return cn_err();
  if (!at.even) x = cni_onnx_window_pad(&at, x, 0);
  /* Kernels are fastest on planes; the order of a view by Transpose, channels-last, would go on through the network. */
  if (!x || !(x = cn_contiguous(x))) return cn_err();
  size_t n = (size_t)at.n;
  cn_value args[] = {cn_v_tensor(x),
                     cn_v_tensor(w),
                     cn_v_tensor(b),
                     cn_v_ints(at.stride, n),
                     cn_v_ints(at.before, n),
                     cn_v_ints(at.dilation, n),
                     cn_v_int(cni_onnx_int(c, "group", 1))};
  return cni_onnx_out(c, 0, cni_onnx_op1(ops[n - 1], args, 7));
}

/* What is cut off the full result at both ends, from pads, output_shape or auto_pad; more: what is put behind it. */
static int cuts(int64_t *before, int64_t *after, cni_onnx_call *c, const cni_onnx_window *w, const cn_tensor *x,
                const int64_t *more)
{
  cni_onnx_ints shape = cni_onnx_ints_of(c, "output_shape");
  const char *mode = cni_onnx_text(c, "auto_pad", "NOTSET");
  bool same = cn_string_starts(mode, "SAME");
  if (shape.v && shape.n != (size_t)w->n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "output_shape has %zu numbers", shape.n);
  for (int i = 0; i < w->n; i++) {
    int64_t size = cn_shape(x)[2 + i],
            full = (size - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 + more[i];
    before[i] = w->before[i];
    after[i] = w->after[i];
    if (!shape.v && !same) continue;
    int64_t all = full - (shape.v ? shape.v[i] : size * w->stride[i]);
    before[i] = !strcmp(mode, "SAME_UPPER") ? all / 2 : all - all / 2;
    if (all < 0) before[i] = 0; /* what is missing is behind */
    after[i] = all - before[i];
  }
  return cn_err();
}

/* The full result, then what is left of it. */
static int conv_transpose(cni_onnx_call *c)
{
  static const char *const ops[] = {"conv_transpose1d", "conv_transpose2d", "conv_transpose3d"};
  cn_tensor *x = cni_onnx_in(c, 0), *w = cni_onnx_in(c, 1), *b = cni_onnx_maybe(c, 2);
  cni_onnx_ints given = cni_onnx_ints_of(c, "output_padding");
  int64_t none[CNI_ONNX_SPATIAL] = {0}, more[CNI_ONNX_SPATIAL] = {0}, before[CNI_ONNX_SPATIAL],
          after[CNI_ONNX_SPATIAL];
  int64_t pad[2 * CNI_ONNX_SPATIAL];
  cni_onnx_window at;
  if (!x || !w) return cn_err();
  if (cn_ndim(w) != cn_ndim(x))
    return cni_onnx_fail(c, CN_ERR_SHAPE, "weights have %d dimensions, not %d", cn_ndim(w), cn_ndim(x));
  if (cni_onnx_window_of(&at, c, x, cn_shape(w) + 2)) return cn_err();
  for (size_t i = 0; i < given.n && i < (size_t)at.n; i++) more[i] = given.v[i];
  if (cuts(before, after, c, &at, x, more)) return cn_err();
  size_t n = (size_t)at.n;
  cn_value args[] = {cn_v_tensor(x),
                     cn_v_tensor(w),
                     cn_v_none(),
                     cn_v_ints(at.stride, n),
                     cn_v_ints(none, n),
                     cn_v_ints(none, n),
                     cn_v_int(cni_onnx_int(c, "group", 1)),
                     cn_v_ints(at.dilation, n)};
  cn_tensor *full = cni_onnx_op1(ops[n - 1], args, 8);
  for (size_t i = 0; i < n; i++) {
    pad[2 * i] = -before[n - 1 - i];
    pad[2 * i + 1] = more[n - 1 - i] - after[n - 1 - i];
  }
  cn_tensor *t = full ? cn_constant_pad_nd(full, pad, 2 * n) : NULL;
  int64_t lined[CN_MAX_DIMS] = {1, b ? cn_numel(b) : 1, 1, 1, 1};
  return cni_onnx_out(c, 0, b && t ? cn_add(t, cn_reshape(b, lined, n + 2)) : t);
}

const cni_onnx_op cni_onnx_conv_ops[] = {
    ONNX_BUILD("Conv", 1, conv),
    ONNX_BUILD("ConvTranspose", 1, conv_transpose),
    {NULL, NULL, NULL, 0, 0},
};
