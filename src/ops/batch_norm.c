/* batch_norm.c: the family of normalisations per channel: batch and instance norm.
 *
 * Place in the flow: batch_norm is a composite over native_batch_norm, whose kernels stand in
 * backends/cpu/reduce/batch_norm.c. Invariant: the running statistics are changed by the composite alone, outside of
 * any history; as in norm.c, a gradient that is recorded is written with plain ops. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <math.h>

#include "cost.h"
#include "families.h"
#include "infer.h"
#include "norm.h"

/* ---- batch norm ---- */

int64_t cni_channels_of(const cn_desc *x) { return x->ndim > 1 ? x->shape[1] : 0; }

int cni_check_channels(const cn_call *c, cn_tensor *t, const char *name, int64_t channels)
{
  if (!t || (t->d.ndim == 1 && t->d.shape[0] == channels)) return CN_OK;
  char have[CNI_SHAPE_TEXT];
  return cn_call_fail(c, CN_ERR_SHAPE, "%s has shape %s, but the input has %lld channels", name,
                      cni_shape_text(have, sizeof have, t->d.ndim, t->d.shape), (long long)channels);
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, eps) -> (output, save_mean,
 * save_invstd, batch_var) */
static int batch_norm_infer(cn_call *c)
{
  static const char *const names[] = {"input", "weight", "bias", "running_mean", "running_var"};
  const cn_desc *x = &c->in[0]->d;
  bool training = cni_arg_bool(c->args, 5);
  int64_t channels = cni_channels_of(x);
  if (x->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), not %d dimensions", (int)x->ndim);
  if (!cni_dtype_is_float(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  int status = cni_check_computes(c, x->dtype);
  for (int i = 1; i < 5 && !status; i++) status = cni_check_channels(c, c->in[i], names[i], channels);
  if (status) return status;
  if (!training && (!c->in[3] || !c->in[4]))
    return cn_call_fail(c, CN_ERR_VALUE, "running_mean and running_var must be given when not training");
  if (training && channels && x->numel / channels <= 1)
    return cn_call_fail(c, CN_ERR_VALUE, "training needs more than 1 value per channel");
  status = cni_infer_like(c, 0, 0, x->dtype);
  for (int i = 1; i < 4 && !status; i++)
    status = cn_call_result(c, i, cni_wide_type(x->dtype), 1, &channels);
  return status;
}

/* (C) as (1, C, 1, ...) */
cn_tensor *cni_per_channel(cn_tensor *t, int ndim)
{
  int64_t shape[CN_MAX_DIMS];
  for (int i = 0; i < ndim; i++) shape[i] = i == 1 ? -1 : 1;
  return cn_reshape(t, shape, (size_t)ndim);
}

cn_ints cni_all_but_channels(int ndim, int64_t *room)
{
  cn_ints dims = {room, 0};
  for (int i = 0; i < ndim; i++)
    if (i != 1) room[dims.n++] = i;
  return dims;
}

static int plain_batch_norm_vjp(cn_vjp *v, bool training)
{
  int ndim = v->in_meta[0].ndim;
  int64_t room[CN_MAX_DIMS];
  cn_ints dims = cni_all_but_channels(ndim, room);
  cn_tensor *x = v->in[0], *g = v->g[0], *w = v->in[1], *off, *rstd;
  if (training) {
    off = cn_sub(x, cn_mean(x, .dim = dims, .keepdim = true));
    cn_tensor *var = cn_mean(cn_square(off), .dim = dims, .keepdim = true);
    rstd = cn_rsqrt(cn_add(var, cn_num(cni_arg_float(v->args, 6))));
  } else { /* constants: saved copies of the running statistics */
    off = cn_sub(x, cni_per_channel(cn_detach(v->out[1]), ndim));
    rstd = cni_per_channel(cn_detach(v->out[2]), ndim);
  }
  cn_tensor *h = cn_mul(off, rstd), *gw = w ? cn_mul(g, cni_per_channel(w, ndim)) : g;
  if (v->need[0]) v->gin[0] = training ? cni_norm_gradient(gw, h, rstd, dims, true) : cn_mul(gw, rstd);
  if (v->need[1]) v->gin[1] = cn_sum(cn_mul(g, h), .dim = dims);
  if (v->need[2]) v->gin[2] = cn_sum(g, .dim = dims);
  return cn_err();
}

static int batch_norm_vjp(cn_vjp *v)
{
  int64_t mask[3];
  bool training = cni_arg_bool(v->args, 5);
  if (!v->g[0]) return CN_OK;
  if (cni_recording()) return plain_batch_norm_vjp(v, training);
  cni_norm_wanted(v, (const int[]){0, 1, 2}, mask);
  if (!mask[0] && !mask[1]) {
    int64_t room[CN_MAX_DIMS];
    v->gin[2] = cn_sum(v->g[0], .dim = cni_all_but_channels(v->in_meta[0].ndim, room));
    return cn_err();
  }
  return cn_native_batch_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL,
                                       mask[2] ? &v->gin[2] : NULL, v->g[0], v->in[0], v->in[1], v->out[1],
                                       v->out[2], training, mask, 3);
}

/* (grad_out, input, weight, save_mean, save_invstd, training, output_mask) */
static int batch_norm_backward_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *x = &c->in[1]->d;
  int64_t channels = cni_channels_of(x);
  int type = c->in[2] ? c->in[2]->d.dtype : x->dtype, status = cni_check_computes(c, x->dtype);
  if (x->ndim < 2 || !cni_same_shape(g->ndim, g->shape, x->ndim, x->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the gradient must have the input's shape (N, C, ...)");
  if (!cni_dtype_is_float(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  for (int i = 2; i < 5 && !status; i++)
    status = cni_check_channels(c, c->in[i], i == 2 ? "weight" : "a saved statistic", channels);
  for (int i = 3; i < 5 && !status; i++)
    if (c->in[i]->d.dtype != cni_wide_type(x->dtype))
      return cn_call_fail(c, CN_ERR_DTYPE, "not the saved statistics");
  if (!status) status = cni_masked_result(c, 0, &c->args[6], x->dtype, x->ndim, x->shape);
  if (!status && c->spec[0].ndim == x->ndim) cni_follow_strides(c, 0, &c->in[1], 1);
  for (int i = 1; i < 3 && !status; i++) status = cni_masked_result(c, i, &c->args[6], type, 1, &channels);
  return status;
}

/* ---- its parts, as compiled functions use them where a device has kernels for them (passes/norms.c) ---- */

/* batch_norm_stats(input, eps) -> (save_mean, save_invstd, batch_var) */
static int stats_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t channels = cni_channels_of(x);
  if (x->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), not %d dimensions", (int)x->ndim);
  if (!cni_dtype_is_float(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  int status = cni_check_computes(c, x->dtype);
  for (int i = 0; i < 3 && !status; i++) status = cn_call_result(c, i, cni_wide_type(x->dtype), 1, &channels);
  return status;
}

static int stats_decompose(cn_call *c)
{
  cn_tensor *y;
  return cn_native_batch_norm(&y, &c->out[0], &c->out[1], &c->out[2], c->in[0], NULL, NULL, NULL, NULL, true,
                              cni_arg_float(c->args, 1));
}

/* batch_norm_apply(input, weight, bias, mean, var, residual, eps, inverted, relu) */
static int apply_infer(cn_call *c)
{
  static const char *const names[] = {"input", "weight", "bias", "mean", "var"};
  const cn_desc *x = &c->in[0]->d, *r = c->in[5] ? &c->in[5]->d : x;
  if (x->ndim < 2 || !cni_same_shape(x->ndim, x->shape, r->ndim, r->shape) || r->dtype != x->dtype)
    return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), and a residual of the same shape and type");
  if (!cni_dtype_is_float(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  int status = cni_check_computes(c, x->dtype);
  for (int i = 1; i < 5 && !status; i++) status = cni_check_channels(c, c->in[i], names[i], cni_channels_of(x));
  return status ? status : cni_infer_like(c, 0, 0, x->dtype);
}

static int apply_decompose(cn_call *c)
{
  int ndim = cn_ndim(c->in[0]), dtype = c->in[0]->d.dtype, type = cni_wide_type(dtype);
  cn_tensor *x = cni_in_type(c->in[0], type), *mean = cni_in_type(c->in[3], type), *rstd = cni_in_type(c->in[4], type);
  if (!cni_arg_bool(c->args, 7)) rstd = cn_rsqrt(cn_add(rstd, cn_num(cni_arg_float(c->args, 6))));
  cn_tensor *y = cn_mul(cn_sub(x, cni_per_channel(mean, ndim)), cni_per_channel(rstd, ndim));
  if (c->in[1]) y = cn_mul(y, cni_per_channel(cni_in_type(c->in[1], type), ndim));
  if (c->in[2]) y = cn_add(y, cni_per_channel(cni_in_type(c->in[2], type), ndim));
  if (c->in[5]) y = cn_add(y, cni_in_type(c->in[5], type));
  if (cni_arg_bool(c->args, 8)) y = cn_relu(y);
  c->out[0] = cni_in_type(y, dtype);
  return cn_err();
}

/* batch_norm_relu_backward(grad_out, input, weight, bias, save_mean, save_invstd, training, output_mask) */
static int relu_backward_infer(cn_call *c)
{
  cn_tensor *in[] = {c->in[0], c->in[1], c->in[2], c->in[4], c->in[5]};
  cn_call plain = *c;
  int status = cni_check_channels(c, c->in[3], "bias", cni_channels_of(&c->in[1]->d));
  plain.in = in;
  plain.args = c->args + 1; /* training and output_mask are where they are without a bias */
  return status ? status : batch_norm_backward_infer(&plain);
}

static int relu_backward_decompose(cn_call *c)
{
  int type = cni_wide_type(c->in[1]->d.dtype);
  const cn_value *mask = &c->args[7];
  cn_tensor *y = cn_batch_norm_apply(cni_in_type(c->in[1], type), c->in[2], c->in[3], c->in[4], c->in[5], NULL, 0, true,
                                     false);
  cn_tensor *g = cn_where(cn_le(y, cn_num(0)), cn_num(0), c->in[0]);
  return cn_native_batch_norm_backward(&c->out[0], &c->out[1], &c->out[2], g, c->in[1], c->in[2], c->in[4], c->in[5],
                                       cni_arg_bool(c->args, 6), mask->u.is, (size_t)mask->n);
}

/* (grad_out, other, result, input, weight, save_mean, save_invstd, training, output_mask) */
static int add_relu_backward_infer(cn_call *c)
{
  const cn_desc *x = &c->in[3]->d;
  cn_tensor *in[] = {c->in[0], c->in[3], c->in[4], c->in[5], c->in[6]};
  cn_call plain = *c;
  plain.in = in;
  plain.args = c->args + 2; /* training and output_mask are where they are without other and result */
  for (int i = 0; i < 3; i++)
    if (!cni_same_shape(c->in[i]->d.ndim, c->in[i]->d.shape, x->ndim, x->shape) || c->in[i]->d.dtype != x->dtype)
      return cn_call_fail(c, CN_ERR_SHAPE, "takes gradients and a result of the input's shape and type");
  int status = batch_norm_backward_infer(&plain);
  return status ? status : cni_infer_like(c, 3, 3, x->dtype);
}

static int add_relu_backward_decompose(cn_call *c)
{
  const cn_value *mask = &c->args[8];
  c->out[3] = cn_where(cn_le(c->in[2], cn_num(0)), cn_num(0), cn_add(c->in[0], c->in[1]));
  return cn_native_batch_norm_backward(&c->out[0], &c->out[1], &c->out[2], c->out[3], c->in[3], c->in[4], c->in[5],
                                       c->in[6], cni_arg_bool(c->args, 7), mask->u.is, (size_t)mask->n);
}

/* ---- the primitives with plain ops, for backends without kernels ---- */

static int native_batch_norm_decompose(cn_call *c)
{
  int ndim = cn_ndim(c->in[0]), dtype = c->in[0]->d.dtype, type = cni_wide_type(dtype);
  int64_t room[CN_MAX_DIMS],
      count = c->in[0]->d.numel / (cni_channels_of(&c->in[0]->d) ? cni_channels_of(&c->in[0]->d) : 1);
  cn_ints dims = cni_all_but_channels(ndim, room);
  cn_tensor *x = cni_in_type(c->in[0], type), *mean = cni_in_type(c->in[3], type), *var = cni_in_type(c->in[4], type);
  c->out[3] = var;
  if (cni_arg_bool(c->args, 5)) {
    mean = cn_mean(x, .dim = dims);
    cn_tensor *sum = cn_sum(cn_square(cn_sub(x, cni_per_channel(mean, ndim))), .dim = dims);
    var = cn_true_divide(sum, cn_int(count));
    c->out[3] = cn_true_divide(sum, cn_int(count - 1));
  }
  cn_tensor *invstd = cn_rsqrt(cn_add(var, cn_num(cni_arg_float(c->args, 6))));
  cn_tensor *y = cn_mul(cn_sub(x, cni_per_channel(mean, ndim)), cni_per_channel(invstd, ndim));
  if (c->in[1]) y = cn_mul(y, cni_per_channel(cni_in_type(c->in[1], type), ndim));
  if (c->in[2]) y = cn_add(y, cni_per_channel(cni_in_type(c->in[2], type), ndim));
  c->out[0] = cni_in_type(y, dtype);
  c->out[1] = mean;
  c->out[2] = invstd;
  for (int i = 1; i < 4; i++)
    if (c->out[i] == c->in[3] || c->out[i] == c->in[4]) c->out[i] = cn_clone(c->out[i]);
  return cn_err();
}

static int native_batch_norm_backward_decompose(cn_call *c)
{
  int ndim = cn_ndim(c->in[1]), type = cni_wide_type(c->in[1]->d.dtype);
  const cn_value *mask = &c->args[6];
  int64_t room[CN_MAX_DIMS];
  cn_ints dims = cni_all_but_channels(ndim, room);
  cn_tensor *g = cni_in_type(c->in[0], type), *x = cni_in_type(c->in[1], type), *w = cni_in_type(c->in[2], type);
  cn_tensor *invstd = cni_per_channel(c->in[4], ndim),
            *h = cn_mul(cn_sub(x, cni_per_channel(c->in[3], ndim)), invstd);
  cn_tensor *gw = w ? cn_mul(g, cni_per_channel(w, ndim)) : g, *gx = NULL;
  bool want[3];
  for (int i = 0; i < 3; i++) want[i] = i < mask->n && mask->u.is[i];
  if (want[0])
    gx = cni_arg_bool(c->args, 5) ? cni_norm_gradient(gw, h, invstd, dims, true) : cn_mul(gw, invstd);
  c->out[0] = cni_norm_or_empty(c, 0, want[0], gx);
  c->out[1] = cni_norm_or_empty(c, 1, want[1], want[1] ? cn_sum(cn_mul(g, h), .dim = dims) : NULL);
  c->out[2] = cni_norm_or_empty(c, 2, want[2], want[2] ? cn_sum(g, .dim = dims) : NULL);
  return cn_err();
}

/* ---- the public ops ---- */

/* As PyTorch: nothing is its own norm, moves no statistics, and gives the parameters a gradient of zero. */
static int norm_of_nothing(cn_call *c)
{
  cn_tensor *y = cn_clone(c->in[0]);
  for (int i = 1; i < 5 && c->in[0]->d.ndim > 1; i++) {
    int status = cni_check_channels(c, c->in[i], "a parameter", cni_channels_of(&c->in[0]->d));
    if (status) return status;
  }
  if (c->in[3] && c->in[3]->d.numel) y = cn_mul(y, cn_select(c->in[3], 0, 0));
  if (c->in[4] && c->in[4]->d.numel) y = cn_add(y, cn_select(c->in[4], 0, 0));
  c->out[0] = cni_in_type(y, c->in[0]->d.dtype);
  return cn_err();
}

/* batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps) */
static int batch_norm_decompose(cn_call *c)
{
  cn_tensor *mean, *var, *running_mean = c->in[1], *running_var = c->in[2];
  bool training = cni_arg_bool(c->args, 5);
  if (!(cni_arg_float(c->args, 7) > 0))
    return cn_call_fail(c, CN_ERR_VALUE, "eps must be positive, but is %g", cni_arg_float(c->args, 7));
  if (c->in[0]->d.numel == 0) return norm_of_nothing(c);
  cn_tensor *momentum = cn_num(cni_arg_float(c->args, 6));
  int status = cn_native_batch_norm(&c->out[0], &mean, NULL, &var, c->in[0], c->in[3], c->in[4], running_mean,
                                    running_var, training, cni_arg_float(c->args, 7));
  if (status || !training) return status;
  if (running_mean) cn_lerp_(running_mean, cn_cast(cn_detach(mean), cn_dtype_of(running_mean)), momentum);
  if (running_var) cn_lerp_(running_var, cn_cast(cn_detach(var), cn_dtype_of(running_var)), momentum);
  return cn_err();
}

/* ---- instance norm ---- */

/* Running statistics of an instance norm: those of (N * C) channels, averaged over N and written back. */
static void write_back(cn_tensor *running, cn_tensor *repeated, int64_t n)
{
  if (running) cn_copy_(running, cn_mean(cn_reshape(repeated, CN_SHAPE(n, -1)), .dim = CN_INTS(0)));
}

/* instance_norm(input, running_mean, running_var, weight, bias, use_input_stats, momentum, eps) */
static int instance_norm_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  if (d->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), not %d dimensions", (int)d->ndim);
  bool own = cni_arg_bool(c->args, 5);
  int64_t n = d->shape[0], shape[CN_MAX_DIMS];
  cn_tensor *t[5];
  for (int i = 0; i < d->ndim; i++) shape[i] = i == 0 ? 1 : i == 1 ? n * d->shape[1] : d->shape[i];
  for (int i = 1; i < 5; i++) t[i] = c->in[i] ? cn_repeat(c->in[i], &n, 1) : NULL;
  double momentum = cni_option_float(cni_arg_float(c->args, 6)), eps = cni_option_float(cni_arg_float(c->args, 7));
  cn_tensor *y = cn_batch_norm(cn_reshape(c->in[0], shape, (size_t)d->ndim), t[1], t[2], t[3], t[4], .training = own,
                               .momentum = momentum, .eps = eps);
  if (own && t[1]) write_back(c->in[1], t[1], n);
  if (own && t[2]) write_back(c->in[2], t[2], n);
  c->out[0] = cn_reshape(y, d->shape, (size_t)d->ndim);
  return cn_err();
}

/* clang-format off */
const cn_op cni_batch_norm_ops[] = {
  {.sig = "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, "
          "Tensor? bias=None, bool training=False, float momentum=0.1, float eps=1e-5) -> Tensor ; nn",
   .doc = "(x - mean) / sqrt(var + eps) per channel (dimension 1), then * weight + bias. In training the statistics "
          "are the batch's, and the running ones move towards them by momentum (with the unbiased variance); "
          "otherwise the running ones are used.",
   .flags = CN_OP_COMPOSITE, .decompose = batch_norm_decompose},
  {.sig = "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
          "bool training, float eps) -> (Tensor output, Tensor save_mean, Tensor save_invstd, Tensor batch_var) "
          "; tuple",
   .doc = "batch_norm with the statistics it used and, in training, the batch's unbiased variance. Changes nothing "
          "in place. Gradients flow through output only.",
   .cost = cni_cost_norm, .infer = batch_norm_infer, .vjp = batch_norm_vjp, .decompose = native_batch_norm_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2)}},
  {.sig = "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor save_mean, "
          "Tensor save_invstd, bool training, int[] output_mask) "
          "-> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias) ; internal tuple",
   .doc = "Gradients of native_batch_norm; those whose output_mask is 0 come back empty. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = batch_norm_backward_infer, .decompose = native_batch_norm_backward_decompose},
  {.sig = "batch_norm_stats(Tensor input, float eps) -> (Tensor save_mean, Tensor save_invstd, Tensor batch_var) "
          "; internal tuple",
   .doc = "The statistics of native_batch_norm in training. Has no gradient.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_moments, .infer = stats_infer, .decompose = stats_decompose},
  {.sig = "batch_norm_apply(Tensor input, Tensor? weight, Tensor? bias, Tensor mean, Tensor var, Tensor? residual, "
          "float eps, bool inverted, bool relu) -> Tensor ; internal",
   .doc = "(x - mean) / sqrt(var + eps) per channel, * weight + bias, + residual, relu: what is given of it. inverted: "
          "var is 1 / sqrt(var + eps) already. Has no gradient.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_affine, .infer = apply_infer, .decompose = apply_decompose},
  {.sig = "batch_norm_relu_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor? bias, Tensor save_mean, "
          "Tensor save_invstd, bool training, int[] output_mask) "
          "-> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias) ; internal tuple",
   .doc = "Gradients of relu(native_batch_norm), as native_batch_norm_backward's. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = relu_backward_infer, .decompose = relu_backward_decompose},
  {.sig = "batch_norm_add_relu_backward(Tensor grad_out, Tensor other, Tensor result, Tensor input, Tensor? weight, "
          "Tensor save_mean, Tensor save_invstd, bool training, int[] output_mask) "
          "-> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias, Tensor grad_sum) ; internal tuple",
   .doc = "grad_sum: grad_out + other where result is not below or at 0, else 0; the rest: what "
          "native_batch_norm_backward makes of that. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = add_relu_backward_infer, .decompose = add_relu_backward_decompose},
  {.sig = "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, "
          "Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-5) -> Tensor ; nn",
   .doc = "Each channel of each sample normalised with its own mean and variance, then * weight + bias per channel.",
   .flags = CN_OP_COMPOSITE, .decompose = instance_norm_decompose},
};
/* clang-format on */
CNI_FAMILY(batch_norm);
