/* quantile.c: the family of statistics by order: median, mode, quantile, and their forms that look past NaN.
 *
 * Place in the flow: composites over sort, kthvalue, gather and sums.
 * Invariant: which element a result is becomes an index tensor, never a branch on data; gradients go to that element.
 */
#include <cairn/ext/parts.h>
#include <cairn/kw.h>
#include <cairn/ops.h>
#include <math.h>

#include "families.h"
#include "reduce.h"

/* ---- median, nanmedian, mode ---- */

/* Sets (values, indices) to the elements of input that stand at `index` along dim, whose size is 1 there. */
static int pick(cn_call *c, int dim, cn_tensor *index, bool keepdim)
{
  cn_tensor *values = cn_gather(c->in[0], dim, index);
  c->out[0] = keepdim ? values : cn_squeeze(values, .dim = CN_INTS(dim));
  c->out[1] = keepdim ? index : cn_squeeze(index, .dim = CN_INTS(dim));
  return cn_err();
}

/* 0-d: the element itself. 1 when it was that, 0 when there is more to do, or an error. */
static int pick_only(cn_call *c, int *dim)
{
  const cn_desc *x = &c->in[0]->d;
  int status = cni_check_computes(c, x->dtype);
  *dim = cn_call_dim(c, cni_arg_int(c->args, 1), x->ndim);
  if (status || *dim < 0) return status ? status : *dim;
  if (x->ndim == 0) {
    c->out[0] = cn_clone(c->in[0]);
    c->out[1] = cn_zeros(CN_SCALAR_SHAPE, .dtype = CN_I64, .device = c->device);
    return cn_err() ? cn_err() : 1;
  }
  if (x->shape[*dim] == 0)
    return cn_call_fail(c, CN_ERR_INDEX, "dimension %d is empty, but must not be where a choice among its elements is "
                        "made", *dim);
  return 0;
}

/* (input, dim, keepdim) -> (values, indices) */
static int median_along(cn_call *c, bool past_nan)
{
  int dim, status = pick_only(c, &dim);
  if (status) return status < 0 ? status : CN_OK;
  cn_tensor *x = c->in[0], *sorted, *order, *index;
  int64_t n = x->d.shape[dim];
  if (!cni_dtype_is_float(x->d.dtype) || !past_nan) {
    cn_kthvalue(NULL, &index, cn_detach(x), (n - 1) / 2 + 1, .dim = cni_option(dim), .keepdim = true);
    if (cni_dtype_is_float(x->d.dtype)) { /* the first NaN, if there is one */
      cn_tensor *nans = cn_cast(cn_isnan(x), CN_U8), *some;
      cn_max_dim(&some, &sorted, nans, dim, .keepdim = true);
      index = cn_where(cn_eq(some, cn_int(0)), index, sorted);
    }
  } else {
    cn_sort(&sorted, &order, cn_detach(x), .dim = cni_option(dim), .stable = true);
    cn_tensor *nans = cn_sum(cn_isnan(sorted), .dim = CN_INTS(dim), .keepdim = true);
    cn_tensor *numbers = cn_sub(cn_int(n), nans), *at;
    at = cn_floor_divide(cn_clamp_min(cn_sub(numbers, cn_int(1)), cn_int(0)), cn_int(2));
    index = cn_gather(order, dim, at);
  }
  return cn_err() ? cn_err() : pick(c, dim, index, cni_arg_bool(c->args, 2));
}
static int median_dim_decompose(cn_call *c) { return median_along(c, false); }
static int nanmedian_dim_decompose(cn_call *c) { return median_along(c, true); }

/* Of all elements: equals share the gradient. */
static int median_infer(cn_call *c)
{
  const cn_desc *x = &c->in[0]->d;
  int status = cni_check_computes(c, x->dtype);
  if (!status && x->numel == 0 && !cni_dtype_is_float(x->dtype))
    return cn_call_fail(c, CN_ERR_VALUE, "there is no median of no integers");
  return status ? status : cn_call_result(c, 0, x->dtype, 0, NULL);
}

static int median_all(cn_call *c, bool past_nan)
{
  cn_tensor *x = cn_reshape(c->in[0], CN_SHAPE(-1)), *unused;
  if (!cn_err() && x->d.numel == 0)
    c->out[0] = cn_full(CN_SCALAR_SHAPE, (double)NAN, .dtype = cn_dtype_of(x), .device = c->device);
  else if (past_nan) cn_nanmedian_dim(&c->out[0], &unused, x, 0);
  else cn_median_dim(&c->out[0], &unused, x, 0);
  return cn_err();
}
static int median_decompose(cn_call *c) { return median_all(c, false); }
static int nanmedian_decompose(cn_call *c) { return median_all(c, true); }

static int median_vjp(cn_vjp *v)
{
  cn_tensor *x = v->in[0], *y = v->out[0];
  cn_tensor *ties = cn_logical_or(cn_eq(x, y), cn_logical_and(cn_isnan(x), cn_isnan(y)));
  cn_tensor *share = cn_true_divide(v->g[0], cn_sum(ties));
  v->gin[0] = cn_where(ties, share, cn_int(0));
  return cn_err();
}

/* mode(input, dim, keepdim): in order, the place where the longest run of equals ends. The smallest of several longest
 * is found first; sorts are stable, so it is the last of its equals in input. */
static int mode_decompose(cn_call *c)
{
  int dim, status = pick_only(c, &dim);
  if (status) return status < 0 ? status : CN_OK;
  cn_tensor *x = c->in[0], *sorted, *order, *start;
  int64_t n = x->d.shape[dim], along[CN_MAX_DIMS];
  cn_sort(&sorted, &order, cn_detach(x), .dim = cni_option(dim), .stable = true);
  for (int i = 0; i < x->d.ndim; i++) along[i] = i == dim ? n : 1;
  cn_tensor *i = cn_reshape(cn_arange(0, (double)n, .dtype = CN_I64, .device = c->device), along, (size_t)x->d.ndim);
  cn_tensor *changes = cn_ne(cn_slice(sorted, dim, 1, n), cn_slice(sorted, dim, 0, n - 1));
  cn_tensor *first = cn_ones_like(cn_slice(sorted, dim, 0, 1), .dtype = CN_BOOL);
  changes = cn_cat(CN_TENSORS(first, changes), .dim = cni_option(dim));
  cn_cummax(&start, NULL, cn_where(changes, i, cn_int(0)), dim);
  cn_tensor *end = cn_argmax(cn_sub(i, start), dim, .keepdim = true);
  return cn_err() ? cn_err() : pick(c, dim, cn_gather(order, dim, end), cni_arg_bool(c->args, 2));
}

/* ---- quantile(input, q, dim, keepdim, interpolation) ---- */

static const char *const MODES[] = {"linear", "lower", "higher", "midpoint", "nearest"};
enum { LINEAR, LOWER, HIGHER, MIDPOINT, NEAREST, NMODES };
enum { SELECTED_FROM = 512 }; /* elements: a shorter line is quicker sorted */

static int mode_of(const cn_call *c)
{
  for (int i = 0; i < NMODES; i++)
    if (cni_arg_is(c->args, 4, MODES[i])) return i;
  return cn_call_fail(c, CN_ERR_VALUE,
                      "interpolation must be 'linear', 'lower', 'higher', 'midpoint' or 'nearest', not '%s'",
                      cni_arg_str(c->args, 4));
}

/* A q that is a number, not a tensor, is part of the call as an attribute is, on every device and in a graph. */
static double part_of(const cn_desc *q) { return cni_load_f64(q->data, 0, q->dtype); }

static int check_q(const cn_call *c)
{
  const cn_desc *x = &c->in[0]->d, *q = &c->in[1]->d;
  if (x->dtype != CN_F32 && x->dtype != CN_F64)
    return cn_call_fail(c, CN_ERR_DTYPE, "takes float32 or float64, not %s; cast it first",
                        cn_dtype_name((cn_dtype)x->dtype));
  if (x->numel == 0) return cn_call_fail(c, CN_ERR_VALUE, "input has no elements");
  if (q->ndim > 1)
    return cn_call_fail(c, CN_ERR_SHAPE, "q must be a number or a vector, not of %d dimensions", q->ndim);
  if (!q->weak && q->dtype != x->dtype)
    return cn_call_fail(c, CN_ERR_DTYPE, "q is of type %s, input of type %s; cast one with cn_cast",
                        cn_dtype_name((cn_dtype)q->dtype), cn_dtype_name((cn_dtype)x->dtype));
  if (q->weak && !q->data)
    return cn_call_fail(c, CN_ERR_CAPTURE, "q is an input of the graph that is captured, and its value is looked at");
  if (!q->weak) cn_check_within(cn_detach(c->in[1]), 0, 1, "quantile: q must be between 0 and 1");
  else if (!(part_of(q) >= 0 && part_of(q) <= 1))
    return cn_call_fail(c, CN_ERR_VALUE, "q must be between 0 and 1, but is %g", part_of(q));
  return cn_err();
}

/* sorted: (..., n); the ranks wanted of it: (..., count of q) */
static cn_tensor *ranks_of(cn_tensor *sorted, cn_tensor *q, bool past_nan)
{
  int64_t n = cn_size(sorted, -1);
  cn_tensor *nan = cn_isnan(sorted);
  if (!past_nan) {
    cn_tensor *any = cn_any(nan, .dim = CN_INTS(-1), .keepdim = true);
    return cn_where(any, cn_int(n - 1), cn_mul(q, cn_int(n - 1))); /* NaN stands last */
  }
  cn_tensor *last = cn_sub(cn_int(n - 1), cn_sum(nan, .dim = CN_INTS(-1), .keepdim = true));
  return cn_clamp_min(cn_mul(q, last), cn_int(0));
}

static cn_tensor *at_ranks(cn_tensor *sorted, cn_tensor *rank, int mode)
{
  if (mode == LOWER) rank = cn_floor(rank);
  else if (mode == HIGHER) rank = cn_ceil(rank);
  else if (mode == NEAREST) rank = cn_round(rank);
  cn_tensor *place = cn_cast(rank, CN_I64), *below = cn_gather(sorted, -1, place);
  if (mode != LINEAR && mode != MIDPOINT) return below;
  cn_tensor *above = cn_gather(sorted, -1, cn_cast(cn_ceil(rank), CN_I64));
  return cn_lerp(below, above, mode == MIDPOINT ? cn_num(0.5) : cn_sub(rank, place));
}

static cn_tensor *at_place(cn_tensor *x, int64_t place, cn_tensor *worst, cn_tensor *nan)
{
  cn_tensor *index;
  cn_kthvalue(NULL, &index, cn_detach(x), place + 1, .dim = -1, .keepdim = true);
  return cn_gather(x, -1, cn_where(nan, worst, index));
}

/* A quantile by a number q is found without sorting. x: (..., n); the result: (..., 1) */
static cn_tensor *selected(cn_tensor *x, double q, int mode)
{
  int64_t n = cn_size(x, -1);
  cn_tensor *best, *worst;
  cn_max_dim(&best, &worst, cn_detach(x), -1, .keepdim = true); /* of a NaN, if there is one */
  cn_tensor *nan = cn_isnan(best);
  double rank = x->d.dtype == CN_F32 ? (double)((float)q * (float)(n - 1)) : q * (double)(n - 1);
  if (mode == LOWER) rank = floor(rank);
  else if (mode == HIGHER) rank = ceil(rank);
  else if (mode == NEAREST) rank = nearbyint(rank);
  double low = floor(rank), high = ceil(rank);
  cn_tensor *found = at_place(x, (int64_t)low, worst, nan);
  if (high == low) return found;
  return cn_lerp(found, at_place(x, (int64_t)high, worst, nan), cn_num(mode == MIDPOINT ? 0.5 : rank - low));
}

static int quantile_of(cn_call *c, bool past_nan)
{
  cn_tensor *x = c->in[0], *q = c->in[1], *sorted, *y;
  const cn_value *along = &c->args[2];
  int ndim = x->d.ndim, mode = mode_of(c), status = check_q(c), dim = 0;
  bool all = along->tag == CN_V_NONE, keepdim = cni_arg_bool(c->args, 3), several = q->d.ndim == 1;
  if (!all) dim = cn_call_dim(c, along->u.i, ndim);
  if (status || mode < 0 || dim < 0) return cn_err();
  int64_t shape[CN_MAX_DIMS] = {0}, last = -1, from = dim, first = 0, m = q->d.numel;
  if (ndim == 0 && several) x = cn_reshape(x, CN_SHAPE(1));
  if (all || ndim == 0) x = cn_reshape(x, CN_SHAPE(-1));
  else if (!all) x = cn_movedim(x, &from, 1, &last, 1);
  if (cn_err()) return cn_err();
  bool selects = !past_nan && q->d.weak && cn_size(x, -1) >= SELECTED_FROM;
  if (selects) y = selected(x, part_of(&q->d), mode);
  else {
    cn_sort(&sorted, NULL, x);
    if (cn_err()) return cn_err();
    q = q->d.weak ? cn_cast(q, (cn_dtype)x->d.dtype) : cn_reshape(q, CN_SHAPE(-1)); /* 0-d: fits any device */
    cn_tensor *rank = cni_in_type(ranks_of(sorted, q, past_nan), x->d.dtype);
    memcpy(shape, cn_shape(sorted), (size_t)cn_ndim(sorted) * sizeof *shape);
    shape[cn_ndim(sorted) - 1] = m;
    y = at_ranks(sorted, cn_expand(rank, shape, (size_t)cn_ndim(sorted)), mode); /* (..., m) */
  }
  y = several ? cn_movedim(y, &last, 1, &first, 1) : cn_squeeze(y, .dim = CN_INTS(-1));
  if (keepdim && !all && ndim) y = cn_unsqueeze(y, dim + several);
  for (int i = 0; keepdim && all && i < ndim; i++) y = cn_unsqueeze(y, -1);
  c->out[0] = several ? cn_contiguous(y) : y;
  return cn_err();
}
static int quantile_decompose(cn_call *c) { return quantile_of(c, false); }
static int nanquantile_decompose(cn_call *c) { return quantile_of(c, true); }

/* clang-format off */
const cn_op cni_quantile_ops[] = {
  {.sig = "median(Tensor input) -> Tensor ; method",
   .doc = "The middle one of all elements in order, the lower of two; NaN if there is one. Equals share the gradient.",
   .infer = median_infer, .vjp = median_vjp, .decompose = median_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "median_dim(Tensor input, int dim, bool keepdim=False) "
          "-> (Tensor values, Tensor indices) ; method overload_median",
   .doc = "The middle element along a dimension, the lower of two, and its index; NaN if there is one. The gradient "
          "goes to that index.",
   .flags = CN_OP_COMPOSITE, .decompose = median_dim_decompose},
  {.sig = "nanmedian(Tensor input) -> Tensor ; method",
   .doc = "The middle one of all elements that are not NaN, the lower of two. Equals share the gradient.",
   .infer = median_infer, .vjp = median_vjp, .decompose = nanmedian_decompose, .needs = {[0] = CN_IN(0) | CN_OUT(0)}},
  {.sig = "nanmedian_dim(Tensor input, int dim, bool keepdim=False) "
          "-> (Tensor values, Tensor indices) ; method overload_nanmedian",
   .doc = "The middle one along a dimension of those that are not NaN, and its index.",
   .flags = CN_OP_COMPOSITE, .decompose = nanmedian_dim_decompose},
  {.sig = "mode(Tensor input, int dim=-1, bool keepdim=False) -> (Tensor values, Tensor indices) ; method grad_fn",
   .doc = "The element that occurs most often along a dimension, the smallest of several, and its last index.",
   .flags = CN_OP_COMPOSITE, .decompose = mode_decompose},
  {.sig = "quantile(Tensor input, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, "
          "str interpolation='linear') -> Tensor ; method amp_f32_host",
   .doc = "The element below which the part q of all elements (or of those along dim) lies, between two by "
          "interpolation: 'linear', 'lower', 'higher', 'midpoint' or 'nearest'. A vector q gives a leading dimension. "
          "NaN if there is one.",
   .flags = CN_OP_COMPOSITE, .decompose = quantile_decompose},
  {.sig = "nanquantile(Tensor input, Tensor|Scalar q, int? dim=None, bool keepdim=False, *, "
          "str interpolation='linear') -> Tensor ; method amp_f32_host",
   .doc = "The quantile of the elements that are not NaN.",
   .flags = CN_OP_COMPOSITE, .decompose = nanquantile_decompose},
};
/* clang-format on */
CNI_FAMILY(quantile);
