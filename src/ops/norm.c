/* norm.c: the family of normalisations: layer, RMS, batch, group and instance norm.
 *
 * Place in the flow: layer_norm, rms_norm and batch_norm are composites over native_* primitives, whose kernels stand in
 * backends/cpu/norm.c and batch_norm.c. Invariant: a gradient that is only run uses the fused native_*_backward op; one
 * that is itself recorded is written with plain ops from the inputs, so it can be differentiated to any order. */
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <math.h>

#include "families.h"
#include "infer.h"
#include "reduce.h"

static bool recording(void) { return !cni_state()->no_grad; }

/* The type that statistics of this type are kept in. */
static int stat_type(int dtype) { return dtype == CN_F64 ? CN_F64 : CN_F32; }

/* Which gradients a fused backward op is to compute, as its output_mask. */
static void wanted(const cn_vjp *v, const int *inputs, int64_t *mask)
{
  for (int i = 0; i < 3; i++) mask[i] = inputs[i] >= 0 && v->need[inputs[i]];
}

/* ---- layer norm and RMS norm over the last dims ---- */

static int check_normalized(const cn_call *c, const cn_desc *x, const cn_value *shape)
{
  char have[160], want[160];
  bool fits = shape->n >= 1 && shape->n <= x->ndim;
  for (int i = 0; fits && i < shape->n; i++) fits = x->shape[x->ndim - shape->n + i] == shape->u.is[i];
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE, "normalized_shape %s is not the end of the input's shape %s",
                        cni_shape_text(want, sizeof want, shape->n, shape->u.is),
                        cni_shape_text(have, sizeof have, x->ndim, x->shape));
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s", cn_dtype_name((cn_dtype)x->dtype));
  return cni_check_computes(c, x->dtype);
}

static int check_affine(const cn_call *c, cn_tensor *t, const char *name, const cn_value *shape)
{
  if (!t) return CN_OK;
  char have[160], want[160];
  bool fits = t->d.ndim == shape->n;
  for (int i = 0; fits && i < shape->n; i++) fits = t->d.shape[i] == shape->u.is[i];
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE, "%s has shape %s, but must have normalized_shape %s", name,
                        cni_shape_text(have, sizeof have, t->d.ndim, t->d.shape),
                        cni_shape_text(want, sizeof want, shape->n, shape->u.is));
  if (!cni_dtype_is_float(t->d.dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "%s must be floating-point", name);
  return CN_OK;
}

/* Statistics: the leading dims, then a 1 for each normalised one. */
static int stats_result(cn_call *c, int i, int dims)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS];
  for (int k = 0; k < x->ndim; k++) shape[k] = k < x->ndim - dims ? x->shape[k] : 1;
  return cn_call_result(c, i, stat_type(x->dtype), x->ndim, shape);
}

/* native_layer_norm(input, normalized_shape, weight, bias, eps) -> (output, mean, rstd) */
static int layer_norm_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int status = check_normalized(c, x, &c->args[1]);
  if (!status) status = check_affine(c, c->in[1], "weight", &c->args[1]);
  if (!status) status = check_affine(c, c->in[2], "bias", &c->args[1]);
  if (!status) status = cn_call_result(c, 0, x->dtype, x->ndim, x->shape);
  if (!status) status = stats_result(c, 1, c->args[1].n);
  return status ? status : stats_result(c, 2, c->args[1].n);
}

/* native_rms_norm(input, normalized_shape, weight, eps) -> (output, rstd) */
static int rms_norm_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int status = check_normalized(c, x, &c->args[1]);
  if (!status) status = check_affine(c, c->in[1], "weight", &c->args[1]);
  if (!status) status = cn_call_result(c, 0, x->dtype, x->ndim, x->shape);
  return status ? status : stats_result(c, 1, c->args[1].n);
}

static cn_ints last_dims(int n, int64_t *room)
{
  for (int i = 0; i < n; i++) room[i] = i - n;
  return (cn_ints){room, (size_t)n};
}

/* rstd * (gw - [mean(gw)] - h * mean(gw * h)), with h the normalised input; mean(gw) only where the mean was taken off. */
static cn_tensor *normalized_gradient(cn_tensor *gw, cn_tensor *h, cn_tensor *rstd, cn_ints dims, bool centered)
{
  cn_tensor *along = cn_mul(h, cn_mean(cn_mul(gw, h), .dim = dims, .keepdim = true));
  cn_tensor *rest = centered ? cn_sub(gw, cn_mean(gw, .dim = dims, .keepdim = true)) : gw;
  return cn_mul(rstd, cn_sub(rest, along));
}

/* Gradients of layer and RMS norm with plain ops. */
static int plain_norm_vjp(cn_vjp *v, double eps, bool centered)
{
  int64_t room[CN_MAX_DIMS];
  cn_ints dims = last_dims(v->args[1].n, room);
  cn_tensor *x = v->in[0], *g = v->g[0], *w = v->in[1];
  cn_tensor *off = centered ? cn_sub(x, cn_mean(x, .dim = dims, .keepdim = true)) : x;
  cn_tensor *rstd = cn_rsqrt(cn_add(cn_mean(cn_square(off), .dim = dims, .keepdim = true), cn_num(eps)));
  cn_tensor *h = cn_mul(off, rstd);
  if (v->need[0]) v->gin[0] = normalized_gradient(w ? cn_mul(g, w) : g, h, rstd, dims, centered);
  if (v->need[1]) v->gin[1] = cn_mul(g, h);
  return cn_err();
}

static int layer_norm_vjp(cn_vjp *v)
{
  const cn_value *shape = &v->args[1];
  int64_t mask[3];
  if (!v->g[0]) return CN_OK;
  if (recording()) {
    if (v->need[2]) v->gin[2] = v->g[0];
    return v->need[0] || v->need[1] ? plain_norm_vjp(v, cni_arg_float(v->args, 4), true) : CN_OK;
  }
  wanted(v, (const int[]){0, 1, 2}, mask);
  if (!mask[0] && !mask[1]) {
    v->gin[2] = v->g[0];
    return CN_OK;
  }
  return cn_native_layer_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL,
                                       mask[2] ? &v->gin[2] : NULL, v->g[0], v->in[0], shape->u.is, (size_t)shape->n,
                                       v->out[1], v->out[2], v->in[1], mask, 3);
}

static int rms_norm_vjp(cn_vjp *v)
{
  const cn_value *shape = &v->args[1];
  int64_t mask[3];
  if (!v->g[0]) return CN_OK;
  if (recording()) return plain_norm_vjp(v, cni_arg_float(v->args, 3), false);
  wanted(v, (const int[]){0, 1, -1}, mask);
  return cn_native_rms_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL, v->g[0], v->in[0],
                                     shape->u.is, (size_t)shape->n, v->out[1], v->in[1], mask, 2);
}

/* A gradient that is not wanted is an empty tensor. */
static int masked_result(cn_call *c, int i, const cn_value *mask, int dtype, int ndim, const int64_t *shape)
{
  const int64_t none = 0;
  bool want = i < mask->n && mask->u.is[i];
  return want ? cn_call_result(c, i, dtype, ndim, shape) : cn_call_result(c, i, dtype, 1, &none);
}

/* (grad_out, input, normalized_shape, mean, rstd, weight, output_mask), and without mean for RMS norm */
static int norm_backward_infer(cn_call *c, int weight_input, int mask_param)
{
  const cn_desc *g = &c->in[0]->d, *x = &c->in[1]->d;
  cn_tensor *w = c->in[weight_input];
  int status = check_normalized(c, x, &c->args[2]), type = w ? w->d.dtype : x->dtype;
  const cn_value *mask = &c->args[mask_param], *shape = &c->args[2];
  bool same = g->ndim == x->ndim;
  for (int i = 0; same && i < x->ndim; i++) same = g->shape[i] == x->shape[i];
  if (!status && !same) return cn_call_fail(c, CN_ERR_SHAPE, "the gradient must have the input's shape");
  int64_t rows = 1;
  for (int i = 0; i < x->ndim - shape->n; i++) rows *= x->shape[i];
  for (int i = 2; !status && i < weight_input; i++)
    if (c->in[i]->d.numel != rows || c->in[i]->d.dtype != stat_type(x->dtype))
      return cn_call_fail(c, CN_ERR_SHAPE, "mean and rstd must be those of the forward op");
  if (!status) status = check_affine(c, w, "weight", shape);
  if (!status) status = masked_result(c, 0, mask, x->dtype, x->ndim, x->shape);
  for (int i = 1; i < c->nout && !status; i++) status = masked_result(c, i, mask, type, shape->n, shape->u.is);
  return status;
}
static int layer_norm_backward_infer(cn_call *c) { return norm_backward_infer(c, 4, 6); }
static int rms_norm_backward_infer(cn_call *c) { return norm_backward_infer(c, 3, 5); }

/* layer_norm(input, normalized_shape, weight, bias, eps) */
static int layer_norm_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[1];
  return cn_native_layer_norm(&c->out[0], NULL, NULL, c->in[0], shape->u.is, (size_t)shape->n, c->in[1], c->in[2],
                              cni_arg_float(c->args, 4));
}

/* rms_norm(input, normalized_shape, weight, eps): without eps the smallest step of the type. */
static int rms_norm_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[1];
  double eps = c->in[0]->d.dtype == CN_F64 ? 0x1p-52 : 0x1p-23;
  if (!cni_arg_none(c->args, 3)) eps = cni_arg_float(c->args, 3);
  return cn_native_rms_norm(&c->out[0], NULL, c->in[0], shape->u.is, (size_t)shape->n, c->in[1], eps);
}

/* ---- batch norm ---- */

static int64_t channels_of(const cn_desc *x) { return x->ndim > 1 ? x->shape[1] : 0; }

static int check_channels(const cn_call *c, cn_tensor *t, const char *name, int64_t channels)
{
  if (!t || (t->d.ndim == 1 && t->d.shape[0] == channels)) return CN_OK;
  char have[160];
  return cn_call_fail(c, CN_ERR_SHAPE, "%s has shape %s, but the input has %lld channels", name,
                      cni_shape_text(have, sizeof have, t->d.ndim, t->d.shape), (long long)channels);
}

/* native_batch_norm(input, weight, bias, running_mean, running_var, training, eps) -> (output, save_mean, save_invstd,
 * batch_var) */
static int batch_norm_infer(cn_call *c)
{
  static const char *const names[] = {"input", "weight", "bias", "running_mean", "running_var"};
  const cn_desc *x = &c->in[0]->d;
  bool training = cni_arg_bool(c->args, 5);
  int64_t channels = channels_of(x);
  if (x->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), not %d dimensions", (int)x->ndim);
  if (!cni_dtype_is_float(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  int status = cni_check_computes(c, x->dtype);
  for (int i = 1; i < 5 && !status; i++) status = check_channels(c, c->in[i], names[i], channels);
  if (status) return status;
  if (!training && (!c->in[3] || !c->in[4]))
    return cn_call_fail(c, CN_ERR_VALUE, "running_mean and running_var must be given when not training");
  if (training && channels && x->numel / channels <= 1)
    return cn_call_fail(c, CN_ERR_VALUE, "training needs more than 1 value per channel");
  status = cni_infer_like(c, 0, 0, x->dtype);
  for (int i = 1; i < 4 && !status; i++) status = cn_call_result(c, i, stat_type(x->dtype), 1, &channels);
  return status;
}

/* (C) as (1, C, 1, ...) */
static cn_tensor *per_channel(cn_tensor *t, int ndim)
{
  int64_t shape[CN_MAX_DIMS];
  for (int i = 0; i < ndim; i++) shape[i] = i == 1 ? -1 : 1;
  return cn_reshape(t, shape, (size_t)ndim);
}

static cn_ints all_but_channels(int ndim, int64_t *room)
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
  cn_ints dims = all_but_channels(ndim, room);
  cn_tensor *x = v->in[0], *g = v->g[0], *w = v->in[1], *off, *rstd;
  if (training) {
    off = cn_sub(x, cn_mean(x, .dim = dims, .keepdim = true));
    cn_tensor *var = cn_mean(cn_square(off), .dim = dims, .keepdim = true);
    rstd = cn_rsqrt(cn_add(var, cn_num(cni_arg_float(v->args, 6))));
  } else { /* constants: saved copies of the running statistics */
    off = cn_sub(x, per_channel(cn_detach(v->out[1]), ndim));
    rstd = per_channel(cn_detach(v->out[2]), ndim);
  }
  cn_tensor *h = cn_mul(off, rstd), *gw = w ? cn_mul(g, per_channel(w, ndim)) : g;
  if (v->need[0]) v->gin[0] = training ? normalized_gradient(gw, h, rstd, dims, true) : cn_mul(gw, rstd);
  if (v->need[1]) v->gin[1] = cn_sum(cn_mul(g, h), .dim = dims);
  if (v->need[2]) v->gin[2] = cn_sum(g, .dim = dims);
  return cn_err();
}

static int batch_norm_vjp(cn_vjp *v)
{
  int64_t mask[3];
  bool training = cni_arg_bool(v->args, 5);
  if (!v->g[0]) return CN_OK;
  if (recording()) return plain_batch_norm_vjp(v, training);
  wanted(v, (const int[]){0, 1, 2}, mask);
  if (!mask[0] && !mask[1]) {
    int64_t room[CN_MAX_DIMS];
    v->gin[2] = cn_sum(v->g[0], .dim = all_but_channels(v->in_meta[0].ndim, room));
    return cn_err();
  }
  return cn_native_batch_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL,
                                       mask[2] ? &v->gin[2] : NULL, v->g[0], v->in[0], v->in[1], v->out[1], v->out[2],
                                       training, mask, 3);
}

/* (grad_out, input, weight, save_mean, save_invstd, training, output_mask) */
static int batch_norm_backward_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *x = &c->in[1]->d;
  int64_t channels = channels_of(x);
  int type = c->in[2] ? c->in[2]->d.dtype : x->dtype, status = cni_check_computes(c, x->dtype);
  bool same = g->ndim == x->ndim && x->ndim >= 2;
  for (int i = 0; same && i < x->ndim; i++) same = g->shape[i] == x->shape[i];
  if (!same) return cn_call_fail(c, CN_ERR_SHAPE, "the gradient must have the input's shape (N, C, ...)");
  for (int i = 2; i < 5 && !status; i++)
    status = check_channels(c, c->in[i], i == 2 ? "weight" : "a saved statistic", channels);
  for (int i = 3; i < 5 && !status; i++)
    if (c->in[i]->d.dtype != stat_type(x->dtype)) return cn_call_fail(c, CN_ERR_DTYPE, "not the saved statistics");
  if (!status) status = masked_result(c, 0, &c->args[6], x->dtype, x->ndim, x->shape);
  if (!status && c->spec[0].ndim == x->ndim) cni_follow_strides(c, 0, &c->in[1], 1);
  for (int i = 1; i < 3 && !status; i++) status = masked_result(c, i, &c->args[6], type, 1, &channels);
  return status;
}

/* batch_norm(input, running_mean, running_var, weight, bias, training, momentum, eps) */
static int batch_norm_decompose(cn_call *c)
{
  cn_tensor *mean, *var, *running_mean = c->in[1], *running_var = c->in[2];
  bool training = cni_arg_bool(c->args, 5);
  cn_tensor *momentum = cn_num(cni_arg_float(c->args, 6));
  int status = cn_native_batch_norm(&c->out[0], &mean, NULL, &var, c->in[0], c->in[3], c->in[4], running_mean,
                                    running_var, training, cni_arg_float(c->args, 7));
  if (status || !training) return status;
  if (running_mean) cn_lerp_(running_mean, cn_cast(cn_detach(mean), cn_dtype_of(running_mean)), momentum);
  if (running_var) cn_lerp_(running_var, cn_cast(cn_detach(var), cn_dtype_of(running_var)), momentum);
  return cn_err();
}

/* ---- group and instance norm ---- */

/* group_norm(input, num_groups, weight, bias, eps) */
static int group_norm_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *y;
  const cn_desc *d = &x->d;
  int64_t groups = cni_arg_int(c->args, 1), channels = channels_of(d);
  if (d->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), not %d dimensions", (int)d->ndim);
  if (groups < 1 || channels % groups)
    return cn_call_fail(c, CN_ERR_VALUE, "%lld channels cannot be split into %lld groups", (long long)channels,
                        (long long)groups);
  int status = check_channels(c, c->in[1], "weight", channels);
  if (!status) status = check_channels(c, c->in[2], "bias", channels);
  if (status) return status;
  if (d->numel == 0) {
    c->out[0] = cn_clone(x);
    return cn_err();
  }
  int64_t row = d->numel / (d->shape[0] * groups), grouped[3] = {d->shape[0], groups, row};
  cn_native_layer_norm(&y, NULL, NULL, cn_reshape(x, grouped, 3), &row, 1, NULL, NULL, cni_arg_float(c->args, 4));
  y = cn_reshape(y, d->shape, (size_t)d->ndim);
  if (c->in[1]) y = cn_mul(y, per_channel(c->in[1], d->ndim));
  if (c->in[2]) y = cn_add(y, per_channel(c->in[2], d->ndim));
  c->out[0] = y;
  return cn_err();
}

/* A number as an option, where 0 would mean the default. */
static double option(double x) { return fabs(x) > 0 ? x : (double)CN_ZERO; }

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
  cn_tensor *y = cn_batch_norm(cn_reshape(c->in[0], shape, (size_t)d->ndim), t[1], t[2], t[3], t[4], .training = own,
                               .momentum = option(cni_arg_float(c->args, 6)),
                               .eps = option(cni_arg_float(c->args, 7)));
  if (own && t[1]) write_back(c->in[1], t[1], n);
  if (own && t[2]) write_back(c->in[2], t[2], n);
  c->out[0] = cn_reshape(y, d->shape, (size_t)d->ndim);
  return cn_err();
}

const cn_op cni_norm_ops[] = {
  {.sig = "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> "
          "Tensor ; nn",
   .doc = "(x - mean) / sqrt(var + eps) over the last dimensions, then * weight + bias.",
   .flags = CN_OP_COMPOSITE, .decompose = layer_norm_decompose},
  {.sig = "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) -> "
          "(Tensor output, Tensor mean, Tensor rstd)",
   .doc = "layer_norm with its statistics (float32 for smaller types). Gradients flow through output only.",
   .infer = layer_norm_infer, .vjp = layer_norm_vjp,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2)}},
  {.sig = "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, Tensor rstd, "
          "Tensor? weight, int[] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
   .doc = "Gradients of native_layer_norm; those whose output_mask is 0 come back empty. Has no gradient of its own: "
          "layer_norm writes its gradient with plain ops where that is asked for.",
   .flags = CN_OP_NO_GRAD, .infer = layer_norm_backward_infer},
  {.sig = "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor ; nn",
   .doc = "x / sqrt(mean(x^2) + eps) over the last dimensions, then * weight. eps None: the type's own epsilon "
          "(float32's for smaller types).",
   .flags = CN_OP_COMPOSITE, .decompose = rms_norm_decompose},
  {.sig = "native_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) -> (Tensor output, Tensor rstd)",
   .doc = "rms_norm with 1 / the root mean square. Gradients flow through output only.",
   .infer = rms_norm_infer, .vjp = rms_norm_vjp,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1)}},
  {.sig = "native_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, Tensor? weight, "
          "int[] output_mask) -> (Tensor grad_input, Tensor grad_weight)",
   .doc = "Gradients of native_rms_norm; those whose output_mask is 0 come back empty. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .infer = rms_norm_backward_infer},
  {.sig = "batch_norm(Tensor input, Tensor? running_mean, Tensor? running_var, Tensor? weight=None, Tensor? bias=None, "
          "bool training=False, float momentum=0.1, float eps=1e-5) -> Tensor ; nn",
   .doc = "(x - mean) / sqrt(var + eps) per channel (dimension 1), then * weight + bias. In training the statistics are "
          "the batch's, and the running ones move towards them by momentum (with the unbiased variance); otherwise the "
          "running ones are used.",
   .flags = CN_OP_COMPOSITE, .decompose = batch_norm_decompose},
  {.sig = "native_batch_norm(Tensor input, Tensor? weight, Tensor? bias, Tensor? running_mean, Tensor? running_var, "
          "bool training, float eps) -> (Tensor output, Tensor save_mean, Tensor save_invstd, Tensor batch_var)",
   .doc = "batch_norm with the statistics it used and, in training, the batch's unbiased variance. Changes nothing in "
          "place. Gradients flow through output only.",
   .infer = batch_norm_infer, .vjp = batch_norm_vjp,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2)}},
  {.sig = "native_batch_norm_backward(Tensor grad_out, Tensor input, Tensor? weight, Tensor save_mean, "
          "Tensor save_invstd, bool training, int[] output_mask) -> "
          "(Tensor grad_input, Tensor grad_weight, Tensor grad_bias)",
   .doc = "Gradients of native_batch_norm; those whose output_mask is 0 come back empty. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .infer = batch_norm_backward_infer},
  {.sig = "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) -> Tensor ; nn",
   .doc = "Channels in num_groups groups, each normalised with its own mean and variance per sample, then * weight + bias "
          "per channel.",
   .flags = CN_OP_COMPOSITE, .decompose = group_norm_decompose},
  {.sig = "instance_norm(Tensor input, Tensor? running_mean=None, Tensor? running_var=None, Tensor? weight=None, "
          "Tensor? bias=None, bool use_input_stats=True, float momentum=0.1, float eps=1e-5) -> Tensor ; nn",
   .doc = "Each channel of each sample normalised with its own mean and variance, then * weight + bias per channel.",
   .flags = CN_OP_COMPOSITE, .decompose = instance_norm_decompose},
};
CNI_FAMILY(norm);
