/* softmax.c: the family of softmax, log_softmax and logsumexp.
 *
 * Place in the flow: rows for apply; kernels stand in backends/cpu/reduce/softmax.c. Invariant: gradients are made
 * from the result, never by computing exponentials of large numbers again. While a gradient is itself being
 * recorded it is written with plain ops, so that it can be differentiated to any order. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "cost.h"
#include "families.h"
#include "reduce.h"
#include "shorthand.h"

/* softmax and log_softmax: (input, dim, dtype) */
static int softmax_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int dtype = cni_arg_none(c->args, 2) ? d->dtype : (int)c->args[2].u.i;
  int dim = cn_call_dim(c, cni_arg_int(c->args, 1), d->ndim);
  if (dim < 0) return dim;
  if (!cni_dtype_valid(dtype) || !cni_dtype_is_float(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast input or set dtype",
                        cn_dtype_name((cn_dtype)dtype));
  int status = cni_check_computes(c, dtype);
  return status ? status : cni_infer_like(c, 0, 0, dtype);
}

/* The input in the result's type; another call in that type then finds the kernel, if there is one. */
static bool needs_cast(const cn_call *c) { return c->in[0]->d.dtype != c->spec[0].dtype; }

static cn_tensor *off_by_max(cn_tensor *x, cn_ints dims)
{
  return cn_numel(x) ? cn_sub(x, cn_amax(x, .dim = dims, .keepdim = true)) : x;
}

static int softmax_decompose(cn_call *c)
{
  int64_t dim = cni_arg_int(c->args, 1);
  cn_ints dims = {&dim, 1};
  if (needs_cast(c)) {
    c->out[0] = cn_softmax(cn_cast(c->in[0], (cn_dtype)c->spec[0].dtype), dim);
    return cn_err();
  }
  cn_tensor *power = cn_exp(off_by_max(c->in[0], dims));
  c->out[0] = cn_true_divide(power, cn_sum(power, .dim = dims, .keepdim = true));
  return cn_err();
}

static int log_softmax_decompose(cn_call *c)
{
  int64_t dim = cni_arg_int(c->args, 1);
  cn_ints dims = {&dim, 1};
  if (needs_cast(c)) {
    c->out[0] = cn_log_softmax(cn_cast(c->in[0], (cn_dtype)c->spec[0].dtype), dim);
    return cn_err();
  }
  cn_tensor *off = off_by_max(c->in[0], dims);
  c->out[0] = cn_sub(off, cn_log(cn_sum(cn_exp(off), .dim = dims, .keepdim = true)));
  return cn_err();
}

static cn_tensor *softmax_gradient(cn_tensor *g, cn_tensor *y, int64_t dim)
{
  return cn_mul(y, cn_sub(g, cn_sum(cn_mul(g, y), .dim = {&dim, 1}, .keepdim = true)));
}
static cn_tensor *log_softmax_gradient(cn_tensor *g, cn_tensor *y, int64_t dim)
{
  return cn_sub(g, cn_mul(cn_exp(y), cn_sum(g, .dim = {&dim, 1}, .keepdim = true)));
}

static int softmax_vjp(cn_vjp *v)
{
  int64_t dim = cni_arg_int(v->args, 1);
  v->gin[0] = cni_recording() ? softmax_gradient(v->g[0], v->out[0], dim)
                              : cn_softmax_backward(v->g[0], v->out[0], dim);
  return cn_err();
}
static int log_softmax_vjp(cn_vjp *v)
{
  int64_t dim = cni_arg_int(v->args, 1);
  v->gin[0] = cni_recording() ? log_softmax_gradient(v->g[0], v->out[0], dim)
                              : cn_log_softmax_backward(v->g[0], v->out[0], dim);
  return cn_err();
}

/* The gradients as ops: (grad_output, output, dim) */
static int backward_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *y = &c->in[1]->d;
  int dim = cn_call_dim(c, cni_arg_int(c->args, 2), y->ndim);
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (dim < 0) return dim;
  if (!cni_same_shape(g->ndim, g->shape, y->ndim, y->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the gradient's shape %s is not the result's %s",
                        cni_shape_text(have, sizeof have, g->ndim, g->shape),
                        cni_shape_text(want, sizeof want, y->ndim, y->shape));
  if (!cni_dtype_is_float(y->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  return cni_infer_like(c, 0, 1, y->dtype);
}
static int softmax_backward_decompose(cn_call *c)
{
  c->out[0] = softmax_gradient(cn_cast(c->in[0], cn_dtype_of(c->in[1])), c->in[1], cni_arg_int(c->args, 2));
  return cn_err();
}
static int log_softmax_backward_decompose(cn_call *c)
{
  c->out[0] =
      log_softmax_gradient(cn_cast(c->in[0], cn_dtype_of(c->in[1])), c->in[1], cni_arg_int(c->args, 2));
  return cn_err();
}

/* ---- logsumexp(input, dim, keepdim) ---- */

static int logsumexp_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], d->ndim, &mask), dtype = cni_float_type(d->dtype);
  if (!status) status = cni_check_computes(c, d->dtype);
  return status ? status : cni_reduced_result(c, 0, mask, cni_arg_bool(c->args, 2), dtype);
}

static int logsumexp_decompose(cn_call *c)
{
  cn_tensor *x = cn_cast(c->in[0], (cn_dtype)c->spec[0].dtype);
  int64_t room[CN_MAX_DIMS];
  cn_ints list = cni_dims_list(cni_vjp_mask(&c->args[1], cn_ndim(x)), cn_ndim(x), room);
  if (cn_numel(x) == 0) {
    c->out[0] = cn_log(cn_sum(cn_exp(x), .dim = list, .keepdim = cni_arg_bool(c->args, 2)));
    return cn_err();
  }
  cn_tensor *max = cn_amax(x, .dim = list, .keepdim = true);
  max = cn_where(cn_isinf(max), cn_num(0), max);
  cn_tensor *sum = cn_sum(cn_exp(cn_sub(x, max)), .dim = list, .keepdim = true);
  c->out[0] = cn_reshape(cn_add(cn_log(sum), max), c->spec[0].shape, (size_t)c->spec[0].ndim);
  return cn_err();
}

static int logsumexp_vjp(cn_vjp *v)
{
  int ndim = v->in_meta[0].ndim;
  uint32_t mask = cni_vjp_mask(&v->args[1], ndim);
  bool keepdim = cni_arg_bool(v->args, 2);
  cn_tensor *y = cni_with_dims(v->out[0], ndim, mask, keepdim);
  v->gin[0] = cn_mul(cni_with_dims(v->g[0], ndim, mask, keepdim), cn_exp(cn_sub(v->in[0], y)));
  return cn_err();
}

/* softmin(input, dim, dtype) */
static int softmin_decompose(cn_call *c)
{
  c->out[0] =
      cn_softmax(cn_neg(c->in[0]), cni_arg_int(c->args, 1), .dtype = (cn_dtype)cni_arg_int_or(c->args, 2, 0));
  return cn_err();
}

/* clang-format off */
const cn_op cni_softmax_ops[] = {
  {.sig = "softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor "
          "; method nn alias_special_softmax amp_f32_device",
   .doc = "exp(x) divided by its sum along a dimension.",
   .cost = cni_cost_softmax,
   .infer = softmax_infer, .vjp = softmax_vjp, .decompose = softmax_decompose, .needs = {[0] = CN_OUT(0)}},
  {.sig = "log_softmax(Tensor input, int dim, *, dtype? dtype=None) -> Tensor "
          "; method nn alias_special_log_softmax amp_f32_device",
   .doc = "Logarithm of softmax, exact where softmax would be 0.",
   .cost = cni_cost_softmax,
   .infer = softmax_infer, .vjp = log_softmax_vjp, .decompose = log_softmax_decompose, .needs = {[0] = CN_OUT(0)}},
  {.sig = "softmin(Tensor input, int dim, *, dtype? dtype=None) -> Tensor ; nn amp_f32_device",
   .doc = "softmax of -x.",
   .flags = CN_OP_COMPOSITE, .decompose = softmin_decompose},
  {.sig = "softmax_backward(Tensor grad_output, Tensor output, int dim) -> Tensor ; internal",
   .doc = "Gradient of softmax from its result. Has no gradient of its own: softmax writes its gradient with plain "
          "ops where that is asked for.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_softmax, .infer = backward_infer, .decompose = softmax_backward_decompose},
  {.sig = "log_softmax_backward(Tensor grad_output, Tensor output, int dim) -> Tensor ; internal",
   .doc = "Gradient of log_softmax from its result. Has no gradient of its own, as softmax_backward.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_softmax,
   .infer = backward_infer, .decompose = log_softmax_backward_decompose},
  {.sig = "logsumexp(Tensor input, int[] dim, bool keepdim=False) -> Tensor ; method alias_special_logsumexp "
          "amp_f32_device",
   .doc = "log(sum(exp(x))) along the dimensions, without overflow. Integers become floats.",
   .cost = cni_cost_softmax, .infer = logsumexp_infer, .vjp = logsumexp_vjp, .decompose = logsumexp_decompose,
   .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
};
/* clang-format on */
CNI_FAMILY(softmax);
