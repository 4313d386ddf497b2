/* norm.c: layer norm and RMS norm, normalisation over neighbouring channels, and what all normalisations share.
 *
 * Place in the flow: layer_norm and rms_norm are composites over native_* primitives, whose
 * kernels stand in backends/cpu/reduce/norm.c and batch_norm.c. Invariant: a gradient that is only run uses the
 * fused native_*_backward op; one that is itself recorded is written with plain ops from the inputs, so it
 * can be differentiated to any order. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <math.h>

#include "cost.h"
#include "families.h"
#include "infer.h"
#include "norm.h"

/* Which gradients a fused backward op is to compute, as its output_mask. */
void cni_norm_wanted(const cn_vjp *v, const int *inputs, int64_t *mask)
{
  for (int i = 0; i < 3; i++) mask[i] = inputs[i] >= 0 && v->need[inputs[i]];
}

/* ---- layer norm and RMS norm over the last dims ---- */

static int check_normalized(const cn_call *c, const cn_desc *x, const cn_value *shape)
{
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  bool fits = shape->n >= 1 && shape->n <= x->ndim;
  for (int i = 0; fits && i < shape->n; i++) fits = x->shape[x->ndim - shape->n + i] == shape->u.is[i];
  if (!fits)
    return cn_call_fail(c, CN_ERR_SHAPE, "normalized_shape %s is not the end of the input's shape %s",
                        cni_shape_text(want, sizeof want, shape->n, shape->u.is),
                        cni_shape_text(have, sizeof have, x->ndim, x->shape));
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s",
                        cn_dtype_name((cn_dtype)x->dtype));
  return cni_check_computes(c, x->dtype);
}

static int check_affine(const cn_call *c, cn_tensor *t, const char *name, const cn_value *shape)
{
  if (!t) return CN_OK;
  char have[CNI_SHAPE_TEXT], want[CNI_SHAPE_TEXT];
  if (!cni_same_shape(t->d.ndim, t->d.shape, shape->n, shape->u.is))
    return cn_call_fail(c, CN_ERR_SHAPE, "%s has shape %s, but must have normalized_shape %s", name,
                        cni_shape_text(have, sizeof have, t->d.ndim, t->d.shape),
                        cni_shape_text(want, sizeof want, shape->n, shape->u.is));
  if (!cni_dtype_is_float(t->d.dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "%s must be floating-point", name);
  return CN_OK;
}

/* Statistics: the leading dims, then a 1 for each normalised one. */
static int stats_result(cn_call *c, int i, int dims)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS];
  for (int k = 0; k < x->ndim; k++) shape[k] = k < x->ndim - dims ? x->shape[k] : 1;
  return cn_call_result(c, i, cni_wide_type(x->dtype), x->ndim, shape);
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

/* rstd * (gw - [mean(gw)] - h * mean(gw * h)), with h the normalised input; mean(gw) only where the mean was
 * taken off. */
cn_tensor *cni_norm_gradient(cn_tensor *gw, cn_tensor *h, cn_tensor *rstd, cn_ints dims, bool centered)
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
  if (v->need[0]) v->gin[0] = cni_norm_gradient(w ? cn_mul(g, w) : g, h, rstd, dims, centered);
  if (v->need[1]) v->gin[1] = cn_mul(g, h);
  return cn_err();
}

static int layer_norm_vjp(cn_vjp *v)
{
  const cn_value *shape = &v->args[1];
  int64_t mask[3];
  if (!v->g[0]) return CN_OK;
  if (cni_recording()) {
    if (v->need[2]) v->gin[2] = v->g[0];
    return v->need[0] || v->need[1] ? plain_norm_vjp(v, cni_arg_float(v->args, 4), true) : CN_OK;
  }
  cni_norm_wanted(v, (const int[]){0, 1, 2}, mask);
  if (!mask[0] && !mask[1]) {
    v->gin[2] = v->g[0];
    return CN_OK;
  }
  return cn_native_layer_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL,
                                       mask[2] ? &v->gin[2] : NULL, v->g[0], v->in[0], shape->u.is,
                                       (size_t)shape->n, v->out[1], v->out[2], v->in[1], mask, 3);
}

static int rms_norm_vjp(cn_vjp *v)
{
  const cn_value *shape = &v->args[1];
  int64_t mask[3];
  if (!v->g[0]) return CN_OK;
  if (cni_recording()) return plain_norm_vjp(v, cni_arg_float(v->args, 3), false);
  cni_norm_wanted(v, (const int[]){0, 1, -1}, mask);
  return cn_native_rms_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL, v->g[0],
                                     v->in[0], shape->u.is, (size_t)shape->n, v->out[1], v->in[1], mask, 2);
}

/* A gradient that is not wanted is an empty tensor. */
int cni_masked_result(cn_call *c, int i, const cn_value *mask, int dtype, int ndim, const int64_t *shape)
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
  if (!status && !cni_same_shape(g->ndim, g->shape, x->ndim, x->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the gradient must have the input's shape");
  int64_t rows = 1;
  for (int i = 0; i < x->ndim - shape->n; i++) rows *= x->shape[i];
  for (int i = 2; !status && i < weight_input; i++)
    if (c->in[i]->d.numel != rows || c->in[i]->d.dtype != cni_wide_type(x->dtype))
      return cn_call_fail(c, CN_ERR_SHAPE, "mean and rstd must be those of the forward op");
  if (!status) status = check_affine(c, w, "weight", shape);
  if (!status) status = cni_masked_result(c, 0, mask, x->dtype, x->ndim, x->shape);
  for (int i = 1; i < c->nout && !status; i++)
    status = cni_masked_result(c, i, mask, type, shape->n, shape->u.is);
  return status;
}
static int layer_norm_backward_infer(cn_call *c) { return norm_backward_infer(c, 4, 6); }
static int rms_norm_backward_infer(cn_call *c) { return norm_backward_infer(c, 3, 5); }

/* ---- the primitives with plain ops, for backends without kernels ---- */

static int native_decompose(cn_call *c, cn_tensor *bias, double eps, bool centered)
{
  int64_t room[CN_MAX_DIMS];
  int dtype = c->in[0]->d.dtype, type = cni_wide_type(dtype);
  cn_ints dims = last_dims(c->args[1].n, room);
  cn_tensor *x = cni_in_type(c->in[0], type), *w = cni_in_type(c->in[1], type);
  cn_tensor *mean = centered ? cn_mean(x, .dim = dims, .keepdim = true) : NULL;
  if (centered) x = cn_sub(x, mean);
  cn_tensor *rstd = cn_rsqrt(cn_add(cn_mean(cn_square(x), .dim = dims, .keepdim = true), cn_num(eps)));
  cn_tensor *y = cn_mul(x, rstd);
  if (w) y = cn_mul(y, w);
  if (bias) y = cn_add(y, cni_in_type(bias, type));
  c->out[0] = cni_in_type(y, dtype);
  if (centered) c->out[1] = mean;
  c->out[centered ? 2 : 1] = rstd;
  return cn_err();
}
static int native_layer_norm_decompose(cn_call *c)
{
  return native_decompose(c, c->in[2], cni_arg_float(c->args, 4), true);
}
static int native_rms_norm_decompose(cn_call *c)
{
  return native_decompose(c, NULL, cni_arg_float(c->args, 3), false);
}

cn_tensor *cni_norm_or_empty(const cn_call *c, int i, bool want, cn_tensor *t)
{
  if (want) return cni_in_type(t, c->spec[i].dtype);
  return cn_empty(CN_SHAPE(0), .dtype = (cn_dtype)c->spec[i].dtype, .device = c->device);
}

/* (grad_out, input, normalized_shape, [mean], rstd, weight, output_mask) */
static int backward_decompose(cn_call *c, bool centered)
{
  const cn_value *mask = &c->args[centered ? 6 : 5], *shape = &c->args[2];
  int64_t room[CN_MAX_DIMS], leading[CN_MAX_DIMS];
  int ndim = cn_ndim(c->in[1]), type = cni_wide_type(c->in[1]->d.dtype);
  cn_ints dims = last_dims(shape->n, room),
          lead = cni_dims_list((1u << (ndim - shape->n)) - 1, ndim, leading);
  cn_tensor *g = cni_in_type(c->in[0], type), *x = cni_in_type(c->in[1], type),
            *w = cni_in_type(c->in[centered ? 4 : 3], type);
  cn_tensor *rstd = c->in[centered ? 3 : 2], *h = cn_mul(centered ? cn_sub(x, c->in[2]) : x, rstd);
  bool want[3];
  for (int i = 0; i < 3; i++) want[i] = i < mask->n && mask->u.is[i];
  cn_tensor *gx = want[0] ? cni_norm_gradient(w ? cn_mul(g, w) : g, h, rstd, dims, centered) : NULL;
  cn_tensor *gw = want[1] ? cn_mul(g, h) : NULL;
  c->out[0] = cni_norm_or_empty(c, 0, want[0], gx);
  c->out[1] = cni_norm_or_empty(c, 1, want[1], want[1] && lead.n ? cn_sum(gw, .dim = lead) : gw);
  if (c->nout > 2)
    c->out[2] = cni_norm_or_empty(c, 2, want[2], want[2] && lead.n ? cn_sum(g, .dim = lead) : g);
  return cn_err();
}
static int layer_norm_backward_decompose(cn_call *c) { return backward_decompose(c, true); }
static int rms_norm_backward_decompose(cn_call *c) { return backward_decompose(c, false); }

/* ---- norms with the addition before them and the cast behind them ---- */

static int check_like(const cn_call *c, const cn_tensor *t, const cn_desc *x, const char *what)
{
  if (!t || (cni_same_shape(t->d.ndim, t->d.shape, x->ndim, x->shape) && cni_dtype_is_float(t->d.dtype)))
    return CN_OK;
  return cn_call_fail(c, CN_ERR_SHAPE, "%s must be floating-point, of the input's shape", what);
}

static int check_low(const cn_call *c, int dtype)
{
  bool fits = cni_dtype_valid(dtype) && cni_dtype_is_float(dtype);
  return fits ? CN_OK : cn_call_fail(c, CN_ERR_DTYPE, "dtype must be floating-point");
}

/* add_norm(input, other, normalized_shape, weight, bias, eps, centered, dtype) -> (output, sum, mean, rstd) */
static int add_norm_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  const cn_value *shape = &c->args[2];
  const int64_t none = 0;
  int status = check_normalized(c, x, shape), dtype = (int)cni_arg_int(c->args, 7), wide = cni_wide_type(x->dtype);
  if (!status) status = check_like(c, c->in[1], x, "other");
  if (!status) status = check_affine(c, c->in[2], "weight", shape);
  if (!status) status = check_affine(c, c->in[3], "bias", shape);
  if (!status) status = check_low(c, dtype);
  if (!status) status = cn_call_result(c, 0, dtype, x->ndim, x->shape);
  if (!status)
    status = c->in[1] ? cn_call_result(c, 1, x->dtype, x->ndim, x->shape) : cn_call_result(c, 1, x->dtype, 1, &none);
  if (!status) status = cni_arg_bool(c->args, 6) ? stats_result(c, 2, shape->n) : cn_call_result(c, 2, wide, 1, &none);
  return status ? status : stats_result(c, 3, shape->n);
}

static int add_norm_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[2];
  bool centered = cni_arg_bool(c->args, 6);
  double eps = cni_arg_float(c->args, 5);
  cn_tensor *x = c->in[0], *y = NULL;
  if (c->in[1]) x = cni_in_type(cn_add(x, c->in[1]), x->d.dtype);
  if (centered) {
    cn_native_layer_norm(&y, &c->out[2], &c->out[3], x, shape->u.is, (size_t)shape->n, c->in[2], c->in[3], eps);
  } else {
    cn_native_rms_norm(&y, &c->out[3], x, shape->u.is, (size_t)shape->n, c->in[2], eps);
    if (c->in[3]) y = cn_add(y, c->in[3]);
    c->out[2] = cni_norm_or_empty(c, 2, false, NULL);
  }
  c->out[0] = cni_in_type(y, c->spec[0].dtype);
  c->out[1] = cni_norm_or_empty(c, 1, c->in[1] != NULL, x);
  return cn_err();
}

/* add_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, other, output_mask, dtype)
 * -> (grad_input, low, grad_weight, grad_bias) */
static int add_norm_backward_infer(cn_call *c)
{
  const cn_desc *x = &c->in[1]->d;
  const cn_value *shape = &c->args[2], *mask = &c->args[7];
  int dtype = (int)cni_arg_int(c->args, 8), type = c->in[4] ? c->in[4]->d.dtype : x->dtype;
  int status = check_normalized(c, x, shape);
  int64_t rows = 1;
  for (int i = 0; !status && i < x->ndim - shape->n; i++) rows *= x->shape[i];
  if (!status) status = check_like(c, c->in[0], x, "the gradient");
  if (!status) status = check_like(c, c->in[5], x, "other");
  for (int i = 2; !status && i < 4; i++)
    if (c->in[i] && (c->in[i]->d.numel != rows || c->in[i]->d.dtype != cni_wide_type(x->dtype)))
      return cn_call_fail(c, CN_ERR_SHAPE, "mean and rstd must be those of the forward op");
  if (!status) status = check_affine(c, c->in[4], "weight", shape);
  if (!status) status = check_low(c, dtype);
  for (int i = 0; i < 2 && !status; i++)
    status = cni_masked_result(c, i, mask, i ? dtype : x->dtype, x->ndim, x->shape);
  for (int i = 2; i < 4 && !status; i++) status = cni_masked_result(c, i, mask, type, shape->n, shape->u.is);
  return status;
}

static int add_norm_backward_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[2], *mask = &c->args[7];
  int64_t leading[CN_MAX_DIMS];
  int ndim = cn_ndim(c->in[1]);
  cn_ints lead = cni_dims_list((1u << (ndim - shape->n)) - 1, ndim, leading);
  bool want[4];
  for (int i = 0; i < 4; i++) want[i] = i < mask->n && mask->u.is[i];
  const int64_t parts[3] = {want[0] || want[1], want[2], want[3] && c->in[2]};
  cn_tensor *g = cni_in_type(c->in[0], c->in[1]->d.dtype), *gx = NULL, *gw = NULL, *gb = NULL;
  if (c->in[2])
    cn_native_layer_norm_backward(&gx, &gw, &gb, g, c->in[1], shape->u.is, (size_t)shape->n, c->in[2], c->in[3],
                                  c->in[4], parts, 3);
  else
    cn_native_rms_norm_backward(&gx, &gw, g, c->in[1], shape->u.is, (size_t)shape->n, c->in[3], c->in[4], parts, 2);
  if (!c->in[2] && want[3]) gb = lead.n ? cn_sum(g, .dim = lead) : g;
  if (c->in[5] && parts[0]) gx = cni_in_type(cn_add(c->in[5], gx), c->in[1]->d.dtype);
  cn_tensor *const all[] = {gx, gx, gw, gb};
  for (int i = 0; i < 4; i++) c->out[i] = cni_norm_or_empty(c, i, want[i], all[i]);
  return cn_err();
}

/* ---- the public ops ---- */

/* layer_norm(input, normalized_shape, weight, bias, eps) */
static int layer_norm_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[1];
  return cn_native_layer_norm(&c->out[0], NULL, NULL, c->in[0], shape->u.is, (size_t)shape->n, c->in[1],
                              c->in[2], cni_arg_float(c->args, 4));
}

/* rms_norm(input, normalized_shape, weight, eps): without eps the smallest step of the type. */
static int rms_norm_decompose(cn_call *c)
{
  const cn_value *shape = &c->args[1];
  double eps = c->in[0]->d.dtype == CN_F64 ? 0x1p-52 : 0x1p-23;
  if (!cni_arg_none(c->args, 3)) eps = cni_arg_float(c->args, 3);
  return cn_native_rms_norm(&c->out[0], NULL, c->in[0], shape->u.is, (size_t)shape->n, c->in[1], eps);
}

/* ---- local_response_norm(input, size, alpha, beta, k) ---- */

static int local_response_norm_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  int64_t size = cni_arg_int(c->args, 1);
  if (x->d.ndim < 3) return cn_call_fail(c, CN_ERR_SHAPE, "takes inputs of 3 dims or more, not %d", (int)x->d.ndim);
  if (size < 1) return cn_call_fail(c, CN_ERR_VALUE, "size must be at least 1");
  if (x->d.numel == 0) {
    c->out[0] = x;
    return cn_err();
  }
  int64_t n = x->d.shape[0], channels = x->d.shape[1], rest = x->d.numel / n / channels;
  cn_tensor *square = cn_reshape(cn_mul(x, x), CN_SHAPE(n, 1, channels, rest));
  cn_tensor *mean = cn_avg_pool2d(square, CN_SHAPE(size, 1), CN_NONE, .stride = CN_INTS(1, 1),
                                  .padding = CN_INTS(size / 2, 0));
  mean = cn_reshape(cn_narrow(mean, 2, 0, channels), x->d.shape, (size_t)x->d.ndim); /* one more when size is even */
  cn_tensor *base = cn_add(cn_mul(mean, cn_num(cni_arg_float(c->args, 2))), cn_num(cni_arg_float(c->args, 4)));
  c->out[0] = cn_div(x, cn_pow(base, cn_num(cni_arg_float(c->args, 3))));
  return cn_err();
}

/* clang-format off */
const cn_op cni_norm_ops[] = {
  {.sig = "layer_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) "
          "-> Tensor ; nn amp_f32_device",
   .doc = "(x - mean) / sqrt(var + eps) over the last dimensions, then * weight + bias.",
   .flags = CN_OP_COMPOSITE, .decompose = layer_norm_decompose},
  {.sig = "native_layer_norm(Tensor input, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps) "
          "-> (Tensor output, Tensor mean, Tensor rstd) ; tuple",
   .doc = "layer_norm with its statistics (float32 for smaller types). Gradients flow through output only.",
   .cost = cni_cost_norm, .infer = layer_norm_infer, .vjp = layer_norm_vjp, .decompose = native_layer_norm_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2)}},
  {.sig = "native_layer_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor mean, "
          "Tensor rstd, Tensor? weight, int[] output_mask) "
          "-> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias) ; internal tuple",
   .doc = "Gradients of native_layer_norm; those whose output_mask is 0 come back empty. Has no gradient of its own: "
          "layer_norm writes its gradient with plain ops where that is asked for.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = layer_norm_backward_infer, .decompose = layer_norm_backward_decompose},
  {.sig = "rms_norm(Tensor input, int[] normalized_shape, Tensor? weight=None, float? eps=None) -> Tensor ; nn "
          "amp_f32_device",
   .doc = "x / sqrt(mean(x^2) + eps) over the last dimensions, then * weight. eps None: the type's own epsilon "
          "(float32's for smaller types).",
   .flags = CN_OP_COMPOSITE, .decompose = rms_norm_decompose},
  {.sig = "native_rms_norm(Tensor input, int[] normalized_shape, Tensor? weight, float eps) "
          "-> (Tensor output, Tensor rstd) ; internal tuple",
   .doc = "rms_norm with 1 / the root mean square. Gradients flow through output only.",
   .cost = cni_cost_norm, .infer = rms_norm_infer, .vjp = rms_norm_vjp, .decompose = native_rms_norm_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1)},
   .copied = CN_IN(0) | CN_IN(1)},
  {.sig = "native_rms_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor rstd, "
          "Tensor? weight, int[] output_mask) -> (Tensor grad_input, Tensor grad_weight) ; internal tuple",
   .doc = "Gradients of native_rms_norm; those whose output_mask is 0 come back empty. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = rms_norm_backward_infer, .decompose = rms_norm_backward_decompose},
  {.sig = "add_norm(Tensor input, Tensor? other, int[] normalized_shape, Tensor? weight, Tensor? bias, float eps, "
          "bool centered, dtype dtype) -> (Tensor output, Tensor sum, Tensor mean, Tensor rstd) ; internal tuple",
   .doc = "native_layer_norm (centered) or native_rms_norm of sum = input + other, and its result in dtype: graphs are "
          "rewritten to it where a device does all of that in one pass. Empty: sum without other, mean of RMS norm.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm, .infer = add_norm_infer, .decompose = add_norm_decompose},
  {.sig = "add_norm_backward(Tensor grad_out, Tensor input, int[] normalized_shape, Tensor? mean, Tensor rstd, "
          "Tensor? weight, Tensor? other, int[] output_mask, dtype dtype) "
          "-> (Tensor grad_input, Tensor low, Tensor grad_weight, Tensor grad_bias) ; internal tuple",
   .doc = "Gradients of native_layer_norm, or of native_rms_norm where mean is None: other is added to grad_input, and "
          "low is that sum in dtype. Results whose output_mask is 0 come back empty.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = add_norm_backward_infer, .decompose = add_norm_backward_decompose},
  {.sig = "local_response_norm(Tensor input, int size, float alpha=1e-4, float beta=0.75, float k=1.0) -> Tensor ; nn",
   .doc = "Divides each element by (k + alpha * m) to the power of beta, where m is the mean of the squares of `size` "
          "neighbouring channels. input: (N, C, ...).",
   .flags = CN_OP_COMPOSITE, .decompose = local_response_norm_decompose},
};
/* clang-format on */
CNI_FAMILY(norm);
