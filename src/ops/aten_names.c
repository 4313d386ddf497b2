/* aten_names.c: ops of PyTorch's inside (aten) that programs call by their names: what others here do, with modes as
 * numbers, masks, or gradients as functions of their own.
 *
 * Place in the flow: composites. Invariant: arguments are checked where the op behind checks them. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <math.h>

#include "base/alloc.h"
#include "families.h"
#include "shorthand.h"

/* ---- softmax and dropout ---- */

/* safe_softmax(input, dim, dtype): rows that are -inf all through become zeros. */
static int safe_softmax_decompose(cn_call *c)
{
  int64_t dim = cni_arg_int(c->args, 1);
  cn_dtype dtype = (cn_dtype)cni_arg_int_or(c->args, 2, cni_float_type(c->in[0]->d.dtype));
  cn_tensor *x = cni_in_type(c->in[0], (int)dtype), *none = cn_num(0);
  cn_tensor *masked = cn_all(cn_eq(x, cn_num(-INFINITY)), .dim = CN_INTS(dim), .keepdim = true);
  c->out[0] = cn_where(masked, none, cn_softmax(cn_where(masked, none, x), dim));
  return cn_err();
}

/* softmax_backward_data(grad_output, output, dim, input_dtype) */
static int softmax_backward_data_decompose(cn_call *c)
{
  int wide = cni_is_half(c->in[1]->d.dtype) ? CN_F32 : c->in[1]->d.dtype; /* one rounding, at the end */
  cn_tensor *y = cni_in_type(c->in[1], wide), *product = cn_mul(cni_in_type(c->in[0], wide), y);
  cn_tensor *sum = cn_sum(product, .dim = CN_INTS(cni_arg_int(c->args, 2)), .keepdim = true);
  c->out[0] = cn_cast(cn_sub(product, cn_mul(y, sum)), (cn_dtype)cni_arg_int(c->args, 3));
  return cn_err();
}

/* native_dropout_backward(grad_output, mask, scale) */
static int native_dropout_backward_decompose(cn_call *c)
{
  cn_tensor *kept = cni_in_type(c->in[1], c->in[0]->d.dtype);
  c->out[0] = cn_mul(c->in[0], cn_mul(kept, cn_num(cni_arg_float(c->args, 2))));
  return cn_err();
}

/* ---- pools and grids ---- */

/* max_pool2d_with_indices_backward(grad_output, input, kernel_size, stride, padding, dilation, ceil_mode, indices) */
static int max_pool2d_backward_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *x = &c->in[1]->d, *index = &c->in[2]->d;
  for (int i = 2; i < 6; i++)
    if ((c->args[i].n < 1 && i != 3) || c->args[i].n > 2)
      return cn_call_fail(c, CN_ERR_VALUE, "sizes of windows are one number or two, not %d", (int)c->args[i].n);
  if (x->ndim != 3 && x->ndim != 4)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes images (N, C, H, W) or (C, H, W), not %d dims", (int)x->ndim);
  if (g->dtype != x->dtype || !cni_same_shape(g->ndim, g->shape, index->ndim, index->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "grad_output must have the type of input and the shape of indices");
  return cni_infer_like(c, 0, 1, x->dtype);
}

static int max_pool2d_backward_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[1]->d;
  int64_t windows[8];
  for (int i = 0; i < 8; i++) {
    const cn_value *pair = &c->args[2 + i / 2];
    if (!pair->n) pair = &c->args[2]; /* no stride: as wide as the window */
    windows[i] = pair->u.is[pair->n == 2 ? i % 2 : 0];
  }
  c->out[0] = cn_max_pool2d_backward(c->in[0], c->in[2], x->shape, (size_t)x->ndim, .windows = {windows, 8});
  return cn_err();
}

/* Of grad_output what lies at the indices; input is there for its shape. */
static int max_pool2d_backward_vjp(cn_vjp *v)
{
  const cn_meta *g = &v->in_meta[0];
  if (!v->need[0]) return CN_OK;
  cn_tensor *flat = cn_flatten(v->g[0], .start_dim = -2), *index = cn_flatten(v->in[2], .start_dim = -2);
  v->gin[0] = cn_reshape(cn_gather(flat, -1, index), g->shape, (size_t)g->ndim);
  return cn_err();
}

/* (input, grid, interpolation_mode, padding_mode, align_corners); dims: of the input, 0 for 4 or 5 */
static int sampler(cn_call *c, int dims)
{
  static const char *const modes[] = {"bilinear", "nearest", "bicubic"}, *const pads[] = {"zeros", "border",
                                                                                          "reflection"};
  int64_t mode = cni_arg_int(c->args, 2), pad = cni_arg_int(c->args, 3);
  int ndim = c->in[0]->d.ndim;
  if (mode < 0 || mode > (ndim == 4 ? 2 : 1))
    return cn_call_fail(c, CN_ERR_VALUE, "interpolation_mode must be 0 (bilinear), 1 (nearest) or, of images, 2 "
                                         "(bicubic), not %lld", (long long)mode);
  if (pad < 0 || pad > 2)
    return cn_call_fail(c, CN_ERR_VALUE, "padding_mode must be 0 (zeros), 1 (border) or 2 (reflection), not %lld",
                        (long long)pad);
  if (dims && ndim != dims) return cn_call_fail(c, CN_ERR_SHAPE, "takes an input of %d dims, not %d", dims, ndim);
  cn_grid_sample_opts o = {.size = sizeof o, .mode = modes[mode], .padding_mode = pads[pad],
                           .align_corners = cni_arg_bool(c->args, 4) ? 1 : CN_ZERO};
  c->out[0] = cn_grid_sample_with(c->in[0], c->in[1], &o);
  return cn_err();
}
static int grid_sampler_decompose(cn_call *c) { return sampler(c, 0); }
static int grid_sampler_2d_decompose(cn_call *c) { return sampler(c, 4); }
static int grid_sampler_3d_decompose(cn_call *c) { return sampler(c, 5); }

/* upsample_bilinear2d_aa(input, output_size, align_corners, scales_h, scales_w) */
static int upsample_aa_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  const int64_t *size = c->args[1].u.is;
  int type = x->d.dtype;
  if (x->d.ndim != 4) return cn_call_fail(c, CN_ERR_SHAPE, "takes images (N, C, H, W), not %d dims", (int)x->d.ndim);
  if (!cni_dtype_is_float(type) && type != CN_U8)
    return cn_call_fail(c, CN_ERR_DTYPE, "not for %s; cast the input with cn_cast", cn_dtype_name((cn_dtype)type));
  for (int i = 1; i < 4; i++)
    if (x->d.shape[i] < 1 || (i > 1 && size[i - 2] < 1))
      return cn_call_fail(c, CN_ERR_SHAPE, "channels and sizes must be at least 1, before and after");
  if (type != CN_F64 && type != CN_U8) x = cni_in_type(x, CN_F32);
  for (int i = 1; i >= 0; i--) {
    double scale = cni_arg_none(c->args, 3 + i) ? 0 : cni_arg_float(c->args, 3 + i);
    x = cn_resample(x, 2 + i, size[i], "linear", cni_arg_bool(c->args, 2), scale, true);
  }
  c->out[0] = cni_in_type(x, type);
  return cn_err();
}

/* ---- at indices, where a mask allows ---- */

/* The indices with 0 where the mask is false, and c's result of reading or writing with them. */
static int masked_at(cn_call *c, cn_tensor *values)
{
  const cn_value *list = &c->args[2];
  cn_tensor *at[CN_MAX_DIMS], *mask = c->in[1];
  if (mask->d.dtype != CN_BOOL) return cn_call_fail(c, CN_ERR_DTYPE, "the mask must be bool");
  if (list->n > CN_MAX_DIMS) return cn_call_fail(c, CN_ERR_SHAPE, "%d indices are too many", (int)list->n);
  for (int i = 0; i < list->n; i++)
    at[i] = c->in[2 + i] ? cn_where(mask, c->in[2 + i], cn_int(0)) : NULL;
  cn_tensor *no = cn_logical_not(mask);
  if (values) {
    c->out[0] = cn_index_put(c->in[0], at, (size_t)list->n, cn_masked_fill(values, no, cn_int(0)), .accumulate = true);
    return cn_err();
  }
  c->out[0] = cn_masked_fill(cn_index(c->in[0], at, (size_t)list->n), no, cni_number(&c->args[3]));
  return cn_err();
}
static int masked_index_decompose(cn_call *c)
{
  if (c->in[0]->d.numel == 0) { /* nothing to read: the mask must be false throughout */
    int64_t shape[CN_MAX_DIMS];
    int ndim, status = cni_broadcast_inputs(c, c->in + 1, c->nin - 1, &ndim, shape);
    if (status) return status;
    c->out[0] = cn_masked_fill(cn_zeros(shape, (size_t)ndim, .dtype = cn_dtype_of(c->in[0]), .device = c->device),
                               cn_logical_not(c->in[1]), cni_number(&c->args[3]));
    return cn_err();
  }
  return masked_at(c, NULL);
}
static int masked_put_decompose(cn_call *c)
{
  if (c->in[0]->d.numel == 0) {
    c->out[0] = cn_clone(c->in[0]);
    return cn_err();
  }
  return masked_at(c, c->in[c->nin - 1]);
}

/* ---- chunk_cat(tensors, dim, num_chunks) ---- */

/* (..., n, ...) as (..., chunks, what a chunk holds): n padded with zeros to a multiple. */
static cn_tensor *in_chunks(cn_tensor *x, int dim, int64_t chunks)
{
  const cn_desc *d = &x->d;
  int64_t size = (d->shape[dim] + chunks - 1) / chunks, pad[2 * CN_MAX_DIMS] = {0}, shape[CN_MAX_DIMS];
  int behind = d->ndim - dim;
  pad[2 * behind - 1] = size * chunks - d->shape[dim];
  memcpy(shape, d->shape, (size_t)dim * sizeof *shape);
  shape[dim] = chunks;
  shape[dim + 1] = -1;
  return cn_reshape(cn_constant_pad_nd(x, pad, 2 * (size_t)behind), shape, (size_t)dim + 2);
}

static int chunk_cat_check(const cn_call *c, int64_t dim)
{
  const cn_desc *f = &c->in[0]->d;
  if (cni_arg_int(c->args, 2) < 1) return cn_call_fail(c, CN_ERR_VALUE, "num_chunks must be positive");
  for (int i = 0; i < c->nin; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (d->numel == 0) return cn_call_fail(c, CN_ERR_SHAPE, "tensor %d is empty", i);
    if (d->ndim != f->ndim && cni_arg_int(c->args, 1) < 0)
      return cn_call_fail(c, CN_ERR_VALUE, "dim must not be negative where tensors have different numbers of dims");
    if (dim < 0 || dim >= d->ndim)
      return cn_call_fail(c, CN_ERR_INDEX, "dim %lld is out of range for tensor %d", (long long)dim, i);
    if (d->dtype != f->dtype) return cn_call_fail(c, CN_ERR_DTYPE, "takes tensors of one type");
    if (memcmp(d->shape, f->shape, (size_t)dim * sizeof *d->shape))
      return cn_call_fail(c, CN_ERR_SHAPE, "tensor %d has other sizes before dim %lld than tensor 0", i,
                          (long long)dim);
  }
  return CN_OK;
}

static int chunk_cat_decompose(cn_call *c)
{
  if (c->nin == 0) return cn_call_fail(c, CN_ERR_VALUE, "needs at least one tensor");
  int64_t dim = cni_arg_int(c->args, 1), chunks = cni_arg_int(c->args, 2);
  if (dim < 0) dim += c->in[0]->d.ndim;
  int status = chunk_cat_check(c, dim);
  size_t bytes = (size_t)c->nin * sizeof(cn_tensor *);
  cn_tensor **list = status ? NULL : cni_alloc(bytes);
  if (!list) return status ? status : CN_ERR_MEMORY;
  for (int i = 0; i < c->nin; i++) list[i] = in_chunks(c->in[i], (int)dim, chunks);
  if (!cn_err()) c->out[0] = cn_cat(list, (size_t)c->nin, .dim = cni_option(dim + 1));
  cni_free(list, bytes);
  return cn_err();
}

/* clang-format off */
const cn_op cni_aten_names_ops[] = {
  {.sig = "safe_softmax(Tensor input, int dim, dtype? dtype=None) -> Tensor ; alias__safe_softmax",
   .doc = "softmax, but zeros where a row is -inf all through.",
   .flags = CN_OP_COMPOSITE, .decompose = safe_softmax_decompose},
  {.sig = "softmax_backward_data(Tensor grad_output, Tensor output, int dim, dtype input_dtype) -> Tensor "
          "; alias__softmax_backward_data",
   .doc = "The gradient of softmax from its result, in the type of softmax's input.",
   .flags = CN_OP_COMPOSITE, .decompose = softmax_backward_data_decompose},
  {.sig = "native_dropout_backward(Tensor grad_output, Tensor mask, float scale) -> Tensor",
   .doc = "The gradient of a dropout that kept elements by mask and multiplied them by scale.",
   .flags = CN_OP_COMPOSITE, .decompose = native_dropout_backward_decompose},
  {.sig = "max_pool2d_with_indices_backward(Tensor grad_output, Tensor input, int[] kernel_size, int[] stride, "
          "int[] padding, int[] dilation, bool ceil_mode, Tensor indices) -> Tensor",
   .doc = "The gradient of max_pool2d_with_indices: grad_output added up at the indices. The lists are two numbers "
          "each, or one for both; of stride none stands for kernel_size.",
   .infer = max_pool2d_backward_infer, .vjp = max_pool2d_backward_vjp, .decompose = max_pool2d_backward_decompose,
   .needs = {[0] = CN_IN(2)}},
  {.sig = "grid_sampler(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
          "-> Tensor",
   .doc = "grid_sample with its modes as numbers: bilinear, nearest, bicubic; zeros, border, reflection.",
   .flags = CN_OP_COMPOSITE, .decompose = grid_sampler_decompose},
  {.sig = "grid_sampler_2d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
          "-> Tensor",
   .doc = "grid_sampler of images.",
   .flags = CN_OP_COMPOSITE, .decompose = grid_sampler_2d_decompose},
  {.sig = "grid_sampler_3d(Tensor input, Tensor grid, int interpolation_mode, int padding_mode, bool align_corners) "
          "-> Tensor",
   .doc = "grid_sampler of volumes.",
   .flags = CN_OP_COMPOSITE, .decompose = grid_sampler_3d_decompose},
  {.sig = "upsample_bilinear2d_aa(Tensor input, int[2] output_size, bool align_corners, float? scales_h=None, "
          "float? scales_w=None) -> Tensor",
   .doc = "interpolate of images, bilinear with antialias. A scale maps positions in place of the ratio of sizes.",
   .flags = CN_OP_COMPOSITE, .decompose = upsample_aa_decompose},
  {.sig = "unsafe_masked_index(Tensor input, Tensor mask, Tensor?[] indices, Scalar fill) -> Tensor "
          "; alias__unsafe_masked_index complex",
   .doc = "input at the indices where mask is true, fill elsewhere: there the indices are not looked at.",
   .flags = CN_OP_COMPOSITE, .decompose = masked_index_decompose},
  {.sig = "unsafe_masked_index_put_accumulate(Tensor input, Tensor mask, Tensor?[] indices, Tensor values) -> Tensor "
          "; alias__unsafe_masked_index_put_accumulate complex",
   .doc = "input with values added at the indices where mask is true.",
   .flags = CN_OP_COMPOSITE, .decompose = masked_put_decompose},
  {.sig = "chunk_cat(Tensor[] tensors, int dim, int num_chunks) -> Tensor ; alias__chunk_cat complex",
   .doc = "Each tensor cut into num_chunks along dim, with zeros at the end where they do not fit, and the chunks of "
          "each number laid flat behind one another.",
   .flags = CN_OP_COMPOSITE, .decompose = chunk_cat_decompose},
};
/* clang-format on */
CNI_FAMILY(aten_names);
