/* conv_fold.c: a convolution of few channels as one of many: the taps of a filter's line, and the lines of a stride,
 * become channels beside each other, and channels of zeros fill up to a multiple of sixteen.
 *
 * Place in the flow: conv_dnn.c asks here for the first layers of networks for images: cuDNN's kernels for the Tensor
 * Cores of sm_90 want channels by the sixteen; for 3 it has older ones, many times slower. With r = s a + b down the
 * lines and t along them,
 *   y[o, q] = sum over r, t of w[r, t] x[s o + r - p, s q + t - p]
 *           = sum over a of sum over (b, t) of w[s a + b, t] x[s (o + a) + b - p, s q + t - p]
 * is a convolution by filters of one column, by stride 1, without padding, over the channels (b, t, c). Invariant:
 * filters are 0 where s a + b lies beyond them, so that results are those of the convolution as it was given, summed in
 * another order. */
#include <string.h>

#include "conv.h"

enum { MOST_DEEP = 64, DEEP_BY = 16, FEW = 8, LEAST = 1 << 16, PACK = 8 };

/* As in kernels/conv_fold.cu. */
typedef struct tap {
  int64_t offset;
  int32_t row, col;
} tap;
typedef struct job {
  void *x, *y;
  int64_t images, rows, cols, packs, h, w, image, line, pixel, stride[2], padding[2];
  tap taps[MOST_DEEP];
} job;

/* Channels that the convolution has then. */
static int64_t depth(const cni_cuda_conv *v)
{
  return (v->w->shape[1] * v->stride[0] * v->w->shape[3] + DEEP_BY - 1) / DEEP_BY * DEEP_BY;
}

bool cni_cuda_conv_folds(const cni_cuda_conv *v)
{
  bool half = v->x->dtype == CN_BF16 || v->x->dtype == CN_F16;
  bool plain = v->kind != CNI_CUDA_CONV_INPUT && v->groups == 1 && v->dilation[0] == 1 && v->dilation[1] == 1;
  return half && plain && v->w->shape[1] < FEW && depth(v) <= MOST_DEEP && v->y->numel >= LEAST;
}

void cni_cuda_fold_shapes(const cni_cuda_conv *v, int64_t *image, int64_t *filter)
{
  const int64_t *out = v->y->shape + v->y->ndim - 2;
  image[1] = filter[1] = depth(v);
  filter[2] = (v->w->shape[2] + v->stride[0] - 1) / v->stride[0];
  filter[3] = 1;
  image[2] = out[0] + filter[2] - 1;
  image[3] = out[1];
}

int cni_cuda_fold(cni_cuda_device *d, const char *name, const cni_cuda_conv *v, const cn_desc *folded,
                  const cn_desc *plain, bool filter, bool back)
{
  job j = {.x = plain->data, .y = folded->data, .images = folded->shape[0], .rows = folded->shape[2],
           .cols = folded->shape[3], .packs = folded->shape[1] / PACK, .h = plain->shape[2], .w = plain->shape[3],
           .image = plain->strides[0], .line = plain->strides[2], .pixel = plain->strides[3]};
  int64_t channels = plain->shape[1], along = v->w->shape[3];
  for (int i = 0; i < 2; i++) {
    j.stride[i] = v->stride[i];
    j.padding[i] = filter ? 0 : v->padding[i];
  }
  for (int k = 0; k < MOST_DEEP; k++) {
    int64_t row = k / channels / along, col = k / channels % along;
    j.taps[k] = (tap){row * j.line + col * j.pixel + k % channels * plain->strides[1],
                      row < v->stride[0] ? (int32_t)row : -1, (int32_t)col};
  }
  cni_cuda_code code = {.file = "conv_fold.cu", .entry = "conv_fold", .types = {cni_cuda_bits_of(plain->dtype)},
                        .number = back};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, folded->numel / PACK), &j);
}
