/* pool.c: the family of pooling ops: the largest or the mean of windows of images, and their gradients as ops.
 *
 * Place in the flow: backends give kernels for the rows with infer; max_pool2d is composite. Invariant: a forward op
 * and its backward op are each other's transposes, so gradients of any order end here (max_pool2d_backward's is a
 * gather by the same indices). An image without a batch dim is a batch of one. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "cost.h"
#include "families.h"
#include "shorthand.h"
#include "window.h"

/* ---- shapes ---- */

/* stride of a pool: None and [] mean kernel_size. */
static const cn_value *stride_or_kernel(const cn_value *stride, const cn_value *kernel)
{
  return stride->tag == CN_V_NONE || (stride->tag == CN_V_INTS && stride->n == 0) ? kernel : stride;
}

static int64_t pooled(int64_t size, int64_t kernel, int64_t stride, int64_t pad, int64_t dilation,
                      bool ceil_mode)
{
  int64_t room = size + 2 * pad - dilation * (kernel - 1) - 1;
  if (room < 0 && (!ceil_mode || room + stride - 1 < 0)) return 0;
  int64_t n = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
  if (ceil_mode && (n - 1) * stride >= size + pad)
    n--; /* the last window must begin inside the image or left of it */
  return n;
}

static int check_image(const cn_call *c, int ndim, const int64_t *shape)
{
  char text[CNI_SHAPE_TEXT];
  bool fits = ndim == 3 || ndim == 4;
  for (int i = ndim - 3; fits && i < ndim; i++) fits = shape[i] > 0;
  if (fits) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE,
                      "takes images of shape (N, C, H, W) or (C, H, W) with at least one element each,"
                      " not %s",
                      cni_shape_text(text, sizeof text, ndim, shape));
}

/* Windows of a pool over an image of this shape, into y. dilation: an argument's index, or -1 for 1. */
static int pool_shape(const cn_call *c, int ndim, const int64_t *shape, int kernel, int stride, int padding,
                      int dilation, bool ceil_mode, int64_t *y)
{
  char text[CNI_SHAPE_TEXT];
  const cn_value *s = stride_or_kernel(&c->args[stride], &c->args[kernel]);
  int status = check_image(c, ndim, shape);
  if (!status) status = cni_pair_check(c, kernel, "kernel_size", 1);
  if (!status && s == &c->args[stride]) status = cni_pair_check(c, stride, "stride", 1);
  if (!status) status = cni_pair_check(c, padding, "padding", 0);
  if (!status && dilation >= 0) status = cni_pair_check(c, dilation, "dilation", 1);
  if (status) return status;
  memcpy(y, shape, (size_t)ndim * sizeof *y);
  for (int i = 0; i < 2; i++) {
    int64_t k = cni_pair(&c->args[kernel], i), pad = cni_pair(&c->args[padding], i);
    int64_t d = dilation < 0 ? 1 : cni_pair(&c->args[dilation], i);
    if (pad > k / 2)
      return cn_call_fail(c, CN_ERR_VALUE, "padding %lld must be at most half of kernel_size %lld",
                          (long long)pad, (long long)k);
    y[ndim - 2 + i] = pooled(shape[ndim - 2 + i], k, cni_pair(s, i), pad, d, ceil_mode);
    if (y[ndim - 2 + i] < 1)
      return cn_call_fail(c, CN_ERR_SHAPE,
                          "kernel_size %lld with padding %lld does not fit into an image of shape %s",
                          (long long)k, (long long)pad, cni_shape_text(text, sizeof text, ndim, shape));
  }
  return CN_OK;
}

/* Result i with this shape, in the memory order of input 0. */
static int image_result(cn_call *c, int i, int dtype, int ndim, const int64_t *shape)
{
  int status = cn_call_result(c, i, dtype, ndim, shape);
  if (!status && cni_is_like_channels_last(&c->in[0]->d)) cni_spec_channels_last(c, i);
  return status;
}

/* ... and with input_size, which input 0, a gradient, must agree with but in height and width. */
static int image_grad_result(cn_call *c, const cn_value *size)
{
  const cn_desc *g = &c->in[0]->d;
  if (g->ndim != size->n || !cni_same_shape(g->ndim - 2, g->shape, size->n - 2, size->u.is))
    return cn_call_fail(c, CN_ERR_SHAPE, "input_size and grad differ in batch or channels");
  return image_result(c, 0, g->dtype, size->n, size->u.is);
}

static int check_type(const cn_call *c, bool integers)
{
  int dtype = c->in[0]->d.dtype;
  bool fits =
      cni_dtype_computes(dtype) && (cni_dtype_is_float(dtype) || (integers && cni_dtype_is_int(dtype)));
  if (fits && dtype != CN_U64) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "not for %s; cast the input with cn_cast",
                      cn_dtype_name((cn_dtype)dtype));
}

/* grad of a pool's result must have this shape. */
static int check_grad(const cn_call *c, int ndim, const int64_t *shape)
{
  const cn_desc *g = &c->in[0]->d;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (cni_same_shape(g->ndim, g->shape, ndim, shape)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "grad must have the pool's shape %s, not %s",
                      cni_shape_text(want, sizeof want, ndim, shape),
                      cni_shape_text(have, sizeof have, g->ndim, g->shape));
}

/* ---- max ---- */

/* (input, kernel_size, stride, padding, dilation, ceil_mode) */
static int max_values_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[4];
  int status = check_type(c, true);
  if (!status) status = pool_shape(c, x->ndim, x->shape, 1, 2, 3, 4, cni_arg_bool(c->args, 5), shape);
  return status ? status : image_result(c, 0, x->dtype, x->ndim, shape);
}

/* ... and where each is */
static int max_infer(cn_call *c)
{
  int status = max_values_infer(c);
  return status ? status : image_result(c, 1, CN_I64, c->spec[0].ndim, c->spec[0].shape);
}

static int max_vjp(cn_vjp *v)
{
  const cn_value *a = v->args, *pairs[4] = {&a[1], stride_or_kernel(&a[2], &a[1]), &a[3], &a[4]};
  int64_t windows[8];
  for (int i = 0; i < 8; i++) windows[i] = cni_pair(pairs[i / 2], i % 2);
  if (v->g[0])
    v->gin[0] = cn_max_pool2d_backward(v->g[0], v->out[1], v->in_meta[0].shape, (size_t)v->in_meta[0].ndim,
                                       .windows = {windows, 8});
  return cn_err();
}

static int adaptive_max_vjp(cn_vjp *v)
{
  if (v->g[0])
    v->gin[0] = cn_max_pool2d_backward(v->g[0], v->out[1], v->in_meta[0].shape, (size_t)v->in_meta[0].ndim);
  return cn_err();
}

static int max_decompose(cn_call *c)
{
  const cn_value *kernel = &c->args[1], *stride = stride_or_kernel(&c->args[2], kernel);
  cn_tensor *indices;
  int status = cni_pair_check(c, 1, "kernel_size", 1);
  if (!status && stride != kernel) status = cni_pair_check(c, 2, "stride", 1);
  if (!status) status = cni_pair_check(c, 3, "padding", 0);
  if (!status) status = cni_pair_check(c, 4, "dilation", 1);
  if (status) return status;
  int64_t size[2] = {cni_pair(kernel, 0), cni_pair(kernel, 1)};
  cn_max_pool2d_with_indices_opts o = {
      .size = sizeof o,
      .stride = CN_INTS(cni_pair(stride, 0), cni_pair(stride, 1)),
      .padding = CN_INTS(cni_pair(&c->args[3], 0), cni_pair(&c->args[3], 1)),
      .dilation = CN_INTS(cni_pair(&c->args[4], 0), cni_pair(&c->args[4], 1)),
      .ceil_mode = cni_arg_bool(c->args, 5)};
  return cn_max_pool2d_with_indices_with(&c->out[0], &indices, c->in[0], size, 2, &o);
}

/* (grad, indices, input_size, windows) */
static int max_backward_infer(cn_call *c)
{
  const cn_desc *index = &c->in[1]->d;
  const cn_value *size = &c->args[2];
  int status = check_type(c, true);
  if (!status) status = check_image(c, size->n, size->u.is);
  if (status) return status;
  if (index->dtype != CN_I64) return cn_call_fail(c, CN_ERR_DTYPE, "indices must be int64");
  if (!cni_arg_none(c->args, 3) && c->args[3].n != 8)
    return cn_call_fail(c, CN_ERR_VALUE, "windows are eight numbers: kernel_size, stride, padding, dilation");
  status = check_grad(c, index->ndim, index->shape);
  return status ? status : image_grad_result(c, size);
}

/* g has the input's shape: what lies at the indices. */
static int max_backward_vjp(cn_vjp *v)
{
  cn_tensor *flat = cn_flatten(v->g[0], .start_dim = -2);
  cn_tensor *index = cn_flatten(v->in[1], .start_dim = -2);
  v->gin[0] = cn_reshape(cn_gather(flat, -1, index), v->in_meta[0].shape, (size_t)v->in_meta[0].ndim);
  return cn_err();
}

/* ---- mean ---- */

static int check_divisor(const cn_call *c, int arg)
{
  if (cni_arg_none(c->args, arg) || cni_arg_int(c->args, arg) != 0) return CN_OK;
  return cn_call_fail(c, CN_ERR_VALUE, "divisor_override must not be zero");
}

/* (input, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static int avg_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[4];
  int status = check_type(c, true);
  if (!status) status = pool_shape(c, x->ndim, x->shape, 1, 2, 3, -1, cni_arg_bool(c->args, 4), shape);
  if (!status) status = check_divisor(c, 6);
  return status ? status : image_result(c, 0, x->dtype, x->ndim, shape);
}

static int avg_vjp(cn_vjp *v)
{
  const cn_value *a = v->args, *stride = stride_or_kernel(&a[2], &a[1]);
  int64_t kernel[2], step[2], pad[2];
  for (int i = 0; i < 2; i++) {
    kernel[i] = cni_pair(&a[1], i);
    step[i] = cni_pair(stride, i);
    pad[i] = cni_pair(&a[3], i);
  }
  v->gin[0] =
      cn_avg_pool2d_backward(v->g[0], v->in_meta[0].shape, (size_t)v->in_meta[0].ndim, kernel, 2, step, 2,
                             pad, 2, cni_arg_bool(a, 4), cni_arg_bool(a, 5), cni_arg_int_or(a, 6, CN_NONE));
  return cn_err();
}

/* (grad, input_size, kernel_size, stride, padding, ceil_mode, count_include_pad, divisor_override) */
static int avg_backward_infer(cn_call *c)
{
  const cn_value *size = &c->args[1];
  int64_t shape[4];
  int status = check_type(c, true);
  if (!status) status = check_image(c, size->n, size->u.is);
  if (!status) status = pool_shape(c, size->n, size->u.is, 2, 3, 4, -1, cni_arg_bool(c->args, 5), shape);
  if (!status) status = check_grad(c, size->n, shape);
  if (!status) status = check_divisor(c, 7);
  return status ? status : image_result(c, 0, c->in[0]->d.dtype, size->n, size->u.is);
}

static int avg_backward_vjp(cn_vjp *v)
{
  const cn_value *a = v->args;
  int64_t kernel[2] = {cni_pair(&a[2], 0), cni_pair(&a[2], 1)};
  cn_avg_pool2d_opts o = {.size = sizeof o,
                          .stride = CN_INTS(cni_pair(&a[3], 0), cni_pair(&a[3], 1)),
                          .padding = CN_INTS(cni_pair(&a[4], 0), cni_pair(&a[4], 1)),
                          .ceil_mode = cni_arg_bool(a, 5),
                          .no_count_include_pad = !cni_arg_bool(a, 6)};
  v->gin[0] = cn_avg_pool2d_with(v->g[0], kernel, 2, cni_arg_int_or(a, 7, CN_NONE), &o);
  return cn_err();
}

/* ---- mean of windows that cover the image evenly ---- */

/* (input, output_size) */
static int adaptive_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[4];
  int status = check_type(c, false);
  if (!status) status = check_image(c, x->ndim, x->shape);
  if (!status) status = cni_pair_check(c, 1, "output_size", 0);
  if (status) return status;
  memcpy(shape, x->shape, (size_t)x->ndim * sizeof *shape);
  for (int i = 0; i < 2; i++) shape[x->ndim - 2 + i] = cni_pair(&c->args[1], i);
  return image_result(c, 0, x->dtype, x->ndim, shape);
}

/* ... and of the largest: values and where they were */
static int adaptive_max_infer(cn_call *c)
{
  int status = adaptive_infer(c);
  const cn_spec *y = &c->spec[0];
  return status ? status : image_result(c, 1, CN_I64, y->ndim, y->shape);
}

/* A gradient of one number a channel does not show the image's memory order, so the image is kept, as in PyTorch. */
static int adaptive_vjp(cn_vjp *v)
{
  v->gin[0] = cn_adaptive_avg_pool2d_backward(v->g[0], v->in_meta[0].shape, (size_t)v->in_meta[0].ndim,
                                              .channels_last = cni_is_like_channels_last(&v->in[0]->d));
  return cn_err();
}

/* (grad, input_size, channels_last) */
static int adaptive_backward_infer(cn_call *c)
{
  const cn_value *size = &c->args[1];
  int status = check_type(c, false);
  if (!status) status = check_image(c, size->n, size->u.is);
  if (!status) status = image_grad_result(c, size);
  if (!status && cni_arg_bool(c->args, 2)) cni_spec_channels_last(c, 0);
  return status;
}

static int adaptive_backward_vjp(cn_vjp *v)
{
  const cn_meta *g = &v->in_meta[0];
  v->gin[0] = cn_adaptive_avg_pool2d(v->g[0], g->shape + g->ndim - 2, 2);
  return cn_err();
}

/* clang-format off */
const cn_op cni_pool_ops[] = {
  {.sig = "max_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, int[2] dilation=1, "
          "bool ceil_mode=False) -> Tensor ; nn grad_fn_MaxPool2DWithIndicesBackward0",
   .doc = "The largest element of each window of an image (N, C, H, W) or (C, H, W). stride None means kernel_size; "
          "padding counts as minus infinity. A NaN in a window wins.",
   .flags = CN_OP_COMPOSITE, .decompose = max_decompose},
  {.sig = "max_pool2d_with_indices(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, "
          "int[2] dilation=1, bool ceil_mode=False) -> (Tensor output, Tensor indices) ; nn "
          "grad_fn_MaxPool2DWithIndicesBackward0 tuple",
   .doc = "max_pool2d, and where in its image (row * W + column) each largest element was.",
   .cost = cni_cost_window, .infer = max_infer, .vjp = max_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "max_pool2d_values(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, "
          "int[2] dilation=1, bool ceil_mode=False) -> Tensor ; nn internal",
   .doc = "The first result of max_pool2d_with_indices, as compiled functions want it where nobody reads the other. "
          "Has no gradient.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_window, .infer = max_values_infer, .decompose = max_decompose},
  {.sig = "max_pool2d_backward(Tensor grad, Tensor indices, int[] input_size, int[]? windows=None) -> Tensor "
          "; nn internal",
   .doc = "The gradient of max_pool2d: grad added up at the indices in images of input_size. windows: kernel_size, "
          "stride, padding and dilation, two numbers each, of which the indices are; devices may use it.",
   .infer = max_backward_infer, .vjp = max_backward_vjp, .needs = {[0] = CN_IN(1)}},
  {.sig = "avg_pool2d(Tensor input, int[2] kernel_size, int[2]? stride=None, int[2] padding=0, bool ceil_mode=False, "
          "bool count_include_pad=True, int? divisor_override=None) -> Tensor ; nn grad_fn_AvgPool2DBackward0",
   .doc = "The mean of each window of an image (N, C, H, W) or (C, H, W). stride None means kernel_size. Padding "
          "counts as zeros, and in the number of elements unless count_include_pad is false; divisor_override "
          "replaces that number.",
   .cost = cni_cost_window, .infer = avg_infer, .vjp = avg_vjp},
  {.sig = "avg_pool2d_backward(Tensor grad, int[] input_size, int[2] kernel_size, int[2] stride, int[2] padding, "
          "bool ceil_mode, bool count_include_pad, int? divisor_override) -> Tensor ; nn internal",
   .doc = "The gradient of avg_pool2d: each element of grad spread evenly over its window.",
   .cost = cni_cost_window_backward, .infer = avg_backward_infer, .vjp = avg_backward_vjp},
  {.sig = "adaptive_avg_pool2d(Tensor input, int[2] output_size) -> Tensor ; nn grad_fn_AdaptiveAvgPool2DBackward0",
   .doc = "The means of output_size windows that cover an image (N, C, H, W) or (C, H, W): window i of n goes from "
          "floor(i * H / n) to ceil((i + 1) * H / n).",
   .infer = adaptive_infer, .vjp = adaptive_vjp, .needs = {[0] = CN_IN(0)}, .copied = CN_IN(0)},
  {.sig = "adaptive_max_pool2d_with_indices(Tensor input, int[2] output_size) -> (Tensor output, Tensor indices) ; nn "
          "tuple",
   .doc = "The largest elements of output_size windows that cover an image (see adaptive_avg_pool2d), and where in its "
          "image (row * W + column) each of them was. A NaN in a window wins.",
   .infer = adaptive_max_infer, .vjp = adaptive_max_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "adaptive_avg_pool2d_backward(Tensor grad, int[] input_size, bool channels_last=False) -> Tensor "
          "; nn internal",
   .doc = "The gradient of adaptive_avg_pool2d: each element of grad spread evenly over its window. The result has "
          "grad's memory order, or is channels-last.",
   .infer = adaptive_backward_infer, .vjp = adaptive_backward_vjp},
};
/* clang-format on */
CNI_FAMILY(pool);
