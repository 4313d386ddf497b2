/* conv_nd.c: the family of convolutions that are made of conv2d and its gradients: over volumes, transposed, and with
 * padding by word ("same", "valid").
 *
 * Place in the flow: all rows are composites. A volume is a batch of images, one per window along its depth, whose
 * taps along the depth lie in the channels (im2col.c gives and takes them); a transposed convolution is the gradient
 * of a convolution with respect to its input. Invariant: float16 and bfloat16 are rounded once, at the end. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"
#include "window.h"

enum { MOST_DIMS = 3 };

/* What a convolution over `n` dims is given. */
typedef struct attributes {
  int n;
  int64_t stride[MOST_DIMS], padding[MOST_DIMS], dilation[MOST_DIMS], groups;
  int64_t more[MOST_DIMS]; /* output_padding */
} attributes;

static int read_list(const cn_call *c, int arg, const char *name, int n, int64_t least, int64_t *to)
{
  int status = cni_tuple_check(c, arg, name, n, least);
  for (int i = 0; !status && i < n; i++) to[i] = cni_pair(&c->args[arg], i);
  return status;
}

/* ---- checks ---- */

static const char *const inputs[] = {"(N, C, L) or (C, L)", "(N, C, H, W) or (C, H, W)",
                                     "(N, C, D, H, W) or (C, D, H, W)"};
static const char *const kernels[] = {"kL)", "kH, kW)", "kD, kH, kW)"};

/* Types and numbers of dims. transposed: weights begin with the input's channels. */
static int check_tensors(const cn_call *c, const attributes *a, bool transposed)
{
  const cn_desc *x = &c->in[0]->d, *w = &c->in[1]->d;
  char text[CNI_SHAPE_TEXT];
  for (int i = 1; i < c->nin; i++)
    if (c->in[i] && c->in[i]->d.dtype != x->dtype)
      return cn_call_fail(c, CN_ERR_DTYPE, "the tensors must have one type, but are %s and %s; cast one with cn_cast",
                          cn_dtype_name((cn_dtype)x->dtype), cn_dtype_name((cn_dtype)c->in[i]->d.dtype));
  if (x->ndim != a->n + 1 && x->ndim != a->n + 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of shape %s, not %s", inputs[a->n - 1],
                        cni_shape_text(text, sizeof text, x->ndim, x->shape));
  if (w->ndim != a->n + 2)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes weights of shape (%s%s, not %s",
                        transposed ? "C, K / groups, " : "K, C / groups, ", kernels[a->n - 1],
                        cni_shape_text(text, sizeof text, w->ndim, w->shape));
  for (int i = 0; i < a->n; i++)
    if (w->shape[2 + i] < 1)
      return cn_call_fail(c, CN_ERR_SHAPE, "weight %s: the kernel is empty",
                          cni_shape_text(text, sizeof text, w->ndim, w->shape));
  if (a->groups < 1) return cn_call_fail(c, CN_ERR_VALUE, "groups must be at least 1");
  return CN_OK;
}

static int check_bias(const cn_call *c, int64_t channels)
{
  char text[CNI_SHAPE_TEXT];
  if (!c->in[2] || (c->in[2]->d.ndim == 1 && c->in[2]->d.shape[0] == channels)) return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "bias must have shape (%lld), one number per output channel, not %s",
                      (long long)channels,
                      cni_shape_text(text, sizeof text, c->in[2]->d.ndim, c->in[2]->d.shape));
}

/* ---- over volumes ---- */

static int64_t windows_over(int64_t size, int64_t kernel, const attributes *a, int dim)
{
  int64_t room = size + 2 * a->padding[dim], reach;
  if (__builtin_mul_overflow(a->dilation[dim], kernel - 1, &reach) || reach >= room) return 0;
  return (room - reach - 1) / a->stride[dim] + 1;
}

/* x: (N, C, D, H, W) as (N * OD, C * kd, H, W): one image per window along the depth. */
static cn_tensor *by_depth(cn_tensor *x, int64_t kd, int64_t od, const attributes *a)
{
  if (!x) return NULL;
  const int64_t *s = x->d.shape;
  int64_t n = s[0], ch = s[1], h = s[3], w = s[4];
  if (kd > 1 || a->stride[0] > 1 || a->padding[0] > 0) {
    int64_t kernel[2] = {kd, 1};
    cn_tensor *flat = cn_reshape(x, CN_SHAPE(n, ch, s[2], h * w));
    cn_tensor *columns = cn_im2col(flat, kernel, 2, .dilation = CN_INTS(a->dilation[0], 1),
                                   .padding = CN_INTS(a->padding[0], 0), .stride = CN_INTS(a->stride[0], 1));
    x = cn_reshape(columns, CN_SHAPE(n, ch * kd, od, h, w));
  }
  return cn_reshape(cn_permute(x, CN_SHAPE(0, 2, 1, 3, 4)), CN_SHAPE(n * od, ch * kd, h, w));
}

/* conv3d(input, weight, bias, stride, padding, dilation, groups) */
static int conv3d_decompose(cn_call *c)
{
  attributes a = {.n = 3, .groups = cni_arg_int(c->args, 6)};
  cn_tensor *x = c->in[0], *w = c->in[1];
  char text[CNI_SHAPE_TEXT], kernel[CNI_SHAPE_TEXT];
  int status = read_list(c, 3, "stride", 3, 1, a.stride);
  if (!status) status = read_list(c, 4, "padding", 3, 0, a.padding);
  if (!status) status = read_list(c, 5, "dilation", 3, 1, a.dilation);
  if (!status) status = check_tensors(c, &a, false);
  if (!status) status = check_bias(c, w->d.shape[0]);
  if (status) return status;
  bool batched = x->d.ndim == 5;
  if (!batched) x = cn_unsqueeze(x, 0);
  if (!x) return cn_err();
  const int64_t *s = x->d.shape, *k = w->d.shape;
  int64_t od = windows_over(s[2], k[2], &a, 0), oh = windows_over(s[3], k[3], &a, 1),
          ow = windows_over(s[4], k[4], &a, 2);
  if (od < 1 || oh < 1 || ow < 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "the kernel of weight %s is larger than input %s with its padding",
                        cni_shape_text(kernel, sizeof kernel, 5, k), cni_shape_text(text, sizeof text, 5, s));
  if (k[0] % a.groups || k[1] > INT64_MAX / a.groups || s[1] != k[1] * a.groups || s[1] == 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "weight %s with groups %lld does not fit input %s",
                        cni_shape_text(kernel, sizeof kernel, 5, k), (long long)a.groups,
                        cni_shape_text(text, sizeof text, 5, s));
  cn_tensor *y = cn_conv2d(by_depth(x, k[2], od, &a), cn_reshape(w, CN_SHAPE(k[0], k[1] * k[2], k[3], k[4])),
                           c->in[2], .stride = {a.stride + 1, 2}, .padding = {a.padding + 1, 2},
                           .dilation = {a.dilation + 1, 2}, .groups = a.groups);
  y = cn_permute(cn_reshape(y, CN_SHAPE(s[0], od, k[0], oh, ow)), CN_SHAPE(0, 2, 1, 3, 4));
  if (y && !batched) y = cn_squeeze(y, .dim = CN_INTS(0));
  c->out[0] = cn_contiguous(y);
  return cn_err();
}

/* ---- transposed ---- */

/* The result's size along dim i, or an error. */
static int transposed_size(const cn_call *c, const attributes *a, int i, int64_t size, int64_t kernel, int64_t *to)
{
  if (a->more[i] >= a->stride[i] && a->more[i] >= a->dilation[i])
    return cn_call_fail(c, CN_ERR_VALUE, "output_padding %lld must be smaller than stride %lld or dilation %lld",
                        (long long)a->more[i], (long long)a->stride[i], (long long)a->dilation[i]);
  int64_t reach, span;
  if (__builtin_mul_overflow(a->dilation[i], kernel - 1, &reach) ||
      __builtin_mul_overflow(a->stride[i], size - 1, &span) || __builtin_add_overflow(span, reach, &span))
    return cn_call_fail(c, CN_ERR_SHAPE, "the result would be too large");
  *to = span - 2 * a->padding[i] + a->more[i] + 1;
  if (size < 1 || *to < 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "an input of size %lld gives a result of size %lld: padding %lld is too large",
                        (long long)size, (long long)*to, (long long)a->padding[i]);
  return CN_OK;
}

/* A result that reaches `stride` or more beyond the last window has windows there, of zeros. */
static cn_tensor *with_late_windows(cn_tensor *x, const attributes *a)
{
  for (int i = 0; x && i < a->n; i++) {
    int64_t late = a->more[i] / a->stride[i], shape[CN_MAX_DIMS];
    if (!late) continue;
    memcpy(shape, x->d.shape, (size_t)x->d.ndim * sizeof *shape);
    shape[2 + i] = late;
    cn_meta m = {.dtype = x->d.dtype, .ndim = x->d.ndim, .device = x->d.device, .shape = shape};
    cn_tensor *both[2] = {x, cni_zeros_of(&m, (cn_dtype)x->d.dtype)};
    x = cn_cat(both, 2, .dim = 2 + i);
  }
  return x;
}

/* x: (N, C, H, W), w: (C, K / groups, kH, kW); size: the result's height and width */
static cn_tensor *transposed2d(cn_tensor *x, cn_tensor *w, const attributes *a, int first, const int64_t *size)
{
  if (!x || !w) return NULL;
  int64_t shape[4] = {x->d.shape[0], w->d.shape[1] * a->groups, size[0], size[1]};
  return cn_conv2d_grad_input(x, w, shape, 4, a->stride + first, 2, a->padding + first, 2, a->dilation + first, 2,
                              a->groups);
}

/* x: (N, C, D, H, W), w: (C, K / groups, kD, kH, kW): images by transposed2d, then their taps along the depth are
 * added up. */
static cn_tensor *transposed3d(cn_tensor *x, cn_tensor *w, const attributes *a, const int64_t *size)
{
  if (!x || !w) return NULL;
  const int64_t *s = x->d.shape, *k = w->d.shape;
  int64_t channels = k[1] * a->groups, plane = size[1] * size[2];
  cn_tensor *images = cn_reshape(cn_permute(x, CN_SHAPE(0, 2, 1, 3, 4)), CN_SHAPE(s[0] * s[2], s[1], s[3], s[4]));
  cn_tensor *kernel = cn_reshape(w, CN_SHAPE(k[0], k[1] * k[2], k[3], k[4]));
  cn_tensor *y = transposed2d(images, kernel, a, 1, size + 1);
  y = cn_permute(cn_reshape(y, CN_SHAPE(s[0], s[2], channels * k[2], plane)), CN_SHAPE(0, 2, 1, 3));
  y = cn_reshape(y, CN_SHAPE(s[0], channels * k[2], s[2] * plane));
  y = cn_col2im(y, CN_SHAPE(size[0], plane), CN_SHAPE(k[2], 1), .dilation = CN_INTS(a->dilation[0], 1),
                .padding = CN_INTS(a->padding[0], 0), .stride = CN_INTS(a->stride[0], 1));
  return cn_reshape(y, CN_SHAPE(s[0], channels, size[0], size[1], size[2]));
}

/* As images of height one. */
static cn_tensor *transposed1d(cn_tensor *x, cn_tensor *w, const attributes *a, const int64_t *size)
{
  attributes flat = {.n = 2, .stride = {1, a->stride[0]}, .padding = {0, a->padding[0]},
                     .dilation = {1, a->dilation[0]}, .groups = a->groups};
  int64_t sizes[2] = {1, size[0]};
  cn_tensor *y = transposed2d(cn_unsqueeze(x, -2), cn_unsqueeze(w, 2), &flat, 0, sizes);
  return y ? cn_squeeze(y, .dim = CN_INTS(-2)) : NULL;
}

/* The bias, (K), as (K, 1, ...) of n + 1 dims. */
static cn_tensor *with_bias(cn_tensor *y, cn_tensor *bias, int n)
{
  int64_t shape[1 + MOST_DIMS] = {-1, 1, 1, 1};
  return bias ? cn_add(y, cn_reshape(bias, shape, (size_t)n + 1)) : y;
}

/* (input, weight, bias, stride, padding, output_padding, groups, dilation) */
static int transposed(cn_call *c, int n)
{
  attributes a = {.n = n, .groups = cni_arg_int(c->args, 6)};
  cn_tensor *x = c->in[0], *w = c->in[1], *bias = c->in[2];
  char text[CNI_SHAPE_TEXT], kernel[CNI_SHAPE_TEXT];
  int64_t size[MOST_DIMS];
  int status = read_list(c, 3, "stride", n, 1, a.stride);
  if (!status) status = read_list(c, 4, "padding", n, 0, a.padding);
  if (!status) status = read_list(c, 5, "output_padding", n, 0, a.more);
  if (!status) status = read_list(c, 7, "dilation", n, 1, a.dilation);
  if (!status) status = check_tensors(c, &a, true);
  if (status) return status;
  int lead = x->d.ndim - n, type = x->d.dtype;
  if (x->d.shape[lead - 1] != w->d.shape[0] || w->d.shape[0] < 1 || w->d.shape[0] % a.groups || w->d.shape[1] < 1 ||
      w->d.shape[1] > INT64_MAX / a.groups)
    return cn_call_fail(c, CN_ERR_SHAPE, "weight %s with groups %lld does not fit input %s",
                        cni_shape_text(kernel, sizeof kernel, w->d.ndim, w->d.shape), (long long)a.groups,
                        cni_shape_text(text, sizeof text, x->d.ndim, x->d.shape));
  status = check_bias(c, w->d.shape[1] * a.groups);
  for (int i = 0; !status && i < n; i++)
    status = transposed_size(c, &a, i, x->d.shape[lead + i], w->d.shape[2 + i], &size[i]);
  if (status) return status;
  if (lead == 1) x = cn_unsqueeze(x, 0);
  if (type == CN_F16 || type == CN_BF16) {
    x = cni_in_type(x, CN_F32);
    w = cni_in_type(w, CN_F32);
    bias = bias ? cni_in_type(bias, CN_F32) : NULL;
  }
  x = with_late_windows(x, &a);
  cn_tensor *y = n == 1 ? transposed1d(x, w, &a, size) : n == 2 ? transposed2d(x, w, &a, 0, size)
                                                                : transposed3d(x, w, &a, size);
  y = with_bias(y, bias, n);
  if (y && lead == 1) y = cn_squeeze(y, .dim = CN_INTS(0));
  c->out[0] = cni_in_type(y, type);
  return cn_err();
}

static int transposed1d_decompose(cn_call *c) { return transposed(c, 1); }
static int transposed2d_decompose(cn_call *c) { return transposed(c, 2); }
static int transposed3d_decompose(cn_call *c) { return transposed(c, 3); }

/* ---- padding by word ---- */

static cn_tensor *conv(cn_tensor *x, cn_tensor *w, cn_tensor *bias, const attributes *a)
{
  const int64_t *s = a->stride, *p = a->padding, *d = a->dilation;
  if (a->n == 1)
    return cn_conv1d(x, w, bias, .stride = {s, 1}, .padding = {p, 1}, .dilation = {d, 1}, .groups = a->groups);
  if (a->n == 2)
    return cn_conv2d(x, w, bias, .stride = {s, 2}, .padding = {p, 2}, .dilation = {d, 2}, .groups = a->groups);
  return cn_conv3d(x, w, bias, .stride = {s, 3}, .padding = {p, 3}, .dilation = {d, 3}, .groups = a->groups);
}

/* (input, weight, bias, stride, padding, dilation, groups). "same" pads by the kernel's reach, the odd one behind: it
 * is padded on both sides, and the first window left out again. */
static int by_word(cn_call *c, int n)
{
  attributes a = {.n = n, .groups = cni_arg_int(c->args, 6)};
  const cn_desc *w = &c->in[1]->d;
  bool same = cni_arg_is(c->args, 4, "same");
  int status = read_list(c, 3, "stride", n, 1, a.stride);
  if (!status) status = read_list(c, 5, "dilation", n, 1, a.dilation);
  if (!status) status = check_tensors(c, &a, false);
  if (status) return status;
  if (!same && !cni_arg_is(c->args, 4, "valid"))
    return cn_call_fail(c, CN_ERR_VALUE, "padding must be a number, 'same' or 'valid', not '%s'",
                        cni_arg_str(c->args, 4));
  for (int i = 0; same && i < n; i++) {
    int64_t reach;
    if (a.stride[i] != 1)
      return cn_call_fail(c, CN_ERR_VALUE, "padding 'same' is not for strides other than 1");
    if (__builtin_mul_overflow(a.dilation[i], w->shape[2 + i] - 1, &reach) || reach > INT32_MAX)
      return cn_call_fail(c, CN_ERR_SHAPE, "the kernel is too large");
    a.padding[i] = (reach + 1) / 2;
  }
  cn_tensor *y = conv(c->in[0], c->in[1], c->in[2], &a);
  for (int i = 0; same && y && i < n; i++) {
    int dim = y->d.ndim - n + i;
    if (a.dilation[i] * (w->shape[2 + i] - 1) % 2) y = cn_narrow(y, dim, 1, y->d.shape[dim] - 1);
  }
  c->out[0] = cn_contiguous(y);
  return cn_err();
}

static int by_word1d_decompose(cn_call *c) { return by_word(c, 1); }
static int by_word2d_decompose(cn_call *c) { return by_word(c, 2); }
static int by_word3d_decompose(cn_call *c) { return by_word(c, 3); }

/* clang-format off */
const cn_op cni_conv_nd_ops[] = {
  {.sig = "conv3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
          "int[3] dilation=1, int groups=1) -> Tensor ; nn amp_low grad_fn_ConvolutionBackward0",
   .doc = "Cross-correlation of volumes with kernels. input: (N, C, D, H, W) or (C, D, H, W), weight: (K, C / groups, "
          "kD, kH, kW), bias: (K), result: (N, K, Dout, Hout, Wout) or (K, Dout, Hout, Wout). See conv2d.",
   .flags = CN_OP_COMPOSITE, .decompose = conv3d_decompose},
  {.sig = "conv_transpose1d(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, int[1] padding=0, "
          "int[1] output_padding=0, int groups=1, int[1] dilation=1) -> Tensor ; nn amp_low "
          "grad_fn_ConvolutionBackward0",
   .doc = "Transposed convolution of signals: the gradient of conv1d with respect to its input. input: (N, C, L) or "
          "(C, L), weight: (C, K / groups, kL), bias: (K), result: (N, K, Lout) or (K, Lout), where Lout = (L - 1) * "
          "stride - 2 * padding + dilation * (kL - 1) + output_padding + 1.",
   .flags = CN_OP_COMPOSITE, .decompose = transposed1d_decompose},
  {.sig = "conv_transpose2d(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, int[2] padding=0, "
          "int[2] output_padding=0, int groups=1, int[2] dilation=1) -> Tensor ; nn amp_low "
          "grad_fn_ConvolutionBackward0",
   .doc = "Transposed convolution of images: the gradient of conv2d with respect to its input. input: (N, C, H, W) or "
          "(C, H, W), weight: (C, K / groups, kH, kW), bias: (K), result: (N, K, Hout, Wout) or (K, Hout, Wout), where "
          "Hout = (H - 1) * stride - 2 * padding + dilation * (kH - 1) + output_padding + 1.",
   .flags = CN_OP_COMPOSITE, .decompose = transposed2d_decompose},
  {.sig = "conv_transpose3d(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, int[3] padding=0, "
          "int[3] output_padding=0, int groups=1, int[3] dilation=1) -> Tensor ; nn amp_low "
          "grad_fn_ConvolutionBackward0",
   .doc = "Transposed convolution of volumes: the gradient of conv3d with respect to its input. input: (N, C, D, H, W) "
          "or (C, D, H, W), weight: (C, K / groups, kD, kH, kW), bias: (K). See conv_transpose2d.",
   .flags = CN_OP_COMPOSITE, .decompose = transposed3d_decompose},
  {.sig = "conv1d_padding(Tensor input, Tensor weight, Tensor? bias=None, int[1] stride=1, str padding='valid', "
          "int[1] dilation=1, int groups=1) -> Tensor ; nn overload_conv1d complex",
   .doc = "conv1d with padding by word: 'valid' for none, 'same' for as much as keeps the size (strides of 1 only).",
   .flags = CN_OP_COMPOSITE, .decompose = by_word1d_decompose, .copied = CN_IN(0)},
  {.sig = "conv2d_padding(Tensor input, Tensor weight, Tensor? bias=None, int[2] stride=1, str padding='valid', "
          "int[2] dilation=1, int groups=1) -> Tensor ; nn overload_conv2d complex",
   .doc = "conv2d with padding by word: 'valid' for none, 'same' for as much as keeps the size (strides of 1 only).",
   .flags = CN_OP_COMPOSITE, .decompose = by_word2d_decompose, .copied = CN_IN(0)},
  {.sig = "conv3d_padding(Tensor input, Tensor weight, Tensor? bias=None, int[3] stride=1, str padding='valid', "
          "int[3] dilation=1, int groups=1) -> Tensor ; nn overload_conv3d complex",
   .doc = "conv3d with padding by word: 'valid' for none, 'same' for as much as keeps the size (strides of 1 only).",
   .flags = CN_OP_COMPOSITE, .decompose = by_word3d_decompose, .copied = CN_IN(0)},
};
/* clang-format on */
CNI_FAMILY(conv_nd);
