/* window.h: what convolutions and pools share: windows over the dimensions behind (N, C). Internal. */
#ifndef CNI_ONNX_WINDOW_H
#define CNI_ONNX_WINDOW_H

#include "call.h"

enum { CNI_ONNX_SPATIAL = 3 }; /* dimensions that windows can have here */

typedef struct cni_onnx_window {
  int n;
  int64_t kernel[CNI_ONNX_SPATIAL], stride[CNI_ONNX_SPATIAL], dilation[CNI_ONNX_SPATIAL];
  int64_t before[CNI_ONNX_SPATIAL], after[CNI_ONNX_SPATIAL];
  bool even; /* before and after are the same */
} cni_onnx_window;

/* From the attributes strides, dilations, pads and auto_pad; kernel: n sizes, or NULL: kernel_shape. */
int cni_onnx_window_of(cni_onnx_window *w, const cni_onnx_call *call, const cn_tensor *x, const int64_t *kernel);
/* x with `value` around it, where the window's pads say so; these are then 0. */
cn_tensor *cni_onnx_window_pad(cni_onnx_window *w, cn_tensor *x, double value);

#endif
