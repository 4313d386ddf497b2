/* conv_dnn.c: convolutions by cuDNN: forward with bias, residual and relu, and both gradients.
 *
 * Place in the flow: asked first by conv.c. cuDNN is fast where channels are innermost in memory: tensors that lie so
 * are used where they are, others are copied so, and results copied back; images of few channels are folded meanwhile
 * (conv_fold.c). Invariant: float32 is computed in float32 unless the program allows to round (cn_set_conv_precision):
 * engines that do are passed over (dnn.c), and so are those that add in no fixed order where results must repeat, and
 * those that fill up groups of few channels to what Tensor Cores take: they copy up to eight times as much as there is,
 * and gradients of two groups of one channel, for which cuDNN 9.19 names such engines first, ended the process. */
#include "conv.h"

#include <string.h>

#include "dnn.h"

#ifndef CNI_HAVE_CUDNN_H
int cni_cuda_conv_dnn(cn_call *c, const cni_cuda_conv *v)
{
  (void)v;
  return cni_cuda_refuse(c, "built without cuDNN's headers");
}
#else

enum { X = 1, W, Y, B, Z }; /* unique numbers of the real tensors */
static const double TRIED_FROM = 1e7; /* multiplications */
enum { WHOLE = 8 }; /* channels of a group that Tensor Cores take as they lie */

/* What a plan is made of; compared as bytes. */
typedef struct key {
  char what[8];
  int32_t kind, dtype, bias, residual, relu;
  int16_t strict, repeats, as_they_lie; /* as in cni_dnn_graph */
  int64_t x[4], w[4], y[4]; /* shapes */
  int64_t stride[2], padding[2], dilation[2], groups;
} key;

static void innermost_channels(const int64_t *shape, int64_t *strides)
{
  strides[1] = 1;
  strides[3] = shape[1];
  strides[2] = shape[1] * shape[3];
  strides[0] = shape[1] * shape[3] * shape[2];
}

static int tensor_of(cni_dnn_graph *g, cudnnDataType_t type, const int64_t *shape, int64_t uid, cni_dnn_place place)
{
  int64_t strides[4];
  innermost_channels(shape, strides);
  return cni_dnn_tensor(g, type, 4, shape, strides, uid, place);
}

/* What an operation writes that `left` others follow: y itself, or float32 numbers on their way there. */
static int between(cni_dnn_graph *g, const key *k, int y, int left)
{
  return left ? tensor_of(g, CUDNN_DATA_FLOAT, k->y, 0, CNI_DNN_VIRTUAL) : y;
}

static void describe(cni_dnn_graph *g, const void *payload)
{
  static const cudnnBackendDescriptorType_t kinds[] = {CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                                       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                                                       CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR};
  const key *k = payload;
  cudnnDataType_t type = k->dtype == CN_F32   ? CUDNN_DATA_FLOAT
                         : k->dtype == CN_F16 ? CUDNN_DATA_HALF
                                              : CUDNN_DATA_BFLOAT16;
  g->strict = k->strict;
  g->repeats = k->repeats;
  g->as_they_lie = k->as_they_lie;
  int x = tensor_of(g, type, k->x, X, CNI_DNN_REAL), w = tensor_of(g, type, k->w, W, CNI_DNN_REAL);
  int y = tensor_of(g, type, k->y, Y, CNI_DNN_REAL);
  int left = k->residual + k->bias + k->relu, at = between(g, k, y, left);
  cni_dnn_convolution(g, kinds[k->kind], k->stride, k->padding, k->dilation, x, w, at);
  if (k->residual) { /* in this order cuDNN has compiled kernels */
    int z = tensor_of(g, type, k->y, Z, CNI_DNN_REAL), sum = between(g, k, y, --left);
    cni_dnn_pointwise(g, CUDNN_POINTWISE_ADD, at, z, sum, -1, 0);
    at = sum;
  }
  if (k->bias) {
    const int64_t channels[4] = {1, k->y[1], 1, 1};
    int b = tensor_of(g, type, channels, B, CNI_DNN_REAL), sum = between(g, k, y, --left);
    cni_dnn_pointwise(g, CUDNN_POINTWISE_ADD, at, b, sum, -1, 0);
    at = sum;
  }
  if (k->relu) cni_dnn_pointwise(g, CUDNN_POINTWISE_RELU_FWD, at, -1, y, -1, 0);
}

/* ---- operands with channels innermost ---- */

/* A tensor of four dims as cuDNN is to see it. */
typedef struct side {
  cn_desc own, last; /* as given, with four dims; with channels innermost */
  void *copy;
  size_t bytes;
  const cni_cuda_conv *folded; /* the convolution that last is folded for; NULL: its elements are own's */
  bool filter;
} side;

static void open_side(side *s, const cn_desc *d)
{
  memset(s, 0, sizeof *s);
  s->own = *d;
  if (d->ndim == 3) {
    memmove(s->own.shape + 1, d->shape, 3 * sizeof *d->shape);
    memmove(s->own.strides + 1, d->strides, 3 * sizeof *d->strides);
    s->own.shape[0] = 1;
    s->own.strides[0] = d->numel;
    s->own.ndim = 4;
  }
  s->last = s->own;
  innermost_channels(s->own.shape, s->last.strides);
}

/* The image and the filter with the pixels of a stride side by side. */
static void fold_sides(side *image, side *filter, const cni_cuda_conv *v)
{
  side *both[] = {image, filter};
  cni_cuda_fold_shapes(v, image->last.shape, filter->last.shape);
  for (int i = 0; i < 2; i++) {
    cn_desc *d = &both[i]->last;
    innermost_channels(d->shape, d->strides);
    d->numel = d->shape[0] * d->strides[0];
    both[i]->folded = v;
    both[i]->filter = i == 1;
  }
}

static bool lies_so(const side *s)
{
  if (s->folded) return false;
  for (int i = 0; i < 4; i++)
    if (s->own.shape[i] != 1 && s->own.strides[i] != s->last.strides[i]) return false;
  return (uintptr_t)s->own.data % 16 == 0;
}

/* Copies elements to where cuDNN sees them, or back. */
static int move(const side *s, cni_cuda_device *d, const char *name, bool back)
{
  if (s->folded) return cni_cuda_fold(d, name, s->folded, &s->last, &s->own, s->filter, back);
  return cni_cuda_copy_desc(d, name, back ? &s->own : &s->last, back ? &s->last : &s->own);
}

/* read: with the tensor's elements; else room for them. */
static int bring(side *s, cni_cuda_device *d, const char *name, bool read)
{
  if (lies_so(s)) return CN_OK;
  s->bytes = cn_element_bytes(s->last.dtype, s->last.numel);
  s->copy = s->last.data = cni_cuda_scratch(d, name, s->bytes);
  if (!s->copy) return CN_ERR_MEMORY;
  return read ? move(s, d, name, false) : CN_OK;
}

static int leave(side *s, cni_cuda_device *d, const char *name, bool written, int status)
{
  if (!status && s->copy && written) status = move(s, d, name, true);
  if (s->copy) cni_cuda_free(d, s->copy, s->bytes);
  return status;
}

/* ---- the call ---- */

static key key_of(const cni_cuda_conv *v, const side *s)
{
  key k;
  memset(&k, 0, sizeof k);
  memcpy(k.what, "conv2d", 6);
  k.kind = (int32_t)v->kind;
  k.dtype = v->x->dtype;
  k.strict = k.dtype == CN_F32 && cni_cuda_host->conv_precision() == CN_PRECISION_FLOAT32;
  k.repeats = cni_cuda_host->deterministic_mode() != CN_DETERMINISTIC_OFF;
  k.bias = v->b != NULL;
  k.residual = v->z != NULL;
  k.relu = v->relu;
  memcpy(k.x, s[0].last.shape, sizeof k.x);
  memcpy(k.w, s[1].last.shape, sizeof k.w);
  memcpy(k.y, s[2].last.shape, sizeof k.y);
  for (int i = 0; i < 2; i++) {
    k.stride[i] = s->folded ? 1 : v->stride[i];
    k.padding[i] = s->folded ? 0 : v->padding[i];
    k.dilation[i] = v->dilation[i];
  }
  k.groups = v->groups;
  k.as_they_lie = k.groups > 1 && (k.w[1] % WHOLE != 0 || k.w[0] / k.groups % WHOLE != 0);
  return k;
}

static bool takes(const cni_cuda_conv *v)
{
  int t = v->x->dtype;
  bool type = (t == CN_BF16 || t == CN_F16 || t == CN_F32) && v->w->dtype == t && v->y->dtype == t;
  type = type && (!v->z || v->z->dtype == t);
  return type && v->x->numel && v->w->numel && v->y->numel;
}

/* Is it worth trying which engine is fastest? */
static bool is_work(const cni_cuda_conv *v)
{
  const int64_t *w = v->w->shape;
  return (double)v->y->numel * (double)(w[1] * w[2] * w[3]) >= TRIED_FROM;
}

int cni_cuda_conv_dnn(cn_call *c, const cni_cuda_conv *v)
{
  static const int written_by[] = {[CNI_CUDA_CONV_FORWARD] = 2, [CNI_CUDA_CONV_INPUT] = 0, [CNI_CUDA_CONV_WEIGHT] = 1};
  const cn_desc *tensors[] = {v->x, v->w, v->y, v->z};
  int n = v->z ? 4 : 3;
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand b = {0};
  cni_dnn_plan plan;
  side s[4];
  if (!d) return CN_ERR_DEVICE;
  if (!takes(v)) return cni_cuda_refuse(c, "a type, or an empty tensor, that cuDNN does not take");
  for (int i = 0; i < n; i++) open_side(&s[i], tensors[i]);
  if (cni_cuda_conv_folds(v)) fold_sides(&s[0], &s[1], v);
  key k = key_of(v, s);
  int status = cni_dnn_find(&plan, d, &k, sizeof k, describe), written = written_by[v->kind];
  if (status) return cni_cuda_refuse(c, "cuDNN is not there, or knows no way");
  if (v->b) status = cni_cuda_take(&b, d, name, v->b, v->x->dtype);
  for (int i = 0; i < n && !status; i++) status = bring(&s[i], d, name, i != written);
  int64_t uids[] = {X, W, Y, Z, Z};
  void *pointers[5];
  int count = 0;
  for (; count < n; count++) pointers[count] = s[count].last.data;
  if (v->b) uids[count] = B, pointers[count++] = b.data;
  cni_dnn_operands operands = {count, uids, pointers};
  if (!status && !k.repeats && is_work(v)) cni_dnn_settle(&plan, d, &k, sizeof k, describe, &operands);
  if (!status) status = cni_dnn_run(d, name, &plan, &operands);
  for (int i = 0; i < n; i++) status = leave(&s[i], d, name, i == written, status);
  cni_cuda_drop(&b, d);
  return status;
}
#endif
