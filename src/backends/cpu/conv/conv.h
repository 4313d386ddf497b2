/* conv.h: one convolution as its kernels see it, whichever of the three ops it is, and the kernels' entries.
 *
 * Place in the flow: conv.c reads a call into this; the implementations behind it (onednn.c, conv_direct.c, the
 * reference in conv.c) share it. Invariant: x: (n, c, h, w), weight: (k, c / groups, kh, kw), y: (n, k, oh, ow) keep
 * their meaning in all three; what differs is which of them is written. */
#ifndef CNI_CPU_CONV_H
#define CNI_CPU_CONV_H

#include <cairn/ext/backend.h>
#include <stdbool.h>

#include "backends/cpu/gemm/gemm.h"

enum cni_conv_kind { CNI_CONV_FORWARD, CNI_CONV_INPUT, CNI_CONV_WEIGHT }; /* writes y, x, weight */

/* One tensor: always four dims, strides in elements. */
typedef struct cni_conv_tensor {
  char *data;
  int64_t shape[4], strides[4];
} cni_conv_tensor;

typedef struct cni_conv {
  enum cni_conv_kind kind;
  int dtype;
  int64_t n, c, h, w, k, kh, kw, oh, ow, groups;
  int64_t stride[2], padding[2], dilation[2];
  cni_conv_tensor x, weight, y;
  const cn_desc *bias; /* (k); NULL when absent */
  const void *prepared; /* what the implementation made of this weight; NULL: nothing */
  cni_gemm_limits limits; /* of the result, where it is limited */
  bool limited;
  bool fast;    /* the result may be rounded otherwise */
  bool contest; /* the clock decides: what can run it takes it, however well */
} cni_conv;

/* Multiply-adds of the whole convolution. */
static inline double cni_conv_work(const cni_conv *v)
{
  return (double)v->n * (double)v->k * (double)v->oh * (double)v->ow * (double)(v->c / v->groups) *
         (double)(v->kh * v->kw);
}

/* Brings n numbers of y that lie side by side into the limits, where there are some. */
void cni_conv_limit(const cni_conv *v, float *y, int64_t n);

/* A conv tensor as cni_cpu_copy wants it. */
cn_desc cni_conv_desc(const cni_conv_tensor *t, int dtype);

/* The implementations, in the order they are tried. _against: why it does not take a convolution, by its shapes and
 * memory; NULL: it does. What runs is 0 or an error. */
/* conv_tiles.c: bfloat16, forward and the gradient of the input at stride 1; tensors in any order. */
const char *cni_conv_tiles_against(const cni_conv *v);
int cni_conv_tiles(const cni_conv *v);
/* The weight packed, for forward. */
int cni_conv_tiles_prepare(const cni_conv *v, cn_prepared *made);
/* conv_winograd.c: 3 x 3 at strides 1 and 2. */
const char *cni_conv_winograd_against(const cni_conv *v);
int cni_conv_winograd(const cni_conv *v);
/* The weight transformed, for forward: how many bytes that takes; with made->memory it is filled. */
int cni_conv_winograd_prepare(const cni_conv *v, cn_prepared *made);
/* conv_winograd_1d.c: forward and the gradient of the weight, over few channels or by large windows. */
const char *cni_conv_winograd_1d_against(const cni_conv *v);
int cni_conv_winograd_1d(const cni_conv *v);
/* conv_gemm.c: windows of one pixel, large weights over few pixels. */
const char *cni_conv_gemm_against(const cni_conv *v);
int cni_conv_gemm(const cni_conv *v);
/* The weight in other rows, for forward, as above. */
int cni_conv_gemm_prepare(const cni_conv *v, cn_prepared *made);
/* conv_im2col.c: forward, at strides above 1 or over few channels. */
const char *cni_conv_im2col_against(const cni_conv *v);
int cni_conv_im2col(const cni_conv *v);
/* Its columns of windows [first, end) of all images, (c, kh, kw, pitch), of channels [channel, last), for what _can
 * takes. */
bool cni_conv_im2col_can(const cni_conv *v);
void cni_conv_im2col_take(const cni_conv *v, float *to, int64_t pitch, int64_t first, int64_t end, int64_t channel,
                          int64_t last);
/* conv_depthwise.c: every channel by itself. */
const char *cni_conv_depthwise_against(const cni_conv *v);
int cni_conv_depthwise(const cni_conv *v);
/* conv_direct.c: floats of all sizes. */
int cni_conv_direct(const cni_conv *v);
/* The weight packed, for forward, as above. */
int cni_conv_direct_prepare(const cni_conv *v, cn_prepared *made);

#endif
