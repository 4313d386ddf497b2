/* group_norm.c: group norm: the channels of a sample in groups, each with a mean and variance of its own.
 *
 * Place in the flow: group_norm is a composite over native_group_norm, whose kernels stand in
 * backends/cpu/reduce/group_norm.c and backends/cuda/batch_norm.c. Invariant: as in norm.c, a gradient that is recorded
 * is written with plain ops. */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "cost.h"
#include "families.h"
#include "infer.h"
#include "norm.h"

static int check_groups(const cn_call *c, const cn_desc *x, int64_t groups)
{
  int64_t channels = cni_channels_of(x);
  if (x->ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "takes (N, C, ...), not %d dimensions", (int)x->ndim);
  if (groups < 1 || channels % groups)
    return cn_call_fail(c, CN_ERR_VALUE, "%lld channels cannot be split into %lld groups",
                        (long long)channels, (long long)groups);
  if (channels == 0 || cni_numel(x->ndim - 2, x->shape + 2) == 0)
    return cn_call_fail(c, CN_ERR_SHAPE, "channels and what lies behind them must not be empty; only a batch may be");
  return CN_OK;
}

static int check_input(const cn_call *c, const cn_desc *x, int64_t groups)
{
  int status = check_groups(c, x, groups);
  if (!status && !cni_dtype_is_float(x->dtype))
    status = cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers");
  return status ? status : cni_check_computes(c, x->dtype);
}

/* native_group_norm(input, weight, bias, num_groups, eps) -> (output, mean, rstd) */
static int group_norm_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int64_t groups = cni_arg_int(c->args, 3);
  int status = check_input(c, x, groups);
  if (!status) status = cni_check_channels(c, c->in[1], "weight", cni_channels_of(x));
  if (!status) status = cni_check_channels(c, c->in[2], "bias", cni_channels_of(x));
  if (!status) status = cni_infer_like(c, 0, 0, x->dtype);
  for (int i = 1; i < 3 && !status; i++)
    status = cn_call_result(c, i, cni_wide_type(x->dtype), 2, (const int64_t[]){x->shape[0], groups});
  return status;
}

/* A tensor of x's shape as (N, groups, elements of a group). */
static cn_tensor *by_groups(cn_tensor *x, int64_t groups)
{
  return cn_reshape(x, CN_SHAPE(cn_size(x, 0), groups, -1));
}

/* The wanted gradients into out; h: the normalised input, rstd (N, groups, 1); all in the wide type. */
static void gradients(cn_tensor **out, const bool *want, cn_tensor *g, cn_tensor *h, cn_tensor *w, cn_tensor *rstd)
{
  int ndim = cn_ndim(h);
  int64_t room[CN_MAX_DIMS], groups = cn_size(rstd, 1), behind = 2;
  cn_ints dims = cni_all_but_channels(ndim, room), row = {&behind, 1};
  if (want[0]) {
    cn_tensor *gw = w ? cn_mul(g, cni_per_channel(w, ndim)) : g;
    cn_tensor *gx = cni_norm_gradient(by_groups(gw, groups), by_groups(h, groups), rstd, row, true);
    out[0] = cn_reshape(gx, cn_shape(h), (size_t)ndim);
  }
  if (want[1]) out[1] = cn_sum(cn_mul(g, h), .dim = dims);
  if (want[2]) out[2] = cn_sum(g, .dim = dims);
}

static int plain_group_norm_vjp(cn_vjp *v)
{
  int64_t groups = cni_arg_int(v->args, 3);
  int type = cni_wide_type(v->in_meta[0].dtype);
  cn_tensor *x = by_groups(cni_in_type(v->in[0], type), groups), *made[3] = {NULL, NULL, NULL};
  cn_tensor *off = cn_sub(x, cn_mean(x, .dim = CN_INTS(2), .keepdim = true));
  cn_tensor *var = cn_mean(cn_square(off), .dim = CN_INTS(2), .keepdim = true);
  cn_tensor *rstd = cn_rsqrt(cn_add(var, cn_num(cni_arg_float(v->args, 4))));
  cn_tensor *h = cn_reshape(cn_mul(off, rstd), cn_shape(v->in[0]), (size_t)cn_ndim(v->in[0]));
  const bool want[3] = {v->need[0], v->need[1], v->need[2]};
  gradients(made, want, cni_in_type(v->g[0], type), h, cni_in_type(v->in[1], type), rstd);
  for (int i = 0; i < 3; i++)
    if (want[i]) v->gin[i] = cni_in_type(made[i], v->in_meta[i].dtype);
  return cn_err();
}

static int group_norm_vjp(cn_vjp *v)
{
  int64_t mask[3];
  if (!v->g[0]) return CN_OK;
  if (cni_recording()) return plain_group_norm_vjp(v);
  cni_norm_wanted(v, (const int[]){0, 1, 2}, mask);
  return cn_native_group_norm_backward(mask[0] ? &v->gin[0] : NULL, mask[1] ? &v->gin[1] : NULL,
                                       mask[2] ? &v->gin[2] : NULL, v->g[0], v->in[0], v->out[1], v->out[2], v->in[1],
                                       cni_arg_int(v->args, 3), mask, 3);
}

/* native_group_norm_backward(grad_out, input, mean, rstd, weight, num_groups, output_mask) */
static int group_norm_backward_infer(cn_call *c)
{
  const cn_desc *g = &c->in[0]->d, *x = &c->in[1]->d;
  const cn_value *mask = &c->args[6];
  int64_t groups = cni_arg_int(c->args, 5), channels = cni_channels_of(x), stats[2] = {x->shape[0], groups};
  int type = c->in[4] ? c->in[4]->d.dtype : x->dtype, status = check_input(c, x, groups);
  if (status) return status;
  if (!cni_same_shape(g->ndim, g->shape, x->ndim, x->shape))
    return cn_call_fail(c, CN_ERR_SHAPE, "the gradient must have the input's shape (N, C, ...)");
  for (int i = 2; i < 4; i++) {
    const cn_desc *d = &c->in[i]->d;
    if (!cni_same_shape(d->ndim, d->shape, 2, stats) || d->dtype != cni_wide_type(x->dtype))
      return cn_call_fail(c, CN_ERR_SHAPE, "not the statistics of such groups");
  }
  status = cni_check_channels(c, c->in[4], "weight", channels);
  if (!status) status = cni_masked_result(c, 0, mask, x->dtype, x->ndim, x->shape);
  if (!status && c->spec[0].ndim == x->ndim) cni_follow_strides(c, 0, &c->in[1], 1);
  for (int i = 1; i < 3 && !status; i++) status = cni_masked_result(c, i, mask, type, 1, &channels);
  return status;
}

/* ---- by their parts ---- */

static int native_group_norm_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *y, *mean, *rstd;
  const cn_desc *d = &x->d;
  int64_t groups = cni_arg_int(c->args, 3), row = d->numel ? d->numel / (d->shape[0] * groups) : 0;
  int type = cni_wide_type(d->dtype); /* one rounding, at the end */
  cn_native_layer_norm(&y, &mean, &rstd, by_groups(cni_in_type(x, type), groups), &row, 1, NULL, NULL,
                       cni_arg_float(c->args, 4));
  y = cn_reshape(y, d->shape, (size_t)d->ndim);
  if (c->in[1]) y = cn_mul(y, cni_per_channel(cni_in_type(c->in[1], type), d->ndim));
  if (c->in[2]) y = cn_add(y, cni_per_channel(cni_in_type(c->in[2], type), d->ndim));
  c->out[0] = cni_in_type(y, d->dtype);
  c->out[1] = cn_reshape(mean, CN_SHAPE(d->shape[0], groups));
  c->out[2] = cn_reshape(rstd, CN_SHAPE(d->shape[0], groups));
  return cn_err();
}

static int native_group_norm_backward_decompose(cn_call *c)
{
  cn_tensor *x = c->in[1], *made[3] = {NULL, NULL, NULL};
  const cn_value *mask = &c->args[6];
  int type = cni_wide_type(x->d.dtype);
  int64_t groups = cni_arg_int(c->args, 5);
  bool want[3];
  for (int i = 0; i < 3; i++) want[i] = i < mask->n && mask->u.is[i];
  cn_tensor *mean = cn_unsqueeze(c->in[2], 2), *rstd = cn_unsqueeze(c->in[3], 2);
  cn_tensor *h = cn_mul(cn_sub(by_groups(cni_in_type(x, type), groups), mean), rstd);
  gradients(made, want, cni_in_type(c->in[0], type), cn_reshape(h, x->d.shape, (size_t)x->d.ndim),
            cni_in_type(c->in[4], type), rstd);
  for (int i = 0; i < 3; i++) c->out[i] = cni_norm_or_empty(c, i, want[i], made[i]);
  return cn_err();
}

/* group_norm(input, num_groups, weight, bias, eps) */
static int group_norm_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t groups = cni_arg_int(c->args, 1), channels = cni_channels_of(d);
  int status = check_groups(c, d, groups);
  if (!status) status = cni_check_channels(c, c->in[1], "weight", channels);
  if (!status) status = cni_check_channels(c, c->in[2], "bias", channels);
  if (status) return status;
  if (d->numel == 0) {
    c->out[0] = cn_clone(c->in[0]);
    return cn_err();
  }
  return cn_native_group_norm(&c->out[0], NULL, NULL, c->in[0], c->in[1], c->in[2], groups, cni_arg_float(c->args, 4));
}

/* clang-format off */
const cn_op cni_group_norm_ops[] = {
  {.sig = "group_norm(Tensor input, int num_groups, Tensor? weight=None, Tensor? bias=None, float eps=1e-5) "
          "-> Tensor ; nn amp_f32_device grad_fn_NativeGroupNormBackward0",
   .doc = "Channels in num_groups groups, each normalised with its own mean and variance per sample, then * weight + "
          "bias per channel.",
   .flags = CN_OP_COMPOSITE, .decompose = group_norm_decompose},
  {.sig = "native_group_norm(Tensor input, Tensor? weight, Tensor? bias, int num_groups, float eps) "
          "-> (Tensor output, Tensor mean, Tensor rstd) ; internal tuple",
   .doc = "group_norm with its statistics (N, num_groups), float32 for smaller types. Gradients flow through output "
          "only.",
   .cost = cni_cost_norm, .infer = group_norm_infer, .vjp = group_norm_vjp, .decompose = native_group_norm_decompose,
   .needs = {[0] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2), [1] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2),
             [2] = CN_IN(0) | CN_IN(1) | CN_OUT(1) | CN_OUT(2)}},
  {.sig = "native_group_norm_backward(Tensor grad_out, Tensor input, Tensor mean, Tensor rstd, Tensor? weight, "
          "int num_groups, int[] output_mask) -> (Tensor grad_input, Tensor grad_weight, Tensor grad_bias) "
          "; internal tuple",
   .doc = "Gradients of native_group_norm; those whose output_mask is 0 come back empty. Has no gradient of its own.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_norm_backward,
   .infer = group_norm_backward_infer, .decompose = native_group_norm_backward_decompose},
};
/* clang-format on */
CNI_FAMILY(group_norm);
