/* conv.h: a convolution call as all ways to run it see it. */
#ifndef CNI_CUDA_CONV_H
#define CNI_CUDA_CONV_H

#include "plugin.h"

typedef enum cni_cuda_conv_kind { CNI_CUDA_CONV_FORWARD, CNI_CUDA_CONV_INPUT, CNI_CUDA_CONV_WEIGHT } cni_cuda_conv_kind;

/* x: (n, c, h, w) or (c, h, w), w: (k, c / groups, r, s), y: like x; the kind says which of them is the result. */
typedef struct cni_cuda_conv {
  cni_cuda_conv_kind kind;
  const cn_desc *x, *w, *y, *b; /* b: bias or NULL */
  const cn_desc *z;             /* like y, added to the result; or NULL */
  bool relu;                    /* of all that */
  int64_t stride[2], padding[2], dilation[2], groups;
} cni_cuda_conv;

/* By kernels of ours where each filter sees one channel (depthwise.c); CN_REFUSED otherwise. */
int cni_cuda_depthwise(cn_call *c, const cni_cuda_conv *v);
/* By cuDNN; CN_REFUSED where that is not there or knows no way. */
int cni_cuda_conv_dnn(cn_call *c, const cni_cuda_conv *v);

/* ---- operands with channels innermost (conv_sides.c) ---- */
static inline void cni_cuda_innermost_channels(const int64_t *shape, int64_t *strides) /* of four dims */
{
  strides[1] = 1;
  strides[3] = shape[1];
  strides[2] = shape[1] * shape[3];
  strides[0] = shape[1] * shape[3] * shape[2];
}
/* A tensor of four dims as kernels are to see it. */
typedef struct cni_cuda_side {
  cn_desc own, last; /* as given, with four dims; with channels innermost */
  void *copy;
  size_t bytes;
  const cni_cuda_conv *folded; /* the convolution that last is folded for; NULL: its elements are own's */
  bool filter;
} cni_cuda_side;
/* x, w, y and, if it is there, z. leave must follow bring, whatever that returned; it returns status, or what went
 * wrong. */
enum { CNI_CUDA_SIDES = 4 };
void cni_cuda_sides_open(cni_cuda_side *s, const cni_cuda_conv *v);
void cni_cuda_sides_fold(cni_cuda_side *s, const cni_cuda_conv *v); /* image and filter, for cni_cuda_fold */
int cni_cuda_sides_bring(cni_cuda_side *s, const cni_cuda_conv *v, cni_cuda_device *d, const char *name);
int cni_cuda_sides_leave(cni_cuda_side *s, const cni_cuda_conv *v, cni_cuda_device *d, const char *name, int status);

/* ---- few pixels (conv_small.c) ---- */
/* The kernel by itself; CN_REFUSED for what it does not take. */
int cni_cuda_conv_small(cn_call *c, const cni_cuda_conv *v);
/* Does it take the convolution, and may it be faster than tiles as large as cuDNN's? */
bool cni_cuda_conv_competes(const cni_cuda_device *d, const cni_cuda_conv *v);
/* A convolution that it takes, on sides that were brought. */
typedef struct cni_cuda_small_conv {
  cni_cuda_device *device;
  const char *name; /* of the op */
  const cni_cuda_conv *conv;
  const cni_cuda_side *sides;
  void *bias; /* of x's type, or NULL */
} cni_cuda_small_conv;
int cni_cuda_conv_small_launch(const cni_cuda_small_conv *s);
void cni_cuda_conv_small_say(char *text, size_t size, const cni_cuda_small_conv *s); /* what that is */

/* ---- few channels as many (conv_fold.c) ---- */
/* Is the convolution faster as one of more channels, by stride 1 and without padding? */
bool cni_cuda_conv_folds(const cni_cuda_conv *v);
/* The shapes of its image and filter then: dims 1 to 3. Its stride is 1, its padding 0. */
void cni_cuda_fold_shapes(const cni_cuda_conv *v, int64_t *image, int64_t *filter);
/* Fills `folded` (channels innermost) from `plain`, the image or the filter of four dims, or `plain` from there. */
int cni_cuda_fold(cni_cuda_device *d, const char *name, const cni_cuda_conv *v, const cn_desc *folded,
                  const cn_desc *plain, bool filter, bool back);

#endif
