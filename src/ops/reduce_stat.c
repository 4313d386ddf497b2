/* reduce_stat.c: the family of statistics along dims: variance, standard deviation, vector norms, and slices
 * held below a norm.
 *
 * Place in the flow: rows for apply; kernels stand in backends/cpu/reduce/moments.c and reduce.c. Invariant: as in
 * reduce.c, gradients never read a value; where a formula has a hole (a norm or deviation of zero) a mask
 * fills it with PyTorch's result. */
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <math.h>

#include "cost.h"
#include "families.h"
#include "reduce.h"

/* ---- var and std: (input, dim, correction, keepdim) ---- */

static int var_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], d->ndim, &mask);
  if (status) return status;
  if (!cni_dtype_is_float(d->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast it first",
                        cn_dtype_name((cn_dtype)d->dtype));
  if ((status = cni_check_computes(c, d->dtype))) return status;
  for (int i = 0; i < c->nout && !status; i++)
    status = cni_reduced_result(c, i, mask, cni_arg_bool(c->args, 3), d->dtype);
  return status;
}

/* count - correction as a scalar. A whole number stays one, which a tracer can tell from the sizes. */
static cn_tensor *freedom(int64_t count, double correction, bool at_least_zero)
{
  int64_t whole = count - (int64_t)correction;
  if (correction == (double)(int64_t)correction) return cn_int(at_least_zero && whole < 0 ? 0 : whole);
  cn_tensor *left = cn_sub(cn_int(count), cn_num(correction));
  return at_least_zero ? cn_clamp_min(left, cn_int(0)) : left;
}

static int var_decompose_as(cn_call *c, bool root)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t room[CN_MAX_DIMS];
  uint32_t mask = cni_vjp_mask(&c->args[1], d->ndim);
  int64_t count = cni_reduced_count(d->ndim, d->shape, mask);
  cn_ints dims = cni_dims_list(mask, d->ndim, room);
  cn_tensor *mean = cn_mean(c->in[0], .dim = dims, .keepdim = true);
  cn_tensor *sum =
      cn_sum(cn_square(cn_sub(c->in[0], mean)), .dim = dims, .keepdim = cni_arg_bool(c->args, 3));
  cn_tensor *var = cn_true_divide(sum, freedom(count, cni_arg_float(c->args, 2), true));
  c->out[0] = root ? cn_sqrt(var) : var;
  if (c->nout > 1) c->out[1] = cn_reshape(mean, c->spec[1].shape, (size_t)c->spec[1].ndim);
  return cn_err();
}
static int var_decompose(cn_call *c) { return var_decompose_as(c, false); }
static int std_decompose(cn_call *c) { return var_decompose_as(c, true); }

/* g: the gradient of the variance, with the reduced dims as size 1. */
static cn_tensor *var_gradient(const cn_vjp *v, cn_tensor *g, uint32_t mask)
{
  const cn_meta *m = &v->in_meta[0];
  int64_t room[CN_MAX_DIMS], count = cni_reduced_count(m->ndim, m->shape, mask);
  bool all = m->ndim == 0 || cni_arg_none(v->args, 1); /* as PyTorch: NaN there when too few are left */
  cn_tensor *mean = cn_mean(v->in[0], .dim = cni_dims_list(mask, m->ndim, room), .keepdim = true);
  cn_tensor *scaled = cn_true_divide(cn_mul(g, cn_int(2)), freedom(count, cni_arg_float(v->args, 2), all));
  return cn_mul(scaled, cn_sub(v->in[0], mean));
}

static int var_vjp(cn_vjp *v)
{
  int ndim = v->in_meta[0].ndim;
  uint32_t mask = cni_vjp_mask(&v->args[1], ndim);
  v->gin[0] = var_gradient(v, cni_with_dims(v->g[0], ndim, mask, cni_arg_bool(v->args, 3)), mask);
  return cn_err();
}

/* From the gradient of std to that of var; where std is 0 it is 0. */
static cn_tensor *std_to_var(cn_tensor *g, cn_tensor *y)
{
  return cn_where(cn_eq(y, cn_int(0)), cn_int(0), cn_true_divide(g, cn_mul(y, cn_int(2))));
}

static int std_vjp(cn_vjp *v)
{
  int ndim = v->in_meta[0].ndim;
  uint32_t mask = cni_vjp_mask(&v->args[1], ndim);
  cn_tensor *g = std_to_var(v->g[0], v->out[0]);
  v->gin[0] = var_gradient(v, cni_with_dims(g, ndim, mask, cni_arg_bool(v->args, 3)), mask);
  return cn_err();
}

/* var_mean and std_mean: both results share one pass. */
static int with_mean_vjp(cn_vjp *v, bool root)
{
  const cn_meta *m = &v->in_meta[0];
  uint32_t mask = cni_vjp_mask(&v->args[1], m->ndim);
  bool keepdim = cni_arg_bool(v->args, 3);
  cn_tensor *sum = NULL;
  if (v->g[0]) {
    cn_tensor *g = root ? std_to_var(v->g[0], v->out[0]) : v->g[0];
    sum = var_gradient(v, cni_with_dims(g, m->ndim, mask, keepdim), mask);
  }
  if (v->g[1]) {
    cn_tensor *g = cn_true_divide(v->g[1], cn_int(cni_reduced_count(m->ndim, m->shape, mask)));
    g = cni_spread(g, m, mask, keepdim);
    sum = sum ? cn_add(sum, g) : g;
  }
  v->gin[0] = sum;
  return cn_err();
}
static int var_mean_vjp(cn_vjp *v) { return with_mean_vjp(v, false); }
static int std_mean_vjp(cn_vjp *v) { return with_mean_vjp(v, true); }

/* ---- linalg_vector_norm(input, ord, dim, keepdim, dtype) ---- */

static int norm_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  double ord = cni_arg_float(c->args, 1);
  int dtype = cni_arg_none(c->args, 4) ? d->dtype : (int)c->args[4].u.i;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[2], d->ndim, &mask);
  if (status) return status;
  if (!cni_dtype_is_float(d->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast it first",
                        cn_dtype_name((cn_dtype)d->dtype));
  if ((status = cni_check_computes(c, d->dtype)) || (status = cni_check_computes(c, dtype))) return status;
  if (!cni_dtype_is_float(dtype) || cni_promote(d->dtype, dtype) != dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "dtype %s is narrower than the input's %s",
                        cn_dtype_name((cn_dtype)dtype), cn_dtype_name((cn_dtype)d->dtype));
  for (int k = 0; (ord < 0 || isinf(ord)) && k < d->ndim; k++)
    if (mask >> k & 1 && d->shape[k] == 0)
      return cn_call_fail(c, CN_ERR_VALUE,
                          "the norm of order %g of nothing is not defined; dimension %d is empty", ord, k);
  return cni_reduced_result(c, 0, mask, cni_arg_bool(c->args, 3), dtype);
}

/* Powers of half-precision numbers leave their range: they are taken in float32. */
static int wide_of(cn_dtype dtype) { return dtype == CN_F16 || dtype == CN_BF16 ? CN_F32 : (int)dtype; }

static int norm_decompose(cn_call *c)
{
  double ord = cni_arg_float(c->args, 1);
  bool keepdim = cni_arg_bool(c->args, 3);
  int64_t room[CN_MAX_DIMS];
  cn_tensor *x = c->in[0], *y;
  cn_ints dims = cni_dims_list(cni_vjp_mask(&c->args[2], cn_ndim(x)), cn_ndim(x), room);
  cn_dtype dtype = (cn_dtype)c->spec[0].dtype;
  x = cni_in_type(x, wide_of(dtype));
  if (isinf(ord))
    y = ord > 0 ? cn_amax(cn_abs(x), .dim = dims, .keepdim = keepdim)
                : cn_amin(cn_abs(x), .dim = dims, .keepdim = keepdim);
  else if (ord == 0) y = cn_cast(cn_sum(cn_ne(x, cn_int(0)), .dim = dims, .keepdim = keepdim), dtype);
  else if (ord == 1) y = cn_sum(cn_abs(x), .dim = dims, .keepdim = keepdim);
  else if (ord == 2) y = cn_sqrt(cn_sum(cn_square(x), .dim = dims, .keepdim = keepdim));
  else y = cn_pow(cn_sum(cn_pow(cn_abs(x), cn_num(ord)), .dim = dims, .keepdim = keepdim), cn_num(1 / ord));
  c->out[0] = cni_in_type(y, (int)dtype);
  return cn_err();
}

static cn_tensor *zero_where(cn_tensor *condition, cn_tensor *x) { return cn_where(condition, cn_int(0), x); }

/* Gradient for orders that are neither 0, 1, 2 nor infinite. */
static cn_tensor *power_norm_gradient(cn_tensor *x, double ord, cn_tensor *y, cn_tensor *g)
{
  cn_tensor *zero = cn_eq(y, cn_int(0));
  if (ord < 1) {
    cn_tensor *part = cn_mul(cn_sign(x), cn_pow(cn_abs(x), cn_num(ord - 1)));
    return cn_mul(zero_where(cn_eq(x, cn_int(0)), part), cn_mul(g, cn_pow(y, cn_num(1 - ord))));
  }
  cn_tensor *scale = zero_where(zero, cn_true_divide(g, cn_pow(y, cn_num(ord - 1))));
  if (ord < 2) return cn_mul(cn_mul(cn_sign(x), cn_pow(cn_abs(x), cn_num(ord - 1))), scale);
  return cn_mul(cn_mul(x, cn_pow(cn_abs(x), cn_num(ord - 2))), scale);
}

static int norm_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  double ord = cni_arg_float(v->args, 1);
  uint32_t mask = cni_vjp_mask(&v->args[2], m->ndim);
  bool keepdim = cni_arg_bool(v->args, 3);
  cn_tensor *x = v->in[0], *g = cni_with_dims(v->g[0], m->ndim, mask, keepdim);
  cn_tensor *y = cni_with_dims(v->out[0], m->ndim, mask, keepdim);
  int wide = wide_of(cn_dtype_of(y));
  x = cni_in_type(x, wide);
  y = cni_in_type(y, wide);
  g = cni_in_type(g, wide);
  if (ord == 0) return CN_OK;
  if (isinf(ord)) {
    cn_tensor *size = cn_abs(x), *ties = cn_logical_or(cn_eq(size, y), cn_isnan(size));
    v->gin[0] = cn_mul(cn_sign(x), cni_share_evenly(g, ties, mask));
  } else if (ord == 1) {
    v->gin[0] = cn_mul(cn_sign(x), g);
  } else if (ord == 2) {
    v->gin[0] = cn_mul(g, zero_where(cn_eq(y, cn_int(0)), cn_true_divide(x, y)));
  } else {
    int64_t room[CN_MAX_DIMS];
    if (wide != v->in_meta[0].dtype) /* powers of a rounded norm would be off */
      y = cn_linalg_vector_norm(x, .ord = ord, .dim = cni_dims_list(mask, m->ndim, room), .keepdim = true);
    v->gin[0] = power_norm_gradient(x, ord, y, g);
  }
  return cn_err();
}

/* norm(input, p, dim, keepdim, dtype): PyTorch's older name. */
static int plain_norm_decompose(cn_call *c)
{
  double p = cni_arg_float(c->args, 1);
  cn_linalg_vector_norm_opts o = {.size = sizeof o,
                                  .ord = cni_option_float(p),
                                  .keepdim = cni_arg_bool(c->args, 3),
                                  .dtype = (cn_dtype)cni_arg_int_or(c->args, 4, 0)};
  if (!cni_arg_none(c->args, 2)) o.dim = (cn_ints){c->args[2].u.is, (size_t)c->args[2].n};
  c->out[0] = cn_linalg_vector_norm_with(c->in[0], &o);
  return cn_err();
}

/* ---- renorm(input, p, dim, maxnorm) ---- */

static int renorm_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0];
  double p = cni_arg_float(c->args, 1), most = cni_arg_float(c->args, 3);
  int ndim = x->d.ndim, dim;
  int64_t others[CN_MAX_DIMS];
  size_t n = 0;
  if (!(p > 0)) return cn_call_fail(c, CN_ERR_VALUE, "p must be positive, but is %g", p);
  if (!(most >= 0)) return cn_call_fail(c, CN_ERR_VALUE, "maxnorm must not be negative, but is %g", most);
  if (ndim < 2) return cn_call_fail(c, CN_ERR_SHAPE, "the input must have at least 2 dimensions, but has %d", ndim);
  if ((dim = cn_call_dim(c, cni_arg_int(c->args, 2), ndim)) < 0) return dim;
  for (int i = 0; i < ndim; i++)
    if (i != dim) others[n++] = i;
  bool half = x->d.dtype == CN_F16 || x->d.dtype == CN_BF16;
  cn_tensor *norm =
      cn_linalg_vector_norm(x, .ord = p, .dim = {others, n}, .keepdim = true, .dtype = half ? CN_F32 : CN_DTYPE_NONE);
  cn_tensor *scale = cn_true_divide(cn_num(most), cn_add(norm, cn_num(1e-7)));
  scale = cn_where(cn_gt(norm, cn_num(most)), scale, cn_int(1));
  c->out[0] = cn_mul(x, cni_in_type(scale, x->d.dtype));
  return cn_err();
}

/* clang-format off */
const cn_op cni_reduce_stat_ops[] = {
  {.sig = "var(Tensor input, int[]? dim=None, *, Scalar correction=1, bool keepdim=False) -> Tensor ; method",
   .doc = "Variance of all elements, or along the dimensions listed: squared deviations over count - correction.",
   .cost = cni_cost_moments, .infer = var_infer, .vjp = var_vjp, .decompose = var_decompose, .needs = {[0] = CN_IN(0)}},
  {.sig = "std(Tensor input, int[]? dim=None, *, Scalar correction=1, bool keepdim=False) -> Tensor ; method",
   .doc = "Square root of the variance. Where it is 0 its gradient is taken as 0.",
   .cost = cni_cost_moments,
   .infer = var_infer, .vjp = std_vjp, .decompose = std_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "var_mean(Tensor input, int[]? dim=None, *, Scalar correction=1, bool keepdim=False) "
          "-> (Tensor var, Tensor mean) ; tuple complex",
   .doc = "Variance and mean.",
   .cost = cni_cost_moments,
   .infer = var_infer, .vjp = var_mean_vjp, .decompose = var_decompose, .needs = {[0] = CN_IN(0)}},
  {.sig = "std_mean(Tensor input, int[]? dim=None, *, Scalar correction=1, bool keepdim=False) "
          "-> (Tensor std, Tensor mean) ; tuple complex",
   .doc = "Standard deviation and mean.",
   .cost = cni_cost_moments,
   .infer = var_infer, .vjp = std_mean_vjp, .decompose = std_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "linalg_vector_norm(Tensor input, Scalar ord=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
          "-> Tensor ; linalg amp_f32",
   .doc = "Norm of order ord: (sum |x|^ord)^(1/ord); the number of non-zeros for 0, the largest or smallest |x| for "
          "inf and -inf.",
   .cost = cni_cost_reduce,
   .infer = norm_infer, .vjp = norm_vjp, .decompose = norm_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "norm(Tensor input, Scalar p=2, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) "
          "-> Tensor ; method amp_f32_device complex",
   .doc = "Vector norm of order p: what linalg_vector_norm computes.",
   .flags = CN_OP_COMPOSITE, .decompose = plain_norm_decompose},
  {.sig = "renorm(Tensor input, Scalar p, int dim, Scalar maxnorm) -> Tensor ; method inplace amp_f32_device grad_fn "
          "complex",
   .doc = "Scales each slice along dim whose p-norm is larger than maxnorm down to it.",
   .flags = CN_OP_COMPOSITE, .decompose = renorm_decompose},
};
/* clang-format on */
CNI_FAMILY(reduce_stat);
