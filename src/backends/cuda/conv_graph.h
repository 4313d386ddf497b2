/* conv_graph.h: the form of a convolution, and how cuDNN is told of it.
 *
 * Place in the flow: conv_dnn.c reads a call, conv_graph.c describes it, dnn.c makes a plan of that. Invariant: a form
 * is all that a plan depends on, so that plans are found by its bytes. */
#ifndef CNI_CUDA_CONV_GRAPH_H
#define CNI_CUDA_CONV_GRAPH_H

#include "dnn.h"

#ifdef CNI_HAVE_CUDNN_H

/* Unique numbers of the real tensors: image, filter, result, bias, residual. */
enum { CNI_CONV_X = 1, CNI_CONV_W, CNI_CONV_Y, CNI_CONV_B, CNI_CONV_Z };

/* Compared as bytes. */
typedef struct cni_conv_form {
  char what[7]; /* "conv2d" */
  int8_t rival; /* is conv_small.c's kernel tried, too? */
  int32_t kind, dtype, bias, residual, relu; /* kind: which of cni_cuda_conv_kind's */
  int16_t strict, repeats, as_they_lie; /* as in cni_dnn_graph */
  int64_t x[4], w[4], y[4]; /* shapes */
  int64_t stride[2], padding[2], dilation[2], groups;
} cni_conv_form;

/* Adds a form's tensors, channels innermost, and operations to a graph. */
void cni_conv_describe(cni_dnn_graph *g, const void *form);
/* May engines for Tensor Cores that copy what is no whole pack of channels be left out? In grouped convolutions. */
bool cni_conv_as_they_lie(const cni_conv_form *f);

#endif
#endif
