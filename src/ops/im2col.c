/* im2col.c: the windows of images as columns of a matrix, and the way back: im2col and col2im.
 *
 * Place in the flow: torch's unfold and fold; the convolutions over volumes are made of them. Invariant: the two are
 * each other's transposes, so gradients of any order end here. An image without a batch dim is a batch of one. */
#include <cairn/kw.h>

#include "families.h"
#include "shorthand.h"
#include "window.h"

/* The places of the attributes, counted from kernel_size. */
enum { KERNEL, DILATION, PADDING, STRIDE };

/* Checks the four attributes that begin at argument `first`. */
static int check_attributes(const cn_call *c, int first)
{
  int status = cni_pair_check(c, first + KERNEL, "kernel_size", 1);
  if (!status) status = cni_pair_check(c, first + DILATION, "dilation", 1);
  if (!status) status = cni_pair_check(c, first + PADDING, "padding", 0);
  return status ? status : cni_pair_check(c, first + STRIDE, "stride", 1);
}

/* Windows over an image of size[0] x size[1], into windows; an error when there are none. */
static int count_windows(const cn_call *c, int first, const int64_t *size, int64_t *windows)
{
  for (int i = 0; i < 2; i++) {
    int64_t room = size[i] + 2 * cni_pair(&c->args[first + PADDING], i), reach;
    if (__builtin_mul_overflow(cni_pair(&c->args[first + DILATION], i), cni_pair(&c->args[first + KERNEL], i) - 1,
                               &reach) ||
        reach >= room)
      return cn_call_fail(c, CN_ERR_SHAPE,
                          "kernel_size %lld with dilation %lld does not fit into images of %lld x %lld",
                          (long long)cni_pair(&c->args[first + KERNEL], i),
                          (long long)cni_pair(&c->args[first + DILATION], i), (long long)size[0], (long long)size[1]);
    windows[i] = (room - reach - 1) / cni_pair(&c->args[first + STRIDE], i) + 1;
  }
  return CN_OK;
}

static int64_t taps(const cn_call *c, int first)
{
  return cni_pair(&c->args[first + KERNEL], 0) * cni_pair(&c->args[first + KERNEL], 1);
}

/* ---- im2col(input, kernel_size, dilation, padding, stride) ---- */

static int im2col_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  char text[CNI_SHAPE_TEXT];
  int64_t windows[2], shape[3];
  int status = check_attributes(c, 1);
  if (status) return status;
  bool fits = x->ndim == 3 || x->ndim == 4;
  for (int i = x->ndim - 3; fits && i < x->ndim; i++) fits = x->shape[i] > 0;
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "takes images of shape (N, C, H, W) or (C, H, W) with at least one element each, not %s",
                        cni_shape_text(text, sizeof text, x->ndim, x->shape));
  if ((status = count_windows(c, 1, x->shape + x->ndim - 2, windows))) return status;
  int lead = x->ndim - 3;
  if (lead) shape[0] = x->shape[0];
  if (__builtin_mul_overflow(x->shape[lead], taps(c, 1), &shape[lead]))
    return cn_call_fail(c, CN_ERR_SHAPE, "kernel_size is too large");
  shape[lead + 1] = windows[0] * windows[1];
  return cn_call_result(c, 0, x->dtype, lead + 2, shape);
}

/* The two numbers of each attribute, kept for the calls below. */
typedef struct attributes {
  int64_t kernel[2], dilation[2], padding[2], stride[2];
} attributes;

static attributes attributes_of(const cn_value *args, int first)
{
  attributes a;
  for (int i = 0; i < 2; i++) {
    a.kernel[i] = cni_pair(&args[first + KERNEL], i);
    a.dilation[i] = cni_pair(&args[first + DILATION], i);
    a.padding[i] = cni_pair(&args[first + PADDING], i);
    a.stride[i] = cni_pair(&args[first + STRIDE], i);
  }
  return a;
}

static int im2col_vjp(cn_vjp *v)
{
  attributes a = attributes_of(v->args, 1);
  const cn_meta *x = &v->in_meta[0];
  v->gin[0] = cn_col2im(v->g[0], x->shape + x->ndim - 2, 2, a.kernel, 2,
                        .dilation = {a.dilation, 2}, .padding = {a.padding, 2}, .stride = {a.stride, 2});
  return cn_err();
}

/* ---- col2im(input, output_size, kernel_size, dilation, padding, stride) ---- */

static int col2im_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  char text[CNI_SHAPE_TEXT];
  int64_t size[2], windows[2], shape[4];
  int status = cni_pair_check(c, 1, "output_size", 1);
  if (!status) status = check_attributes(c, 2);
  if (status) return status;
  for (int i = 0; i < 2; i++) size[i] = cni_pair(&c->args[1], i);
  if ((status = count_windows(c, 2, size, windows))) return status;
  int lead = x->ndim - 2;
  if ((lead != 0 && lead != 1) || x->shape[lead] < 1 || x->shape[lead] % taps(c, 2) ||
      x->shape[lead + 1] != windows[0] * windows[1])
    return cn_call_fail(c, CN_ERR_SHAPE,
                        "takes columns of shape (N, C * %lld, %lld) or (C * %lld, %lld) for images of %lld x %lld, "
                        "not %s",
                        (long long)taps(c, 2), (long long)(windows[0] * windows[1]), (long long)taps(c, 2),
                        (long long)(windows[0] * windows[1]), (long long)size[0], (long long)size[1],
                        cni_shape_text(text, sizeof text, x->ndim, x->shape));
  if (lead) shape[0] = x->shape[0];
  shape[lead] = x->shape[lead] / taps(c, 2);
  shape[lead + 1] = size[0];
  shape[lead + 2] = size[1];
  return cn_call_result(c, 0, x->dtype, lead + 3, shape);
}

static int col2im_vjp(cn_vjp *v)
{
  attributes a = attributes_of(v->args, 2);
  v->gin[0] = cn_im2col(v->g[0], a.kernel, 2, .dilation = {a.dilation, 2},
                        .padding = {a.padding, 2}, .stride = {a.stride, 2});
  return cn_err();
}

/* fold(...): torch's name for col2im */
static int fold_decompose(cn_call *c)
{
  int status = check_attributes(c, 2);
  if (!status) status = cni_pair_check(c, 1, "output_size", 1);
  if (status) return status;
  attributes a = attributes_of(c->args, 2);
  int64_t size[2] = {cni_pair(&c->args[1], 0), cni_pair(&c->args[1], 1)};
  c->out[0] = cn_col2im(c->in[0], size, 2, a.kernel, 2, .dilation = {a.dilation, 2},
                        .padding = {a.padding, 2}, .stride = {a.stride, 2});
  return cn_err();
}

/* clang-format off */
const cn_op cni_im2col_ops[] = {
  {.sig = "im2col(Tensor input, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, int[2] stride=1) "
          "-> Tensor ; nn grad_fn_Im2ColBackward0 complex_parts",
   .doc = "The windows of images as columns (torch.nn.functional.unfold). input: (N, C, H, W) or (C, H, W), result: "
          "(N, C * kH * kW, L) or (C * kH * kW, L) for L windows, row by row; what lies in the padding is zero.",
   .infer = im2col_infer, .vjp = im2col_vjp},
  {.sig = "col2im(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, "
          "int[2] stride=1) -> Tensor ; nn complex_parts",
   .doc = "Images of output_size whose windows are the columns of input, added up where they overlap: the transpose "
          "of im2col. input: (N, C * kH * kW, L) or (C * kH * kW, L), result: (N, C, H, W) or (C, H, W).",
   .infer = col2im_infer, .vjp = col2im_vjp},
  {.sig = "fold(Tensor input, int[2] output_size, int[2] kernel_size, int[2] dilation=1, int[2] padding=0, "
          "int[2] stride=1) -> Tensor ; nn complex_parts",
   .doc = "Images of output_size whose windows are the columns of input, added up where they overlap. input: "
          "(N, C * kH * kW, L) or (C * kH * kW, L), result: (N, C, H, W) or (C, H, W).",
   .flags = CN_OP_COMPOSITE, .decompose = fold_decompose},
};
/* clang-format on */
CNI_FAMILY(im2col);
