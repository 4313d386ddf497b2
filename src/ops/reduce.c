/* reduce.c: the family of reductions: sums, products, extremes, all and any, over all dims or a list of them.
 *
 * Place in the flow: rows for apply; kernels stand in backends/cpu/reduce/reduce.c. Invariant: gradients never read
 * a value, so that they can be captured: ties, zeros and empty dims are handled by masks, not by branches on
 * data. */
#include <cairn/kw.h>
#include <cairn/ops.h>

#include "cost.h"
#include "families.h"
#include "reduce.h"
#include "hot.h"

/* ---- shapes, shared with the statistics in reduce_stat.c ---- */

int cni_reduced_result(cn_call *c, int i, uint32_t mask, bool keepdim, int dtype)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t shape[CN_MAX_DIMS];
  int n = 0;
  for (int k = 0; k < d->ndim; k++) {
    if (!(mask >> k & 1)) shape[n++] = d->shape[k];
    else if (keepdim) shape[n++] = 1;
  }
  return cn_call_result(c, i, dtype, n, shape);
}

uint32_t cni_vjp_mask(const cn_value *dims, int ndim)
{
  uint32_t mask = 0;
  if (dims->tag == CN_V_NONE || dims->n == 0) return ndim ? (1u << ndim) - 1 : 1;
  for (int i = 0; i < dims->n; i++) {
    int64_t k = dims->tag == CN_V_INT ? dims->u.i : dims->u.is[i];
    mask |= 1u << (k < 0 ? k + (ndim ? ndim : 1) : k);
  }
  return mask;
}

int64_t cni_reduced_count(int ndim, const int64_t *shape, uint32_t mask)
{
  int64_t n = 1;
  for (int k = 0; k < ndim; k++)
    if (mask >> k & 1) n *= shape[k];
  return n;
}

cn_tensor *cni_with_dims(cn_tensor *g, int ndim, uint32_t mask, bool keepdim)
{
  if (keepdim || cn_ndim(g) == ndim) return g;
  if (cn_ndim(g) == 0) return g; /* broadcasts by itself */
  for (int k = 0; k < ndim; k++)
    if (mask >> k & 1) g = cn_unsqueeze(g, k);
  return g;
}

cn_tensor *cni_spread(cn_tensor *g, const cn_meta *x, uint32_t mask, bool keepdim)
{
  return cn_expand(cni_with_dims(g, x->ndim, mask, keepdim), x->shape, (size_t)x->ndim);
}

int cni_check_computes(const cn_call *c, int dtype)
{
  if (cni_dtype_valid(dtype) && cni_dtype_computes(dtype)) return CN_OK;
  return cn_call_fail(c, CN_ERR_DTYPE, "does not compute in %s; cast it first",
                      cni_dtype_valid(dtype) ? cn_dtype_name((cn_dtype)dtype) : "this type");
}

int cni_sum_type(const cn_call *c, int param)
{
  int dtype = c->in[0]->d.dtype;
  return !cni_arg_none(c->args, param) ? (int)c->args[param].u.i : cni_dtype_is_float(dtype) ? dtype : CN_I64;
}

/* ---- sum and mean: (input, dim, keepdim, dtype) ---- */

int cni_sum_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  int dtype = cni_sum_type(c, 3), status = cni_dims_mask(c, &c->args[1], d->ndim, &mask);
  if (!status) status = cni_check_computes(c, d->dtype);
  if (!status) status = cni_check_computes(c, dtype);
  return status ? status : cni_reduced_result(c, 0, mask, cni_arg_bool(c->args, 2), dtype);
}

static int sum_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[0];
  v->gin[0] = cni_spread(v->g[0], x, cni_vjp_mask(&v->args[1], x->ndim), cni_arg_bool(v->args, 2));
  return cn_err();
}

static int mean_infer(cn_call *c)
{
  int dtype = cni_arg_none(c->args, 3) ? c->in[0]->d.dtype : (int)c->args[3].u.i;
  if (!cni_dtype_valid(dtype) || !cni_dtype_is_float(dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast input or set dtype",
                        cn_dtype_name((cn_dtype)dtype));
  return cni_sum_infer(c);
}

static int mean_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[0];
  uint32_t mask = cni_vjp_mask(&v->args[1], x->ndim);
  cn_tensor *g = cn_true_divide(v->g[0], cn_int(cni_reduced_count(x->ndim, x->shape, mask)));
  v->gin[0] = cni_spread(g, x, mask, cni_arg_bool(v->args, 2));
  return cn_err();
}

/* The dims of a mask as a list; room: CN_MAX_DIMS of them. */
cn_ints cni_dims_list(uint32_t mask, int ndim, int64_t *room)
{
  cn_ints list = {room, 0};
  for (int k = 0; k < ndim; k++)
    if (mask >> k & 1) room[list.n++] = k;
  return list;
}

static int mean_decompose(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  int64_t room[CN_MAX_DIMS];
  uint32_t mask = cni_vjp_mask(&c->args[1], d->ndim);
  cn_tensor *sum = cn_sum(c->in[0], .dim = cni_dims_list(mask, d->ndim, room),
                          .keepdim = cni_arg_bool(c->args, 2), .dtype = (cn_dtype)c->spec[0].dtype);
  c->out[0] = cn_true_divide(sum, cn_int(cni_reduced_count(d->ndim, d->shape, mask)));
  return cn_err();
}

/* ---- nansum and nanmean: (input, dim, keepdim, dtype) ---- */

static cn_ints dims_of(const cn_value *v)
{
  return v->tag == CN_V_INTS ? (cn_ints){v->u.is, (size_t)v->n} : (cn_ints){NULL, 0};
}

static int nansum_vjp(cn_vjp *v)
{
  const cn_meta *x = &v->in_meta[0];
  cn_tensor *g = cni_spread(v->g[0], x, cni_vjp_mask(&v->args[1], x->ndim), cni_arg_bool(v->args, 2));
  v->gin[0] = cn_where(cn_isnan(v->in[0]), cn_int(0), g);
  return cn_err();
}

static int nansum_decompose(cn_call *c)
{
  cn_tensor *x = c->in[0], *there = x;
  if (cni_dtype_is_float(x->d.dtype)) /* 0 where x is not itself */
    cn_pointwise(&there, 1, &x, 1, "1|0|ne 0 0;where 2 1 0|3", NULL, 0);
  c->out[0] = cn_sum(there, .dim = dims_of(&c->args[1]), .keepdim = cni_arg_bool(c->args, 2),
                     .dtype = (cn_dtype)cni_arg_int_or(c->args, 3, 0));
  return cn_err();
}

static int nanmean_decompose(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  if (!cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_DTYPE, "takes floating-point numbers, not %s; cast it first",
                        cn_dtype_name((cn_dtype)x->dtype));
  cn_ints dims = dims_of(&c->args[1]);
  bool keepdim = cni_arg_bool(c->args, 2);
  cn_tensor *count = cn_sum(cn_logical_not(cn_isnan(c->in[0])), .dim = dims, .keepdim = keepdim);
  cn_dtype dtype = (cn_dtype)cni_arg_int_or(c->args, 3, 0);
  c->out[0] = cn_true_divide(cn_nansum(c->in[0], .dim = dims, .keepdim = keepdim, .dtype = dtype), count);
  return cn_err();
}

/* ---- prod: (input, dtype) and (input, dim, keepdim, dtype) ---- */

static int prod_infer(cn_call *c)
{
  int dtype = cni_sum_type(c, 1), status = cni_check_computes(c, c->in[0]->d.dtype);
  if (!status) status = cni_check_computes(c, dtype);
  return status ? status : cn_call_result(c, 0, dtype, 0, NULL);
}

static int prod_dim_infer(cn_call *c)
{
  int dtype = cni_sum_type(c, 3), status = cni_check_computes(c, c->in[0]->d.dtype);
  uint32_t mask;
  if (!status) status = cni_check_computes(c, dtype);
  if (!status) status = cni_dims_mask(c, &c->args[1], c->in[0]->d.ndim, &mask);
  return status ? status : cni_reduced_result(c, 0, mask, cni_arg_bool(c->args, 2), dtype);
}

/* The product of all elements before each one along dim. */
static cn_tensor *products_before(cn_tensor *x, int64_t dim)
{
  int64_t n = cn_size(x, dim);
  cn_tensor *first = cn_ones_like(cn_slice(x, dim, 0, 1)), *rest = cn_slice(x, dim, 0, n - 1);
  return cn_cumprod(cn_cat(CN_TENSORS(first, rest), .dim = dim ? dim : CN_ZERO), dim);
}

/* The product of all the other elements along dim: no division, so zeros do no harm. */
static cn_tensor *products_of_others(cn_tensor *x, int64_t dim)
{
  cn_tensor *after = cn_flip(products_before(cn_flip(x, &dim, 1), dim), &dim, 1);
  return cn_mul(products_before(x, dim), after);
}

static int prod_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  cn_tensor *x = cni_in_type(v->in[0], v->g[0]->d.dtype);
  if (cn_numel(x) == 0) return CN_OK;
  cn_tensor *others = products_of_others(cn_reshape(x, CN_SHAPE(-1)), 0);
  v->gin[0] = cn_mul(v->g[0], cn_reshape(others, m->shape, (size_t)m->ndim));
  return cn_err();
}

static int prod_dim_vjp(cn_vjp *v)
{
  const cn_meta *m = &v->in_meta[0];
  uint32_t mask = cni_vjp_mask(&v->args[1], m->ndim);
  int64_t dim = __builtin_ctz(mask);
  cn_tensor *x = cni_in_type(v->in[0], v->g[0]->d.dtype);
  cn_tensor *g = cni_with_dims(v->g[0], m->ndim, mask, cni_arg_bool(v->args, 2));
  if (cn_numel(x) == 0) return CN_OK;
  v->gin[0] = m->ndim ? cn_mul(g, products_of_others(x, dim)) : g;
  return cn_err();
}

/* ---- extremes ---- */

/* There is no largest of no elements. */
static int check_some(const cn_call *c, uint32_t mask)
{
  const cn_desc *d = &c->in[0]->d;
  for (int k = 0; k < d->ndim; k++)
    if (mask >> k & 1 && d->shape[k] == 0)
      return cn_call_fail(c, CN_ERR_INDEX,
                          "dimension %d is empty, but must not be where a choice among its elements "
                          "is made",
                          k);
  return CN_OK;
}

static int extreme_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  bool listed = c->nargs > 1;
  cn_value all = cn_v_none();
  int status = cni_dims_mask(c, listed ? &c->args[1] : &all, d->ndim, &mask);
  if (!status) status = check_some(c, mask);
  if (!status) status = cni_check_computes(c, d->dtype);
  return status ? status : cni_reduced_result(c, 0, mask, listed && cni_arg_bool(c->args, 2), d->dtype);
}

/* The others get 0, and so NaN where there is no tie at all: the largest was NaN, which equals nothing. */
cn_tensor *cni_share_evenly(cn_tensor *g, cn_tensor *ties, uint32_t mask)
{
  int64_t room[CN_MAX_DIMS];
  cn_tensor *count = cn_sum(ties, .dim = cni_dims_list(mask, cn_ndim(ties), room), .keepdim = true);
  cn_tensor *share = cn_true_divide(g, count);
  return cn_where(ties, share, cn_mul(share, cn_int(0)));
}

static int amax_vjp(cn_vjp *v)
{
  int ndim = v->in_meta[0].ndim;
  bool keepdim = cni_arg_bool(v->args, 2);
  uint32_t mask = cni_vjp_mask(&v->args[1], ndim);
  cn_tensor *y = cni_with_dims(v->out[0], ndim, mask, keepdim);
  v->gin[0] = cni_share_evenly(cni_with_dims(v->g[0], ndim, mask, keepdim), cn_eq(v->in[0], y), mask);
  return cn_err();
}

/* max and min over everything: where the result is NaN, the NaNs share the gradient. */
static int max_vjp(cn_vjp *v)
{
  cn_tensor *ties = cn_logical_or(cn_eq(v->in[0], v->out[0]), cn_isnan(v->in[0]));
  v->gin[0] = cni_share_evenly(v->g[0], ties, UINT32_MAX);
  return cn_err();
}

static int max_decompose(cn_call *c)
{
  c->out[0] = cn_amax(c->in[0]);
  return cn_err();
}
static int min_decompose(cn_call *c)
{
  c->out[0] = cn_amin(c->in[0]);
  return cn_err();
}

static int max_other_decompose(cn_call *c)
{
  c->out[0] = cn_maximum(c->in[0], c->in[1]);
  return cn_err();
}

static int min_other_decompose(cn_call *c)
{
  c->out[0] = cn_minimum(c->in[0], c->in[1]);
  return cn_err();
}

/* max_dim and min_dim: (input, dim, keepdim) -> (values, indices) */
static int max_dim_infer(cn_call *c)
{
  int status = extreme_infer(c);
  if (status) return status;
  return cn_call_result(c, 1, CN_I64, c->spec[0].ndim, c->spec[0].shape);
}

cn_tensor *cni_scatter_along(cn_tensor *g, const cn_meta *x, int64_t dim, cn_tensor *index)
{
  return cn_scatter(cni_zeros_of(x, cn_dtype_of(g)), dim, index, g);
}

int cni_picked_one_vjp(cn_vjp *v, int dim_param)
{
  const cn_meta *x = &v->in_meta[0];
  uint32_t mask = cni_vjp_mask(&v->args[dim_param], x->ndim);
  bool keepdim = cni_arg_bool(v->args, dim_param + 1);
  if (!v->g[0]) return CN_OK;
  v->gin[0] = x->ndim == 0 ? v->g[0]
                           : cni_scatter_along(cni_with_dims(v->g[0], x->ndim, mask, keepdim), x, __builtin_ctz(mask),
                                       cni_with_dims(v->out[1], x->ndim, mask, keepdim));
  return cn_err();
}

static int max_dim_vjp(cn_vjp *v) { return cni_picked_one_vjp(v, 1); }

/* argmax and argmin: (input, dim, keepdim); without dim the index counts through the whole tensor in row
 * order. */
static int arg_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], d->ndim, &mask);
  if (!status && d->dtype == CN_BOOL)
    return cn_call_fail(c, CN_ERR_DTYPE, "does not take bool; cast it first");
  if (!status) status = check_some(c, mask);
  if (!status) status = cni_check_computes(c, d->dtype);
  return status ? status : cni_reduced_result(c, 0, mask, cni_arg_bool(c->args, 2), CN_I64);
}

/* aminmax(input, dim, keepdim) */
static int aminmax_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], x->ndim, &mask);
  if (!status) status = cni_check_computes(c, x->dtype);
  for (int k = 0; k < x->ndim && !status; k++)
    if (mask >> k & 1 && x->shape[k] == 0)
      status = cn_call_fail(c, CN_ERR_INDEX, "dimension %d is empty, and there is no least of no elements", k);
  for (int i = 0; i < 2 && !status; i++)
    status = cni_reduced_result(c, i, mask, cni_arg_bool(c->args, 2), x->dtype);
  return status;
}

static int aminmax_vjp(cn_vjp *v)
{
  int ndim = v->in_meta[0].ndim;
  bool keepdim = cni_arg_bool(v->args, 2);
  uint32_t mask = cni_vjp_mask(&v->args[1], ndim);
  for (int i = 0; i < 2; i++) {
    if (!v->g[i]) continue;
    cn_tensor *y = cni_with_dims(v->out[i], ndim, mask, keepdim), *g = cni_with_dims(v->g[i], ndim, mask, keepdim);
    cn_tensor *part = cni_share_evenly(g, cn_eq(v->in[0], y), mask);
    v->gin[0] = v->gin[0] ? cn_add(v->gin[0], part) : part;
  }
  return cn_err();
}

static int aminmax_decompose(cn_call *c)
{
  int64_t dim = cni_arg_int_or(c->args, 1, 0);
  cn_ints dims = {&dim, !cni_arg_none(c->args, 1)};
  bool keepdim = cni_arg_bool(c->args, 2);
  c->out[0] = cn_amin(c->in[0], .dim = dims, .keepdim = keepdim);
  c->out[1] = cn_amax(c->in[0], .dim = dims, .keepdim = keepdim);
  return cn_err();
}

/* ---- all, any, count_nonzero ---- */

/* Unlike elsewhere, an empty list of dims means none of them. */
static int all_infer(cn_call *c)
{
  const cn_desc *d = &c->in[0]->d;
  uint32_t mask;
  int status = cni_arg_none(c->args, 1) ? cni_dims_mask(c, &c->args[1], d->ndim, &mask)
                                        : cni_dims_mask_strict(c, &c->args[1], d->ndim, &mask);
  if (!status) status = cni_check_computes(c, d->dtype);
  return status
             ? status
             : cni_reduced_result(c, 0, mask, cni_arg_bool(c->args, 2), d->dtype == CN_U8 ? CN_U8 : CN_BOOL);
}

static int count_decompose(cn_call *c)
{
  int64_t room[CN_MAX_DIMS];
  int ndim = cn_ndim(c->in[0]);
  cn_ints dims = cni_dims_list(cni_vjp_mask(&c->args[1], ndim), ndim, room);
  c->out[0] = cn_sum(cn_ne(c->in[0], cn_int(0)), .dim = dims);
  return cn_err();
}

static int count_infer(cn_call *c)
{
  uint32_t mask;
  int status = cni_dims_mask(c, &c->args[1], c->in[0]->d.ndim, &mask);
  if (!status) status = cni_check_computes(c, c->in[0]->d.dtype);
  return status ? status : cni_reduced_result(c, 0, mask, false, CN_I64);
}

/* clang-format off */
const cn_op cni_reduce_ops[] = {
  {.sig = "sum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor "
          "; method amp_f32_device complex_parts",
   .doc = "Sum of all elements, or along the dimensions listed. Integers and bool add up in int64.",
   .cost = cni_cost_reduce, .infer = cni_sum_infer, .vjp = sum_vjp},
  {.sig = "mean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor ; method "
          "complex_parts",
   .doc = "Mean of all elements, or along the dimensions listed. NaN where there are none.",
   .cost = cni_cost_reduce, .infer = mean_infer, .vjp = mean_vjp, .decompose = mean_decompose},
  {.sig = "nansum(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor ; method grad_fn "
          "complex_parts",
   .doc = "Sum of all elements that are not NaN, or along the dimensions listed.",
   .cost = cni_cost_reduce,
   .infer = cni_sum_infer, .vjp = nansum_vjp, .decompose = nansum_decompose, .needs = {[0] = CN_IN(0)}},
  {.sig = "nanmean(Tensor input, int[]? dim=None, bool keepdim=False, *, dtype? dtype=None) -> Tensor ; method",
   .doc = "Mean of all elements that are not NaN, or along the dimensions listed; NaN where there are none.",
   .flags = CN_OP_COMPOSITE, .decompose = nanmean_decompose},
  {.sig = "prod(Tensor input, *, dtype? dtype=None) -> Tensor ; method amp_f32",
   .doc = "Product of all elements. Integers and bool multiply in int64.",
   .cost = cni_cost_reduce, .infer = prod_infer, .vjp = prod_vjp, .needs = {[0] = CN_IN(0)}},
  {.sig = "prod_dim(Tensor input, int dim, bool keepdim=False, *, dtype? dtype=None) "
          "-> Tensor ; method overload_prod grad_fn_ProdBackward1",
   .doc = "Product along one dimension.",
   .cost = cni_cost_reduce, .infer = prod_dim_infer, .vjp = prod_dim_vjp, .needs = {[0] = CN_IN(0)}},
  {.sig = "amax(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor ; method",
   .doc = "Largest element of all, or along the dimensions listed; NaN wins. Ties share the gradient.",
   .cost = cni_cost_reduce, .infer = extreme_infer, .vjp = amax_vjp, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "amin(Tensor input, int[] dim=[], bool keepdim=False) -> Tensor ; method",
   .doc = "Smallest element of all, or along the dimensions listed; NaN wins. Ties share the gradient.",
   .cost = cni_cost_reduce, .infer = extreme_infer, .vjp = amax_vjp, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "aminmax(Tensor input, *, int? dim=None, bool keepdim=False) -> (Tensor min, Tensor max) ; method",
   .doc = "Smallest and largest element of all, or along a dimension; NaN wins. Ties share the gradient.",
   .cost = cni_cost_reduce, .infer = aminmax_infer, .vjp = aminmax_vjp, .decompose = aminmax_decompose,
   .needs = {[0] = CN_IN(0) | CN_OUT(0) | CN_OUT(1)}},
  {.sig = "max(Tensor input) -> Tensor ; method grad_fn_MaxBackward1",
   .doc = "Largest element of all; NaN wins. Ties share the gradient.",
   .cost = cni_cost_reduce,
   .infer = extreme_infer, .vjp = max_vjp, .decompose = max_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "min(Tensor input) -> Tensor ; method grad_fn_MinBackward1",
   .doc = "Smallest element of all; NaN wins. Ties share the gradient.",
   .cost = cni_cost_reduce,
   .infer = extreme_infer, .vjp = max_vjp, .decompose = min_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "max_dim(Tensor input, int dim, bool keepdim=False) "
          "-> (Tensor values, Tensor indices) ; method overload_max grad_fn_MaxBackward0",
   .doc = "Largest element along a dimension and its first index; NaN wins. The gradient goes to that index.",
   .cost = cni_cost_reduce, .infer = max_dim_infer, .vjp = max_dim_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "min_dim(Tensor input, int dim, bool keepdim=False) "
          "-> (Tensor values, Tensor indices) ; method overload_min grad_fn_MinBackward0",
   .doc = "Smallest element along a dimension and its first index; NaN wins. The gradient goes to that index.",
   .cost = cni_cost_reduce, .infer = max_dim_infer, .vjp = max_dim_vjp, .needs = {[0] = CN_OUT(1)}},
  {.sig = "max_other(Tensor input, Tensor other) -> Tensor ; method overload_max",
   .doc = "The larger of two elements: maximum under the name that PyTorch's max has for it.",
   .flags = CN_OP_COMPOSITE, .decompose = max_other_decompose},
  {.sig = "min_other(Tensor input, Tensor other) -> Tensor ; method overload_min",
   .doc = "The smaller of two elements: minimum under the name that PyTorch's min has for it.",
   .flags = CN_OP_COMPOSITE, .decompose = min_other_decompose},
  {.sig = "argmax(Tensor input, int? dim=None, bool keepdim=False) -> Tensor ; method",
   .doc = "First index of the largest element along a dimension, or in the whole tensor laid flat; NaN wins.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_reduce, .infer = arg_infer},
  {.sig = "argmin(Tensor input, int? dim=None, bool keepdim=False) -> Tensor ; method",
   .doc = "First index of the smallest element along a dimension, or in the whole tensor laid flat; NaN wins.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_reduce, .infer = arg_infer},
  {.sig = "all(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor ; method",
   .doc = "True where all elements along the dimensions are non-zero. An empty list reduces nothing.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_reduce, .infer = all_infer},
  {.sig = "any(Tensor input, int[]? dim=None, bool keepdim=False) -> Tensor ; method",
   .doc = "True where some element along the dimensions is non-zero. An empty list reduces nothing.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_reduce, .infer = all_infer},
  {.sig = "count_nonzero(Tensor input, int[]? dim=None) -> Tensor ; method",
   .doc = "How many elements are not zero.",
   .flags = CN_OP_NO_GRAD, .cost = cni_cost_reduce, .infer = count_infer, .decompose = count_decompose},
};
/* clang-format on */
CNI_FAMILY(reduce);
