/* conv_dnn.c: convolutions by cuDNN: forward with bias, residual and relu, and both gradients.
 *
 * Place in the flow: asked first by conv.c. cuDNN is fast where channels are innermost in memory (conv_sides.c);
 * images of few channels are folded on the way there (conv_fold.c). Where few tiles keep few multiprocessors busy
 * the kernel of conv_small.c is tried beside cuDNN's engines, and runs instead if it is faster. Invariant: float32
 * is computed in float32 unless the program allows to round (cn_set_conv_precision): engines that do are passed over
 * (dnn.c), and so are those that add in no fixed order where results must repeat, and those that fill up groups of
 * few channels to what Tensor Cores take: they copy up to eight times as much as there is, and gradients of two
 * groups of one channel, for which cuDNN 9.19 names such engines first, ended the process. */
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
  char what[7]; /* "conv2d" */
  int8_t rival; /* is conv_small.c's kernel tried, too? */
  int32_t kind, dtype, bias, residual, relu;
  int16_t strict, repeats, as_they_lie; /* as in cni_dnn_graph */
  int64_t x[4], w[4], y[4]; /* shapes */
  int64_t stride[2], padding[2], dilation[2], groups;
} key;

static int tensor_of(cni_dnn_graph *g, cudnnDataType_t type, const int64_t *shape, int64_t uid, cni_dnn_place place)
{
  int64_t strides[4];
  cni_cuda_innermost_channels(shape, strides);
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

/* ---- the call ---- */

/* Is it worth trying which engine is fastest? */
static bool is_work(const cni_cuda_conv *v)
{
  const int64_t *w = v->w->shape;
  return (double)v->y->numel * (double)(w[1] * w[2] * w[3]) >= TRIED_FROM;
}

static key key_of(const cni_cuda_device *d, const cni_cuda_conv *v, const cni_cuda_side *s)
{
  key k;
  memset(&k, 0, sizeof k);
  memcpy(k.what, "conv2d", sizeof k.what);
  k.kind = (int32_t)v->kind;
  k.dtype = v->x->dtype;
  k.strict = k.dtype == CN_F32 && cni_cuda_host->conv_precision() == CN_PRECISION_FLOAT32;
  k.repeats = cni_cuda_host->deterministic_mode() != CN_DETERMINISTIC_OFF;
  k.rival = !k.repeats && !s->folded && is_work(v) && cni_cuda_conv_competes(d, v);
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

static int run_rival(void *small) { return cni_cuda_conv_small_launch(small); }
static void say_rival(char *text, size_t size, const void *small) { cni_cuda_conv_small_say(text, size, small); }

/* By the faster of both ways, on operands that lie as they are to. */
static int run(cni_dnn_plan *plan, const key *k, cni_cuda_small_conv *small)
{
  int64_t uids[] = {X, W, Y, Z, Z};
  void *pointers[5];
  int count = 0;
  for (; count < (k->residual ? 4 : 3); count++) pointers[count] = small->sides[count].last.data;
  if (k->bias) uids[count] = B, pointers[count++] = small->bias;
  cni_dnn_operands operands = {count, uids, pointers};
  cni_dnn_rival rival = {run_rival, say_rival, small};
  int status = CN_OK;
  if (!k->repeats && is_work(small->conv))
    status = cni_dnn_settle(plan, small->device, k, sizeof *k, describe, &operands, k->rival ? &rival : NULL);
  if (status) return status;
  return plan->beaten ? run_rival(small) : cni_dnn_run(small->device, small->name, plan, &operands);
}

int cni_cuda_conv_dnn(cn_call *c, const cni_cuda_conv *v)
{
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_side s[CNI_CUDA_SIDES];
  cni_cuda_operand b = {0};
  cni_dnn_plan plan;
  if (!d) return CN_ERR_DEVICE;
  if (!takes(v)) return cni_cuda_refuse(c, "a type, or an empty tensor, that cuDNN does not take");
  cni_cuda_sides_open(s, v);
  if (cni_cuda_conv_folds(v)) cni_cuda_sides_fold(s, v);
  key k = key_of(d, v, s);
  if (cni_dnn_find(&plan, d, &k, sizeof k, describe)) return cni_cuda_refuse(c, "cuDNN is not there, or knows no way");
  const char *name = cni_cuda_host->op_name(c->op);
  int status = v->b ? cni_cuda_take(&b, d, name, v->b, v->x->dtype) : CN_OK;
  if (!status) status = cni_cuda_sides_bring(s, v, d, name);
  cni_cuda_small_conv small = {d, name, v, s, b.data};
  if (!status) status = run(&plan, &k, &small);
  status = cni_cuda_sides_leave(s, v, d, name, status);
  cni_cuda_drop(&b, d);
  return status;
}
#endif
