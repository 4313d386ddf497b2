/* conv_fold.c: a convolution of few channels as one of sixteen: the pixels of a stride become channels beside each
 * other, and channels of zeros fill up.
 *
 * Place in the flow: conv_dnn.c asks here for the first layers of networks for images: cuDNN's kernels for the Tensor
 * Cores of sm_90 want channels by the sixteen; for 3 it has older ones, many times slower. With r = s a + b,
 *   y[o] = sum over r of w[r] x[s o + r - p] = sum over a, b of w[s a + b] x[s (o + a) + b - p]
 * is a convolution by stride 1, without padding, over the channels (b, c). Invariant: filters are 0 where s a + b lies
 * beyond them, so that results are those of the convolution as it was given, summed in another order. */
#include <string.h>

#include "conv.h"

enum { DEEP = 16, FEW = 8, LEAST = 1 << 16 };

/* As in kernels/conv_fold.cu. */
typedef struct tap {
  int64_t offset;
  int32_t row, col;
} tap;
typedef struct job {
  void *x, *y;
  int64_t images, rows, cols, h, w, image, line, pixel, stride[2], padding[2];
  tap taps[DEEP];
} job;

bool cni_cuda_conv_folds(const cni_cuda_conv *v)
{
  int64_t channels = v->w->shape[1];
  bool half = v->x->dtype == CN_BF16 || v->x->dtype == CN_F16;
  bool plain = v->kind != CNI_CUDA_CONV_INPUT && v->groups == 1 && v->dilation[0] == 1 && v->dilation[1] == 1;
  return half && plain && channels < FEW && channels * v->stride[0] * v->stride[1] <= DEEP && v->y->numel >= LEAST;
}

/* Windows of the folded filter along dim d. */
static int64_t windows(const cni_cuda_conv *v, int d)
{
  return (v->w->shape[2 + d] + v->stride[d] - 1) / v->stride[d];
}

void cni_cuda_fold_shapes(const cni_cuda_conv *v, int64_t *image, int64_t *filter)
{
  const int64_t *out = v->y->shape + v->y->ndim - 2;
  image[1] = filter[1] = DEEP;
  for (int d = 0; d < 2; d++) {
    filter[2 + d] = windows(v, d);
    image[2 + d] = out[d] + filter[2 + d] - 1;
  }
}

int cni_cuda_fold(cni_cuda_device *d, const char *name, const cni_cuda_conv *v, const cn_desc *folded,
                  const cn_desc *plain, bool filter, bool back)
{
  job j = {.x = plain->data, .y = folded->data, .images = folded->shape[0], .rows = folded->shape[2],
           .cols = folded->shape[3], .h = plain->shape[2], .w = plain->shape[3], .image = plain->strides[0],
           .line = plain->strides[2], .pixel = plain->strides[3]};
  for (int i = 0; i < 2; i++) {
    j.stride[i] = v->stride[i];
    j.padding[i] = filter ? 0 : v->padding[i];
  }
  for (int k = 0; k < DEEP; k++) {
    int64_t channels = plain->shape[1], of = k / channels, row = of / v->stride[1], col = of % v->stride[1];
    j.taps[k] = (tap){row * j.line + col * j.pixel + k % channels * plain->strides[1],
                      row < v->stride[0] ? (int32_t)row : -1, (int32_t)col};
  }
  cni_cuda_code code = {.file = "conv_fold.cu", .entry = "conv_fold", .types = {cni_cuda_bits_of(plain->dtype)},
                        .number = back};
  return cni_cuda_run(d, name, &code, cni_cuda_grid_for(d, j.images * j.rows * j.cols), &j);
}
