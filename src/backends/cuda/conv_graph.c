/* conv_graph.c: a convolution as cuDNN's operations: with what is added to it and a relu, or one of its gradients.
 *
 * Place in the flow: see conv_graph.h. Invariant: the operations stand in the order for which cuDNN has compiled
 * kernels; channels are innermost in all tensors. */
#include "conv_graph.h"

#include "conv.h"

#ifdef CNI_HAVE_CUDNN_H

enum { WHOLE = 8 }; /* channels of a group that Tensor Cores take as they lie */

bool cni_conv_as_they_lie(const cni_conv_form *f)
{
  return f->groups > 1 && (f->w[1] % WHOLE != 0 || f->w[0] / f->groups % WHOLE != 0);
}

static int tensor_of(cni_dnn_graph *g, cudnnDataType_t type, const int64_t *shape, int64_t uid, cni_dnn_place place)
{
  int64_t strides[4];
  cni_cuda_innermost_channels(shape, strides);
  return cni_dnn_tensor(g, type, 4, shape, strides, uid, place);
}

/* What an operation writes that `left` others follow: y itself, or float32 numbers on their way there. */
static int between(cni_dnn_graph *g, const cni_conv_form *k, int y, int left)
{
  return left ? tensor_of(g, CUDNN_DATA_FLOAT, k->y, 0, CNI_DNN_VIRTUAL) : y;
}

void cni_conv_describe(cni_dnn_graph *g, const void *form)
{
  static const cudnnBackendDescriptorType_t kinds[] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                                       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                                       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
  const cni_conv_form *k = form;
  cudnnDataType_t type = k->dtype == CN_F32   ? CUDNN_DATA_FLOAT
                         : k->dtype == CN_F16 ? CUDNN_DATA_HALF
                                              : CUDNN_DATA_BFLOAT16;
  g->strict = k->strict;
  g->repeats = k->repeats;
  g->as_they_lie = k->as_they_lie;
  int x = tensor_of(g, type, k->x, CNI_CONV_X, CNI_DNN_REAL), w = tensor_of(g, type, k->w, CNI_CONV_W, CNI_DNN_REAL);
  int y = tensor_of(g, type, k->y, CNI_CONV_Y, CNI_DNN_REAL);
  int left = k->residual + k->bias + k->relu, at = between(g, k, y, left);
  cni_dnn_convolution(g, kinds[k->kind], k->stride, k->padding, k->dilation, x, w, at);
  if (k->residual) { /* in this order cuDNN has compiled kernels */
    int z = tensor_of(g, type, k->y, CNI_CONV_Z, CNI_DNN_REAL), sum = between(g, k, y, --left);
    cni_dnn_pointwise(g, CUDNN_POINTWISE_ADD, at, z, sum, -1, 0);
    at = sum;
  }
  if (k->bias) {
    const int64_t channels[4] = {1, k->y[1], 1, 1};
    int b = tensor_of(g, type, channels, CNI_CONV_B, CNI_DNN_REAL), sum = between(g, k, y, --left);
    cni_dnn_pointwise(g, CUDNN_POINTWISE_ADD, at, b, sum, -1, 0);
    at = sum;
  }
  if (k->relu) cni_dnn_pointwise(g, CUDNN_POINTWISE_RELU_FWD, at, -1, y, -1, 0);
}

#endif
