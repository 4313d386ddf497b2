/* conv.c: conv2d and its two gradients: where each filter sees one channel by depthwise.c, by cuDNN (conv_dnn.c), else,
 * of 16-bit floats, by Tensor Cores (conv_small.c), or by the plain kernels of kernels/conv.cu.
 *
 * Place in the flow: the kernels "conv2d", "conv2d_fused" (not by the plain ones), "conv2d_grad_input" and
 * "conv2d_grad_weight"; 1-d, 3-d and transposed convolutions decompose into these. Invariant: all ways read the call
 * through one struct, so they cannot differ in what they mean. */
#include "conv.h"

#include <string.h>

static const double TINY = 1 << 16; /* multiplications */

/* As in kernels/conv.cu. */
typedef struct job {
  void *x, *w, *y;
  const void *b;
  int64_t n, c, h, width, k, r, s, oh, ow, groups;
  int64_t stride[2], padding[2], dilation[2];
} job;

static int64_t pair(const cn_value *v, int i)
{
  if (v->tag == CN_V_INT) return v->u.i;
  return v->n == 1 ? v->u.is[0] : v->u.is[i];
}

/* first: the index of stride among the arguments. */
static void read_call(cni_cuda_conv *v, const cn_call *c, int first)
{
  for (int i = 0; i < 2; i++) {
    v->stride[i] = pair(&c->args[first], i);
    v->padding[i] = pair(&c->args[first + 1], i);
    v->dilation[i] = pair(&c->args[first + 2], i);
  }
  v->groups = c->args[first + 3].u.i;
}

static job describe(const cni_cuda_conv *v)
{
  const cn_desc *x = v->x, *w = v->w, *y = v->y;
  int batched = x->ndim == 4;
  const int64_t *xs = x->shape + batched, *ys = y->shape + (y->ndim == 4);
  job j = {.n = batched ? x->shape[0] : 1, .c = xs[0], .h = xs[1], .width = xs[2], .k = w->shape[0], .r = w->shape[2],
           .s = w->shape[3], .oh = ys[1], .ow = ys[2], .groups = v->groups};
  memcpy(j.stride, v->stride, sizeof j.stride);
  memcpy(j.padding, v->padding, sizeof j.padding);
  memcpy(j.dilation, v->dilation, sizeof j.dilation);
  return j;
}

/* The tensor `written` is the result. */
static int run_plain(cn_call *c, const cni_cuda_conv *v)
{
  static const char *const entries[] = {"conv_forward", "conv_input", "conv_weight"};
  const cn_desc *tensors[] = {v->y, v->x, v->w}; /* in the order of the kinds: what each writes */
  const char *name = cni_cuda_host->op_name(c->op);
  cni_cuda_device *d = cni_cuda_of(c);
  cni_cuda_operand o[3] = {{0}}, b = {0};
  if (!d) return CN_ERR_DEVICE;
  const cn_desc *out = tensors[v->kind];
  if (!cni_cuda_known(out->dtype)) return cni_cuda_refuse(c, "a type for storage only");
  if (out->numel == 0) return CN_OK;
  job j = describe(v);
  if (j.h * j.width > INT32_MAX || j.oh * j.ow > INT32_MAX)
    return cni_cuda_refuse(c, "an image of more than 2^31 pixels");
  int status = v->b ? cni_cuda_take(&b, d, name, v->b, out->dtype) : CN_OK;
  for (int i = 0; i < 3 && !status; i++)
    status = i == (int)v->kind ? cni_cuda_room(&o[i], d, name, out, 0)
                               : cni_cuda_take(&o[i], d, name, tensors[i], out->dtype);
  j.y = o[0].data, j.x = o[1].data, j.w = o[2].data, j.b = b.data;
  cni_cuda_code code = {.file = "conv.cu", .entry = entries[v->kind], .types = {out->dtype}};
  cni_cuda_grid grid = cni_cuda_grid_for(d, out->numel);
  if (v->kind == CNI_CUDA_CONV_WEIGHT) grid.x = out->numel < 65535 ? out->numel : 65535;
  if (!status) status = cni_cuda_run(d, name, &code, grid, &j);
  cni_cuda_drop(&b, d);
  for (int i = 0; i < 3; i++)
    if (i != (int)v->kind) cni_cuda_drop(&o[i], d);
  return o[v->kind].desc ? cni_cuda_give(&o[v->kind], d, name, status) : status;
}

/* ---- the calls ---- */

/* conv2d(input, weight, bias, stride, padding, dilation, groups) */
static cni_cuda_conv forward_of(const cn_call *c)
{
  cni_cuda_conv v = {.kind = CNI_CUDA_CONV_FORWARD, .x = cn_desc_of(c->in[0]), .w = cn_desc_of(c->in[1]),
                     .b = c->in[2] ? cn_desc_of(c->in[2]) : NULL, .y = cn_desc_of(c->out[0])};
  read_call(&v, c, 3);
  return v;
}
/* conv2d_fused(input, weight, bias, stride, padding, dilation, groups, residual, relu) */
static cni_cuda_conv fused_of(const cn_call *c)
{
  cni_cuda_conv v = forward_of(c);
  v.z = c->in[3] ? cn_desc_of(c->in[3]) : NULL;
  v.relu = c->args[8].u.i != 0;
  return v;
}
/* conv2d_grad_input(grad, weight, input_size, stride, padding, dilation, groups) */
static cni_cuda_conv input_of(const cn_call *c)
{
  cni_cuda_conv v = {.kind = CNI_CUDA_CONV_INPUT, .x = cn_desc_of(c->out[0]), .w = cn_desc_of(c->in[1]),
                     .y = cn_desc_of(c->in[0])};
  read_call(&v, c, 3);
  return v;
}
/* conv2d_grad_weight(grad, input, weight_size, stride, padding, dilation, groups) */
static cni_cuda_conv weight_of(const cn_call *c)
{
  cni_cuda_conv v = {.kind = CNI_CUDA_CONV_WEIGHT, .x = cn_desc_of(c->in[1]), .w = cn_desc_of(c->out[0]),
                     .y = cn_desc_of(c->in[0])};
  read_call(&v, c, 3);
  return v;
}

/* The plain kernels are one launch; cuDNN's are several, with copies to channels innermost around them. */
static int refuse_tiny(cn_call *c, const cni_cuda_conv *v)
{
  const int64_t *w = v->w->shape;
  bool tiny = (double)v->y->numel * (double)(w[1] * w[2] * w[3]) < TINY;
  return tiny ? cni_cuda_refuse(c, "so little work that one launch is faster") : CN_OK;
}

#define DEPTHWISE(name)                            \
  static int name##_depthwise(cn_call *c)          \
  {                                                \
    cni_cuda_conv v = name##_of(c);                \
    return cni_cuda_depthwise(c, &v);              \
  }
DEPTHWISE(forward)
DEPTHWISE(fused)
DEPTHWISE(input)
DEPTHWISE(weight)

#define BOTH(name, read)                           \
  static int name##_dnn(cn_call *c)                \
  {                                                \
    cni_cuda_conv v = read(c);                     \
    int status = refuse_tiny(c, &v);               \
    return status ? status : cni_cuda_conv_dnn(c, &v); \
  }                                                \
  static int name##_plain(cn_call *c)              \
  {                                                \
    cni_cuda_conv v = read(c);                     \
    return run_plain(c, &v);                       \
  }
BOTH(forward, forward_of)
BOTH(input, input_of)
BOTH(weight, weight_of)

static int forward_small(cn_call *c)
{
  cni_cuda_conv v = forward_of(c);
  int status = refuse_tiny(c, &v);
  return status ? status : cni_cuda_conv_small(c, &v);
}
static int fused_dnn(cn_call *c)
{
  cni_cuda_conv v = fused_of(c);
  return cni_cuda_conv_dnn(c, &v);
}
static int fused_small(cn_call *c)
{
  cni_cuda_conv v = fused_of(c);
  return cni_cuda_conv_small(c, &v);
}

const cn_kernel cni_cuda_conv_kernels[] = {
    {"conv2d", "depthwise.cu", forward_depthwise},
    {"conv2d", "cudnn", forward_dnn},
    {"conv2d", "conv_small.cu", forward_small},
    {"conv2d", "conv.cu", forward_plain},
    {"conv2d_fused", "depthwise.cu", fused_depthwise},
    {"conv2d_fused", "cudnn", fused_dnn},
    {"conv2d_fused", "conv_small.cu", fused_small},
    {"conv2d_grad_input", "depthwise.cu", input_depthwise},
    {"conv2d_grad_input", "cudnn", input_dnn},
    {"conv2d_grad_input", "conv.cu", input_plain},
    {"conv2d_grad_weight", "depthwise.cu", weight_depthwise},
    {"conv2d_grad_weight", "cudnn", weight_dnn},
    {"conv2d_grad_weight", "conv.cu", weight_plain},
    {NULL, NULL, NULL},
};
