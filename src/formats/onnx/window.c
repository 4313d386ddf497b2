/* window.c: see window.h. */
#include "window.h"

#include <string.h>

static int read(int64_t *to, const cni_onnx_window *w, const cni_onnx_call *c, const char *name, int64_t otherwise)
{
  cni_onnx_ints v = cni_onnx_ints_of(c, name);
  if (v.v && v.n != (size_t)w->n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "%s has %zu numbers for %d dimensions", name, v.n, w->n);
  for (int i = 0; i < w->n; i++)
    if ((to[i] = v.v ? v.v[i] : otherwise) < 1 || to[i] > INT32_MAX)
      return cni_onnx_fail(c, CN_ERR_VALUE, "%s must be 1 or more", name);
  return cn_err();
}

/* So many around that there is a result for each step over the input. */
static void same(cni_onnx_window *w, const cn_tensor *x, bool upper)
{
  for (int i = 0; i < w->n; i++) {
    int64_t size = cn_shape(x)[2 + i], steps = (size + w->stride[i] - 1) / w->stride[i];
    int64_t all = (steps - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1 - size;
    all = all > 0 ? all : 0;
    w->before[i] = upper ? all / 2 : all - all / 2;
    w->after[i] = all - w->before[i];
  }
}

int cni_onnx_window_of(cni_onnx_window *w, const cni_onnx_call *c, const cn_tensor *x, const int64_t *kernel)
{
  const char *mode = cni_onnx_text(c, "auto_pad", "NOTSET");
  cni_onnx_ints pads = cni_onnx_ints_of(c, "pads");
  *w = (cni_onnx_window){.n = cn_ndim(x) - 2, .even = true};
  if (!x || w->n < 1 || w->n > CNI_ONNX_SPATIAL)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "it takes 1 to 3 dimensions behind (N, C)");
  if (read(w->stride, w, c, "strides", 1) || read(w->dilation, w, c, "dilations", 1)) return cn_err();
  if (kernel) memcpy(w->kernel, kernel, (size_t)w->n * sizeof *kernel);
  else if (read(w->kernel, w, c, "kernel_shape", 0)) return cn_err();
  if (pads.v && pads.n != 2 * (size_t)w->n)
    return cni_onnx_fail(c, CN_ERR_SHAPE, "pads has %zu numbers for %d dimensions", pads.n, w->n);
  for (int i = 0; i < w->n; i++) {
    w->before[i] = pads.v ? pads.v[i] : 0;
    w->after[i] = pads.v ? pads.v[w->n + i] : 0;
  }
  bool upper = !strcmp(mode, "SAME_UPPER");
  if (upper || !strcmp(mode, "SAME_LOWER")) same(w, x, upper);
  else if (!strcmp(mode, "VALID")) memset(w->before, 0, sizeof w->before), memset(w->after, 0, sizeof w->after);
  else if (strcmp(mode, "NOTSET") != 0 && *mode) return cni_onnx_fail(c, CN_ERR_VALUE, "auto_pad is '%s'", mode);
  for (int i = 0; i < w->n; i++) w->even = w->even && w->before[i] == w->after[i] && w->before[i] >= 0;
  return cn_err();
}

cn_tensor *cni_onnx_window_pad(cni_onnx_window *w, cn_tensor *x, double value)
{
  int64_t pad[2 * CNI_ONNX_SPATIAL];
  for (int i = 0; i < w->n; i++) { /* the last dimension first */
    pad[2 * i] = w->before[w->n - 1 - i];
    pad[2 * i + 1] = w->after[w->n - 1 - i];
  }
  memset(w->before, 0, sizeof w->before);
  memset(w->after, 0, sizeof w->after);
  w->even = true;
  return cn_constant_pad_nd(x, pad, 2 * (size_t)w->n, .value = value);
}
