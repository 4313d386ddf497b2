/* conv.c: the family of convolutions: conv2d with its two gradients, and conv1d as a conv2d of height one.
 *
 * Place in the flow: backends give kernels for conv2d, conv2d_grad_input and conv2d_grad_weight. Invariant: each of
 * the three is linear in both of its tensors, and their gradients are the three again, so any order of
 * differentiation ends here. An image without a batch dim is a batch of one. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "shorthand.h"
#include "window.h"

/* The attributes of all three rows lie at the same places. */
enum { STRIDE = 3, PADDING = 4, DILATION = 5, GROUPS = 6 };

/* ---- checks ---- */

static int check_types(const cn_call *c)
{
  int dtype = c->in[0]->d.dtype;
  for (int i = 1; i < c->nin; i++)
    if (c->in[i] && c->in[i]->d.dtype != dtype)
      return cn_call_fail(c, CN_ERR_DTYPE,
                          "the tensors must have one type, but are %s and %s; cast one with cn_cast",
                          cn_dtype_name((cn_dtype)dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  if (!cni_dtype_computes(dtype) || cni_dtype_is_bool(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "not for %s; cast the tensors with cn_cast",
                        cn_dtype_name((cn_dtype)dtype));
  return CN_OK;
}

static int check_attributes(const cn_call *c)
{
  int status = cni_pair_check(c, STRIDE, "stride", 1);
  if (!status) status = cni_pair_check(c, PADDING, "padding", 0);
  if (!status) status = cni_pair_check(c, DILATION, "dilation", 1);
  if (!status && cni_arg_int(c->args, GROUPS) < 1)
    status = cn_call_fail(c, CN_ERR_VALUE, "groups must be at least 1");
  return status;
}

/* What a message says of the shapes involved. */
typedef struct texts {
  char input[CNI_SHAPE_TEXT], weight[CNI_SHAPE_TEXT];
} texts;

static int check_channels(const cn_call *c, const int64_t *x, const int64_t *w, const texts *t)
{
  int64_t groups = cni_arg_int(c->args, GROUPS);
  if (w[0] < 1 || w[0] % groups)
    return cn_call_fail(c, CN_ERR_SHAPE, "weight %s: its first size must be a multiple of groups (%lld)",
                        t->weight, (long long)groups);
  if (w[1] > INT64_MAX / groups || x[0] != w[1] * groups)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "weight %s with groups %lld takes inputs of %lld channels, but input %s has %lld",
                        t->weight, (long long)groups, (long long)(w[1] * groups), t->input, (long long)x[0]);
  if (w[2] < 1 || w[3] < 1) return cn_call_fail(c, CN_ERR_SHAPE, "weight %s: the kernel is empty", t->weight);
  return CN_OK;
}

/* The result's shape of a convolution of input (nx sizes) by weight (4 sizes) into y (nx sizes). */
static int conv_shape(const cn_call *c, int nx, const int64_t *input, int nw, const int64_t *weight,
                      int64_t *y)
{
  texts t;
  int status = check_attributes(c);
  if (status) return status;
  cni_shape_text(t.input, sizeof t.input, nx, input);
  cni_shape_text(t.weight, sizeof t.weight, nw, weight);
  if (nx != 3 && nx != 4)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of shape (N, C, H, W) or (C, H, W), not %s", t.input);
  if (nw != 4)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes weights of shape (K, C / groups, kH, kW), not %s", t.weight);
  const int64_t *x = input + (nx - 3);
  if ((status = check_channels(c, x, weight, &t))) return status;
  for (int i = 0; i < 2; i++) {
    int64_t span = x[1 + i] + 2 * cni_pair(&c->args[PADDING], i), reach;
    if (__builtin_mul_overflow(cni_pair(&c->args[DILATION], i), weight[2 + i] - 1, &reach) || reach >= span)
      return cn_call_fail(c, CN_ERR_SHAPE,
                          "the kernel of weight %s, dilation %lld, is larger than input %s with padding"
                          " %lld",
                          t.weight, (long long)cni_pair(&c->args[DILATION], i), t.input,
                          (long long)cni_pair(&c->args[PADDING], i));
    y[nx - 2 + i] = (span - reach - 1) / cni_pair(&c->args[STRIDE], i) + 1;
  }
  if (nx == 4) y[0] = input[0];
  y[nx - 3] = weight[0];
  return CN_OK;
}

/* The result is channels-last when one of the tensors is. */
static int typed_result(cn_call *c, int ndim, const int64_t *shape)
{
  int status = cn_call_result(c, 0, c->in[0]->d.dtype, ndim, shape);
  if (!status && (cni_is_like_channels_last(&c->in[0]->d) || cni_is_like_channels_last(&c->in[1]->d)))
    cni_spec_channels_last(c, 0);
  return status;
}

/* ---- conv2d ---- */

static int conv2d_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d;
  int64_t shape[4];
  int status = check_types(c);
  if (!status) status = conv_shape(c, x->ndim, x->shape, w->ndim, w->shape, shape);
  if (status) return status;
  if (c->in[2] && (c->in[2]->d.ndim != 1 || c->in[2]->d.shape[0] != w->shape[0])) {
    char bias[CNI_SHAPE_TEXT];
    return cn_call_fail(c, CN_ERR_SHAPE, "bias must have shape (%lld), one number per output channel, not %s",
                        (long long)w->shape[0],
                        cni_shape_text(bias, sizeof bias, c->in[2]->d.ndim, c->in[2]->d.shape));
  }
  return typed_result(c, x->ndim, shape);
}

/* ... with `residual` added and a relu behind it, as compiled functions use it (passes/norms.c) */
static int conv2d_fused_infer(cn_call *c)
{
  const cn_desc *r = c->in[3] ? &c->in[3]->d : NULL;
  const cn_spec *y = &c->spec[0];
  int status = conv2d_infer(c);
  if (status || !r || cni_same_shape(r->ndim, r->shape, y->ndim, y->shape)) return status;
  return cn_call_fail(c, CN_ERR_SHAPE, "the residual must have the convolution's shape");
}

static int conv2d_fused_decompose(cn_call *c)
{
  int64_t stride[2], padding[2], dilation[2];
  for (int i = 0; i < 2; i++) {
    stride[i] = cni_pair(&c->args[STRIDE], i);
    padding[i] = cni_pair(&c->args[PADDING], i);
    dilation[i] = cni_pair(&c->args[DILATION], i);
  }
  cn_tensor *y = cn_conv2d(c->in[0], c->in[1], c->in[2], .stride = {stride, 2}, .padding = {padding, 2},
                           .dilation = {dilation, 2}, .groups = cni_arg_int(c->args, GROUPS));
  if (c->in[3]) y = cn_add(y, c->in[3]);
  c->out[0] = cni_arg_bool(c->args, GROUPS + 2) ? cn_relu(y) : y;
  return cn_err();
}

/* ... and brought between two numbers, likewise (passes/clamps.c) */
static int conv2d_clamped_decompose(cn_call *c)
{
  int64_t stride[2], padding[2], dilation[2];
  for (int i = 0; i < 2; i++) {
    stride[i] = cni_pair(&c->args[STRIDE], i);
    padding[i] = cni_pair(&c->args[PADDING], i);
    dilation[i] = cni_pair(&c->args[DILATION], i);
  }
  cn_tensor *y = cn_conv2d(c->in[0], c->in[1], c->in[2], .stride = {stride, 2}, .padding = {padding, 2},
                           .dilation = {dilation, 2}, .groups = cni_arg_int(c->args, GROUPS));
  const double low = cni_arg_float(c->args, GROUPS + 1), high = cni_arg_float(c->args, GROUPS + 2);
  c->out[0] = cni_conv_is_relu(low, high) ? cn_relu(y) : cn_clamp_both(y, cn_num(low), cn_num(high));
  return cn_err();
}

/* ---- the gradients, as ops ---- */

/* Checks that grad has the shape of the convolution's result. */
static int check_grad(cn_call *c, int nx, const int64_t *input, int nw, const int64_t *weight)
{
  const cn_desc *g = &c->in[0]->d;
  int64_t shape[4];
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  int status = check_types(c);
  if (!status) status = conv_shape(c, nx, input, nw, weight, shape);
  if (status) return status;
  if (cni_same_shape(g->ndim, g->shape, nx, shape)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "grad must have the convolution's shape %s, not %s",
                      cni_shape_text(want, sizeof want, nx, shape),
                      cni_shape_text(have, sizeof have, g->ndim, g->shape));
}

static int check_size(const cn_call *c, int least, int most)
{
  const cn_value *size = &c->args[2];
  if (size->tag != CN_V_INTS || size->n < least || size->n > most)
    return cn_call_fail(c, CN_ERR_VALUE, "the size must have %d%s numbers", least,
                        least < most ? " or 4" : "");
  for (int i = 0; i < size->n; i++)
    if (size->u.is[i] < 0) return cn_call_fail(c, CN_ERR_VALUE, "the size must not be negative");
  return CN_OK;
}

static int grad_input_infer(cn_call *c)
{
  const cn_value *size = &c->args[2];
  const cn_desc *w = &c->in[1]->d;
  int status = check_size(c, 3, 4);
  if (!status) status = check_grad(c, size->n, size->u.is, w->ndim, w->shape);
  return status ? status : typed_result(c, size->n, size->u.is);
}

static int grad_weight_infer(cn_call *c)
{
  const cn_value *size = &c->args[2];
  const cn_desc *x = &c->in[1]->d;
  int status = check_size(c, 4, 4);
  if (!status) status = check_grad(c, x->ndim, x->shape, size->n, size->u.is);
  return status ? status : typed_result(c, size->n, size->u.is);
}

/* ---- gradients of all three ---- */

/* The two numbers of a pair attribute, kept for the calls below. */
typedef struct attributes {
  int64_t stride[2], padding[2], dilation[2], groups;
} attributes;

static attributes attributes_of(const cn_vjp *v)
{
  attributes a = {.groups = cni_arg_int(v->args, GROUPS)};
  for (int i = 0; i < 2; i++) {
    a.stride[i] = cni_pair(&v->args[STRIDE], i);
    a.padding[i] = cni_pair(&v->args[PADDING], i);
    a.dilation[i] = cni_pair(&v->args[DILATION], i);
  }
  return a;
}

static cn_tensor *conv(cn_tensor *input, cn_tensor *weight, const attributes *a)
{
  return cn_conv2d(input, weight, NULL, .stride = {a->stride, 2}, .padding = {a->padding, 2},
                   .dilation = {a->dilation, 2}, .groups = a->groups);
}

/* size: the input's */
static cn_tensor *grad_input(cn_tensor *grad, cn_tensor *weight, const cn_meta *size, const attributes *a)
{
  return cn_conv2d_grad_input(grad, weight, size->shape, (size_t)size->ndim, a->stride, 2, a->padding, 2,
                              a->dilation, 2, a->groups);
}

/* size: the weight's */
static cn_tensor *grad_weight(cn_tensor *grad, cn_tensor *input, const cn_meta *size, const attributes *a)
{
  return cn_conv2d_grad_weight(grad, input, size->shape, (size_t)size->ndim, a->stride, 2, a->padding, 2,
                               a->dilation, 2, a->groups);
}

static int conv2d_vjp(cn_vjp *v)
{
  attributes a = attributes_of(v);
  if (v->need[0]) v->gin[0] = grad_input(v->g[0], v->in[1], &v->in_meta[0], &a);
  if (v->need[1]) v->gin[1] = grad_weight(v->g[0], v->in[0], &v->in_meta[1], &a);
  if (v->need[2])
    v->gin[2] = v->in_meta[0].ndim == 4 ? cn_sum(v->g[0], .dim = CN_INTS(0, 2, 3))
                                        : cn_sum(v->g[0], .dim = CN_INTS(1, 2));
  return cn_err();
}

/* of (grad, weight): g has the input's shape */
static int grad_input_vjp(cn_vjp *v)
{
  attributes a = attributes_of(v);
  if (v->need[0]) v->gin[0] = conv(v->g[0], v->in[1], &a);
  if (v->need[1]) v->gin[1] = grad_weight(v->in[0], v->g[0], &v->in_meta[1], &a);
  return cn_err();
}

/* of (grad, input): g has the weight's shape */
static int grad_weight_vjp(cn_vjp *v)
{
  attributes a = attributes_of(v);
  if (v->need[0]) v->gin[0] = conv(v->in[1], v->g[0], &a);
  if (v->need[1]) v->gin[1] = grad_input(v->in[0], v->g[0], &v->in_meta[1], &a);
  return cn_err();
}

/* ---- conv1d ---- */

static int conv1d_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d;
  char text[CNI_SHAPE_TEXT];
  if (x->ndim != 2 && x->ndim != 3)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of shape (N, C, L) or (C, L), not %s",
                        cni_shape_text(text, sizeof text, x->ndim, x->shape));
  if (w->ndim != 3)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes weights of shape (K, C / groups, kL), not %s",
                        cni_shape_text(text, sizeof text, w->ndim, w->shape));
  int status = cni_pair_check(c, STRIDE, "stride", 1);
  if (!status) status = cni_pair_check(c, PADDING, "padding", 0);
  if (!status) status = cni_pair_check(c, DILATION, "dilation", 1);
  if (status) return status;
  cn_tensor *y =
      cn_conv2d(cn_unsqueeze(c->in[0], -2), cn_unsqueeze(c->in[1], 2), c->in[2],
                .stride = CN_INTS(1, cni_pair(&c->args[STRIDE], 0)),
                .padding = CN_INTS(0, cni_pair(&c->args[PADDING], 0)),
                .dilation = CN_INTS(1, cni_pair(&c->args[DILATION], 0)), .groups = cni_arg_int(c->args, GROUPS));
  c->out[0] = y ? cn_squeeze(y, .dim = CN_INTS(-2)) : NULL;
  return cn_err();
}

/* clang-format off */
const cn_op cni_conv_ops[] = {
  {.sig = "conv1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
          "int[1] dilation=1, int groups=1) -> Tensor ; nn amp_low grad_fn_ConvolutionBackward0 complex",
   .doc = "Cross-correlation of signals with kernels. input: (N, C, L) or (C, L), weight: (K, C / groups, kL), bias: "
          "(K), result: (N, K, Lout) or (K, Lout).",
   .flags = CN_OP_COMPOSITE, .decompose = conv1d_decompose},
  {.sig = "conv2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
          "int[2] dilation=1, int groups=1) -> Tensor ; nn amp_low grad_fn_ConvolutionBackward0",
   .doc = "Cross-correlation of images with kernels. input: (N, C, H, W) or (C, H, W), weight: (K, C / groups, kH, "
          "kW), bias: (K), result: (N, K, Hout, Wout) or (K, Hout, Wout), where Hout = floor((H + 2 * padding - "
          "dilation * (kH - 1) - 1) / stride) + 1. The result is channels-last in memory when input or weight is.",
   .cost = cni_cost_conv, .infer = conv2d_infer, .vjp = conv2d_vjp, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "conv2d_fused(Tensor input, Tensor weight, Tensor? bias, int[2] stride, int[2] padding, int[2] dilation, "
          "int groups, Tensor? residual, bool relu) -> Tensor ; internal",
   .doc = "conv2d, with residual added to its result, and the relu of that. Has no gradient.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_conv, .infer = conv2d_fused_infer, .decompose = conv2d_fused_decompose},
  {.sig = "conv2d_clamped(Tensor input, Tensor weight, Tensor? bias, int[2] stride, int[2] padding, int[2] dilation, "
          "int groups, float low, float high) -> Tensor ; internal",
   .doc = "The clamp of conv2d between two numbers, or its relu, if they are 0 and infinity. Has no gradient.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_conv, .infer = conv2d_infer, .decompose = conv2d_clamped_decompose},
  {.sig = "conv2d_grad_input(Tensor grad, Tensor weight, int[] input_size, int[2] stride, int[2] padding, "
          "int[2] dilation, int groups) -> Tensor ; nn group_conv2d internal",
   .doc = "The gradient of conv2d with respect to its input, given grad, that of its result. It is also the "
          "transposed convolution of grad by weight, with the size of the result said outright.",
   .cost = cni_cost_conv_input,
   .infer = grad_input_infer, .vjp = grad_input_vjp, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
  {.sig = "conv2d_grad_weight(Tensor grad, Tensor input, int[] weight_size, int[2] stride, int[2] padding, "
          "int[2] dilation, int groups) -> Tensor ; nn group_conv2d internal",
   .doc = "The gradient of conv2d with respect to its weight, given grad, that of its result.",
   .cost = cni_cost_conv_weight,
   .infer = grad_weight_infer, .vjp = grad_weight_vjp, .needs = {[0] = CN_IN(1), [1] = CN_IN(0)}},
};
/* clang-format on */
CNI_FAMILY(conv);
